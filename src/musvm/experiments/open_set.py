"""Who tells known classes from other, unknown points at test time, with a universum or without.

A *situation* has known classes, a universum that some entrants learn from, and unknown points of
other kinds, near and far, that nobody has seen. Each entrant gives a point a label and a score,
high for points of the known classes:

    plain SVM, universum SVM    linear and RBF; scores: the spread max f - min f, the lead of the
                                first label over the second, the maximum max f
    background class            logistic regression and SVC with the universum as one more class;
                                score: 1 - its probability, the largest other value minus its own
    no universum                logistic regression (largest probability), Mahalanobis distance to
                                the nearest class mean, distance to the fifth neighbour, LOF and
                                one-class SVM; the last four take the labels of the plain RBF SVM

C of every classifier is chosen by 5-fold cross-validation on the training points, for accuracy,
that of a universum SVM without the universum; Delta is 0.1, gamma = 1 / (features * variance). No
unknown point takes part in any choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import SVC, OneClassSVM

from musvm import UniversumSVC
from musvm.experiments.data import Data, FloatArray, load_points
from musvm.experiments.experiment import Experiment
from musvm.experiments.settings import FOLDS, OTHER_SIGNS
from musvm.experiments.statistics import as_markdown, difference, made_by, p_value, paired
from musvm.experiments.store import Record
from musvm.metrics import OSCRDisplay, oscr_score
from musvm.universum import random_noise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cs = (0.1, 1.0, 10.0)
DELTA = 0.1
M = 500  # universum points
N_TEST = 100  # of each known class
N_UNKNOWN = 500  # of each kind
TARGET = 0.95
NOISE = "shuffled pixels"
OURS = "universum SVM, RBF, spread"
COMPARED = (OURS, "plain SVM, RBF, spread", "SVC, background class", "Mahalanobis distance")

Score = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Situation:
    """Labels of the known classes and of the universum; unknowns by kind: data set and labels.

    A kind without labels is made: the features of training points, each shuffled on its own.
    """

    title: str
    dataset: str
    known: tuple[Any, ...]
    universum: tuple[Any, ...]
    universum_from: str
    unknown: dict[str, tuple[str, tuple[Any, ...]]]
    n: int


SITUATIONS = {
    "digits": Situation(
        "MNIST's digits 0-4 known, 5-7 universum",
        "mnist",
        (0, 1, 2, 3, 4),
        (5, 6, 7),
        "mnist",
        {"digits 8, 9": ("mnist", (8, 9)), "letters": ("nist", tuple("aeuAEU")), NOISE: ("", ())},
        20,
    ),
    "letters": Situation(
        "MNIST's ten digits known, NIST's letters a, e, i universum",
        "mnist",
        tuple(range(10)),
        tuple("aei"),
        "nist",
        {"letters u, A, E, U": ("nist", tuple("uAEU")), NOISE: ("", ())},
        20,
    ),
    "signs": Situation(
        "Traffic signs '30', '70', '80' known, 'no entry' universum",
        "gtsrb",
        (1, 4, 5),
        (17,),
        "gtsrb",
        {"twenty other signs": ("gtsrb", OTHER_SIGNS), "'road work'": ("gtsrb", (25,))},
        50,
    ),
}


@dataclass(frozen=True)
class Draw:
    """One partition of a situation."""

    X: FloatArray
    y: Any
    universum: FloatArray
    X_test: FloatArray
    y_test: Any
    unknown: dict[str, FloatArray]


def draw_points(data: dict[str, Data], situation: Situation, seed: int, number: int) -> Draw:
    """Training, universum, test and unknown points, all different images."""
    rng = np.random.default_rng([seed, number])
    own = data[situation.dataset]
    rows = [rng.permutation(np.flatnonzero(own.y == label)) for label in situation.known]
    train = np.concatenate([row[: situation.n] for row in rows])
    test = np.concatenate([row[situation.n : situation.n + N_TEST] for row in rows])
    unknown = {
        kind: _some(data[dataset], labels, N_UNKNOWN, rng)
        if labels
        else random_noise(own.X[train], N_UNKNOWN, random_state=number)
        for kind, (dataset, labels) in situation.unknown.items()
    }
    universum = _some(data[situation.universum_from], situation.universum, M, rng)
    return Draw(own.X[train], own.y[train], universum, own.X[test], own.y[test], unknown)


def _some(data: Data, labels: tuple[Any, ...], m: int, rng: np.random.Generator) -> FloatArray:
    rows = np.flatnonzero(np.isin(data.y, labels))
    return data.X[rng.permutation(rows)[:m]]


# ---------------------------------------------------------------------------------------------
# Entrants


@dataclass(frozen=True)
class Entrant:
    """A fitted classifier with a score, high for points of the known classes."""

    predict: Callable[[FloatArray], Any]
    score: Score


def entrants(part: Draw) -> dict[str, Entrant]:
    """All competitors, fitted."""
    found: dict[str, Entrant] = {}
    plain: Any = None
    for kernel, word in (("linear", "linear"), ("rbf", "RBF")):
        plain = _tuned(UniversumSVC(kernel=kernel), part.X, part.y)
        joined = clone(plain).set_params(delta=DELTA)
        joined.fit(part.X, part.y, universum=part.universum)
        for name, model in (("plain SVM", plain), ("universum SVM", joined)):
            for rule, score in SCORES.items():
                found[f"{name}, {word}, {rule}"] = Entrant(model.predict, _of(model, score))
    return {**found, **_with_background(part), **_without_universum(part, plain)}


SCORES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "spread": lambda F: np.ptp(F, axis=1),
    "lead": lambda F: np.diff(np.sort(F, axis=1)[:, -2:], axis=1)[:, 0],
    "maximum": lambda F: F.max(axis=1),
}


def _of(model: Any, score: Callable[[FloatArray], FloatArray]) -> Score:
    return lambda X: score(model.decision_function(X))


def _tuned(model: Any, X: FloatArray, y: Any) -> Any:
    return GridSearchCV(model, {"C": Cs}, cv=FOLDS).fit(X, y).best_estimator_


def _with_background(part: Draw) -> dict[str, Entrant]:
    """The universum as one more class, which is never answered."""
    classes = np.unique(part.y)
    X = np.vstack([part.X, part.universum])
    codes = np.searchsorted(classes, part.y)
    y = np.concatenate([codes, np.full(len(part.universum), len(classes))])
    regression = _tuned(LogisticRegression(max_iter=2000), X, y)
    machine = _tuned(SVC(), X, y)

    def label(values: FloatArray) -> Any:
        return classes[values[:, :-1].argmax(axis=1)]

    return {
        "logistic regression, background class": Entrant(
            lambda X: label(regression.predict_proba(X)),
            lambda X: 1 - regression.predict_proba(X)[:, -1],
        ),
        "SVC, background class": Entrant(
            lambda X: label(machine.decision_function(X)),
            lambda X: _own_minus_last(machine.decision_function(X)),
        ),
    }


def _own_minus_last(values: FloatArray) -> FloatArray:
    return np.asarray(values[:, :-1].max(axis=1) - values[:, -1])


def _without_universum(part: Draw, plain: Any) -> dict[str, Entrant]:
    regression = _tuned(LogisticRegression(max_iter=2000), part.X, part.y)
    neighbours = NearestNeighbors(n_neighbors=5).fit(part.X)
    lof = LocalOutlierFactor(novelty=True).fit(part.X)
    one_class = OneClassSVM(nu=0.1).fit(part.X)
    return {
        "logistic regression, largest probability": Entrant(
            regression.predict, lambda X: regression.predict_proba(X).max(axis=1)
        ),
        "Mahalanobis distance": Entrant(plain.predict, _mahalanobis(part)),
        "distance to the fifth neighbour": Entrant(
            plain.predict, lambda X: -neighbours.kneighbors(X)[0][:, -1]
        ),
        "LOF": Entrant(plain.predict, lof.score_samples),
        "one-class SVM": Entrant(plain.predict, one_class.score_samples),
    }


def _mahalanobis(part: Draw) -> Score:
    """Minus the distance to the nearest class mean, in 50 principal components.

    One covariance, that of the points around their class means, shrunk by Ledoit and Wolf's rule.
    """
    reduce = PCA(n_components=min(50, len(part.X) - 1, part.X.shape[1]), random_state=0).fit(part.X)
    Z = reduce.transform(part.X)
    means = np.stack([Z[part.y == label].mean(axis=0) for label in np.unique(part.y)])
    residuals = Z - means[np.searchsorted(np.unique(part.y), part.y)]
    covariance = LedoitWolf(assume_centered=True).fit(residuals)

    def score(X: FloatArray) -> FloatArray:
        projected = reduce.transform(X)
        return -np.min([covariance.mahalanobis(projected - mean) for mean in means], axis=0)

    return score


# ---------------------------------------------------------------------------------------------
# The experiment


def experiment(partitions: int, seed: int) -> Experiment:
    return Experiment(
        name="open_set",
        conditions={"partitions": partitions, "seed": seed, "C": list(Cs), "delta": DELTA},
        tasks=[
            {"situation": situation, "partition": partition, "seed": seed}
            for situation in SITUATIONS
            for partition in range(partitions)
        ],
        load=_load,
        work=_work,
        page=page,
        draw=lambda results: {"": draw(results)},
    )


def _load(path: Path | None, n_jobs: int) -> dict[str, Data]:
    signs = (1, 4, 5, 17, 25, *OTHER_SIGNS)
    return {
        "mnist": load_points("mnist", path, range(10)),
        "nist": load_points("nist", path, "aeiuAEU", "images28"),
        "gtsrb": load_points("gtsrb", path, signs, n_jobs=n_jobs),
    }


def _work(data: dict[str, Data], task: Record) -> Record:
    situation = SITUATIONS[task["situation"]]
    part = draw_points(data, situation, task["seed"], task["partition"])
    outcome: Record = {}
    for name, entrant in entrants(part).items():
        predicted, known = entrant.predict(part.X_test), entrant.score(part.X_test)
        entry: Record = {"accuracy": float(np.mean(predicted == part.y_test))}
        for kind, points in part.unknown.items():
            unknown = entrant.score(points)
            entry[kind] = {
                "auroc": _auroc(known, unknown),
                "fpr": float(np.mean(unknown >= np.quantile(known, 1 - TARGET))),
                "oscr": oscr_score(part.y_test, predicted, known, unknown),
            }
            if task["partition"] == 0 and name in COMPARED:
                entry[kind]["curve"] = _curve(part.y_test, predicted, known, unknown)
        outcome[name] = entry
    return {"entrants": outcome}


def _auroc(known: FloatArray, unknown: FloatArray) -> float:
    is_known = np.r_[np.ones(len(known)), np.zeros(len(unknown))]
    return float(roc_auc_score(is_known, np.r_[known, unknown]))


def _curve(truth: Any, predicted: Any, known: FloatArray, unknown: FloatArray) -> list[list[float]]:
    """Rates of correct classification at 41 rates of false acceptance, for the figure."""
    thresholds = np.quantile(unknown, np.linspace(1, 0, 41))
    right = known[predicted == truth]
    fpr = [float(np.mean(unknown >= t)) for t in thresholds]
    ccr = [float(np.sum(right >= t) / len(known)) for t in thresholds]
    return [[round(value, 4) for value in values] for values in (fpr, ccr)]


# ---------------------------------------------------------------------------------------------
# The page

PAGE = """\
# Open set: saying "none of these"

