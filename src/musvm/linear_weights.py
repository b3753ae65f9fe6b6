"""The linear kernel without a Gram matrix: block descent on the weights, for any number of points.

With V = X^T alpha, (d, L), the decision values are F = X V: a row of F costs the nonzero entries
of a point, and so does bringing V up to date after its block has moved (`dual/_linear.pyx`). A
round

    1. surveys all points: their decision values and shares of the duality gap;
    2. takes as active those whose share is more than a tenth of the mean; all others together
       hold less than a tenth of the gap, so they can wait (shrinking);
    3. sweeps over the active points, in a new random order each time, so often that this costs a
       few times the survey;
    4. takes the mean of alpha over the later half of the sweeps: feasible, as the constraints are
       convex, and free of most of the noise that the last moves leave in V. Surveys, gaps and the
       solution are of this mean; descent goes on from where it was.

Two things keep the number of sweeps low. The order must be random: with a fixed one, descent is
slower by far. And every move goes further than to the minimum of its block (over-relaxation): it
minimises with a curvature smaller by RELAXATION, which lowers D for any factor below 2.

Points that are mostly zeros are compressed, dense or not. Sweeps use floats, half the memory and
twice the lanes of doubles. When they find the gap small enough, or make no progress, V and F are
computed afresh in doubles, for a gap that counts. Where floats had it wrong, doubles take over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual._linear import (
    compress,
    count_nonzeros,
    decision_values,
    padded,
    squared_norms,
    sweep,
)
from musvm.dual.problem import DualRows, FloatArray, IntArray
from musvm.dual.rounds import as_solution, rounds_until_certified
from musvm.dual.solve import DualSolution
from musvm.kernels import require_finite

# Points with a larger share of entries that are not zero stay as they are.
DENSE = 0.5
# A point is active if its gap exceeds this share of the mean.
ACTIVE_SHARE = 0.1
# Visits of points in the sweeps of a round, relative to the number of points; most sweeps.
VISITS = 2.0
MAX_SWEEPS = 30
# Share of the sweeps of a round that are over before the mean begins.
UNCOUNTED = 0.5
RELAXATION = 1.6
# How far the gap by floats may be from the true one, relative to that, before doubles take over.
TRUST = 0.1
# Largest entries and caps between these bounds, and all that is made of them, are safe as floats.
SAFE = (1e-6, 1e6)
# Points per piece of a survey.
PIECE = 4096


@dataclass(frozen=True)
class CompressedRows:
    """Points in the form of `dual/_linear.pyx`."""

    data: Any
    columns: Any
    starts: IntArray
    dense: bool

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.data, self.columns, self.starts, self.dense


def compressed(X: Any, rows: IntArray, dtype: Any, workers: Workers) -> CompressedRows:
    """Some rows of X, dense or CSR, as floats or doubles."""
    if sp.issparse(X):
        chosen = X[rows]
        starts = chosen.indptr.astype(np.intp)
        return CompressedRows(
            chosen.data.astype(dtype, copy=False), chosen.indices.astype(np.intc), starts, False
        )
    X = np.ascontiguousarray(X)
    n, d = len(rows), X.shape[1]
    starts = np.zeros(n + 1, dtype=np.intp)
    workers.each(n, lambda p: count_nonzeros(X, rows, p.start, p.stop, starts[1:]), PIECE)
    np.cumsum(starts, out=starts)
    if starts[-1] > DENSE * n * d:
        data = X[rows].astype(dtype, copy=False).ravel()
        return CompressedRows(data, np.arange(d, dtype=np.intc), np.arange(n + 1) * d, True)
    data, columns = np.empty(starts[-1], dtype), np.empty(starts[-1], np.intc)
    workers.each(
        n,
        lambda p: compress(X, rows, p.start, p.stop, starts, data, columns),
        PIECE,
    )
    return CompressedRows(data, columns, starts, False)


@dataclass(frozen=True)
class Survey:
    """alpha, F and every row's share of the gap."""

    alpha: FloatArray
    F: FloatArray
    gaps: FloatArray
    primal: float

    @property
    def gap(self) -> float:
        return float(self.gaps.sum())

    @property
    def relative_gap(self) -> float:
        return self.gap / abs(self.primal) if self.primal else self.gap


