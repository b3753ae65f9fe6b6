"""Which variables are free, for many left-out problems at once, and how that set is improved.

Every variable alpha_il is in one of four states:

    NEGATIVE   free, below 0
    ZERO       held at 0
    POSITIVE   free, above 0, or of either sign where 0 is no kink (universum, Delta = 0)
    CAPPED     held at the row's cap

With the states given, the optimum is a linear system. It has a multiplier lambda for each row,
and the states are right if and only if no free variable has left its range and no held one would
gain from moving. With g_il = F_il - [l = y_i], and Delta = 0 in training rows:

    NEGATIVE -> ZERO      alpha > 0                 ZERO -> NEGATIVE      g - lambda > 0
    POSITIVE -> ZERO      alpha < 0                 ZERO -> POSITIVE      g - lambda < -Delta
    POSITIVE -> CAPPED    alpha > cap               CAPPED -> POSITIVE    g - lambda > -Delta

Making all these moves at once and solving again is the primal-dual active-set method, a
semismooth Newton method. Close to a solution it takes a few steps.

A universum row of the "max" loss that meets 1/2 |a|_1 = cap is *split*: its POSITIVE variables
add up to cap and its NEGATIVE ones to -cap, and Delta grows by the multiplier mu of that bound,
which must not be negative.

Arrays are stacks of class-major matrices, (T, L, M): one problem for each of T points left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.dual._faces import project_groups
from musvm.dual.faces import CodeArray, group_codes, variables_of
from musvm.dual.problem import AT_BOUND, DualRows, at_bound

NEGATIVE, ZERO, POSITIVE, CAPPED = -1, 0, 1, 2
StateArray = NDArray[np.int8]

# Decision values are of the order of the margin, 1.
SLOPE_TOL = 1e-10


@dataclass(frozen=True)
class ActiveSets:
    """state : (T, L, M); split : (T, m), universum rows only."""

    state: StateArray
    split: BoolArray

    @property
    def free(self) -> BoolArray:
        return (self.state & 1).view(np.bool_)  # the two odd states

    def group_codes(self, *, smallest: int = 2) -> CodeArray:
        """(T, L, M): the groups of free labels; the negative ones of split rows are second."""
        second = np.zeros(self.state.shape, dtype=bool)
        m = self.split.shape[1]
        if m:
            second[..., -m:] = self.split[:, None] & (self.state[..., -m:] == NEGATIVE)
        return group_codes(self.free, second, smallest=smallest)

    def select(self, which: BoolArray | IntArray) -> ActiveSets:
        return ActiveSets(self.state[which], self.split[which])

    def without(self, points: IntArray) -> ActiveSets:
        """A stack of one, repeated with each of the given points left out."""
        stack = self.select(np.zeros(len(points), dtype=np.intp))
        stack.state[np.arange(len(points)), :, points] = ZERO
        return stack


@dataclass(frozen=True)
class FreeVariables:
    """The free variables of a stack in the order of their groups.

    problem, label, row : (f,) indices of the variables
    starts : (G + 1,) group g is the slice starts[g]:starts[g + 1]
    totals : (G,) the sum that each group has to keep
    """

    problem: IntArray
    label: IntArray
    row: IntArray
    starts: IntArray
    totals: FloatArray

    @property
    def at(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.problem, self.label, self.row


def own_labels(rows: DualRows) -> BoolArray:
    """(L, n), True at the label of each training point."""
    own: BoolArray = np.arange(rows.n_classes)[:, None] == rows.y
    return own


def active_sets(rows: DualRows, alpha: FloatArray) -> ActiveSets:
    """The states of a solution alpha, (L, M), as a stack of one."""
    n, caps = rows.n_train, rows.caps
    state, tiny = np.zeros(alpha.shape, dtype=np.int8), at_bound(caps, alpha)
    state[alpha < -tiny] = NEGATIVE
    state[alpha > tiny] = POSITIVE
    state[rows.y, np.arange(n)] = POSITIVE
    state[alpha >= caps - tiny] = CAPPED
    split = np.zeros(rows.n_points - n, dtype=bool)
    universum = state[:, n:]
    if rows.is_max:
        split = np.maximum(alpha[:, n:], 0.0).sum(axis=0) >= (caps - tiny)[n:]
        universum[universum == CAPPED] = POSITIVE
    if rows.delta == 0:
        universum[~split & (universum != CAPPED)] = POSITIVE
    return ActiveSets(state[None], split[None])


def improved(
    rows: DualRows, sets: ActiveSets, alpha: FloatArray, F: FloatArray, points: IntArray
) -> ActiveSets:
    """The states after all moves that the optimum (alpha, F) of the present ones asks for."""
    n, state = rows.n_train, sets.state.copy()
    tiny = at_bound(rows.caps, alpha)[:, None]
    of_training, of_universum = (alpha[..., :n], F[..., :n]), (alpha[..., n:], F[..., n:])
    _improve_training(rows, state[..., :n], *of_training, tiny[..., :n])
    split = _improve_universum(rows, state[..., n:], sets.split, *of_universum, tiny[..., n:])
    state[np.arange(len(points)), :, points] = ZERO
    return ActiveSets(state, split)


def _mean(values: FloatArray, where: BoolArray, default: FloatArray | float = 0.0) -> FloatArray:
    """Means over the labels where `where` holds; the default where it holds nowhere."""
    count = where.sum(axis=1)
    total = np.where(where, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), default)


def _improve_training(
    rows: DualRows, state: StateArray, alpha: FloatArray, F: FloatArray, tiny: FloatArray
) -> None:
    own, caps = own_labels(rows), rows.caps[: rows.n_train]
    negative, positive, capped = state == NEGATIVE, state == POSITIVE, state == CAPPED
    g = F - own
    gain = g - _mean(g, negative | positive)[:, None] > SLOPE_TOL
    state[negative & (alpha > tiny)] = ZERO
    state[~(negative | positive | capped) & gain] = NEGATIVE
    state[positive & (alpha > caps + tiny)] = CAPPED
    state[capped & gain] = POSITIVE
    # A row at its cap needs a label to take the mass from.
    stuck = (state == CAPPED).any(axis=1) & ~(state == NEGATIVE).any(axis=1)
    _set_best(state, stuck, np.where(own, -np.inf, g), NEGATIVE)


def _improve_universum(
    rows: DualRows,
    state: StateArray,
    split: BoolArray,
    alpha: FloatArray,
    F: FloatArray,
    tiny: FloatArray,
) -> BoolArray:
    """The same for universum rows; also returns which of them are split now."""
    delta, caps = rows.delta, rows.caps[rows.n_train :]
    negative, positive, capped = state == NEGATIVE, state == POSITIVE, state == CAPPED
    zero = ~(negative | positive | capped)
    middle = 0.5 * (F.max(axis=1) + F.min(axis=1) + delta)
    multiplier = _mean(F + delta * positive, negative | positive, middle)
    mu = np.zeros_like(multiplier)
    if split.any():
        of_negative = _mean(F, negative, multiplier)
        mu = np.where(split, of_negative - _mean(F + delta, positive, multiplier), 0.0)
        multiplier = np.where(split, of_negative, multiplier)
    reduced = F - multiplier[:, None]

    kinked = (split | (delta > 0))[:, None]
    kink = (delta + np.maximum(mu, 0.0))[:, None]
    state[kinked & negative & (alpha > tiny)] = ZERO
    state[kinked & positive & (alpha < -tiny)] = ZERO
    state[kinked & zero & (reduced > SLOPE_TOL)] = NEGATIVE
    state[kinked & zero & (reduced < -kink - SLOPE_TOL)] = POSITIVE
    if rows.is_max:
        return _bound_mass(rows, state, split, alpha, F, mu)
    state[positive & (alpha > caps + tiny)] = CAPPED
    state[capped & (reduced > -delta + SLOPE_TOL)] = POSITIVE
    capped = state == CAPPED
    stuck = capped.any(axis=1) & ~((state == NEGATIVE) | (state == POSITIVE)).any(axis=1)
    _set_best(state, stuck, np.where(capped, -np.inf, F), NEGATIVE if delta > 0 else POSITIVE)
    return split


def _bound_mass(
    rows: DualRows,
    state: StateArray,
    split: BoolArray,
    alpha: FloatArray,
    F: FloatArray,
    mu: FloatArray,
) -> BoolArray:
    """Split the rows of the "max" loss that left 1/2 |a|_1 <= cap; release those held in vain."""
    caps = rows.caps[rows.n_train :]
    over = ~split & (np.maximum(alpha, 0.0).sum(axis=1) > (1.0 + AT_BOUND) * caps)
    released = split & (mu < -SLOPE_TOL)
    if rows.delta == 0:
        np.copyto(state, np.sign(alpha).astype(np.int8), where=over[:, None])
        np.copyto(state, np.int8(POSITIVE), where=released[:, None])
    split = (split | over) & ~released
    _set_best(state, split & ~(state == POSITIVE).any(axis=1), -F, POSITIVE)
    _set_best(state, split & ~(state == NEGATIVE).any(axis=1), F, NEGATIVE)
    return split


def _set_best(state: StateArray, rows: BoolArray, score: FloatArray, value: int) -> None:
    """Give the label of the highest score the state `value`, in the given rows."""
    k, row = np.nonzero(rows)
    state[k, score[k, :, row].argmax(axis=1), row] = value


def free_variables(rows: DualRows, sets: ActiveSets) -> FreeVariables:
    """The free variables in groups: one for each row, two for a split one."""
    k, label, row, second, starts = variables_of(sets.group_codes(smallest=1))
    first, n = starts[:-1], rows.n_train
    is_split = np.zeros(len(first), dtype=bool)
    universum = row[first] >= n
    is_split[universum] = sets.split[k[first][universum], row[first][universum] - n]
    n_capped = (sets.state == CAPPED).sum(axis=1)[k[first], row[first]]
    share = np.where(is_split, np.where(second[first], -1.0, 1.0), -n_capped)
    return FreeVariables(k, label, row, starts, share * rows.caps[row[first]])


def nearest_feasible(
    rows: DualRows, sets: ActiveSets, alpha: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """alpha with the held variables at their values and the free ones moved into their ranges.

    Also tells for which problems of the stack that is feasible. Where the ranges do not allow
    the sum that a group has to keep, the sum is kept and the ranges are not.
    """
    variables = free_variables(rows, sets)
    first, sizes = variables.starts[:-1], np.diff(variables.starts)
    lower, upper = _ranges(rows, sets, variables)
    values = alpha[variables.at]
    project_groups(values, lower, upper, variables.totals, variables.starts)

    missing = variables.totals - np.add.reduceat(values, first) if len(first) else np.empty(0)
    tiny = at_bound(rows.caps, alpha)[variables.problem[first], variables.row[first]]
    broken = np.abs(missing) > tiny
    values += np.repeat(np.where(broken, missing, 0.0) / sizes, sizes)
    near = np.where(sets.state == CAPPED, rows.caps, 0.0)
    near[variables.at] = values
    feasible = np.ones(len(near), dtype=bool)
    feasible[variables.problem[first[broken]]] = False
    if rows.is_max:
        # The set is no box; a row that is not split may still be shrunk towards 0.
        universum, bounds = near[..., rows.n_train :], rows.caps[rows.n_train :]
        mass = np.maximum(universum, 0.0).sum(axis=1)
        universum *= np.where(sets.split, 1.0, bounds / np.maximum(mass, bounds))[:, None]
    return near, feasible


def _ranges(
    rows: DualRows, sets: ActiveSets, variables: FreeVariables
) -> tuple[FloatArray, FloatArray]:
    """The ranges of free variables: one side of 0, or both where 0 is no kink."""
    k, row, n = variables.problem, variables.row, rows.n_train
    state = sets.state[variables.at]
    both = (row >= n) & (rows.delta == 0)
    both[both] = ~sets.split[k[both], row[both] - n]
    deepest = -(rows.n_classes - 1) * rows.caps[row]
    lower = np.where((state == NEGATIVE) | both, deepest, 0.0)
    return lower, np.where(state == POSITIVE, rows.caps[row], 0.0)
