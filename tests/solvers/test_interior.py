"""The interior-point method, against the paper's own programs solved by other means."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from sklearn.datasets import load_iris, load_wine

from musvm._threads import Workers
from musvm.dual.problem import DualProblem, DualRows, infeasibility
from musvm.solvers.cones import Balanced, Capped, Cone, Simplex
from musvm.solvers.factors import principal_factor
from musvm.solvers.interior import Equations, Piece, solve_interior
from optimality import assert_optimal
from strategies import linear_problems

TOL = 1e-6


def solve(X, rows, *, tol=TOL, workers=None):
    Z = principal_factor(X, np.arange(X.shape[0]))
    return solve_interior(
        Z, rows, lambda alpha: X @ (X.T @ alpha), workers or Workers(), tol=tol, max_iter=200
    )


@settings(max_examples=60)
@given(linear_problems())
def test_objective_is_that_of_the_literal_program(case):
    X, rows = case
    assert_optimal(solve(X, rows), DualProblem(X @ X.T, rows), TOL)


def test_steps_after_the_one_that_met_the_tolerance_count_as_well():
    """Five of them, in the hope of a solution with fewer support vectors."""
    X, y = load_wine(return_X_y=True)
    solution = solve(X, DualRows(y.astype(np.intp), 3, np.full(len(y), 100.0)))
    assert solution.converged
    assert sum(gap <= TOL for gap in solution.history) > 1, "no step followed"
    assert len(solution.history) == solution.n_rounds


@pytest.mark.parametrize("C", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_any_C_on_features_as_they_come(load, C):
    """Unscaled features, separable or not: columns of wine differ by four orders of magnitude."""
    X, y = load(return_X_y=True)
    rows = DualRows(y.astype(np.intp), 3, np.full(len(y), C))
    solution = solve(X, rows, tol=1e-4)
    assert solution.converged
    assert solution.n_rounds <= 60
    assert infeasibility(rows, solution.alpha) <= 1e-12


def clusters(n, d, L, distance, C, seed=0):
    """Points around centres, one for every class, and the rows of a problem without universum."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, L, n)
    X = distance * rng.normal(size=(L, d))[y] + rng.normal(size=(n, d))
    return X, DualRows(y, L, np.full(n, C))


def test_corrections_lengthen_steps_and_change_nothing_else(monkeypatch):
    X, rows = clusters(3000, 20, 8, 1.0, 10.0)
    monkeypatch.setattr("musvm.solvers.central_path.CORRECTION", 100.0)
    corrected = solve(X, rows)
    monkeypatch.setattr("musvm.solvers.central_path.MAX_CORRECTIONS", 0)
    plain = solve(X, rows)
    assert corrected.n_rounds <= 0.8 * plain.n_rounds
    assert corrected.primal == pytest.approx(plain.primal, rel=2 * TOL)


@pytest.mark.parametrize("limit", ["cones.MOST_LEFT_OUT", "central_path.MOST_CENTRED"])
def test_variables_that_are_at_their_bound_at_once_do_not_cut_steps_short(limit, monkeypatch):
    X, rows = clusters(3000, 20, 8, 1.0, 10.0)
    limited = solve(X, rows)
    monkeypatch.setattr(f"musvm.solvers.{limit}", np.inf)
    unlimited = solve(X, rows)
    assert limited.n_rounds < unlimited.n_rounds
    assert limited.primal == pytest.approx(unlimited.primal, rel=2 * TOL)


def test_points_that_support_nothing_are_exactly_zero():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = DualRows(y.astype(np.intp), 3, np.full(len(y), 1.0))
    solution = solve(X, rows)
    n_support = int(np.any(solution.alpha != 0.0, axis=1).sum())
    assert n_support < len(y) / 2


def test_several_threads_and_pieces_change_no_digit(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 200)
    rows = DualRows(y, 3, np.full(300, 2.0), 0.1)
    monkeypatch.setattr("musvm.solvers.central_path.PIECE_ENTRIES", 64 * 3)
    monkeypatch.setattr("musvm.solvers.central_path.CORRECTION", 1.0)
    one, several = solve(X, rows), solve(X, rows, workers=Workers(3))
    np.testing.assert_array_equal(one.alpha, several.alpha)
    monkeypatch.setattr("musvm.solvers.central_path.PIECE_ENTRIES", 2**15)
    whole = solve(X, rows)
    assert whole.primal == pytest.approx(one.primal, rel=2 * TOL)


def test_both_ways_to_assemble_the_equations_agree(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 4, 40)
    rows = DualRows(y, 4, np.full(60, 2.0), 0.1)
    few = solve(X, rows)
    monkeypatch.setattr("musvm.solvers.interior.MANY_COLUMNS", 1)
    many = solve(X, rows)
    np.testing.assert_allclose(
        few.decision, many.decision, rtol=0, atol=1e-2 * np.abs(few.decision).max()
    )
    assert few.primal == pytest.approx(many.primal, rel=2 * TOL)


# ---------------------------------------------------------------------------------------------
# The pieces, one by one


