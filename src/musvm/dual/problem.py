"""The dual problem of the multiclass universum SVM.

n training points with labels y_i in 0..L-1 come first, m universum points after; M = n + m,
K is their M x M Gram matrix and c_i > 0 their caps (C for training points, C* for universum
points, times any weights). The variable is alpha, M x L, one row (a *block*) per point, and
F = K alpha are the decision values f_l(x_i). The problem is to minimise

    D(alpha) = 1/2 <alpha, K alpha>  -  sum_{i<=n} alpha_{i,y_i}
                                     +  Delta sum_{j>n} sum_l max(alpha_jl, 0)

over rows that sum to zero and satisfy

    training rows             alpha_il <= c_i [l = y_i]
    universum rows, "sum"     alpha_jl <= c_j
    universum rows, "max"     1/2 ||alpha_j||_1 <= c_j

This is the paper's eq. (5) with the L artificial copies of each universum point added up, which
is exact: only their sum a enters the quadratic term; the sums reachable are those with
a_l <= c ("sum", one slack per copy as in eq. 4) or 1/2 ||a||_1 <= c ("max", one slack per point
as in eq. 2); and the cheapest copies with a given sum cost Delta sum_l max(a_l, 0).

The primal it certifies is P = 1/2 sum_l ||w_l||^2 + sum_i c_i loss_i with

    training          loss_i = max_l (f_l + 1 - [l = y_i]) - f_{y_i}                 (eq. 1)
    universum, "sum"  loss_j = sum_k max(max_l f_l - f_k - Delta, 0)                 (eq. 4)
    universum, "max"  loss_j = max(max_l f_l - min_k f_k - Delta, 0)                 (eq. 2)

P + D >= 0 is the duality gap. It is a sum over rows of terms that are each nonnegative for *any*
matrix K (Fenchel's inequality, row by row), and it vanishes exactly where the
Karush-Kuhn-Tucker conditions hold. So for an indefinite K a zero gap still means a stationary
point; for a positive semi-definite one it means the optimum.

Written against the array API: alpha, F, y and caps are arrays of NumPy, or all of them tensors of
another library on one device, and what is returned is of the same kind and in the same place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from array_api_compat import device

from musvm._input.tensors import Array, FloatArray, IntArray, namespace, positive_part
from musvm._lazy import lazy

UniversumLoss = Literal["sum", "max"]

AT_BOUND = 1e-12

# What rounding leaves of a gap, and the least that a model may gain, relative to P(0).
ROUNDING, NOTHING = 1e-15, 1e-9


@dataclass(frozen=True)
class DualRows:
    """The problem without K: what a loss, a dual cost or a gap needs to know of every point.

    Attributes
    ----------
    y : (n,) labels 0..L-1 of the training points, the first n rows
    n_classes : L >= 2
    caps : (M,) positive, finite
    delta : Delta >= 0
    universum_loss : "sum" (eq. 4) or "max" (eq. 2)
    share_of_gain : of what a model gains, what its gap is compared with (`worth`)
    """

    y: IntArray
    n_classes: int
    caps: FloatArray
    delta: float = 0.0
    universum_loss: UniversumLoss = "sum"
    share_of_gain: float = 1.0

    def __post_init__(self) -> None:
        if self.n_classes < 2 or self.delta < 0 or not (self.caps > 0).all():
            raise ValueError("n_classes must be at least 2, delta >= 0 and every cap positive")
        if self.caps.ndim != 1 or len(self.y) > len(self.caps):
            raise ValueError("caps must be (M,), and y no longer than M")

    @property
    def n_points(self) -> int:
        return len(self.caps)

    @property
    def n_train(self) -> int:
        return len(self.y)

    @property
    def is_max(self) -> bool:
        """Whether the universum loss is that of eq. (2)."""
        return self.universum_loss == "max"

    @lazy
    def own(self) -> tuple[Any, Any]:
        """The index of the entries (i, y_i) of an (M, L) or (n, L) array."""
        return namespace(self.y).arange(len(self.y), device=device(self.y)), self.y

    @lazy
    def primal_at_zero(self) -> float:
        """P(0), of the model that knows nothing: every training point has a loss of 1."""
        return float(self.caps[: self.n_train].sum())

    def at(self, points: IntArray) -> DualRows:
        """The rows of some points, given in ascending order."""
        training = points[: np.searchsorted(points, self.n_train)]
        return DualRows(
            np.ascontiguousarray(self.y[training]),
            self.n_classes,
            self.caps[points],
            self.delta,
            self.universum_loss,
            self.share_of_gain,
        )

    def beside(self, array: Array) -> DualRows:
        """The same rows with labels and caps where an array is, in its library."""
        if type(array) is np.ndarray:
            return self
        xp, there = namespace(array), device(array)
        y, caps = (xp.asarray(values, device=there) for values in (self.y, self.caps))
        return replace(self, y=y, caps=caps)


@dataclass(frozen=True)
class DualProblem:
    """One instance of the problem above: `gram`, K, (M, M), symmetric, C-contiguous; and `rows`."""

    gram: FloatArray
    rows: DualRows

    def __post_init__(self) -> None:
        M = self.rows.n_points
        if self.gram.shape != (M, M):
            raise ValueError(f"gram must be (M, M) with M = {M}, got {self.gram.shape}")

    @property
    def n_points(self) -> int:
        return self.rows.n_points

    def at(self, points: IntArray) -> DualProblem:
        """The problem of some points alone, given in ascending order."""
        if len(points) == self.n_points:
            return self
        return DualProblem(
            np.ascontiguousarray(self.gram[np.ix_(points, points)]), self.rows.at(points)
        )


def losses(rows: DualRows, F: Array) -> Array:
    """The loss of every point, (M,): hinge loss, then universum loss."""
    xp, n = namespace(F), rows.n_train
    margins = F[:n] + 1.0
    own = F[rows.own]
    margins[rows.own] = own
    hinge = xp.max(margins, axis=1) - own

    U = F[n:]
    excess = positive_part(xp.max(U, axis=1, keepdims=True) - U - rows.delta)
    reduce = xp.max if rows.is_max else xp.sum
    return xp.concat([hinge, reduce(excess, axis=1)])


def dual_costs(rows: DualRows, alpha: Array) -> Array:
    """The part of D that is not quadratic, row by row, (M,)."""
    xp, n = namespace(alpha), rows.n_train
    universum = rows.delta * xp.sum(positive_part(alpha[n:]), axis=1)
    return xp.concat([-alpha[rows.own], universum])


def dual_objective(rows: DualRows, alpha: Array, F: Array) -> float:
    """D(alpha), to be minimised."""
    return float(_half_square(alpha, F) + dual_costs(rows, alpha).sum())


def primal_objective(rows: DualRows, alpha: Array, F: Array) -> float:
    """P of the weights that alpha stands for."""
    return float(_half_square(alpha, F) + rows.caps @ losses(rows, F))


def row_gaps(rows: DualRows, alpha: Array, F: Array) -> Array:
    """Each row's share of P + D, (M,): c_i loss_i + <alpha_i, F_i> + its dual cost.

    Nonnegative for feasible alpha up to rounding. Summing rows instead of subtracting the two
    objectives keeps the digits that the subtraction would cancel.
    """
    return _row_gaps(rows, alpha, F, losses(rows, F))


def gap_and_primal(rows: DualRows, alpha: Array, F: Array) -> tuple[float, float]:
    """P + D, the sum of the rows' shares without those that rounding made negative, and P.

    Both leave a device in one transfer: each waits for everything computed there.
    """
    gap, primal = stacked_gap_and_primal(rows, alpha, F).tolist()
    return gap, primal


def stacked_gap_and_primal(rows: DualRows, alpha: Array, F: Array) -> Array:
    """(2,) the same where alpha is, without waiting for it."""
    xp, loss = namespace(F), losses(rows, F)
    gap = positive_part(_row_gaps(rows, alpha, F, loss)).sum()
    return xp.stack([gap, _half_square(alpha, F) + rows.caps @ loss])


def worth(rows: DualRows, primal: float, gap: float = 0.0) -> float:
    """What gaps are compared with: min(|P|, share_of_gain (P(0) - P)).

    With a large C that is P. With a small one P is almost all loss, whatever the model, and a small
    share of it can exceed all that the model achieves; P(0) - P, what it gains over the model that
    knows nothing, is about 1/2 |w|^2 there. So a tolerance means the same at every C, and at most
    the same share of P.

    Told the gap, no less than what the optimum is worth.
    """
    return min(abs(primal), rows.share_of_gain * (rows.primal_at_zero - primal + gap))


def gains_nothing(rows: DualRows, gap: float, primal: float) -> bool:
    """Whether even the optimum gains next to nothing: there is no gain to compare with."""
    return rows.primal_at_zero - primal + gap <= NOTHING * rows.primal_at_zero


def relative_gap(rows: DualRows, gap: float, primal: float, hidden: float = 0.0) -> float:
    """What `tol` bounds: the gap relative to what the model is worth.

    |P| alone counts where even the optimum gains next to nothing, or where the gap is nothing but
    rounding. What may be `hidden` is added to the gap, and tells nothing about the optimum.
    """
    whole = gap + hidden
    relative = whole / abs(primal) if primal else whole
    excess = whole - ROUNDING * rows.primal_at_zero
    if excess <= 0.0 or gains_nothing(rows, gap, primal):
        return relative
    of_model = worth(rows, primal)
    return max(relative, excess / of_model) if of_model > 0.0 else float("inf")


def _half_square(alpha: Array, F: Array) -> Any:
    """1/2 <alpha, F> = 1/2 sum_l ||w_l||^2."""
    return 0.5 * (alpha.reshape(-1) @ F.reshape(-1))


def _row_gaps(rows: DualRows, alpha: Array, F: Array, loss: Array) -> Array:
    products = namespace(F).vecdot(alpha, F)
    return rows.caps * loss + products + dual_costs(rows, alpha)


def infeasibility(rows: DualRows, alpha: Array) -> float:
    """The largest violation of a constraint by a row, relative to the row's cap."""
    xp, n, caps = namespace(alpha), rows.n_train, rows.caps
    training = xp.asarray(alpha[:n], copy=True)
    training[rows.own] -= caps[:n]
    a = alpha[n:]
    sizes = _half_norm(a) if rows.is_max else xp.max(a, axis=1)
    above = xp.concat([xp.max(training, axis=1), sizes - caps[n:]])
    worst = xp.maximum(above, xp.abs(xp.sum(alpha, axis=1))) / caps
    return float(positive_part(worst).max())


