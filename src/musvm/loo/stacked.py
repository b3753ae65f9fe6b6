"""The optimum on given active sets, for a stack of left-out problems.

From a point b with the held variables at their values (`active.nearest_feasible`), the step to
the optimum over the free ones minimises 1/2 <x, K x> + <s, x> over x whose groups sum to zero, s
the slopes at b. On the face of the fitted solution, the base, that step is a product with
matrices that are inverted once for all (`reduced.py`): with v the slopes of the rows A less their
means, G = K_AA^-1 and B = (Z' S Z)^-1,

    w = -B Z' (s_R - W' v),      x_R = Z w,      x_A = -G v - W x_R.

The face of a left-out problem differs from the base by a few `changes`. Multipliers nu hold the
base's labels that are not free here, and new directions u_j in rows r_j move by y_j. Each of them
is a force phi on the base directions: Z' e_l in row i for a held label, -Z' (u W_a) for a held sum
u of a row a of A, and Z' (u S_r) for a new direction. The base answers with -B phi, and

    | phi' B phi + C |  (nu, y) = (x of the base, held; its slope along the new directions)

determines them, where C is 0 but for

    (u_a' u_b less means) G_ab    between sums,
    (u_a' u_r) W_ar               between a sum and a new direction,
    -(u_q' u_r) S_qr              between new directions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.dual.problem import DualProblem
from musvm.loo.active import POSITIVE, ActiveSets, own_labels
from musvm.loo.changes import HELD, HELD_SUM, NEW, Changes, find_changes, joined
from musvm.loo.reduced import Reduced

# Beyond as many changes as this, or as the base has directions, there is little left of the base.
MAX_CHANGES = 200
KEPT_ENTRIES = 2**21
# A step is of no use where a variable moves by more than so many times its cap.
LONGEST_MOVE = 1e4


def product(stack: FloatArray, K: FloatArray) -> FloatArray:
    """Every matrix of a stack (T, L, .) times K, as one matrix product."""
    T, L, M = stack.shape
    return (stack.reshape(T * L, M) @ K).reshape(T, L, K.shape[1])


class StackedNewton:
    """Steps for left-out problems close to the fitted solution, whose states are `base`."""

    def __init__(
        self, problem: DualProblem, reduced: Reduced, inverse: FloatArray, base: ActiveSets
    ) -> None:
        self.problem = problem
        self.reduced = reduced
        self._B, self._G = inverse, reduced.inverse_eliminated()
        self._base = base.group_codes()[0]
        self._Z = reduced.directions.matrix(len(reduced.kept), problem.rows.n_classes)
        self._responses = _Responses(reduced, inverse, self._G, problem.rows.n_classes)

    def step(self, sets: ActiveSets, F: FloatArray) -> tuple[FloatArray, BoolArray]:
        """x for every problem, (T, L, M), F the decision values at b; and where it is of use.

        It is not where the face differs too much from the base, or where K is singular on it, so
        that the step leads far away.
        """
        reduced, n, T = self.reduced, self.problem.rows.n_train, len(F)
        slopes = F.copy()
        slopes[..., :n] -= own_labels(self.problem.rows)
        slopes[..., n:] += self.problem.rows.delta * (sets.state[..., n:] == POSITIVE)
        A, R = reduced.eliminated, reduced.kept
        v = slopes[..., A] - slopes[..., A].mean(axis=1, keepdims=True)
        s_R = slopes[..., R] - product(v, reduced.W)
        w = -(s_R.reshape(T, -1) @ self._Z) @ self._B

        changes = find_changes(self._base, sets.group_codes(), reduced)
        usable = changes.count(T) <= max(MAX_CHANGES, len(reduced.directions))
        changes = changes[usable[changes.problem]]
        moves = self._correct(changes, w, v, s_R)
        x = np.empty_like(slopes)
        x[..., R] = self._in_rows(w) + moves
        x[..., A] = self._answer(v, x[..., R])
        usable &= (np.abs(x) <= LONGEST_MOVE * self.problem.rows.caps).all(axis=(1, 2))
        return x, usable

    def _in_rows(self, w: FloatArray) -> FloatArray:
        """The change of the kept rows when every direction is taken so far."""
        moves: FloatArray = w @ self._Z.T
        return moves.reshape(len(w), self.problem.rows.n_classes, -1)

    def _answer(self, v: FloatArray, x_R: FloatArray) -> FloatArray:
        return -product(v, self._G) - product(x_R, self.reduced.W.T)

    def _correct(
        self, changes: Changes, w: FloatArray, v: FloatArray, s_R: FloatArray
    ) -> FloatArray:
        """Correct the base steps (w, v) in place; return the moves of new directions."""
        known, T = self._responses, len(w)
        places = known.find(changes)
        is_sum, is_new = changes.kind == HELD_SUM, changes.kind == NEW
        rhs = (w @ known.forces.T)[changes.problem, places]
        rhs[is_sum] = _along(changes[is_sum], self._answer(v, self._in_rows(w)))
        rhs[is_new] += _along(changes[is_new], s_R)
        solved = np.empty(len(changes))
        for first, last in pairwise(np.searchsorted(changes.problem, np.arange(T + 1))):
            own = places[first:last]
            solved[first:last] = _solve_scaled(known.system[own[:, None], own], rhs[first:last])

        coefficients = np.zeros((T, len(known.forces)))
        coefficients[changes.problem, places] = solved
        w -= coefficients @ known.answers
        moves = np.zeros_like(s_R)
        for target, kind, which in ((v, HELD_SUM, is_sum), (moves, NEW, is_new)):
            part = changes[which]
            at: Any = part.problem, slice(None), part.row
            np.add.at(target, at, solved[which, None] * _free_part(part.vector, kind))
        return moves


def _along(changes: Changes, values: FloatArray) -> FloatArray:
    """The values (T, L, .) in the problem and the row of every change, along its vector."""
    at = values[changes.problem, :, changes.row]
    products: FloatArray = np.einsum("cl,cl->c", changes.vector, at)
    return products


def _free_part(vector: FloatArray, kind: int) -> FloatArray:
    """Sums less their means, because rows sum to zero."""
    return vector - vector.mean(axis=1, keepdims=True) if kind == HELD_SUM else vector


class _Responses:
    """What changes do to the base and to each other: `forces` phi, `answers` B phi, `system`.

    Left-out problems have many changes in common, so what was computed once is kept, up to the
    size of B, or 32 MB.
    """

    def __init__(self, reduced: Reduced, inverse: FloatArray, G: FloatArray, n_labels: int) -> None:
        self._reduced = reduced
        self._B, self._G = inverse, G
        unit, d = np.eye(n_labels), reduced.directions
        self._along = unit[:, d.plus] - unit[:, d.minus]
        p = len(inverse)
        self._limit = max(p // 2, int(np.sqrt(p**2 + KEPT_ENTRIES) - p))
        self._forget()

    def _forget(self) -> None:
        self._place: dict[Any, int] = {}
        nothing = np.empty(0, dtype=np.intp)
        self._known = Changes(nothing, nothing, nothing, np.empty((0, len(self._along))))
        self.forces = self.answers = np.empty((0, len(self._B)))
        self.system = np.empty((0, 0))

    def find(self, changes: Changes) -> IntArray:
        """The place of every change among the forces, the answers and in the system."""
        keys = _keys(changes)
        number = {key: k for k, key in enumerate(keys)}  # equal changes count once
        missing = sorted(number[key] for key in number.keys() - self._place.keys())
        if missing and len(self._place) + len(missing) > self._limit:
            self._forget()
            missing = sorted(number.values())
        if missing:
            self._place |= {keys[k]: len(self._known) + j for j, k in enumerate(missing)}
            self._add(changes[missing])
        return np.array([self._place[key] for key in keys], dtype=np.intp)

    def _add(self, changes: Changes) -> None:
        forces = self._force(changes)
        self._known = joined([self._known, changes])
        self.forces = np.concatenate([self.forces, forces])
        is_held = changes.kind == HELD
        self.answers = np.concatenate([self.answers, _sparse_product(forces, is_held, self._B)])
        old, rows = self.system, _sparse_product(forces, is_held, self.answers.T)
        rows += self._couplings(changes)
        self.system = np.empty((len(self._known), len(self._known)))
        self.system[: len(old), : len(old)] = old
        self.system[len(old) :] = rows
        self.system[: len(old), len(old) :] = rows[:, : len(old)].T

    def _force(self, changes: Changes) -> FloatArray:
        """phi of every change, (c, p)."""
        at, row = self._reduced.directions.row, changes.row[:, None]
        kernel = np.empty((len(changes), len(at)))
        for kind, values in (
            (HELD, lambda rows: rows == at),
            (HELD_SUM, lambda rows: -self._reduced.W[rows, at]),
            (NEW, lambda rows: self._reduced.S[rows, at]),
        ):
            which = changes.kind == kind
            kernel[which] = values(row[which])
        return kernel * (changes.vector @ self._along)

    def _couplings(self, changes: Changes) -> FloatArray:
        """C above, between these changes and all that are known."""
        reduced, found = self._reduced, np.zeros((len(changes), len(self._known)))
        for kind, other, sign, kernel in (
            (HELD_SUM, HELD_SUM, 1.0, self._G),
            (HELD_SUM, NEW, 1.0, reduced.W),
            (NEW, HELD_SUM, 1.0, reduced.W.T),
            (NEW, NEW, -1.0, reduced.S),
        ):
            i, j = np.flatnonzero(changes.kind == kind), np.flatnonzero(self._known.kind == other)
            left, right = _free_part(changes.vector[i], kind), self._known.vector[j]
            across = kernel[changes.row[i, None], self._known.row[j]]
            found[i[:, None], j] = sign * across * (left @ right.T)
        return found


def _sparse_product(forces: FloatArray, sparse: BoolArray, X: FloatArray) -> FloatArray:
    """forces @ X, where some of the forces have few entries that are not zero."""
    found = np.empty((len(forces), X.shape[1]))
    found[sparse] = sp.csr_array(forces[sparse]) @ X
    found[~sparse] = forces[~sparse] @ X
    return found


def _keys(changes: Changes) -> list[Any]:
    """A name for every change."""
    vectors = np.ascontiguousarray(changes.vector, dtype=np.int8)
    whole = vectors.view(f"V{vectors.shape[1]}")[:, 0]
    return list(zip(changes.kind.tolist(), changes.row.tolist(), whole.tolist(), strict=True))


def _solve_scaled(system: FloatArray, rhs: FloatArray) -> FloatArray:
    """Solve a symmetric system whose rows may be of very different sizes; NaN if it is singular."""
    scale = np.sqrt(np.abs(system.diagonal()))
    scale[scale == 0] = 1.0
    try:
        solved = np.linalg.solve(system / np.outer(scale, scale), rhs / scale)
    except np.linalg.LinAlgError:
        return np.full_like(rhs, np.nan)
    return solved / scale
