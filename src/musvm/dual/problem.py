"""The dual problem of the multiclass universum SVM, stated in NumPy.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
UniversumLoss = Literal["sum", "max"]


class Rows(Protocol):
    """The problem without K: what a loss, a dual cost or a gap needs to know of every point."""

    @property
    def y(self) -> IntArray: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def caps(self) -> FloatArray: ...
    @property
    def delta(self) -> float: ...
    @property
    def universum_loss(self) -> UniversumLoss: ...
    @property
    def n_train(self) -> int: ...


@dataclass(frozen=True)
class DualRows:
    """`Rows` by themselves, for solvers that never hold K; the attributes of `DualProblem`."""

    y: IntArray
    n_classes: int
    caps: FloatArray
    delta: float = 0.0
    universum_loss: UniversumLoss = "sum"

    def __post_init__(self) -> None:
        _require_valid(self)

    @property
    def n_points(self) -> int:
        return len(self.caps)

    @property
    def n_train(self) -> int:
        return len(self.y)

    def at(self, points: IntArray) -> DualRows:
        """The rows of some points, given in ascending order."""
        training = points[: np.searchsorted(points, self.n_train)]
        return DualRows(
            np.ascontiguousarray(self.y[training]),
            self.n_classes,
            self.caps[points],
            self.delta,
            self.universum_loss,
        )


@dataclass(frozen=True)
class DualProblem:
    """One instance of the problem above.

    Attributes
    ----------
    gram : (M, M) symmetric, C-contiguous float64
    y : (n,) labels 0..L-1 of the training points, the first n rows
    n_classes : L >= 2
    caps : (M,) positive, finite
    delta : Delta >= 0
    universum_loss : "sum" (eq. 4) or "max" (eq. 2)
    """

    gram: FloatArray
    y: IntArray
    n_classes: int
    caps: FloatArray
    delta: float = 0.0
    universum_loss: UniversumLoss = "sum"

    def __post_init__(self) -> None:
        M = len(self.gram)
        if self.gram.shape != (M, M) or self.caps.shape != (M,) or len(self.y) > M:
            raise ValueError("gram must be (M, M), caps (M,), and y no longer than M")
        _require_valid(self)

    @property
    def n_points(self) -> int:
        return len(self.gram)

    @property
    def n_train(self) -> int:
        return len(self.y)


def _require_valid(rows: Rows) -> None:
    if rows.n_classes < 2 or rows.delta < 0 or not np.all(rows.caps > 0):
        raise ValueError("n_classes must be at least 2, delta >= 0 and every cap positive")


def decision_values(problem: DualProblem, alpha: FloatArray) -> FloatArray:
    """F = K alpha, (M, L)."""
    return problem.gram @ alpha


def losses(problem: Rows, F: FloatArray) -> FloatArray:
    """The loss of every point, (M,): hinge loss, then universum loss."""
    n, rows = problem.n_train, np.arange(problem.n_train)
    margins = F[:n] + 1.0
    own = F[rows, problem.y]
    margins[rows, problem.y] = own
    hinge = margins.max(axis=1) - own

    U = F[n:]
    excess = U.max(axis=1, keepdims=True) - U - problem.delta
    np.maximum(excess, 0.0, out=excess)
    universum = excess.sum(axis=1) if problem.universum_loss == "sum" else excess.max(axis=1)
    return np.concatenate([hinge, universum])


def dual_costs(problem: Rows, alpha: FloatArray) -> FloatArray:
    """The part of D that is not quadratic, row by row, (M,)."""
    n = problem.n_train
    training = -alpha[np.arange(n), problem.y]
    universum = problem.delta * np.maximum(alpha[n:], 0.0).sum(axis=1)
    return np.concatenate([training, universum])


def dual_objective(problem: Rows, alpha: FloatArray, F: FloatArray) -> float:
    """D(alpha), to be minimised."""
    return float(0.5 * np.vdot(alpha, F) + dual_costs(problem, alpha).sum())


def primal_objective(problem: Rows, alpha: FloatArray, F: FloatArray) -> float:
    """P of the weights that alpha stands for."""
    return float(0.5 * np.vdot(alpha, F) + problem.caps @ losses(problem, F))


def row_gaps(problem: Rows, alpha: FloatArray, F: FloatArray) -> FloatArray:
    """Each row's share of P + D, (M,): c_i loss_i + <alpha_i, F_i> + its dual cost.

    Nonnegative for feasible alpha up to rounding. Summing rows instead of subtracting the two
    objectives keeps the digits that the subtraction would cancel.
    """
    return (
        problem.caps * losses(problem, F)
        + np.einsum("il,il->i", alpha, F)
        + dual_costs(problem, alpha)
    )


def infeasibility(problem: Rows, alpha: FloatArray) -> float:
    """The largest violation of a constraint by a row, relative to the row's cap."""
    n, caps = problem.n_train, problem.caps[:, None]
    upper = np.zeros((n, problem.n_classes))
    upper[np.arange(n), problem.y] = problem.caps[:n]
    parts = [np.abs(alpha.sum(axis=1, keepdims=True)) / caps, (alpha[:n] - upper) / caps[:n]]
    if problem.universum_loss == "sum":
        parts.append(alpha[n:] / caps[n:] - 1.0)
    else:
        parts.append(0.5 * np.abs(alpha[n:]).sum(axis=1, keepdims=True) / caps[n:] - 1.0)
    return float(max(part.max(initial=0.0) for part in parts))


