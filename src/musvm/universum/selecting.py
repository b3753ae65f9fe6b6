"""Selecting, among many candidates, those that lie between the classes.

Two measures of how far a candidate x is from lying between the classes; the smallest are selected.

    max_k |x - mu_k|              distance to the farthest class mean mu_k
    max_l f_l(x) - min_l f_l(x)   spread of the decision values of a classifier

The first is small only near the middle of all classes: a point beyond one class, or far from all
of them, is far from some mean. The second asks only that the classifier does not prefer a class
there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array, check_X_y

from musvm._input.tensors import FloatArray, to_host
from musvm._sklearn import HasMethods, validate_params
from musvm.projections import decision_values
from musvm.universum._frames import rows
from musvm.universum.making import COUNT, FLOATS


@validate_params(
    {
        "m": COUNT,
        "estimator": [HasMethods(["fit", "decision_function"]), None],
        "return_indices": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def select_in_between(
    X: Any, y: Any, candidates: Any, m: int, *, estimator: Any = None, return_indices: bool = False
) -> Any:
    """Select the candidates that lie between the classes.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training points.

    y : array-like of shape (n_samples,)
        Their labels, of at least two classes.

    candidates : {array-like, sparse matrix} of shape (n_candidates, n_features)
        Points that belong to no class.

    m : int
        Number of candidates to select, at most `n_candidates`.

    estimator : classifier, default=None
        None selects the candidates closest to their farthest class mean. This depends on the
        scale of the features. A classifier is cloned and fitted to `X` and `y`, and the
        candidates whose decision values spread least over the classes are selected: an
        :class:`~musvm.UniversumSVC` finds those that it would not change much for.

    return_indices : bool, default=False
        Return the positions of the selected candidates as well.

    Returns
    -------
    universum : {ndarray, sparse array, DataFrame} of shape (m, n_features)
        The selected candidates, best first; rows of the DataFrame if `candidates` is one, an
        ndarray for tensors.

    indices : ndarray of shape (m,)
        Their rows in `candidates`. Only if `return_indices` is True.

    Examples
    --------
    >>> from musvm.universum import select_in_between
    >>> X, y = [[0.0, 0.0], [4.0, 0.0]], ["left", "right"]
    >>> select_in_between(X, y, [[9.0, 0.0], [2.0, 1.0], [0.0, 1.0], [2.0, 9.0]], m=1)
    array([[2., 1.]])
    """
    X, y, candidates = map(to_host, (X, y, candidates))
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=FLOATS)
    given = candidates
    candidates = check_array(candidates, accept_sparse="csr", dtype=FLOATS, input_name="candidates")
    n_candidates, n_features = candidates.shape
    if n_features != X.shape[1]:
        raise ValueError(f"candidates has {n_features} features, but X has {X.shape[1]}.")
    if m > n_candidates:
        raise ValueError(f"m={m} candidates cannot be selected among {n_candidates}.")
    if estimator is None:
        distance = _distance_to_the_farthest_mean(X, y, candidates)
    else:
        distance = np.ptp(decision_values(clone(estimator).fit(X, y), candidates), axis=1)
    indices = distance.argsort(kind="stable")[:m]
    selected = rows(given, candidates, indices)
    return (selected, indices) if return_indices else selected


def _distance_to_the_farthest_mean(X: Any, y: Any, candidates: Any) -> FloatArray:
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(
            f"There is nothing between fewer than two classes; got {len(classes)} class."
        )
    means = np.vstack([np.asarray(X[y == k].mean(axis=0)).ravel() for k in classes])
    return euclidean_distances(candidates, means).max(axis=1)
