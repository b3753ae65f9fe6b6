"""The solver, against the paper's own programs solved by interior points.

`TOL` is the relative duality gap asked of the solver, `EXACT` the agreement with the oracle that
it must bring. The oracle is certified to 1e-9 or so by itself, which every comparison checks.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from musvm.dual import problem as statement
from musvm.dual.problem import DualProblem, DualRows
from musvm.solvers.gram import solve
from musvm.solvers.rounds import Hope
from oracles import complementarity, constraint_violation, eq2_losses, optimum
from strategies import changed, problems, related_problems

TOL = 1e-8
EXACT = 1e-6


def assert_optimal(problem, solution, *, exact: float = EXACT):
    """Both objectives are the oracle's."""
    oracle = optimum(problem)
    assert oracle.width <= exact / 10, "the oracle itself is not sure"
    assert solution.primal == pytest.approx(oracle.upper, rel=exact), "primal objective"
    assert -solution.dual == pytest.approx(oracle.lower, rel=exact), "dual objective"


def assert_feasible(problem, solution):
    assert constraint_violation(problem, solution.alpha) <= 1e-12


# ---------------------------------------------------------------------------------------------
# The optimum


@pytest.mark.parametrize("loss", ["sum", "max"])
@settings(max_examples=200)
@given(data=st.data())
def test_objective_is_that_of_the_literal_program(loss, data):
    problem = data.draw(problems(losses=st.just(loss)))
    assert_optimal(problem, solve(problem, tol=TOL))


@settings(max_examples=200)
@given(problems())
def test_every_constraint_holds(problem):
    assert_feasible(problem, solve(problem, tol=TOL))


@settings(max_examples=200)
@given(problems())
def test_gap_and_kkt_residual_are_below_the_tolerance(problem):
    solution = solve(problem, tol=TOL)
    assert solution.converged
    assert solution.gap <= TOL * solution.primal
    # What is left of the Karush-Kuhn-Tucker conditions of the literal program; rounding in
    # K alpha enters it in proportion to the sizes that are added up.
    products = complementarity(problem, solution.alpha)
    mass = np.abs(solution.alpha).sum(axis=1)
    rounding = 1e-14 * (mass @ np.abs(problem.gram) @ mass)
    assert products.max() <= TOL * solution.primal + rounding
    assert products.min() >= -rounding - 1e-12 * solution.primal


@given(problems())
def test_result_object_is_consistent(problem):
    solution = solve(problem, tol=TOL)
    M, L = problem.n_points, problem.rows.n_classes
    assert solution.alpha.shape == solution.decision.shape == (M, L)
    F = problem.gram @ solution.alpha
    size = (np.abs(problem.gram) @ np.abs(solution.alpha)).max()
    assert np.abs(solution.decision - F).max() <= 1e-12 * size, "decision is not K alpha"
    assert solution.gap == pytest.approx(
        solution.primal + solution.dual, rel=0, abs=1e-10 * solution.primal
    )
    assert len(solution.history) == solution.n_rounds
    relative = statement.relative_gap(problem.rows, solution.gap, solution.primal)
    assert solution.relative_gap == relative
    assert solution.converged == (relative <= TOL)
    assert not solution.converged or solution.gap <= TOL * abs(solution.primal)


