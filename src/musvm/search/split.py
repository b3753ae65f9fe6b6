"""`UniversumSplit`: universum rows are always trained on, never tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import check_cv
from sklearn.utils.validation import column_or_1d

from musvm._input.reading import is_universum, nothing_marked
from musvm._input.tensors import IntArray
from musvm._messages import warn_user
from musvm._sklearn import safe_indexing


class UniversumSplit(BaseEstimator):
    """Cross-validation splitter that keeps universum rows in every training part.

    The wrapped splitter sees the other rows only, as if there were no universum. Every universum
    row is then added to each training part.

    Parameters
    ----------
    cv : int, splitter or list of splits, default=5
        What splits the training points. An integer is the number of stratified folds. The
        indices in a list of (train, test) pairs count training points only.

    universum_label : str, int, float or bool, default=-1
        Label in `y` that marks universum rows.

    See Also
    --------
    UniversumSVCCV : Search that does the same by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from musvm import UniversumSplit
    >>> y = np.array([0, 1, -1, 0, 1, -1])
    >>> for train, test in UniversumSplit(2, universum_label=-1).split(y, y):
    ...     print(train, test)
    [2 3 4 5] [0 1]
    [0 1 2 5] [3 4]

    >>> from sklearn.model_selection import GridSearchCV
    >>> from musvm import UniversumSVC
    >>> search = GridSearchCV(
    ...     UniversumSVC(universum_label=-1), {"delta": [0, 0.1]}, cv=UniversumSplit(3)
    ... )
    """

    # Every splitter takes groups, and those that need none ignore them.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(self, cv: Any = 5, universum_label: Any = -1) -> None:
        self.cv = cv
        self.universum_label = universum_label

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:
        """Indices of the rows to train on and of the rows to test on.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            All rows.

        y : array-like of shape (n_samples,)
            Their labels.

        groups : array-like of shape (n_samples,), default=None
            Groups, for splitters that keep them together. Those of universum rows do not matter.

        Yields
        ------
        train : ndarray
            Sorted indices to train on, all universum rows among them.

        test : ndarray
            Indices to test on.
        """
        cv, rows, universum, arguments = self._training_rows(X, y, groups)
        for train, test in cv.split(*arguments):
            yield np.sort(np.concatenate([rows[train], universum])), rows[test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of splits.

        Parameters
        ----------
        X, y, groups : array-like, default=None
            As in `split`. Without `y`, the wrapped splitter is asked as it is.

        Returns
        -------
        n_splits : int
            How many pairs `split` gives.
        """
        if y is None:
            return int(check_cv(self.cv).get_n_splits())
        cv, _, _, arguments = self._training_rows(X, y, groups)
        return int(cv.get_n_splits(*arguments))

    def _training_rows(
        self, X: Any, y: Any, groups: Any
    ) -> tuple[Any, IntArray, IntArray, list[Any]]:
        """The splitter, the training rows, the universum rows, and X, y, groups of the former."""
        labels = column_or_1d(y)
        marked = is_universum(labels, self.universum_label)
        if marked.all():
            raise ValueError("y holds only the universum label, so there is nothing to split.")
        rows = np.flatnonzero(~marked)
        if len(rows) == len(labels):
            found = nothing_marked(np.unique(labels.astype(str)), self.universum_label)
            warn_user(f"{found}: these are splits of all rows.")
        # Labels that share an array with a universum label of another type are objects.
        y = np.array(labels[rows].tolist())
        X, groups = (None if part is None else safe_indexing(part, rows) for part in (X, groups))
        cv = check_cv(self.cv, y, classifier=True)
        return cv, rows, np.flatnonzero(marked), [X, y, groups]
