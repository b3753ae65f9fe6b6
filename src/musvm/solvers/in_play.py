"""Interior points for what is still in play: a part of the rows, and some of the labels of each.

Where the Gram matrix has a high rank, the equations of `interior.py` in the weights are too many,
r (L - 1). But with a large C most rows are settled: they stay at a corner of their set, because one
label leads by far. Each round takes the variables that are not at a bound, or whose multiplier says
that they might soon leave theirs, for as much work as a step may cost, and solves the problem in
these by interior points while all others are held. It begins between alpha and the middle of every
row, and goes on as long as what is left of the gap is not due to what is held. Few rounds find the
right variables. Newton steps on faces (`gram.py`), which crawl on wrong ones, are tried once the
gap is small, and where a round gets nowhere.

The equations are those of the same Newton step in alpha (`interior_in_alpha.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm._threads import Workers
from musvm.dual.label_blocks import least_work
from musvm.dual.problem import DualProblem, DualRows, worth
from musvm.dual.solution import DualSolution, solution_of
from musvm.solvers.attempts import joined
from musvm.solvers.gram import at_most, solve
from musvm.solvers.interior import EAGERNESS, SHARE
from musvm.solvers.interior_in_alpha import Beginning, InteriorInAlpha, labels_of

# What a step may cost: this, or so many times what it costs with the free variables alone, the
# first while that is no more than ENOUGH_WORK.
LEAST_WORK, MORE_WORK, ENOUGH_WORK = 1e9, (2.0, 1.2), 4e9
# Where steps begin: the share of the middle of every row next to alpha is the first of these times
# the relative gap, no more than that and no less than the second.
MIDDLE, LEAST_MIDDLE = 0.3, 0.03
# How far multipliers may be from zero to be in play, in units of decision values.
WIDEST = 2.0
# Steps of a round, at most, and those to reckon with before it; in STALLED of them what is left
# falls by half, or rounding is in the way.
MAX_STEPS, FEWEST_STEPS, STALLED = 30, 12, 3
# What Newton steps on faces may cost between two rounds: a share of what the last one did, or this.
FINISH_SHARE, FINISH_WORK = 0.25, 8e9
# The gap of a part is brought down to this share of what the tolerance allows for all, or, while
# the gap is large, to a small share of it.
PART_OF_GAP, EARLY = 0.3, 1e-4
# A gap so many times what the part may keep is due to what is held; otherwise steps go on.
DUE_TO_OTHERS = 10.0
# Below this gap the sparsest point that was found may have the face of the optimum.
NEAR = 1e-2
# How much a gap counts next to D: what was held by mistake may make it larger while D is all but at
# its optimum.
GAP_COUNTS = 1e-3
# A round gets somewhere if D falls by this share of itself, or the gap to this share of itself. The
# first is small: of a cubic kernel D was within 1e-4 of the optimum while the gap grew.
LOWER, SMALLER = 1e-5, 0.8


@dataclass(frozen=True)
class Variables:
    """All variables of the rows, class-major: which are free, and how far others are from it.

    Attributes
    ----------
    loose : two masks, (L, M) each: x of a simplex, or p and q of a capped row, that are not at the
        bound that the decision values want
    distance : two arrays alike, the size of their multipliers
    leads : (M,) whether a label of a capped row leads by more than Delta: some p is at c
    """

    loose: tuple[BoolArray, BoolArray]
    distance: tuple[FloatArray, FloatArray]
    leads: BoolArray

    @classmethod
    def of(cls, rows: DualRows, alpha: FloatArray, F: FloatArray) -> Variables:
        """From class-major alpha and decision values."""
        n, caps = rows.n_train, rows.caps
        bound, score = np.zeros_like(alpha), F.copy()
        own = rows.y, np.arange(n)
        bound[own] = caps[:n]
        score[own] -= 1.0
        has_p_and_q = rows.delta > 0.0 or rows.is_max
        capped = slice(n, None) if has_p_and_q else slice(0, 0)
        if not has_p_and_q:
            bound[:, n:] = caps[n:]
        distance = score.max(axis=0) - score
        loose = alpha < bound
        other_loose, other = np.zeros_like(loose), np.full(alpha.shape, np.inf)
        # A capped row: q where alpha is negative; p where it is positive, at 0 or at c.
        a, other[:, capped] = alpha[:, capped], distance[:, capped]
        lead = distance[:, capped] - rows.delta
        other_loose[:, capped] = a < 0.0
        if rows.is_max:
            # What the last label is too far behind by is that of u, not of any p.
            lead -= lead.max(axis=0, initial=0.0)
        loose[:, capped] = np.where(lead > 0.0, a < caps[capped], a > 0.0)
        distance[:, capped] = np.abs(lead)
        leads = np.zeros(len(caps), dtype=bool)
        leads[capped] = (lead > 0.0).any(axis=0)
        return cls((loose, other_loose), (distance, other), leads)

    def live(self, reach: float) -> tuple[BoolArray, BoolArray]:
        """What is loose or within reach of it; of q, the leading label too if p is not all zero."""
        first, second = (
            loose | (distance <= reach)
            for loose, distance in zip(self.loose, self.distance, strict=True)
        )
        needed = first.any(axis=0) | self.leads
        return first, second & needed

    def work(self, reach: float) -> float:
        """Operations of a step, roughly."""
        live = labels_of(self.live(reach))
        row, label = np.nonzero(live.T & (live.sum(axis=0) > 1)[:, None])
        sizes = np.unique(row, return_counts=True)[1]
        return least_work(label, sizes)

    def reach(self) -> float:
        """How far to go so that a step does not cost too much."""
        of_free = self.work(0.0)
        most = max(LEAST_WORK, min(MORE_WORK[0] * of_free, ENOUGH_WORK), MORE_WORK[1] * of_free)
        low, high = 0.0, WIDEST
        for _ in range(12):
            middle = 0.5 * (low + high)
            if self.work(middle) <= most:
                low = middle
            else:
                high = middle
        return low


def solve_in_play(
    problem: DualProblem,
    team: Workers,
    *,
    alpha: FloatArray,
    tol: float = 1e-4,
    max_iter: int = 1000,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
    most_work: float = np.inf,
) -> DualSolution | None:
    """Go on from alpha, (M, L); None where too much is in play.

    Each round counts as many steps as interior points took, and the rounds of `gram.solve` that
    followed. No round begins by which interior points would take more than `most_work` operations.
    It ends early where both get nowhere: rounding is in their way.
    """
    best, goes_on = solution_of(problem, alpha, tol=tol), True
    closest = best
    history: list[float] = []
    work = 0.0

    def report(n_rounds: int, gap: float) -> None:
        if callback is not None:
            callback(len(history) + n_rounds, gap)

    while goes_on and not best.converged and len(history) < max_iter:
        found = _round(problem, team, best, tol, max_iter - len(history), most_work - work)
        if found is None:
            break
        start, best = best, found.best
        work += found.work
        history += found.n_steps * [best.relative_gap]
        from_here = found.sparsest if best.relative_gap <= NEAR else best
        may_finish = from_here is not best or not found.got_somewhere
        if may_finish and not best.converged and len(history) < max_iter:
            finished = solve(
                problem, alpha=from_here.alpha, tol=tol, max_iter=max_iter - len(history),
                may_go_on=at_most(max(FINISH_WORK, FINISH_SHARE * found.work)), is_near=True,
                random_state=random_state, callback=report,
            )  # fmt: skip
            history += finished.history
            best = min(best, finished, key=_merit)
            goes_on = _got_somewhere(start, best)
        closest = joined(closest, best)
        report(0, best.relative_gap)
    if not history:
        return None
    history[-1] = closest.relative_gap
    return replace(closest, n_rounds=len(history), history=history)


class _RowsInPlay(NamedTuple):
    """The rows in play of a round, and what changes them; all others stay as in `start`."""

    problem: DualProblem
    start: DualSolution
    points: IntArray
    interior: InteriorInAlpha
    work_of_a_step: float
    tol: float

    @classmethod
    def of(
        cls,
        problem: DualProblem,
        team: Workers,
        start: DualSolution,
        tol: float,
        most_work: float,
    ) -> _RowsInPlay | None:
        """None if nothing is in play, or too much."""
        alpha, F = np.ascontiguousarray(start.alpha.T), np.ascontiguousarray(start.decision.T)
        variables = Variables.of(problem.rows, alpha, F)
        reach = variables.reach()
        work_of_a_step = variables.work(reach)
        if FEWEST_STEPS * work_of_a_step > most_work:
            return None
        live = variables.live(reach)
        points = np.flatnonzero(labels_of(live).sum(axis=0) > 1)
        if len(points) == 0:
            return None
        middle = float(np.clip(MIDDLE * start.relative_gap, LEAST_MIDDLE, MIDDLE))
        live = live[0][:, points], live[1][:, points]
        begin = Beginning(alpha[:, points], F[:, points], middle, live)
        interior = InteriorInAlpha(problem.at(points), begin, team)
        return cls(problem, start, points, interior, work_of_a_step, tol)

    def merged(self, values: FloatArray) -> DualSolution:
        """The solution with these values, (L, R), of the rows in play."""
        alpha = self.start.alpha.copy()
        alpha[self.points] = values.T
        return solution_of(self.problem, alpha, tol=self.tol)

    def snapped(self) -> list[DualSolution]:
        """Sparse solutions, the sparsest first, up to one that has converged."""
        found: list[DualSolution] = []
        for eagerness in EAGERNESS:
            found.append(self.merged(self.interior.snapped(eagerness)))
            if found[-1].converged:
                break
        return found


class _Round(NamedTuple):
    """What a round found: the best so far, the sparsest, whether the best is much better.

    And the steps that took, with their operations.
    """

    best: DualSolution
    sparsest: DualSolution
    got_somewhere: bool
    n_steps: int
    work: float


def _round(
    problem: DualProblem,
    team: Workers,
    start: DualSolution,
    tol: float,
    most_steps: int,
    most_work: float,
) -> _Round | None:
    """Solve for what is in play; None if that is nothing, or too much.

    Where the gap that is left is not due to what is held, steps go on for a smaller one: another
    round would take as many again to come as far.
    """
    in_play = _RowsInPlay.of(problem, team, start, tol, most_work)
    if in_play is None:
        return None
    allowed, n_steps, best = _allowed(start, problem.rows, tol), 0, start
    most_steps = min(MAX_STEPS, most_steps)
    while True:
        n_more, got_there = _run(in_play.interior, allowed, most_steps - n_steps)
        n_steps += n_more
        work = n_steps * in_play.work_of_a_step
        found = in_play.snapped()
        if found[-1].converged:
            return _Round(found[-1], found[-1], True, n_steps, work)
        inside = in_play.merged(in_play.interior.feasible())
        best = _sparsest_good(best, [*found, inside])
        before, allowed = allowed, _allowed(best, problem.rows, tol)
        is_due_to_others = inside.gap > DUE_TO_OTHERS * before
        may_go_on = got_there and not best.converged and n_steps < most_steps
        if not may_go_on or is_due_to_others or 2.0 * allowed > before:
            break
    return _Round(best, found[0], _got_somewhere(start, best), n_steps, work)


def _got_somewhere(start: DualSolution, best: DualSolution) -> bool:
    return _is_lower(start, best) or best.gap <= SMALLER * start.gap


def _is_lower(start: DualSolution, one: DualSolution) -> bool:
    return start.dual - one.dual > LOWER * abs(one.dual)


def _sparsest_good(start: DualSolution, found: list[DualSolution]) -> DualSolution:
    """The first that is better than the start by half as much as any is; the start if none is.

    The first has the most variables at their bounds, and so the next round the fewest in play.
    Where gaps alone make all of them worse, the one with the lowest D is better all the same: its
    gap is due to what was held, and that is in play in the next round.
    """
    gains = [_merit(start) - _merit(one) for one in found]
    best = max(gains)
    if best > 0.0:
        return next(one for one, gain in zip(found, gains, strict=True) if gain >= 0.5 * best)
    lowest = min(found, key=lambda one: one.dual)
    return lowest if _is_lower(start, lowest) else start


def _merit(solution: DualSolution) -> float:
    """D while it falls; where it has no more to fall, the gap."""
    return solution.dual + GAP_COUNTS * solution.gap


def _allowed(start: DualSolution, rows: DualRows, tol: float) -> float:
    """The gap that the part may keep."""
    of_start = max(min(worth(rows, start.primal), -start.dual), 0.0)
    return max(PART_OF_GAP * tol * of_start, EARLY * start.gap)


def _run(interior: InteriorInAlpha, allowed: float, most_steps: int) -> tuple[int, bool]:
    """Steps until products are small enough and F agrees with alpha, or they fall no more.

    How many there were, and whether both are as small as they may be.
    """
    left = [np.inf]
    while len(left) <= most_steps:
        interior.step(SHARE * allowed / interior.n_products)
        left.append(max(interior.products(), interior.gap_by_drift()))
        if left[-1] <= allowed:
            return len(left) - 1, True
        if not left[-1] <= 0.5 * left[-1 - STALLED :][0]:
            break
    return len(left) - 1, False
