"""The limit on BLAS threads belongs to the process: the last holder restores it."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from musvm._threads import Workers, one_blas_thread, workers


def blas_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_the_limit_holds_until_the_last_holder_leaves():
    with threadpool_limits(2, user_api="blas"):
        first, second = ExitStack(), ExitStack()
        assert first.enter_context(one_blas_thread()) == 2
        assert second.enter_context(one_blas_thread()) == 1
        first.close()
        assert blas_threads() == 1
        second.close()
        assert blas_threads() == 2


def test_every_piece_is_visited_once_on_any_number_of_threads():
    for n_threads in (1, 3):
        team, seen = Workers(n_threads), np.zeros(1000, dtype=int)

        def visit(part, seen=seen):
            seen[part] += 1

        team.each(1000, visit, piece=64)
        team.close()
        assert np.all(seen == 1)


def test_an_error_in_a_piece_reaches_the_caller():
    with workers() as team:
        try:
            team.each(100, lambda part: 1 // 0, piece=10)
        except ZeroDivisionError:
            return
    raise AssertionError("the error was lost")
