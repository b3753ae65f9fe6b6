"""Kernel rows on demand, for problems whose Gram matrix is too large: a `Backend` of
`dual/working_set.py`.

Only rows that were ever in a working set are computed, in floats, and kept in a cache of limited
size; when it is full, the rows that were not used for longest make room. For support vectors far
fewer than points that is far less than the Gram matrix.

A row of a dense kernel is one product of floats and one pass of a function. For "rbf" two more
columns make the product the exponent itself,

    -gamma |x - z|^2 = <(sqrt(2 gamma) x, -gamma |x|^2, 1), (sqrt(2 gamma) z, 1, -gamma |z|^2)>,

of points with their mean subtracted, which keeps the norms, and so the rounding, small. Where
they are not small, the kernel is computed in doubles and rounded.
Decision values for the certificate are computed in doubles by `kernels.py`, block by block; the
next certificate computes what changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import config_context

from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual._descent import add_products, violations
from musvm.dual.problem import DualRows, FloatArray, IntArray
from musvm.dual.working_set import LOOSENESS, Survey
from musvm.kernels import CHUNK, Kernel, require_finite

SingleArray = NDArray[np.float32]
Tile = Callable[[slice], SingleArray]
"""Columns of some rows, as floats."""

# A cache has room for this many rows whatever its size in bytes.
MIN_ROWS = 16
ROWS_A_PIECE = 128
# An exponent computed in floats is wrong by 1e-7 of gamma |x|^2. Where that is larger than this,
# by an outlier or clusters far apart, it is computed in doubles.
MAX_EXPONENT = 100.0


class KernelRows:
    """alpha, F and a cache of kernel rows; see `Backend`.

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
        self._rows = _row_function(kernel, points)
        self._alpha = np.zeros((M, n_classes))
        self._F = np.zeros((M, n_classes))
        self._certified_alpha, self._certified_F = self._alpha.copy(), self._F.copy()
        self.size = min(max(int(cache_bytes // (4 * M)), MIN_ROWS), M)
        # Memory is taken only as rows are written.
        self._cache: SingleArray = np.empty((self.size, M), dtype=np.float32)
        self._slot_of_point = np.full(M, -1, dtype=np.intp)
        self._point_of_slot = np.full(self.size, -1, dtype=np.intp)
        self._last_use = np.zeros(self.size, dtype=np.intp)
        self._clock = 0
        self.n_computed = 0
        self.diagonal = _diagonal(kernel, points)

    # What the solver asks for

    def survey(self, rows: DualRows) -> Survey:
        found = np.empty(len(self._alpha))
        violations(
            self._alpha, self._F, rows.y, rows.caps, rows.delta, rows.universum_loss == "max",
            found,
        )  # fmt: skip
        return Survey(found, *statement.gap_and_primal(rows, self._alpha, self._F))

    def take(self, points: IntArray) -> tuple[FloatArray, FloatArray]:
        return self._alpha[points], self._F[points]

    def block(self, points: IntArray) -> SingleArray:
        self._load(points)
        slots = self._slot_of_point[points]
        found = np.empty((len(points), len(points)), dtype=np.float32)

        def copy(part: slice) -> None:
            for row in range(part.start, part.stop):
                # "clip" spares NumPy a buffer; no index is out of range.
                np.take(self._cache[slots[row]], points, out=found[row], mode="clip")

        self._workers.each(len(points), copy, ROWS_A_PIECE)
        return found

    def change(self, points: IntArray, alpha: FloatArray) -> None:
        difference = alpha - self._alpha[points]
        moved = np.any(difference != 0.0, axis=1)
        self._alpha[points] = alpha
        self._load(points[moved])
        slots = self._slot_of_point[points[moved]]
        step = difference[moved].astype(np.float32)

        def update(columns: slice) -> None:
            add_products(self._cache, slots, step, self._F, columns.start, columns.stop)

        self._workers.each(len(self._F), update)

    def support(self, points: IntArray) -> None:
        return None

    def restart(self, alpha: FloatArray) -> None:
        # What did not change since the last time is right already.
        alpha = np.array(alpha, dtype=np.float64, order="C")
        changed = np.flatnonzero(np.any(alpha != self._certified_alpha, axis=1))
        if len(changed):
            change = alpha[changed] - self._certified_alpha[changed]
            values = _doubles(self._kernel, self._points, changed)

            def add(part: slice) -> None:
                self._certified_F[part] += values(part) @ change

            self._kernel_workers.each(len(alpha), add, max(CHUNK // len(changed), 1))
        self._certified_alpha = alpha
        self._alpha, self._F = alpha.copy(), self._certified_F.copy()

    def solution(self) -> tuple[FloatArray, FloatArray]:
        return self._alpha, self._F

    # The cache

    def _load(self, points: IntArray) -> None:
        """Have the rows of these points, no more than `size`, in the cache."""
        self._clock += 1
        slots = self._slot_of_point[points]
        self._last_use[slots[slots >= 0]] = self._clock
        missing = points[slots < 0]
        if not len(missing):
            return
        slots = np.sort(np.argsort(self._last_use, kind="stable")[: len(missing)])
        displaced = self._point_of_slot[slots]
        self._slot_of_point[displaced[displaced >= 0]] = -1
        self._point_of_slot[slots] = -1
        self._compute(missing, slots)
        self._slot_of_point[missing] = slots
        self._point_of_slot[slots] = missing
        self._last_use[slots] = self._clock

    def _compute(self, points: IntArray, slots: IntArray) -> None:
        tile = self._rows(points)

        def fill(columns: slice) -> None:
            # Overflow is reported by the check, as an error that says what to do.
            with np.errstate(over="ignore", invalid="ignore"):
                values = tile(columns)
            require_finite(values)
            self._cache[slots, columns] = values

        self._kernel_workers.each(len(self._F), fill)
        self.n_computed += len(points)


def _diagonal(kernel: Kernel, points: Any) -> FloatArray:
    """k(x, x) of every point."""
    if kernel.name == "rbf":
        return np.ones(points.shape[0])
    if kernel.name == "precomputed":
        return np.array(points.diagonal(), dtype=np.float64)
    few = [slice(start, start + 64) for start in range(0, points.shape[0], 64)]
    return np.concatenate([kernel.matrix(points[s], points[s]).diagonal() for s in few])


def _doubles(kernel: Kernel, points: Any, columns: IntArray) -> Callable[[slice], FloatArray]:
    """A function from a run of points to their kernel with some others, in doubles."""
    if kernel.name == "precomputed":
        return lambda rows: np.asarray(points[rows, columns], dtype=np.float64)
    others = points[columns]

    def values(rows: slice) -> FloatArray:
        with config_context(assume_finite=True):
            return kernel.matrix(points[rows], others)

    return values


# ---------------------------------------------------------------------------------------------
# Rows in floats


def _row_function(kernel: Kernel, points: Any) -> Callable[[IntArray], Tile]:
    """A function that prepares some rows and returns their `Tile`."""
    if kernel.name == "precomputed":
        return lambda rows: lambda columns: points[rows, columns].astype(np.float32)
    if sp.issparse(points) or callable(kernel.name):
        return lambda rows: _rounded(kernel, points[rows], points)
    if kernel.name == "rbf":
        return _rbf_rows(kernel, points)
    singles = points.astype(np.float32)
    return lambda rows: _of_products(kernel, singles[rows], singles)


def _rounded(kernel: Kernel, chosen: Any, points: Any) -> Tile:
    return lambda columns: kernel.matrix(chosen, points[columns]).astype(np.float32)


def _rbf_rows(kernel: Kernel, points: FloatArray) -> Callable[[IntArray], Tile]:
    gamma = kernel.gamma
    with np.errstate(over="ignore", invalid="ignore"):
        centred = points - points.mean(axis=0)
        norms = gamma * np.einsum("ij,ij->i", centred, centred)
    if not norms.max() <= MAX_EXPONENT:
        return lambda rows: _rounded(kernel, points[rows], points)
    d = points.shape[1]
    right = np.empty((len(points), d + 2), dtype=np.float32)
    right[:, :d] = np.sqrt(2.0 * gamma) * centred
    right[:, d] = 1.0
    right[:, d + 1] = -norms

    def rows(chosen: IntArray) -> Tile:
        left = right[chosen]
        left[:, d], left[:, d + 1] = left[:, d + 1].copy(), 1.0

        def tile(columns: slice) -> SingleArray:
            exponent = left @ right[columns].T
            np.minimum(exponent, 0.0, out=exponent)
            np.exp(exponent, out=exponent)
            return exponent

        return tile

    return rows


def _of_products(kernel: Kernel, chosen: SingleArray, points: SingleArray) -> Tile:
    def tile(columns: slice) -> SingleArray:
        products = chosen @ points[columns].T
        if kernel.name == "linear":
            return products
        products *= np.float32(kernel.gamma)
        products += np.float32(kernel.coef0)
        if kernel.name == "poly":
            products **= kernel.degree
        else:
            np.tanh(products, out=products)
        return products

    return tile
