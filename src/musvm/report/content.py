"""What the report says: tables, sentences, and the numbers behind the figures.

Everything here is plain text and numbers. Names pass through `text.as_text`; the template escapes
them. The figures' numbers are histograms on the bins of `ProjectionHistogramDisplay`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm.display import bin_edges
from musvm.report import text
from musvm.report.models import Described, Family
from musvm.search.comparison import Comparison, Finalist
from musvm.search.rule import ranking
from musvm.universum.diagnosis import Measures, UniversumDiagnosis

BINS = 28
MAX_FEATURE_NAMES = 200
# More columns than this do not fit a page.
MAX_CONFUSED = 12
# Shares of accepted training points at which the curve of rejection is drawn.
SHARES = np.linspace(0.0, 1.0, 41)

# Columns of `UniversumSVCCV.results_` with the names and formats that the table gives them;
# columns that are not listed follow under their own names.
SEARCH_COLUMNS: dict[str, tuple[str, Callable[[Any], str] | None]] = {
    "step": ("step", None),
    "C": ("C", text.compact),
    "gamma": ("γ", text.compact),
    "universum_weight": ("C*/C", text.compact),
    "delta": ("Δ", text.compact),
    "error": ("error", text.percent),
    "soft_error": ("soft error", text.percent),
    "criterion": ("bound", text.percent),
    "score": ("score", text.compact),
    "relative_gap": ("relative gap", text.scientific),
    "converged": ("gap reached", None),
    "n_type_1": ("SVs inside", None),
    "n_type_2": ("SVs at bound", None),
    "n_universum_type_1": ("universum SVs inside", None),
    "n_universum_type_2": ("universum SVs at bound", None),
    "seconds": ("seconds", None),
}
HIDDEN_COLUMNS = {"params", "kernel_setting", "hinge", "n_iter"}


@dataclass(frozen=True)
class Column:
    """A column of a table: its cells as text, what they are sorted by, notes below them."""

    title: str
    cells: list[str]
    keys: list[Any]
    is_numeric: bool
    hint: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """Columns of equal length; `marked` is the row that stands out."""

    caption: str
    columns: list[Column]
    marked: int | None = None

    @property
    def n_rows(self) -> int:
        return len(self.columns[0].cells)


def side_by_side(caption: str, names: list[str], quantities: list[Column]) -> Table:
    """A row for each quantity, a column for each model: fits a narrow page."""
    titles = [quantity.title for quantity in quantities]
    notes = [quantity.hint for quantity in quantities]
    columns = [Column("quantity", titles, titles, False, notes=notes)]
    for k, name in enumerate(names):
        cells = [quantity.cells[k] for quantity in quantities]
        columns.append(Column(name, cells, [None] * len(cells), True))
    return Table(caption, columns)


def column(
    title: str,
    values: Sequence[Any],
    show: Callable[[Any], str] | None = None,
    hint: str = "",
) -> Column:
    """A column of values: numbers in one format, anything else as text."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    is_numeric = any(map(text.is_number, plain)) and all(
        value is None or text.is_number(value) for value in plain
    )
    if is_numeric:
        show = show or text.number_format(plain)
        keys = [None if value is None or value != value else float(value) for value in plain]
        cells = [text.MISSING if key is None else show(key) for key in keys]
        return Column(text.as_text(title), cells, keys, True, hint)
    names = [_as_name(value) for value in plain]
    return Column(text.as_text(title), names, names, False, hint)


def _as_name(value: Any) -> str:
    """A value as text; functions by their name, which unlike their address stays the same."""
    if value is None:
        return text.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return text.as_text(getattr(value, "__name__", value))


# ---------------------------------------------------------------------------------------------
# The data


def data_table(family: Family) -> Table:
    """Number and range of the points of every class and of the universum."""
    data = family.data
    groups = [(name, data.codes == k) for k, name in enumerate(data.classes.tolist())]
    names = [text.as_text(name) for name, _ in groups]
    if family.has_universum:
        groups.append(("universum", ~data.is_training))
        names.append("universum")
    members = [np.flatnonzero(member) for _, member in groups]
    columns = [
        Column("group", names, names, is_numeric=False),
        column("points", [len(rows) for rows in members]),
    ]
    if family.model.kernel != "precomputed":
        *ranges, zeros = zip(*(_summary(data.X[rows]) for rows in members), strict=True)
        show = text.number_format([value for values in ranges for value in values])
        for title, values in zip(("smallest", "mean", "largest"), ranges, strict=True):
            columns.append(column(title, values, show))
        columns.append(column("zeros", zeros, text.percent))
    # Pipelines scale before the model, and the report is about the model.
    caption = "Points by class, and the range of all feature values as the model is given them, "
    return Table(f"{caption}after any scaling", columns)


