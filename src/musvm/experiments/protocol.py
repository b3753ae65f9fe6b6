"""The paper's protocol: one partition, one way to choose the model, three test errors.

    (a)  C of the plain SVM, from 10^-4 ... 10^3
    (b)  Delta from {0, .01, .05, .1} with that C and C*/C = n / (mL)

Both are chosen by stratified 5-fold cross-validation or by a leave-one-out quantity, on the
training points alone. Many cells have the same error, and the paper does not say which of them it
takes; its authors' program takes

    (a)  the smallest C                      (b)  the smallest Delta

and so does this protocol. Then all of the training points are fitted and the test points
predicted, by

    svm       the plain SVM of step (a)
    mu_svm    the universum SVM of step (b), as in the paper
    either    the second if its error by the criterion is smaller, otherwise the first

A *cell* is one such run. It depends on its conditions and the data, and on nothing else.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from musvm.experiments.data import Data, Partition, draw_partition
from musvm.experiments.models import Binary, Direct, Judged, Loss, ModelFamily
from musvm.experiments.settings import DELTA_GRID, SETTINGS, Setting
from musvm.search.rule import EQUAL, first


@dataclass(frozen=True)
class Study:
    """What cells share: the setting, and where it departs from the paper.

    Attributes
    ----------
    split : "random", or "tracks" to keep the frames of one physical sign together
    loss : universum loss, "sum" or "max"
    model : "direct", "one-vs-rest" or "one-vs-one"
    features : how traffic signs are turned into numbers, see `musvm.experiments.data`
    """

    setting: Setting = SETTINGS["digits"]
    split: str = "random"
    seed: int = 0
    loss: Loss = "sum"
    model: str = "direct"
    features: str = "hog"

    @property
    def departures(self) -> dict[str, Any]:
        """The entries that are not the defaults."""
        usual = Study(self.setting)
        names = ("split", "seed", "loss", "model", "features")
        return {n: getattr(self, n) for n in names if getattr(self, n) != getattr(usual, n)}


@dataclass(frozen=True)
class Cell:
    """One partition, one universum of m points, one criterion."""

    partition: int
    universum: str
    m: int
    criterion: str


def run_cell(data: Data, study: Study, cell: Cell) -> dict[str, Any]:
    """Choose, fit and test; the outcome in plain numbers, errors as shares."""
    part = make_partition(data, study, cell)
    family = model_family(study, cell)
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        clocks = time.perf_counter(), time.process_time()
        chosen = choose(study.setting.Cs, family, part)
        seconds = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
        outcome: dict[str, Any] = {
            name: _test(family, judged, part) for name, judged in chosen.items()
        }
    helps = chosen["mu_svm"].error < chosen["svm"].error - EQUAL
    outcome["either"] = outcome["mu_svm" if helps else "svm"]
    unfinished = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    times = {"seconds": seconds[0], "cpu_seconds": seconds[1]}
    return {**outcome, "unfinished": unfinished, "times": times}


def make_partition(data: Data, study: Study, cell: Cell) -> Partition:
    """The points of a cell."""
    return draw_partition(
        data, study.setting, study.split, study.seed, cell.partition, cell.universum, cell.m
    )


def model_family(study: Study, cell: Cell) -> ModelFamily:
    """The kind of model that a cell is about."""
    setting = study.setting
    if study.model == "direct":
        return Direct(setting.kernel, setting.gamma, study.loss, cell.criterion)
    if study.model not in ("one-vs-rest", "one-vs-one"):
        raise ValueError(f"there is no model {study.model!r}")
    if cell.criterion != "cv":
        raise ValueError("binary SVMs are chosen by cross-validation only")
    scheme: Any = study.model
    return Binary(scheme, setting.kernel, setting.gamma, study.loss)


def choose(Cs: Sequence[float], family: ModelFamily, part: Partition) -> dict[str, Judged]:
    """Both steps of the selection: the plain SVM and the universum SVM."""
    svm = _best(family.judge(part, Cs, [0.0], [0.0]), "C")
    balanced = len(part.y) / (len(part.universum) * len(np.unique(part.y)))
    joined = family.judge(part, [svm.C], [balanced], DELTA_GRID)
    return {"svm": svm, "mu_svm": _best(joined, "delta")}


def _best(candidates: Sequence[Judged], parameter: str) -> Judged:
    """The smallest error; among equal ones the one with the smallest value of a parameter."""
    errors = [candidate.error for candidate in candidates]
    values = [float(getattr(candidate, parameter)) for candidate in candidates]
    return candidates[first(np.arange(len(candidates)), errors, values)]


def _test(family: ModelFamily, judged: Judged, part: Partition) -> dict[str, float]:
    predicted = family.fit(judged, part.X, part.y, part.universum).predict(part.X_test)
    return {
        "error": float(np.mean(predicted != part.y_test)),
        "criterion": judged.error,
        "C": judged.C,
        "weight": judged.weight,
        "delta": judged.delta,
    }
