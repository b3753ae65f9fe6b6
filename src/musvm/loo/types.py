"""Support-vector types, the paper's definition 1.

A sample of eq. (5) is of type 1 if 0 < alpha_iy < c_i and of type 2 if alpha_iy = c_i; here all
others are of type 0. Numbers that differ by rounding errors are equal (`at_bound`).

A universum point stands for L samples, its copies with labels k = 1..L, and copy k has
alpha_{jk,k} = max(a_jk, 0) for the point's row a_j of the reduced dual. The point is of type 1
if some copy is, else of type 2 if some copy is, so that the points of type 1 are those whose
copies form the paper's SV_1. With the "max" loss the copies share one slack and one cap, and
sum_k max(a_jk, 0) is compared with it.
"""

from __future__ import annotations

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm.dual.problem import DualRows, at_bound


def support_types(rows: DualRows, alpha: FloatArray) -> IntArray:
    """The type, 0, 1 or 2, of every point, (M,), or of every point of a stack of alphas."""
    n, caps = rows.n_train, rows.caps
    tiny = at_bound(caps, alpha)
    own = alpha[..., np.arange(n), rows.y]
    positive = np.maximum(alpha[..., n:, :], 0.0)
    if rows.is_max:
        positive = positive.sum(axis=-1, keepdims=True)
    copies = _types_of(positive, caps[n:, None], tiny[..., n:, None])
    universum = np.where((copies == 1).any(axis=-1), 1, copies.max(axis=-1, initial=0))
    return np.concatenate([_types_of(own, caps[:n], tiny[..., :n]), universum], axis=-1)


def _types_of(mass: FloatArray, caps: FloatArray, tiny: FloatArray) -> IntArray:
    is_support = (mass > tiny).astype(np.intp)
    return is_support + (mass >= caps - tiny)


def two_active_share(rows: DualRows, alpha: FloatArray, types: IntArray) -> float:
    """Share of the training points of type 1 with two nonzero entries; 1 if there are none.

    The paper's assumption 2 is that it is 1.
    """
    is_inside = types[: rows.n_train] == 1
    if not is_inside.any():
        return 1.0
    is_active = np.abs(alpha) > at_bound(rows.caps, alpha)[:, None]
    n_active = is_active[: rows.n_train][is_inside].sum(axis=1)
    return float((n_active == 2).mean())
