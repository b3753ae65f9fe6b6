"""The demo: does a universum lower the test error on handwritten digits?

Data: the 8 x 8 digits that scikit-learn ships, pixels scaled to 0..1. The classes are the
digits 0-3, the universum is drawn from the digits 4-9. A *partition* is a random choice of ten
training images per class and of the universum images; all other images of the digits 0-3 are the
test set.

Each partition chooses its parameters by cross-validation on its training images alone, in the
paper's two steps:

    (a)  C and gamma of the plain SVM: fewest errors, ties by the smaller mean hinge loss
    (b)  Delta, or no universum at all, with those C and gamma and C*/C = n / (mL):
         fewest errors, ties by the smaller Delta; no universum only if it makes fewer errors

Ties are common, since the errors are counts over 40 images. The hinge loss cannot break them in
step (b): a universum draws all decision values together, which raises the hinge loss whether or
not the predictions get better. These rules were picked among a few with test errors in view (the
README has the figures), so judge the effect on a seed of your own.

The result is paired: both models of a partition see the same images. With d the MU-SVM's error
minus the plain SVM's, the summary gives the mean of d over the partitions, its standard error and
the p-value of the paired t test. Partitions share images, so all three speak of these digits and
not of digits at large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import ttest_rel
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from musvm import UniversumSVC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

CLASSES = (0, 1, 2, 3)
TRAINING_PER_CLASS = 10
UNIVERSUM_SIZE = 300
FOLDS = 5
C_GRID = (1.0, 10.0, 100.0)
GAMMA_GRID = (1 / 32, 1 / 8, 1 / 2, 2.0)
DELTA_GRID = (0.0, 0.05, 0.1, 0.2)
BIN_WIDTH = 0.05  # of the histograms, in units of decision values


@dataclass(frozen=True)
class Parameters:
    """Parameters of one model; `delta` is None for the plain SVM."""

    C: float
    gamma: float
    delta: float | None = None


@dataclass(frozen=True)
class Partition:
    """One random choice of images."""

    X_train: FloatArray
    y_train: NDArray[np.intp]
    X_test: FloatArray
    y_test: NDArray[np.intp]
    universum: FloatArray


@dataclass(frozen=True)
class Outcome:
    """What one partition gave; errors are fractions of the test set."""

    partition: int
    svm_error: float
    musvm_error: float
    C: float
    gamma: float
    delta: float | None
    n_fits: int
    worst_relative_gap: float


@dataclass(frozen=True)
class Summary:
    """The table of the demo; errors are fractions, `difference` is MU-SVM minus plain SVM."""

    n_partitions: int
    svm_mean: float
    svm_std: float
    musvm_mean: float
    musvm_std: float
    difference: float
    difference_standard_error: float
    p_value: float | None
    n_better: int
    n_equal: int
    n_worse: int
    n_universum_chosen: int
    n_fits: int
    worst_relative_gap: float


@dataclass
class Fitter:
    """Fits models to training images and keeps every fit's relative duality gap."""

    gaps: list[float] = field(default_factory=list)

    def fit(
        self, X: FloatArray, y: NDArray[np.intp], universum: FloatArray, chosen: Parameters
    ) -> UniversumSVC:
        model = UniversumSVC(chosen.C, kernel="rbf", gamma=chosen.gamma, delta=chosen.delta or 0.0)
        model.fit(X, y, universum=None if chosen.delta is None else universum)
        self.gaps.append(model.dual_gap_ / model.objective_)
        return model


@cache
def _digits() -> tuple[FloatArray, NDArray[np.intp]]:
    images, digits = load_digits(return_X_y=True)
    return images / 16.0, digits.astype(np.intp)


def draw_partition(partition: int, seed: int = 0) -> Partition:
    """Draw the images of partition number `partition`."""
    X, digit = _digits()
    rng = np.random.default_rng([seed, partition])
    train = np.concatenate(
        [rng.choice(np.flatnonzero(digit == k), TRAINING_PER_CLASS, replace=False) for k in CLASSES]
    )
    test = np.setdiff1d(np.flatnonzero(np.isin(digit, CLASSES)), train)
    others = np.flatnonzero(~np.isin(digit, CLASSES))
    universum = X[rng.choice(others, UNIVERSUM_SIZE, replace=False)]
    return Partition(X[train], digit[train], X[test], digit[test], universum)


