"""Exact leave-one-out: the label that a model trained without x_t gives to x_t, certified.

For every training point t, in this order, until its label is certified (`certificate.py`), and
its decision values as exactly as the caller wants them:

1. the fitted model, with row t of alpha dropped, and its linear estimate (`estimate.py`);
2. the primal-dual active-set method (`active.py`) on the problem without t, from that estimate;
3. the solver (`musvm.solvers.gram`) on that problem, to tighter and tighter gaps.

The first solves nothing. The second goes through stacks of points, with one factorisation for
each step and point (`stacked.py`). The third is for what remains: active sets that cycle, faces
too large to factor, and labels that tie up to rounding; the latter stay uncertified.

A point that is no support vector has the fitted model for its left-out one, as far as the gap of
the fit can tell; where it cannot tell enough the point is treated like a support vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm._lazy import lazy
from musvm.dual import problem as statement
from musvm.dual.decisions import winning_leads
from musvm.dual.problem import DualProblem
from musvm.dual.solution import DualSolution
from musvm.loo.active import active_sets, improved, nearest_feasible
from musvm.loo.certificate import Certificates
from musvm.loo.estimate import Estimate
from musvm.loo.stacked import StackedNewton, product
from musvm.loo.types import support_types
from musvm.solvers.gram import solve

Callback = Callable[[int, int], None]
"""Is told the number of points done and of all points."""

# The (T, L, M) arrays of a stack are this many times smaller than the Gram matrix, or than 16 MB.
STACKS = 8
MIN_ENTRIES = 2**21
MAX_STEPS = 12
# The method goes on as long as one of this many steps divides the gap by so much.
PATIENCE, PROGRESS = 3, 1.5
# The gaps, relative to P, that the solver is asked for in turn, and its patience.
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
MAX_ROUNDS = 100


@dataclass(frozen=True)
class LeftOut:
    """What is found for every training point.

    values : (n, L) decision values of the point without itself in training
    radius : (n,) differences of these values are this close to the exact ones
    certified : (n,) whether the leading label is certain
    solved : (n,) whether anything had to be solved for it
    types_kept : (n,) whether all other points keep their support-vector type
    """

    values: FloatArray
    radius: FloatArray
    certified: BoolArray
    solved: BoolArray
    types_kept: BoolArray


def leave_one_out(
    problem: DualProblem,
    solution: DualSolution,
    types: IntArray,
    callback: Callback | None = None,
    max_radius: float = np.inf,
) -> LeftOut:
    """Leave out every training point of a solved problem.

    A point is done when its label is certified and its radius at most `max_radius`.
    """
    n = problem.rows.n_train
    radius = _radius_as_fitted(problem, solution)
    found = LeftOut(
        values=solution.decision[:n].copy(),
        radius=radius,
        certified=winning_leads(solution.decision[:n]) > radius,
        solved=np.zeros(n, dtype=bool),
        types_kept=np.ones(n, dtype=bool),
    )
    points = np.flatnonzero((types[:n] > 0) | ~found.certified | (radius > max_radius))
    found.certified[points] = False
    search = _Search(problem, solution, types, found, max_radius)
    entries = max(problem.n_points**2, MIN_ENTRIES) // STACKS
    size = max(entries // (problem.n_points * problem.rows.n_classes), 1)
    for start in range(0, len(points), size):
        search.run(points[start : start + size])
        if callback is not None:
            callback(n - len(points) + min(start + size, len(points)), n)
    return found


def _radius_as_fitted(problem: DualProblem, solution: DualSolution) -> FloatArray:
    """The radius of a certificate with alpha itself, valid where alpha_t = 0, (n,)."""
    n = problem.rows.n_train
    gaps = np.maximum(statement.row_gaps(problem.rows, solution.alpha, solution.decision), 0.0)
    others = gaps.sum() - gaps[:n]
    radius: FloatArray = np.sqrt(2.0 * others * np.maximum(problem.gram.diagonal()[:n], 0.0))
    return radius


class _Search:
    """The steps above, for one problem; results go to `found`."""

    def __init__(
        self,
        problem: DualProblem,
        solution: DualSolution,
        types: IntArray,
        found: LeftOut,
        max_radius: float,
    ) -> None:
        self.problem = problem
        self.solution = solution
        self.types = types
        self.found = found
        self.max_radius = max_radius
        self.estimate = Estimate(problem, solution.alpha)
        self.alpha = np.ascontiguousarray(solution.alpha.T)
        self.F = np.ascontiguousarray(solution.decision.T)
        self.sets = active_sets(problem.rows, self.alpha)
        # A face too large to be factored is left to the solver.
        self.max_steps = MAX_STEPS if self.estimate.is_direct else 0

    @lazy
    def newton(self) -> StackedNewton:
        return StackedNewton(self.problem, self.estimate.reduced, self.estimate.inverse, self.sets)

    def run(self, points: IntArray) -> None:
        """Leave out each of a stack of points."""
        K, alpha, F = self.problem.gram, self.alpha, self.F
        x = self.estimate.changes(points)
        best = Certificates(self.problem, alpha, F, points)
        sets = self.sets.without(points)
        alpha, F = alpha + x, F + product(x, K)
        unfinished = []
        n_vain = np.zeros(len(points), dtype=np.intp)
        for n_solved in range(self.max_steps + 1):
            gap = best.gap
            best.add_primal(alpha, F)
            sets = improved(self.problem.rows, sets, alpha, F, best.points)
            near, feasible = nearest_feasible(self.problem.rows, sets, alpha)
            F_near = product(near, K)
            best.add_dual(near, F_near, feasible)
            done = self._record(best, F, near, solved=n_solved > 0)
            n_vain = np.where(best.gap * PROGRESS < gap, 0, n_vain + 1)
            goes_on = ~done & (n_vain < PATIENCE) & (n_solved < self.max_steps)
            unfinished.append(best.select(~done & ~goes_on))
            if not goes_on.any():
                break
            best, sets, n_vain = best.select(goes_on), sets.select(goes_on), n_vain[goes_on]
            x, usable = self.newton.step(sets, F_near[goes_on])
            alpha, F = near[goes_on] + x, F_near[goes_on] + product(x, K)
            if not usable.all():
                unfinished.append(best.select(~usable))
                best, sets, n_vain = best.select(usable), sets.select(usable), n_vain[usable]
                alpha, F = alpha[usable], F[usable]
        for rest in unfinished:
            for k in range(len(rest.points)):
                self._solve(rest.select(np.array([k])))

    def _solve(self, best: Certificates) -> None:
        """Leave out a single point, by the solver."""
        kept = np.delete(np.arange(self.problem.n_points), best.points)
        if not len(kept):
            return
        without = self.problem.at(kept)
        alpha = np.zeros_like(best.dual_alpha)
        for tol in TOLERANCES:
            if best.gap[0] <= max(tol * best.primal[0], best.rounding[0]):
                continue
            solution = solve(
                without, tol=tol, max_iter=MAX_ROUNDS, alpha=best.dual_alpha[0][:, kept].T
            )
            alpha[0][:, kept] = solution.alpha.T
            F = product(alpha, self.problem.gram)
            best.add_primal(alpha, F)
            best.add_dual(alpha, F, np.ones(1, dtype=bool))
            if self._record(best, F, alpha, solved=True)[0] or not solution.converged:
                break

    def _record(
        self, best: Certificates, F: FloatArray, alpha: FloatArray, *, solved: bool
    ) -> BoolArray:
        """Note what is known of each point of a stack; return which are done.

        F and alpha are the latest iterates. They are closer to the truth than the centre of the
        ball is, as a rule, but the label is that of the centre.
        """
        found, points = self.found, best.points
        each = np.arange(len(points))
        centre, latest, radius = best.centres(), F[each, :, points], best.radii()
        certified: BoolArray = winning_leads(centre) >= radius
        agrees = latest.argmax(axis=1) == centre.argmax(axis=1)
        values = np.where(agrees[:, None], latest, centre)
        found.values[points] = values
        found.radius[points] = radius + np.ptp(values - centre, axis=1)
        found.certified[points] = certified
        found.solved[points] = solved
        kept = support_types(self.problem.rows, alpha.transpose(0, 2, 1)) == self.types
        kept[each, points] = True
        found.types_kept[points] = kept.all(axis=1)
        return certified & (found.radius[points] <= self.max_radius)
