"""How much a universum shows what the classes have in common, next to what tells them apart.

With phi the map of the kernel, let

    q(v) = Var_u <v, phi(u)> / |v|^2

be how much a universum varies along the direction v. Then

    rho = log mean q(phi(x_i) - phi(x_j)) - log mean q(mu_k - mu_l)

over the pairs of training points of one class, and over the pairs of class means mu. Training
draws the decision values of the universum together, so it flattens the model along the directions
in which the universum varies. Where rho is large, these are the directions in which points of one
class differ, and nothing is lost; where it is negative, they are those in which the classes do.

rho ranks universa for one task. It does not compare tasks, and its zero has no meaning of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm.kernels import Kernel

# More points than this do not change the means by much, and the matrices stay below 32 MB each.
MAX_POINTS = 2000
# Directions shorter than this, relative to the longest, are rounding errors.
TINY = 1e-12


def nuisance(kernel: Kernel, X: Any, codes: IntArray, universum: Any) -> float:
    """rho of a universum; at most 2000 points of either kind are looked at.

    Parameters
    ----------
    kernel : with its parameters settled
    X : (n, d) training points
    codes : (n,) their classes, 0..L-1
    universum : (m, d) universum points
    """
    rows = _evenly_from_every_class(codes)
    points, others = X[rows], universum[_evenly(universum.shape[0], MAX_POINTS)]
    return nuisance_of(kernel.matrix(points, points), kernel.matrix(others, points), codes[rows])


def nuisance_of(gram: FloatArray, features: FloatArray, codes: IntArray) -> float:
    """rho from kernel values between training points, (n, n), and of the universum to them, (m, n).

    NaN where no class has two different points, or where all class means are equal.
    """
    centred = features - features.mean(axis=0)
    covariance = centred.T @ centred / len(centred)
    classes, counts = np.unique(codes, return_counts=True)
    means = (codes[:, None] == classes) / counts
    within = _mean_ratio(covariance, gram, codes[:, None] == codes)
    between = _mean_ratio(
        means.T @ covariance @ means, means.T @ gram @ means, np.ones((len(classes),) * 2, bool)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.log(within) - np.log(between))


def _mean_ratio(covariance: FloatArray, gram: FloatArray, wanted: Any) -> float:
    """The mean of q over the differences of the wanted pairs, from inner products of all."""
    i, j = np.nonzero(np.triu(wanted, 1))
    variance, square = (
        A.diagonal()[i] + A.diagonal()[j] - 2.0 * A[i, j] for A in (covariance, gram)
    )
    differ = square > TINY * square.max(initial=0.0)
    if not differ.any():
        return float("nan")
    return float(np.mean(np.maximum(variance[differ], 0.0) / square[differ]))


def _evenly_from_every_class(codes: IntArray) -> IntArray:
    members = [np.flatnonzero(codes == k) for k in np.unique(codes)]
    share = max(2, MAX_POINTS // len(members))
    return np.concatenate([rows[_evenly(len(rows), share)] for rows in members])


def _evenly(n: int, limit: int) -> IntArray:
    """All of n rows, or so many of them in equal steps."""
    return np.unique(np.linspace(0, n - 1, min(n, limit)).round().astype(np.intp))
