"""The optimum on given active sets, for a stack of left-out problems.

From a point b with the held variables at their values (`active.nearest_feasible`), the step to
the optimum over the free ones minimises 1/2 <x, K x> + <s, x> over x whose groups sum to zero, s
the slopes at b. On the face of the fitted solution, the base, that step is a product with
matrices that are inverted once for all (`reduced.py`): with v the slopes of the rows A less their
means, G = K_AA^-1 and B = (Z' S Z)^-1,

    w = -B Z' (s_R - W' v),      x_R = Z w,      x_A = -G v - W x_R.

The face of a left-out problem differs from the base by a few `changes`. Multipliers nu hold the
base's labels that are not free here, and new directions u_j in rows r_j move by y_j. Each of them
is a force phi on the base directions: Z' e_l in row i for a held label, -Z' (u W_a) for a block u
of a row a of A, and Z' (u S_r) for a new direction. The base answers with -B phi, and

    | phi' B phi + C |  (nu, y) = (x of the base, held; its slope along the new directions)

determines them, where C is 0 but for

    (u_a' u_b less means) G_ab    between blocks,
    (u_a' u_r) W_ar               between a block and a new direction,
    -(u_q' u_r) S_qr              between new directions.
"""

from __future__ import annotations

import numpy as np

from musvm.dual.problem import DualProblem, FloatArray, IntArray
from musvm.loo.active import POSITIVE, ActiveSets, BoolArray, own_labels
from musvm.loo.changes import Changes, find_changes, group_codes
from musvm.loo.reduced import Reduced

# Beyond as many changes as this, or as the base has directions, there is little left of the base.
MAX_CHANGES = 200
# A step is too long when a variable moves by this many times its cap.
FAR = 1e4


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
        self._base = group_codes(base)[0]
        self._Z = reduced.directions.matrix(len(reduced.kept), problem.n_classes)
        self._answers = _Answers(reduced, inverse, problem.n_classes)

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
        changes = find_changes(self._base, group_codes(sets), reduced)
        usable = changes.count(T) <= max(MAX_CHANGES, len(reduced.directions))
        changes = changes.select(usable)
        self._answers.prepare(changes)
        for k in np.flatnonzero(usable):
            only = changes.select(np.arange(T) == k)
            self._correct(only, w[k], moves[k], v[k], s_R[k], x_A[k])
        x = np.empty_like(slopes)
        x[..., R] = self._spread(w) + moves
        x[..., A] = self._answer(v, x[..., R])
        usable &= (np.abs(x) <= FAR * self.problem.caps).all(axis=(1, 2))
        return x, usable

    def _spread(self, w: FloatArray) -> FloatArray:
        return (w @ self._Z.T).reshape(len(w), self.problem.n_classes, -1)

    def _answer(self, v: FloatArray, x_R: FloatArray) -> FloatArray:
        return -product(v, self._G) - product(x_R, self.reduced.W.T)

    def _correct(
        self,
        changes: Changes,
        w: FloatArray,
        moves: FloatArray,
        v: FloatArray,
        s_R: FloatArray,
        x_A: FloatArray,
    ) -> None:
        """Correct the base step (w, v) of one problem in place; note the moves of new labels."""
        _, label, row = changes.held
        _, index, blocks = changes.blocks
        _, rows, new = changes.new
        held = self._Z[label * len(self.reduced.kept) + row]
        force = np.concatenate([held.toarray(), self._answers.forces(changes)])
        answer = np.concatenate([held @ self._B, self._answers.of(changes)])
        H, B, N = np.split(np.arange(len(force)), np.cumsum([len(label), len(index)]))
        system = force @ answer.T
        system[len(H) :, len(H) :] += self._couplings(index, blocks, rows, new)

        rhs = force @ w
        rhs[B] = np.einsum("bl,lb->b", blocks, x_A[:, index])
        rhs[N] += np.einsum("rl,lr->r", new, s_R[:, rows])
        solved = _solve_scaled(system, rhs)
        w -= solved @ answer
        np.add.at(v.T, index, solved[B, None] * (blocks - blocks.mean(axis=1, keepdims=True)))
        np.add.at(moves.T, rows, solved[N, None] * new)

    def _couplings(
        self, index: IntArray, blocks: FloatArray, rows: IntArray, new: FloatArray
    ) -> FloatArray:
        """C above, blocks first."""
        centred = blocks - blocks.mean(axis=1, keepdims=True)
        across = self.reduced.W[np.ix_(index, rows)] * (blocks @ new.T)
        within = self._G[np.ix_(index, index)] * (centred @ centred.T)
        return np.block(
            [[within, across], [across.T, -self.reduced.S[np.ix_(rows, rows)] * (new @ new.T)]]
        )


class _Answers:
    """B phi for blocks and new directions.

    Left-out problems have many of them in common, so what was computed once is kept, up to the
    size of B.
    """

    def __init__(self, reduced: Reduced, inverse: FloatArray, n_labels: int) -> None:
        self._reduced = reduced
        self._B = inverse
        unit, d = np.eye(n_labels), reduced.directions
        self._along = unit[:, d.plus] - unit[:, d.minus]
        self._known: dict[tuple[bool, int, bytes], int] = {}
        self._rows = np.empty((0, len(d)))

    def forces(self, changes: Changes) -> FloatArray:
        """phi of the blocks, then of the new directions, one row each."""
        (_, index, blocks), (_, rows, new) = changes.blocks, changes.new
        at = self._reduced.directions.row
        kernel = np.concatenate(
            [-self._reduced.W[np.ix_(index, at)], self._reduced.S[np.ix_(rows, at)]]
        )
        return (np.concatenate([blocks, new]) @ self._along) * kernel

    def prepare(self, changes: Changes) -> None:
        """Compute the answers that are not known yet."""
        keys = _keys(changes)
        missing = {key: k for k, key in enumerate(keys) if key not in self._known}
        if len(self._known) + len(missing) > len(self._B):
            self._known, self._rows = {}, self._rows[:0]
            missing = {key: k for k, key in enumerate(keys)}
        if not missing:
            return
        chosen = np.zeros(len(keys), dtype=bool)
        chosen[list(missing.values())] = True
        n_blocks = len(changes.blocks[0])
        part = Changes(
            changes.held,
            tuple(array[chosen[:n_blocks]] for array in changes.blocks),
            tuple(array[chosen[n_blocks:]] for array in changes.new),
        )
        first = len(self._rows)
        self._known |= {key: first + k for k, key in enumerate(_keys(part))}
        self._rows = np.concatenate([self._rows, self.forces(part) @ self._B])

    def of(self, changes: Changes) -> FloatArray:
        """The answers, as prepared, to what `forces` gives."""
        return self._rows[[self._known[key] for key in _keys(changes)]]


def _keys(changes: Changes) -> list[tuple[bool, int, bytes]]:
    """A name for every block and every new direction."""
    return [
        (is_new, row, vector.tobytes())
        for is_new, (_, rows, vectors) in ((False, changes.blocks), (True, changes.new))
        for row, vector in zip(rows.tolist(), vectors.astype(np.int8), strict=True)
    ]


def _solve_scaled(system: FloatArray, rhs: FloatArray) -> FloatArray:
    """Solve a symmetric system whose rows may be of very different sizes; NaN if it is singular."""
    scale = np.sqrt(np.abs(system.diagonal()))
    scale[scale == 0] = 1.0
    try:
        solved = np.linalg.solve(system / np.outer(scale, scale), rhs / scale)
    except np.linalg.LinAlgError:
        return np.full_like(rhs, np.nan)
    return solved / scale
