"""Support-vector types, the paper's definition 1.

A sample of eq. (5) is of type 1 if 0 < alpha_iy < c_i and of type 2 if alpha_iy = c_i; here all
others are of type 0. Both comparisons are relative to c_i.

A universum point stands for L samples, its copies with labels k = 1..L, and copy k has
alpha_{jk,k} = max(a_jk, 0) for the point's row a_j of the reduced dual. The point is of type 1
if some copy is, else of type 2 if some copy is, so that the points of type 1 are those whose
copies form the paper's SV_1. With the "max" loss the copies share one slack and one cap, and
sum_k max(a_jk, 0) is compared with it.
"""

from __future__ import annotations

import numpy as np

from musvm.dual.faces import AT_BOUND
from musvm.dual.problem import DualProblem, FloatArray, IntArray


def support_types(problem: DualProblem, alpha: FloatArray) -> IntArray:
    """The type, 0, 1 or 2, of every point, (M,), or of every point of a stack of alphas."""
    n, caps = problem.n_train, problem.caps
    own = alpha[..., np.arange(n), problem.y]
    positive = np.maximum(alpha[..., n:, :], 0.0)
    if problem.universum_loss == "max":
        positive = positive.sum(axis=-1, keepdims=True)
    copies = _types_of(positive, caps[n:, None])
    universum = np.where((copies == 1).any(axis=-1), 1, copies.max(axis=-1, initial=0))
    return np.concatenate([_types_of(own, caps[:n]), universum], axis=-1)


def _types_of(mass: FloatArray, caps: FloatArray) -> IntArray:
    is_support = (mass > AT_BOUND * caps).astype(np.intp)
    return is_support + (mass >= (1.0 - AT_BOUND) * caps)


def two_active_share(problem: DualProblem, alpha: FloatArray, types: IntArray) -> float:
    """Share of the training points of type 1 with two nonzero entries; 1 if there are none.

    The paper's assumption 2 is that it is 1.
    """
    n = problem.n_train
    inside = alpha[:n][types[:n] == 1]
    if not len(inside):
        return 1.0
    caps = problem.caps[:n][types[:n] == 1]
    n_active = (np.abs(inside) > AT_BOUND * caps[:, None]).sum(axis=1)
    return float((n_active == 2).mean())


def own_margins(decision: FloatArray, y: IntArray) -> FloatArray:
    """f_y - max_{l != y} f_l, (n,): the projection of every point onto its own class."""
    rows = np.arange(len(y))
    others = decision.copy()
    others[rows, y] = -np.inf
    return decision[rows, y] - others.max(axis=1)
