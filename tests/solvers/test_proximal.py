"""Proximal points, against the paper's own programs, and the pieces of their Newton steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from musvm.solvers._proximal import nearest_rows

from musvm._threads import Workers
from musvm.dual.problem import DualProblem, DualRows, infeasibility, kkt_violations
from musvm.solvers import proximal
from musvm.solvers.factors import principal_factor
from musvm.solvers.interior import solve_interior
from musvm.solvers.proximal import Proximal, solve_proximal
from optimality import assert_optimal
from strategies import linear_problems

TOL = 1e-6
LOSSES = [("sum", 0.0), ("sum", 0.1), ("max", 0.0), ("max", 0.1)]


def solve(X, rows, *, tol=TOL, team=None, by=solve_proximal, max_iter=1000):
    Z = principal_factor(X, np.arange(len(X)))
    return by(
        Z, rows, lambda alpha: X @ (X.T @ alpha), team or Workers(), tol=tol, max_iter=max_iter
    )


def tall(C, loss="sum", delta=0.1, n=1500, m=200, L=4):
    """Overlapping classes of few columns, and points between them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, L, n)
    X = np.vstack([rng.normal(size=(L, 5))[y] + rng.normal(size=(n, 5)), rng.normal(size=(m, 5))])
    caps = np.r_[C * rng.uniform(0.5, 2.0, n), np.full(m, C * n / max(m * L, 1))]
    return X, DualRows(y, L, caps, delta, loss)


@settings(max_examples=60)
@given(linear_problems())
def test_what_converges_is_the_optimum_of_the_literal_program(case):
    """Few points are not what it is for; where it gives up, others go on."""
    X, rows = case
    solution = solve(X, rows)
    assert infeasibility(rows, solution.alpha) <= 1e-12
    assume(solution.converged)
    assert_optimal(solution, DualProblem(X @ X.T, rows), TOL)


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e4])
@pytest.mark.parametrize(("loss", "delta"), LOSSES)
def test_tall_problems_have_the_objective_that_interior_points_find(C, loss, delta):
    X, rows = tall(C, loss, delta)
    solution, other = solve(X, rows), solve(X, rows, by=solve_interior)
    assert solution.converged
    assert other.converged
    assert solution.primal == pytest.approx(other.primal, rel=2 * TOL)
    assert len(solution.history) == solution.n_rounds


def test_no_more_variables_are_free_than_the_columns_can_hold():
    """At a vertex of the optima there are as many directions as equations, at the most."""
    X, rows = tall(10.0, m=0)
    alpha = solve(X, rows, tol=1e-10).alpha
    own = alpha[np.arange(len(X)), rows.y]
    free = np.sum(alpha < 0.0, axis=1) + ((own > 0.0) & (own < rows.caps)) - 1
    assert np.maximum(free, 0).sum() <= 5 * (rows.n_classes - 1)
    assert np.sum(own == 0.0) > len(X) / 4, "no point is exactly at zero"


def responses(rows, F, centre, lengths, dF=None, t=0.0):
    """alpha, groups, which rows have one, and both sums of `nearest_rows`."""
    M, L = F.shape
    alpha, codes, is_active = np.empty((M, L)), np.empty((M, L), np.int8), np.empty(M, np.int8)
    sums = nearest_rows(
        F, np.zeros((M, L)) if dF is None else dF, t, centre, lengths, rows.y, rows.caps,
        rows.delta, rows.is_max, 0, M, alpha, codes, is_active,
    )  # fmt: skip
    return alpha, codes, is_active, sums


def random_rows(seed, loss, delta):
    """A problem without points, a feasible centre, lengths and decision values."""
    rng = np.random.default_rng(seed)
    n, m, L = 30, 30, int(rng.integers(2, 6))
    rows = DualRows(rng.integers(0, L, n), L, rng.uniform(0.2, 2.0, n + m), delta, loss)
    lengths = rng.choice([0.3, 1.0, 5.0], n + m)
    zero = np.zeros((n + m, L))
    centre = responses(rows, rng.normal(size=zero.shape), zero, lengths)[0]
    return rng, rows, centre, lengths, rng.normal(size=zero.shape)


@pytest.mark.parametrize(("loss", "delta"), LOSSES)
@given(st.integers(0, 10**6))
def test_rows_are_nearest_to_their_centre(loss, delta, seed):
    """No mass can move at a profit, by slopes of decision values and of the distance."""
    _, rows, centre, lengths, F = random_rows(seed, loss, delta)
    alpha, _, _, (moved, along) = responses(rows, F, centre, lengths)
    assert infeasibility(rows, alpha) <= 1e-12
    slopes = F + (alpha - centre) / lengths[:, None]
    assert kkt_violations(rows, alpha, slopes).max() <= 1e-10
    assert moved == pytest.approx((((alpha - centre) ** 2).sum(axis=1) / lengths).sum())
    assert along == 0.0


