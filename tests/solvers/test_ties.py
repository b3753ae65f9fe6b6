"""How rows with two tied sums answer, against the minimiser in p, q and u."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musvm.solvers.cones import DoubleStar, Star
from musvm.solvers.ties import LEAST_GIVE, rows_of

L, R = 4, 3
# Of numbers of about one.
ROUNDED = 1e-9


def drawn(seed: int, largest_u: float) -> DoubleStar:
    rng = np.random.default_rng(seed)
    p, q = rng.uniform(0.1, 2.0, (2, L, R))
    return DoubleStar(p, q, rng.uniform(0.1, 1.0, (1, R)) * largest_u)


def cheapest(star: DoubleStar, r: int, d: np.ndarray) -> tuple[np.ndarray, float]:
    """dp and the weight of the cheapest split of a change of row r, by dense equations."""
    p, q, u = star.p[:, r], star.q[:, r], star.u[0, r]
    H = np.diag(1.0 / np.concatenate([p, q, [u]]))
    A = np.zeros((L + 1, 2 * L + 1))
    A[:L, :L], A[:L, L : 2 * L] = np.eye(L), -np.eye(L)
    A[L, :L], A[L, 2 * L] = 1.0, 1.0
    system = np.block([[H, A.T], [A, np.zeros((L + 1, L + 1))]])
    x = np.linalg.solve(system, np.concatenate([np.zeros(2 * L + 1), d, [0.0]]))[: 2 * L + 1]
    return x[:L], float(x @ H @ x)


@given(st.integers(0, 10**6), st.sampled_from([1.0, 1e-3]))
def test_split_and_weight_are_those_of_the_cheapest(seed, largest_u):
    star = drawn(seed, largest_u)
    d = np.random.default_rng(seed + 1).normal(size=(L, R))
    d -= d.mean(axis=0)
    a, h = star.tie
    tension = (a * d).sum(axis=0) / h
    dp, dq = star.split(d, tension)
    np.testing.assert_allclose(dp - dq, d, atol=ROUNDED)
    np.testing.assert_allclose(dp.sum(axis=0), dq.sum(axis=0), atol=ROUNDED)
    weight = (d**2 / star.theta).sum(axis=0) + h * tension**2
    for r in range(R):
        expected, least = cheapest(star, r, d[:, r])
        np.testing.assert_allclose(
            dp[:, r], expected, atol=ROUNDED * (1.0 + np.abs(expected).max())
        )
        assert weight[r] == pytest.approx(least, rel=ROUNDED)


@given(st.integers(0, 10**6), st.sampled_from([10.0, 1e-3, 1e-12]), st.sampled_from([1e-6, 1e6]))
def test_answers_keep_the_sums_and_their_tie(seed, largest_u, curvature):
    """Stiff rows, loose ones, and rows of other kinds next to them."""
    rng = np.random.default_rng(seed + 1)
    star, other = drawn(seed, largest_u), Star(rng.uniform(0.1, 2.0, (L, 2)))
    if largest_u < 1e-6:
        # Next to nothing of q where p is, and of p where q is.
        star = DoubleStar(star.p * [[1], [1], [1e-13], [1e-13]],
                          star.q * [[1e-13], [1e-13], [1], [1]], star.u)  # fmt: skip
    rows = rows_of([other, star], np.full(R + 2, curvature))
    values = rng.normal(size=(L, R + 2))
    change = rows.star.theta * rows.slopes(values)
    nearly, tension = rows.closed(change + 1e-6 * rng.normal(size=change.shape), values)
    a, h = star.tie
    np.testing.assert_allclose(nearly.sum(axis=0), 0.0, atol=ROUNDED)
    np.testing.assert_allclose((a * nearly[:, 2:]).sum(axis=0), h * tension[2:], atol=ROUNDED)
    np.testing.assert_array_equal(tension[:2], 0.0)
    np.testing.assert_allclose(nearly, change, atol=1e-4)


def test_rows_of_p_alone_are_not_tied():
    star = DoubleStar(np.ones((L, R)), np.zeros((L, R)), np.ones((1, R)))
    rows = rows_of([star], np.ones(R))
    assert not rows.are_tied.any()
    assert not rows.has_stiff_ties
    np.testing.assert_array_equal(star.tie[0], 0.0)


def test_a_tie_gives_a_little_where_equations_are_factored():
    """h of 1e-18 would swallow all other terms of a matrix in doubles."""
    p, q = np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([[0.0], [0.0], [1.0], [1.0]])
    rows = rows_of([DoubleStar(p, q, np.full((1, 1), 1e-18))], np.ones(1))
    assert rows.has_stiff_ties
    at = np.arange(L), np.zeros(L, dtype=np.intp)
    give = rows.ties(at, np.array([L])).give
    np.testing.assert_allclose(give, LEAST_GIVE * (rows.star.theta * star_a(p, q) ** 2).sum())


def star_a(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """a less its mean: one half for p alone, minus one half for q alone."""
    return 0.5 * (p - q)
