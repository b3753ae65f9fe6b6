"""Gram matrices and kernel columns.

    linear        <x, z>
    poly          (gamma <x, z> + coef0)^degree
    rbf           exp(-gamma |x - z|^2)
    sigmoid       tanh(gamma <x, z> + coef0)
    callable      kernel(X, Z), the matrix of all pairs
    precomputed   the matrix itself

plus a constant, 0 or 1: with 1 every class has an intercept, regularised like its other weights.

linear, rbf, and poly with coef0 >= 0 are positive semi-definite by construction. Any other
matrix has to be examined (`is_positive_semidefinite`), because the duality gap certifies the
optimum for a positive semi-definite one only.

Many kernel values of "rbf" at once are exponentials of a matrix product. Two more columns make the
product the exponent itself,

    -gamma |x - z|^2 = <(sqrt(2 gamma) x, 1, -gamma |x|^2), (sqrt(2 gamma) z, -gamma |z|^2, 1)>,

which is accurate to the rounding of gamma |x|^2: `extended` is for points near the origin.

Distances from |x|^2 - 2 <x, z> + |z|^2 lose the digits that |x|^2 and |z|^2 have in common: all of
them for a year, a Kelvin or a time stamp among the features. The kernel is translation invariant,
so points are moved by the mean of the right-hand ones first. That mean does not depend on the
left-hand points, so a point has the same kernel values alone and among others. Where what is left
is still large (clusters far apart, sparse points, which are not moved) the distances of pairs that
are near are summed up from differences of coordinates.

A Gram matrix returned from here is symmetric to the last digit, finite, C-contiguous, of
doubles, and nobody else's. At most two and a half M x M arrays are alive while it is made, and some
tens of megabytes for every thread where differences of coordinates are summed up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from musvm._input.tensors import Array, FloatArray, IntArray, namespace, row_sums
from musvm._messages import warn_user
from musvm._pieces import at_a_time, lower_factor
from musvm._threads import Workers, own_or, workers

KERNELS_WITH_GAMMA = ("poly", "rbf", "sigmoid")
# Entries of the largest matrix that is computed at a time where blocks will do.
CHUNK = 2**22
# Entries of a piece of such a matrix that one of several threads computes.
PIECE_ENTRIES = 2**20
# Powers up to this one are products.
FEW_PRODUCTS = 6
# Strips of a Gram matrix, unless one takes too long; one if all of it takes no more operations than
# these.
STRIPS, ONE_STRIP = 8, 2e6
# Rows handled at a time where a whole M x M temporary is to be avoided.
_STRIP = 256
# Distances are trusted while gamma |z|^2 is below this: the exponents are then right to 1e-12.
MAX_ROUNDED_EXPONENT = 1e3
# exp(-50) is nothing next to the rounding of the entries that matter.
_NEGLIGIBLE_EXPONENT = 50.0
# Relative to |x|^2 + |z|^2, more than the rounding of a squared distance.
_DISTANCE_ROUNDING = 1e-12

Entries = Callable[[slice, slice], FloatArray]
"""Computes kernel values of some rows of one set of points with some of another."""


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters settled: `gamma` is a number.

    `name` is one of the names above, or the callable itself. A precomputed matrix is taken as it
    is, without the constant.
    """

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    constant: float = 0.0

    @property
    def is_precomputed(self) -> bool:
        return self.name == "precomputed"

    @property
    def is_psd_by_construction(self) -> bool:
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0)

    def matrix(self, X: Any, Z: Any) -> FloatArray:
        """k(x_i, z_j) for every row of X and of Z, which are doubles; not for "precomputed"."""
        return self._block(self._entries(X, Z), slice(0, X.shape[0]), slice(0, Z.shape[0]))

    def _block(self, entries: Entries, rows: slice, columns: slice) -> FloatArray:
        """Some of the entries, with the constant; refused if they are not numbers."""
        # Overflow is reported by the check below, as an error that says what to do.
        with np.errstate(over="ignore", invalid="ignore"):
            K = entries(rows, columns)
        shape = rows.stop - rows.start, columns.stop - columns.start
        if K.shape != shape:
            raise ValueError(
                f"The kernel function must return a matrix of shape {shape}, got {K.shape}."
            )
        if self.constant:
            K += self.constant
        require_finite(K)
        return K

    def _entries(self, X: Any, Z: Any) -> Entries:
        """What computes the kernel of some rows of X with some of Z, without the constant."""
        if callable(self.name):
            # All of it at once. A copy: the function may hand out a matrix that it keeps.
            whole = self.name
            return lambda *_: np.array(whole(X, Z), dtype=np.float64, order="C")
        if self.name == "rbf":
            with np.errstate(over="ignore", invalid="ignore"):
                return _Exponentials(X, Z, self.gamma)
        return lambda rows, columns: self.of_products(
            safe_sparse_dot(X[rows], Z[columns].T, dense_output=True)
        )

    def of_products(self, products: NDArray[Any], *, times_gamma: bool = True) -> NDArray[Any]:
        """The kernel of points with these products, in their place, without the constant.

        Floats stay floats. Not `times_gamma` where the points were multiplied by its root.
        """
        if self.name == "linear":
            return products
        if times_gamma:
            products *= self.gamma
        products += self.coef0
        if self.name == "poly":
            raise_to(products, self.degree)
        elif self.name == "sigmoid":
            np.tanh(products, out=products)
        else:
            raise NotImplementedError(f"the kernel {self.name!r} by products")
        return products

    def diagonal(self, X: Any) -> FloatArray:
        """k(x, x) of every row of X; not for "precomputed"."""
        if self.name == "rbf":
            return np.full(X.shape[0], 1.0 + self.constant)
        if not callable(self.name):
            with np.errstate(over="ignore"):
                found = self.of_products(_squared_norms(X))
            require_finite(found)
            return np.asarray(found + self.constant, dtype=np.float64)
        few = [slice(start, start + 64) for start in range(0, X.shape[0], 64)]
        return np.concatenate([self.matrix(X[s], X[s]).diagonal() for s in few])

    def weighted(self, X: Any, Z: Any, weights: FloatArray) -> FloatArray:
        """sum_j k(x_i, z_j) weights_jl, in blocks of rows that bound the memory.

        The same digits whatever the number of threads. Points may be dense numbers of any type:
        they become doubles block by block.
        """
        if not Z.shape[0]:
            return np.zeros((X.shape[0], weights.shape[1]))
        found = np.empty((X.shape[0], weights.shape[1]))

        def compute(part: slice) -> None:
            found[part] = self.matrix(as_doubles(X[part]), Z) @ weights

        # A user's function need not be safe to call from several threads.
        with nullcontext(Workers()) if callable(self.name) else workers() as team:
            width = Z.shape[0] if sp.issparse(Z) else max(Z.shape)
            team.each(X.shape[0], compute, max(PIECE_ENTRIES // width, 1))
        return found

    def gram(
        self, X: Any, rows: IntArray, *, resolution: float, team: Workers | None = None
    ) -> FloatArray:
        """The Gram matrix of the given rows of X (of the matrix X itself if precomputed).

        `resolution` is the relative rounding error of the entries. An asymmetry well above it is
        refused; one below it is averaged away. The same digits whatever the number of threads, a
        `team` of them or some of its own, which hold BLAS to one each; how a user's function
        computes is its own affair.
        """
        if self.is_precomputed:
            K = np.ascontiguousarray(X[np.ix_(rows, rows)], dtype=np.float64)
        elif callable(self.name):
            points = X[rows]
            K = self.matrix(points, points)
        else:
            with own_or(team) as some:
                return self._between(X[rows], some)
        make_symmetric(K, resolution=resolution)
        return K

    def _between(self, points: Any, team: Workers) -> FloatArray:
        """k of all points with each other, in strips to the right of the diagonal.

        Threads share them, and Ctrl-C is heard between two.
        """
        n, d = points.shape
        K, entries = np.empty((n, n)), self._entries(points, points)

        def compute(strip: slice) -> None:
            K[strip, strip.start :] = self._block(entries, strip, slice(strip.start, n))
            symmetrise(K[strip, strip])
            K[strip.stop :, strip] = K[strip, strip.stop :].T

        team.each(n, compute, height_of_strips(n, d))
        K.flat[:: n + 1] = self.diagonal(points)
        return K


def height_of_strips(n_points: int, n_columns: int) -> int:
    """Of a Gram matrix; the same on any number of threads."""
    operations_each = float(n_points) * n_columns
    if n_points * operations_each <= ONE_STRIP:
        return n_points
    return at_a_time(-(-n_points // STRIPS), operations_each)


def raise_to(values: NDArray[Any], degree: int) -> None:
    """values ** degree in place; by products, where a general power takes ten times as long."""
    if not 2 <= degree <= FEW_PRODUCTS:
        values **= degree
        return
    once = values.copy()
    for _ in range(degree - 1):
        values *= once


def as_doubles(points: Any) -> Any:
    """Dense points as an array of doubles; sparse ones as they are."""
    return points if sp.issparse(points) else np.ascontiguousarray(points, dtype=np.float64)


class _Exponentials:
    """exp(-gamma |x_i - z_j|^2), the squared distances as accurate as they need them."""

    def __init__(self, X: Any, Z: Any, gamma: float) -> None:
        same = self._same = X is Z
        self._gamma = gamma
        if sp.issparse(X) or sp.issparse(Z):
            X, Z = (sp.csr_array(points) for points in (X, Z))
            may_cancel = _may_cancel(_squared_norms(Z), gamma)
            if may_cancel and max(X.shape[0], Z.shape[0]) * Z.shape[1] <= CHUNK:
                X, Z = X.toarray(), Z.toarray()
        self._X, self._Z = X, Z
        centre = 0.0 if sp.issparse(Z) else Z.mean(axis=0)
        self._right = Z if sp.issparse(Z) else Z - centre
        self._left = self._right if same else X if sp.issparse(X) else X - centre
        self._of_right = _squared_norms(self._right)
        self._of_left = self._of_right if same else _squared_norms(self._left)
        self._may_cancel = _may_cancel(self._of_right, gamma)

    def __call__(self, rows: slice, columns: slice) -> FloatArray:
        of_left, of_right = self._of_left[rows], self._of_right[columns]
        K: FloatArray = safe_sparse_dot(self._left[rows], self._right[columns].T, dense_output=True)
        K *= -2.0
        K += of_left[:, None]
        K += of_right
        np.maximum(K, 0.0, out=K)
        if self._same and rows == columns:
            np.fill_diagonal(K, 0.0)
        if self._may_cancel:
            rounding = _DISTANCE_ROUNDING * of_left
            near = _NEGLIGIBLE_EXPONENT / self._gamma + _DISTANCE_ROUNDING * of_right
            _sum_differences(K, self._X[rows], self._Z[columns], rounding, near)
        K *= -self._gamma
        np.exp(K, out=K)
        return K


def _may_cancel(squared_norms: FloatArray, gamma: float) -> bool:
    """Whether rounding of |z|^2 shows in an exponent; a point far from all z has none to show."""
    return bool(gamma * squared_norms.max(initial=0.0) > MAX_ROUNDED_EXPONENT)


def _squared_norms(points: Any) -> FloatArray:
    if sp.issparse(points):
        return row_sums(points.power(2))
    return np.asarray(np.einsum("ij,ij->i", points, points))


def _sum_differences(
    squares: FloatArray, X: Any, Z: Any, of_X: FloatArray, of_Z: FloatArray
) -> None:
    """Sum up squared distances anew, in place, of pairs nearer than their limits, added up."""
    width = X.shape[1] if not sp.issparse(X) else max(int(X.nnz / X.shape[0]), 1)
    most = max(PIECE_ENTRIES // width, 1)
    step = max(most // Z.shape[0], 1)
    for start in range(0, X.shape[0], step):
        strip = squares[start : start + step]
        rows, columns = np.nonzero(strip <= of_X[start : start + step, None] + of_Z)
        for first in range(0, len(rows), most):
            part = slice(first, first + most)
            difference = X[start + rows[part]] - Z[columns[part]]
            strip[rows[part], columns[part]] = _squared_norms(difference)


def extended(points: Array, gamma: float) -> Array:
    """Points with the two more columns of the left side of the product above."""
    xp = namespace(points)
    norms = -gamma * xp.vecdot(points, points)[:, None]
    return xp.concat([(2.0 * gamma) ** 0.5 * points, xp.ones_like(norms), norms], axis=1)


def other_side(extended: Array) -> Array:
    """Extended points for the right side of the product: the last two columns swapped."""
    return namespace(extended).concat(
        [extended[:, :-2], extended[:, -1:], extended[:, -2:-1]], axis=1
    )


class Submatrix:
    """X[rows][:, rows] of a square matrix, of which only what is asked for is copied."""

    def __init__(self, X: NDArray[Any], rows: IntArray) -> None:
        self._X = X
        self._rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._rows), len(self._rows)

    def diagonal(self) -> NDArray[Any]:
        return self._X.diagonal()[self._rows]

    def require_symmetric(self, resolution: float) -> None:
        """As `Kernel.gram` does it, for a matrix that is not averaged."""
        M, worst, largest = len(self._rows), 0.0, 0.0
        for start in range(0, M, _STRIP):
            rows, columns = slice(start, start + _STRIP), slice(start, M)
            strip = self[rows, columns]
            require_finite(strip)
            worst = max(worst, float(np.abs(strip - self[columns, rows].T).max()))
            largest = max(largest, float(np.abs(strip).max()))
        _require_symmetric(worst, largest, resolution)

    def __getitem__(self, index: tuple[slice | IntArray, slice | IntArray]) -> NDArray[Any]:
        """Some rows, at some columns."""
        rows, columns = index
        return self._X[np.ix_(self._rows[rows], self._rows[columns])]


def _require_symmetric(asymmetry: float, largest: float, resolution: float) -> None:
    if asymmetry > np.sqrt(resolution) * largest:
        raise ValueError(
            f"The kernel matrix is not symmetric: an entry and its mirror image differ by "
            f"{asymmetry:.2g}, where the largest entry is {largest:.2g}."
        )


def require_finite(K: NDArray[Any]) -> None:
    """Refuse a kernel matrix with NaN or infinite entries."""
    if K.size and not np.isfinite([K.min(), K.max()]).all():
        raise ValueError(
            "The kernel matrix contains NaN or infinite values: scale the features or choose "
            "other kernel parameters."
        )


def make_symmetric(K: FloatArray, *, resolution: float) -> None:
    """Average rounding errors away, in place; refuse a matrix that is asymmetric beyond them."""
    largest = max(K.max(), -K.min())
    _require_symmetric(symmetrise(K), largest, resolution)


def symmetrise(K: FloatArray) -> float:
    """Replace K by (K + K^T) / 2 in place; return the largest |K - K^T| it had."""
    worst = 0.0
    for start in range(0, len(K), _STRIP):
        strip = slice(start, start + _STRIP)
        rows, columns = K[strip, start:], K[start:, strip].T
        worst = max(worst, float(np.abs(rows - columns).max()))
        mean = 0.5 * rows + 0.5 * columns
        K[strip, start:] = mean
        K[start:, strip] = mean.T
    return worst


def is_positive_semidefinite(K: FloatArray, *, resolution: float) -> bool:
    """Whether K + ridge I has a Cholesky factor, the ridge just above the rounding errors of K.

    The power 3/4 leaves four digits for the error that the entries of K have beyond
    `resolution` and for that of the factorisation itself.
    """
    ridge = resolution**0.75 * np.linalg.norm(K) + np.finfo(np.float64).tiny
    work = K.T.copy(order="F")
    work.flat[:: len(K) + 1] += ridge
    return lower_factor(work)


def warn_if_indefinite(kernel: Kernel, gram: FloatArray, *, resolution: float) -> bool:
    """Say that a gap certifies less than usual, where the matrix is not positive semi-definite."""
    if kernel.is_psd_by_construction or is_positive_semidefinite(gram, resolution=resolution):
        return False
    warn_user(
        "The kernel matrix is not positive semi-definite: what is found are stationary points, to "
        "the accuracy of their duality gaps, which need not be global optima."
    )
    return True


def resolve_gamma(gamma: float | str, X: Any, weight: FloatArray) -> float:
    """`gamma` as a number: "auto" is 1/d, "scale" is 1/(d var), var the variance of X's entries.

    Rows count as often as their weight says, so that a weight of 2 means the same as the row
    twice. A constant X has no scale; then gamma is 1.
    """
    n_features = X.shape[1]
    if gamma == "auto":
        return 1.0 / n_features
    if gamma != "scale":
        return float(gamma)
    total = weight.sum() * n_features
    with np.errstate(over="ignore", invalid="ignore"):
        mean = weight @ row_sums(X) / total
        variance = weight @ _squared_deviations(X, mean) / total
        # Entries that are all equal deviate from their computed mean by its rounding error.
        if np.sqrt(variance) <= 16 * np.finfo(np.float64).eps * abs(mean):
            return 1.0
        scale = 1.0 / (n_features * variance)
    if not 0.0 < scale < np.inf:
        raise ValueError(
            "gamma='scale' is not finite for features this large or this small: scale the "
            "features or pass gamma as a number."
        )
    return float(scale)


def _squared_deviations(X: Any, mean: float) -> FloatArray:
    """sum_j (x_ij - mean)^2 for every row i."""
    if not sp.issparse(X):
        return row_sums((X - mean) ** 2)
    stored = sp.csr_array((np.square(X.data - mean), X.indices, X.indptr), shape=X.shape)
    n_absent = X.shape[1] - np.diff(X.indptr)
    return stored.sum(axis=1) + n_absent * mean**2
