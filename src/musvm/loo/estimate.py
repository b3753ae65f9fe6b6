"""Leave-one-out by a linear change on the face, for all points at once.

Without point t the dual has alpha_t = 0. Let the others answer within the face of the solution,
its free variables moving and its bounds staying as they are. With x the change of alpha,

    minimise 1/2 <x, K x>    over x on the face,  x_t = -alpha_t,

because the solution is stationary on its face. That quadratic problem has a closed form. In the
directions Z of the rows R (`reduced.py`), with H = Z' S Z, B = H^-1 and P the directions of row t,

    x = Z w,   w = B (r - e_P nu),   r = Z' S_{.t} alpha_t,   B_PP nu = (B r)_P,

nu being the multipliers that keep w_P = 0. So B serves for every t, and one more product with it.
The estimated decision values are F + K x at row t. Where no bound is met on the way and none is
left, they are exact; where alpha_t = 0 they are the fitted ones.

B is as large as the number of directions squared. Beyond `DIRECT_LIMIT` of them the same problem
is solved by conjugate gradients, many points at a time, preconditioned by (K + r I)^-1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm._lazy import lazy
from musvm._pieces import lower_factor
from musvm.dual.conjugate_gradients import conjugate_gradients
from musvm.dual.faces import find_face
from musvm.dual.newton import cholesky_solve
from musvm.dual.problem import DualProblem
from musvm.loo.reduced import Reduced, cholesky_with_ridge

# The dense inverse takes 288 MB then, or as much as the Gram matrix.
DIRECT_LIMIT = 6000
CG_TOL, CG_MAX_ITER = 1e-4, 100
# Eigenvalues below this share of the mean diagonal are none.
SINGULAR = 1e-9


def is_singular(gram: FloatArray, alpha: FloatArray, rows: IntArray | None = None) -> bool:
    """Whether the support vectors depend on each other: more of them than dimensions, say.

    Then a linear change of the others can stand in for any point left out, if bounds are not looked
    at, and the estimate may say 19 % where leaving out says 89. `rows` of the Gram matrix are those
    of alpha, all of them if None.
    """
    used = np.flatnonzero(np.any(alpha != 0.0, axis=1))
    used = used if rows is None else rows[used]
    K = np.ascontiguousarray(gram[np.ix_(used, used)])
    K.flat[:: len(K) + 1] -= SINGULAR * K.diagonal().mean() if len(K) else 0.0
    return not lower_factor(K.T)


class Estimate:
    """The changes x for the solution alpha, (M, L), of a problem."""

    def __init__(self, problem: DualProblem, alpha: FloatArray) -> None:
        self.problem = problem
        self.alpha = alpha
        self.face = find_face(problem.rows, np.ascontiguousarray(alpha.T))
        n_directions = int((self.face.sizes - 1).sum())
        self.is_direct = n_directions <= max(DIRECT_LIMIT, problem.n_points)

    @lazy
    def reduced(self) -> Reduced:
        return Reduced(self.problem, self.face)

    @lazy
    def inverse(self) -> FloatArray:
        """B above."""
        return self.reduced.inverse_hessian()

    def changes(self, points: IntArray) -> FloatArray:
        """x for every training point given, (T, L, M)."""
        return self._direct(points) if self.is_direct else self._conjugate_gradients(points)

    def _direct(self, points: IntArray) -> FloatArray:
        reduced, Z = self.reduced, self.reduced.directions
        T, M, L = len(points), self.problem.n_points, self.problem.rows.n_classes
        rows = reduced.position[points]
        dropped = self.alpha[points]
        r = reduced.S[np.ix_(Z.row, rows)] * (dropped[:, Z.plus] - dropped[:, Z.minus]).T
        w = self.inverse @ (r - self._multipliers(rows, self.inverse @ r))

        x = np.zeros((T, L, M))
        in_kept = (w.T @ Z.matrix(len(reduced.kept), L).T).reshape(T, L, -1)
        in_kept[np.arange(T), :, rows] = -dropped
        x[..., reduced.kept] = in_kept
        x[..., reduced.eliminated] = -(in_kept.reshape(T * L, -1) @ reduced.W.T).reshape(T, L, -1)
        return x

    def _multipliers(self, rows: IntArray, w: FloatArray) -> FloatArray:
        """nu for every column of w, in its place among the directions."""
        nu = np.zeros_like(w)
        first = np.searchsorted(self.reduced.directions.row, rows)
        n_own = np.searchsorted(self.reduced.directions.row, rows, side="right") - first
        for size in np.unique(n_own[n_own > 0]):
            columns = np.flatnonzero(n_own == size)
            own = first[columns, None] + np.arange(size)
            at = own, columns[:, None]
            systems = self.inverse[own[:, :, None], own[:, None, :]]
            nu[at] = np.linalg.solve(systems, w[at][..., None])[..., 0]
        return nu

    @lazy
    def _gram_factor(self) -> FloatArray:
        K = self.problem.gram
        return cholesky_with_ridge(K.copy, K)

    def _conjugate_gradients(self, points: IntArray) -> FloatArray:
        """One system for each point, side by side; vectors are (T, free variables)."""
        face, K, M = self.face, self.problem.gram, self.problem.n_points
        at, stays = face.label * M + face.row, face.row != points[:, None]
        buffer = np.zeros((len(points), self.problem.rows.n_classes * M))

        def in_place(v: FloatArray) -> FloatArray:
            buffer[:, at] = v
            return buffer.reshape(-1, M)

        def gathered(F: FloatArray) -> FloatArray:
            values: FloatArray = F.reshape(len(points), -1)[:, at] * stays
            sums = np.add.reduceat(values, face.starts[:-1], axis=1)
            return values - np.repeat(sums / face.sizes, face.sizes, axis=1)

        dropped = self.alpha[points]
        r = gathered(K[points][:, None, :] * dropped[:, :, None])
        found = conjugate_gradients(
            lambda v: gathered(in_place(v) @ K),
            lambda v: gathered(cholesky_solve(self._gram_factor, in_place(v).T).T),
            r,
            tol=CG_TOL,
            max_iter=CG_MAX_ITER,
        )
        x = in_place(found.x).reshape(len(points), -1, M)
        x[np.arange(len(points)), :, points] = -dropped
        return x


def chunks(problem: DualProblem, points: IntArray) -> Iterator[IntArray]:
    """The points in parts whose (T, L, M) arrays are a quarter of the Gram matrix, or 4 MB."""
    entries = max(problem.n_points**2 // 4, 2**19)
    size = max(entries // (problem.n_points * problem.rows.n_classes), 1)
    for start in range(0, len(points), size):
        yield points[start : start + size]


def left_out_values(
    problem: DualProblem, alpha: FloatArray, decision: FloatArray, points: IntArray
) -> FloatArray:
    """Estimated decision values at the points when each is left out, (T, L)."""
    estimate = Estimate(problem, alpha)
    values = decision[points].copy()
    start = 0
    for part in chunks(problem, points):
        x = estimate.changes(part)
        values[start : start + len(part)] += np.einsum("tm,tlm->tl", problem.gram[part], x)
        start += len(part)
    return values
