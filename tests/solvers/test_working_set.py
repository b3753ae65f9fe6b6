"""The working-set solver: certified, equal to the solver with the Gram matrix, and to itself.

Kernels are rounded to floats inside, so every claim about accuracy is made through the
certificate, which is computed in doubles and checked here against the statement.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from musvm.solvers._descent import descend, violations
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from musvm import _threads
from musvm._threads import Workers, workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualProblem, DualRows
from musvm.kernels import Kernel
from musvm.solvers import working_set
from musvm.solvers.backends import host
from musvm.solvers.backends.choosing import first_set, next_set
from musvm.solvers.backends.host import MIN_ROWS, KernelRows
from musvm.solvers.gram import solve
from musvm.solvers.working_set import solve_by_working_sets
from oracles import constraint_violation
from strategies import problems, problems_with_feasible_alpha


def in_working_sets(problem: DualProblem, *, size: int, tol: float, cache_bytes: float = 1e9):
    """The solution by working sets of `size` rows, with the problem's own Gram matrix."""
    backend = KernelRows(
        Kernel("precomputed"), problem.gram, problem.rows.n_classes, cache_bytes, Workers()
    )
    backend.size = min(size, backend.size)
    return solve_by_working_sets(problem.rows, backend, tol=tol), backend


def digits(n: int = 600, m: int = 300) -> tuple[np.ndarray, DualRows]:
    """Digits 0-6 as classes, 7-9 as universum: points, and the rows of the problem."""
    X, target = load_digits(return_X_y=True)
    X = X / 16.0
    inside, outside = np.flatnonzero(target < 7)[:n], np.flatnonzero(target >= 7)[:m]
    caps = np.r_[np.full(len(inside), 10.0), np.full(len(outside), 10.0 * n / (m * 7))]
    return X[np.r_[inside, outside]], DualRows(target[inside].astype(np.intp), 7, caps, 0.1)


def solve_digits(tol: float = 1e-3, cache_bytes: float = 1e9, **changes):
    X, rows = digits(**changes)
    with workers() as team:
        backend = KernelRows(Kernel("rbf", 0.2), X, rows.n_classes, cache_bytes, team)
        return X, rows, solve_by_working_sets(rows, backend, tol=tol), backend


# ---------------------------------------------------------------------------------------------
# The pieces


@settings(max_examples=200)
@given(problems_with_feasible_alpha())
def test_violations_are_those_of_the_statement(case):
    problem, alpha = case
    F = problem.gram @ alpha
    found = np.empty(len(alpha))
    violations(
        np.ascontiguousarray(alpha), F, problem.rows.y, problem.rows.caps, problem.rows.delta,
        problem.rows.is_max, found,
    )  # fmt: skip
    expected = statement.kkt_violations(problem.rows, alpha, F)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * (1 + np.abs(F).max()))


@settings(max_examples=100)
@given(problems(), st.sampled_from([np.float32, np.float64]))
def test_descent_lowers_the_objective_and_leaves_no_large_violation(problem, dtype):
    L, M = problem.rows.n_classes, problem.n_points
    alpha, F = np.zeros((L, M)), np.zeros((L, M), dtype=dtype)
    gram = problem.gram.astype(dtype)
    curvature = np.maximum(problem.gram.diagonal(), 1e-12)
    moves = descend(
        gram, alpha, F, problem.rows.y, problem.rows.caps, problem.rows.delta,
        problem.rows.is_max, curvature, np.arange(M), 0.5, 1000 * M,
    )  # fmt: skip
    exact = problem.gram @ alpha.T
    scale = 1.0 + np.abs(exact).max()
    assert statement.infeasibility(problem.rows, alpha.T) <= 1e-12
    assert statement.dual_objective(problem.rows, alpha.T, exact) <= 1e-5 * scale**2
    rounding = 1e-9 if dtype is np.float64 else 1e-3
    violations = statement.kkt_violations(problem.rows, alpha.T, exact)
    assert moves >= 1000 * M or violations.max() <= 0.5 + rounding * scale


