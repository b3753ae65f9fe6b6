"""The kinds of model that experiments compare, each with a way to judge parameters.

    Direct       the multiclass universum SVM, judged by `UniversumSVCCV`
    Binary       binary universum SVMs, judged by cross-validation: "one-vs-rest", one per class
                 against the rest, where the largest value wins; or "one-vs-one", one per pair of
                 classes on their points alone, where the most wins win, and among equals the
                 largest sum of values

The binary problems are those of `UniversumSVC` with two classes. They get the C*/C of the direct
model, so that a universum point weighs the same against a training point in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Literal, Protocol

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from musvm import UniversumSVC, UniversumSVCCV
from musvm.experiments.data import FloatArray, Partition
from musvm.experiments.settings import FOLDS

Loss = Literal["sum", "max"]


@dataclass(frozen=True)
class Judged:
    """Parameters, and the error of the points left out; `weight` is C*/C, 0 without."""

    C: float
    weight: float
    delta: float
    error: float


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
    loss: Loss
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
        names = ("C", "universum_weight", "delta", "criterion")
        rows = zip(*(results[name].tolist() for name in names), strict=True)
        # The search keeps the plain SVM among its candidates; here it was judged before.
        return [Judged(*row) for row in rows if is_plain or row[1] > 0]

    def fit(self, judged: Judged, X: Any, y: Any, universum: Any) -> UniversumSVC:
        return _fit(self, judged, X, y, universum)


@dataclass(frozen=True)
class Binary:
    """Binary universum SVMs, judged by cross-validation."""

    scheme: Literal["one-vs-rest", "one-vs-one"]
    kernel: str
    gamma: float
    loss: Loss

    def judge(
        self,
        part: Partition,
        Cs: Sequence[float],
        weights: Sequence[float],
        deltas: Sequence[float],
    ) -> list[Judged]:
        judged = []
        for C, weight, delta in product(Cs, weights, deltas):
            wrong = list(self._wrong(Judged(C, weight, delta, np.nan), part))
            judged.append(Judged(C, weight, delta, sum(wrong) / len(part.y)))
        return judged

    def fit(self, judged: Judged, X: Any, y: Any, universum: Any) -> OneVsRest | OneVsOne:
        classes = np.unique(y)
        if self.scheme == "one-vs-rest":
            models = [_fit(self, judged, X, y == label, universum) for label in classes]
            return OneVsRest(classes, models)
        pairs = list(combinations(range(len(classes)), 2))
        rows = [np.flatnonzero(np.isin(y, classes[list(pair)])) for pair in pairs]
        models = [
            _fit(self, judged, X[kept], y[kept] == classes[k], universum)
            for (k, _), kept in zip(pairs, rows, strict=True)
        ]
        return OneVsOne(classes, pairs, models)

    def _wrong(self, judged: Judged, part: Partition) -> Iterator[int]:
        """Errors in each fold that is left out."""
        for kept, left in folds_of(part).split(part.X, part.y, part.groups):
            model = self.fit(judged, part.X[kept], part.y[kept], part.universum)
            yield int(np.sum(model.predict(part.X[left]) != part.y[left]))


@dataclass(frozen=True)
class OneVsRest:
    """Fitted binary models, one per class."""

    classes: Any
    models: list[UniversumSVC]

    def decision_values(self, X: FloatArray) -> FloatArray:
        return np.column_stack([model.decision_function(X) for model in self.models])

    def predict(self, X: FloatArray) -> Any:
        return self.classes[self.decision_values(X).argmax(axis=1)]


@dataclass(frozen=True)
class OneVsOne:
    """Fitted binary models, one per pair of classes; the first of a pair is the positive one."""

    classes: Any
    pairs: list[tuple[int, int]]
    models: list[UniversumSVC]

    def predict(self, X: FloatArray) -> Any:
        wins, sums = np.zeros((2, len(X), len(self.classes)))
        for (k, l), model in zip(self.pairs, self.models, strict=True):
            value = model.decision_function(X)
            for label, own in ((k, value), (l, -value)):
                wins[:, label] += own > 0
                sums[:, label] += own
        # Sums are squeezed below one half, so that they decide between equal wins only.
        return self.classes[(wins + np.arctan(sums) / np.pi * 0.99).argmax(axis=1)]


def _fit(family: Direct | Binary, judged: Judged, X: Any, y: Any, universum: Any) -> UniversumSVC:
    model = UniversumSVC(
        judged.C,
        kernel=family.kernel,
        gamma=family.gamma,
        delta=judged.delta,
        universum_weight=judged.weight,
        universum_loss=family.loss,
    )
    return model.fit(X, y, universum=universum if judged.weight > 0 else None)