def kkt_violations(rows: DualRows, alpha: Array, F: Array) -> Array:
    """By how much mass could still be moved between two labels of a row at a profit, (M,).

    Row i is optimal given all others if and only if no pair of labels (a, b) has a feasible
    direction e_b - e_a with a negative slope. The entry is the steepest such slope, in units of
    decision values, 0 where there is none.
    """
    n, tiny = rows.n_train, at_bound(rows.caps, alpha)[:, None]
    return namespace(F).concat(
        [
            _violations_training(rows, alpha[:n], F[:n], tiny[:n]),
            _violations_universum(rows, alpha[n:], F[n:], tiny[n:]),
        ]
    )


def _half_norm(alpha: Array) -> Array:
    """1/2 ||alpha_i||_1 of every row."""
    xp = namespace(alpha)
    return 0.5 * xp.sum(xp.abs(alpha), axis=1)


def at_bound(caps: Array, alpha: Array) -> Array:
    """How close to a bound counts as being there, (..., M), for every row of a stack of alphas.

    Rounding errors of a solution are relative to its largest entry. That is the cap where a row
    reaches it, and far less where C is large. The compiled code has the same rule (`_blocks.pyx`).
    """
    xp = namespace(alpha)
    largest = xp.max(xp.max(xp.abs(alpha), axis=-1), axis=-1, keepdims=True)
    return AT_BOUND * xp.minimum(caps, largest)


