"""Where interior points begin: strictly inside, between the middle of every row and an alpha."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from musvm.dual._faces import project_rows

from musvm.dual.problem import DualRows, infeasibility
from musvm.solvers.cones import Capped, Cone, Simplex

L, n, m = 4, 7, 5
MIDDLE = st.sampled_from([0.01, 0.3, 1.0])


def feasible_alpha(seed: int) -> tuple[DualRows, np.ndarray]:
    """Rows of both kinds, and a class-major alpha, some of it at its bounds."""
    rng = np.random.default_rng(seed)
    rows = DualRows(rng.integers(0, L, n), L, rng.uniform(0.5, 2.0, n + m), 0.1)
    alpha = rng.normal(scale=2.0, size=(L, n + m))
    project_rows(alpha, rows.y, rows.caps, False)
    return rows, alpha


def simplex_of(rows: DualRows, alpha: np.ndarray, F: np.ndarray, middle: float) -> Cone:
    bound = np.zeros((L, n))
    bound[rows.y, np.arange(n)] = rows.caps[:n]
    return Simplex(bound, bound / rows.caps[:n] - F, None, alpha, middle)


def capped_of(rows: DualRows, alpha: np.ndarray, F: np.ndarray, middle: float) -> Cone:
    return Capped(rows.caps[n:], F, rows.delta, None, alpha, middle)


@given(st.integers(0, 10**6), MIDDLE, st.sampled_from([1.0, 100.0]))
def test_the_first_point_is_inside_and_sums_to_zero(seed, middle, scale):
    rows, alpha = feasible_alpha(seed)
    F = np.random.default_rng(seed).normal(scale=scale, size=alpha.shape)
    cones = (
        simplex_of(rows, alpha[:, :n], F[:, :n], middle),
        capped_of(rows, alpha[:, n:], F[:, n:], middle),
    )
    for cone in cones:
        assert all((values > 0.0).all() for values in [*cone.x, *cone.z])
    first = np.hstack([cone.alpha for cone in cones])
    assert infeasibility(rows, first.T) <= 1e-14


@pytest.mark.parametrize(("kind", "part"), [(simplex_of, slice(n)), (capped_of, slice(n, None))])
@given(st.integers(0, 10**6), MIDDLE)
def test_the_first_point_is_between_the_middle_and_alpha(kind, part, seed, middle):
    rows, alpha = feasible_alpha(seed)
    alpha, F = alpha[:, part], np.zeros_like(alpha[:, part])
    centre = kind(rows, alpha, F, 1.0).alpha
    between = middle * centre + (1.0 - middle) * alpha
    np.testing.assert_allclose(kind(rows, alpha, F, middle).alpha, between, atol=1e-14)