def own_class_margins(model: UniversumSVC, X: FloatArray, y: NDArray[np.intp]) -> FloatArray:
    """f_y(x) - max_{l != y} f_l(x) of every row: below 0 the point is misclassified."""
    own = np.searchsorted(model.classes_, y)
    return model.projections(X)[np.arange(len(X)), own]


def cross_validate(data: Partition, chosen: Parameters, fitter: Fitter) -> tuple[int, float]:
    """Errors and mean hinge loss over the training images, each predicted when left out.

    Every fold trains with the whole universum: it has no labels, so there is none to leave out.
    """
    margins = np.empty(len(data.y_train))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for kept, left in folds.split(data.X_train, data.y_train):
        model = fitter.fit(data.X_train[kept], data.y_train[kept], data.universum, chosen)
        margins[left] = own_class_margins(model, data.X_train[left], data.y_train[left])
    return int(np.sum(margins <= 0)), float(np.mean(np.maximum(0.0, 1.0 - margins)))


def choose_parameters(data: Partition, fitter: Fitter) -> Parameters:
    """Steps (a) and (b) of the module's docstring, on the training images alone."""
    scores = {
        plain: cross_validate(data, plain, fitter)
        for plain in (Parameters(C, gamma) for C in C_GRID for gamma in GAMMA_GRID)
    }
    best = min(scores, key=scores.__getitem__)
    errors = {
        delta: cross_validate(data, Parameters(best.C, best.gamma, delta), fitter)[0]
        for delta in DELTA_GRID
    }
    delta = min(errors, key=errors.__getitem__)
    return Parameters(best.C, best.gamma, delta if errors[delta] <= scores[best][0] else None)


def run_partition(partition: int, seed: int = 0) -> Outcome:
    """Choose the parameters of one partition, then fit and test both models."""
    data, fitter = draw_partition(partition, seed), Fitter()
    chosen = choose_parameters(data, fitter)
    svm, musvm = _both_models(data, chosen, fitter)
    return Outcome(
        partition=partition,
        svm_error=float(np.mean(svm.predict(data.X_test) != data.y_test)),
        musvm_error=float(np.mean(musvm.predict(data.X_test) != data.y_test)),
        **asdict(chosen),
        n_fits=len(fitter.gaps),
        worst_relative_gap=float(max(fitter.gaps)),
    )


def _both_models(
    data: Partition, chosen: Parameters, fitter: Fitter
) -> tuple[UniversumSVC, UniversumSVC]:
    plain = Parameters(chosen.C, chosen.gamma)
    svm, musvm = (
        fitter.fit(data.X_train, data.y_train, data.universum, parameters)
        for parameters in (plain, chosen)
    )
    return svm, musvm


def run_partitions(n_partitions: int, *, seed: int = 0, n_jobs: int = -1) -> Iterator[Outcome]:
    """Outcomes of partitions 0, 1, ..., in this order, each as soon as it is known."""
    tasks = (delayed(run_partition)(partition, seed) for partition in range(n_partitions))
    outcomes: Iterator[Outcome] = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    return outcomes


def summarise(outcomes: list[Outcome]) -> Summary:
    """Mean, spread and paired difference over at least two partitions."""
    svm = np.array([outcome.svm_error for outcome in outcomes])
    musvm = np.array([outcome.musvm_error for outcome in outcomes])
    difference = musvm - svm
    varies = np.ptp(difference) > 0  # otherwise the t statistic is 0/0 or infinite
    return Summary(
        n_partitions=len(outcomes),
        svm_mean=float(svm.mean()),
        svm_std=float(svm.std(ddof=1)),
        musvm_mean=float(musvm.mean()),
        musvm_std=float(musvm.std(ddof=1)),
        difference=float(difference.mean()),
        difference_standard_error=float(difference.std(ddof=1) / math.sqrt(len(outcomes))),
        p_value=float(ttest_rel(musvm, svm).pvalue) if varies else None,
        n_better=int(np.sum(difference < 0)),
        n_equal=int(np.sum(difference == 0)),
        n_worse=int(np.sum(difference > 0)),
        n_universum_chosen=sum(outcome.delta is not None for outcome in outcomes),
        n_fits=sum(outcome.n_fits for outcome in outcomes),
        worst_relative_gap=max(outcome.worst_relative_gap for outcome in outcomes),
    )