def _summary(X: Any) -> tuple[float, float, float, float]:
    """Smallest, mean and largest entry, and the share of entries that are zero."""
    n_entries = X.shape[0] * X.shape[1]
    n_nonzero = X.count_nonzero() if sp.issparse(X) else np.count_nonzero(X)
    return float(X.min()), float(X.sum() / n_entries), float(X.max()), 1.0 - n_nonzero / n_entries


def data_facts(family: Family) -> list[tuple[str, str]]:
    """The data in pairs of a name and a number."""
    data = family.data
    training = int(data.is_training.sum())
    facts = [
        ("training points", f"{training:,}"),
        ("classes", f"{len(data.classes):,}"),
        ("universum points", f"{len(data.codes) - training:,}"),
    ]
    if family.model.kernel != "precomputed":
        facts.append(("features", f"{data.X.shape[1]:,}"))
    return facts


def data_notes(family: Family) -> list[str]:
    """What a reader should know before trusting the rest."""
    notes = []
    parts = family.universum_parts
    if len(parts) > 1:
        sizes = ", ".join(f"{size:,}" for size in parts)
        notes.append(f"The universum consists of {len(parts)} parts of {sizes} points.")
    if family.model.kernel == "precomputed":
        notes.append("The kernel matrix was given, so there are no feature values to describe.")
        return notes
    data = family.data
    digests = [tuple(pair) for pair in data.digests.tolist()]
    training = {d for d, known in zip(digests, data.is_training, strict=True) if known}
    others = [d for d, known in zip(digests, data.is_training, strict=True) if not known]
    n_repeated = int(data.is_training.sum()) - len(training)
    n_shared = sum(d in training for d in others)
    if n_repeated:
        verb = "repeats" if n_repeated == 1 else "repeat"
        notes.append(f"{text.count(n_repeated, 'training point')} {verb} an earlier one.")
    if n_shared:
        verb = "is also a training point" if n_shared == 1 else "are also training points"
        notes.append(f"{text.count(n_shared, 'universum point')} {verb}.")
    elif others:
        notes.append("No universum point is also a training point.")
    return notes


def feature_names(family: Family) -> list[str]:
    """Names of the features, the first of them if there are many; none if they have no names."""
    names = getattr(family.model, "feature_names_in_", [])
    shown = [text.as_text(name) for name in names[:MAX_FEATURE_NAMES]]
    if len(names) > MAX_FEATURE_NAMES:
        shown.append(f"and {len(names) - MAX_FEATURE_NAMES:,} more")
    return shown


# ---------------------------------------------------------------------------------------------
# The search


def search_table(results: Mapping[str, Any], best: int, ranked: str) -> Table:
    """One row for each cell of a search, the best by the column that ranks them first."""
    order = np.argsort(ranking(dict(results), ranked), kind="stable")
    listed = [name for name in SEARCH_COLUMNS if name in results]
    if not np.isnan(results["error"]).any():
        listed.remove("criterion")  # the error itself
    if np.all(results["converged"]):
        listed.remove("converged")  # which is then no news
    others = [name for name in results if name not in SEARCH_COLUMNS and name not in HIDDEN_COLUMNS]
    columns = []
    for name in listed + others:
        title, show = SEARCH_COLUMNS.get(name, (str(name).replace("_", " "), None))
        values = np.asarray(results[name])[order].tolist()
        if name == "delta":
            values = [
                None if step == "a" else delta
                for step, delta in zip(results["step"][order], values, strict=True)
            ]
        columns.append(column(title, values, show))
    columns = [entry for entry in columns if set(entry.cells) != {text.MISSING}]
    caption = "All settings that the search has tried; the chosen one is marked"
    return Table(caption, columns, marked=int(np.flatnonzero(order == best)[0]))


def finalists_table(comparison: Comparison, results: Mapping[str, Any]) -> Table:
    """The best models without and with universum, as the search compared them.

    Parameters are those of the search's table, as numbers; a plain SVM has no Delta.
    """
    finalists = [f for f in (comparison.plain, comparison.universum) if f is not None]
    quantities = [
        column(title, [_parameter(results, f, name) for f in finalists], text.compact)
        for name, title in (
            ("C", "C"), ("gamma", "γ"), ("universum_weight", "C*/C"), ("delta", "Δ"),
        )
        if name in comparison.plain.params
    ]  # fmt: skip
    if comparison.plain.score is not None:
        scores = [f.score for f in finalists]
        quantities.append(column("score", scores, text.compact, "mean of the folds; what decides"))
    quantities += [
        column("error", [f.error for f in finalists], text.percent, comparison.criterion),
        column(
            "soft error",
            [f.soft_error for f in finalists],
            text.percent,
            _what_decides(comparison),
        ),
        column(
            "right where the other is wrong",
            [len(rows) for rows in (comparison.lost, comparison.gained)][: len(finalists)],
        ),
    ]
    names = ["plain SVM", "MU-SVM"][: len(finalists)]
    return side_by_side("The finalists of the search", names, quantities)


