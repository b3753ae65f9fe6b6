"""The linear kernel without a Gram matrix: block descent on the weights, for any number of points.

With V = X^T alpha, (d, L), the decision values are F = X V: a row of F costs the nonzero entries
of a point, and so does bringing V up to date after its block has moved (`_linear.pyx`). A
round

    1. surveys all points: their decision values and shares of the duality gap;
    2. takes as active those whose share is more than a tenth of the mean; all others together
       hold less than a tenth of the gap, so they can wait (shrinking);
    3. sweeps over the active points, in a new random order each time, so often that this costs a
       few times the survey; less at first, when the next survey would choose others;
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

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._input.tensors import FloatArray, IntArray
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution, hidden_gap
from musvm.kernels import require_finite
from musvm.solvers._linear import (
    collect_entries,
    count_nonzeros,
    decision_values,
    find_nonzeros,
    squared_norms,
    sweep,
    weights,
    zero_weights,
)
from musvm.solvers.attempts import counted_from, joined
from musvm.solvers.rounds import curvatures, rounds_until_certified

# Points with a larger share of entries that are not zero stay as they are.
DENSE = 0.5
# So many columns can be counted in 16 bits.
MANY_COLUMNS = 2**16
# A point is active if its gap exceeds this share of the mean.
ACTIVE_SHARE = 0.1
# Visits of points in the sweeps of a round, relative to the number of points: in the first round,
# more in every later one, at most. Most sweeps.
FIRST_VISITS = 1.0
MORE_VISITS = 0.1
MOST_VISITS = 2.0
MAX_SWEEPS = 30
# Share of the sweeps of a round that come before those whose mean is taken.
BEFORE_THE_MEAN = 0.5
RELAXATION = 1.6
# Doubles take over where the gap by floats is off by more than this share of the true one.
FLOAT_GAP_ERROR = 0.1
# Sweeps use floats if the length of the longest point and all caps are between these bounds: then
# no product of theirs overflows or vanishes.
FLOAT_RANGE = (1e-6, 1e6)
# Points per piece of a survey.
PIECE = 4096
# Points whose weights are added up by themselves, or as many as columns.
SUMMED = 256


@dataclass(frozen=True)
class RowsOfPoints:
    """Points in the form of `_linear.pyx`."""

    data: Any
    columns: Any
    starts: IntArray
    stops: IntArray
    dense: bool = False
    indirect: bool = False

    @property
    def form(self) -> tuple[Any, ...]:
        return self.data, self.columns, self.starts, self.stops, self.dense

    def squared_norms(self, workers: Workers) -> FloatArray:
        norms = np.empty(len(self.starts))

        def compute(piece: slice) -> None:
            squared_norms(self.data, self.starts, self.stops, piece.start, piece.stop, norms)

        workers.each(len(norms), compute, PIECE)
        return norms

    def decision_values(self, V: Any, F: FloatArray, workers: Workers) -> None:
        """F = X V, (M, L)."""

        def compute(piece: slice) -> None:
            decision_values(*self.form, self.indirect, V, piece.start, piece.stop, F)

        workers.each(len(F), compute, PIECE)

    def weights(self, rows: IntArray, alpha: FloatArray, d: int) -> FloatArray:
        """X[rows]^T alpha, (d, L) and padding.

        Rows come class by class, and of one class they add up to far more than all do in the end:
        what a sum of some rounds is small next to that.
        """
        V: FloatArray = zero_weights(d, alpha.shape[1], np.float64)
        step = max(SUMMED, d)
        for start in range(0, len(rows), step):
            some, part = slice(start, start + step), np.zeros_like(V)
            weights(*self.form, self.indirect, rows[some], alpha[some], part)
            V += part
        return V


class Points:
    """Some rows of X, dense or CSR, with the products that certify a solution."""

    def __init__(self, X: Any, rows: IntArray, workers: Workers) -> None:
        self.X: Any = X if sp.issparse(X) else np.ascontiguousarray(X)
        self.rows = rows
        self.workers = workers
        self._exact = self._where_they_are()

    def _where_they_are(self) -> RowsOfPoints:
        """All rows of X, in doubles; nothing is copied but the columns of what is not zero."""
        X = self.X
        if sp.issparse(X):
            bounds, columns = X.indptr.astype(np.intp), X.indices.astype(np.intc, copy=False)
            return RowsOfPoints(X.data, columns, bounds[:-1], bounds[1:])
        bounds = self._count()
        if bounds[-1] > DENSE * X.size:
            bounds, columns = np.arange(len(X) + 1) * X.shape[1], np.arange(X.shape[1])
            return RowsOfPoints(
                X.ravel(), columns.astype(np.intc), bounds[:-1], bounds[1:], dense=True
            )
        columns = np.empty(bounds[-1], np.intc if X.shape[1] > MANY_COLUMNS else np.ushort)
        self.workers.each(
            len(X), lambda p: find_nonzeros(X, p.start, p.stop, bounds, columns), PIECE
        )
        return RowsOfPoints(X.ravel(), columns, bounds[:-1], bounds[1:], indirect=True)

    def _count(self) -> IntArray:
        """Where the entries of every row begin once those that are zero are left out."""
        X, bounds = self.X, np.zeros(len(self.X) + 1, dtype=np.intp)
        self.workers.each(len(X), lambda p: count_nonzeros(X, p.start, p.stop, bounds[1:]), PIECE)
        np.cumsum(bounds, out=bounds)
        return bounds

    def squared_norms(self) -> FloatArray:
        """k(x, x) of every point, (M,)."""
        return self._exact.squared_norms(self.workers)[self.rows]

    def weights(self, alpha: FloatArray) -> FloatArray:
        """X^T alpha, (d, L) and padding; the same digits whatever the order of the rows of X."""
        return self._exact.weights(self.rows, alpha, self.X.shape[1])

    def decision_values(self, V: FloatArray, n_classes: int) -> FloatArray:
        """X V, (M, L)."""
        F = np.empty((self.X.shape[0], n_classes))
        self._exact.decision_values(V, F, self.workers)
        return F[self.rows]

    def for_sweeps(self, dtype: Any) -> RowsOfPoints:
        """In this precision, without zeros if there are many."""
        exact, rows = self._exact, self.rows
        data = self._compressed(dtype) if exact.indirect else self._cast(dtype)
        return RowsOfPoints(data, exact.columns, exact.starts[rows], exact.stops[rows], exact.dense)

    def _cast(self, dtype: Any) -> Any:
        # In rows that take no part anything may overflow.
        with np.errstate(over="ignore"):
            return self._exact.data.astype(dtype, copy=False)

    def _compressed(self, dtype: Any) -> Any:
        exact, data = self._exact, np.empty(len(self._exact.columns), dtype)

        def compute(piece: slice) -> None:
            collect_entries(
                self.X, exact.columns, exact.starts, exact.stops, piece.start, piece.stop, data
            )

        self.workers.each(len(self.X), compute, PIECE)
        return data


@dataclass(frozen=True)
class Iterate:
    """alpha, F and every row's share of the gap; alpha and F until the next round."""

    alpha: FloatArray
    F: FloatArray
    gaps: FloatArray
    primal: float

    @property
    def gap(self) -> float:
        return float(self.gaps.sum())


