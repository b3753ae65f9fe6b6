"""Faces of the dual: which variables are free at a point, and how far they may go.

The *face* holds every bound of `problem.py` that is met with equality, and the sign of every
universum variable that the kink at 0 separates (Delta > 0). What is left are free variables
(l, i) in *groups*, each inside one row, whose sum is fixed: a row has one group, except that a
row on the boundary of the "max" loss's set has two, its positive and its negative labels. On the
face D is a quadratic with gradient

    g_il = F_il - [l = y_i] + Delta [universum, alpha_il > 0].

A row of a group with k free labels can move in k - 1 *directions* e_l - e_l0, l0 the first label
of the group.

alpha is class-major here, (L, M); stacks of problems are (T, L, M).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.dual._faces import fill_hessian, project_groups
from musvm.dual.problem import AT_BOUND, DualRows, at_bound

CodeArray = NDArray[np.int8]


def group_codes(free: BoolArray, second: BoolArray, *, smallest: int = 2) -> CodeArray:
    """The group of every free variable, 1, or 2 in the second group of a row; 0 elsewhere.

    Arrays are (..., L, M). A variable that is alone in its group cannot move: it belongs to none,
    unless groups of one are wanted.
    """
    codes = np.zeros(free.shape, dtype=np.int8)
    for code, members in ((1, free & ~second), (2, free & second)):
        if members.any():
            codes[members & (members.sum(axis=-2, keepdims=True) >= smallest)] = code
    return codes


class Variables(NamedTuple):
    """The variables of all groups of a stack, sorted by problem, row and group.

    problem, label, row : (f,) indices
    second : (f,) whether the variable is in the second group of its row
    starts : (G + 1,) group g is the slice starts[g]:starts[g + 1]
    """

    problem: IntArray
    label: IntArray
    row: IntArray
    second: BoolArray
    starts: IntArray


def variables_of(codes: CodeArray) -> Variables:
    """The variables of the groups that codes, (T, L, M), tell of."""
    problem, row, label = np.nonzero(codes.transpose(0, 2, 1))
    second = codes[problem, label, row] == 2
    key = 2 * (problem * codes.shape[2] + row) + second
    if second.any():
        order = np.argsort(key, kind="stable")
        problem, label, row = problem[order], label[order], row[order]
        second, key = second[order], key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    return Variables(problem, label, row, second, np.append(first, len(key)))


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

    def codes(self, n_labels: int, n_rows: int) -> CodeArray:
        """`group_codes` of the face, (L, M)."""
        row_of_group = self.row[self.starts[:-1]]
        is_second = np.r_[False, row_of_group[1:] == row_of_group[:-1]]
        codes = np.zeros((n_labels, n_rows), dtype=np.int8)
        codes[self.label, self.row] = 1 + is_second[self.group]
        return codes


@dataclass(frozen=True)
class Directions:
    """e_plus - e_minus in row `row` of a matrix, for every direction.

    `towards` and `away` are the places of the two variables in the list that the directions were
    made of.
    """

    row: IntArray
    plus: IntArray
    minus: IntArray
    towards: IntArray
    away: IntArray

    @classmethod
    def of(cls, row: IntArray, label: IntArray, sizes: IntArray) -> Directions:
        """Those of variables (row, label), sorted by groups of the given sizes."""
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        towards = np.flatnonzero(np.arange(len(row)) != starts)
        away = starts[towards]
        return cls(row[towards], label[towards], label[away], towards, away)

    def __len__(self) -> int:
        return len(self.row)

    def along(self, values: FloatArray) -> FloatArray:
        """The derivatives along the directions, from those by the variables."""
        return values[self.towards] - values[self.away]

    def change(self, coefficients: FloatArray, n_variables: int) -> FloatArray:
        """The change of the variables when every direction is taken so far."""
        change = np.zeros(n_variables)
        change[self.towards] = coefficients
        np.subtract.at(change, self.away, coefficients)
        return change

    def hessian(self, K: FloatArray) -> FloatArray:
        """The second derivatives of 1/2 <x, K x> in the upper triangle, zeros below.

        Where rows ascend, only the upper triangle of K is read.
        """
        H = np.zeros((len(self), len(self)))
        fill_hessian(K, self.row, self.plus, self.minus, H)
        return H

    def matrix(self, n_rows: int, n_labels: int) -> sp.csr_array:
        """Z, (n_labels n_rows, p): coefficients of the directions to class-major changes."""
        p = len(self)
        at = np.concatenate([self.plus * n_rows + self.row, self.minus * n_rows + self.row])
        signs, column = np.repeat([1.0, -1.0], p), np.tile(np.arange(p), 2)
        return sp.csr_array((signs, (at, column)), shape=(n_labels * n_rows, p))


def find_face(rows: DualRows, alpha: FloatArray) -> Face:
    """The face of a feasible class-major alpha, (L, M)."""
    n, L, caps = rows.n_train, rows.n_classes, rows.caps
    tiny = at_bound(caps, alpha)
    lower = np.where(alpha < 0, -(L - 1) * caps, 0.0)
    upper = np.where(alpha > 0, caps, 0.0)
    free = np.abs(alpha) > tiny
    second = np.zeros(alpha.shape, dtype=bool)
    below_cap = alpha < caps - tiny

    own = rows.y, np.arange(n)
    free[own] &= below_cap[own]

    universum = alpha[:, n:]
    if rows.is_max:
        inside = np.maximum(universum, 0.0).sum(axis=0) < (caps - tiny)[n:]
        second[:, n:] = ~inside & (universum < 0)
    else:
        inside = np.ones(len(caps) - n, dtype=bool)
    if rows.delta == 0:
        free[:, n:] |= inside
        lower[:, n:] = np.where(inside, -(L - 1) * caps[n:], lower[:, n:])
        upper[:, n:] = np.where(inside, caps[n:], upper[:, n:])
    if not rows.is_max:
        free[:, n:] &= below_cap[:, n:]
    return _face_of(alpha, group_codes(free, second), lower, upper)


def _face_of(alpha: FloatArray, codes: CodeArray, lower: FloatArray, upper: FloatArray) -> Face:
    """The variables that codes, (L, M), tell of, with their bounds and sums."""
    _, label, row, _, starts = variables_of(codes[None])
    sizes = np.diff(starts)
    group = np.repeat(np.arange(len(sizes)), sizes)
    values = alpha[label, row]
    totals = np.add.reduceat(values, starts[:-1]) if len(sizes) else np.empty(0)
    return Face(label, row, group, starts, lower[label, row], upper[label, row], totals)


def gradient(rows: DualRows, alpha: FloatArray, F: FloatArray) -> FloatArray:
    """g above, class-major, (L, M)."""
    n = rows.n_train
    g = F.copy()
    g[rows.y, np.arange(n)] -= 1.0
    if rows.delta > 0:
        g[:, n:] += rows.delta * (alpha[:, n:] > 0)
    return g


def move(rows: DualRows, face: Face, alpha: FloatArray, step: FloatArray) -> FloatArray:
    """alpha + step, projected back onto the closure of the face."""
    values = face.values(alpha) + step
    project_groups(values, face.lower, face.upper, face.totals, face.starts)
    return _with_values(rows, face, alpha, values)


def room(rows: DualRows, face: Face, alpha: FloatArray, step: FloatArray) -> float:
    """The largest t <= 1 for which alpha + t step stays on the closure of the face."""
    values = face.values(alpha)
    distance = np.where(step < 0, face.lower, face.upper) - values
    # A step of next to nothing is never too long, by however much.
    with np.errstate(over="ignore"):
        limits = np.divide(distance, step, out=np.ones_like(step), where=np.abs(step) > 0)
    t = float(np.clip(limits.min(initial=1.0), 0.0, 1.0))
    if rows.is_max:
        t = _room_in_mass(rows, face, alpha, step, t)
    return t


def _room_in_mass(
    rows: DualRows, face: Face, alpha: FloatArray, step: FloatArray, t: float
) -> float:
    """The same for 1/2 ||a||_1 <= cap: Newton from above on a convex, piecewise linear mass."""
    n = rows.n_train
    direction = np.zeros_like(alpha)
    direction[face.label, face.row] = step
    a, d, caps = alpha[:, n:], direction[:, n:], rows.caps[n:]
    while True:
        moved = a + t * d
        excess = np.maximum(moved, 0.0).sum(axis=0) - caps
        slope = np.where(moved > 0, d, 0.0).sum(axis=0)
        over = (excess > AT_BOUND * caps) & (slope > 0)
        if not over.any() or t == 0.0:
            return t
        t = max(min(t - float((excess[over] / slope[over]).max()), t * (1 - 1e-15)), 0.0)


def snap(
    rows: DualRows, face: Face, alpha: FloatArray, step: FloatArray, reach: float
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
    return _with_values(rows, face, alpha, values)


def _with_values(rows: DualRows, face: Face, alpha: FloatArray, values: FloatArray) -> FloatArray:
    moved = alpha.copy()
    moved[face.label, face.row] = values
    if rows.is_max:
        # The set of the "max" loss is no box: shrink the rows that left it towards 0.
        n = rows.n_train
        mass = np.maximum(moved[:, n:], 0.0).sum(axis=0)
        moved[:, n:] *= np.minimum(1.0, rows.caps[n:] / np.maximum(mass, rows.caps[n:]))
    return moved
