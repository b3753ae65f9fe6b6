"""What the report says in words; every sentence follows from the numbers that it names."""

from __future__ import annotations

import math

from musvm.report import text
from musvm.report.content import model_name
from musvm.report.models import Described, Family
from musvm.report.subject import Subject
from musvm.universum.diagnosis import UniversumDiagnosis

MAX_SENTENCE = 400  # characters; a sentence may quote the name of a class


def summary(subject: Subject, models: list[Described], errors: list[float]) -> list[str]:
    """The result first, with the errors by the criterion; then what the universum changes."""
    said = [_outcome(subject, models, errors)]
    said.append(_effect(*models) if len(models) > 1 else "No universum was given.")
    return said


def _outcome(subject: Subject, models: list[Described], errors: list[float]) -> str:
    where = f"C = {text.shortest(subject.model.C)}"
    if subject.search is None:
        found = ", ".join(
            f"{text.percent(error)} for the {model_name(model)}"
            for model, error in zip(models, errors, strict=True)
        )
        return f"With {where}, the {subject.criterion} is {found}."
    search = subject.search
    found = f"{subject.criterion} {text.percent(search.best_score_)}"
    if len(models) == 1:
        return f"The search chose {where}: {found}."
    gain, uncertainty = search.universum_gain_, 100 * search.universum_gain_se_
    if math.isnan(gain):
        return f"The search chose {where}: {found}. No cell of it used the universum."
    if search.universum_helps_:
        return (
            f"The search chose the {model_name(models[1])}, with {where}: {found}, against "
            f"{text.percent(search.best_score_ + gain)} for the best plain SVM. The universum "
            f"helps by {100 * gain:.1f} points, with a standard error of {uncertainty:.1f}."
        )
    return (
        f"The search chose the plain SVM, with {where}: {found}. The universum does not help: the "
        f"best MU-SVM has {text.percent(search.best_score_ - gain)}; the standard error of the "
        f"difference is {uncertainty:.1f} points."
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
    n_cells = len(subject.results["error"])
    return (
        f"{text.count(n_cells, 'cell')}, judged by the {subject.criterion}. Step a is the plain "
        "SVM; step b adds the universum."
    )


def models(family: Family, shown: list[Described]) -> str:
    """Which models are compared, and which of them is the one that was given."""
    if len(shown) == 1:
        return "No universum was given, so there is only the plain SVM."
    given, other = shown if family.model_is_plain else reversed(shown)
    return (
        f"The {model_name(given)} is the model that the report is about. The {model_name(other)} "
        "was fitted for comparison, with the same C, kernel and weights."
    )


def diagnosis(universa: list[UniversumDiagnosis]) -> list[str]:
    """The verdict on the whole universum first, then on its parts."""
    whole, *parts = universa
    return [
        text.as_text(whole.sentence, MAX_SENTENCE),
        *(text.as_text(f"{part.name}: {part.sentence}", MAX_SENTENCE) for part in parts),
        "The verdict is a guess from what the plain SVM makes of the universum before it is used. "
        "The comparison of the two models is the test.",
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
