"""Newton steps and interior points: whose turn it is, and that either gets there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from tests.support.calls import starts_of

from musvm import UniversumSVC, UniversumSVCCV
from musvm.dual.problem import DualProblem, DualRows
from musvm.dual.solution import DualSolution
from musvm.solvers import by_turns


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"WORK_IN_PLAY": np.inf}, ["solve_interior"]),
        ({"WORK_IN_PLAY": 0.0, "LAST_EQUATIONS": 0}, ["solve_in_play"]),
    ],
)
def test_interior_points_take_over_where_newton_steps_crawl(limits, expected, monkeypatch):
    """Without patience: for all rows, or for what is in play where these cost too much."""
    X, y = load_wine(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[:, :5]
    U = X[:50] + 0.5
    reference = UniversumSVC(1e3, delta=0.1, solver="gram", tol=1e-8).fit(X, y, universum=U)
    none = {"LEAST_WORK": 0.0, "MOST_WORK": 0.0, "MOST_OF_WELL_CONDITIONED": 0.0}
    for name, limit in {**none, **limits}.items():
        monkeypatch.setattr(by_turns, name, limit)
    calls = {
        name: starts_of(monkeypatch, by_turns, name) for name in ("solve_interior", "solve_in_play")
    }
    model = UniversumSVC(1e3, delta=0.1).fit(X, y, universum=U)
    assert [name for name, called in calls.items() if called] == expected
    assert model.converged_
    assert model.objective_ == pytest.approx(reference.objective_, rel=1.1e-4)


def test_a_gram_matrix_of_many_points_with_few_columns_goes_to_interior_points_first(monkeypatch):
    """As the linear kernel itself does: a search, or a precomputed kernel, has its Gram matrix."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1100, 4)), rng.integers(0, 3, 1100)
    linear = UniversumSVC(100.0, kernel="linear").fit(X, y)
    calls = {name: starts_of(monkeypatch, by_turns, name) for name in ("solve", "solve_interior")}
    model = UniversumSVC(100.0, kernel="precomputed").fit(X @ X.T, y)
    assert [name for name, called in calls.items() if called] == ["solve_interior"]
    assert model.converged_
    assert abs(model.objective_ - linear.objective_) <= model.dual_gap_ + linear.dual_gap_
    # Descent is quick where C k(x, x) is small.
    calls = {name: starts_of(monkeypatch, by_turns, name) for name in ("solve", "solve_interior")}
    assert UniversumSVC(1e-3, kernel="precomputed").fit(X @ X.T, y).converged_
    assert [name for name, called in calls.items() if called] == ["solve"]


