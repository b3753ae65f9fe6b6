"""Making a universum where there is none.

    random_average   (x_{i_1} + ... + x_{i_r}) / r, one random training point from each of r classes
    random_noise     features drawn independently of each other

Averages of points of different classes lie between the classes by construction, and resemble none
of them. Noise keeps the range or the distribution of each feature and nothing of how features go
together.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, check_random_state, check_X_y

from musvm._input.tensors import IntArray, to_host
from musvm._sklearn import Interval, StrOptions, validate_params
from musvm.universum._frames import like

FLOATS = [np.float64, np.float32]
COUNT = [Interval(Integral, 1, None, closed="left")]


@validate_params(
    {"m": COUNT, "per_class": ["boolean"], "random_state": ["random_state"]},
    prefer_skip_nested_validation=True,
)
def random_average(
    X: Any, y: Any, m: int, *, per_class: bool = True, random_state: Any = None
) -> Any:
    """Average random training points of different classes.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training points.

    y : array-like of shape (n_samples,)
        Their labels, of at least two classes.

    m : int
        Number of universum points to make.

    per_class : bool, default=True
        Whether each is the average of one point from every class. If False, of one point from
        each of two random classes.

    random_state : int, RandomState instance or None, default=None
        Determines the points that are averaged.

    Returns
    -------
    universum : {ndarray, sparse array, DataFrame} of shape (m, n_features)
        The averages; a CSR array if `X` is sparse, a DataFrame of pandas or polars if `X` is one,
        an ndarray if it is a tensor.

    Examples
    --------
    >>> from musvm.universum import random_average
    >>> random_average([[0.0, 2.0], [4.0, 0.0]], ["a", "b"], m=1)
    array([[2., 1.]])
    """
    given = X
    X, y = check_X_y(to_host(X), to_host(y), accept_sparse="csr", dtype=FLOATS)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"Averages need points of at least two classes; got {len(classes)} class.")
    rng = check_random_state(random_state)
    rows = _one_row_of_each_class(codes, m, rng)
    if not per_class:
        two_classes = rng.rand(*rows.shape).argsort(axis=1)[:, :2]
        rows = np.take_along_axis(rows, two_classes, axis=1)
    n_averaged = rows.shape[1]
    weights = sp.csr_array(
        (
            np.full(rows.size, 1 / n_averaged, dtype=X.dtype),
            rows.ravel(),
            n_averaged * np.arange(m + 1),
        ),
        shape=(m, X.shape[0]),
    )
    return like(given, weights @ X)


def _one_row_of_each_class(codes: IntArray, m: int, rng: np.random.RandomState) -> IntArray:
    """(m, L) indices, column k drawn from the rows of class k."""
    members = [np.flatnonzero(codes == k) for k in range(codes.max() + 1)]
    return np.column_stack([rng.choice(rows, m) for rows in members])


@validate_params(
    {"m": COUNT, "kind": [StrOptions({"shuffled", "uniform"})], "random_state": ["random_state"]},
    prefer_skip_nested_validation=True,
)
def random_noise(
    X: Any,
    m: int,
    *,
    kind: Literal["shuffled", "uniform"] = "shuffled",
    random_state: Any = None,
) -> Any:
    """Draw points whose features are independent of each other.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training points.

    m : int
        Number of universum points to make.

    kind : {'shuffled', 'uniform'}, default='shuffled'
        'shuffled' draws each feature from its own values in `X`, so that it keeps its
        distribution and a sparse feature stays sparse. 'uniform' draws it between its smallest
        and its largest value, which fills a sparse array.

    random_state : int, RandomState instance or None, default=None
        Determines the noise.

    Returns
    -------
    universum : {ndarray, sparse array, DataFrame} of shape (m, n_features)
        The noise; a CSR array if `X` is sparse, a DataFrame of pandas or polars if `X` is one,
        an ndarray if it is a tensor.

    Examples
    --------
    >>> from musvm.universum import random_noise
    >>> random_noise([[0.0, 5.0], [0.0, 5.0]], m=2)
    array([[0., 5.],
           [0., 5.]])
    """
    given = X
    X = check_array(to_host(X), accept_sparse="csc", dtype=FLOATS)
    rng = check_random_state(random_state)
    columns = sp.csc_array(X, copy=True)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    U = _shuffled(columns, m, rng) if kind == "shuffled" else _uniform(columns, m, rng)
    return sp.csr_array(U) if sp.issparse(X) else like(given, U.toarray())


def _uniform(X: Any, m: int, rng: np.random.RandomState) -> Any:
    low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    return sp.csc_array(rng.uniform(low, high, size=(m, X.shape[1])).astype(X.dtype))


def _shuffled(X: Any, m: int, rng: np.random.RandomState) -> Any:
    """Draw from every column's n values, stored or zero, touching only the stored ones."""
    n, n_features = X.shape
    n_stored = np.diff(X.indptr)
    n_drawn = rng.binomial(m, n_stored / n)
    rows, values = [np.empty(0, np.intp)], [np.empty(0, X.dtype)]
    for j in np.flatnonzero(n_drawn):
        rows.append(rng.choice(m, n_drawn[j], replace=False))
        values.append(rng.choice(X.data[X.indptr[j] : X.indptr[j + 1]], n_drawn[j]))
    indptr = np.concatenate([[0], n_drawn.cumsum()])
    return sp.csc_array(
        (np.concatenate(values), np.concatenate(rows), indptr), shape=(m, n_features)
    )
