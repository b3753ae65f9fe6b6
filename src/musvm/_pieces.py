"""Factors and products of large matrices in pieces, between which an interrupt is heard.

Python handles Ctrl-C between two of its own steps, never within a call of LAPACK: a Cholesky factor
of 10,000 rows would hold it up for ten seconds. So whatever takes more than OPERATIONS is cut up,
and what threads can share is cut into smaller pieces.

The factor is found by halves. With that of the first rows and columns known,

    L_11 L_11' = A_11,    L_21 = A_21 L_11'^-1,    L_22 L_22' = A_22 - L_21 L_21',

which are a factor of half the size, a triangular solve, a square and another such factor. Solves
and squares, which are most of it, are cut into pieces of rows or columns that do not depend on the
number of threads, and neither do the digits. A piece is one call, which goes on by halves without
Python (`_blas.pyx`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from musvm._blas import divide_part, factor_whole, subtract_part
from musvm._threads import Workers

# Of doubles, in one call: a few tenths of a second on one core.
OPERATIONS = 1e10
# Rows of a factor that is one call. Rows of a solve and columns of a square that a thread takes at
# a time.
WHOLE, ROWS, SQUARED = 512, 256, 128
# Columns of what is squared with weights at a time: every thread has a copy of as many.
COLUMNS = 1024

Matrix = NDArray[np.float64]


class Workspace:
    """Memory for square matrices that is used again.

    What is fresh the system clears first, page by page, and one thread after the other: a tenth of
    the time of steps that factor some dozens of matrices.
    """

    def __init__(self) -> None:
        self._entries = np.empty(0)
        self._n_taken = 0

    def empty_for(self, sizes: Iterable[int]) -> None:
        """Take back what was lent, and have enough for matrices of so many rows."""
        needed = sum(size**2 for size in sizes)
        if needed > len(self._entries):
            self._entries = np.empty(0)
            self._entries = np.empty(needed)
        self._n_taken = 0

    def square(self, size: int) -> Matrix:
        """A Fortran-ordered matrix of so many rows, of any numbers."""
        start = self._n_taken
        self._n_taken = start + size**2
        return self._entries[start : self._n_taken].reshape((size, size), order="F")


def at_a_time(most: int, operations_each: float) -> int:
    """How many, given what one costs: so many, or fewer if these take more than OPERATIONS."""
    return max(min(most, int(OPERATIONS / max(operations_each, 1.0))), 1)


def ridges(most: float) -> Iterator[float]:
    """What to add to a unit diagonal until rounding leaves it a factor: nothing, then ever more."""
    ridge = 0.0
    yield ridge
    while ridge < most:
        ridge = min(max(10.0 * ridge, 1e-15), most)
        yield ridge


def lower_factor(A: Matrix, team: Workers | None = None) -> bool:
    """Put the lower Cholesky factor of A, Fortran-ordered, in place of its lower triangle.

    False, and A is spoiled, if it has none. The upper triangle is not read and means nothing.
    """
    if not A.flags.f_contiguous:
        raise ValueError("the matrix is not Fortran-ordered")
    return _factor(A, team or Workers())


def _factor(A: Matrix, team: Workers) -> bool:
    n = len(A)
    if n <= WHOLE:
        return bool(factor_whole(A))
    half = n // 2
    first, below, last = A[:half, :half], A[half:, :half], A[half:, half:]
    if not _factor(first, team):
        return False
    divide_rows(below, first, team)
    subtract_square(last, below, team)
    return _factor(last, team)


def divide_rows(B: Matrix, factor: Matrix, team: Workers | None = None) -> None:
    """B L'^-1 in place of B, for a lower factor L; both Fortran-ordered."""

    def divide(part: slice) -> None:
        divide_part(B[part], factor)

    (team or Workers()).each(len(B), divide, at_a_time(ROWS, float(len(factor)) ** 2))


def subtract_square(C: Matrix, V: Matrix, team: Workers | None = None) -> None:
    """C - V V' in place of C, its lower triangle alone; both Fortran-ordered."""

    def subtract(part: slice) -> None:
        subtract_part(C[part.start :, part], V[part.start :])

    (team or Workers()).each(len(C), subtract, at_a_time(SQUARED, 2.0 * V.size))


def square(V: Matrix, weights: Matrix) -> Matrix:
    """V diag(weights)^2 V'; NumPy computes half of it, and lets other threads go on meanwhile."""
    total: Matrix = np.zeros((len(V), len(V)))
    step = at_a_time(COLUMNS, float(len(V)) ** 2)
    for start in range(0, V.shape[1], step):
        part = V[:, start : start + step] * weights[start : start + step]
        total += np.matmul(part, part.T)
    return total
