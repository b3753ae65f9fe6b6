"""Factors and solves by halves, and memory that is used again."""

from __future__ import annotations

import numpy as np
import pytest

from musvm._pieces import Workspace, divide_rows, lower_factor

# One call of LAPACK takes up to 48 rows, and one piece up to 512.
SIZES = [1, 48, 49, 97, 200, 600]
ATOL = 1e-12


def well_conditioned(n):
    """A, Fortran-ordered, with nothing above its diagonal that may be read."""
    Z = np.random.default_rng(n).normal(size=(n, n + 5))
    whole = Z @ Z.T / n + np.eye(n)
    lower = np.full((n, n), np.nan, order="F")
    lower[np.tril_indices(n)] = whole[np.tril_indices(n)]
    return whole, lower


@pytest.mark.parametrize("n", SIZES)
def test_a_factor_by_halves_is_the_factor(n):
    whole, A = well_conditioned(n)
    assert lower_factor(A)
    np.testing.assert_allclose(np.tril(A), np.linalg.cholesky(whole), atol=ATOL)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("at", [0.0, 0.4, 1.0])
def test_a_matrix_that_is_not_positive_has_no_factor(n, at):
    _, A = well_conditioned(n)
    place = int(at * (n - 1))
    A[place, place] = -1.0
    assert not lower_factor(A)


@pytest.mark.parametrize("n", SIZES)
def test_rows_are_divided_by_halves(n):
    whole, A = well_conditioned(n)
    lower_factor(A)
    B = np.asfortranarray(np.random.default_rng(0).normal(size=(70, n)))
    expected = np.linalg.solve(np.linalg.cholesky(whole), B.T).T
    divide_rows(B, A)
    np.testing.assert_allclose(B, expected, atol=ATOL)


def test_memory_is_used_again_and_grows_where_it_must():
    workspace = Workspace()
    workspace.empty_for([3, 4])
    first, second = workspace.square(3), workspace.square(4)
    first[...], second[...] = 1.0, 2.0
    assert first.flags.f_contiguous
    assert (first == 1.0).all(), "what was lent since is elsewhere"
    workspace.empty_for([5])
    assert np.shares_memory(workspace.square(5), first)
    workspace.empty_for([6])
    assert not np.shares_memory(workspace.square(6), first)
