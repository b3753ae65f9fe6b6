"""The interior-point method on a device: its factor of the linear kernel, and its equations.

`musvm.solvers.interior` computes with rows where they are. What is left is large here, and quick:

    Z        X V with the principal axes V of X, by triangles of its rows (`solvers.factors`)
    matrix   Z' diag(weights) Z for one pair of labels after another, in doubles
    factor   Cholesky's, scaled to a unit diagonal

A product of few columns over very many rows would keep few of a GPU's units busy. It is cut into
pieces of rows that are multiplied at the same time, and added up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from musvm._input.tensors import FloatArray, to_host
from musvm._threads import Workers
from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution
from musvm.solvers.backends.torch import unused_bytes
from musvm.solvers.backends.torch_kernel import like
from musvm.solvers.factors import principal_axes
from musvm.solvers.interior import (
    Piece,
    larger_ridge,
    pair_weights,
    plus_identity,
    solve_interior,
)

# Rows that are reduced to a triangle at a time.
ROWS_OF_A_TRIANGLE = 2**16
# Columns up to which a product is cut into pieces, and rows of such a piece.
FEW_COLUMNS, ROWS_A_PIECE = 256, 2**12
# Bytes for every entry of the matrix: itself, its scaled copy, its factor and the last step's.
BYTES_OF_AN_ENTRY = 32.0
# The largest share of a device's free memory that the equations may take.
MOST_OF_FREE = 0.5


def solve_on_device(
    points: Tensor,
    rows: DualRows,
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution:
    """Minimise the dual of the linear kernel of points, (M, d), doubles; certified there."""

    def decision_values(alpha: FloatArray) -> FloatArray:
        weights = points.T @ like(points, alpha)
        values: FloatArray = to_host(points @ weights)
        return values

    Z = principal_factor(points)
    equations = DeviceEquations(Z, rows.n_classes)
    return solve_interior(
        Z, rows, decision_values, Workers(), equations=equations,
        tol=tol, max_iter=max_iter, callback=callback,
    )  # fmt: skip


def has_room(n_columns: int, n_classes: int, device: torch.device) -> bool:
    """Whether the equations of so many columns fit a device: what a GPU has free, in part."""
    if device.type != "cuda":
        return True
    needed = BYTES_OF_AN_ENTRY * (n_columns * (n_classes - 1.0)) ** 2
    return needed <= MOST_OF_FREE * unused_bytes(device)


def principal_factor(points: Tensor) -> Tensor:
    """Z, (M, r), with Z Z' = X X'."""
    R = points[:0]
    for piece in points.split(max(ROWS_OF_A_TRIANGLE, points.shape[1])):
        R = torch.linalg.qr(torch.cat([R, piece]), mode="r").R
    return points @ like(points, principal_axes(to_host(R)))


class DeviceEquations:
    """The matrix of the Newton step and its factor, on the device of Z: `Equations` there."""

    def __init__(self, Z: Tensor, n_classes: int) -> None:
        self.r, self.L = Z.shape[1], n_classes
        self.size = self.r * (n_classes - 1)
        self._like = Z[:0]
        self._pairs = np.triu_indices(n_classes - 1)

    def factorise(self, pieces: list[Piece]) -> None:
        shape = self.L - 1, self.r, self.L - 1, self.r
        H = self._like.new_zeros(shape)
        for piece in pieces:
            self._add(piece, H)
        plus_identity(H)
        self._factor = _ScaledFactor(H.view(self.size, self.size))

    def solve(self, rhs: Tensor) -> Tensor:
        """The weights, summing to zero over the classes, whose image is rhs, (L, r)."""
        first = self._factor.solve(rhs[:-1].reshape(-1)).view(self.L - 1, self.r)
        W = torch.cat([first, torch.zeros_like(rhs[-1:])])
        return W - W.mean(0)

    def _add(self, piece: Piece, H: Tensor) -> None:
        """What some rows add to the matrix."""
        for weights, k, l in zip(pair_weights(piece.cone), *self._pairs, strict=True):
            block = _product(piece.Zt * weights, piece.Zt)
            H[k, :, l, :] += block if k == l else -block
            if k != l:
                H[l, :, k, :] -= block.T


def _product(A: Tensor, B: Tensor) -> Tensor:
    """A B' of two matrices of long rows, (r, R)."""
    n_pieces = A.shape[1] // ROWS_A_PIECE
    if len(A) > FEW_COLUMNS or n_pieces < 2:
        return A @ B.T
    whole = n_pieces * ROWS_A_PIECE
    in_pieces = [part[:, :whole].view(len(part), n_pieces, -1).movedim(1, 0) for part in (A, B)]
    return torch.bmm(in_pieces[0], in_pieces[1].mT).sum(0) + A[:, whole:] @ B[:, whole:].T


class _ScaledFactor:
    """`musvm.solvers.interior.ScaledFactor` on a device."""

    def __init__(self, H: Tensor) -> None:
        self._scale = H.diagonal().rsqrt()
        H = H * self._scale * self._scale[:, None]
        ridge = 0.0
        while True:
            H.diagonal().fill_(1.0 + ridge)
            self._lower, failed = torch.linalg.cholesky_ex(H)
            if not bool(failed):
                break
            ridge = larger_ridge(ridge)

    def solve(self, b: Tensor) -> Tensor:
        """H^-1 b."""
        scaled = (b * self._scale)[:, None]
        return torch.cholesky_solve(scaled, self._lower)[:, 0] * self._scale