@pytest.mark.parametrize("like", [np.asarray, pytest.param("tensor", id="tensor")])
def test_a_working_set_keeps_the_worst_or_what_was_new_and_takes_the_worst_of_all(like):
    if like == "tensor":
        like = pytest.importorskip("torch", reason="PyTorch is not installed").as_tensor
    violations, last, was_new = np.linspace(0.0, 1.0, 100), np.arange(10), np.arange(10) < 3
    for stays, kept in ((was_new & False, [5, 6, 7, 8, 9]), (was_new, [0, 1, 2, 8, 9])):
        points, is_new = next_set(like(violations), like(last), like(stays), 10)
        assert points.tolist() == [*kept, 95, 96, 97, 98, 99]
        assert is_new.tolist() == 5 * [False] + 5 * [True]
    violations[:] = 0.0
    violations[[5, 50, 51, 60]] = 1.0
    points, is_new = next_set(like(violations), like(last), like(was_new & False), 10)
    assert {5, 50, 51, 60} < set(points.tolist())
    assert not is_new[points.tolist().index(5)]
    # Rows that violate nothing are left out on the host, but for those that are kept.
    assert len(points) == (8 if isinstance(points, np.ndarray) else 10)
    ties = np.arange(100) / 100.0
    assert first_set(like(np.ones(100)), 5, like(ties)).tolist() == [95, 96, 97, 98, 99]


@pytest.mark.parametrize(
    ("moves_a_row", "warm", "expected"),
    [(0.5, False, [4, 8, 12]), (2.0, False, [2, 4, 6, 8, 10, 12]), (0.5, True, [1, 5, 9])],
)
def test_newton_steps_come_after_as_much_descent_as_they_are_worth(
    moves_a_row, warm, expected, monkeypatch
):
    """Rounds of many moves count more, and a start near the optimum needs one of them."""
    rows = DualRows(np.arange(100, dtype=np.intp) % 2, 2, np.ones(100))
    backend = KernelRows(Kernel("precomputed"), np.eye(100), 2, 1e9, Workers())
    backend.size, backend.newton_every = 10, 4
    monkeypatch.setattr(working_set, "descend", lambda *_: int(moves_a_row * 10))
    rounds = working_set._Rounds(rows, backend, np.random.RandomState(0), warm=warm)
    steps: list[int] = []
    backend.newton_step = lambda _: steps.append(rounds.n_rounds)
    survey = backend.survey(rows)
    for _ in range(12):
        survey = rounds.improve(survey)
    assert steps == expected


# ---------------------------------------------------------------------------------------------
# The solution


@settings(max_examples=150)
@given(problems(), st.integers(MIN_ROWS, 30))
def test_objective_is_that_of_the_other_solver(problem, size):
    solution, _ = in_working_sets(problem, size=size, tol=1e-3)
    reference = solve(problem, tol=1e-6)
    assert constraint_violation(problem, solution.alpha) <= 1e-12
    # A gap is a bound: both optima lie between the dual and the primal objective.
    scale = 1e-6 * abs(reference.primal)
    assert -solution.dual <= reference.primal + scale
    assert -reference.dual <= solution.primal + scale
    assert solution.converged
    assert solution.primal == pytest.approx(reference.primal, rel=1.1e-3)


