"""What the report says in words; every sentence follows from the numbers that it names."""

from __future__ import annotations

from musvm.report import text
from musvm.report.content import model_name
from musvm.report.models import Described, Family
from musvm.report.subject import Subject
from musvm.search.criteria import in_words
from musvm.universum.diagnosis import UniversumDiagnosis

MAX_SENTENCE = 400  # characters; a sentence may quote the name of a class


def summary(subject: Subject, models: list[Described], criterion: str) -> list[str]:
    """The result first, with the errors of the search or of the models; then the effect."""
    said = [_outcome(subject, models, criterion)]
    said.append(_effect(*models) if len(models) > 1 else "No universum was given.")
    return said


def _outcome(subject: Subject, models: list[Described], criterion: str) -> str:
    where = f"C = {text.shortest(subject.model.C)}"
    if subject.search is None:
        found = ", ".join(
            f"{text.percent(model.left_out_error)} for the {model_name(model)}" for model in models
        )
        return f"With {where}, the {criterion} is {found}."
    comparison = subject.search.comparison_
    plain, universum = comparison.plain, comparison.universum
    if universum is None:
        untried = f" {comparison.decision}" if comparison.was_given else ""
        error = text.percent(plain.error)
        return f"The search chose {where}. The {comparison.criterion} is {error}.{untried}"
    chosen = "MU-SVM" if comparison.uses_universum else "plain SVM"
    return (
        f"The search chose the {chosen}, with {where}. The {comparison.criterion} is "
        f"{text.percent(plain.error)} for the best plain SVM and {text.percent(universum.error)} "
        f"for the best MU-SVM; {comparison.change}. {comparison.decision}"
    )


def _effect(plain: Described, other: Described) -> str:
    before, after = plain.measures, other.measures
    assert before is not None
    assert after is not None
    return (
        f"With the universum in the training, the mean spread of its decision values goes from "
        f"{before.spread:.3f} to {after.spread:.3f}, and the evenness of its labels from "
        f"{before.label_entropy:.3f} to {after.label_entropy:.3f} (1 is uniform)."
    )


def search(subject: Subject) -> str:
    """How the cells were judged."""
    n_cells = len(subject.results["criterion"])
    listed = {"soft_error": "soft error", "criterion": "bound", "score": "mean score of the folds"}
    judged = f"judged by the {in_words(subject.judge)} and "
    return (
        f"{text.count(n_cells, 'setting')} of the parameters, "
        f"{'' if subject.ranked_by == 'score' else judged}listed by their "
        f"{listed[subject.ranked_by]}, the best first. "
        "Step a is the plain SVM; step b adds the universum."
    )


def models(subject: Subject, family: Family, shown: list[Described]) -> list[str]:
    """Which models are compared, which was given, and how they relate to those of the search."""
    if len(shown) == 1:
        said = ["No universum was given, so there is only the plain SVM."]
    else:
        given, other = shown if family.model_is_plain else reversed(shown)
        said = [
            f"The {model_name(given)} is the model that the report is about. The "
            f"{model_name(other)} was fitted for comparison, with the same C, kernel and weights."
        ]
    errors = f"Errors from here on are the {in_words(family.method)} of these models"
    if subject.comparison is None:
        return [*said, f"{errors}."]
    return [
        *said,
        f"{errors}; those of the search above are the {subject.comparison.criterion} of its "
        "finalists.",
        *(
            f"The best {name} of the search is another model than the {name} from here on: it "
            f"has {parameters}."
            for name, parameters in subject.finalists_elsewhere
        ),
    ]


def left_out(own: Described, method: str) -> str:
    """How the points that are left out fare, and what that is."""
    n, error = len(own.projections.codes), own.left_out_error
    estimated = "" if method == "loo" else ", which is estimated from the one with it"
    found = f"{text.count(round(error * n), 'error')} in {text.count(n, 'point')}"
    found = f"{found}, {text.percent(error)},"
    return (
        f"Every training point is judged by the model without it{estimated}: {found} for the "
        f"{model_name(own)}."
    )


def diagnosis(universa: list[UniversumDiagnosis]) -> list[str]:
    """The measures of the whole universum first, then of its parts."""
    whole, *parts = universa
    return [
        text.as_text(whole.sentence, MAX_SENTENCE),
        *(text.as_text(f"{part.name}: {part.sentence}", MAX_SENTENCE) for part in parts),
        "These are measures of what the plain SVM makes of the universum before it is used. The "
        "comparison of the two models tells whether it helps.",
    ]


def certificate(family: Family, shown: list[Described]) -> list[str]:
    """What the gaps mean."""
    said = []
    if family.is_convex:
        said += [
            "A duality gap is a proof: no other model has an objective of the same problem that "
            "is lower by more than the gap.",
            "A label is certified if its lead over the runner-up exceeds √(2 · gap · K(x, x)): "
            "the exact optimum gives the point the same label.",
        ]
    else:
        said.append(
            "The kernel matrix is not positive semi-definite, so the problem is not convex. The "
            "gap certifies a stationary point to this accuracy, not the optimum, and no labels."
        )
    said += [
        f"The solver stopped before the {model_name(model)} reached the relative gap asked for; "
        "raise max_iter or scale the features."
        for model in shown
        if not model.certificate.converged
    ]
    return said
