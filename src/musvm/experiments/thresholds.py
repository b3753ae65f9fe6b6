"""Do thresholds keep their promise? Acceptance over many random splits, against the level promised.

scikit-learn's digits 0-4, the digits 5-7 as universum. In each split the threshold of
`RejectingClassifier` is set from the training images, by every source of calibration scores, and
the share of the test images that is accepted is counted. The promise is about its mean over splits.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from musvm import RejectingClassifier, UniversumSVC
from musvm.experiments.data import Data, FloatArray, load_points
from musvm.experiments.experiment import Experiment
from musvm.experiments.statistics import as_markdown, made_by
from musvm.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWN, OTHERS = (0, 1, 2, 3, 4), (5, 6, 7)
N_TRAIN, M, TARGET, HELD_BACK = 16, 60, 0.9, 0.3
PER_TASK = 25
REJECTED = -1
MODEL = UniversumSVC(C=10.0, gamma=1 / 8)
SOURCES: dict[str, dict[str, Any]] = {
    "split": {"calibration": "split", "held_back": HELD_BACK},
    "cv": {"calibration": "cv"},
    "loo": {"calibration": "loo"},
    "loo-estimate": {"calibration": "loo-estimate"},
    "loo-estimate, per class": {"calibration": "loo-estimate", "per_class": True},
}
N_SCORES = {"split": int(HELD_BACK * N_TRAIN * len(KNOWN))}

PAGE = """\
# Thresholds that keep their promise

{made_by}

`RejectingClassifier` is asked to accept {target:.0%} of the points of the classes. scikit-learn's
digits 0-4, {n} training images each, {m} images of the digits 5-7 as universum, RBF kernel;
{splits} random splits, in each of which all other images of the digits 0-4 are the test set.

The promise is P(accepted) ≥ {target:g} over the draw of training and test points, and at most
{target:g} + 1/(k + 1), k being the number of calibration scores, if no two are equal. It is exact
for points that are held back ("split"), and holds up to the change that one training point, or one
fold, makes for the others; see {{class}}`musvm.RejectingClassifier`. The mean over the splits is
what is promised. In a single split the share varies as a quantile of k scores does, which the last
two columns show.

{table}
![Share accepted in each split](thresholds.png)

Where the mean is above the upper end of the promise, models of one point or one fold fewer score
left-out points lower than the final model scores new ones, which errs on the side of accepting.

*Per class* sets a threshold for each predicted class from the few points that are given it, about
{n} here, so that its promise has more room above the target: up to 1/{n_plus}.
"""


def experiment(splits: int, seed: int) -> Experiment:
    """In tasks of 25 splits each."""
    return Experiment(
        name="thresholds",
        conditions={"splits": splits, "seed": seed, "target": TARGET, "n_train": N_TRAIN, "m": M},
        tasks=[
            {"first": first, "last": min(first + PER_TASK, splits), "seed": seed}
            for first in range(0, splits, PER_TASK)
        ],
        load=_load,
        work=_work,
        page=page,
        draw=lambda results: {"": draw(results)},
    )


def _load(path: Path | None, n_jobs: int) -> Data:
    return load_points("digits", None, (*KNOWN, *OTHERS))


def _work(data: Data, task: Record) -> Record:
    shares: dict[str, list[float]] = {name: [] for name in SOURCES}
    for number in range(task["first"], task["last"]):
        rng = np.random.default_rng([task["seed"], number])
        train = np.concatenate(
            [rng.permutation(np.flatnonzero(data.y == label))[:N_TRAIN] for label in KNOWN]
        )
        test = np.setdiff1d(np.flatnonzero(np.isin(data.y, KNOWN)), train)
        universum = data.X[rng.permutation(np.flatnonzero(np.isin(data.y, OTHERS)))[:M]]
        for name, parameters in SOURCES.items():
            model = RejectingClassifier(
                clone(MODEL), REJECTED, target=TARGET, random_state=number, **parameters
            ).fit(data.X[train], data.y[train], universum=universum)
            accepted = model.predict(data.X[test]) != REJECTED
            shares[name].append(round(float(accepted.mean()), 5))
    return {"shares": shares}


def accepted(results: Record, name: str) -> FloatArray:
    """Shares over all splits, in per cent."""
    return 100 * np.concatenate([cell["shares"][name] for cell in results["cells"]])


def page(results: Record) -> str:
    conditions = results["conditions"]
    rows = []
    for name in SOURCES:
        found = accepted(results, name)
        error = found.std(ddof=1) / len(found) ** 0.5
        scores = N_SCORES.get(name, N_TRAIN * len(KNOWN))
        scores = N_TRAIN if "per class" in name else scores
        rows.append(
            [
                name,
                f"{found.mean():.2f} ± {error:.2f}",
                f"{100 * TARGET:.0f} to {100 * (TARGET + 1 / (scores + 1)):.2f}",
                f"{np.quantile(found, 0.05):.1f}",
                f"{np.quantile(found, 0.95):.1f}",
            ]
        )
    header = ["scores from", "accepted (%), mean ± s.e.", "promised (%)", "5th percentile", "95th"]
    return PAGE.format(
        made_by=made_by(results, f"musvm reproduce thresholds --splits {conditions['splits']}"),
        target=TARGET,
        n=N_TRAIN,
        n_plus=N_TRAIN + 1,
        m=M,
        splits=conditions["splits"],
        table=as_markdown(header, rows),
    )


def draw(results: Record) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots()
    found = [accepted(results, name) for name in SOURCES]
    axes.boxplot(found, orientation="horizontal", showmeans=True, whis=(5, 95), showfliers=False)
    axes.set_yticks(range(1, len(SOURCES) + 1), SOURCES)
    axes.axvline(100 * TARGET, color="C3", linewidth=1, label="promised")
    axes.invert_yaxis()
    axes.legend(loc="lower left")
    axes.set_xlabel(
        "test images accepted (%); triangles: means, boxes: quartiles, whiskers: 5 % and 95 %"
    )
    return figure
