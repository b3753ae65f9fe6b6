"""Several ways to solve one problem, one after the other, within one number of rounds.

Each goes on from the best alpha so far, or begins where it always does, and is left out once the
tolerance is reached, all rounds are over or rounding leaves nothing. What is told of them counts
the rounds of all. While no model is worth its gap, D alone tells which alpha is the best: of one
with D all but at its optimum the gap may be a thousand times that of zero weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from musvm._input.tensors import FloatArray
from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution

# A relative gap of a model that may be no better than zero weights.
WORTHLESS = 1.0
# Where rounding hides so many times what a model is worth, no other way finds a better one.
FUTILE = 1e3

Callback = Callable[[int, float], None]
"""Called with the number of rounds done and the relative gap after each."""


class Attempts:
    """Solutions of one problem, and the rounds that are left.

    Parameters
    ----------
    tol : the relative gap that all of them are to reach
    max_iter : rounds of all together
    callback : of all together
    alpha : (M, L) where the first begins, if it can; None for where it always does
    """

    def __init__(
        self,
        *,
        tol: float,
        max_iter: int,
        callback: Callback | None = None,
        alpha: FloatArray | None = None,
    ) -> None:
        self._tol, self._max_iter, self._callback = tol, max_iter, callback
        self._alpha = alpha
        self._found: list[DualSolution] = []

    @property
    def best(self) -> DualSolution:
        return joined(*self._found)

    @property
    def has_begun(self) -> bool:
        return bool(self._found)

    @property
    def is_over(self) -> bool:
        if not self.has_begun:
            return False
        best = self.best
        return best.converged or self.rounds_left < 1 or best.hidden_gap >= FUTILE

    @property
    def is_within_reach(self) -> bool:
        """Whether it is not over, and rounding hides no gaps of the tolerance."""
        is_hidden = self.has_begun and self.best.hidden_gap > self._tol
        return not (self.is_over or is_hidden)

    def has_what_was_asked_for(self, rows: DualRows) -> bool:
        """Whether the best meets the tolerance relative to all of the gain, not a share of it."""
        if not self.has_begun:
            return False
        of_all = replace(rows, share_of_gain=1.0)
        return self.best.measured_by(of_all, self._tol).converged

    @property
    def rounds_left(self) -> int:
        return self._max_iter - self._n_done

    @property
    def _n_done(self) -> int:
        return sum(found.n_rounds for found in self._found)

    @property
    def _best_alpha(self) -> FloatArray | None:
        if not self._found:
            return self._alpha
        best = self.best
        if best.relative_gap > WORTHLESS:
            best = min(reversed(self._found), key=lambda solution: solution.dual)
        return best.alpha

    def add(
        self,
        go_on: Callable[..., DualSolution | None],
        *args: Any,
        at_most: int | None = None,
        **more: Any,
    ) -> bool:
        """Go on from the best alpha, for some of the rounds that are left, or all.

        False if all is over, or there is no way to.
        """
        return self._run(go_on, *args, at_most=at_most, alpha=self._best_alpha, **more)

    def add_anew(
        self,
        begin: Callable[..., DualSolution | None],
        *args: Any,
        at_most: int | None = None,
        **more: Any,
    ) -> bool:
        """The same from nothing."""
        return self._run(begin, *args, at_most=at_most, **more)

    def _run(self, solve: Callable[..., DualSolution | None], *args: Any, **more: Any) -> bool:
        if self.is_over:
            return False
        at_most = more.pop("at_most")
        rounds = self.rounds_left if at_most is None else min(at_most, self.rounds_left)
        told = counted_from(self._n_done, self._callback)
        found = solve(*args, tol=self._tol, max_iter=rounds, callback=told, **more)
        if found is None:
            return False
        self._found.append(found)
        return True


def counted_from(n_done: int, callback: Callback | None) -> Callback | None:
    """A callback for rounds that follow others."""
    if callback is None or n_done == 0:
        return callback
    return lambda n_rounds, gap: callback(n_done + n_rounds, gap)


def joined(*solutions: DualSolution) -> DualSolution:
    """The best of some solutions, with the rounds of all.

    Far from the optimum relative gaps are infinite; the gap itself still says which is better.
    """
    best = min(reversed(solutions), key=lambda solution: (solution.relative_gap, solution.gap))
    return replace(
        best,
        n_rounds=sum(solution.n_rounds for solution in solutions),
        history=[gap for solution in solutions for gap in solution.history],
        hidden_gap=max(solution.hidden_gap for solution in solutions),
    )