@pytest.mark.parametrize(("loss", "delta"), LOSSES)
@given(st.integers(0, 10**6))
def test_groups_tell_how_rows_respond(loss, delta, seed):
    """By differences, on rows that stay on their piece."""
    rng, rows, centre, lengths, F = random_rows(seed, loss, delta)
    dF, h = rng.normal(size=F.shape), 1e-6
    alpha, codes, is_active, _ = responses(rows, F, centre, lengths)
    moved, other, _, (_, along) = responses(rows, F, centre, lengths, dF, h)
    assert along == pytest.approx(np.vdot(moved, dF))
    np.testing.assert_array_equal(is_active == 1, codes.any(axis=1))
    expected = np.zeros_like(alpha)
    for code in (1, 2):
        members = codes == code
        sizes = np.maximum(members.sum(axis=1, keepdims=True), 1)
        mean = (members * dF).sum(axis=1, keepdims=True) / sizes
        expected -= members * lengths[:, None] * (dF - mean)
    # A variable that is free by less than it moves may meet its bound on the way.
    stays = (codes == other).all(axis=1)
    assert stays.mean() > 0.8
    np.testing.assert_allclose((moved - alpha)[stays] / h, expected[stays], atol=1e-6)


@pytest.mark.parametrize(("loss", "delta"), LOSSES)
def test_a_stage_ends_where_weights_agree_and_lowers_the_dual(loss, delta):
    X, rows = tall(1.0, loss, delta)
    state = Proximal(X, rows, Workers())
    duals = []
    for _ in range(4):
        assert state.stage(30) < 30
        apart = np.linalg.norm(state.own_weights - state.W)
        assert apart <= proximal.LOOSE * state.moved
        np.testing.assert_allclose(state.own_weights, state.alpha.T @ X, atol=1e-9)
        costs = rows.delta * np.maximum(state.alpha[rows.n_train :], 0.0).sum()
        own = state.alpha[np.arange(rows.n_train), rows.y].sum()
        duals.append(0.5 * np.sum(state.own_weights**2) - own + costs)
    assert duals == sorted(duals, reverse=True)
    assert duals[-1] < duals[0] < 0.0


def test_several_threads_change_no_digit(monkeypatch):
    X, rows = tall(10.0)
    monkeypatch.setattr(proximal, "PIECE", 100)
    monkeypatch.setattr(proximal, "ACTIVE_PIECE", 64)
    one, several = solve(X, rows), solve(X, rows, team=Workers(3))
    np.testing.assert_array_equal(one.alpha, several.alpha)
    monkeypatch.undo()
    assert solve(X, rows).primal == pytest.approx(one.primal, rel=2 * TOL)


def test_a_sample_counts_for_all_and_saves_steps(monkeypatch):
    X, rows = tall(1.0, n=6000, m=600)
    points, part = proximal._sample(X, rows, 15)
    assert len(points) == part.n_points == 660
    # Points are weighted: a sample of as many has that total but for chance.
    assert part.caps.sum() == pytest.approx(rows.caps.sum(), rel=0.05)
    assert proximal._sample(X, rows, 1000) is None
    after_sample = solve(X, rows, tol=1e-4)
    monkeypatch.setattr(proximal, "ROWS_PER_EQUATION", np.inf)
    from_nothing = solve(X, rows, tol=1e-4)
    assert after_sample.n_rounds < from_nothing.n_rounds
    assert after_sample.primal == pytest.approx(from_nothing.primal, rel=2e-4)


@pytest.mark.parametrize("max_iter", [1, 20])
def test_steps_keep_to_those_allowed_and_are_told_of(max_iter):
    X, rows = tall(1.0, n=800, m=0)
    told = []
    Z = principal_factor(X, np.arange(len(X)))
    solution = solve_proximal(
        Z, rows, lambda alpha: X @ (X.T @ alpha), Workers(), tol=1e-9, max_iter=max_iter,
        callback=lambda n_steps, gap: told.append((n_steps, gap)),
    )  # fmt: skip
    assert not solution.converged
    assert solution.n_rounds == max_iter == told[-1][0]
    assert [gap for _, gap in told][-1] == pytest.approx(solution.history[-1], rel=1e-6)
    assert np.isfinite(solution.relative_gap) == (max_iter == 20)


def test_a_stage_that_is_cut_off_does_not_spoil_what_was_found(monkeypatch):
    """With lengths far too large for the steps that a stage may take."""
    X, rows = tall(100.0)
    monkeypatch.setattr(proximal, "ROWS_PER_EQUATION", np.inf)
    monkeypatch.setattr(proximal, "LONGER", 1e6)
    monkeypatch.setattr(proximal, "MOST_STEPS", 9)
    solution = solve(X, rows, tol=1e-9)
    assert not solution.converged
    assert solution.relative_gap <= 2.0 * min(solution.history)


def test_a_sample_that_does_not_get_there_ends_the_try(monkeypatch):
    X, rows = tall(1.0, n=6000, m=600)
    assert solve(X, rows) is not None
    monkeypatch.setattr(proximal, "MOST_STEPS_OF_SAMPLE", 2)
    assert solve(X, rows) is None


def test_a_solution_holds_on_to_no_more_than_its_alpha():
    X, rows = tall(1.0)
    alpha = solve(X, rows).alpha
    assert alpha.base is None or alpha.base.nbytes == alpha.nbytes
