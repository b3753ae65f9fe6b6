"""Grids that suit the data: C by the scale of the kernel, C*/C by the balance of the classes.

What C means depends on the kernel. Multiplying it by t and dividing C by t gives the same
predictions, so the default grid is

    C = c / s,        s = mean_i k(x_i, x_i) - mean_ij k(x_i, x_j),

s being the mean squared distance of a training point from their mean in the space of the kernel,
for c from 0.1 to 100: below, all points are support vectors at their bound and the predictions
no longer change; above, hardly any are. Small values of C*/C bound the harm that a bad
universum can do; so it is searched downwards from its balanced value n / (m L).
"""

from __future__ import annotations

import numpy as np

from musvm._input.blocks import Blocks
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray, is_tensor, take, to_host
from musvm.kernels import Kernel

# Two values a decade.
CS = (0.1, 0.32, 1.0, 3.2, 10.0, 32.0, 100.0)
WEIGHTS = (0.03, 0.1, 0.3, 1.0)
DELTAS = (0.0, 0.1, 0.3)
# Enough for a mean to one digit.
N_EXAMINED = 500


def default_Cs(kernel: Kernel, data: FitData, blocks: Blocks) -> list[float]:
    """C for a kernel on the training points, to two digits."""
    n = len(blocks.y)
    chosen = np.unique(np.linspace(0, n - 1, min(n, N_EXAMINED)).round().astype(np.intp))
    X, rows = data.X, blocks.rows[chosen]
    if is_tensor(X):
        X, rows = to_host(take(X, rows)), np.arange(len(rows))
    gram = kernel.gram(X, rows, resolution=data.resolution)
    scale = kernel_scale(gram, blocks.total(data.weight)[chosen])
    return [float(f"{c / scale:.2g}") for c in CS]


def kernel_scale(gram: FloatArray, weight: FloatArray) -> float:
    """s above; where all points coincide, their mean square, or 1."""
    share = weight / weight.sum()
    square = float(share @ gram.diagonal())
    scale = square - float(share @ gram @ share)
    return next((value for value in (scale, square) if value > 1e-12 * abs(square) > 0), 1.0)


def default_weights(balanced: float) -> list[float | str]:
    """C*/C, to three digits; the balanced one under its name."""
    return ["balanced" if factor == 1 else float(f"{factor * balanced:.3g}") for factor in WEIGHTS]