def _parameter(results: Mapping[str, Any], finalist: Finalist, name: str) -> Any:
    is_plain = results["step"][finalist.index] == "a"
    return None if is_plain and name == "delta" else results[name][finalist.index]


def _what_decides(comparison: Comparison) -> str:
    """What the soft error is, and whether it decided."""
    decides = "" if comparison.plain.score is not None else "; what decides"
    return f"every point by how clearly it is classified{decides}"


# ---------------------------------------------------------------------------------------------
# The models


def parameter_table(family: Family) -> Table:
    """The parameters of the model."""
    parameters = family.model.get_params(deep=False)
    if family.model.kernel in ("rbf", "poly", "sigmoid"):
        parameters["gamma"] = text.shortest(family.model.model_.kernel.gamma)
    values = [_as_name(value) for value in parameters.values()]
    names = list(parameters)
    columns = [Column("parameter", names, names, False), Column("value", values, values, False)]
    return Table("Parameters of the model", columns)


def comparison_table(models: list[Described], criterion: str) -> Table:
    """The models side by side; `criterion` says what the errors of left-out points are."""
    return side_by_side(
        "The models compared" if len(models) > 1 else "The model in numbers",
        [model_name(model) for model in models],
        [
            column("training error", [m.training_error for m in models], text.percent),
            column("left-out error", [m.left_out_error for m in models], text.percent, criterion),
            column(
                "objective",
                [m.certificate.primal for m in models],
                hint="of different problems, so not to be compared",
            ),
            column(
                "relative gap",
                [m.certificate.relative_gap for m in models],
                text.scientific,
                "duality gap over objective, see the certificate",
            ),
            column("training support vectors", [m.n_training_sv for m in models]),
            *_universum_columns(models),
        ],
    )


def class_table(models: list[Described], criterion: str) -> Table:
    """The error of every class when its points are left out, by every model."""
    shown = models[0].projections
    members = [np.flatnonzero(shown.codes == k) for k in range(len(shown.classes))]
    names = [text.as_text(name) for name in shown.classes.tolist()]
    columns = [
        Column("class", names, names, is_numeric=False),
        column("points", [len(rows) for rows in members]),
    ]
    for model in models:
        wrong = model.left_out_labels != shown.codes
        errors = [float(wrong[rows].mean()) if len(rows) else None for rows in members]
        columns.append(column(model_name(model), errors, text.percent))
    return Table(f"Left-out error of each class, the {criterion}", columns)


def confusion_table(model: Described) -> Table | None:
    """How often points of each class, left out, are given each label; None for many classes."""
    shown, L = model.projections, len(model.projections.classes)
    if L > MAX_CONFUSED:
        return None
    names = [text.as_text(name) for name in shown.classes.tolist()]
    counts = np.zeros((L, L), dtype=int)
    np.add.at(counts, (shown.codes, model.left_out_labels), 1)
    columns = [Column("true class", names, names, is_numeric=False)]
    columns += [column(name, counts[:, k].tolist()) for k, name in enumerate(names)]
    caption = f"Labels that left-out points are given, one column each, {model_name(model)}"
    return Table(caption, columns)


def path_table(plain: Described, path: list[Described], criterion: str) -> Table:
    """The plain SVM and the MU-SVM along Delta."""
    models = [plain, *path]
    deltas = ["no universum", *(text.shortest(m.delta or 0.0) for m in path)]
    return Table(
        "Models along Δ; the row of the slider is marked",
        [
            Column("Δ", deltas, [None, *(m.delta for m in path)], True),
            column("training error", [m.training_error for m in models], text.percent),
            column("left-out error", [m.left_out_error for m in models], text.percent, criterion),
            *_universum_columns(models),
            column("objective", [m.certificate.primal for m in models]),
            column("relative gap", [m.certificate.relative_gap for m in models], text.scientific),
        ],
    )


def _universum_columns(models: list[Described]) -> list[Column]:
    measures = [model.measures for model in models if model.measures is not None]
    if not measures:
        return []
    support = column("universum support vectors", [m.n_universum_sv for m in models])
    return [support, *_measure_columns(measures)]