{made_by}

Known classes, a universum, and unknown points of other kinds at test time, which nobody has seen.
Each entrant gives a label and a score, high for points of the known classes. {m} universum points,
{n_test} test points of each known class, {n_unknown} unknown points of each kind, {partitions}
random partitions. C is chosen by cross-validation for accuracy on the known classes, Δ = {delta:g},
γ = 1 / (features · variance).

- *Accuracy*: share of right labels on the known classes, with nothing rejected.
- *AUROC*: probability that a known point has a higher score than an unknown one.
- *FPR 95*: share of the unknown points accepted where 95 % of the known ones are.
- *OSCR*: area under the curve of correct classification over false acceptance, which counts labels
  and rejection together; {{func}}`musvm.metrics.oscr_score` defines it.
- *Ours minus this*: OSCR of the universum SVM with RBF kernel and spread, minus that of the line,
  in the same partition; mean ± standard error, and the p-value of the paired t test.

All in per cent. There are many comparisons on this page: read a *p* around 0.05 as a hint.

![Correct classification over false acceptance, first partition](open_set.png)

{sections}
## Bounded acceptance

With an RBF kernel and no intercept, every decision value vanishes far from the data, so a spread
of at least t > 0 is found in a bounded region only, whatever the universum:
{{doc}}`../mathematics/bounded` has the proof and the radius. Distances to neighbours and the
one-class SVM with an RBF kernel are bounded in the same sense. With a linear kernel the region is
never bounded, since the spread grows without limit along almost every ray; nor is it for a
background class of logistic regression, nor for a Mahalanobis distance in fewer components than
features.
"""


def page(results: Record) -> str:
    conditions = results["conditions"]
    sections = []
    for key, situation in SITUATIONS.items():
        cells = [cell["entrants"] for cell in results["cells"] if cell["situation"] == key]
        sections.append(f"## {situation.title}, {situation.n} images a class\n")
        for kind in situation.unknown:
            sections.append(f"### Unknown: {kind}\n\n{table(cells, kind)}\n{advice(cells, kind)}\n")
    return PAGE.format(
        made_by=made_by(results, "musvm reproduce open-set --data FOLDER"),
        m=M,
        n_test=N_TEST,
        n_unknown=N_UNKNOWN,
        partitions=conditions["partitions"],
        delta=conditions["delta"],
        sections="\n".join(sections),
    )


def measured(cells: list[Record], kind: str, name: str, measure: str) -> FloatArray:
    """A measure of an entrant in every partition, in per cent."""
    if measure == "accuracy":
        return 100 * np.array([cell[name]["accuracy"] for cell in cells])
    return 100 * np.array([cell[name][kind][measure] for cell in cells])


def table(cells: list[Record], kind: str) -> str:
    """A line for each entrant, best OSCR first."""
    header = [
        *("entrant", "accuracy", "AUROC", "FPR 95", "OSCR (s.d.)", "ours minus this", "p"),
    ]
    ours = measured(cells, kind, OURS, "oscr")
    rows = []
    for name in _ranked(cells, kind):
        oscr = measured(cells, kind, name, "oscr")
        pair = paired(ours, oscr)
        means = [
            f"{measured(cells, kind, name, measure).mean():.1f}"
            for measure in ("accuracy", "auroc", "fpr")
        ]
        against = ["–", "–"] if name == OURS else [difference(pair), p_value(pair)]
        rows.append(
            [
                f"**{name}**" if name == OURS else name,
                *means,
                f"{oscr.mean():.1f} ({oscr.std(ddof=1):.1f})",
                *against,
            ]
        )
    return as_markdown(header, rows)


def _ranked(cells: list[Record], kind: str) -> list[str]:
    return sorted(cells[0], key=lambda name: -measured(cells, kind, name, "oscr").mean())


def advice(cells: list[Record], kind: str) -> str:
    """The entrants that no other is clearly better than, and where ours stands."""
    best, *others = _ranked(cells, kind)
    reference = measured(cells, kind, best, "oscr")
    level = []
    for name in others:
        pair = paired(reference, measured(cells, kind, name, "oscr"))
        if pair.p is None or pair.p > 0.05:
            level.append(name)
    text = f"Use: {best}"
    if level:
        text += f"; not clearly worse (p > 0.05): {'; '.join(level)}"
    gap = paired(measured(cells, kind, OURS, "oscr"), reference)
    if best != OURS and OURS not in level:
        text += f". The {OURS}, is {difference(gap)} points of OSCR from the best"
    return text + "."


def draw(results: Record) -> Figure:
    from matplotlib.figure import Figure

    panels = [(key, kind) for key, s in SITUATIONS.items() for kind in s.unknown]
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    grid = figure.subplots(2, 4).ravel()
    for axes, (key, kind) in zip(grid, panels, strict=False):
        cells = [cell["entrants"] for cell in results["cells"] if cell["situation"] == key]
        for name in COMPARED:
            curve = np.array(cells[0][name][kind]["curve"])
            oscr = cells[0][name][kind]["oscr"]
            OSCRDisplay(*curve, oscr=oscr).plot(ax=axes, color=f"C{COMPARED.index(name)}")
        axes.set_title(f"{key}: {kind}", fontsize="medium")
        axes.set(xlabel="", ylabel="", ylim=(0, 1))
        axes.get_legend().remove()
    handles = [grid[0].lines[k] for k in range(len(COMPARED))]
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
        axes.legend(handles, COMPARED, loc="center", fontsize="small")
    figure.supxlabel("unknown points accepted (rate)")
    figure.supylabel("known points accepted with the right label (rate)")
    return figure
