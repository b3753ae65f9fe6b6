"""The tables of the paper of 2016, one at a time, on any of the settings.

    table2   test errors of the plain SVM and of the MU-SVM with each universum
    table3   the same, models chosen by cross-validation and by bounds
    table4   the same for universa of several sizes
    timing   seconds that the selection takes

Results are a list of cells (`protocol.py`); a *group* are those that differ in the partition only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from musvm.experiments.data import Data, FloatArray, load_data
from musvm.experiments.experiment import Experiment
from musvm.experiments.protocol import Cell, Study, run_cell
from musvm.experiments.settings import (
    DELTA_GRID,
    FOLDS,
    PAPER_SECONDS,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    Setting,
)
from musvm.experiments.statistics import (
    ABSENT,
    as_markdown,
    difference,
    made_by,
    p_value,
    paired,
    published,
    spread,
)
from musvm.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUNDS = ("span-2016", "span", "loo-estimate")
CRITERION_NAMES = {
    "cv": "5-fold cross-validation",
    "span-2016": "bound, eq. (8)",
    "span": "bound, span of every support vector",
    "loo-estimate": "leave-one-out, estimated",
    "loo": "leave-one-out, exact",
}
SIGNIFICANT = 0.05


def cells_of(table: str, setting: Setting, partitions: int, criterion: str = "cv") -> list[Cell]:
    """The cells of a table, partition by partition; `criterion` is for Tables 2 and 4."""
    names = [universum.name for universum in setting.universa]
    criteria: Sequence[str] = [criterion]
    sizes: Sequence[int] = [setting.m]
    if table == "table3":
        criteria = ["cv", *BOUNDS]
    if table == "table4":
        sizes = setting.sizes
    if table == "timing":
        names, criteria = names[:1], ["cv", *BOUNDS, "loo"]
    return [
        Cell(partition, name, m, criterion)
        for partition in range(partitions)
        for criterion in criteria
        for name in names
        for m in sizes
    ]


def experiment(table: str, study: Study, partitions: int, criterion: str = "cv") -> Experiment:
    """One table of one setting."""
    conditions = {
        "table": table,
        "partitions": partitions,
        **asdict(study),
        "delta": list(DELTA_GRID),
        "folds": FOLDS,
    }
    return Experiment(
        name=slug(table, study, criterion),
        conditions=conditions,
        tasks=[asdict(cell) for cell in cells_of(table, study.setting, partitions, criterion)],
        load=partial(_load, study),
        work=partial(_work, study),
        page=page,
        draw=lambda results: {"": draw_differences(results)},
        times=table == "timing",
    )


def slug(table: str, study: Study, criterion: str = "cv") -> str:
    """The name of a results file: the table, the data set, and what departs from the paper."""
    departures = {**study.departures, **({} if criterion == "cv" else {"criterion": criterion})}
    words = [f"{name}-{value}" for name, value in departures.items()]
    return "_".join([table, study.setting.dataset, *words])


def _load(study: Study, path: Path | None, n_jobs: int) -> Data:
    return load_data(study.setting, path, study.features, n_jobs)


def _work(study: Study, data: Data, task: Record) -> Record:
    return run_cell(data, study, Cell(**task))


# ---------------------------------------------------------------------------------------------
# From cells to Markdown


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


def groups_of(cells: Sequence[Record]) -> list[Group]:
    """The groups, in the order in which they first appear."""
    found: dict[tuple[str, int, str], list[Record]] = {}
    for cell in cells:
        found.setdefault((cell["universum"], cell["m"], cell["criterion"]), []).append(cell)
    return [
        Group(*key, sorted(cells, key=lambda cell: int(cell["partition"])))
        for key, cells in found.items()
    ]


TITLES = {
    "table2": "Table 2: plain SVM against MU-SVM",
    "table3": "Table 3: cross-validation against bounds",
    "table4": "Table 4: the size of the universum",
    "timing": "How long the selection takes",
}


def page(results: Record) -> str:
    """The section of one table, with a title and the command that made it."""
    conditions = results["conditions"]
    title = TITLES[conditions["table"]]
    command = f"musvm reproduce {conditions['table']} --dataset {conditions['setting']['dataset']}"
    return f"# {title}\n\n{made_by(results, command)}\n\n{section(results)}"


def section(results: Record) -> str:
    """Description and table of the results of one table, and what Table 2 says."""
    conditions = results["conditions"]
    parts = [
        describe(conditions, results["cells"]),
        table_of(conditions["table"], conditions["setting"], results["cells"]).rstrip(),
    ]
    if conditions["table"] == "table2":
        parts.append(verdict(conditions["setting"], results["cells"]))
    if conditions["table"] == "timing":
        parts.append(
            "Selection only, one process with one thread. Shares are of CPU seconds, which other "
            "programs disturb\nless. The paper's times are of another machine and another solver, "
            "so only the shares can be compared."
        )
    return "\n\n".join(parts) + "\n"


def table_of(table: str, setting: Record, cells: Sequence[Record]) -> str:
    """The Markdown of a table, from its cells; `setting` as a record."""
    make = {"table2": _table2, "table3": _table3, "table4": _table4, "timing": _timing}
    header, *rows = make[table](setting, groups_of(cells))
    return as_markdown(header, rows)


def describe(conditions: Record, cells: Sequence[Record]) -> str:
    """One paragraph on what was run."""
    setting = conditions["setting"]
    kernel = "linear kernel"
    if setting["kernel"] == "rbf":
        kernel = f"RBF kernel, gamma = {setting['gamma']:g}"
    partitions = len({cell["partition"] for cell in cells})
    text = (
        f"{setting['what'][0].upper()}{setting['what'][1:]}. {partitions} random "
        f"partitions: {setting['n_train']} training and {setting['n_test']} test points for each "
        f"of {len(setting['classes'])} classes; {kernel}; seed {conditions['seed']}."
    )
    criterion = cells[0]["criterion"]
    if criterion != "cv":  # Tables that compare criteria begin with cross-validation.
        text += f" Models chosen by: {CRITERION_NAMES[criterion]}."
    return " ".join([text, *_departures(conditions)])


def _departures(conditions: Record) -> Iterator[str]:
    """Sentences on what differs from the protocol of the paper."""
    if conditions["split"] == "tracks":
        yield "The frames of one physical sign are all on one side, in cross-validation as well."
    if conditions["loss"] == "max":
        yield "Universum loss of eq. (2), one slack per point."
    if conditions["model"] == "one-vs-rest":
        yield "One binary universum SVM per class against the rest, in the place of the direct one."
    if conditions["model"] == "one-vs-one":
        yield "One binary universum SVM per pair of classes, in the place of the direct one."
    if conditions["features"] != "hog":
        yield f"Features: {conditions['features']}."


def verdict(setting: Record, cells: Sequence[Record]) -> str:
    """What Table 2 says of each universum, and what the paper said."""
    paper = TABLE_2.get(setting["published"], {})
    lines = []
    for group in groups_of(cells):
        pair = paired(group.errors("mu_svm"), group.errors("svm"))
        line = f"- {group.universum}: the MU-SVM makes {_direction(pair.mean, pair.p)}"
        if group.universum in paper:
            gap = paper[group.universum][0] - paper[""][0]
            line += f" In the paper it made {abs(gap):.2f} points {_word(gap)}."
        lines.append(line)
    return "\n".join(lines)


def _direction(mean: float, p: float | None) -> str:
    if p is None or p >= SIGNIFICANT:
        mean_text = f"{mean:+.2f}".replace("-", "−")
        return f"neither clearly more nor clearly fewer errors ({mean_text} points)."
    return f"{abs(mean):.2f} points {_word(mean)} errors (p = {p:.2g})."


def _word(difference: float) -> str:
    return "fewer" if difference < 0 else "more"


def _compared(group: Group, model: str, reference: FloatArray) -> list[str]:
    pair = paired(group.errors(model), reference)
    return [difference(pair), p_value(pair)]


def _table2(setting: Record, groups: list[Group]) -> Iterator[list[str]]:
    paper = TABLE_2.get(setting["published"], {})
    yield ["model", "test error (%)", "paper", "minus plain SVM", "p", "paper"]
    yield [
        *("plain SVM", spread(groups[0].errors("svm")), published(paper.get(""))),
        *(ABSENT, ABSENT, ABSENT),
    ]
    for group in groups:
        plain, name = group.errors("svm"), group.universum
        gap = f"{paper[name][0] - paper[''][0]:+.2f}".replace("-", "−") if name in paper else ABSENT
        yield [
            f"MU-SVM, {name}",
            spread(group.errors("mu_svm")),
            published(paper.get(name)),
            *_compared(group, "mu_svm", plain),
            gap,
        ]
        yield [
            f"MU-SVM, {name}, or plain SVM",
            spread(group.errors("either")),
            ABSENT,
            *_compared(group, "either", plain),
            ABSENT,
        ]


def _table3(setting: Record, groups: list[Group]) -> Iterator[list[str]]:
    key = setting["published"]
    paper = {"cv": TABLE_2.get(key, {}), "span-2016": TABLE_3.get(key, {})}
    yield [
        *("universum", "chosen by", "plain SVM (%)", "MU-SVM (%)", "paper"),
        *("minus plain SVM", "p", "minus MU-SVM by CV", "p"),
    ]
    by_cv = {group.universum: group.errors("mu_svm") for group in groups if group.criterion == "cv"}
    names: list[Any] = [entry["name"] for entry in setting["universa"]]
    for group in sorted(groups, key=lambda group: names.index(group.universum)):
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


def _table4(setting: Record, groups: list[Group]) -> Iterator[list[str]]:
    paper = TABLE_4.get(setting["published"], {})
    yield ["model", "m", "test error (%)", "paper", "minus plain SVM", "p"]
    plain = groups[0].errors("svm")
    yield ["plain SVM", ABSENT, spread(plain), published(paper.get(("", 0))), ABSENT, ABSENT]
    for group in groups:
        yield [
            f"MU-SVM, {group.universum}",
            str(group.m),
            spread(group.errors("mu_svm")),
            published(paper.get((group.universum, group.m))),
            *_compared(group, "mu_svm", group.errors("svm")),
        ]


def _timing(setting: Record, groups: list[Group]) -> Iterator[list[str]]:
    """Shares are of CPU seconds, which other programs on the machine disturb less."""
    yield [
        *("chosen by", "seconds", "CPU seconds", "share of CV", "paper, seconds"),
        *("paper, share of CV", "plain SVM (%)", "MU-SVM (%)"),
    ]
    means = {group.criterion: group.times("cpu_seconds").mean() for group in groups}
    for group in groups:
        theirs = PAPER_SECONDS.get(group.criterion) if setting["published"] == "gtsrb" else None
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


def draw_differences(results: Record) -> Figure:
    """MU-SVM minus plain SVM in every partition, and the mean with two standard errors."""
    from matplotlib.figure import Figure

    groups = groups_of(results["cells"])
    figure = Figure(figsize=(7, 1.5 + 0.45 * len(groups)), layout="constrained")
    axes = figure.subplots()
    for height, group in enumerate(groups):
        plain, ours = group.errors("svm"), group.errors("mu_svm")
        pair = paired(ours, plain)
        axes.plot(ours - plain, np.full(len(plain), height), "o", color="C0", alpha=0.4)
        axes.errorbar(
            pair.mean, height, xerr=2 * pair.standard_error, fmt="D", color="black", capsize=4
        )
    axes.axvline(0, color="0.5", linewidth=1)
    labels = [f"{group.universum}, m = {group.m}, {group.criterion}" for group in groups]
    axes.set_yticks(range(len(groups)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("test error of the MU-SVM minus that of the plain SVM (points)")
    dataset = results["conditions"]["setting"]["dataset"]
    axes.set_title(f"{dataset}: left of the line the MU-SVM is better")
    return figure