def _measure_columns(measures: list[Measures]) -> list[Column]:
    return [
        column(
            "mean spread",
            [m.spread for m in measures],
            lambda value: f"{value:.3f}",
            "of a universum point: its highest minus its lowest decision value",
        ),
        column(
            "inside margins",
            [m.inside for m in measures],
            text.percent,
            "share of the universum with all projections between −1 and 1",
        ),
        column(
            "label evenness",
            [m.label_entropy for m in measures],
            lambda value: f"{value:.3f}",
            "entropy of the universum's labels: 1 uniform, 0 all the same",
        ),
    ]


def diagnosis_table(universa: list[UniversumDiagnosis]) -> Table:
    """What the plain SVM says about the universum, and about each of its parts."""
    measures = [universum.measures for universum in universa]
    quantities = [
        column("points", [universum.n_points for universum in universa]),
        column(
            "beyond the margin",
            [m.separability for m in measures],
            text.percent,
            "training points that are classified with the full margin: separability",
        ),
        column(
            "at the margin",
            [m.piling for m in measures],
            text.percent,
            "training points that have just the margin and no more: piling",
        ),
        *_measure_columns(measures),
        column(
            "nuisance",
            [m.nuisance for m in measures],
            lambda value: f"{value:+.2f}",
            "how much it varies within classes, next to between them: ranks universa for one task",
        ),
    ]
    return side_by_side(
        "The universum, seen by the plain SVM", [u.name for u in universa], quantities
    )


def certificate_table(models: list[Described]) -> Table:
    """What the duality gap certifies of every model."""
    quantities = [
        column("objective", [x.certificate.primal for x in models]),
        column("duality gap", [x.certificate.gap for x in models], text.scientific),
        column("relative gap", [x.certificate.relative_gap for x in models], text.scientific),
        column("relative gap asked for", [x.tol for x in models], text.scientific),
        column("reached", [x.certificate.converged for x in models]),
    ]
    shown = models[0].projections
    for name, certified, total in (
        ("training", [x.certified_training for x in models], len(shown.codes)),
        ("universum", [x.certified_universum for x in models], len(shown.universum)),
    ):
        if total and certified[0] is not None:
            counts = [f"{number:,} of {total:,}" for number in certified]
            quantities.append(Column(f"{name} labels certified", counts, counts, False))
    return side_by_side(
        "The certificate of each model", [model_name(model) for model in models], quantities
    )


def model_name(model: Described) -> str:
    """What the page calls a model."""
    if model.delta is None:
        return "plain SVM"
    return f"MU-SVM, Δ = {text.shortest(model.delta)}"


# ---------------------------------------------------------------------------------------------
# The figures


def figures(plain: Described, path: list[Described], shown: int) -> dict[str, Any]:
    """The numbers behind the figures, ready for JSON; labels are safe for Plotly."""
    projections = [plain.projections, *(model.projections for model in path)]
    edges = bin_edges(projections, BINS)
    classes = plain.projections.classes.tolist()
    return {
        "edges": edges.tolist(),
        "classes": [text.as_plotly_text(name) for name in classes],
        "n_training": np.bincount(plain.projections.codes, minlength=len(classes)).tolist(),
        "n_universum": len(plain.projections.universum),
        "shares": (100.0 * SHARES).tolist(),
        "plain": _histograms(plain, edges),
        "path": [_histograms(model, edges) | {"delta": model.delta} for model in path],
        "deltas": [text.shortest(model.delta or 0.0) for model in path],
        "shown": shown,
    }


def _histograms(model: Described, edges: Any) -> dict[str, Any]:
    """Points per bin: of each class the training points, and the universum projected onto it."""
    projections = model.projections
    classes = range(len(projections.classes))
    return {
        "training": [
            np.histogram(projections.training[projections.codes == k], edges)[0].tolist()
            for k in classes
        ],
        "universum": [
            np.histogram(projections.universum[:, k], edges)[0].tolist() for k in classes
        ],
        "labels": projections.label_counts.tolist(),
        "accepted": _accepted(model),
        "errors": [text.percent(model.training_error), text.percent(model.left_out_error)],
    }


def _accepted(model: Described) -> list[float]:
    """Share of the universum that passes where `SHARES` of the left-out points do, in per cent.

    Points pass whose decision values spread by at least a threshold.
    """
    highest_first = np.sort(np.ptp(model.left_out, axis=1))[::-1]
    # 1e-9: a share of 0.3 of ten points is three of them, though 0.3 is a little more in binary.
    needed = np.ceil(SHARES * len(highest_first) - 1e-9).astype(int)
    thresholds = np.concatenate([[np.inf], highest_first])[needed]
    passed = model.spread[:, None] >= thresholds
    return (100.0 * passed.mean(axis=0)).round(2).tolist() if len(passed) else []
