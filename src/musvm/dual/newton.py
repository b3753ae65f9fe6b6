"""Newton steps on the face of the dual that contains the current point.

The *face* holds every bound of `problem.py` that is met with equality, and the sign of every
universum variable that the kink at 0 separates (Delta > 0). What is left are free variables
(l, i) in *groups*, each inside one row, whose sum is fixed: a row has one group, except that a
row on the boundary of the "max" loss's set has two, its positive and its negative labels. On the
face D is a quadratic, and the step d solves

    minimise   1/2 sum_l d_l' (K + r I) d_l + <g, d>     over   sum of d over each group = 0,

with g_il = F_il - [l = y_i] + Delta [universum, alpha_il > 0] and a small ridge r.

Directly, while few directions are free. Rows with all L labels free are eliminated first: on
zero-sum vectors their block of the Hessian is L - 1 copies of one matrix K_AA, and what remains
for the other rows T is the same problem with the Schur complement K_TT - K_TA K_AA^-1 K_AT for
K. There, |group| - 1 directions e_l - e_l0 of each group carry a dense Cholesky factor.

By conjugate gradients otherwise, one product of K with an M x L matrix each. The preconditioner
is the inverse of K + r I itself, projected onto the groups: exact where all labels are free, and
factored once for every face.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from musvm.dual._faces import fill_hessian, project_groups
from musvm.dual.problem import DualProblem, FloatArray, IntArray

# Relative to the mean diagonal of K: enough for Cholesky on a singular K, invisible elsewhere.
RIDGE = 1e-11
# A bound is met when the variable is this close to it, relative to the row's cap.
AT_BOUND = 1e-12
# A damping of g / caps keeps steps within the caps where K is singular. Conjugate gradients also
# pay for every small eigenvalue, so they get more of it.
DAMPING_DIRECT, DAMPING_CG = 0.01, 1.0
CG_TOL, CG_MAX_ITER = 1e-2, 40


class NotPositiveDefiniteError(ArithmeticError):
    """A block of the Gram matrix has a negative eigenvalue beyond rounding."""


@dataclass(frozen=True)
class Face:
    """The free variables at a point, sorted by group.

    label, row : (f,) the variable (l, i)
    group : (f,) its group
    starts : (G + 1,) group g is label[starts[g]:starts[g + 1]]
    lower, upper : (f,) the bounds that keep a variable on the closure of the face
    totals : (G,) the sums that stay fixed
    """

    label: IntArray
    row: IntArray
    group: IntArray
    starts: IntArray
    lower: FloatArray
    upper: FloatArray
    totals: FloatArray

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)

    @property
    def is_empty(self) -> bool:
        return len(self.row) == 0

    def centre(self, values: FloatArray) -> FloatArray:
        """The values less the mean of their group."""
        means = np.add.reduceat(values, self.starts[:-1]) / self.sizes
        return values - np.repeat(means, self.sizes)

    def values(self, matrix: FloatArray) -> FloatArray:
        """The entries of a class-major matrix at the free variables."""
        return matrix[self.label, self.row]


def find_face(problem: DualProblem, alpha: FloatArray) -> Face:
    """The face of a feasible class-major alpha, (L, M)."""
    n, L, caps = problem.n_train, problem.n_classes, problem.caps
    tiny = AT_BOUND * caps
    lower = np.where(alpha < 0, -(L - 1) * caps, 0.0)
    upper = np.where(alpha > 0, caps, 0.0)
    free = np.abs(alpha) > tiny
    second = np.zeros(alpha.shape, dtype=bool)

    rows = np.arange(n)
    free[problem.y, rows] &= alpha[problem.y, rows] < (caps - tiny)[:n]

    universum = alpha[:, n:]
    if problem.universum_loss == "sum":
        inside = np.ones(problem.n_points - n, dtype=bool)
    else:
        inside = np.maximum(universum, 0.0).sum(axis=0) < (caps - tiny)[n:]
        second[:, n:] = ~inside & (universum < 0)
    if problem.delta == 0:
        free[:, n:] |= inside
        lower[:, n:] = np.where(inside, -(L - 1) * caps[n:], lower[:, n:])
        upper[:, n:] = np.where(inside, caps[n:], upper[:, n:])
    if problem.universum_loss == "sum":
        free[:, n:] &= universum < (caps - tiny)[n:]
    return _face_of(alpha, free, second, lower, upper)


def _face_of(
    alpha: FloatArray,
    free: np.ndarray,
    second: np.ndarray,
    lower: FloatArray,
    upper: FloatArray,
) -> Face:
    """Sort the free variables into groups and drop groups with nothing to exchange."""
    row, label = np.nonzero(free.T)
    key = 2 * row + second[label, row]
    if second.any():
        order = np.argsort(key, kind="stable")
        row, label, key = row[order], label[order], key[order]
    _, group, counts = np.unique(key, return_inverse=True, return_counts=True)
    keep = counts[group] > 1
    row, label = row[keep], label[keep]
    sizes = counts[counts > 1]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    group = np.repeat(np.arange(len(sizes)), sizes)
    values = alpha[label, row]
    totals = np.add.reduceat(values, starts[:-1]) if len(sizes) else np.empty(0)
    return Face(label, row, group, starts, lower[label, row], upper[label, row], totals)


def gradient(problem: DualProblem, alpha: FloatArray, F: FloatArray) -> FloatArray:
    """g above, class-major, (L, M)."""
    n = problem.n_train
    g = F.copy()
    g[problem.y, np.arange(n)] -= 1.0
    if problem.delta > 0:
        g[:, n:] += problem.delta * (alpha[:, n:] > 0)
    return g


def move(problem: DualProblem, face: Face, alpha: FloatArray, step: FloatArray) -> FloatArray:
    """alpha + step, projected back onto the closure of the face."""
    values = face.values(alpha) + step
    project_groups(values, face.lower, face.upper, face.totals, face.starts)
    return _with_values(problem, face, alpha, values)


def room(problem: DualProblem, face: Face, alpha: FloatArray, step: FloatArray) -> float:
    """The largest t <= 1 for which alpha + t step stays on the closure of the face."""
    values = face.values(alpha)
    distance = np.where(step < 0, face.lower, face.upper) - values
    limits = np.divide(distance, step, out=np.ones_like(step), where=np.abs(step) > 0)
    t = float(np.clip(limits.min(initial=1.0), 0.0, 1.0))
    if problem.universum_loss == "max":
        t = _room_in_mass(problem, face, alpha, step, t)
    return t


def _room_in_mass(
    problem: DualProblem, face: Face, alpha: FloatArray, step: FloatArray, t: float
) -> float:
    """The same for 1/2 ||a||_1 <= cap: Newton from above on a convex, piecewise linear mass."""
    n = problem.n_train
    direction = np.zeros_like(alpha)
    direction[face.label, face.row] = step
    a, d, caps = alpha[:, n:], direction[:, n:], problem.caps[n:]
    while True:
        moved = a + t * d
        excess = np.maximum(moved, 0.0).sum(axis=0) - caps
        slope = np.where(moved > 0, d, 0.0).sum(axis=0)
        over = (excess > AT_BOUND * caps) & (slope > 0)
        if not over.any() or t == 0.0:
            return t
        t = max(min(t - float((excess[over] / slope[over]).max()), t * (1 - 1e-15)), 0.0)


def snap(
    problem: DualProblem, face: Face, alpha: FloatArray, step: FloatArray, reach: float
) -> FloatArray | None:
    """alpha with every variable that the step drives into a bound before `reach` put there.

    Such variables block the step, and the projection of a step with many of them is uphill. On
    the smaller face they are out of the way. None if nothing blocks.
    """
    values = face.values(alpha)
    bound = np.where(step < 0, face.lower, face.upper)
    blocks = np.abs(bound - values) < reach * np.abs(step)
    if not blocks.any():
        return None
    lower, upper = np.where(blocks, bound, face.lower), np.where(blocks, bound, face.upper)
    project_groups(values, lower, upper, face.totals, face.starts)
    # Where the bounds leave no point of the right sum, the nearest one breaks the sum.
    broken = np.abs(np.add.reduceat(values, face.starts[:-1]) - face.totals)
    feasible = broken <= AT_BOUND * np.maximum(1.0, np.abs(face.totals))
    values = np.where(feasible[face.group], values, face.values(alpha))
    return _with_values(problem, face, alpha, values)


def _with_values(
    problem: DualProblem, face: Face, alpha: FloatArray, values: FloatArray
) -> FloatArray:
    moved = alpha.copy()
    moved[face.label, face.row] = values
    if problem.universum_loss == "max":
        # The set of the "max" loss is no box: shrink the rows that left it towards 0.
        n = problem.n_train
        mass = np.maximum(moved[:, n:], 0.0).sum(axis=0)
        moved[:, n:] *= np.minimum(1.0, problem.caps[n:] / np.maximum(mass, problem.caps[n:]))
    return moved


class NewtonSolver:
    """Newton steps for one problem.

    `work` is the number of floating-point operations of the last step, so that the caller can
    weigh it against descent.
    """

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        self.work = 0.0
        self._ridge = RIDGE * float(problem.gram.diagonal().mean())
        self._factor: FloatArray | None = None
        self._factor_ridge = 0.0

    def step(self, face: Face, g: FloatArray) -> FloatArray:
        """The step d of the module's first formula, one number for each free variable."""
        full = face.sizes == self.problem.n_classes
        n_directions = int((face.sizes[~full] - 1).sum())
        slopes = face.centre(face.values(g))
        damping = float(np.sqrt(np.mean(slopes**2)) / np.median(self.problem.caps))
        if n_directions <= self.problem.n_points:
            self._factor = None  # one more M x M array at a time is enough
            self.work = n_directions**3 / 3 + full.sum() ** 3 / 3 + full.sum() ** 2 * n_directions
            return self._direct(face, g, full, self._ridge + DAMPING_DIRECT * damping)
        return self._conjugate_gradients(face, slopes, self._ridge + DAMPING_CG * damping)

    def _direct(self, face: Face, g: FloatArray, full: np.ndarray, ridge: float) -> FloatArray:
        # With R the factor of K_AA, V = R^-1 K_AT and u = R^-1 g_A, the Schur complement is
        # K_TT - V'V, its gradient g_T - V'u, and then d_A = -R^-T (u + V d_T).
        K, L = self.problem.gram, self.problem.n_classes
        in_full = full[face.group]
        rest = np.flatnonzero(~in_full)
        A = face.row[face.starts[:-1][full]]
        T, position = np.unique(face.row[rest], return_inverse=True)
        label = face.label[rest]

        K_TT, rhs = K[np.ix_(T, T)], g[label, face.row[rest]]
        if len(A):
            R = cholesky(K[np.ix_(A, A)], ridge)
            centred = g[:, A].T - g[:, A].mean(axis=0)[:, None]
            u = blas.dtrsm(1.0, R, centred, lower=1)
        if len(A) and len(T):
            Vt = K[np.ix_(A, T)].T
            Vt = blas.dtrsm(1.0, R, Vt, side=1, lower=1, trans_a=1, overwrite_b=1)
            blas.dsyrk(-1.0, Vt, beta=1.0, c=K_TT.T, lower=1, overwrite_c=1)
            rhs = rhs - (Vt @ u)[position, label]

        step = np.empty(len(face.row))
        step[rest] = _null_space_step(K_TT, position, label, face.sizes[~full], rhs, ridge)
        if len(A) and len(T):
            d_T = np.zeros((len(T), L))
            d_T[position, label] = step[rest]
            u = u + Vt.T @ d_T
        if len(A):
            step[in_full] = -blas.dtrsm(1.0, R, u, lower=1, trans_a=1).ravel()
        return step

    def _conjugate_gradients(self, face: Face, slopes: FloatArray, ridge: float) -> FloatArray:
        K, M = self.problem.gram, self.problem.n_points
        buffer = np.zeros((self.problem.n_classes, M))
        at = face.label * M + face.row

        def hessian(v: FloatArray) -> FloatArray:
            buffer.ravel()[at] = v
            return face.centre((buffer @ K).ravel()[at]) + ridge * v

        def precondition(v: FloatArray) -> FloatArray:
            buffer.ravel()[at] = v
            solved = cholesky_solve(self._gram_factor(ridge), buffer.T)
            return face.centre(solved.T.ravel()[at])

        step, residual = np.zeros(len(at)), -slopes
        target = CG_TOL * np.linalg.norm(residual)
        z = precondition(residual)
        direction, rz = z, residual @ z
        for iteration in range(1, CG_MAX_ITER + 1):
            H_direction = hessian(direction)
            curvature = direction @ H_direction
            if curvature <= 0:
                raise NotPositiveDefiniteError
            step += (rz / curvature) * direction
            residual -= (rz / curvature) * H_direction
            self.work = 4.0 * iteration * M**2 * self.problem.n_classes
            if np.linalg.norm(residual) <= target:
                break
            z = precondition(residual)
            rz, previous = residual @ z, rz
            direction = z + (rz / previous) * direction
        return step

    def _gram_factor(self, ridge: float) -> FloatArray:
        """A Cholesky factor of K + ridge I; an old one serves while its ridge is similar."""
        if self._factor is None or not 0.1 <= self._factor_ridge / ridge <= 10.0:
            self._factor = None
            self._factor = cholesky(self.problem.gram.copy(), ridge)
            self._factor_ridge = ridge
        return self._factor


