"""Scores of the rows that belong to a class: where a universum is marked in y, and in a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring, get_scorer
from sklearn.utils.validation import column_or_1d

from musvm._input.reading import FitData, is_universum
from musvm._input.tensors import FloatArray, IntArray, take
from musvm._sklearn import safe_indexing
from musvm.search.cells import CellFit

Scoring = str | Callable[..., float]


class ClassScorer:
    """A scorer that leaves out universum rows; made by `make_universum_scorer`."""

    def __init__(self, scoring: Scoring | None, universum_label: Any) -> None:
        self.scoring = scoring
        self.universum_label = universum_label

    def __repr__(self) -> str:
        return f"make_universum_scorer({self.scoring!r}, universum_label={self.universum_label!r})"

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        labels = column_or_1d(y)
        judged = np.flatnonzero(~is_universum(labels, self.universum_label))
        if not len(judged):
            raise ValueError("y holds only the universum label, so there is nothing to score.")
        scorer = check_scoring(estimator, self.scoring)
        # Labels that share an array with a universum label of another type are objects.
        known = np.array(labels[judged].tolist())
        return float(scorer(estimator, safe_indexing(X, judged), known))


def make_universum_scorer(
    scoring: Scoring | None = "accuracy", *, universum_label: Any = -1
) -> ClassScorer:
    """Scorer for labels that mark a universum: its rows are no errors, they do not count.

    No class is predicted right for a universum row, so that ``scoring="accuracy"`` counts all of
    them as errors. (`UniversumSVC.score`, which a search uses without `scoring`, does not.)

    Parameters
    ----------
    scoring : str or callable, default='accuracy'
        What scores the other rows: a name or a scorer of scikit-learn.

    universum_label : str, int, float or bool, default=-1
        Label in `y` that marks universum rows.

    Returns
    -------
    scorer : callable
        For `scoring=` of scikit-learn's searches and cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from musvm import UniversumSplit, UniversumSVC, make_universum_scorer
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = X[:300] / 16, np.where(y < 4, y, -1)[:300]
    >>> scorer = make_universum_scorer("balanced_accuracy", universum_label=-1)
    >>> clf = UniversumSVC(universum_label=-1)
    >>> bool(cross_val_score(clf, X, y, cv=UniversumSplit(3), scoring=scorer).mean() > 0.9)
    True
    """
    return ClassScorer(scoring, universum_label)


class LeftOutModel(ClassifierMixin, BaseEstimator):
    """A model of one fold, which knows its decision values for the points left out of it."""

    def __init__(self, classes: Any, F: FloatArray) -> None:
        self.classes = classes
        self.F = F

    @property
    def classes_(self) -> Any:
        return self.classes

    def fit(self, X: Any, y: Any) -> LeftOutModel:
        """It is fitted."""
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Those of the points left out, whatever X is."""
        return self.F[:, 1] - self.F[:, 0] if self.F.shape[1] == 2 else self.F

    def predict(self, X: Any) -> Any:
        """The labels of the largest decision values."""
        return self.classes[self.F.argmax(axis=1)]


class FoldScorer:
    """Scores fits by the points left out of them.

    Parameters
    ----------
    scoring : a name or a scorer of scikit-learn
    data : all rows
    tests : rows of `data` that every fold leaves out
    """

    def __init__(self, scoring: Scoring, data: FitData, tests: Sequence[IntArray]) -> None:
        self._scorer = get_scorer(scoring)
        self._data = data
        self._tests = tests

    def __call__(self, fits: Sequence[CellFit]) -> FloatArray:
        """The score of every fold's fit, larger for a better one."""
        classes, scores = self._data.classes, []
        for fit, rows in zip(fits, self._tests, strict=True):
            y = classes[self._data.codes[rows]]
            X = take(self._data.X, rows)
            scores.append(self._scorer(LeftOutModel(classes, fit.F), X, y))
        found = np.array(scores, dtype=object)
        if found.ndim != 1 or not all(np.isscalar(s) and np.isfinite(s) for s in scores):
            raise ValueError(f"scoring must give one finite number for a fold, got {scores[0]!r}.")
        return found.astype(float)