def _steepest(rises: Array, falls: Array) -> Array:
    """max(falls) - min(rises), clipped at 0; an impossible move is +inf (rise) or -inf (fall)."""
    xp = namespace(falls)
    return positive_part(xp.max(falls, axis=1) - xp.min(rises, axis=1))


def _violations_training(rows: DualRows, alpha: Array, F: Array, tiny: Array) -> Array:
    xp = namespace(F)
    slope = xp.asarray(F, copy=True)
    slope[rows.own] -= 1.0
    room = -alpha
    room[rows.own] += rows.caps[: rows.n_train]
    return _steepest(rises=xp.where(room > tiny, slope, xp.inf), falls=slope)


def _violations_universum(rows: DualRows, a: Array, slope: Array, tiny: Array) -> Array:
    xp, caps = namespace(a), rows.caps[rows.n_train :]
    positive, negative = a > tiny, a < -tiny
    rises = xp.where(negative, slope, slope + rows.delta)
    falls = xp.where(positive, slope + rows.delta, slope)
    if not rows.is_max:
        return _steepest(xp.where(a < caps[:, None] - tiny, rises, xp.inf), falls)

    shrink = _steepest(xp.where(negative, rises, xp.inf), xp.where(positive, falls, -xp.inf))
    among_positive = _steepest(
        xp.where(negative, xp.inf, slope), xp.where(positive, slope, -xp.inf)
    )
    among_negative = _steepest(
        xp.where(negative, slope, xp.inf), xp.where(positive, -xp.inf, slope)
    )
    at_the_bound = xp.maximum(shrink, xp.maximum(among_positive, among_negative))
    inside = _half_norm(a) < caps - tiny[:, 0]
    return xp.where(inside, _steepest(rises, falls), at_the_bound)