def test_interior_points_that_come_first_are_not_tried_again(monkeypatch):
    """Where rounding ends them it would end them again: Newton steps go on, and nothing in play."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1100, 4)), rng.integers(0, 3, 1100)
    tried, solver = [], by_turns.solve_interior

    def ended_early(*args, max_iter, **kwargs):
        tried.append(max_iter)
        return solver(*args, max_iter=2, **kwargs)

    monkeypatch.setattr(by_turns, "solve_interior", ended_early)
    calls = {name: starts_of(monkeypatch, by_turns, name) for name in ("solve", "solve_in_play")}
    assert UniversumSVC(10.0, kernel="precomputed").fit(X @ X.T, y).converged_
    assert len(tried) == 1
    assert [name for name, called in calls.items() if called] == ["solve"]


def test_where_rounding_ends_interior_points_others_in_alpha_go_on(monkeypatch):
    """They lose fewer digits, and Newton steps may crawl."""
    solver = by_turns.solve_interior

    def ended_early(*args, max_iter, **kwargs):
        return solver(*args, max_iter=9, **kwargs)

    monkeypatch.setattr(by_turns, "solve_interior", ended_early)
    monkeypatch.setattr(by_turns, "LAST_ROUNDS", 1)
    newton, in_play = (
        starts_of(monkeypatch, by_turns, name) for name in ("solve", "solve_in_play")
    )
    found = by_turns.solve_with_gram(_of_few_columns(), tol=1e-8)
    assert found.converged
    assert (len(newton), len(in_play)) == (1, 1)
    assert in_play[0] is not None


def test_patient_newton_steps_come_before_interior_points(monkeypatch):
    """Of equal solutions, estimates of leave-one-out need one with few free variables."""
    monkeypatch.setattr(by_turns, "LEAST_WORK", 0.0)
    monkeypatch.setattr(by_turns, "NEWTON_SHARE", 0.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 4, 300)
    problem = DualProblem(X @ X.T, DualRows(y, 4, np.full(300, 100.0)))
    tried = starts_of(monkeypatch, by_turns, "solve_interior")
    assert by_turns.solve_with_gram(problem, patient=True).converged
    assert not tried
    assert by_turns.solve_with_gram(problem).converged
    assert tried


def test_searches_are_patient_where_the_solution_judges_itself(monkeypatch):
    """In leave-one-out, which solves for all points; those of folds are judged by the others."""
    asked = []

    def recorded(problem, *, patient, **options):
        asked.append((problem.n_points == 150, patient))
        return by_turns.solve_with_gram(problem, patient=patient, **options)

    monkeypatch.setattr("musvm.search.cells.solve_with_gram", recorded)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.integers(0, 3, 150)
    for criterion in ("loo-estimate", 3):
        UniversumSVCCV([10.0], kernel="linear", criterion=criterion).fit(X, y)
    assert set(asked) == {(True, True), (False, False)}


def _of_few_columns(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = (X[:, :4] + 0.3 * rng.normal(size=(n, 4))).argmax(axis=1)
    return DualProblem(X @ X.T, DualRows(y, 4, np.full(n, 100.0)))


def test_few_points_of_few_columns_go_to_interior_points_first(monkeypatch):
    """Unless an estimate of leave-one-out is to be made of them."""
    newton, interior = (
        starts_of(monkeypatch, by_turns, name) for name in ("solve", "solve_interior")
    )
    assert by_turns.solve_with_gram(_of_few_columns()).converged
    assert (len(newton), len(interior)) == (0, 1)
    assert by_turns.solve_with_gram(_of_few_columns(), patient=True).converged
    assert (len(newton), len(interior)) == (1, 1)


@pytest.mark.parametrize(("gap", "expected"), [(1.0, False), (1e-2, True)])
def test_newton_steps_end_sooner_far_from_the_optimum(monkeypatch, gap, expected):
    monkeypatch.setattr(by_turns, "LEAST_WORK", 0.0)
    cost = by_turns.InteriorCost(_of_few_columns())
    may_go_on = by_turns.patience_for(cost)
    assert may_go_on(0.9 * by_turns.NEWTON_SHARE * cost.work, gap)
    assert may_go_on(1.9 * by_turns.NEWTON_SHARE * cost.work, gap) == expected


def _of_full_rank(n=200):
    rng = np.random.default_rng(0)
    return DualProblem(np.eye(n), DualRows(rng.integers(0, 4, n), 4, np.full(n, 100.0)))


def test_the_whole_factor_is_made_only_where_some_points_do_not_tell(monkeypatch):
    """Its rank is no smaller than theirs, and it takes longer than most fits of few points."""
    monkeypatch.setattr(by_turns, "LEAST_WORK", 0.0)
    monkeypatch.setattr(by_turns, "SAMPLED", 50)
    sizes, factor = [], by_turns.pivoted_cholesky
    monkeypatch.setattr(
        by_turns, "pivoted_cholesky", lambda gram: sizes.append(len(gram)) or factor(gram)
    )
    may_go_on = by_turns.patience_for(by_turns.InteriorCost(_of_full_rank()))
    known = by_turns.NEWTON_SHARE * by_turns.interior_work(200, 50, 4)
    assert may_go_on(known, 1.0)
    assert sizes == [50]
    assert may_go_on(1.01 * known, 1.0)
    assert sizes == [50, 200]
    assert not may_go_on(1.01 * by_turns.NEWTON_SHARE * by_turns.interior_work(200, 200, 4), 1.0)


@pytest.mark.parametrize("is_good", [False, True])
def test_newton_steps_get_more_work_where_the_matrix_is_well_conditioned(is_good, monkeypatch):
    """They get there then, and with many classes one round takes most of what others get."""
    n, L = 1000, 20
    rows = DualRows(np.arange(n) % L, L, np.ones(n))
    may_go_on = by_turns.patience_for(by_turns.InteriorCost(DualProblem(np.eye(n), rows)))
    if not is_good:
        monkeypatch.setattr(by_turns.InteriorCost, "last_pivot", 1e-6)
    assert may_go_on(by_turns.MOST_WORK, 1.0)
    assert may_go_on(1.01 * by_turns.MOST_WORK, 1.0) == is_good
    assert may_go_on(0.99 * by_turns.MOST_OF_WELL_CONDITIONED, 1.0) == is_good
    assert not may_go_on(1.01 * by_turns.MOST_OF_WELL_CONDITIONED, 1e-9)


def test_the_patient_do_as_much_work_as_any_without_a_trial():
    may_go_on = by_turns.patience_for(by_turns.InteriorCost(_of_few_columns()), patient=True)
    assert may_go_on(by_turns.MOST_WORK, 1.0)
    assert not may_go_on(1.01 * by_turns.MOST_WORK, 1e-9)


def test_interior_points_that_stop_short_are_not_left_inside(monkeypatch):
    """All variables of a point that is strictly inside are free, and say nothing of the optimum."""
    monkeypatch.setattr(by_turns, "FEW_POINTS", 100)
    usual = by_turns.solve_with_gram(_of_few_columns())
    monkeypatch.setattr(by_turns, "FACE_TOL", 1e-30)
    patient = by_turns.solve_with_gram(_of_few_columns(), patient=True)
    assert patient.converged
    assert (usual.alpha == 0.0).sum() > 100
    np.testing.assert_array_equal(patient.alpha, usual.alpha)
    assert patient.n_rounds > usual.n_rounds


def test_newton_steps_get_more_work_where_another_path_gave_up_far_from_the_optimum():
    problem = _of_full_rank()
    factor, cost = problem.n_points**3 / 3.0, by_turns.InteriorCost(problem)
    for gap, factors in ((0.5 * by_turns.FAR, 1), (2.0 * by_turns.FAR, by_turns.MOST_FACTORS)):
        may_go_on = by_turns.patience_for(cost, gap_of_trial=gap)
        assert may_go_on(factors * factor, 1.0)
        assert not may_go_on(1.01 * factors * factor, 1e-9)


@pytest.mark.parametrize(("made", "is_good"), [(_of_few_columns, False), (_of_full_rank, True)])
def test_after_another_path_newton_steps_are_tried_close_by_or_on_good_matrices(made, is_good):
    cost = by_turns.InteriorCost(made())
    assert by_turns.newton_may_get_there(cost, by_turns.CLOSE)
    assert by_turns.newton_may_get_there(cost, 1.01 * by_turns.CLOSE) == is_good


@pytest.mark.parametrize(("pivot", "n_universum", "is_good"), [
    (9e-4, 0, False), (1.1e-3, 0, True), (1.4e-3, 2, False), (1.6e-3, 2, True),
])  # fmt: skip
def test_with_a_universum_fewer_matrices_are_well_conditioned(
    pivot, n_universum, is_good, monkeypatch
):
    rows = DualRows(np.array([0, 1, 2]), 3, np.ones(3 + n_universum))
    cost = by_turns.InteriorCost(DualProblem(np.eye(3 + n_universum), rows))
    monkeypatch.setattr(by_turns.InteriorCost, "last_pivot", pivot)
    assert cost.is_well_conditioned == is_good


@pytest.mark.parametrize("gap_of_trial", [0.1, by_turns.CLOSE, None])
@pytest.mark.parametrize("most_work", [np.inf, 0.0])
def test_interior_points_go_on_from_where_another_path_ended(gap_of_trial, most_work, monkeypatch):
    """Not from where Newton steps got to, which try first or not; unless too much is in play."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    problem = DualProblem(K, DualRows(rng.integers(0, 3, 150), 3, np.full(150, 1e4)))
    near = by_turns.solve_with_gram(problem, tol=1e-2).alpha
    monkeypatch.setattr(by_turns, "MOST_IN_PLAY", most_work)
    newton, in_play = (
        starts_of(monkeypatch, by_turns, name) for name in ("solve", "solve_in_play")
    )
    found = by_turns.solve_with_gram(problem, tol=1e-8, alpha=near, gap_of_trial=gap_of_trial)
    assert found.converged
    assert any(alpha is near for alpha in newton) == (gap_of_trial != 0.1)
    assert any(alpha is near for alpha in in_play) == (gap_of_trial is not None)


