"""What is known of left-out models from a primal and a dual point of each, found separately.

For the problem without point t let P be its primal objective, D its dual one as minimised, and w*
its optimum, P(w*) + D* = 0. For any weights w_p, and for the weights w_d of any feasible alpha_d,

    P(w_p) >= P(w*) + 1/2 |w_p - w*|^2,        D(alpha_d) >= D* + 1/2 |w_d - w*|^2,

because P is 1-strongly convex and D is a quadratic in w_d plus something convex. The sum of both
puts w* in a ball:

    |w* - (w_p + w_d) / 2|^2 <= P(w_p) + D(alpha_d) - 1/4 |w_p - w_d|^2 =: rho^2.

So every difference f_k - f_l of the decision values of x_t is within rho sqrt(2 K_tt) of its
value at the centre, and a label that leads by more than that is *certified*. For w_p = w_d this
is |w - w*|^2 <= gap, half of what the strong convexity of P alone gives.

The fitted model itself is a start: w_p its weights, alpha_d its alpha without row t. Then
rho^2 = 1/4 K_tt |alpha_t|^2, up to the gap of the fit, for every loss.

New points improve a certificate through the best point on the line to them: an exact search for
D, golden sections for P, at no product with K. Arrays are stacks of class-major
matrices, (T, L, M), one for each of T points.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.dual.problem import DualProblem
from musvm.loo.active import own_labels

GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
# The last interval is a seventh of the first: more sections cost more than they gain.
N_SECTIONS = 3
# Rounding errors of P and D in units of the numbers that are added up.
ROUNDING = 2 * np.finfo(np.float64).eps


def inner(a: FloatArray, b: FloatArray) -> FloatArray:
    """<a, b> for every problem of a stack, (T,)."""
    products: FloatArray = np.einsum("tlm,tlm->t", a, b)
    return products


class Certificates:
    """The best points so far for the problems without each of `points`."""

    def __init__(
        self, problem: DualProblem, alpha: FloatArray, F: FloatArray, points: IntArray
    ) -> None:
        self.problem = problem
        self.points = points
        each = np.arange(len(points))
        self._caps = np.repeat(problem.rows.caps[None], len(points), axis=0)
        self._caps[each, points] = 0.0
        self._others = (~own_labels(problem.rows)).astype(float)

        self.primal_alpha = np.repeat(alpha[None], len(points), axis=0)
        self.primal_F = np.repeat(F[None], len(points), axis=0)
        self.dual_alpha, self.dual_F = self.primal_alpha.copy(), self.primal_F.copy()
        self.dual_alpha[each, :, points] = 0.0
        self.dual_F -= alpha.T[points][:, :, None] * problem.gram[points][:, None, :]
        self.primal = self._primal(self.primal_alpha, self.primal_F)
        self.dual = self._dual(self.dual_alpha, self.dual_F)

    def select(self, which: BoolArray) -> Certificates:
        """The certificates of some of the problems."""
        part = object.__new__(Certificates)
        part.problem, part._others = self.problem, self._others
        for name in (
            "points", "_caps", "primal", "dual",
            "primal_alpha", "primal_F", "dual_alpha", "dual_F",
        ):  # fmt: skip
            setattr(part, name, getattr(self, name)[which])
        return part

    # -----------------------------------------------------------------------------------------
    # What they say

    @property
    def lengths(self) -> FloatArray:
        """|x_i| in feature space, (M,)."""
        return np.sqrt(np.maximum(self.problem.gram.diagonal(), 0.0))

    @property
    def gap(self) -> FloatArray:
        return self.primal + self.dual

    @property
    def rounding(self) -> FloatArray:
        """How far the computed gap may be from the true one.

        Decision values are sums of terms K_ij alpha_jl, none larger than |x_i| |x_j| |alpha_jl|.
        """
        lengths = self.lengths
        sizes = np.abs(self.primal_alpha) @ lengths + np.abs(self.dual_alpha) @ lengths
        in_losses = (self._caps @ lengths) * sizes.max(axis=1)
        added: FloatArray = self.primal + in_losses + np.square(sizes).sum(axis=1)
        return ROUNDING * added

    def centres(self) -> FloatArray:
        """Decision values of the points left out, at the centre of the ball, (T, L)."""
        at = np.arange(len(self.points)), slice(None), self.points
        return 0.5 * (self.primal_F[at] + self.dual_F[at])

    def radii(self) -> FloatArray:
        """By how much differences of these values may be off, (T,)."""
        apart = inner(self.primal_alpha - self.dual_alpha, self.primal_F - self.dual_F)
        squared = np.maximum(self.gap - 0.25 * apart, 0.0) + self.rounding
        return np.sqrt(2.0 * squared) * self.lengths[self.points]

    # -----------------------------------------------------------------------------------------
    # Better points

    def add_primal(self, alpha: FloatArray, F: FloatArray) -> None:
        """Move w_p to the best weights between it and those of alpha, which may be infeasible."""
        step, F_step = alpha - self.primal_alpha, F - self.primal_F
        constant = 0.5 * inner(self.primal_alpha, self.primal_F)
        linear, quadratic = inner(step, self.primal_F), 0.5 * inner(step, F_step)

        def value(length: FloatArray) -> FloatArray:
            losses = self._losses(self.primal_F + length[:, None, None] * F_step)
            return constant + length * (linear + length * quadratic) + losses

        length, best = _golden_sections(value, len(alpha))
        better = best < self.primal
        length = np.where(better, length, 0.0)[:, None, None]
        self.primal_alpha += length * step
        self.primal_F += length * F_step
        self.primal = np.where(better, best, self.primal)

    def add_dual(self, alpha: FloatArray, F: FloatArray, feasible: BoolArray) -> None:
        """Move alpha_d to the best point between it and alpha, where that is feasible."""
        step, F_step = alpha - self.dual_alpha, F - self.dual_F
        # The cost of a point in between is at most the mean of the costs at the ends.
        slope = inner(step, self.dual_F) + self._costs(alpha) - self._costs(self.dual_alpha)
        curvature = inner(step, F_step)
        downhill = feasible & (slope < 0)
        length = np.divide(-slope, curvature, out=np.ones_like(slope), where=curvature > 0)
        length = np.where(downhill, np.minimum(length, 1.0), 0.0)[:, None, None]
        self.dual_alpha += length * step
        self.dual_F += length * F_step
        self.dual = self._dual(self.dual_alpha, self.dual_F)

    # -----------------------------------------------------------------------------------------
    # Objectives, as in `musvm.dual.problem`, of stacks

    def _losses(self, F: FloatArray) -> FloatArray:
        """sum_i c_i loss_i without the point left out, (T,)."""
        n, y = self.problem.rows.n_train, self.problem.rows.y
        training, universum = F[..., :n], F[..., n:]
        losses = np.empty((len(F), F.shape[2]))
        losses[:, :n] = (training + self._others).max(axis=1) - training[:, y, np.arange(n)]
        excess = universum.max(axis=1, keepdims=True) - universum - self.problem.rows.delta
        np.maximum(excess, 0.0, out=excess)
        is_max = self.problem.rows.is_max
        losses[:, n:] = excess.max(axis=1) if is_max else excess.sum(axis=1)
        total: FloatArray = np.einsum("tm,tm->t", self._caps, losses)
        return total

    def _costs(self, alpha: FloatArray) -> FloatArray:
        """The part of D that is not quadratic, (T,)."""
        n, y = self.problem.rows.n_train, self.problem.rows.y
        gained: FloatArray = alpha[:, y, np.arange(n)].sum(axis=1)
        spent: FloatArray = np.maximum(alpha[..., n:], 0.0).sum(axis=(1, 2))
        return self.problem.rows.delta * spent - gained

    def _primal(self, alpha: FloatArray, F: FloatArray) -> FloatArray:
        return 0.5 * inner(alpha, F) + self._losses(F)

    def _dual(self, alpha: FloatArray, F: FloatArray) -> FloatArray:
        return 0.5 * inner(alpha, F) + self._costs(alpha)


def _golden_sections(
    value: Callable[[FloatArray], FloatArray], n_problems: int
) -> tuple[FloatArray, FloatArray]:
    """The best length in [0, 1] tried, and its value; the end 1 is tried as well."""
    low, high = np.zeros(n_problems), np.ones(n_problems)
    left, right = high - GOLDEN, low + GOLDEN
    tried = [high, left, right]
    values = [value(length) for length in tried]
    at_left, at_right = values[1:]
    for _ in range(N_SECTIONS):
        lower = at_left < at_right
        low, high = np.where(lower, low, left), np.where(lower, right, high)
        width = GOLDEN * (high - low)
        probe = np.where(lower, high - width, low + width)
        found = value(probe)
        left, right = np.where(lower, probe, right), np.where(lower, left, probe)
        at_left, at_right = np.where(lower, found, at_right), np.where(lower, at_left, found)
        tried.append(probe)
        values.append(found)
    best = np.argmin(values, axis=0)
    each = np.arange(n_problems)
    return np.array(tried)[best, each], np.array(values)[best, each]
