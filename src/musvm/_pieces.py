"""Factors and products of large matrices in pieces, between which an interrupt is heard.

Python handles Ctrl-C between two of its own steps, never within a call of LAPACK: a Cholesky factor
of 10,000 rows would hold it up for ten seconds. So whatever takes more than OPERATIONS is cut up;
what takes less is one call, with the digits of that call.

The factor is found one panel of columns after the other. With the columns before it known,

    A_j: -= L_j:,:j (L_j,:j)',    L_jj L_jj' = A_jj,    L_below = A_below L_jj'^-1,

which are products, a small factor and a triangular solve.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

# Of doubles, in one call: a few tenths of a second on one core.
OPERATIONS = 1e10
# Columns of a panel.
PANEL = 512

Matrix = NDArray[np.float64]


def slices(n: int, operations_each: float) -> Iterator[slice]:
    """0..n in pieces, given what one of n costs."""
    step = max(int(OPERATIONS / max(operations_each, 1.0)), 1)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def lower_factor(A: Matrix) -> bool:
    """Put the lower Cholesky factor of A, Fortran-ordered, in place of its lower triangle.

    False, and A is spoiled, if it has none. The upper triangle is not read and means nothing.
    """
    if not A.flags.f_contiguous:
        raise ValueError("the matrix is not Fortran-ordered")
    n = len(A)
    if n**3 / 3 <= OPERATIONS:
        return n == 0 or _factor(A)
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        panel, before = A[start:, start:stop], A[start:, :start]
        across = A[start:stop, :start].T
        for part in slices(len(panel), 2.0 * PANEL * start):
            panel[part] -= before[part] @ across
        corner = np.array(panel[: stop - start], order="F")
        if not _factor(corner):
            return False
        panel[: stop - start] = corner
        divide_rows(panel[stop - start :], corner)
    return True


def _factor(A: Matrix) -> bool:
    return bool(lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)[1] == 0)


def divide_rows(B: Matrix, factor: Matrix) -> None:
    """B L'^-1 in place of B, for a lower factor L."""
    for part in slices(len(B), float(len(factor)) ** 2):
        B[part] = blas.dtrsm(1.0, factor, B[part], side=1, lower=1, trans_a=1)


def subtract_square(C: Matrix, V: Matrix) -> None:
    """C - V V' in place of C, its lower triangle alone; both Fortran-ordered."""
    for part in slices(V.shape[1], float(len(V)) ** 2):
        blas.dsyrk(-1.0, V[:, part], beta=1.0, c=C, lower=1, overwrite_c=1)


def square(V: Matrix) -> Matrix:
    """V V', symmetric, of a C-ordered V."""
    total: Matrix = np.zeros((len(V), len(V)), order="F")
    for part in slices(V.shape[1], float(len(V)) ** 2):
        blas.dsyrk(1.0, V[:, part].T, trans=1, beta=1.0, c=total, lower=1, overwrite_c=1)
    total += np.tril(total, -1).T
    return total