def test_newton_steps_go_on_where_nothing_else_is_left(monkeypatch):
    """Though another path gave up far away: too much is in play, and all rows cost too much."""
    problem = _of_few_columns()
    near = by_turns.solve_with_gram(problem, tol=1e-2).alpha
    for name, limit in {"MOST_IN_PLAY": 0.0, "LAST_EQUATIONS": 0, "FEW_POINTS": 0}.items():
        monkeypatch.setattr(by_turns, name, limit)
    monkeypatch.setattr(by_turns, "most_columns", lambda *_: 0)
    newton = starts_of(monkeypatch, by_turns, "solve")
    found = by_turns.solve_with_gram(problem, alpha=near, gap_of_trial=0.1)
    assert found.converged
    assert len(newton) == 1


def test_what_is_in_play_must_cost_less_than_all_rows_of_a_smooth_kernel():
    few, full = (by_turns.InteriorCost(made()) for made in (_of_few_columns, _of_full_rank))
    assert (few.last_pivot, full.last_pivot) == (0.0, 1.0)
    assert few.most_in_play() == few.work < by_turns.MOST_IN_PLAY
    assert full.most_in_play() == by_turns.MOST_IN_PLAY


def test_after_interior_points_for_all_newton_steps_must_bring_a_smaller_gap():
    few, cost = by_turns.InteriorCost(_of_few_columns()), by_turns.InteriorCost(_of_full_rank())
    may_go_on = by_turns.patience_after_all(few, 1e-3)
    most = max(few.work, by_turns.LAST_WORK)
    assert may_go_on(most, np.inf)
    assert may_go_on(10.0 * most, 1e-3)
    assert not may_go_on(1.01 * most, 1.1e-3)
    cost.factor = None
    assert by_turns.patience_after_all(cost, 1e-3) is None, "nothing else is left"


@pytest.mark.parametrize(("tol", "is_limited"), [(0.05, True), (0.01, False)])
def test_newton_steps_do_the_usual_work_where_only_an_aim_is_missed(tol, is_limited, monkeypatch):
    """A gap of 2 % of the gain, which is twice a hundredth of it."""
    problem, told = _of_full_rank(), []
    problem = replace(problem, rows=replace(problem.rows, share_of_gain=1e-2))

    def solve(problem, *, may_go_on, **options):
        told.append(may_go_on)

    monkeypatch.setattr(by_turns, "solve", solve)
    at_zero, values = problem.rows.primal_at_zero, np.zeros((problem.n_points, 2))
    found = DualSolution(
        0.5 * at_zero, 0.01 * at_zero, 2.0, 1, False, alpha=values, decision=values
    )
    attempts = by_turns.Attempts(tol=tol, max_iter=500)
    attempts.add(lambda **_: found)
    by_turns.finish(attempts, problem, {})
    (may_go_on,) = told
    assert (may_go_on is not None) == is_limited
    if is_limited:
        assert may_go_on(by_turns.MOST_WORK, 1.0)
        assert not may_go_on(1.01 * by_turns.MOST_WORK, 0.0)
