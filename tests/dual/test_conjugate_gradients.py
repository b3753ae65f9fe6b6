"""Conjugate gradients against a direct solution, and where they must stop."""

import numpy as np
import pytest

from musvm.dual.conjugate_gradients import conjugate_gradients

A = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
RHS = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]])


def test_every_system_has_its_solution():
    found = conjugate_gradients(lambda v: v @ A, lambda v: v, RHS, tol=1e-12, max_iter=10)
    assert found.is_definite
    assert found.x == pytest.approx(np.linalg.solve(A, RHS.T).T, rel=1e-10)


def test_a_preconditioner_of_the_wrong_sign_leaves_numbers():
    """As rounding may give it the wrong sign where the residual is next to nothing."""
    found = conjugate_gradients(lambda v: v @ A, lambda v: -v, RHS, tol=1e-12, max_iter=10)
    assert np.array_equal(found.x, np.zeros_like(RHS))


def test_a_direction_of_negative_curvature_is_told():
    found = conjugate_gradients(lambda v: -v @ A, lambda v: v, RHS, tol=1e-12, max_iter=10)
    assert not found.is_definite
    assert np.all(np.isfinite(found.x))
