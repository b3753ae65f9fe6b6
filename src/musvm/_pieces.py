"""Factors and products of large matrices in pieces, between which an interrupt is heard.

Python handles Ctrl-C between two of its own steps, never within a call of LAPACK: a Cholesky factor
of 10,000 rows would hold it up for ten seconds. So whatever takes more than OPERATIONS is cut up;
what takes less is one call, with the digits of that call.

The factor is found one panel of columns after the other. With the columns before it known,

    A_j: -= L_j:,:j (L_j,:j)',    L_jj L_jj' = A_jj,    L_below = A_below L_jj'^-1,

which are products, a small factor and a triangular solve. Products, which are most of it, are cut
into pieces of rows that do not depend on the number of threads, and neither do the digits. SciPy's
calls of BLAS keep other threads of Python from going on, so the solves stay on one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from musvm._threads import Workers

# Of doubles, in one call: a few tenths of a second on one core.
OPERATIONS = 1e10
# Columns of a panel, and rows of it that a thread takes at a time.
PANEL, ROWS = 512, 512
# Columns of what is squared at a time: every thread has a copy of as many.
COLUMNS = 1024

Matrix = NDArray[np.float64]


def slices(n: int, operations_each: float) -> Iterator[slice]:
    """0..n in pieces, given what one of n costs."""
    step = max(int(OPERATIONS / max(operations_each, 1.0)), 1)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def lower_factor(A: Matrix, team: Workers | None = None) -> bool:
    """Put the lower Cholesky factor of A, Fortran-ordered, in place of its lower triangle.

    False, and A is spoiled, if it has none. The upper triangle is not read and means nothing.
    """
    if not A.flags.f_contiguous:
        raise ValueError("the matrix is not Fortran-ordered")
    n = len(A)
    if n**3 / 3 <= OPERATIONS:
        return n == 0 or _factor(A)
    # Rows of L', which are contiguous.
    upper, team = A.T, team or Workers()
    return all(
        _factor_panel(upper, start, min(start + PANEL, n), team) for start in range(0, n, PANEL)
    )


def _factor_panel(upper: Matrix, start: int, stop: int, team: Workers) -> bool:
    """The next rows of L', once those above them are there."""
    panel, above = upper[start:stop, start:], upper[:start, start:]
    across = above[:, : stop - start]

    def subtract(part: slice) -> None:
        panel[:, part] -= np.matmul(across.T, above[:, part])

    if start:
        at_a_time = max(int(OPERATIONS / (2.0 * PANEL * start)), 1)
        team.each(panel.shape[1], subtract, min(ROWS, at_a_time))
    corner, rest = np.array(panel[:, : stop - start].T, order="F"), panel[:, stop - start :]
    if not _factor(corner):
        return False
    panel[:, : stop - start] = corner.T
    divide_rows(rest.T, corner)
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


def square(V: Matrix, weights: Matrix) -> Matrix:
    """V diag(weights)^2 V'; NumPy computes half of it, and lets other threads go on meanwhile."""
    total: Matrix = np.zeros((len(V), len(V)))
    step = max(min(COLUMNS, int(OPERATIONS / len(V) ** 2)), 1)
    for start in range(0, V.shape[1], step):
        part = V[:, start : start + step] * weights[start : start + step]
        total += np.matmul(part, part.T)
    return total
