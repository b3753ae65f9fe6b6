"""Few columns Z with Z Z' = K, in which the interior-point method computes.

For the linear kernel, X itself would do. But columns of very different lengths, or nearly parallel
ones, cost the equations of the method digits they need. Only Z Z' matters, so X is rotated onto
its principal axes: with X = U S V', Z = X V = U S has orthogonal columns, and scaling the equations
to a unit diagonal takes S out of them. Directions without length are left out. R of X = Q R is
enough to find V, and it is found piece by piece: memory stays linear in the number of points.

Ctrl-C waits for the end of a call of LAPACK. Of many columns the singular values would take
seconds, so V is that of Stewart's QLP decomposition: with pivots, R P = Q1 R1 and R1' P' = Q2 L',
and the columns of X P Q2 are those of the triangle L, which are nearly orthogonal. Its calls take
less than a second each up to some 1,700 columns.

A Gram matrix that is there already may be of low rank too, whatever kernel it is of: a Cholesky
factor that always takes the largest pivot next ends where nothing is left of the diagonal, and
what is left bounds what Z Z' leaves out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg import lapack

from musvm._input.tensors import FloatArray, IntArray
from musvm._pieces import OPERATIONS
from musvm._threads import one_blas_thread

# Rows that are reduced to a triangle at a time, unless there are many columns.
PIECE = 8192
# With more columns than this V is that of the QLP decomposition.
MANY_COLUMNS = 1000
# Axes shorter than this, relative to the longest, are rounding.
SHORTEST = 1e-13
# What may be left of the diagonal of a Gram matrix, relative to its largest entry.
NEGLIGIBLE = 1e-13


def principal_factor(X: Any, chosen: IntArray) -> FloatArray:
    """Z, (M, r), for some rows of X, dense or CSR."""
    d = X.shape[1]
    step = min(PIECE, max(int(OPERATIONS / (2.0 * d * d)), d))
    pieces = [chosen[start : start + step] for start in range(0, len(chosen), step)]
    R = np.empty((0, d))
    for piece in pieces:
        R = scipy.linalg.qr(np.vstack([R, _dense(X, piece)]), mode="r", check_finite=False)[0]
        R = R[: min(R.shape)]
    axes = principal_axes(R)
    return np.vstack([_dense(X, piece) @ axes for piece in pieces])


def principal_axes(R: FloatArray) -> FloatArray:
    """V, (d, r), of the triangle R of X, without axes that are nothing but rounding."""
    lengths, axes = _nearly_principal(R) if R.shape[1] > MANY_COLUMNS else _principal(R)
    n_axes = max(int((lengths > SHORTEST * lengths[0]).sum()), 1)
    return np.ascontiguousarray(axes[:, :n_axes])


def _principal(R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The singular values of R, longest first, and V, (d, d) or less."""
    _, lengths, axes = np.linalg.svd(R, full_matrices=False)
    return lengths, axes.T


def _nearly_principal(R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lengths of the columns of L, longest first, and P Q2."""
    R1, order = scipy.linalg.qr(R, mode="r", pivoting=True, check_finite=False)
    Q2, Lt, _ = scipy.linalg.qr(R1.T, mode="economic", pivoting=True, check_finite=False)
    axes = np.empty_like(Q2)
    axes[order] = Q2
    lengths = np.linalg.norm(Lt, axis=1)
    longest_first = np.argsort(-lengths, kind="stable")
    return lengths[longest_first], axes[:, longest_first]


def _dense(X: Any, rows: IntArray) -> FloatArray:
    dense: FloatArray = X[rows].toarray() if sp.issparse(X) else X[rows]
    return dense


def pivoted_cholesky(gram: FloatArray) -> FloatArray | None:
    """Z, (M, r), with Z Z' = K up to rounding; None if K is indefinite.

    The same digits whatever the number of threads.
    """
    enough = NEGLIGIBLE * gram.diagonal().max(initial=0.0)
    with one_blas_thread():
        # The transpose of a symmetric matrix is the same, and Fortran's order spares a copy.
        factor, pivots, rank, _ = lapack.dpstrf(gram.T, tol=enough, lower=1)
        Z = np.zeros((len(gram), max(rank, 1)))
        Z[pivots - 1, :rank] = np.tril(factor[:, :rank])
        return Z if _is_factor(Z, gram) else None


def _is_factor(Z: FloatArray, gram: FloatArray) -> bool:
    """Whether Z Z' is the Gram matrix, by a product with each: it is not if that is indefinite."""
    probe = np.cos(np.arange(len(gram)))
    expected = gram @ probe
    return bool(np.linalg.norm(Z @ (Z.T @ probe) - expected) <= 1e-9 * np.linalg.norm(expected))
