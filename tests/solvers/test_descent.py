"""Block descent: D never rises, moves go as far as they should, an interrupt ends it."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from musvm.solvers._descent import descend, largest_violation, violations

from compiled import solve_block
from musvm.dual.problem import dual_objective
from smooth import smooth_problem

# How much further than to the minimum of a block moves go from the second look on.
FURTHER = 1.4
# What a row that is returned to comes down to, as a share of the threshold.
SETTLED = 0.5


class InterruptError(Exception):
    pass


def interrupt(number, frame):
    raise InterruptError


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals on this system")
def test_an_interrupt_ends_a_long_call_before_its_time():
    rng = np.random.default_rng(0)
    M, L = 400, 100
    points = rng.normal(size=(M, 50))
    gram = points @ points.T

    def run(alpha, seconds=0.0):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        descend(
            gram, alpha, np.zeros((L, M)), np.arange(M) % L, np.full(M, 1e3), 0.0, False,
            gram.diagonal().copy(), np.arange(M), 0.0, 150 * M,
        )  # fmt: skip
        return alpha

    whole, part = run(np.zeros((L, M))), np.zeros((L, M))
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(InterruptError):
            run(part, seconds=0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert not np.array_equal(part, whole)


def after_looks(problem, n_looks):
    """Class-major alpha after so many looks at all rows, from zero; every row violates a little."""
    rows, gram, M = problem.rows, problem.gram, problem.n_points
    alpha = np.zeros((rows.n_classes, M))
    descend(
        gram, alpha, np.zeros_like(alpha), rows.y, rows.caps, rows.delta, rows.is_max,
        gram.diagonal().copy(), np.arange(M), -1.0, n_looks * M,
    )  # fmt: skip
    return alpha


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_no_look_makes_the_objective_rise(loss, delta, C):
    problem = smooth_problem(0, delta, C, loss=loss)
    alphas = [after_looks(problem, n_looks) for n_looks in range(12)]
    D = [dual_objective(problem.rows, alpha.T, problem.gram @ alpha.T) for alpha in alphas]
    assert np.all(np.diff(D) <= 1e-14 * np.abs(D[-1]))
    assert D[-1] < D[1] < 0.0


def test_moves_go_further_from_the_second_look_on():
    """The first look goes to the minimum of every block."""
    problem = smooth_problem(0, 0.0, 1e3)
    rows, gram = problem.rows, problem.gram
    alpha = np.zeros((rows.n_classes, problem.n_points))
    for n_looks, further in ((1, 1.0), (2, FURTHER), (3, FURTHER)):
        for i in range(problem.n_points):
            q = gram[i, i] / further
            b = alpha @ gram[:, i] - q * alpha[:, i]
            kind = {"y": int(rows.y[i])} if i < rows.n_train else {"delta": 0.0, "is_max": False}
            alpha[:, i] = solve_block(b, q, rows.caps[i], **kind)
        np.testing.assert_allclose(after_looks(problem, n_looks), alpha, atol=1e-9 * alpha.max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("most_looks", [20, 60, 200])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_decision_values_of_rows_that_were_left_out_are_made_up_for(dtype, most_looks, delta):
    """Few rows need most of the moves here; wherever these end, F is alpha K for all rows."""
    problem = smooth_problem(0, delta, 1.0, n=300, m=100)
    rows, M = problem.rows, problem.n_points
    gram = problem.gram.astype(dtype)
    alpha, F = np.zeros((rows.n_classes, M)), np.zeros((rows.n_classes, M), dtype=dtype)
    moves = descend(
        gram, alpha, F, rows.y, rows.caps, rows.delta, rows.is_max, gram.diagonal().astype(float),
        np.random.RandomState(0).permutation(M), 1e-2, most_looks * M,
    )  # fmt: skip
    assert (moves >= most_looks * M) == (most_looks < 200)
    rounding = 1e3 * np.finfo(dtype).eps * np.abs(alpha).sum(axis=1).max()
    np.testing.assert_allclose(F, alpha @ gram.astype(float), rtol=0, atol=rounding)


def without_copies(problem, order, threshold, max_moves):
    """Class-major alpha, and the number of moves: `descend` as a loop over rows."""
    rows, gram = problem.rows, problem.gram
    alpha, F = np.zeros((rows.n_classes, problem.n_points)), np.zeros((rows.n_classes, len(gram)))
    found, moves, further, all_rows, active = np.zeros(1), 0, 1.0, True, order
    while True:
        left = []
        for i in active:
            own = rows.y[i : i + 1]
            violations(
                alpha[:, [i]].T.copy(), F[:, [i]].T.copy(), own, rows.caps[i : i + 1], rows.delta,
                rows.is_max, found,
            )  # fmt: skip
            if found[0] <= (threshold if all_rows else SETTLED * threshold):
                continue
            left.append(i)
            q, kind = gram[i, i] / further, {"delta": rows.delta, "is_max": rows.is_max}
            kind |= {"y": int(own[0])} if len(own) else {}
            change = solve_block(F[:, i] - q * alpha[:, i], q, rows.caps[i], **kind) - alpha[:, i]
            alpha[:, i] += change
            F += change[:, None] * gram[i]
        moves, further = moves + len(left), FURTHER
        if moves >= max_moves or (all_rows and not left):
            return alpha, moves
        active, all_rows = (left, False) if left else (order, True)


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("most_moves", [2_500, 6_000, 10**6])
def test_moves_on_copies_of_active_rows_are_those_on_all_rows(loss, delta, most_moves):
    """The first limit ends the moves on a copy, the last one lets them end by the threshold."""
    problem = smooth_problem(0, delta, 1.0, loss=loss, n=150, m=50)
    rows, M = problem.rows, problem.n_points
    order = np.random.RandomState(0).permutation(M)
    alpha, F = np.zeros((rows.n_classes, M)), np.zeros((rows.n_classes, M))
    kind = rows.y, rows.caps, rows.delta, rows.is_max
    moves = descend(
        problem.gram, alpha, F, *kind, problem.gram.diagonal().copy(), order, 1e-2, most_moves
    )
    expected, n_expected = without_copies(problem, order, 1e-2, most_moves)
    assert moves == n_expected
    np.testing.assert_allclose(alpha, expected, atol=1e-9 * expected.max())
    if moves < most_moves:
        assert largest_violation(alpha, F, *kind) <= 1e-2
