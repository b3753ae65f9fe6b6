"""When rounds end: by their tolerance, or because they will not get there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musvm.solvers.rounds import DUE_TO_ROUNDING, HOPELESS, RATED, Hope, may_get_there


@given(st.floats(0.05, 0.95), st.integers(2 * RATED + 1, 200))
def test_a_steady_rate_is_seen_through_to_the_round_that_it_leads_to(rate, n_rounds):
    """Gaps of 1, rate, rate^2, ... are below the tolerance for the first time in round n_rounds."""
    history = list(rate ** np.arange(n_rounds))
    tol = 1.0001 * history[-1]
    for so_far in range(2 * RATED, n_rounds):
        assert may_get_there(history[:so_far], tol, n_rounds)
        assert not may_get_there(history[:so_far], tol, n_rounds - 1)


@pytest.mark.parametrize("gap", [0.5, np.inf])
def test_gaps_that_do_not_fall_end_a_trial_and_not_before_it_has_had_its_rounds(gap):
    assert may_get_there((2 * RATED - 1) * [gap], 1e-4, 1000)
    assert not may_get_there(2 * RATED * [gap], 1e-4, 1000)


def test_the_best_gap_counts_where_gaps_go_up_and_down():
    falling = list(0.7 ** np.arange(2 * RATED))
    assert may_get_there([*falling, 10.0], 1e-4, 40)
    assert may_get_there([*falling, 1e-5], 1e-4, 2 * RATED), "the tolerance is met"


@pytest.mark.parametrize(
    ("relative", "hidden", "is_lost"),
    [
        (1e-7, 1e-8, True),
        (1e-7, 1e-10, False),  # rounding hides less than the tolerance
        (0.99, 1e-8, False),  # and nothing next to such a gap
        (np.inf, 0.9 / DUE_TO_ROUNDING, False),
        (np.inf, 1.1 / DUE_TO_ROUNDING, True),
    ],
)
def test_hope_is_lost_where_rounding_explains_a_gap_that_no_longer_falls(relative, hidden, is_lost):
    hope = Hope(tol=1e-9)
    told = [hope.is_lost(1.0, relative, lambda: hidden) for _ in range(HOPELESS + 1)]
    assert told == [False] * HOPELESS + [is_lost]
