"""Rows of which all labels are free and weigh the same, eliminated for all labels at once.

Let rows i of K have free labels l whose changes d sum to zero in every row, and in

    K d_l + w d_l + lambda = v_l

let the rows A have all labels and one weight w_i for all of them, and the rows T some labels or
weights of their own. Summed over the labels, the equations of A say that lambda_A is the mean of
v_A: they hold without lambda once that mean is taken off. With R R' = K_AA + diag(w),

    V = R^-1 K_AT,    u_l = R^-1 v_Al,    d_Al = R'^-1 (u_l - V d_Tl),

and rows T meet K_TT - V'V in place of K_TT, and v_T - V'u in place of v_T: one factor for all
labels, where `label_blocks.py` would take one for each.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from musvm._input.tensors import FloatArray, IntArray
from musvm._pieces import divide_rows, lower_factor, ridges, subtract_square
from musvm._threads import Workers


def work_of_common_rows(n_common: int, n_others: int) -> float:
    """Operations of the factor, of V and of V'V."""
    return n_common**3 / 3.0 + float(n_common) ** 2 * n_others + float(n_others) ** 2 * n_common


class CommonRows:
    """The factor for rows `common` of K, with weights on the diagonal, next to the rows `others`.

    Attributes
    ----------
    is_definite : whether there is a factor; nothing else is there without it
    schur : (T, T) K_TT - V'V, its upper triangle
    """

    def __init__(
        self,
        K: FloatArray,
        common: IntArray,
        others: IntArray,
        weights: FloatArray,
        team: Workers | None = None,
        most_ridge: float = 0.0,
    ) -> None:
        """What may be added to a unit diagonal where rounding leaves no factor is `most_ridge`."""
        self.schur = K[np.ix_(others, others)]
        between = K[np.ix_(common, others)]
        diagonal = K.diagonal()[common] + weights
        self._scale = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
        self.is_definite = any(
            self._factorise(K, common, weights, team, ridge) for ridge in ridges(most_ridge)
        )
        self._Vt = between.T
        if self.is_definite and len(common):
            self._Vt *= self._scale
            divide_rows(self._Vt, self._factor, team)
            subtract_square(self.schur.T, self._Vt, team)
            # Where nothing is left of it, rounding may have left less.
            diagonal = np.einsum("ii->i", self.schur)
            np.maximum(diagonal, 0.0, out=diagonal)

    def _factorise(
        self,
        K: FloatArray,
        common: IntArray,
        weights: FloatArray,
        team: Workers | None,
        ridge: float,
    ) -> bool:
        self._factor = K[np.ix_(common, common)].T
        self._factor *= self._scale
        self._factor *= self._scale[:, None]
        self._factor.flat[:: len(common) + 1] += weights * self._scale**2 + ridge
        return lower_factor(self._factor, team)

    def eliminate(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """u, (A, L), for v_A, and V'u, (T, L), to be taken from v_T."""
        centred = (values - values.mean(axis=1, keepdims=True)) * self._scale[:, None]
        u = blas.dtrsm(1.0, self._factor, centred, lower=1)
        return u, self._Vt @ u

    def changes(self, u: FloatArray, others: FloatArray) -> FloatArray:
        """d_A, (A, L), for u and d_T."""
        left = u - self._Vt.T @ others
        solved: FloatArray = blas.dtrsm(1.0, self._factor, left, lower=1, trans_a=1)
        return solved * self._scale[:, None]