class _Descent:
    """alpha, its mean over sweeps, and V of both in one precision."""

    def __init__(self, X: Any, chosen: IntArray, rows: DualRows, workers: Workers) -> None:
        self.all_points = Points(X, chosen, workers)
        self.rows = rows
        self.workers = workers
        # Written to in every round: memory that is used for the first time is slow.
        self.mean, self.F = np.zeros((2, len(chosen), rows.n_classes))
        self.n_rounds = 0
        longest = self.use(np.float32)
        low, high = FLOAT_RANGE
        if not all(low < v < high for v in (longest, rows.caps.min(), rows.caps.max())):
            self.use(np.float64)
        self._restart(zero_weights(X.shape[1], rows.n_classes, np.float64))

    def use(self, dtype: Any) -> float:
        """Go on in this precision; `certify` is due, to set V. Gives the length of the longest."""
        self.dtype = dtype
        self.points = self.all_points.for_sweeps(dtype)
        norms = self.points.squared_norms(self.workers)
        self.curvature = curvatures(norms) / RELAXATION
        if dtype == np.float64:
            require_finite(norms)
        return math.sqrt(norms.max(initial=0.0))

    def _restart(self, V: FloatArray) -> None:
        """Begin at the mean, whose weights are V."""
        self.alpha = self.mean.copy()
        self.V = zero_weights(len(V), self.rows.n_classes, self.dtype)
        self.mean_V = zero_weights(len(V), self.rows.n_classes, self.dtype)
        self.V[...] = self.mean_V[...] = V

    def sweeps(self, active: IntArray, n: int, random_state: np.random.RandomState) -> None:
        """Sweep n times over the active points, and take the mean: one round."""
        self.n_rounds += 1
        rows, points = self.rows, self.points
        alpha, V = np.zeros((len(active), rows.n_classes)), np.zeros(self.V.shape)
        uncounted = int(BEFORE_THE_MEAN * n)
        for k in range(n):
            sweep(
                *points.form, self.V, self.alpha, rows.y, rows.caps, self.curvature,
                rows.delta, rows.is_max, random_state.permutation(active),
            )  # fmt: skip
            if k >= uncounted:
                alpha += self.alpha[active]
                V += self.V
        self.mean[...] = self.alpha
        self.mean[active] = alpha / (n - uncounted)
        self.mean_V[...] = V / (n - uncounted)

    def survey_at_zero(self) -> Iterate:
        return self._survey_of(self.F)

    def survey(self) -> Iterate:
        self.points.decision_values(self.mean_V, self.F, self.workers)
        return self._survey_of(self.F)

    def certify(self) -> Iterate:
        """A survey with V and F computed afresh in doubles; descent goes on from there."""
        V = self.all_points.weights(self.mean)
        self._restart(V)
        return self._survey_of(self.all_points.decision_values(V, self.rows.n_classes))

    def hidden_gap(self, survey: Iterate) -> float:
        """The relative gap that rounding may hide."""
        squares = self.all_points.squared_norms()
        return hidden_gap(self.rows, survey.alpha, squares, survey.gap, survey.primal)

    def _survey_of(self, F: FloatArray) -> Iterate:
        rows, alpha, gaps = self.rows, self.mean, np.empty(len(F))

        def compute(piece: slice) -> None:
            part = rows.at(np.arange(piece.start, piece.stop))
            gaps[piece] = statement.row_gaps(part, alpha[piece], F[piece])

        self.workers.each(len(F), compute, PIECE)
        # P + D is the sum of the gaps: no need to find the losses a second time.
        primal = float(gaps.sum()) - statement.dual_objective(rows, alpha, F)
        return Iterate(alpha, F, np.maximum(gaps, 0.0), primal)


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
    rated: int | None = None,
    further: float = 1.0,
) -> DualSolution:
    """Minimise the dual of a linear kernel to a relative duality gap of `tol`.

    Parameters
    ----------
    X : (N, d) doubles, dense or CSR
    chosen : (M,) rows of X that take part, training points first
    rows : everything about them but K
    workers : threads for surveys
    tol : stop at this relative gap (`relative_gap`)
    max_iter : the largest number of rounds, at least 1
    random_state : orders the points; a fixed seed if None
    callback : called with the number of rounds done and the relative gap after each
    rated : give up where the rate of so many rounds says that `max_iter` are too few; never if None
    further : once `tol` is reached, go on to this share of it, for at most as many rounds again

    Returns
    -------
    DualSolution, certified by decision values computed afresh from its alpha
    """
    order = random_state or np.random.RandomState(0)
    descent = _Descent(X, chosen, rows, workers)

    def found_from(
        start: Iterate, aim: float, max_iter: int, callback: Callable[[int, float], None] | None
    ) -> DualSolution:
        survey, history = rounds_until_certified(
            rows,
            start,
            lambda survey: _round(descent, survey, order),
            lambda survey: _certify(descent, survey),
            descent.hidden_gap,
            tol=aim,
            max_iter=max_iter,
            callback=callback,
            rated=rated,
        )
        alpha, F = survey.alpha, survey.F
        if further < 1.0:
            # What follows writes to them.
            alpha, F = alpha.copy(), F.copy()
        return DualSolution.certified(rows, alpha, F, tol=tol, history=history)

    found = found_from(descent.survey_at_zero(), tol, max_iter, callback)
    n_more = min(found.n_rounds, max_iter - found.n_rounds)
    if not found.converged or found.relative_gap <= further * tol or n_more < 1:
        return found
    told = counted_from(found.n_rounds, callback)
    return joined(found, found_from(descent.certify(), further * tol, n_more, told))


def _round(descent: _Descent, survey: Iterate, random_state: np.random.RandomState) -> Iterate:
    M = len(survey.gaps)
    active = np.flatnonzero(survey.gaps > ACTIVE_SHARE * survey.gap / M)
    visits = min(FIRST_VISITS + MORE_VISITS * descent.n_rounds, MOST_VISITS)
    n_sweeps = min(max(round(visits * M / max(len(active), 1)), 1), MAX_SWEEPS)
    descent.sweeps(active, n_sweeps, random_state)
    return descent.survey()


def _certify(descent: _Descent, believed: Iterate) -> Iterate:
    """The true survey; doubles take over where floats were wrong about the gap."""
    true = descent.certify()
    if descent.dtype == np.float32 and abs(true.gap - believed.gap) > FLOAT_GAP_ERROR * true.gap:
        descent.use(np.float64)
        true = descent.certify()
    return true