def kkt_violations(problem: Rows, alpha: FloatArray, F: FloatArray) -> FloatArray:
    """By how much mass could still be moved between two labels of a row at a profit, (M,).

    Row i is optimal given all others if and only if no pair of labels (a, b) has a feasible
    direction e_b - e_a with a negative slope. The entry is the steepest such slope, in units of
    decision values, 0 where there is none.
    """
    return np.concatenate(
        [
            _violations_training(problem, alpha, F),
            _violations_universum(problem, alpha, F),
        ]
    )


def _mass(alpha: FloatArray) -> FloatArray:
    """The largest entry of every row, (M, 1): what rounding errors in the row are relative to."""
    return np.abs(alpha).max(axis=1, keepdims=True, initial=0.0)


def _steepest(rises: FloatArray, falls: FloatArray) -> FloatArray:
    """max(falls) - min(rises), clipped at 0; an impossible move is +inf (rise) or -inf (fall)."""
    return np.maximum(falls.max(axis=1) - rises.min(axis=1), 0.0)


def _violations_training(problem: Rows, alpha: FloatArray, F: FloatArray) -> FloatArray:
    n, rows = problem.n_train, np.arange(problem.n_train)
    slope = F[:n].copy()
    slope[rows, problem.y] -= 1.0
    room = -alpha[:n]
    room[rows, problem.y] += problem.caps[:n]
    movable = room > 1e-12 * _mass(alpha[:n])
    return _steepest(rises=np.where(movable, slope, np.inf), falls=slope)


def _violations_universum(problem: Rows, alpha: FloatArray, F: FloatArray) -> FloatArray:
    a, slope, delta = alpha[problem.n_train :], F[problem.n_train :], problem.delta
    caps = problem.caps[problem.n_train :, None]
    tiny = 1e-12 * _mass(a)
    rises = slope + delta * (a >= -tiny)
    falls = slope + delta * (a > tiny)
    if problem.universum_loss == "sum":
        return _steepest(np.where(a < caps - tiny, rises, np.inf), falls)

    inside = 0.5 * np.abs(a).sum(axis=1) < caps[:, 0] * (1 - 1e-12)
    positive, negative = a > tiny, a < -tiny
    shrink = _steepest(np.where(negative, rises, np.inf), np.where(positive, falls, -np.inf))
    among_positive = _steepest(
        np.where(~negative, slope, np.inf), np.where(positive, slope, -np.inf)
    )
    among_negative = _steepest(
        np.where(negative, slope, np.inf), np.where(~positive, slope, -np.inf)
    )
    at_the_bound = np.maximum(shrink, np.maximum(among_positive, among_negative))
    return np.where(inside, _steepest(rises, falls), at_the_bound)
