"""Kernels of points on a device, in floats for the solver and in doubles for the certificate.

For "rbf" the product of two extended points (`musvm.kernels`) is the exponent itself. The points
are used with their mean subtracted, which keeps the norms, and so the rounding, small. Where they
are not small even so, distances are summed up from differences of coordinates.

Where they are small, a GPU multiplies half floats ten times as fast as floats. A float x is the sum
of two half floats, h and r, to 22 bits, and

    x z  =  h h' + h r' + r h'    to as many,

one product of matrices that are three times as wide. Norms are sums of three half floats each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musvm.kernels import MAX_ROUNDED_EXPONENT, Kernel, extended, other_side

# Entries of the largest matrix that is computed at a time where blocks will do.
CHUNK = 2**27
# Rows that keep a GPU busy where a product has few columns.
ROWS_OF_A_PRODUCT = 8192
# gamma |x|^2 up to which 22 bits of the coordinates leave exponents as good as floats do.
MAX_HALVED_EXPONENT = 16.0
# Matrices of half floats have a multiple of so many rows and columns.
ALIGNED = 8


class DeviceKernel:
    """k(x_i, z_j), by default between points and themselves.

    Parameters
    ----------
    kernel : of `NAMES`, with its parameters settled
    X, Z : (a, d) and (b, d) doubles on one device
    """

    NAMES = ("linear", "poly", "rbf", "sigmoid")

    def __init__(self, kernel: Kernel, X: Tensor, Z: Tensor | None = None) -> None:
        self._kernel = kernel
        self._X = X
        self._left, self._right = X, X if Z is None else Z
        self._by_differences = False
        if kernel.name == "rbf":
            mean = self._right.mean(0)
            right = other_side(extended(self._right - mean, kernel.gamma))
            # Its last column but one is -gamma |z|^2.
            self._by_differences = bool((right[:, -2] < -MAX_ROUNDED_EXPONENT).any())
            if not self._by_differences:
                self._left, self._right = extended(X - mean, kernel.gamma), right
        # Both sides of the product, as half floats or floats, once it is asked for.
        self._sides: tuple[Tensor, Tensor] | None = None

    @property
    def device(self) -> torch.device:
        return self._X.device

    def singles(self, rows: Any, out: Tensor | None = None) -> Tensor:
        """Kernel rows of some points, rounded to floats."""
        if self._by_differences:
            values = self._exponents(self._left[rows], self._right)
            return self._apply(values.float() if out is None else out.copy_(values))
        if self._sides is None:
            self._sides = self._in_halves() or (self._left.float(), self._right.float())
        left, right = self._sides
        if left.dtype == torch.float16:
            # Rounding alone makes an exponent positive, and all exponents are numbers.
            return torch.mm(left[rows], right.T, out_dtype=torch.float32, out=out).exp_()
        return self._apply(torch.mm(left[rows], right.T, out=out))

    def _in_halves(self) -> tuple[Tensor, Tensor] | None:
        """Both sides of the product above, where that is right and quick."""
        # Older versions of PyTorch return half floats from their products.
        if self.device.type != "cuda" or "dtype" not in torch.ops.aten.mm.overloads():
            return None
        if self._kernel.name != "rbf" or self._by_differences:
            return None
        smallest = torch.minimum(self._left[:, -1].min(), self._right[:, -2].min())
        if not bool(smallest >= -MAX_HALVED_EXPONENT):
            return None
        return in_halves(self._left), in_halves(self._right, swapped=True)

    def weighted(self, columns: Any, weights: Tensor) -> Tensor:
        """sum_j k(x_i, z_j) weights_jl over some points z_j, in doubles, block by block."""
        right = self._right[columns]
        piece = max(CHUNK // max(len(right), 1), 1)
        parts = self._left.split(piece)
        return torch.cat([self._apply(self._exponents(left, right)) @ weights for left in parts])

    def roughly_weighted(self, weights: Tensor) -> Tensor:
        """The same over all points z_j, with kernels and sums in floats."""
        weights = weights.float()
        piece, n = max(CHUNK // max(len(weights), 1), ROWS_OF_A_PRODUCT), len(self._left)
        starts = range(0, n, piece)
        parts = [self.singles(slice(at, min(at + piece, n))) @ weights for at in starts]
        return torch.cat(parts).double()

    def _exponents(self, left: Tensor, right: Tensor) -> Tensor:
        """Products of points: for "rbf" the exponents, where need be from their differences."""
        if not self._by_differences:
            return left @ right.T
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(left, right, compute_mode=exact).square_().mul_(-self._kernel.gamma)

    def diagonal(self) -> Tensor:
        """k(x, x) of every point."""
        if self._kernel.name == "rbf":
            return torch.ones_like(self._X[:, 0])
        return self._apply(self._X.square().sum(1))

    def _apply(self, products: Tensor) -> Tensor:
        """The kernel from products of points, in place."""
        kernel = self._kernel
        if kernel.name == "rbf":
            products.clamp_(max=0.0).exp_()
        elif kernel.name != "linear":
            products.mul_(kernel.gamma).add_(kernel.coef0)
            products = products.pow_(kernel.degree) if kernel.name == "poly" else products.tanh_()
        _require_finite(products)
        return products


def in_halves(extended: Tensor, *, swapped: bool = False) -> Tensor:
    """Extended points, or their `other_side`, as sums of half floats side by side.

    Products of the one with the other are those of the points.
    """
    high, rest = _halved(extended[:, :-2], 2)
    norms = torch.cat(_halved(extended[:, -2 if swapped else -1, None], 3), 1)
    # Every part of a norm meets a one.
    ones = torch.ones_like(norms)
    sides = (high, rest, high, norms, ones) if swapped else (high, high, rest, ones, norms)
    joined = torch.cat(sides, 1)
    width = joined.shape[1]
    return torch.nn.functional.pad(joined, (0, aligned(width) - width)).contiguous()


def aligned(n: int) -> int:
    """The next multiple of ALIGNED."""
    return -(-n // ALIGNED) * ALIGNED


def _halved(values: Tensor, n_parts: int) -> list[Tensor]:
    """Half floats that add up to the values, the largest first."""
    parts = []
    for _ in range(n_parts):
        parts.append(values.half())
        values = values - parts[-1].to(values.dtype)
    return parts


def like(tensor: Tensor, values: Any) -> Tensor:
    """An array as a tensor on the device of another one."""
    return torch.as_tensor(values, device=tensor.device)


def _require_finite(values: Tensor) -> None:
    # A sum of finite floats may overflow; extremes do not.
    if values.numel() and not bool(torch.isfinite(torch.stack(values.aminmax())).all()):
        raise ValueError(
            "The kernel matrix contains NaN or infinite values: scale the features or choose "
            "other kernel parameters."
        )