class _Descent:
    """alpha, its mean over sweeps, and V of both in one precision."""

    def __init__(self, X: Any, chosen: IntArray, rows: DualRows, workers: Workers) -> None:
        self.X = X
        self.chosen = chosen
        self.rows = rows
        self.workers = workers
        self.mean = np.zeros((len(chosen), rows.n_classes))
        largest = max(float(X.max()), -float(X.min())) if min(X.shape) else 0.0
        low, high = SAFE
        safe = all(low < v < high for v in (largest, rows.caps.min(), rows.caps.max()))
        self.use(np.float32 if safe else np.float64)
        self._restart(np.zeros((X.shape[1], rows.n_classes)))

    def use(self, dtype: Any) -> None:
        """Go on in this precision; `certify` is due, to set V."""
        self.dtype = dtype
        self.points = compressed(self.X, self.chosen, dtype, self.workers)
        norms = squared_norms(self.points.data, self.points.starts)
        require_finite(norms)
        floor = 1e-12 * norms.max(initial=0.0)
        self.curvature = np.maximum(norms, floor if floor > 0 else 1e-12) / RELAXATION

    def _restart(self, V: FloatArray) -> None:
        """Begin at the mean, whose weights are V."""
        L = self.rows.n_classes
        self.alpha = self.mean.copy()
        self.V = np.zeros((len(V), padded(L)), dtype=self.dtype)
        self.V[:, :L] = V
        self.mean_V = self.V.copy()

    def sweeps(self, active: IntArray, n: int, random_state: np.random.RandomState) -> None:
        """Sweep n times over the active points, and take the mean."""
        rows = self.rows
        alpha, V = np.zeros((len(active), rows.n_classes)), np.zeros(self.V.shape)
        uncounted = int(UNCOUNTED * n)
        for k in range(n):
            sweep(
                *self.points.arrays, self.V, self.alpha, rows.y, rows.caps, self.curvature,
                rows.delta, rows.universum_loss == "max", random_state.permutation(active),
            )  # fmt: skip
            if k >= uncounted:
                alpha += self.alpha[active]
                V += self.V
        self.mean = self.alpha.copy()
        self.mean[active] = alpha / (n - uncounted)
        self.mean_V = (V / (n - uncounted)).astype(self.dtype)

    def survey(self) -> Survey:
        F = np.empty_like(self.mean)

        def compute(piece: slice) -> None:
            decision_values(*self.points.arrays, self.mean_V, piece.start, piece.stop, F)

        self.workers.each(len(F), compute, PIECE)
        return self._survey_of(F)

    def certify(self) -> Survey:
        """A survey with V and F computed afresh in doubles; descent goes on from there."""
        alpha = np.zeros((self.X.shape[0], self.rows.n_classes))
        alpha[self.chosen] = self.mean
        V = np.asarray(self.X.T @ alpha)
        F = np.empty_like(alpha)

        def compute(piece: slice) -> None:
            F[piece] = self.X[piece] @ V

        self.workers.each(len(F), compute, PIECE)
        self._restart(V)
        return self._survey_of(F[self.chosen])

    def _survey_of(self, F: FloatArray) -> Survey:
        rows, alpha = self.rows, self.mean
        gaps = np.maximum(statement.row_gaps(rows, alpha, F), 0.0)
        primal = statement.primal_objective(rows, alpha, F)
        return Survey(alpha, F, gaps, primal)


def solve_linear(
    X: Any,
    chosen: IntArray,
    rows: DualRows,
    workers: Workers,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution:
    """Minimise the dual of a linear kernel to a relative duality gap of `tol`.

    Parameters
    ----------
    X : (N, d) doubles, dense or CSR
    chosen : (M,) rows of X that take part, training points first
    rows : everything about them but K
    workers : threads for surveys
    tol : stop when gap <= tol * |P|
    max_iter : the largest number of rounds, at least 1
    random_state : orders the points; a fixed seed if None
    callback : called with the number of rounds done and the relative gap after each

    Returns
    -------
    DualSolution, certified by decision values computed afresh from its alpha
    """
    order = random_state or np.random.RandomState(0)
    descent = _Descent(X, chosen, rows, workers)
    survey, history = rounds_until_certified(
        descent.survey(),
        lambda survey: _round(descent, survey, order),
        lambda survey: _certify(descent, survey),
        tol=tol,
        max_iter=max_iter,
        callback=callback,
    )
    return as_solution(survey.alpha, survey.F, survey, history, tol)


def _round(descent: _Descent, survey: Survey, random_state: np.random.RandomState) -> Survey:
    M = len(survey.gaps)
    active = np.flatnonzero(survey.gaps > ACTIVE_SHARE * survey.gap / M)
    n_sweeps = min(max(round(VISITS * M / max(len(active), 1)), 1), MAX_SWEEPS)
    descent.sweeps(active, n_sweeps, random_state)
    return descent.survey()


def _certify(descent: _Descent, believed: Survey) -> Survey:
    """The true survey; doubles take over where floats were wrong about the gap."""
    true = descent.certify()
    if descent.dtype == np.float32 and abs(true.gap - believed.gap) > TRUST * true.gap:
        descent.use(np.float64)
        true = descent.certify()
    return true