def draw_figure(outcomes: list[Outcome], seed: int = 0) -> Figure:
    """Paired test errors, and the decision values behind them on one partition.

    The partition shown is the first that chose a universum, or the first of all.
    """
    from matplotlib.figure import Figure

    shown = next((o for o in outcomes if o.delta is not None), outcomes[0])
    data = draw_partition(shown.partition, seed)
    models = _both_models(data, Parameters(shown.C, shown.gamma, shown.delta), Fitter())
    figure = Figure(figsize=(12, 4), layout="constrained")
    paired, *histograms = figure.subplots(1, 3)
    _draw_pairs(paired, outcomes)
    for axes, model, name in zip(histograms, models, ("plain SVM", "MU-SVM"), strict=True):
        _draw_projections(axes, model, data)
        axes.set_title(f"{name}, partition {shown.partition}")
    histograms[1].sharex(histograms[0])
    histograms[0].legend(loc="upper left", fontsize="small")
    return figure


def _draw_pairs(axes: Axes, outcomes: list[Outcome]) -> None:
    errors = 100 * np.array([[o.svm_error, o.musvm_error] for o in outcomes])
    top = 1.08 * errors.max(initial=1.0)
    axes.plot([0, top], [0, top], color="0.6", linewidth=1, label="equal")
    axes.plot(*errors.T, "o", color="C0", alpha=0.7, label="one partition")
    axes.plot(*errors.mean(axis=0), "D", color="C3", markersize=9, label="mean")
    axes.set(xlim=(0, top), ylim=(0, top), aspect="equal")
    axes.set_title("Below the line the MU-SVM is better")
    axes.set_xlabel("test error of the plain SVM (%)")
    axes.set_ylabel("test error of the MU-SVM (%)")
    axes.legend(loc="upper left", fontsize="small")


def _draw_projections(axes: Axes, model: UniversumSVC, data: Partition) -> None:
    """Histograms of the projections; the log scale keeps a narrow universum on the page."""
    groups = {
        "test images, own class": own_class_margins(model, data.X_test, data.y_test),
        "universum images, every class": model.projections(data.universum).ravel(),
    }
    reach = math.ceil(max(1.0, *(np.abs(values).max() for values in groups.values())) / BIN_WIDTH)
    bins = [BIN_WIDTH * edge for edge in range(-reach, reach + 1)]
    styles: tuple[dict[str, Any], ...] = (
        {"color": "C0", "alpha": 0.7},
        {"color": "black", "histtype": "step"},
    )
    for (label, values), style in zip(groups.items(), styles, strict=True):
        percent = np.full(len(values), 100 / len(values))
        axes.hist(values, bins, weights=percent, label=label, **style)
    axes.axvline(0, color="0.3", linewidth=1)
    for margin in (-1, 1):
        axes.axvline(margin, color="0.3", linewidth=1, linestyle=":")
    axes.set_yscale("log")
    axes.set_ylim(0.05, 100)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(r"projection $f_k(x) - \max_{l \neq k} f_l(x)$; margins at $\pm 1$")
    axes.set_ylabel(f"share of the points (% per {BIN_WIDTH:g})")


def as_document(outcomes: list[Outcome], seed: int) -> dict[str, Any]:
    """Settings, summary and every partition, ready for JSON."""
    return {
        "settings": {
            "data": "scikit-learn digits, 8 x 8 pixels scaled to 0..1",
            "classes": list(CLASSES),
            "training_per_class": TRAINING_PER_CLASS,
            "universum": "digits 4-9",
            "universum_size": UNIVERSUM_SIZE,
            "kernel": "rbf",
            "C": list(C_GRID),
            "gamma": list(GAMMA_GRID),
            "delta": [None, *DELTA_GRID],
            "folds": FOLDS,
            "seed": seed,
        },
        "summary": asdict(summarise(outcomes)),
        "partitions": [asdict(outcome) for outcome in outcomes],
    }