def cones(rng) -> list[Cone]:
    """One of each kind, four labels and five rows, somewhere inside."""
    zero, c = np.zeros((4, 5)), rng.uniform(0.5, 2.0, 5)
    e = zero.copy()
    e[rng.integers(0, 4, 5), np.arange(5)] = 1.0
    made = [
        Simplex(e * c, e),
        Simplex(zero + c, zero),
        Capped(c, zero, 0.1),
        Balanced(c, zero, 0.1),
    ]
    for cone in made:
        for values in [*cone.x, *cone.z]:
            values *= rng.uniform(0.01, 3.0, values.shape)
    return made


@pytest.mark.parametrize("which", range(4))
def test_graph_is_the_response_of_alpha_to_decision_values(which):
    """-B F by `respond` and by the weights of the graph that the equations are made of."""
    rng = np.random.default_rng(which)
    cone = cones(rng)[which]
    cone.linearise()
    A = sum(np.einsum("ki,li->kli", g, g) for g in cone.graph())
    A[np.arange(4), np.arange(4)] = 0.0
    F = rng.normal(size=(4, 5))
    expected = np.einsum("kli,li->ki", A, F) - A.sum(axis=1) * F
    cone.aim(0.0, corrected=False)
    before = cone.d_alpha.copy()
    cone.respond(F)
    np.testing.assert_allclose(cone.d_alpha - before, expected, atol=1e-12)


@pytest.mark.parametrize("which", range(4))
def test_step_solves_the_linearised_conditions(which):
    """x dz + z dx = target - x z, and sums that are constraints do not change."""
    rng = np.random.default_rng(which)
    cone = cones(rng)[which]
    cone.linearise()
    cone.aim(0.3, corrected=False)
    cone.respond(rng.normal(size=(4, 5)))
    for x, z, dx, dz in zip(cone.x, cone.z, cone.dx, cone.dz, strict=True):
        np.testing.assert_allclose(x * dz + z * dx, 0.3 - x * z, atol=1e-10)
    np.testing.assert_allclose(cone.d_alpha.sum(axis=0), 0.0, atol=1e-12)


def test_equations_are_the_matrix_of_the_step():
    """solve(rhs) times I + sum z z' (x) B gives rhs back."""
    rng = np.random.default_rng(0)
    Zt, cone = rng.normal(size=(3, 5)), cones(rng)[2]
    cone.linearise()
    rows = DualRows(np.empty(0, dtype=np.intp), 4, np.ones(5))
    equations = Equations(3, 4, Workers())
    equations.factorise([Piece(slice(0, 5), Zt, cone, rows)])
    rhs = rng.normal(size=(4, 3))
    rhs -= rhs.mean(axis=0)
    W = equations.solve(rhs)
    np.testing.assert_allclose(W - cone.star.response(W @ Zt) @ Zt.T, rhs, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_principal_factor_has_the_gram_matrix_of_its_points(form, monkeypatch):
    monkeypatch.setattr("musvm.solvers.factors.PIECE", 7)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 6)) * 10.0 ** np.arange(6)
    chosen = np.arange(1, 40, 2)
    Z = principal_factor(form(X), chosen)
    gram = X[chosen] @ X[chosen].T
    assert Z.shape == (20, 3)
    np.testing.assert_allclose(Z @ Z.T, gram, atol=1e-12 * np.abs(gram).max())
    np.testing.assert_allclose(np.triu(Z.T @ Z, 1), 0.0, atol=1e-12 * np.abs(gram).max())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_factor_of_many_columns_is_one_too_without_singular_values(form, monkeypatch):
    """Columns of twelve orders of magnitude, a third of them combinations of others."""
    monkeypatch.setattr("musvm.solvers.factors.MANY_COLUMNS", 5)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 20)) @ rng.normal(size=(20, 30)) * 10.0 ** rng.uniform(-6, 6, 30)
    Z = principal_factor(form(X), np.arange(60))
    gram = X @ X.T
    assert Z.shape == (60, 20)
    np.testing.assert_allclose(Z @ Z.T, gram, atol=1e-13 * np.abs(gram).max())
    # Nearly orthogonal, whatever the lengths: what the equations of interior points ask for.
    assert np.linalg.cond(Z / np.linalg.norm(Z, axis=0)) < 3


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_interior_points_with_such_a_factor(C, monkeypatch):
    X, y = load_wine(return_X_y=True)
    rows = DualRows(y.astype(np.intp), 3, np.full(len(y), C))
    by_singular_values = solve(X, rows, tol=1e-4)
    monkeypatch.setattr("musvm.solvers.factors.MANY_COLUMNS", 5)
    solution = solve(X, rows, tol=1e-4)
    assert solution.converged
    assert solution.primal == pytest.approx(by_singular_values.primal, rel=2e-4)


def test_points_without_length():
    rows = DualRows(np.array([0, 1]), 2, np.ones(3), 0.1)
    solution = solve(np.zeros((3, 2)), rows)
    assert solution.primal == pytest.approx(2.0)
    assert solution.gap <= 1e-12


def test_what_cannot_be_reached_is_told():
    X, y = load_iris(return_X_y=True)
    rows = DualRows(y.astype(np.intp), 3, np.full(len(y), 1.0))
    solution = solve(X, rows, tol=1e-30)
    assert solution.n_rounds < 100, "it gives up when rounding is all that is left"
    assert solution.gap <= 1e-6 * solution.primal
    assert not solution.converged
