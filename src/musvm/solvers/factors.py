"""Few columns Z with Z Z' = K, in which the interior-point method computes.

For the linear kernel, X itself would do. But columns of very different lengths, or nearly parallel
ones, cost the equations of the method digits they need. Only Z Z' matters, so X is rotated onto
its principal axes: with X = U S V', Z = X V = U S has orthogonal columns, and scaling the equations
to a unit diagonal takes S out of them. Directions without length are left out. R of X = Q R is
enough to find V, and it is found piece by piece: memory stays linear in the number of points.

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

# Rows that are reduced to a triangle at a time, at least.
PIECE = 8192
# Axes shorter than this, relative to the longest, are rounding.
SHORTEST = 1e-13
# What may be left of the diagonal of a Gram matrix, relative to its largest entry.
NEGLIGIBLE = 1e-13


def principal_factor(X: Any, chosen: IntArray) -> FloatArray:
    """Z, (M, r), for some rows of X, dense or CSR."""
    d = X.shape[1]
    step = max(PIECE, 2 * d)
    pieces = [chosen[start : start + step] for start in range(0, len(chosen), step)]
    R = np.empty((0, d))
    for piece in pieces:
        R = scipy.linalg.qr(np.vstack([R, _dense(X, piece)]), mode="r", check_finite=False)[0]
        R = R[: min(R.shape)]
    _, lengths, axes = np.linalg.svd(R, full_matrices=False)
    n_axes = max(int((lengths > SHORTEST * lengths[0]).sum()), 1)
    axes = np.ascontiguousarray(axes[:n_axes].T)
    return np.vstack([_dense(X, piece) @ axes for piece in pieces])


def _dense(X: Any, rows: IntArray) -> FloatArray:
    dense: FloatArray = X[rows].toarray() if sp.issparse(X) else X[rows]
    return dense


def pivoted_cholesky(gram: FloatArray) -> FloatArray | None:
    """Z, (M, r), with Z Z' = K up to rounding; None if K is indefinite."""
    enough = NEGLIGIBLE * gram.diagonal().max(initial=0.0)
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
