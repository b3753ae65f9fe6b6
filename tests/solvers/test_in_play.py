"""Interior points for what is in play, against programs of the paper solved by other means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musvm._threads import Workers
from musvm.dual.problem import DualProblem, infeasibility
from musvm.dual.solution import DualSolution, solution_of
from musvm.solvers import in_play
from musvm.solvers.by_turns import solve_with_gram
from musvm.solvers.gram import solve
from musvm.solvers.in_play import Variables, solve_in_play
from oracles import optimum
from smooth import descended, smooth_problem

TOL, NEAR = 1e-6, 1e-4
# The relative gap of what they go on from.
BEGUN = 2.0
LOSS = st.sampled_from(["sum", "max"])
BOTH_LOSSES = pytest.mark.parametrize("loss", ["sum", "max"])


@settings(max_examples=10)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.01, 0.1, 0.5]),
    st.sampled_from([1.0, 100.0, 1e4]),
    st.integers(2, 5),
    LOSS,
)
def test_objective_is_that_of_the_literal_program(seed, delta, C, L, loss):
    """Whatever it reaches is feasible, no worse than what it began with, and can be finished."""
    problem = smooth_problem(seed, delta, C, L, loss=loss)
    begun = solve(problem, tol=TOL, max_iter=1)
    found = solve_in_play(problem, Workers(), alpha=begun.alpha, tol=TOL)
    finished = solve_with_gram(problem, alpha=(found or begun).alpha, tol=TOL)
    oracle = optimum(problem)
    assert oracle.width <= TOL, "the oracle itself is not sure"
    assert finished.primal == pytest.approx(oracle.upper, rel=2 * TOL)
    if found is not None:
        assert found.relative_gap <= begun.relative_gap
        assert infeasibility(problem.rows, found.alpha) <= 1e-12
        assert found.primal >= oracle.lower * (1.0 - TOL)


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("L", [3, 5])
@BOTH_LOSSES
def test_it_gets_there_by_itself_where_the_rank_is_high(delta, L, loss):
    problem = smooth_problem(0, delta, 100.0, L, gamma=1.0, loss=loss)
    begun = descended(problem, BEGUN)
    found = solve_in_play(problem, Workers(), alpha=begun.alpha, tol=NEAR)
    assert found.converged
    assert found.primal == pytest.approx(optimum(problem).upper, rel=2 * NEAR)


@BOTH_LOSSES
def test_what_is_held_by_mistake_is_let_go(loss, monkeypatch):
    """Not all directions fit into one round: later ones take what the first could not."""
    problem = smooth_problem(0, 0.1, 100.0, gamma=1.0, loss=loss)
    begun = descended(problem, BEGUN)
    monkeypatch.setattr(in_play, "LEAST_WORK", 0.0)
    monkeypatch.setattr(in_play, "MORE_WORK", (1.2, 1.2))
    rounds, one = [], in_play._round
    monkeypatch.setattr(in_play, "_round", lambda *args: rounds.append(one(*args)) or rounds[-1])
    looks, run = [], in_play._run
    monkeypatch.setattr(in_play, "_run", lambda *args: looks.append(len(rounds)) or run(*args))
    found = solve_in_play(problem, Workers(), alpha=begun.alpha, tol=NEAR)
    assert len(rounds) > 1
    assert looks.count(0) == 1, "the first round goes on though what is held is in its way"
    assert found.converged
    assert found.primal == pytest.approx(optimum(problem).upper, rel=2 * NEAR)


@pytest.mark.parametrize("delta", [0.0, 0.1])
@BOTH_LOSSES
def test_steps_go_on_where_nothing_that_is_held_is_in_the_way(delta, loss, monkeypatch):
    """All is in play, and a first look comes too early: that is no reason to begin anew."""
    problem = smooth_problem(0, delta, 100.0, gamma=1.0, loss=loss)
    begun = descended(problem, BEGUN)
    monkeypatch.setattr(in_play, "WIDEST", 1e3)
    monkeypatch.setattr(in_play, "EARLY", 0.01)
    rounds, one = [], in_play._round
    monkeypatch.setattr(in_play, "_round", lambda *args: rounds.append(one(*args)) or rounds[-1])
    looks, run = [], in_play._run
    monkeypatch.setattr(in_play, "_run", lambda *args: looks.append(run(*args)) or looks[-1])
    found = solve_in_play(problem, Workers(), alpha=begun.alpha, tol=NEAR)
    assert len(rounds) == 1 < len(looks)
    assert found.n_rounds == sum(n_steps for n_steps, _ in looks)
    assert found.converged
    assert found.primal == pytest.approx(optimum(problem).upper, rel=2 * NEAR)


@pytest.mark.parametrize("delta", [0.0, 0.1])
@BOTH_LOSSES
def test_near_the_optimum_few_steps_are_enough(delta, loss, monkeypatch):
    problem = smooth_problem(0, delta, 100.0, gamma=1.0, loss=loss)
    near = descended(problem, 1e-2)
    found = solve_in_play(problem, Workers(), alpha=near.alpha, tol=NEAR)
    monkeypatch.setattr(in_play, "LEAST_MIDDLE", 1.0)
    monkeypatch.setattr(in_play, "MIDDLE", 1.0)
    from_the_middle = solve_in_play(problem, Workers(), alpha=near.alpha, tol=NEAR)
    assert found.converged
    assert found.n_rounds < from_the_middle.n_rounds


@pytest.mark.parametrize("delta", [0.0, 0.1])
@BOTH_LOSSES
def test_what_is_held_at_the_optimum_is_at_its_bound(delta, loss):
    problem = smooth_problem(3, delta, 10.0, loss=loss)
    rows, n = problem.rows, problem.rows.n_train
    optimal = solve(problem, tol=1e-10)
    alpha = optimal.alpha.T
    variables = Variables.of(problem.rows, alpha, optimal.decision.T)
    live, live_q = variables.live(1e-3)
    bound = np.zeros((rows.n_classes, n))
    bound[rows.y, np.arange(n)] = rows.caps[:n]
    held = ~live[:, :n]
    assert held.any()
    np.testing.assert_allclose((bound - alpha[:, :n])[held], 0.0, atol=1e-6)
    if loss == "max":
        for held, part in ((~live, alpha), (~live_q, -alpha)):
            assert held[:, n:].any()
            assert part[:, n:][held[:, n:]].max() <= 1e-6


def test_no_round_begins_that_would_take_more_work_than_there_is():
    problem = smooth_problem(0, 0.1, 100.0, gamma=1.0)
    begun = solve(problem, tol=NEAR, max_iter=1)
    assert solve_in_play(problem, Workers(), alpha=begun.alpha, tol=NEAR, most_work=1e3) is None
    enough = solve_in_play(problem, Workers(), alpha=begun.alpha, tol=NEAR, most_work=1e12)
    assert enough.n_rounds > 0


class Scripted:
    """Stands for an `InteriorInAlpha`: products and drift after every step are given."""

    n_products = 1

    def __init__(self, products, drifts):
        self.script, self.at = list(zip(products, drifts, strict=True)), 0

    def step(self, _floor):
        self.at += 1

    def products(self):
        return self.script[self.at - 1][0]

    def gap_by_drift(self):
        return self.script[self.at - 1][1]


@pytest.mark.parametrize(
    ("products", "drifts", "ends"),
    [
        ([10.0, 1.0, 0.1], [5.0, 5.0, 0.1], (3, True)),  # both must be small
        ([10.0, 9.0, 8.0, 7.0, 6.0], 5 * [0.0], (4, False)),  # nothing falls by half in three
        ([10.0, 9.0, 8.0, 7.0, 6.0], [1e6, 1e5, 1e4, 1e3, 0.1], (5, False)),  # but drift does
        ([10.0, np.nan, 8.0], 3 * [0.0], (2, False)),
    ],
)
def test_when_steps_end(products, drifts, ends):
    assert in_play._run(Scripted(products, drifts), 0.5, len(products)) == ends


def test_what_is_given_back_is_the_closest_point_by_the_measure_of_tol(monkeypatch):
    """Zero weights have a small gap and an infinite relative one."""
    problem = smooth_problem(0, 0.1, 100.0, gamma=1.0)
    begun, lower = far_but_lower(problem)
    found = in_play._Round(lower, lower, False, 3, 1.0)
    monkeypatch.setattr(in_play, "_round", lambda *_: found)
    monkeypatch.setattr(in_play, "solve", lambda *_, **__: lower)
    monkeypatch.setattr(in_play, "_got_somewhere", lambda *_: False)
    given = solve_in_play(problem, Workers(), alpha=begun.alpha, tol=NEAR)
    assert begun.gap < lower.gap
    assert given.relative_gap == lower.relative_gap < begun.relative_gap
    assert given.history[-1] == given.relative_gap


def far_but_lower(problem: DualProblem) -> tuple[DualSolution, DualSolution]:
    """Zero weights, whose gap is small, and a point with a lower D and a larger gap."""
    zero = np.zeros((problem.n_points, problem.rows.n_classes))
    begun = solution_of(problem, zero, tol=NEAR)
    lower = solve(problem, tol=NEAR, max_iter=1)
    more = 10.0 * begun.gap
    return begun, replace(lower, gap=lower.gap + more, primal=lower.primal + more)


def test_a_lower_objective_is_worth_a_larger_gap():
    """What was held by mistake makes the gap large while D is all but at its optimum."""
    begun, lower = far_but_lower(smooth_problem(0, 0.1, 100.0, gamma=1.0))
    assert in_play._got_somewhere(begun, lower)
    assert in_play._sparsest_good(begun, [lower]) is lower
    for share, is_enough in ((0.9, False), (0.7, True)):
        less = (1.0 - share) * lower.gap
        smaller = replace(lower, gap=lower.gap - less, primal=lower.primal - less)
        assert in_play._got_somewhere(lower, smaller) == is_enough


@pytest.mark.parametrize(("lower_by", "is_enough"), [(1e-4, True), (1e-6, False)])
def test_a_slightly_lower_objective_is_worth_any_gap(lower_by, is_enough):
    """What was held by mistake is in play in the next round, however large it makes the gap."""
    problem = smooth_problem(0, 0.1, 100.0, gamma=1.0)
    begun = solve(problem, tol=NEAR, max_iter=1)
    falls = lower_by * abs(begun.dual)
    gap = begun.gap + 1e4 * falls
    lower, lowest = (
        replace(begun, gap=gap, primal=gap - begun.dual + share * falls) for share in (0.9, 1.0)
    )
    taken = in_play._sparsest_good(begun, [lower, lowest])
    assert taken is (lowest if is_enough else begun)
    assert in_play._got_somewhere(begun, taken) == is_enough


def test_nothing_in_play_is_no_error():
    """C so small that no variable counts next to k(x, x)."""
    problem = smooth_problem(0, 0.1, 1e-8, 10, gamma=1.0)
    start = np.zeros((problem.n_points, 10))
    found = solve_in_play(problem, Workers(), alpha=start, tol=NEAR)
    assert infeasibility(problem.rows, found.alpha) <= 1e-12