def _null_space_step(
    K: FloatArray,
    position: IntArray,
    label: IntArray,
    sizes: IntArray,
    g: FloatArray,
    ridge: float,
) -> FloatArray:
    """The step of groups with rows `position` of K, in the directions e_l - e_l0 of each.

    Positions ascend, so only the upper triangle of K is read.
    """
    starts = np.cumsum(sizes) - sizes
    first = np.repeat(starts, sizes)
    other = np.flatnonzero(np.arange(len(label)) != first)
    first = first[other]
    H = np.empty((len(other), len(other)))
    fill_hessian(K, position[other], label[other], label[first], H)
    z = -cholesky_solve(cholesky(H, ridge), g[other] - g[first])
    step = np.zeros(len(label))
    step[other] = z
    np.subtract.at(step, first, z)
    return step


def cholesky(A: FloatArray, ridge: float) -> FloatArray:
    """The lower factor of A + ridge I, in place; A is C-ordered, its upper triangle is read."""
    factor = A.T
    factor.flat[:: len(A) + 1] += ridge
    if len(A) == 0:
        return factor
    factor, info = lapack.dpotrf(factor, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise NotPositiveDefiniteError
    return factor


def cholesky_solve(factor: FloatArray, b: FloatArray) -> FloatArray:
    """(factor factor')^-1 b."""
    return lapack.dpotrs(factor, b, lower=1)[0] if len(factor) else b