@settings(max_examples=100)
@given(problems(), st.integers(2, 30))
def test_the_certificate_is_that_of_the_statement(problem, size):
    solution, _ = in_working_sets(problem, size=size, tol=1e-2)
    F = problem.gram @ solution.alpha
    gap = statement.row_gaps(problem.rows, solution.alpha, F).sum()
    primal = statement.primal_objective(problem.rows, solution.alpha, F)
    rounding = 1e-12 * (1.0 + np.abs(F).max()) * problem.rows.caps.sum()
    assert solution.gap == pytest.approx(gap, rel=1e-6, abs=rounding)
    assert solution.primal == pytest.approx(primal, rel=1e-9, abs=rounding)
    relative = statement.relative_gap(problem.rows, solution.gap, solution.primal)
    assert solution.relative_gap == relative
    assert solution.converged == (relative <= 1e-2)
    assert not solution.converged or solution.gap <= 1e-2 * abs(solution.primal)


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_a_tight_tolerance_is_reached_with_rounded_kernels(loss, monkeypatch):
    monkeypatch.setattr(host, "SIZE", 200)
    X, rows = digits()
    rows = DualRows(rows.y, rows.n_classes, rows.caps, rows.delta, loss)
    kernel = Kernel("rbf", 0.2)
    backend = KernelRows(kernel, X, rows.n_classes, 1e9, Workers())
    solution = solve_by_working_sets(rows, backend, tol=1e-8)
    gram = kernel.gram(X, np.arange(len(X)), resolution=2e-16)
    problem = DualProblem(gram, DualRows(rows.y, rows.n_classes, rows.caps, rows.delta, loss))
    F = gram @ solution.alpha
    assert solution.converged
    assert statement.row_gaps(problem.rows, solution.alpha, F).sum() <= 1.01e-8 * solution.primal
    assert solution.primal == pytest.approx(solve(problem, tol=1e-9).primal, rel=2e-8)


# ---------------------------------------------------------------------------------------------
# What must not matter


def test_the_number_of_threads_changes_no_digit(monkeypatch):
    monkeypatch.setattr(host, "SIZE", 100)
    monkeypatch.setattr(_threads, "PIECE", 64)
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            found.append(solve_digits()[2])
    assert np.array_equal(found[0].alpha, found[1].alpha)
    assert found[0].gap == found[1].gap


def test_a_small_cache_computes_rows_again_and_finds_the_same_optimum(monkeypatch):
    monkeypatch.setattr(host, "SIZE", 100)
    computed: list[int] = []
    compute = KernelRows._compute

    def counted(backend, points, slots):
        computed[-1] += len(points)
        compute(backend, points, slots)

    monkeypatch.setattr(KernelRows, "_compute", counted)
    computed.append(0)
    X, _, large, _ = solve_digits()
    computed.append(0)
    _, _, small, _ = solve_digits(cache_bytes=4 * len(X) * 120)
    with_room, without = computed
    assert with_room <= len(X)
    assert without > with_room
    assert small.primal == pytest.approx(large.primal, rel=2e-3)


def test_a_cache_of_no_size_still_holds_a_few_rows(monkeypatch):
    _, _, solution, backend = solve_digits(cache_bytes=1.0, tol=0.3, n=100, m=30)
    assert backend.size == MIN_ROWS
    assert solution.converged


def test_rounds_end_at_max_iter_with_an_honest_certificate():
    X, rows = digits()
    backend = KernelRows(Kernel("rbf", 0.2), X, rows.n_classes, 1e9, Workers())
    backend.size = 50
    gaps = []
    solution = solve_by_working_sets(
        rows, backend, tol=1e-9, max_iter=3, callback=lambda _, gap: gaps.append(gap)
    )
    assert solution.n_rounds == len(gaps) == 3
    assert not solution.converged
    F = Kernel("rbf", 0.2).matrix(X, X) @ solution.alpha
    gap = np.maximum(statement.row_gaps(rows, solution.alpha, F), 0.0).sum()
    assert solution.gap == pytest.approx(gap, rel=1e-9)


def test_one_round_is_made_whatever_the_tolerance():
    X, rows = digits()
    backend = KernelRows(Kernel("rbf", 0.2), X, rows.n_classes, 1e9, Workers())
    solution = solve_by_working_sets(rows, backend, tol=10.0)
    assert solution.n_rounds == 1
    assert np.any(solution.alpha != 0.0)


def test_huge_caps_on_separable_points_are_solved():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40).astype(np.intp)
    X = rng.normal(size=(120, 5)) + 8.0 * np.eye(5)[y]
    for C in (1e6, 1e10):
        rows = DualRows(y, 3, np.full(120, C))
        backend = KernelRows(Kernel("rbf", 0.05), X, 3, 1e9, Workers())
        solution = solve_by_working_sets(rows, backend, tol=1e-4)
        assert solution.converged, f"C = {C:g}: gap {solution.history[-1]:.1e}"
