"""Faces of the dual: which variables are free at a point, and how far they may go.

The *face* holds every bound of `problem.py` that is met with equality, and the sign of every
universum variable that the kink at 0 separates (Delta > 0). What is left are free variables
(l, i) in *groups*, each inside one row, whose sum is fixed: a row has one group, except that a
row on the boundary of the "max" loss's set has two, its positive and its negative labels. On the
face D is a quadratic with gradient

    g_il = F_il - [l = y_i] + Delta [universum, alpha_il > 0].

alpha is class-major here, (L, M).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from musvm.dual._faces import project_groups
from musvm.dual.problem import FloatArray, IntArray, Rows

# A bound is met when the variable is this close to it, relative to the row's cap.
AT_BOUND = 1e-12


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

    def compact(self) -> tuple[IntArray, Face]:
        """The rows with free variables, ascending, and the face of these rows alone."""
        is_next = np.diff(self.row, prepend=-1) > 0
        return self.row[is_next], replace(self, row=np.cumsum(is_next) - 1)

    def centre(self, values: FloatArray) -> FloatArray:
        """The values less the mean of their group."""
        means = np.add.reduceat(values, self.starts[:-1]) / self.sizes
        return values - np.repeat(means, self.sizes)

    def values(self, matrix: FloatArray) -> FloatArray:
        """The entries of a class-major matrix at the free variables."""
        return matrix[self.label, self.row]


def find_face(problem: Rows, alpha: FloatArray) -> Face:
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
        inside = np.ones(len(caps) - n, dtype=bool)
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
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    counts = np.diff(firsts, append=len(key))
    keep = np.repeat(counts > 1, counts)
    row, label = row[keep], label[keep]
    sizes = counts[counts > 1]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    group = np.repeat(np.arange(len(sizes)), sizes)
    values = alpha[label, row]
    totals = np.add.reduceat(values, starts[:-1]) if len(sizes) else np.empty(0)
    return Face(label, row, group, starts, lower[label, row], upper[label, row], totals)


def gradient(problem: Rows, alpha: FloatArray, F: FloatArray) -> FloatArray:
    """g above, class-major, (L, M)."""
    n = problem.n_train
    g = F.copy()
    g[problem.y, np.arange(n)] -= 1.0
    if problem.delta > 0:
        g[:, n:] += problem.delta * (alpha[:, n:] > 0)
    return g


def move(problem: Rows, face: Face, alpha: FloatArray, step: FloatArray) -> FloatArray:
    """alpha + step, projected back onto the closure of the face."""
    values = face.values(alpha) + step
    project_groups(values, face.lower, face.upper, face.totals, face.starts)
    return _with_values(problem, face, alpha, values)


def room(problem: Rows, face: Face, alpha: FloatArray, step: FloatArray) -> float:
    """The largest t <= 1 for which alpha + t step stays on the closure of the face."""
    values = face.values(alpha)
    distance = np.where(step < 0, face.lower, face.upper) - values
    limits = np.divide(distance, step, out=np.ones_like(step), where=np.abs(step) > 0)
    t = float(np.clip(limits.min(initial=1.0), 0.0, 1.0))
    if problem.universum_loss == "max":
        t = _room_in_mass(problem, face, alpha, step, t)
    return t


def _room_in_mass(
    problem: Rows, face: Face, alpha: FloatArray, step: FloatArray, t: float
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
    problem: Rows, face: Face, alpha: FloatArray, step: FloatArray, reach: float
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


def _with_values(problem: Rows, face: Face, alpha: FloatArray, values: FloatArray) -> FloatArray:
    moved = alpha.copy()
    moved[face.label, face.row] = values
    if problem.universum_loss == "max":
        # The set of the "max" loss is no box: shrink the rows that left it towards 0.
        n = problem.n_train
        mass = np.maximum(moved[:, n:], 0.0).sum(axis=0)
        moved[:, n:] *= np.minimum(1.0, problem.caps[n:] / np.maximum(mass, problem.caps[n:]))
    return moved