@given(problems())
def test_decision_values_are_as_certain_as_the_gap_says(problem):
    """|(f_k - f_l) - (f_k - f_l)*| <= 2 sqrt(gap K_ii), for our gap and the oracle's together."""
    solution, oracle = solve(problem, tol=TOL), optimum(problem)
    gaps = np.sqrt(max(solution.gap, 0.0)) + np.sqrt(max(oracle.upper - oracle.lower, 0.0))
    allowed = 2.0 * gaps * np.sqrt(problem.gram.diagonal())
    difference = solution.decision - oracle.decision
    spread = difference.max(axis=1) - difference.min(axis=1)
    rounding = 1e-10 * (1.0 + np.abs(oracle.decision).max())
    assert np.all(spread <= allowed + rounding)


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("C", [1e-8, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_extreme_costs(C, delta, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = rng.integers(0, 3, size=12)
    X[:12] += y[:, None]
    caps = np.concatenate([np.full(12, C), np.full(8, 0.3 * C)])
    problem = DualProblem(rbf_kernel(X, gamma=0.2), DualRows(y, 3, caps, delta, loss))
    solution = solve(problem, tol=TOL)
    assert_feasible(problem, solution)
    assert_optimal(problem, solution)


def contradiction(loss: str, kernel: str, C: float) -> DualProblem:
    """One point in two classes and in the universum, twice each; a zero row in every part."""
    X = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [-1.0, 0.5], [0.0, 0.0]])
    X = np.vstack([X, [[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]])
    gram = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.5)
    y = np.array([0, 0, 0, 1, 1, 2])
    return DualProblem(gram, DualRows(y, 3, np.full(9, C), 0.1, loss))


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
def test_contradictory_and_zero_rows(loss, kernel, C):
    problem = contradiction(loss, kernel, C)
    solution = solve(problem, tol=TOL)
    assert_feasible(problem, solution)
    assert_optimal(problem, solution)


def test_only_zero_rows():
    """K = 0: no weights help, so every training point pays its whole hinge loss."""
    problem = DualProblem(
        np.zeros((5, 5)), DualRows(np.array([0, 1, 2]), 3, np.arange(1.0, 6.0), 0.1)
    )
    solution = solve(problem, tol=TOL)
    assert_feasible(problem, solution)
    assert solution.primal == pytest.approx(1.0 + 2.0 + 3.0, rel=TOL)
    assert -solution.dual == pytest.approx(6.0, rel=TOL)


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_handwritten_digits(loss, kernel):
    """Real, correlated data: 4 classes of 15 images, 60 images of other digits as universum."""
    X, target = load_digits(return_X_y=True)
    train = np.concatenate([np.flatnonzero(target == k)[:15] for k in range(4)])
    universum = np.flatnonzero(target > 3)[:60]
    points = X[np.concatenate([train, universum])] / 16.0
    gram = points @ points.T if kernel == "linear" else rbf_kernel(points, gamma=0.125)
    caps = np.concatenate([np.full(60, 10.0), np.full(60, 2.5)])
    problem = DualProblem(gram, DualRows(target[train], 4, caps, 0.05, loss))
    solution = solve(problem, tol=TOL)
    assert solution.converged
    assert_feasible(problem, solution)
    assert_optimal(problem, solution)


# ---------------------------------------------------------------------------------------------
# Without universum: LIBLINEAR solves the same problem


def liblinear_objective(X, y, n_classes: int, C: float, tol: float) -> float:
    """Crammer and Singer's primal at LIBLINEAR's weights, the package not involved."""
    # One in a few of its random orders stops 5e-4 above the optimum: the order is fixed.
    model = LinearSVC(
        multi_class="crammer_singer",
        fit_intercept=False,
        C=C,
        tol=tol,
        max_iter=1_000_000,
        random_state=0,
    ).fit(X, y)
    W = model.coef_ if n_classes > 2 else np.vstack([-model.coef_, model.coef_]) / 2.0
    return 0.5 * np.sum(W**2) + C * eq2_losses(X @ W.T, y, 0.0).sum()


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_plain_svm_is_liblinears(C, n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 8)) + 1.5 * np.eye(8)[y]
    solution = solve(DualProblem(X @ X.T, DualRows(y, n_classes, np.full(60, C))), tol=TOL)
    reference = liblinear_objective(X, y, n_classes, C, tol=1e-8)
    assert solution.primal == pytest.approx(reference, rel=1e-4)
    assert solution.primal <= reference * (1.0 + TOL)


@given(problems(max_universum=5))
def test_a_universum_of_vanishing_weight_changes_nothing(problem):
    n = problem.rows.n_train
    plain = changed(problem, gram=problem.gram[:n, :n].copy(), caps=problem.rows.caps[:n].copy())
    caps = problem.rows.caps.copy()
    caps[n:] *= 1e-12 * caps[:n].min() / caps.max()
    weightless = changed(problem, caps=caps)
    expected = solve(plain, tol=TOL).primal
    assert solve(weightless, tol=TOL).primal == pytest.approx(expected, rel=EXACT)


# ---------------------------------------------------------------------------------------------
# Warm starts


@given(related_problems())
def test_warm_start_from_the_solution_of_another_problem(pair):
    first, second = pair
    start = solve(first, tol=TOL).alpha
    solution = solve(second, tol=TOL, alpha=start)
    assert_feasible(second, solution)
    assert_optimal(second, solution)


@given(problems(), st.integers(0, 2**32 - 1), st.floats(-6.0, 6.0))
def test_warm_start_from_anything(problem, seed, log_scale):
    """An alpha that satisfies no constraint at all is made feasible first."""
    rng = np.random.default_rng(seed)
    start = 10.0**log_scale * rng.normal(size=(problem.n_points, problem.rows.n_classes))
    start[rng.random(problem.n_points) < 0.2] = 0.0
    original = start.copy()
    solution = solve(problem, tol=TOL, alpha=start)
    assert np.array_equal(start, original), "the caller's alpha was written to"
    assert_feasible(problem, solution)
    assert_optimal(problem, solution)


