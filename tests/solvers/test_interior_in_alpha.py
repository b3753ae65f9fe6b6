"""Steps of interior points in alpha, against dense equations and programs solved by other means."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from musvm import _pieces
from musvm._threads import Workers
from musvm.dual import label_blocks
from musvm.dual.problem import DualProblem
from musvm.dual.solution import solution_of
from musvm.solvers import in_play, interior_in_alpha
from musvm.solvers.cones import DoubleStar
from musvm.solvers.interior_in_alpha import Beginning, InteriorInAlpha
from oracles import optimum
from smooth import smooth_problem

NEAR = 1e-4
BOTH_LOSSES = pytest.mark.parametrize("loss", ["sum", "max"])


def all_live(problem: DualProblem, team: Workers | None = None) -> InteriorInAlpha:
    """From the middle, nothing held."""
    shape = problem.rows.n_classes, problem.rows.n_points
    everything, nothing = np.ones(shape, dtype=bool), np.zeros(shape)
    begin = Beginning(nothing, nothing, 1.0, (everything, everything))
    return InteriorInAlpha(problem, begin, team or Workers())


def by_the_saddle_point(interior: InteriorInAlpha, values: np.ndarray) -> np.ndarray:
    """The change by dense equations in all variables, with a multiplier for every sum.

    Those of a balanced row are p, q and u; alpha itself stands for those of any other.
    """
    L, R = values.shape
    row = np.eye(R)
    thetas, to_alpha, sums = [], [], []
    for part in interior.pieces:
        star = part.cone.star
        for r in range(part.rows.start, part.rows.stop):
            at = r - part.rows.start
            of_row = np.kron(np.eye(L), row[r]).T
            if isinstance(star, DoubleStar):
                p, q, u = star.p[:, at], star.q[:, at], star.u[:, at]
                thetas.append(np.concatenate([p, q, u]))
                to_alpha.append(np.hstack([of_row, -of_row, np.zeros((L * R, 1))]))
                ones = np.ones(L)
                sums.append(np.array([[*ones, *(0 * ones), 1], [*(0 * ones), *ones, 1]]))
            else:
                thetas.append(star.theta[:, at])
                to_alpha.append(of_row)
                sums.append(np.ones((1, L)))
    T, A = np.hstack(to_alpha), block_diag(*sums)
    H = T.T @ np.kron(np.eye(L), interior.equations.gram) @ T
    H += np.diag(1.0 / np.concatenate(thetas))
    saddle = np.block([[H, A.T], [A, np.zeros((len(A), len(A)))]])
    right = np.concatenate([T.T @ values.ravel(), np.zeros(len(A))])
    return (T @ np.linalg.solve(saddle, right)[: T.shape[1]]).reshape(L, R)


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize(("L", "by_labels"), [(3, False), (10, True)])
@BOTH_LOSSES
def test_equations_are_those_of_the_saddle_point(delta, L, by_labels, loss, monkeypatch):
    """Small thetas and all: after some steps some labels have been left out."""
    monkeypatch.setattr(interior_in_alpha, "NOTICEABLE", 1e-3)
    problem = smooth_problem(1, delta, 10.0, L, gamma=1.0, loss=loss)
    made, blocks = [], interior_in_alpha.LabelBlocks
    monkeypatch.setattr(
        interior_in_alpha,
        "LabelBlocks",
        lambda *args, **more: made.append(args) or blocks(*args, **more),
    )
    interior = all_live(problem)
    for _ in range(9):
        interior.step()
    equations = interior.equations
    assert bool(made) == by_labels
    assert equations._some_are_small
    values = np.random.default_rng(2).normal(size=(L, problem.n_points))
    assert equations.rows.are_tied.any() == (loss == "max")
    change, tension = equations.solve(values)
    expected = by_the_saddle_point(interior, values)
    np.testing.assert_allclose(change, expected, atol=1e-2 * np.abs(expected).max())
    np.testing.assert_allclose(change.sum(axis=0), 0.0, atol=1e-12)
    # And exactly, once what was left out is made up for.
    for _ in range(6):
        image = equations.image(change, tension, equations.times_gram(change))
        more, of_ties = equations.solve(equations.centred(values) - image)
        change, tension = change + more, tension + of_ties
    np.testing.assert_allclose(change, expected, atol=1e-8 * np.abs(expected).max())


@settings(max_examples=10)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([100.0, 1e4]),
    st.sampled_from([1e-3, 0.01, 1.0]),
    st.sampled_from(["sum", "max"]),
)
def test_steps_get_to_the_optimum_of_nearly_singular_matrices(seed, delta, C, gamma, loss):
    """In weights, rounding that theta multiplies ends the steps of such kernels early."""
    problem = smooth_problem(seed, delta, C, gamma=gamma, loss=loss)
    interior = all_live(problem)
    oracle = optimum(problem)
    allowed = 0.1 * NEAR * oracle.upper
    n_steps, got_there = in_play._run(interior, allowed, 40)
    assert got_there
    assert n_steps <= 30
    found = solution_of(problem, np.ascontiguousarray(interior.feasible().T), tol=NEAR)
    assert found.gap <= NEAR * oracle.upper
    assert found.primal == pytest.approx(oracle.upper, rel=2 * NEAR)


def all_steps(interior: InteriorInAlpha, n_steps: int) -> list[float]:
    """Products after each of some steps."""
    found = []
    for _ in range(n_steps):
        interior.step()
        found.append(interior.products())
    return found


@pytest.mark.parametrize("alike", [4.0, 100.0])
def test_rows_that_are_alike_are_shared_and_change_nothing_else(alike, monkeypatch):
    """What is wrong with the preconditioner costs iterations, not steps."""
    problem = smooth_problem(7, 0.0, 100.0, L=6, gamma=1.0)
    monkeypatch.setattr(interior_in_alpha, "ALIKE", 0.5)
    expected = all_steps(all_live(problem), 8)
    monkeypatch.setattr(interior_in_alpha, "ALIKE", alike)
    monkeypatch.setattr(interior_in_alpha, "MUCH_LESS", 1.0)
    shared, n_common, n_iterations = all_live(problem), [], []
    factorise, solve = shared.equations.factorise, shared.equations.solve
    monkeypatch.setattr(
        shared.equations,
        "factorise",
        lambda parts: factorise(parts) or n_common.append(len(shared.equations._common)),
    )
    monkeypatch.setattr(
        shared.equations, "solve", lambda values: n_iterations.append(1) or solve(values)
    )
    found = all_steps(shared, 8)
    assert min(n_common[:2]) >= 10
    assert len(n_iterations) > 3 * 8
    np.testing.assert_allclose(found, expected, rtol=0.5)


def test_rows_are_no_longer_shared_where_that_gets_nowhere(monkeypatch):
    problem = smooth_problem(7, 0.0, 100.0, L=6, gamma=1.0)
    monkeypatch.setattr(interior_in_alpha, "MUCH_LESS", np.inf)
    monkeypatch.setattr(interior_in_alpha, "MAX_ITERATIONS", 2)
    monkeypatch.setattr(interior_in_alpha, "ALIKE", 1e6)
    interior = all_live(problem)
    found = all_steps(interior, 10)
    assert not interior.equations._may_share
    assert not len(interior.equations._common)
    assert not interior.equations.share_no_rows()
    assert found[-1] < 1e-3 * found[0]


def test_alpha_and_decision_values_agree_once_a_whole_step_is_taken(monkeypatch):
    """Whatever the equations have lost: nothing is asked of them here."""
    problem = smooth_problem(4, 0.0, 100.0)
    interior = all_live(problem)
    interior.step()
    assert interior.gap_by_drift() > 0.0
    monkeypatch.setattr(interior, "_lengthened", lambda change, t, target: (change, 1.0))
    for part in interior.pieces:
        monkeypatch.setattr(part.cone, "advance", _only_alpha(part.cone))
    solve = interior.equations.solve
    monkeypatch.setattr(
        interior.equations, "solve", lambda values: tuple(0.2 * part for part in solve(values))
    )
    interior.step()
    assert interior.gap_by_drift() <= 1e-9 * interior._gap(interior._F)


def _only_alpha(cone):
    """A step that may leave the cone: its multipliers and x stay where they are."""

    def advance(t):
        cone.alpha += t * cone.d_alpha

    return advance


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("gamma", [0.01, 1.0])
def test_both_sums_of_rows_of_the_max_loss_survive_the_steps(delta, gamma):
    problem = smooth_problem(2, delta, 100.0, L=5, gamma=gamma, loss="max")
    interior, n = all_live(problem), problem.rows.n_train
    in_play._run(interior, 1e-6 * optimum(problem).upper, 40)
    caps = problem.rows.caps[n:]
    parts = [part for part in interior.pieces if part.rows.start >= n]
    for k in (0, 1):
        sums = np.concatenate([p.cone.x[k].sum(axis=0) + p.cone.x[2][0] for p in parts])
        np.testing.assert_allclose(sums, caps, rtol=1e-9)


@pytest.mark.parametrize("delta", [0.0, 0.1])
@BOTH_LOSSES
def test_threads_change_no_digit(delta, loss, monkeypatch):
    """Everything is cut into pieces as if problems of this size were large."""
    for module, name in (
        (interior_in_alpha, "COLUMNS"),
        (label_blocks, "SHARED"),
        *((_pieces, name) for name in ("WHOLE", "ROWS", "SQUARED")),
    ):
        monkeypatch.setattr(module, name, 16)
    problem = smooth_problem(5, delta, 100.0, L=6, loss=loss)
    team = Workers(3)
    alone, together = all_live(problem), all_live(problem, team)
    for _ in range(6):
        alone.step()
        together.step()
    np.testing.assert_array_equal(alone.alpha(), together.alpha())
    np.testing.assert_array_equal(alone.snapped(1.0), together.snapped(1.0))
    team.close()


@pytest.mark.parametrize("delta", [0.0, 0.1])
@BOTH_LOSSES
def test_snapped_points_keep_the_decision_values(delta, loss):
    problem = smooth_problem(6, delta, 100.0, gamma=1.0, loss=loss)
    interior = all_live(problem)
    in_play._run(interior, 1e-6 * optimum(problem).upper, 40)
    alpha, snapped = interior.alpha(), interior.snapped(1.0)
    n, caps = problem.rows.n_train, problem.rows.caps
    at_bound = (snapped[:, :n] == 0.0) | (snapped[:, :n] == caps[:n])
    assert at_bound.mean() > 0.2
    assert not ((alpha[:, :n] == 0.0) | (alpha[:, :n] == caps[:n])).any()
    np.testing.assert_allclose(snapped @ problem.gram, alpha @ problem.gram, atol=0.01)
