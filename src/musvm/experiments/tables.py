"""Results as Markdown: our mean error and its spread, the paper's beside it, paired differences.

Two models of a partition see the same points, so their errors are compared in pairs. With d_p the
difference in partition p, the tables give the mean of d, its standard error and the p-value of
the paired t test. Partitions share points, so all three speak of this data set and not of others
like it, and many comparisons stand in one table: a p-value just below 0.05 among them is nothing
to build on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

from musvm._input.tensors import FloatArray
from musvm.experiments.settings import PAPER_SECONDS, TABLE_2, TABLE_3, TABLE_4, Published
from musvm.experiments.store import Record

ABSENT = "–"
CRITERION_NAMES = {
    "cv": "5-fold cross-validation",
    "span-2016": "bound, eq. (8)",
    "span": "bound, span of every support vector",
    "loo-estimate": "leave-one-out, estimated",
    "loo": "leave-one-out, exact",
}


@dataclass(frozen=True)
class Paired:
    """A mean difference over partitions; `p` is None where all differences are equal."""

    mean: float
    standard_error: float
    p: float | None


@dataclass(frozen=True)
class Group:
    """Cells that differ in nothing but the partition, in the order of the partitions."""

    universum: str
    m: int
    criterion: str
    cells: list[Record]

    def errors(self, model: str) -> FloatArray:
        """Test errors in per cent."""
        return np.array([100.0 * cell[model]["error"] for cell in self.cells])

    def times(self, clock: str) -> FloatArray:
        """Seconds that the selection took: "seconds" on the wall, or "cpu_seconds"."""
        return np.array([cell["times"][clock] for cell in self.cells])


def groups_of(results: Record) -> list[Group]:
    """The groups of a results file, in the order in which they first appear."""
    found: dict[tuple[str, int, str], list[Record]] = {}
    for cell in results["cells"]:
        found.setdefault((cell["universum"], cell["m"], cell["criterion"]), []).append(cell)
    return [
        Group(*key, sorted(cells, key=lambda cell: int(cell["partition"])))
        for key, cells in found.items()
    ]


def paired(ours: FloatArray, reference: FloatArray) -> Paired:
    """`ours` minus `reference`."""
    d = ours - reference
    if len(d) < 2 or np.ptp(d) < 1e-9:  # the t statistic is 0/0 or infinite
        return Paired(float(d.mean()), 0.0 if len(d) > 1 else math.nan, None)
    standard_error = float(d.std(ddof=1) / math.sqrt(len(d)))
    return Paired(float(d.mean()), standard_error, float(ttest_1samp(d, 0.0).pvalue))


def markdown(results: Record) -> str:
    """The table of a results file."""
    make = {"table2": _table2, "table3": _table3, "table4": _table4, "timing": _timing}
    header, *rows = make[results["table"]](results)
    return as_markdown(header, rows)


def as_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text and whose others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows)) + "\n"


def describe(results: Record) -> str:
    """One paragraph on what was run."""
    conditions, setting = results["conditions"], results["conditions"]["setting"]
    kernel = "linear kernel"
    if setting["kernel"] == "rbf":
        kernel = f"RBF kernel, gamma = {conditions['gamma']:g}"
    L = len(setting["classes"])
    text = (
        f"{setting['what'][0].upper()}{setting['what'][1:]}. {results['partitions']} random "
        f"partitions: {setting['n_train']} training and {setting['n_test']} test points for each "
        f"of {L} classes; {kernel}; seed {conditions['seed']}."
    )
    criterion = results["cells"][0]["criterion"]
    if criterion != "cv":  # Tables that compare criteria begin with cross-validation.
        text += f" Models chosen by: {CRITERION_NAMES[criterion]}."
    return " ".join([text, *_departures(conditions)])


def _departures(conditions: Record) -> Iterator[str]:
    """Sentences on what differs from the protocol of the paper."""
    if conditions["split"] == "tracks":
        yield "The frames of one physical sign are all on one side, in cross-validation as well."
    if conditions["loss"] == "max":
        yield "Universum loss of eq. (2), one slack per point."
    if conditions["weight"] == "searched":
        yield "C*/C is searched along with Delta."
    if conditions["universum"] == "random-average":
        yield "The universum are averages of training points, one of each class."
    if len(conditions["C"]) == 1:
        yield f"C is {conditions['C'][0]:g} throughout."
    if conditions["ties"] == "hinge":
        yield "Of several C with the same error, the one with the smallest hinge loss."
    if conditions["model"] == "one-vs-rest":
        yield "One binary universum SVM per class against the rest, in the place of the direct one."
    features = conditions["features"]
    if conditions["dataset"] == "gtsrb":
        gradients = "Gradients of the strongest colour" if features["color"] else "Grey gradients"
        area = "the image cropped to the sign" if features["roi"] else "the whole image"
        factor = "" if features["scale"] == 1 else f", features times {features['scale']:g}"
        yield f"{gradients} of {area}{factor}."


def spread(errors: FloatArray) -> str:
    """Mean and standard deviation, as the paper writes them."""
    if len(errors) < 2:
        return f"{errors.mean():.2f}"
    return f"{errors.mean():.2f} ({errors.std(ddof=1):.2f})"


def published(value: Published | None) -> str:
    return ABSENT if value is None else f"{value[0]:.2f} ({value[1]:.2f})"


def difference(pair: Paired) -> str:
    return f"{pair.mean:+.2f} ± {pair.standard_error:.2f}"


def p_value(pair: Paired) -> str:
    return ABSENT if pair.p is None else f"{pair.p:.2g}"


def _compared(group: Group, model: str, reference: FloatArray) -> list[str]:
    pair = paired(group.errors(model), reference)
    return [difference(pair), p_value(pair)]


def _table2(results: Record) -> Iterator[list[str]]:
    paper = TABLE_2.get(results["conditions"]["setting"]["published"], {})
    yield ["model", "test error (%)", "paper", "minus plain SVM", "p"]
    groups = groups_of(results)
    yield ["plain SVM", spread(groups[0].errors("svm")), published(paper.get("")), ABSENT, ABSENT]
    for group in groups:
        plain, name = group.errors("svm"), universum_name(results, group)
        yield [
            f"MU-SVM, {name}",
            spread(group.errors("mu_svm")),
            published(paper.get(name)),
            *_compared(group, "mu_svm", plain),
        ]
        yield [
            f"MU-SVM, {name}, or plain SVM",
            spread(group.errors("either")),
            ABSENT,
            *_compared(group, "either", plain),
        ]


def _table3(results: Record) -> Iterator[list[str]]:
    key = results["conditions"]["setting"]["published"]
    paper = {"cv": TABLE_2.get(key, {}), "span-2016": TABLE_3.get(key, {})}
    yield [
        *("universum", "chosen by", "plain SVM (%)", "MU-SVM (%)", "paper"),
        *("minus plain SVM", "p", "minus MU-SVM by CV", "p"),
    ]
    groups = groups_of(results)
    by_cv = {group.universum: group.errors("mu_svm") for group in groups if group.criterion == "cv"}
    for group in sorted(groups, key=lambda group: _position(results, group.universum)):
        yield [
            group.universum,
            CRITERION_NAMES[group.criterion],
            spread(group.errors("svm")),
            spread(group.errors("mu_svm")),
            published(paper.get(group.criterion, {}).get(group.universum)),
            *_compared(group, "mu_svm", group.errors("svm")),
            *(
                [ABSENT, ABSENT]
                if group.criterion == "cv"
                else _compared(group, "mu_svm", by_cv[group.universum])
            ),
        ]


def _table4(results: Record) -> Iterator[list[str]]:
    paper = TABLE_4.get(results["conditions"]["setting"]["published"], {})
    yield ["model", "m", "test error (%)", "paper", "minus plain SVM", "p"]
    groups = groups_of(results)
    plain = groups[0].errors("svm")
    yield ["plain SVM", ABSENT, spread(plain), published(paper.get(("", 0))), ABSENT, ABSENT]
    for group in groups:
        name = universum_name(results, group)
        yield [
            f"MU-SVM, {name}",
            str(group.m),
            spread(group.errors("mu_svm")),
            published(paper.get((name, group.m))),
            *_compared(group, "mu_svm", group.errors("svm")),
        ]


def _timing(results: Record) -> Iterator[list[str]]:
    """Shares are of CPU seconds, which other programs on the machine disturb less."""
    is_papers = results["conditions"]["dataset"] == "gtsrb"
    yield [
        *("chosen by", "seconds", "CPU seconds", "share of CV", "paper, seconds"),
        *("paper, share of CV", "plain SVM (%)", "MU-SVM (%)"),
    ]
    groups = groups_of(results)
    means = {group.criterion: group.times("cpu_seconds").mean() for group in groups}
    for group in groups:
        theirs = PAPER_SECONDS.get(group.criterion) if is_papers else None
        yield [
            CRITERION_NAMES[group.criterion],
            spread(group.times("seconds")),
            spread(group.times("cpu_seconds")),
            f"{means[group.criterion] / means['cv']:.2f}",
            ABSENT if theirs is None else f"{theirs:.0f}",
            ABSENT if theirs is None else f"{theirs / PAPER_SECONDS['cv']:.2f}",
            spread(group.errors("svm")),
            spread(group.errors("mu_svm")),
        ]


def universum_name(results: Record, group: Group) -> str:
    """What the universum of a group is called; averages take the place of the setting's."""
    made = results["conditions"]["universum"]
    return group.universum if made == "samples" else str(made)


def _position(results: Record, universum: str) -> int:
    names: list[Any] = [entry["name"] for entry in results["conditions"]["setting"]["universa"]]
    return names.index(universum)