@given(problems(), st.integers(0, 2**32 - 1))
def test_warm_start_stopped_at_once_is_feasible(problem, seed):
    rng = np.random.default_rng(seed)
    start = problem.rows.caps[:, None] * rng.normal(size=(problem.n_points, problem.rows.n_classes))
    assert_feasible(problem, solve(problem, tol=0.0, max_iter=1, alpha=start))


@given(problems())
def test_warm_start_at_the_solution_ends_at_once(problem):
    cold = solve(problem, tol=TOL)
    warm = solve(problem, tol=10 * TOL, alpha=cold.alpha)
    assert warm.converged
    assert warm.n_rounds <= 1


# ---------------------------------------------------------------------------------------------
# Contracts


def test_hope_is_told_the_gap_of_every_round(monkeypatch):
    """And what rounding hides of it, by which it judges a gap that stands still."""
    told = []

    class Told(Hope):
        def is_lost(self, gap, relative, hidden):
            told.append((gap, relative, hidden()))
            return super().is_lost(gap, relative, hidden)

    monkeypatch.setattr("musvm.solvers.gram.Hope", Told)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    problem = DualProblem(rbf_kernel(X, gamma=0.05), DualRows(y, 3, np.full(60, 1e4)))
    solution = solve(problem, tol=TOL, known_hidden=1e-12)
    gaps, relatives, hidden = zip(*told, strict=True)
    assert len(told) >= 2
    assert list(relatives) == solution.history[: len(told)]
    # The worth of a primal objective, what gaps are relative to, is at most that of alpha = 0.
    assert all(g <= r * problem.rows.caps.sum() for g, r in zip(gaps, relatives, strict=True))
    assert all(g > solution.gap for g in gaps)
    assert all(share >= 1e-12 for share in hidden)


@given(problems())
def test_two_runs_give_the_same_bits(problem):
    first, second = solve(problem, tol=TOL), solve(problem, tol=TOL)
    assert np.array_equal(first.alpha, second.alpha)
    assert np.array_equal(first.decision, second.decision)
    assert (first.primal, first.dual, first.history) == (
        second.primal,
        second.dual,
        second.history,
    )


@given(problems(), st.integers(0, 1000))
def test_the_random_state_decides_the_run_and_not_the_optimum(problem, seed):
    runs = [solve(problem, tol=TOL, random_state=np.random.RandomState(seed)) for _ in range(2)]
    assert np.array_equal(runs[0].alpha, runs[1].alpha)
    assert runs[0].primal == pytest.approx(solve(problem, tol=TOL).primal, rel=EXACT)


@given(problems())
def test_the_problem_is_not_written_to(problem):
    gram, y, caps = problem.gram.copy(), problem.rows.y.copy(), problem.rows.caps.copy()
    for array in (problem.gram, problem.rows.y, problem.rows.caps):
        array.setflags(write=False)
    solve(problem, tol=TOL)
    assert np.array_equal(problem.gram, gram)
    assert np.array_equal(problem.rows.y, y)
    assert np.array_equal(problem.rows.caps, caps)


@given(problems(), st.integers(1, 3))
def test_an_early_stop_is_feasible_and_honest(problem, max_iter):
    solution = solve(problem, tol=0.0, max_iter=max_iter)
    assert_feasible(problem, solution)
    assert solution.n_rounds <= max_iter
    oracle = optimum(problem)
    slack = 1e-9 * oracle.upper
    assert solution.primal >= oracle.lower - slack, "better than the optimum"
    assert -solution.dual <= oracle.upper + slack, "better than the optimum"
    assert solution.gap >= -slack


@given(problems(), st.randoms(use_true_random=False))
def test_names_of_classes_and_order_of_points_do_not_matter(problem, random):
    n, M, L = problem.rows.n_train, problem.n_points, problem.rows.n_classes
    order = random.sample(range(n), n) + random.sample(range(n, M), M - n)
    names = np.array(random.sample(range(L), L), dtype=np.intp)
    renamed = changed(
        problem,
        gram=np.ascontiguousarray(problem.gram[np.ix_(order, order)]),
        y=names[problem.rows.y[order[:n]]],
        caps=problem.rows.caps[order],
    )
    expected = solve(problem, tol=TOL).primal
    assert solve(renamed, tol=TOL).primal == pytest.approx(expected, rel=EXACT)
