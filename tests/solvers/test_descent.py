"""Block descent lets itself be interrupted."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from musvm.solvers._descent import descend


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
