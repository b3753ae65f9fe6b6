"""The optimum on given active sets, for a stack of left-out problems.

From a point b with the held variables at their values (`active.nearest_feasible`), the step to
the optimum over the free ones minimises 1/2 <x, K x> + <s, x> over x whose groups sum to zero, s
the slopes at b. On the face of the *fitted* solution, the base, that step is a product with
matrices that are inverted once for all (`reduced.py`): with v the slopes of the rows A less their
means, G = K_AA^-1 and B = (Z' S Z)^-1,

    w = -B Z' (s_R - W' v),      x_R = Z w,      x_A = -G v - W x_R.

The face of a left-out problem differs from the base by a few labels. Those that are free in the
base only are held by multipliers nu, and those that are free here only add directions y:

    C nu + D y = (x of the base, held labels)           x = (x of the base) - (answer to nu and y)
    D' nu - E y = (its slope along the new directions)

is a small system. With phi the force of a multiplier or of a new direction on the base directions
Z, and up to terms of G and W for rows of A, C = phi' B phi and D = phi' B phi', and E is the
Schur complement H - phi' B phi of the new directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from musvm.dual.problem import DualProblem, FloatArray, IntArray
from musvm.loo.active import NEGATIVE, POSITIVE, ActiveSets, BoolArray, StateArray, own_labels
from musvm.loo.reduced import Reduced

# Beyond as many changes as this, or as the base has directions, there is little left of the base.
MAX_CHANGES = 200
# A step is too long when a variable moves by this many times its cap.
FAR = 1e4


def product(stack: FloatArray, K: FloatArray) -> FloatArray:
    """Every matrix of a stack (T, L, .) times K, as one matrix product."""
    T, L, M = stack.shape
    return (stack.reshape(T * L, M) @ K).reshape(T, L, K.shape[1])


def group_codes(sets: ActiveSets) -> StateArray:
    """(T, L, M): 1, or 2 for the NEGATIVE labels of a split row, where a label can move; else 0.

    Labels with the same code in a row form a group. A label that is alone in its group is fixed
    by the group's sum.
    """
    m = sets.split.shape[1]
    second = np.zeros(sets.state.shape, dtype=bool)
    if m:
        second[..., -m:] = sets.split[:, None] & (sets.state[..., -m:] == NEGATIVE)
    codes = np.zeros(sets.state.shape, dtype=np.int8)
    for code, members in ((1, sets.free & ~second), (2, second)):
        codes[members & (members.sum(axis=1, keepdims=True) > 1)] = code
    return codes


@dataclass(frozen=True)
class Changes:
    """How the faces of a stack differ from the base; every array is sorted by problem.

    held : problem, label and row of the base labels of R to be held
    new : problem, label, reference label and row of the new directions of R
    blocks : problem, index in A, and (., L) labels whose sum is to be held
    """

    held: tuple[Any, ...]
    new: tuple[Any, ...]
    blocks: tuple[Any, ...]

    def count(self, n_problems: int) -> IntArray:
        """The number of changes of each problem, (T,)."""
        problems = np.concatenate([self.held[0], self.new[0], self.blocks[0]])
        return np.bincount(problems, minlength=n_problems)

    def select(self, problems: BoolArray) -> Changes:
        """The changes of some of the problems."""
        parts = (self.held, self.new, self.blocks)
        return Changes(*(tuple(array[problems[part[0]]] for array in part) for part in parts))


class StackedNewton:
    """Steps for left-out problems close to the fitted solution, whose states are `base`."""

    def __init__(
        self, problem: DualProblem, reduced: Reduced, inverse: FloatArray, base: ActiveSets
    ) -> None:
        self.problem = problem
        self.reduced = reduced
        self._B, self._G = inverse, reduced.inverse_eliminated()
        self._base = group_codes(base)[0]
        L, d = problem.n_classes, reduced.directions
        self._Z = d.matrix(len(reduced.kept), L)
        labels = np.eye(L)
        self._labels = labels[:, d.plus] - labels[:, d.minus]

    def step(self, sets: ActiveSets, F: FloatArray) -> tuple[FloatArray, BoolArray]:
        """x for every problem, (T, L, M), F the decision values at b; and where it is of use.

        It is not where the face differs too much from the base, or where K is singular on it, so
        that the step leads far away.
        """
        reduced, n, T = self.reduced, self.problem.n_train, len(F)
        slopes = F.copy()
        slopes[..., :n] -= own_labels(self.problem)
        slopes[..., n:] += self.problem.delta * (sets.state[..., n:] == POSITIVE)
        A, R = reduced.eliminated, reduced.kept
        v = slopes[..., A] - slopes[..., A].mean(axis=1, keepdims=True)
        s_R = slopes[..., R] - product(v, reduced.W)
        w = -(s_R.reshape(T, -1) @ self._Z) @ self._B
        x_A = self._answer(v, self._spread(w))

        moves = np.zeros_like(s_R)
        changes = self._changes(group_codes(sets))
        usable = changes.count(T) <= max(MAX_CHANGES, len(reduced.directions))
        corrections = _Corrections(self, changes.select(usable))
        for k in np.flatnonzero(usable).tolist():
            corrections.apply(k, w[k], moves[k], v[k], s_R[k], x_A[k])
        x = np.empty_like(slopes)
        x[..., R] = self._spread(w) + moves
        x[..., A] = self._answer(v, x[..., R])
        usable &= (np.abs(x) <= FAR * self.problem.caps).all(axis=(1, 2))
        return x, usable

    def _spread(self, w: FloatArray) -> FloatArray:
        return (w @ self._Z.T).reshape(len(w), self.problem.n_classes, -1)

    def _answer(self, v: FloatArray, x_R: FloatArray) -> FloatArray:
        return -product(v, self._G) - product(x_R, self.reduced.W.T)

    def _changes(self, codes: StateArray) -> Changes:
        R, A = self.reduced.kept, self.reduced.eliminated
        held: list[tuple[Any, ...]] = []
        new: list[tuple[Any, ...]] = []
        for code in (1, 2):
            before, after = self._base[:, R] == code, codes[..., R] == code
            if not (before.any() or after.any()):
                continue
            both = before & after
            common = both.any(axis=1)
            lost, gained = before & ~after, after & ~before
            # The sum of a group is held already, so one label less if none stays free.
            _unset_first(lost, ~common)
            reference = np.where(common, both.argmax(axis=1), after.argmax(axis=1))
            _unset_first(gained, ~common)
            held.append(np.nonzero(lost))
            k, label, row = np.nonzero(gained)
            new.append((k, label, reference[k, row], row))
        return Changes(_joined(held, 3), _joined(new, 4), _blocks(codes[..., A]))


def _unset_first(mask: BoolArray, rows: BoolArray) -> None:
    """Clear the first label that is set, in the given rows."""
    k, row = np.nonzero(rows & mask.any(axis=1))
    mask[k, mask[k, :, row].argmax(axis=1), row] = False


def _blocks(codes: StateArray) -> tuple[Any, ...]:
    """The labels whose sums are held in rows of A: single ones, and the second of two groups."""
    lost, second = codes == 0, (codes == 2).any(axis=1)
    without = ~(codes == 1).any(axis=1)
    _unset_first(lost, without & ~second)
    k, label, row = np.nonzero(lost)
    k2, row2 = np.nonzero(second & ~without)
    vectors = np.concatenate(
        [np.eye(codes.shape[1])[label], (codes[k2, :, row2] == 2).astype(float)]
    )
    return _joined([(k, row, vectors[: len(k)]), (k2, row2, vectors[len(k) :])], 3)


def _joined(parts: list[tuple[Any, ...]], n_arrays: int) -> tuple[Any, ...]:
    """The arrays of all parts together, sorted by the first of them."""
    if not parts:
        return (np.empty(0, dtype=np.intp),) * n_arrays
    arrays = [np.concatenate(group) for group in zip(*parts, strict=True)]
    order = np.argsort(arrays[0], kind="stable")
    return tuple(array[order] for array in arrays)


class _Corrections:
    """The small systems of one stack.

    Forces on the base directions, and the base's answers to them, are computed once for every
    variable, (row, label), that is needed anywhere in the stack.
    """

    def __init__(self, newton: StackedNewton, changes: Changes) -> None:
        self.newton = newton
        self.changes = changes
        reduced, along = newton.reduced, newton.reduced.directions.row
        n_R, labels = len(reduced.kept), newton._labels

        _, label, reference, row = changes.new
        keys = np.concatenate([label * n_R + row, reference * n_R + row])
        keys, self._new_at = np.unique(keys, return_inverse=True)
        self._new_force = labels[keys // n_R] * reduced.S[np.ix_(keys % n_R, along)]
        self._new_answer = self._new_force @ newton._B

        index, self._block_at = np.unique(changes.blocks[1], return_inverse=True)
        self._block_force = -labels * reduced.W[np.ix_(index, along)][:, None]
        self._block_answer = self._block_force @ newton._B

    def apply(
        self,
        k: int,
        w: FloatArray,
        moves: FloatArray,
        v: FloatArray,
        s_R: FloatArray,
        x_A: FloatArray,
    ) -> None:
        """Correct the base step (w, v) of problem k in place, and note the moves of new labels."""
        held, blocks, new = (
            slice(*np.searchsorted(part[0], [k, k + 1]))
            for part in (self.changes.held, self.changes.blocks, self.changes.new)
        )
        index, sums = self.changes.blocks[1][blocks], self.changes.blocks[2][blocks]
        _, label, reference, row = (array[new] for array in self.changes.new)
        force, answer = self._forces(held, blocks, new)
        system = self._system(force @ answer.T, index, sums, label, reference, row)
        if not len(system):
            return
        rhs = force @ w
        n_new, n_held = len(row), len(rhs) - len(row) - len(index)
        rhs[n_held : len(rhs) - n_new] = np.einsum("bl,lb->b", sums, x_A[:, index])
        rhs[len(rhs) - n_new :] += s_R[label, row] - s_R[reference, row]
        solved = _solve_scaled(system, rhs)
        w -= solved @ answer
        nu, y = solved[n_held : len(rhs) - n_new], solved[len(rhs) - n_new :]
        np.add.at(v.T, index, nu[:, None] * (sums - sums.mean(axis=1, keepdims=True)))
        moves[label, row] = y
        np.subtract.at(moves, (reference, row), y)

    def _forces(self, held: slice, blocks: slice, new: slice) -> tuple[FloatArray, FloatArray]:
        """phi and B phi, one row for each held label, held sum and new direction."""
        newton = self.newton
        _, label, row = (array[held] for array in self.changes.held)
        at_held = newton._Z[label * len(newton.reduced.kept) + row]
        at, sums = self._block_at[blocks], self.changes.blocks[2][blocks]
        plus, minus = (part[new] for part in np.split(self._new_at, 2))
        force, answer = self._new_force, self._new_answer
        return (
            np.concatenate([
                at_held.toarray(),
                np.einsum("bl,blp->bp", sums, self._block_force[at]),
                force[plus] - force[minus],
            ]),
            np.concatenate([
                at_held @ newton._B,
                np.einsum("bl,blp->bp", sums, self._block_answer[at]),
                answer[plus] - answer[minus],
            ]),
        )  # fmt: skip

    def _system(
        self,
        system: FloatArray,
        index: IntArray,
        sums: FloatArray,
        label: IntArray,
        reference: IntArray,
        row: IntArray,
    ) -> FloatArray:
        """Add to phi' B phi what rows of A and the new directions have besides."""
        reduced, G = self.newton.reduced, self.newton._G
        n_new, n_held = len(row), len(system) - len(row) - len(index)
        A, N = slice(n_held, n_held + len(index)), slice(len(system) - n_new, len(system))
        unit = np.eye(self.newton.problem.n_classes)
        directions = unit[label] - unit[reference]
        centred = sums - sums.mean(axis=1, keepdims=True)
        across = reduced.W[np.ix_(index, row)] * (sums @ directions.T)
        system[A, A] += G[np.ix_(index, index)] * (centred @ centred.T)
        system[A, N] += across
        system[N, A] += across.T
        system[N, N] -= reduced.S[np.ix_(row, row)] * (directions @ directions.T)
        return system


def _solve_scaled(system: FloatArray, rhs: FloatArray) -> FloatArray:
    """Solve a symmetric system whose rows may be of very different sizes; NaN if it is singular."""
    scale = np.sqrt(np.abs(system.diagonal()))
    scale[scale == 0] = 1.0
    try:
        solved = np.linalg.solve(system / np.outer(scale, scale), rhs / scale)
    except np.linalg.LinAlgError:
        return np.full_like(rhs, np.nan)
    return solved / scale
