"""Interior points for what is still in play: a part of the rows, and some of the labels of each.

Where the Gram matrix has a high rank, the equations of `interior.py` in the weights are too many,
r (L - 1). But with a large C most rows are settled: they stay at a corner of their set, because one
label leads by far. Each round takes the variables that are not at a bound, or whose multiplier says
that they might soon leave theirs, up to MOST_IN_PLAY or some more than are free, and solves the
problem in these by interior points while all others are held. That finds nearly the right face;
Newton steps on faces (`gram.py`), which crawl on wrong ones, finish it in a round or two, or say
what else is in play.

The equations are those of the same Newton step in alpha (Woodbury): in the directions
e_l - e_k of the live labels l of a row, k the one with the largest theta,

    (P' (K (x) I) P + D^-1) y = P' F,     D^-1 = diag(1 / theta_l) + 1 1' / theta_k for every row,

a sum of two positive matrices in which nothing cancels. A direction whose theta has all but
vanished changes nothing and is left out; what that costs is made up by the refinement of
`interior.py`. So the equations become fewer while the method closes in on the right face.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm._threads import Workers
from musvm.dual.faces import Directions
from musvm.dual.problem import DualProblem, DualRows, worth
from musvm.dual.solution import DualSolution, solution_of
from musvm.solvers.factors import pivoted_cholesky
from musvm.solvers.gram import at_most, solve
from musvm.solvers.interior import EAGERNESS, SHARE, Interior, Piece, Restriction, ScaledFactor

# Directions that a round takes: so many, or so many more than are free. With more than MOST_FREE of
# these nothing is gained.
MOST_IN_PLAY, MORE_THAN_FREE, MOST_FREE = 1500, 500, 6000
# How far multipliers may be from zero to be in play, in units of decision values.
WIDEST = 2.0
# A direction counts if theta k(x, x) exceeds this.
NOTICEABLE = 1e-7
# Steps of a round, at most, and those to reckon with before it; in STALLED of them products fall by
# half, or rounding is in the way.
MAX_STEPS, FEWEST_STEPS, STALLED = 30, 12, 3
# What Newton steps on faces may cost between two rounds: a share of what the last one did, or this.
FINISH_SHARE, FINISH_WORK = 0.25, 8e9
# The gap of a part is brought down to this share of what the tolerance allows for all, or, while
# the gap is large, of a small share of it; and at least this much of the last step is taken.
PART_OF_GAP, EARLY, WHOLE = 0.1, 1e-3, 0.9


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
        capped = slice(n, None) if rows.delta > 0.0 else slice(0, 0)
        if rows.delta == 0.0:
            bound[:, n:] = caps[n:]
        distance = score.max(axis=0) - score
        loose = alpha < bound
        other_loose, other = np.zeros_like(loose), np.full(alpha.shape, np.inf)
        # A capped row: q where alpha is negative; p where it is positive, at 0 or at c.
        a, other[:, capped] = alpha[:, capped], distance[:, capped]
        lead = distance[:, capped] - rows.delta
        other_loose[:, capped] = a < 0.0
        loose[:, capped] = np.where(lead > 0.0, a < caps[capped], a > 0.0)
        distance[:, capped] = np.abs(lead)
        leads = np.zeros(len(caps), dtype=bool)
        leads[capped] = (lead > 0.0).any(axis=0)
        return cls((loose, other_loose), (distance, other), leads)

    def live(self, reach: float) -> tuple[BoolArray, BoolArray]:
        """What is loose or within reach of it; of q, the leading label too if p is not all zero."""
        first, second = (
            loose | (distance < reach)
            for loose, distance in zip(self.loose, self.distance, strict=True)
        )
        needed = first.any(axis=0) | self.leads
        return first, (second | (self.distance[1] == 0.0)) & needed

    def n_directions(self, reach: float) -> int:
        return int((_labels(self.live(reach)).sum(axis=0) - 1).clip(0).sum())

    def reach(self) -> float | None:
        """How far to go so that there are not too many; None if there are in any case."""
        n_free = self.n_directions(0.0)
        if n_free > MOST_FREE:
            return None
        most, low, high = max(MOST_IN_PLAY, MORE_THAN_FREE + n_free), 0.0, WIDEST
        for _ in range(12):
            middle = 0.5 * (low + high)
            if self.n_directions(middle) <= most:
                low = middle
            else:
                high = middle
        return low


def _labels(live: tuple[BoolArray, BoolArray]) -> BoolArray:
    return live[0] | live[1]


class EquationsInPlay:
    """The matrix of the Newton step in the directions of live labels, and its factor."""

    def __init__(self, gram: FloatArray, Z: FloatArray, live: BoolArray, team: Workers) -> None:
        self.gram, self.Zt = gram, np.ascontiguousarray(Z.T)
        self._team = team
        self.row, self.label = np.nonzero(live.T)
        self.size = len(self.row)

    def factorise(self, pieces: list[Piece]) -> None:
        theta = np.hstack([piece.cone.star.theta for piece in pieces])[self.label, self.row]
        kept, sizes = self._heaviest_first(theta)
        self._at = self.label[kept], self.row[kept]
        directions = self._directions = Directions.of(self._at[1], self._at[0], sizes)
        self.size = sizes.sum() - len(sizes)
        H = directions.hessian(self.gram)
        group = np.repeat(np.arange(len(sizes)), sizes - 1)
        _add_blocks(H, group, 1.0 / theta[kept][directions.away])
        H.flat[:: len(H) + 1] += 1.0 / theta[kept][directions.towards]
        self._factor = ScaledFactor(H, self._team)

    def _heaviest_first(self, theta: FloatArray) -> tuple[IntArray, IntArray]:
        """Variables that count, by rows, the heaviest of each row first; and how many a row has."""
        order = np.lexsort((-theta, self.row))
        first = np.diff(self.row[order], prepend=-1) > 0
        counts = theta[order] * self.gram.diagonal()[self.row[order]] > NOTICEABLE
        rows_that_count = np.zeros(len(self.gram), dtype=bool)
        rows_that_count[self.row[order][counts & ~first]] = True
        kept = order[(counts | first) & rows_that_count[self.row[order]]]
        return kept, np.unique(self.row[kept], return_counts=True)[1]

    def solve(self, rhs: FloatArray) -> FloatArray:
        """The weights whose image is rhs, (L, r)."""
        values = (rhs @ self.Zt)[self._at]
        y = self._factor.solve(self._directions.along(values))
        change = np.zeros((len(rhs), len(self.gram)))
        change[self._at] = self._directions.change(y, len(values))
        return rhs - change @ self.Zt.T


def _add_blocks(H: FloatArray, group: IntArray, values: FloatArray) -> None:
    """Add values[i] to H[i, j] wherever i and j are of one group; groups are contiguous."""
    _, starts, sizes = np.unique(group, return_index=True, return_counts=True)
    for size in np.unique(sizes):
        first = starts[sizes == size]
        at = first[:, None] + np.arange(size)
        H[at[:, :, None], at[:, None, :]] += values[first][:, None, None]


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
    """Go on from alpha, (M, L); None where too much is in play, or the loss is that of eq. (2).

    Each round counts as many steps as interior points took, and the rounds of `gram.solve` that
    followed. No round begins by which interior points would take more than `most_work` operations.
    It ends early where they no longer lower D: rounding is in their way.
    """
    if problem.rows.is_max:
        return None
    best, goes_on = solution_of(problem, alpha, tol=tol), True
    history: list[float] = []
    work = 0.0

    def report(n_rounds: int, gap: float) -> None:
        if callback is not None:
            callback(len(history) + n_rounds, gap)

    while goes_on and not best.converged and len(history) < max_iter:
        found = _round(problem, team, best, tol, max_iter - len(history), most_work - work)
        if found is None:
            break
        best, goes_on = found.best, found.is_new
        work += found.work
        history += found.n_steps * [best.relative_gap]
        if not best.converged and len(history) < max_iter:
            best = solve(
                problem, alpha=best.alpha, tol=tol, max_iter=max_iter - len(history),
                may_go_on=at_most(max(FINISH_WORK, FINISH_SHARE * found.work)),
                random_state=random_state, callback=report,
            )  # fmt: skip
            history += best.history
        report(0, best.relative_gap)
    if not history:
        return None
    return replace(best, n_rounds=len(history), history=history)


class _Round(NamedTuple):
    """The best so far, whether it is new, the steps that took, and their operations, roughly."""

    best: DualSolution
    is_new: bool
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
    """Solve for what is in play; None if that is nothing, or too much."""
    old_alpha, F = np.ascontiguousarray(start.alpha.T), np.ascontiguousarray(start.decision.T)
    variables = Variables.of(problem.rows, old_alpha, F)
    reach = variables.reach()
    if reach is None:
        return None
    work_of_a_step = variables.n_directions(reach) ** 3 / 3.0
    if FEWEST_STEPS * work_of_a_step > most_work:
        return None
    live = variables.live(reach)
    points = np.flatnonzero(_labels(live).sum(axis=0) > 1)
    if len(points) == 0:
        return None
    part = problem.at(points)
    Z = pivoted_cholesky(part.gram)
    if Z is None:
        return None
    live = live[0][:, points], live[1][:, points]
    old = np.ascontiguousarray(old_alpha[:, points])
    restriction = Restriction(F[:, points] - old @ part.gram, old @ Z, live)
    equations = EquationsInPlay(part.gram, Z, _labels(live), team)
    interior = Interior(Z, part.rows, team, restriction, equations)
    n_steps = _run(interior, _allowed(start, problem.rows, tol), min(MAX_STEPS, most_steps))
    work = n_steps * work_of_a_step

    def merged(values: FloatArray) -> DualSolution:
        alpha = start.alpha.copy()
        alpha[points] = values.T
        return solution_of(problem, alpha, tol=tol)

    found = [start, merged(interior.feasible())]
    for eagerness in EAGERNESS:
        found.append(merged(interior.snapped(eagerness)))
        if found[-1].converged:
            return _Round(found[-1], True, n_steps, work)
    best = min(found, key=lambda solution: solution.dual)
    return _Round(best, best is not start, n_steps, work)


def _allowed(start: DualSolution, rows: DualRows, tol: float) -> float:
    """The gap that the part may keep."""
    of_start = max(min(worth(rows, start.primal), -start.dual), 0.0)
    return PART_OF_GAP * max(tol * of_start, EARLY * start.gap)


def _run(interior: Interior, allowed: float, most_steps: int) -> int:
    """Steps until the products are small enough after a whole step, or do not fall any more."""
    products = [np.inf]
    while len(products) <= most_steps:
        t = interior.step(SHARE * allowed / interior.n_products)
        products.append(interior.products())
        small = products[-1] <= allowed and t > WHOLE
        if small or products[-1] > 0.5 * products[-1 - STALLED :][0]:
            break
    return len(products) - 1
