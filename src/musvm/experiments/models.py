"""The kinds of model that experiments compare, each with a way to judge parameters.

    Direct       the multiclass universum SVM, judged by `UniversumSVCCV`
    OneVsRest    the baseline: one binary universum SVM per class against the rest, the largest
                 value wins; this is how a binary universum SVM is used on several classes

The binary problems of the baseline are those of `UniversumSVC` with two classes. It gets the C*/C
of the direct model, so that a universum point weighs the same against a training point in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from musvm import UniversumSVC, UniversumSVCCV
from musvm._input.tensors import FloatArray
from musvm.dual.problem import UniversumLoss
from musvm.experiments.data import Partition
from musvm.experiments.settings import FOLDS


@dataclass(frozen=True)
class Judged:
    """Parameters, and what the points left out say of them; `weight` is C*/C, 0 without."""

    C: float
    weight: float
    delta: float
    error: float
    hinge: float


class ModelFamily(Protocol):
    """Judges parameters on the training points, and fits them."""

    def judge(
        self,
        part: Partition,
        Cs: Sequence[float],
        weights: Sequence[float],
        deltas: Sequence[float],
    ) -> list[Judged]: ...

    def fit(self, judged: Judged, X: Any, y: Any, universum: Any) -> Any: ...


def folds_of(part: Partition) -> Any:
    """Stratified folds; those of the split by tracks keep tracks together as well."""
    return StratifiedKFold(FOLDS) if part.groups is None else StratifiedGroupKFold(FOLDS)


@dataclass(frozen=True)
class Direct:
    """The multiclass universum SVM; `criterion` is "cv" or one that `UniversumSVCCV` knows."""

    kernel: str
    gamma: float
    loss: UniversumLoss
    criterion: str

    def judge(
        self,
        part: Partition,
        Cs: Sequence[float],
        weights: Sequence[float],
        deltas: Sequence[float],
    ) -> list[Judged]:
        search = UniversumSVCCV(
            Cs,
            kernel=self.kernel,
            gammas=[self.gamma],
            deltas=deltas,
            universum_weights=weights,
            universum_loss=self.loss,
            criterion=folds_of(part) if self.criterion == "cv" else self.criterion,
        )
        is_plain = not any(weights)
        universum = None if is_plain else part.universum
        results = search.fit(part.X, part.y, universum, groups=part.groups).results_
        names = ("C", "universum_weight", "delta", "error", "hinge")
        rows = zip(*(results[name].tolist() for name in names), strict=True)
        # The search keeps the plain SVM among its candidates; here it was judged before.
        return [Judged(*row) for row in rows if is_plain or row[1] > 0]

    def fit(self, judged: Judged, X: Any, y: Any, universum: Any) -> UniversumSVC:
        return _fit(self, judged, X, y, universum)


@dataclass(frozen=True)
class OneVsRest:
    """Binary universum SVMs, judged by cross-validation."""

    kernel: str
    gamma: float
    loss: UniversumLoss

    def judge(
        self,
        part: Partition,
        Cs: Sequence[float],
        weights: Sequence[float],
        deltas: Sequence[float],
    ) -> list[Judged]:
        judged = []
        for C, weight, delta in product(Cs, weights, deltas):
            unknown = Judged(C, weight, delta, np.nan, np.nan)
            margins = np.concatenate(list(self._left_out_margins(unknown, part)))
            error, hinge = np.mean(margins <= 0), np.maximum(0.0, 1.0 - margins).mean()
            judged.append(Judged(C, weight, delta, float(error), float(hinge)))
        return judged

    def fit(self, judged: Judged, X: Any, y: Any, universum: Any) -> OneVsRestModel:
        classes = np.unique(y)
        models = [_fit(self, judged, X, y == label, universum) for label in classes]
        return OneVsRestModel(classes, models)

    def _left_out_margins(self, judged: Judged, part: Partition) -> Iterator[FloatArray]:
        for kept, left in folds_of(part).split(part.X, part.y, part.groups):
            model = self.fit(judged, part.X[kept], part.y[kept], part.universum)
            F = model.decision_values(part.X[left])
            rows, own = np.arange(len(left)), np.searchsorted(model.classes, part.y[left])
            own_values = F[rows, own].copy()
            F[rows, own] = -np.inf
            yield own_values - F.max(axis=1)


@dataclass(frozen=True)
class OneVsRestModel:
    """Fitted binary models, one per class."""

    classes: Any
    models: list[UniversumSVC]

    def decision_values(self, X: FloatArray) -> FloatArray:
        return np.column_stack([model.decision_function(X) for model in self.models])

    def predict(self, X: FloatArray) -> Any:
        return self.classes[self.decision_values(X).argmax(axis=1)]


def _fit(
    family: Direct | OneVsRest, judged: Judged, X: Any, y: Any, universum: Any
) -> UniversumSVC:
    model = UniversumSVC(
        judged.C,
        kernel=family.kernel,
        gamma=family.gamma,
        delta=judged.delta,
        universum_weight=judged.weight,
        universum_loss=family.loss,
    )
    return model.fit(X, y, universum=universum if judged.weight > 0 else None)
