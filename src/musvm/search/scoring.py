"""Scores of the rows that belong to a class, for data whose universum is marked in y."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.utils.validation import column_or_1d

from musvm._input.reading import is_universum
from musvm._sklearn import safe_indexing


class ClassScorer:
    """A scorer that leaves out universum rows; made by `make_universum_scorer`."""

    def __init__(self, scoring: str | Callable[..., float] | None, universum_label: Any) -> None:
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
    scoring: str | Callable[..., float] | None = "accuracy", *, universum_label: Any = -1
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
