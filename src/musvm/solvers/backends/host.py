"""Kernel rows on demand, for problems whose Gram matrix is too large, on the processor.

Only rows that were ever in a working set are computed, in floats, and kept in a cache of limited
size (`cache.py`). For support vectors far fewer than points that is far less than the Gram matrix.

A row of a dense kernel is one product of floats and one pass of a function. For "rbf" the product
is that of extended points (`musvm.kernels`), with their mean subtracted, which keeps the norms,
and so the rounding, small. Where they are not small, the kernel is computed in doubles and rounded.
Where it is too large or too small for floats, by k(x, x), it stays in doubles: what the other paths
take, this one takes.

Decision values for the certificate are computed in doubles by `kernels.py`, block by block; the
next certificate computes what changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from musvm._input.streams import pieces_of
from musvm._input.tensors import FloatArray, IntArray
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.kernels import CHUNK, Kernel, extended, other_side, require_finite
from musvm.solvers._descent import add_products, violations
from musvm.solvers.backends.cache import Slots
from musvm.solvers.backends.choosing import LastSet, first_set
from musvm.solvers.backends.contract import (
    LOOSENESS,
    MIN_ROWS,
    SIZE,
    SmallProblem,
    Survey,
    floats_hold,
)

SingleArray = NDArray[np.float32]
Tile = Callable[[slice], NDArray[Any]]
"""Columns of some rows, as floats, or as doubles where floats do not hold them."""

ROWS_A_PIECE = 128
# Strips of a certificate that are at least computed at a time: enough for all threads.
STRIPS = 16
# An exponent computed in floats is wrong by 1e-7 of gamma |x|^2. Where that is larger than this,
# by an outlier or clusters far apart, it is computed in doubles.
MAX_EXPONENT = 100.0


class KernelRows:
    """alpha, F and a cache of kernel rows: a `Backend` of `contract.py`.

    Parameters
    ----------
    kernel : with its parameters settled
    points : (M, d) doubles, dense or CSR; if precomputed (M, M), an array or a `Submatrix`
    n_classes : L
    cache_bytes : what the cached rows may take
    workers : threads for the products
    """

    looseness = LOOSENESS
    # A product with K between all support vectors costs about a round here.
    newton_every = 0

    def __init__(
        self, kernel: Kernel, points: Any, n_classes: int, cache_bytes: float, workers: Workers
    ) -> None:
        M = points.shape[0]
        self._kernel = kernel
        self._points = points
        self._workers = workers
        # A user's function need not be safe to call from several threads.
        self._kernel_workers = Workers() if callable(kernel.name) else workers
        self.diagonal = (
            points.diagonal().astype(float) if kernel.is_precomputed else kernel.diagonal(points)
        )
        dtype = np.dtype(np.float32 if floats_hold(self.diagonal) else np.float64)
        self._rows = _row_function(kernel, points, dtype)
        self._alpha = np.zeros((M, n_classes))
        self._F = np.zeros((M, n_classes))
        self._certified_alpha, self._certified_F = self._alpha.copy(), self._F.copy()
        self._violations = np.zeros(M)
        self._last: LastSet | None = None
        n_slots = min(max(int(cache_bytes // (dtype.itemsize * M)), MIN_ROWS), M)
        self.size = min(n_slots, SIZE)
        # Memory is taken only as rows are written.
        self._cache: NDArray[Any] = np.empty((n_slots, M), dtype=dtype)
        self._slots = Slots(M, n_slots, self._alpha)

    # What the solver asks for

    def survey(self, rows: DualRows) -> Survey:
        violations(
            self._alpha, self._F, rows.y, rows.caps, rows.delta, rows.is_max, self._violations,
        )  # fmt: skip
        gap_and_primal = statement.gap_and_primal(rows, self._alpha, self._F)
        return Survey(float(self._violations.max()), *gap_and_primal)

    def small_problem(self, random_state: np.random.RandomState) -> SmallProblem:
        size = min(self.size, len(self._alpha))
        if self._last is None:
            points = first_set(self._violations, size, random_state.random_sample(len(self._alpha)))
            self._last = LastSet.first(points)
        else:
            points, is_new = self._last.next(self._violations, size)
            self._last = LastSet(points, is_new, ~self._last.is_odd)
        worst = float(self._violations[points].max())
        return SmallProblem(points, *self.state_of(points), self.kernel_between(points), worst)

    def state_of(self, points: IntArray) -> tuple[FloatArray, FloatArray]:
        return self._alpha[points], self._F[points]

    def kernel_between(self, points: IntArray) -> NDArray[Any]:
        slots = self._load(points)
        found = np.empty((len(points), len(points)), dtype=self._cache.dtype)

        def copy(part: slice) -> None:
            for row in range(part.start, part.stop):
                # "clip" spares NumPy a buffer; no index is out of range.
                np.take(self._cache[slots[row]], points, out=found[row], mode="clip")

        self._workers.each(len(points), copy, ROWS_A_PIECE)
        return found

    def change(self, points: IntArray, alpha: FloatArray) -> None:
        step = (alpha - self._alpha[points]).astype(self._cache.dtype)
        self._alpha[points] = alpha
        slots = self._load(points)

        def update(columns: slice) -> None:
            add_products(self._cache, slots, step, self._F, columns.start, columns.stop)

        self._workers.each(len(self._F), update)

    def newton_step(self, rows: DualRows) -> None:
        """None: see `newton_every`."""

    def start(self, alpha: FloatArray, decision: FloatArray) -> None:
        self._alpha, self._F = alpha.copy(), decision.copy()
        # A look may have been rough: nothing is known in doubles.
        self._certified_alpha, self._certified_F = np.zeros_like(alpha), np.zeros_like(decision)

    def restart(self, alpha: FloatArray | None = None) -> None:
        # What did not change since the last time is right already.
        alpha = np.array(self._alpha if alpha is None else alpha, dtype=np.float64, order="C")
        changed = np.flatnonzero(np.any(alpha != self._certified_alpha, axis=1))
        if len(changed):
            change = alpha[changed] - self._certified_alpha[changed]
            is_symmetric = not (self._kernel.is_precomputed or callable(self._kernel.name))
            if is_symmetric:
                self._certify_between(changed, change)
            others = np.setdiff1d(np.arange(len(alpha)), changed) if is_symmetric else None
            self._certify(changed, change, others)
        self._certified_alpha = alpha
        self._alpha, self._F = alpha.copy(), self._certified_F.copy()

    def solution(self) -> tuple[FloatArray, FloatArray]:
        return self._alpha, self._F

    # Decision values in doubles

    def _certify(self, changed: IntArray, change: FloatArray, points: IntArray | None) -> None:
        """Add what a change of some rows of alpha means to points; all of them if None."""
        values = _doubles(self._kernel, self._points, changed)
        n_points = len(self._alpha) if points is None else len(points)

        def add(part: slice) -> None:
            rows = part if points is None else points[part]
            self._certified_F[rows] += values(rows) @ change

        self._kernel_workers.each(n_points, add, max(CHUNK // len(changed), 1))

    def _certify_between(self, changed: IntArray, change: FloatArray) -> None:
        """The same to the changed points themselves: each pair of them meets its kernel once.

        Strips of rows from the diagonal on, some of them at a time. What a strip adds to points
        after its own is added up in the order of the strips, whichever thread was first.
        """
        points, n = self._points[changed], len(changed)
        step = max(CHUNK // n, 1)
        several = step * max(CHUNK // (n * change.shape[1]), STRIPS)

        for first in range(0, n, several):
            below: dict[int, FloatArray] = {}

            def add(part: slice, first: int = first, below: dict[int, FloatArray] = below) -> None:
                strip = slice(first + part.start, first + part.stop)
                K = self._kernel.matrix(points[strip], points[strip.start :])
                self._certified_F[changed[strip]] += K @ change[strip.start :]
                below[strip.stop] = K[:, strip.stop - strip.start :].T @ change[strip]

            self._kernel_workers.each(min(several, n - first), add, step)
            for stop in sorted(below):
                self._certified_F[changed[stop:]] += below[stop]

    # The cache

    def _load(self, points: IntArray) -> IntArray:
        """Have the rows of these points, no more than there are slots, in the cache."""
        missing, slots = self._slots.reserve(points)
        if len(missing):
            self._compute(missing, slots)
            self._slots.fill(missing, slots)
        found: IntArray = self._slots.of(points)
        return found

    def _compute(self, points: IntArray, slots: IntArray) -> None:
        tile = self._rows(points)

        def fill(columns: slice) -> None:
            # Overflow is reported by the check, as an error that says what to do.
            with np.errstate(over="ignore", invalid="ignore"):
                values = tile(columns)
            require_finite(values)
            self._cache[slots, columns] = values

        self._kernel_workers.each(len(self._F), fill)


class HostField:
    """All points, in memory or `StreamedRows`: a `Field` of `contract.py`, on the processor.

    Parameters as `KernelRows`.
    """

    # Products of floats take half the time.
    looks_roughly = True
    one_of, first_tol = 16, 5e-2
    room = None

    def __init__(
        self, kernel: Kernel, points: Any, n_classes: int, cache_bytes: float, workers: Workers
    ) -> None:
        self._kernel = kernel
        self._points = points
        self._n_classes = n_classes
        self._cache_bytes = cache_bytes
        self._workers = workers

    def backend(self, points: IntArray) -> KernelRows:
        return KernelRows(
            self._kernel, self._points[points], self._n_classes, self._cache_bytes, self._workers
        )

    def look(
        self,
        rows: DualRows,
        points: IntArray,
        support: IntArray,
        alpha: FloatArray,
        *,
        roughly: bool = False,
    ) -> tuple[FloatArray, FloatArray]:
        vectors = self._points[support]

        def exactly(piece: Any) -> FloatArray:
            return self._kernel.matrix(piece, vectors)

        in_floats = _in_floats(self._kernel, vectors) if roughly else None
        if in_floats is not None:
            return self._look(rows, points, in_floats, alpha.astype(np.float32))
        return self._look(rows, points, exactly, alpha)

    def _look(
        self,
        rows: DualRows,
        points: IntArray,
        kernel: Callable[[Any], NDArray[Any]],
        alpha: NDArray[Any],
    ) -> tuple[FloatArray, FloatArray]:
        """Losses and decision values, from a function that finds the kernel with the support."""
        F = np.zeros((len(points), self._n_classes))
        # A user's function need not be safe to call from several threads.
        team = Workers() if callable(self._kernel.name) else self._workers
        for place, piece in pieces_of(self._points, points) if len(alpha) else ():
            values = np.empty((piece.shape[0], self._n_classes))

            def compute(part: slice, piece: Any = piece, values: FloatArray = values) -> None:
                values[part] = kernel(piece[part]) @ alpha

            team.each(len(values), compute, max(CHUNK // len(alpha), 1))
            F[place] = values
        return statement.losses(rows, F), F


def _doubles(
    kernel: Kernel, points: Any, columns: IntArray
) -> Callable[[slice | IntArray], FloatArray]:
    """A function from some points to their kernel with others, in doubles."""
    if kernel.is_precomputed:
        return lambda rows: np.asarray(points[rows, columns], dtype=np.float64)
    others = points[columns]

    def values(rows: slice | IntArray) -> FloatArray:
        return kernel.matrix(points[rows], others)

    return values


# ---------------------------------------------------------------------------------------------
# Rows in floats


def _row_function(kernel: Kernel, points: Any, dtype: Any) -> Callable[[IntArray], Tile]:
    """A function that prepares some rows and returns their `Tile`."""
    if dtype == np.float64:
        return lambda rows: _doubles_of(kernel, points, rows)
    if not kernel.constant:
        return _rows_without_constant(kernel, points)
    constant = np.float32(kernel.constant)
    bare = _rows_without_constant(replace(kernel, constant=0.0), points)

    def rows(chosen: IntArray) -> Tile:
        tile = bare(chosen)
        return lambda columns: tile(columns) + constant

    return rows


def _rows_without_constant(kernel: Kernel, points: Any) -> Callable[[IntArray], Tile]:
    if kernel.is_precomputed:
        return lambda rows: lambda columns: points[rows, columns].astype(np.float32)
    if sp.issparse(points) or callable(kernel.name):
        return lambda rows: _rounded(kernel, points[rows], points)
    if kernel.name == "rbf":
        return _rbf_rows(kernel, points)
    # With gamma inside the products they are no larger than the kernel needs them; what overflows
    # even so is reported by the check of the rows.
    scale = 1.0 if kernel.name == "linear" else np.sqrt(kernel.gamma)
    with np.errstate(over="ignore"):
        singles = (scale * points).astype(np.float32)
    return lambda rows: _of_products(kernel, singles[rows], singles)


def _doubles_of(kernel: Kernel, points: Any, rows: IntArray) -> Tile:
    if kernel.is_precomputed:
        return lambda columns: np.asarray(points[rows, columns], dtype=np.float64)
    chosen = points[rows]
    return lambda columns: kernel.matrix(chosen, points[columns])


def _rounded(kernel: Kernel, chosen: Any, points: Any) -> Tile:
    return lambda columns: kernel.matrix(chosen, points[columns]).astype(np.float32)


def _rbf_rows(kernel: Kernel, points: FloatArray) -> Callable[[IntArray], Tile]:
    right = _exponents(points, kernel.gamma, _mean(points))
    if right is None:
        return lambda rows: _rounded(kernel, points[rows], points)

    def rows(chosen: IntArray) -> Tile:
        left = other_side(right[chosen])
        return lambda columns: _exponentials(left, right[columns])

    return rows


def _mean(points: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(points.mean(axis=0))


def _exponents(points: FloatArray, gamma: float, centre: FloatArray) -> SingleArray | None:
    """Extended points in floats, around a centre; None where floats are too coarse for them."""
    with np.errstate(over="ignore", invalid="ignore"):
        centred = points - centre
        norms = gamma * np.einsum("ij,ij->i", centred, centred)
    if not norms.max(initial=0.0) <= MAX_EXPONENT:
        return None
    singles: SingleArray = extended(centred, gamma).astype(np.float32)
    return singles


def _exponentials(left: SingleArray, right: SingleArray) -> SingleArray:
    exponent: SingleArray = left @ right.T
    np.minimum(exponent, 0.0, out=exponent)
    np.exp(exponent, out=exponent)
    return exponent


def _in_floats(kernel: Kernel, vectors: Any) -> Callable[[Any], NDArray[Any]] | None:
    """A function from points to their kernel with some vectors, in floats where these hold it.

    None where there is none but that in doubles, or nothing to compute.
    """
    if sp.issparse(vectors) or callable(kernel.name) or not len(vectors):
        return None
    if not floats_hold(kernel.diagonal(vectors)):
        return None
    constant, bare = np.float32(kernel.constant), replace(kernel, constant=0.0)
    if kernel.name != "rbf":
        scale = 1.0 if kernel.name == "linear" else np.sqrt(kernel.gamma)
        right = (scale * vectors).astype(np.float32)

        def of_products(piece: FloatArray) -> NDArray[Any]:
            left = (scale * piece).astype(np.float32)
            return _of_products(bare, left, right)(slice(None)) + constant

        return of_products
    centre = _mean(vectors)
    singles = _exponents(vectors, kernel.gamma, centre)
    if singles is None:
        return None

    def of_distances(piece: FloatArray) -> NDArray[Any]:
        left = _exponents(piece, kernel.gamma, centre)
        if left is None:
            return kernel.matrix(piece, vectors)
        return _exponentials(other_side(left), singles) + constant

    return of_distances


def _of_products(kernel: Kernel, chosen: SingleArray, points: SingleArray) -> Tile:
    """Of points that were multiplied by the root of gamma."""

    def tile(columns: slice) -> SingleArray:
        return kernel.of_products(chosen @ points[columns].T, times_gamma=False)

    return tile
