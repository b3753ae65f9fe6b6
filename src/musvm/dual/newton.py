"""Newton steps on the face of the dual that contains the current point.

On a face (`faces.py`) D is a quadratic with gradient g, and the step d solves

    minimise   1/2 sum_l d_l' (K + r I) d_l + <g, d>     over   sum of d over each group = 0,

with a small ridge r.

Directly, while that costs no more than a factor of K. Rows with all L labels free are eliminated
first (`common_rows.py`): what remains for the other rows is the same problem with a Schur
complement for K. It is solved label by label (`label_blocks.py`), or with a dense Cholesky factor
in the |group| - 1 directions e_l - e_l0 of each group, whichever costs less.

By conjugate gradients otherwise, one product of K with an M x L matrix each. The preconditioner
is the inverse of K + r I itself, projected onto the groups: exact where all labels are free, and
factored once for every face.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import blas, lapack

from musvm._input.tensors import FloatArray, IntArray
from musvm._pieces import lower_factor
from musvm._threads import Workers
from musvm.dual.common_rows import CommonRows
from musvm.dual.conjugate_gradients import conjugate_gradients
from musvm.dual.faces import Directions, Face
from musvm.dual.label_blocks import LabelBlocks, least_work, work_of_blocks, work_of_directions
from musvm.dual.problem import DualProblem, DualRows

# Relative to the mean diagonal of K: enough for Cholesky on a singular K, invisible elsewhere.
RIDGE = 1e-11
# Shares of `damping`. Conjugate gradients pay for every small eigenvalue: they get more of it.
DAMPING_DIRECT, DAMPING_CG = 0.01, 1.0
CG_TOL, CG_MAX_ITER = 1e-2, 40
# Steps label by label are refined until their residual is this share of the gradient.
REFINED, MAX_REFINEMENTS = 1e-10, 4
# What a step and an iteration cost besides their products, as if it were these: half a millisecond
# or so. Few right-hand sides at a time are divided by a factor at a third of the speed of products.
STEP_OVERHEAD, ITERATION_OVERHEAD, DIVISION_SLOWDOWN = 1e7, 5e6, 3.0


class NotPositiveDefiniteError(ArithmeticError):
    """A block of the Gram matrix has a negative eigenvalue beyond rounding."""


def damping(rows: DualRows, slopes: FloatArray) -> float:
    """A ridge of slopes / caps, which keeps steps within the caps where K is singular."""
    return float(np.sqrt(np.mean(slopes**2)) / np.median(rows.caps))


class NewtonSolver:
    """Newton steps for one problem.

    `work` is the number of operations of matrix products in the last step, or that take as long as
    it did, so that the caller can weigh it against descent.
    """

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        self.work = 0.0
        self._ridge = RIDGE * float(problem.gram.diagonal().mean())
        self._factor: FloatArray | None = None
        self._factor_ridge = 0.0

    def step(self, face: Face, g: FloatArray) -> FloatArray:
        """The step d of the module's first formula, one number for each free variable."""
        full = face.sizes == self.problem.rows.n_classes
        n_full = int(full.sum())
        in_rest = ~full[face.group]
        work_of_rest = least_work(face.label[in_rest], face.sizes[~full])
        slopes = face.centre(face.values(g))
        damped = damping(self.problem.rows, slopes)
        self.work = STEP_OVERHEAD
        if work_of_rest <= self.problem.n_points**3 / 3.0:
            self._factor = None  # no longer needed, and as large as K
            # Without the product V'V: with as many more sweeps between steps fits take longer.
            self.work += work_of_rest + n_full**3 / 3 + n_full**2 * (len(full) - n_full)
            return self._direct(face, g, full, self._ridge + DAMPING_DIRECT * damped)
        return self._conjugate_gradients(face, slopes, self._ridge + DAMPING_CG * damped)

    def _direct(self, face: Face, g: FloatArray, full: np.ndarray, ridge: float) -> FloatArray:
        K, L = self.problem.gram, self.problem.rows.n_classes
        in_full = full[face.group]
        rest = np.flatnonzero(~in_full)
        A = face.row[face.starts[:-1][full]]
        T, position = np.unique(face.row[rest], return_inverse=True)
        label, rhs = face.label[rest], g[face.label[rest], face.row[rest]]
        common = CommonRows(K, A, T, np.full(len(A), ridge))
        if not common.is_definite:
            raise NotPositiveDefiniteError
        if len(A):
            u, of_T = common.eliminate(g[:, A].T)
            rhs = rhs - of_T[position, label]

        step = np.empty(len(face.row))
        step[rest] = _zero_sum_step(common.schur, position, label, face.sizes[~full], rhs, ridge)
        if len(A):
            d_T = np.zeros((len(T), L))
            d_T[position, label] = step[rest]
            step[in_full] = common.changes(-u, d_T).ravel()
        return step

    def _conjugate_gradients(self, face: Face, slopes: FloatArray, ridge: float) -> FloatArray:
        K, M, L = self.problem.gram, self.problem.n_points, self.problem.rows.n_classes
        buffer = np.zeros((L, M))
        at = face.label * M + face.row

        def hessian(v: FloatArray) -> FloatArray:
            buffer.ravel()[at] = v[0]
            image: FloatArray = face.centre((buffer @ K).ravel()[at]) + ridge * v[0]
            return image[None]

        def precondition(v: FloatArray) -> FloatArray:
            buffer.ravel()[at] = v[0]
            solved = cholesky_solve(self._gram_factor(ridge), buffer.T)
            return face.centre(solved.T.ravel()[at])[None]

        found = conjugate_gradients(
            hessian, precondition, -slopes[None], tol=CG_TOL, max_iter=CG_MAX_ITER
        )
        if not found.is_definite:
            raise NotPositiveDefiniteError
        products = 2.0 * M**2 * L
        self.work += found.n_iterations * (
            (1.0 + DIVISION_SLOWDOWN) * products + ITERATION_OVERHEAD
        )
        step: FloatArray = found.x[0]
        return step

    def _gram_factor(self, ridge: float) -> FloatArray:
        """A Cholesky factor of K + ridge I; an old one serves while its ridge is similar."""
        if self._factor is None or not 0.1 <= self._factor_ridge / ridge <= 10.0:
            self._factor = None
            self._factor = cholesky(self.problem.gram.copy(), ridge)
            self._factor_ridge = ridge
            self.work += self.problem.n_points**3 / 3
        return self._factor


