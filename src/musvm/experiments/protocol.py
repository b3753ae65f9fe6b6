"""The paper's protocol: one partition, one way to choose the model, three test errors.

    (a)  C of the plain SVM, from 10^-4 ... 10^3
    (b)  Delta from {0, .01, .05, .1} with that C and C*/C = n / (mL)

Both are chosen by stratified 5-fold cross-validation or by a leave-one-out quantity, on the
training points alone. Many cells have the same error, and the paper does not say which of them it
takes; its authors' program takes

    (a)  the smallest C                      (b)  the largest C*/C, then the smallest Delta

and so does this protocol, unless the study asks for the smallest mean hinge loss of the left-out
margins in step (a). Then all of the training points are fitted and the test points predicted, by

    svm       the plain SVM of step (a)
    mu_svm    the universum SVM of step (b), as in the paper
    either    the second if its error by the criterion is smaller, otherwise the first

A *cell* is one such run. It depends on its conditions and the data, and on nothing else.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from musvm._threads import one_blas_thread
from musvm.dual.problem import UniversumLoss
from musvm.experiments.data import Data, Features, Partition, draw_partition
from musvm.experiments.models import Direct, Judged, ModelFamily, OneVsRest
from musvm.experiments.settings import C_GRID, DELTA_GRID, SETTINGS, Setting
from musvm.search.choose import EQUAL
from musvm.universum import random_average

# C*/C relative to n / (mL), where it is searched.
WEIGHT_FACTORS = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Study:
    """What all cells of a run share: the data set, and where it departs from the paper.

    Attributes
    ----------
    split : "random", or "tracks" to keep the frames of one physical sign together
    loss : universum loss, "sum" or "max"
    weight : C*/C, "balanced" or "searched"
    universum : "samples", or "random-average" for averages of training points
    model : "direct", or "one-vs-rest" for one binary universum SVM per class
    ties : which of several C with the same error, "smallest-C" or "hinge"
    gamma : of the RBF kernel, instead of the setting's
    C : the only C, instead of the grid
    """

    dataset: str = "digits"
    split: str = "random"
    seed: int = 0
    loss: UniversumLoss = "sum"
    weight: str = "balanced"
    universum: str = "samples"
    model: str = "direct"
    ties: str = "smallest-C"
    gamma: float | None = None
    C: float | None = None
    features: Features = field(default_factory=Features)

    @property
    def setting(self) -> Setting:
        return SETTINGS[self.dataset]

    @property
    def Cs(self) -> tuple[float, ...]:
        return C_GRID if self.C is None else (self.C,)

    @property
    def departures(self) -> dict[str, Any]:
        """The entries that are not the defaults."""
        mine, usual = ({**asdict(s), **asdict(s.features)} for s in (self, Study(self.dataset)))
        return {k: v for k, v in mine.items() if k != "features" and v != usual[k]}


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
    family = model_family(study, cell, part)
    with one_blas_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        clocks = time.perf_counter(), time.process_time()
        chosen = choose(study, family, part)
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
    """The points of a cell; a universum of averages is made of its training points."""
    part = draw_partition(
        data, study.setting, study.split, study.seed, cell.partition, cell.universum, cell.m
    )
    if study.universum == "random-average":
        averages = random_average(part.X, part.y, cell.m, random_state=cell.partition)
        return replace(part, universum=averages)
    return part


def model_family(study: Study, cell: Cell, part: Partition) -> ModelFamily:
    """The kind of model that a cell is about."""
    setting = study.setting
    gamma = setting.gamma if study.gamma is None else study.gamma
    if study.model == "one-vs-rest":
        if cell.criterion != "cv":
            raise ValueError("the one-vs-rest baseline is chosen by cross-validation only")
        return OneVsRest(setting.kernel, gamma, study.loss)
    return Direct(setting.kernel, gamma, study.loss, cell.criterion)


def choose(study: Study, family: ModelFamily, part: Partition) -> dict[str, Judged]:
    """Both steps of the selection: the plain SVM and the universum SVM."""
    plain = family.judge(part, study.Cs, [0.0], [0.0])
    ties = [(j.C,) if study.ties == "smallest-C" else (j.hinge, j.C) for j in plain]
    svm = _first(plain, ties)
    balanced = len(part.y) / (len(part.universum) * len(study.setting.classes))
    factors = (1.0,) if study.weight == "balanced" else WEIGHT_FACTORS
    joined = family.judge(part, [svm.C], [factor * balanced for factor in factors], DELTA_GRID)
    return {"svm": svm, "mu_svm": _first(joined, [(-j.weight, j.delta) for j in joined])}


def _first(candidates: Sequence[Judged], ties: Sequence[tuple[float, ...]]) -> Judged:
    """The smallest error; among equal ones the one whose tie-breaker comes first."""
    least = min(candidate.error for candidate in candidates) + EQUAL
    best = [k for k, candidate in enumerate(candidates) if candidate.error <= least]
    return candidates[min(best, key=ties.__getitem__)]


def _test(family: ModelFamily, judged: Judged, part: Partition) -> dict[str, float]:
    predicted = family.fit(judged, part.X, part.y, part.universum).predict(part.X_test)
    return {
        "error": float(np.mean(predicted != part.y_test)),
        "criterion": judged.error,
        "C": judged.C,
        "weight": judged.weight,
        "delta": judged.delta,
    }
