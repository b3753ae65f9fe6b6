"""Attempts go on from the best of those before, and their rounds are counted together."""

from __future__ import annotations

import numpy as np

from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution
from musvm.solvers.attempts import FUTILE, Attempts


def ending_at(gap: float, n_rounds: int):
    """A solver that makes up to so many rounds and ends at this gap; its alpha is that gap."""

    def solve(*, tol, max_iter, callback, alpha=None, seen=None):
        if seen is not None:
            seen.append(alpha if alpha is None else float(alpha[0, 0]))
        done = min(n_rounds, max_iter)
        for k in range(done):
            callback(k + 1, gap)
        values = np.full((1, 1), gap)
        return DualSolution(
            1.0, gap, gap, done, gap <= tol, alpha=values, decision=values, history=done * [gap]
        )

    return solve


def test_each_goes_on_from_the_best_and_not_from_the_last():
    seen, attempts = [], Attempts(tol=1e-3, max_iter=100, callback=lambda *_: None)
    for gap in (0.5, 0.1, 0.9, 0.2, 1e-4, 1e-5):
        attempts.add(ending_at(gap, 2), seen=seen)
    assert seen == [None, 0.5, 0.1, 0.1, 0.1], "the last is left out: it was over"
    assert attempts.best.gap == 1e-4
    assert attempts.best.n_rounds == len(attempts.best.history) == 10


def test_rounds_are_those_of_all_together():
    told, attempts = [], Attempts(tol=1e-3, max_iter=10, callback=lambda n, _: told.append(n))
    attempts.add_anew(ending_at(0.5, 20), at_most=4)
    assert not attempts.is_over
    attempts.add(ending_at(0.4, 3))
    attempts.add(ending_at(0.3, 20))
    assert told == list(range(1, 11))
    assert attempts.is_over
    assert not attempts.add(ending_at(1e-4, 1))
    assert attempts.best.gap == 0.3


def test_a_way_that_does_not_exist_counts_for_nothing():
    attempts = Attempts(tol=1e-3, max_iter=10, callback=lambda *_: None)
    assert not attempts.add_anew(lambda **_: None)
    assert not attempts.is_over
    assert attempts.add_anew(ending_at(0.5, 1))
    assert attempts.rounds_left == 9


def test_while_no_model_is_worth_its_gap_the_lowest_dual_is_gone_on_from():
    """Of a model next to its optimum P may be far above that of zero weights."""
    seen, attempts = [], Attempts(tol=1e-3, max_iter=100, callback=lambda *_: None)

    def ending(dual, primal, relative):
        def solve(*, tol, max_iter, callback, alpha=None):
            seen.append(None if alpha is None else float(alpha[0, 0]))
            values = np.full((1, 1), dual)
            gap = primal + dual
            return DualSolution(primal, gap, relative, 1, False, alpha=values, decision=values)

        return solve

    attempts.add(ending(-1.0, 100.0, np.inf))
    attempts.add(ending(-50.0, 1e6, np.inf))
    attempts.add(ending(-40.0, 60.0, 0.5))
    attempts.add(ending(-51.0, 1e4, np.inf))
    attempts.add(ending(-52.0, 1e5, np.inf))
    assert seen == [None, -1.0, -50.0, -40.0, -40.0]
    assert attempts.best.primal == 60.0


def test_what_was_asked_for_is_of_all_of_the_gain():
    """P(0) = 10, so that the model gains 2: a gap of 0.1 is 5 % of that, and half of a tenth."""
    rows = DualRows(np.array([0, 1]), 2, np.array([5.0, 5.0]), share_of_gain=0.1)
    attempts = Attempts(tol=0.1, max_iter=100)
    assert not attempts.has_what_was_asked_for(rows)
    values = np.zeros((2, 2))
    found = DualSolution(8.0, 0.1, np.inf, 1, False, alpha=values, decision=values)
    attempts.add(lambda **_: found.measured_by(rows, 0.1))
    assert not attempts.best.converged
    assert attempts.has_what_was_asked_for(rows)


def test_nothing_is_tried_where_rounding_leaves_nothing():
    attempts = Attempts(tol=1e-3, max_iter=100)
    values = np.zeros((1, 1))
    for hidden, goes_on in ((0.9 * FUTILE, True), (1.1 * FUTILE, False)):
        found = DualSolution(
            1.0, 1.0, 1.0, 1, False, alpha=values, decision=values, hidden_gap=hidden
        )
        assert attempts.add(lambda found=found, **_: found)
        assert attempts.is_over is not goes_on
    assert not attempts.add(ending_at(1e-9, 1))