def _zero_sum_step(
    K: FloatArray,
    position: IntArray,
    label: IntArray,
    sizes: IntArray,
    g: FloatArray,
    ridge: float,
) -> FloatArray:
    """The step of groups with rows `position` of K, of which the upper triangle is read."""
    if work_of_blocks(label, len(sizes)) < work_of_directions(sizes):
        weights = np.full(len(label), ridge)
        blocks = LabelBlocks(K, position, label, sizes, weights, Workers())
        if not blocks.is_definite:
            raise NotPositiveDefiniteError
        starts = np.cumsum(sizes) - sizes
        values = np.zeros((len(K), int(label.max()) + 1), order="F")

        def centre(v: FloatArray) -> FloatArray:
            return v - np.repeat(np.add.reduceat(v, starts) / sizes, sizes)

        def hessian(v: FloatArray) -> FloatArray:
            values[position, label] = v
            return centre(blas.dsymm(1.0, K.T, values, lower=1)[position, label] + ridge * v)

        return _refined(lambda v: centre(blocks.solve(v)), hessian, centre(-g))
    directions = Directions.of(position, label, sizes)
    factor = cholesky(directions.hessian(K), ridge)
    return directions.change(-cholesky_solve(factor, directions.along(g)), len(label))


def _refined(
    solve: Callable[[FloatArray], FloatArray],
    hessian: Callable[[FloatArray], FloatArray],
    rhs: FloatArray,
) -> FloatArray:
    """H^-1 rhs by a solver that loses digits, and residuals that do not."""
    enough = REFINED * np.linalg.norm(rhs)
    step, residual, size = np.zeros(len(rhs)), rhs, np.inf
    for _ in range(1 + MAX_REFINEMENTS):
        candidate = step + solve(residual)
        left = rhs - hessian(candidate)
        before, size = size, float(np.linalg.norm(left))
        if not size < before:
            break
        step, residual = candidate, left
        if size <= enough:
            break
    return step


def cholesky(A: FloatArray, ridge: float) -> FloatArray:
    """The lower factor of A + ridge I, in place; A is C-ordered, its upper triangle is read."""
    factor: FloatArray = np.asfortranarray(A.T)
    factor.flat[:: len(A) + 1] += ridge
    if not lower_factor(factor):
        raise NotPositiveDefiniteError
    return factor


def cholesky_solve(factor: FloatArray, b: FloatArray) -> FloatArray:
    """(factor factor')^-1 b."""
    return lapack.dpotrs(factor, b, lower=1)[0] if len(factor) else b
