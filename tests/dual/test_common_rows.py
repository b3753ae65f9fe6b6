"""Rows that all labels share, against the dense saddle point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musvm._threads import Workers
from musvm.dual.common_rows import CommonRows

L = 3


def by_the_saddle_point(K, weights, is_free, values):
    """d, (M, L), that sums to zero in every row and is zero where a label is not free."""
    M = len(K)
    H = np.kron(K, np.eye(L)) + np.diag(weights.ravel())
    sums = np.kron(np.eye(M), np.ones(L))[:, is_free.ravel()]
    H, b = H[np.ix_(is_free.ravel(), is_free.ravel())], values.ravel()[is_free.ravel()]
    saddle = np.block([[H, sums.T], [sums, np.zeros((M, M))]])
    d = np.zeros(M * L)
    d[is_free.ravel()] = np.linalg.solve(saddle, np.concatenate([b, np.zeros(M)]))[: len(b)]
    return d.reshape(M, L)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
def test_eliminating_common_rows_leaves_the_same_solution(seed, n_common, n_others):
    """What is left for the others is solved by the dense equations with the Schur complement."""
    rng = np.random.default_rng(seed)
    M = n_common + n_others
    Z = rng.normal(size=(M, M + 2))
    K = Z @ Z.T
    order = rng.permutation(M)
    common, others = np.sort(order[:n_common]), np.sort(order[n_common:])
    weights, is_free = rng.uniform(0.1, 2.0, (M, L)), np.ones((M, L), dtype=bool)
    weights[common] = weights[common, :1]
    is_free[others, rng.integers(0, L, n_others)] = False
    values = rng.normal(size=(M, L))
    expected = by_the_saddle_point(K, weights, is_free, values)

    rows = CommonRows(K, common, others, weights[common, 0], Workers())
    assert rows.is_definite
    schur = np.triu(rows.schur) + np.triu(rows.schur, 1).T
    u, of_others = rows.eliminate(values[common])
    d = np.empty((M, L))
    d[others] = by_the_saddle_point(
        schur, weights[others], is_free[others], values[others] - of_others
    )
    d[common] = rows.changes(u, d[others])
    np.testing.assert_allclose(d, expected, atol=1e-9 * (1.0 + np.abs(expected).max()))


@pytest.mark.parametrize(("most_ridge", "is_definite"), [(0.0, False), (1.0, True)])
def test_a_ridge_helps_where_rounding_leaves_no_factor(most_ridge, is_definite):
    K = np.ones((3, 3))
    K[0, 0] -= 1e-15
    found = CommonRows(K, np.array([0, 1]), np.array([2]), np.zeros(2), most_ridge=most_ridge)
    assert found.is_definite == is_definite


def test_no_common_rows_and_no_others():
    K = np.diag([1.0, 2.0])
    both, none = np.arange(2), np.arange(0)
    assert np.array_equal(CommonRows(K, none, both, np.zeros(0)).schur, K)
    alone = CommonRows(K, both, none, np.zeros(2))
    u, of_others = alone.eliminate(np.array([[1.0, -1.0], [4.0, 0.0]]))
    assert of_others.shape == (0, 2)
    found = alone.changes(u, np.zeros((0, 2)))
    np.testing.assert_allclose(found, [[1.0, -1.0], [1.0, -1.0]])
