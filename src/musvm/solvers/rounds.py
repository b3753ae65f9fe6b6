"""What solvers share: the curvature of a block, rounds until a certificate, and when to give up.

Solvers that never hold K keep decision values that rounding may have spoiled, so a gap that seems
small enough is only believed once it was computed in doubles. If it is not small enough after all,
the rounds go on from there.

Where rounding of the kernel hides gaps of the size asked for, and rounds bring no smaller one, more
of them would not help: features far from the origin, or a C that is huge next to k(x, x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from musvm._input.tensors import FloatArray
from musvm.dual.problem import DualRows, relative_gap

# Decision values are computed afresh after so many rounds without a smaller gap: rounding may be
# what is left.
PATIENCE = 30
# What is on trial gives up where the rate of so many rounds says that those left are too few. It
# has twice as many to begin with.
RATED = 8
# Rounding is the reason for no progress if the gap did not fall by a tenth in so many rounds, and
# is no more than so many times what rounding hides: of a larger one the whole may be to come.
PROGRESS, HOPELESS, DUE_TO_ROUNDING = 0.9, 15, 1e4


def curvatures(diagonal: FloatArray) -> FloatArray:
    """What descent divides by: k(x, x), or a little where that is zero or next to nothing."""
    floor = 1e-12 * diagonal.max(initial=0.0)
    return np.maximum(diagonal, floor if floor > 0 else 1.0)


@dataclass
class Hope:
    """Whether more rounds may help, told by the gap after every one of them."""

    tol: float
    best: float = np.inf
    waited: int = 0

    def is_lost(self, gap: float, relative: float, hidden: Callable[[], float]) -> bool:
        """Whether the gap, P + D, no longer falls, and what rounding hides is the reason.

        That is above the tolerance then, and not far below the relative gap.
        """
        if gap < PROGRESS * self.best:
            self.best, self.waited = gap, 0
            return False
        self.waited += 1
        if self.waited < HOPELESS:
            return False
        found = hidden()
        # Far from the optimum the relative gap is infinite, however large the gap is.
        return found > self.tol and DUE_TO_ROUNDING * found >= min(relative, 1.0)


def may_get_there(history: list[float], tol: float, max_iter: int, rated: int = RATED) -> bool:
    """Whether the gaps of the rounds so far will reach `tol` by round `max_iter` at their rate."""
    if len(history) < 2 * rated:
        return True
    now, before = min(history), min(history[:-rated])
    if now <= tol:
        return True
    if not now < before:
        return False
    needed = rated * np.log(now / tol) / np.log(before / now)
    return bool(len(history) + needed <= max_iter)


class Gap(Protocol):
    """What the loop asks of a survey: P + D, and P."""

    @property
    def gap(self) -> float: ...
    @property
    def primal(self) -> float: ...


S = TypeVar("S", bound=Gap)


def rounds_until_certified(
    rows: DualRows,
    survey: S,
    improve: Callable[[S], S | None],
    certify: Callable[[S], S],
    hidden: Callable[[S], float],
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None,
    rated: int | None = None,
) -> tuple[S, list[float]]:
    """Improve until a certified relative gap of `tol`, at least once; for `max_iter` rounds.

    Parameters
    ----------
    rows : the problem without its Gram matrix
    survey : of the start, exact
    improve : makes one round and surveys it; None if there is nothing to improve
    certify : surveys with decision values computed afresh
    hidden : the relative gap that rounding may hide; asked for where the gap no longer falls
    tol, max_iter, callback : as in `solve`
    rated : give up where the rate of so many rounds says that `max_iter` are too few; never if None

    Returns
    -------
    The last survey, certified, and the relative gap after every round
    """
    history: list[float] = []
    exact, best, waited, hope = True, np.inf, 0, Hope(tol)
    gap = relative_gap(rows, survey.gap, survey.primal)
    while len(history) < max_iter and (gap > tol or not exact or not history):
        if not exact and (gap <= tol or waited >= PATIENCE):
            survey, exact = certify(survey), True
            best = gap = history[-1] = relative_gap(rows, survey.gap, survey.primal)
            waited = 0
            continue
        improved = improve(survey)
        if improved is None:
            break
        survey, exact = improved, False
        gap = relative_gap(rows, survey.gap, survey.primal)
        history.append(gap)
        waited = 0 if gap < best else waited + 1
        best = min(best, gap)
        if callback is not None:
            callback(len(history), history[-1])
        if hope.is_lost(survey.gap, gap, partial(hidden, survey)):
            break
        if rated is not None and not may_get_there(history, tol, max_iter, rated):
            break
    return survey if exact else certify(survey), history
