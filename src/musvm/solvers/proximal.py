"""Proximal points: very many rows, few of which are free at the optimum, few columns, any C.

K = Z Z' with Z of shape (M, r). Interior points (`interior.py`) weigh all rows in every step. But
at the optimum next to all rows are settled: about as many variables are free as there are
equations, r (L - 1). Here only free ones count. With a centre alpha_0 and lengths s_i,

    alpha_1 = argmin D(alpha) + sum_i ||alpha_i - alpha_0i||^2 / (2 s_i)

lowers D, and does so again from there; as D is piecewise quadratic, few of these *stages* get to
the optimum. A stage is a problem without constraints in the weights W (in the code class-major,
(L, r)): rows of alpha follow from decision values F = Z W one by one (`_proximal.pyx`), as a(W),
and W must agree,

    W = Z' a(W),

where the derivative of a convex function vanishes, a piecewise linear one. Its Newton step solves

    (I + sum_i s_i z_i z_i' (x) B_i) dW = Z' a(W) - W

with B_i = diag(1_g) - 1_g 1_g' / |g| for every group g of free labels of row i: the equations of
`interior.py`, of the few rows that have such a group. A step ends where the slope along it is flat.

The larger s, the fewer rows are free and the fewer stages there are, but the more steps a stage
takes: next to no curvature is left. So s grows as long as more variables are free than there are
equations and steps are few. W begins as the weights of a sample of the rows.

All entries of alpha that are at a bound are exactly there, and what counts is certified from alpha
alone. `benchmarks/tall.py` has the times; the constants were chosen on other problems, where none
of them matters much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, namespace
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution
from musvm.solvers._proximal import nearest_rows
from musvm.solvers.interior import Equations

# Rows of a piece, of which a thread takes one at a time; rows with a group are fewer.
PIECE, ACTIVE_PIECE = 8192, 2048
# A length is so many caps at first, and so many times as many in later stages,
FIRST_LENGTH, LONGER = 3.0, 4.0
# while more than so many times as many directions are free as there are equations, and the last
# stage took no more than so many steps; or next to none.
FREE_PER_EQUATION, FEW_STEPS, NEXT_TO_NONE = 2.0, 8, 1
# A stage ends where W and Z' alpha differ by this share of how far alpha has moved.
LOOSE = 0.2
# A step ends where the slope along it has fallen to this share. Between two ends no less than the
# second of these shares of what is left is tried, nor more than 1 less that; so many trials.
FLAT, LEAST_SHARE, MAX_TRIALS = 0.5, 0.1, 12
# Steps of a stage: with more of them, interior points are the better way.
MOST_STEPS = 20
# W begins as the weights of one row in so many, where these are at least as many times as many as
# equations, to a relative gap of so much or for so many steps.
ONE_IN, ROWS_PER_EQUATION, GAP_OF_SAMPLE, MOST_STEPS_OF_SAMPLE = 10, 4.0, 0.1, 60


class _Groups:
    """B of some rows as `interior.pair_weights` asks for it: A_kl = s / |g| within every group."""

    def __init__(self, codes: Any, lengths: FloatArray) -> None:
        self._codes, self._lengths = np.ascontiguousarray(codes.T), lengths

    def graph(self) -> list[FloatArray]:
        n_groups = int(self._codes.max(initial=1))
        return [self._factor(self._codes == 1 + k) for k in range(n_groups)]

    def _factor(self, members: BoolArray) -> FloatArray:
        factor: FloatArray = members * np.sqrt(self._lengths / np.maximum(members.sum(axis=0), 1))
        return factor


class _ActiveRows(NamedTuple):
    """Some rows that have a group, as `interior.Equations` asks for them."""

    Zt: FloatArray
    cone: Any


class Proximal:
    """The state of the method for one problem: W, and alpha that follows from it.

    Attributes
    ----------
    length : s in units of the caps
    own_weights : (L, r) those of alpha
    moved : how far alpha is from the centre, in the norm of the first formula
    """

    def __init__(self, Z: FloatArray, rows: DualRows, team: Workers) -> None:
        M, L = rows.n_points, rows.n_classes
        self.Z, self.rows, self.team = Z, rows, team
        self.equations = Equations(Z.shape[1], L, team)
        self.W = np.zeros((L, Z.shape[1]))
        # Each by itself: a solution holds on to alpha alone.
        self.F, self._dF, self.alpha, self.centre = (np.zeros((M, L)) for _ in range(4))
        self._t = self.moved = 0.0
        self.own_weights = self.W
        self._pieces = [slice(k, min(k + PIECE, M)) for k in range(0, M, PIECE)]
        self.codes, self._is_active = np.zeros((M, L), np.int8), np.zeros(M, np.int8)
        self.length = FIRST_LENGTH

    def begin_near(self, other: Proximal) -> None:
        """Take the weights and the length of another problem with as many columns."""
        self.W, self.length = other.W, other.length

    @property
    def length(self) -> float:
        return self._length

    @length.setter
    def length(self, value: float) -> None:
        self._length, self._lengths = value, value * self.rows.caps

    def _over_pieces(self, function: Callable[[slice], Any]) -> list[Any]:
        """Of every piece of the rows, in their order."""
        return self.team.map(function, self._pieces)

    def _respond(self, dW: FloatArray | None = None) -> float:
        """Let alpha follow from where the step is, or from the end of a new one, dW.

        Gives <alpha, dF>, which tells the slope there.
        """
        before = self._t
        if dW is not None:
            self._t = 1.0
        rows, kind = self.rows, (self.rows.delta, self.rows.is_max)

        def respond(piece: slice) -> tuple[float, float]:
            if dW is not None:
                self.F[piece] += before * self._dF[piece]
                np.matmul(self.Z[piece], dW.T, out=self._dF[piece])
            found: tuple[float, float] = nearest_rows(
                self.F, self._dF, self._t, self.centre, self._lengths, rows.y, rows.caps, *kind,
                piece.start, piece.stop, self.alpha, self.codes, self._is_active,
            )  # fmt: skip
            return found

        squared, along = np.sum(self._over_pieces(respond), axis=0).tolist()
        self.moved = squared**0.5
        return float(along)

    def _weigh(self) -> None:
        """Find the weights of alpha."""
        self.own_weights = sum(self._over_pieces(lambda p: self.alpha[p].T @ self.Z[p]))

    def stage(self, most_steps: int) -> int:
        """Newton steps from a new centre until W agrees with alpha; how many."""
        self.alpha, self.centre = self.centre, self.alpha
        # Afresh, since sums of steps are rounded.
        self._over_pieces(lambda p: np.matmul(self.Z[p], self.W.T, out=self.F[p]))
        self._t = 0.0
        self._respond()
        self._weigh()
        for n_steps in range(most_steps):
            if np.linalg.norm(self.own_weights - self.W) <= LOOSE * self.moved:
                return n_steps
            if not self.step():
                return n_steps + 1
        return most_steps

    def step(self) -> bool:
        """One Newton step, or the part of it after which the slope is flat.

        False where it leads nowhere: rounding is all that is left.
        """
        self.equations.factorise(self._active())
        dW = self.equations.solve(self.own_weights - self.W)
        along_W, square = float(np.vdot(self.W, dW)), float(np.vdot(dW, dW))
        first = float(np.vdot(self.W - self.own_weights, dW))
        if not first < 0.0:
            return False
        low, high = (0.0, first), (1.0, np.inf)
        along_alpha = self._respond(dW)
        for _ in range(MAX_TRIALS):
            slope = along_W + self._t * square - along_alpha
            if (slope <= 0.0 and self._t == 1.0) or abs(slope) <= FLAT * abs(first):
                break
            if slope > 0.0:
                high = self._t, slope
            else:
                low = self._t, slope
            self._t = _between(low, high)
            along_alpha = self._respond()
        self.W = self.W + self._t * dW
        self._weigh()
        return True

    def _active(self) -> list[Any]:
        active = np.flatnonzero(self._is_active)
        parts = [active[k : k + ACTIVE_PIECE] for k in range(0, max(len(active), 1), ACTIVE_PIECE)]
        return [
            _ActiveRows(np.ascontiguousarray(self.Z[p].T), _Groups(self.codes[p], self._lengths[p]))
            for p in parts
        ]

    @property
    def n_free(self) -> int:
        """Free variables less their groups: the directions in which alpha may go."""
        codes = self.codes[self._is_active.view(bool)]
        n_groups = sum(int((codes == code).any(axis=1).sum()) for code in (1, 2))
        return int(np.count_nonzero(codes)) - n_groups

    def relative_gap(self) -> float:
        """Of alpha, with Z Z' for K."""

        def survey(piece: slice) -> FloatArray:
            part = self.rows.at(np.arange(piece.start, piece.stop))
            F = self.Z[piece] @ self.own_weights.T
            found: FloatArray = statement.stacked_gap_and_primal(part, self.alpha[piece], F)
            return found

        gap, primal = sum(self._over_pieces(survey)).tolist()
        return statement.relative_gap(self.rows, gap, primal)


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where a line through two slopes, below zero and above, meets zero; not too near to either."""
    (a, slope_a), (b, slope_b) = low, high
    return a + (b - a) * float(np.clip(slope_a / (slope_a - slope_b), LEAST_SHARE, 1 - LEAST_SHARE))


class _Run:
    """Stages of one problem until the relative gap is small enough."""

    def __init__(self, state: Proximal, callback: Callable[[int, float], None] | None) -> None:
        self.state, self.callback = state, callback
        self.history: list[float] = []
        self.gaps: list[float] = []

    @property
    def alpha(self) -> FloatArray:
        """That of the last stage, or the one before it if that is better."""
        is_worse = len(self.gaps) > 1 and self.gaps[-1] > self.gaps[-2]
        return self.state.centre if is_worse else self.state.alpha

    def until(self, tol: float, max_iter: int) -> None:
        """Or until there were so many steps, or a stage takes too many of them."""
        state = self.state
        while len(self.history) < max_iter:
            n_steps = state.stage(min(MOST_STEPS, max_iter - len(self.history)))
            gap = state.relative_gap()
            self.gaps.append(gap)
            self.history += max(n_steps, 1) * [gap]
            if self.callback is not None:
                self.callback(len(self.history), gap)
            if gap <= tol or n_steps == MOST_STEPS:
                break
            many_are_free = state.n_free > FREE_PER_EQUATION * state.equations.size
            if n_steps <= (FEW_STEPS if many_are_free else NEXT_TO_NONE):
                state.length *= LONGER


def solve_proximal(
    Z: FloatArray,
    rows: DualRows,
    decision_values: Callable[[FloatArray], FloatArray],
    team: Workers,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution | None:
    """Minimise the dual of a kernel of few columns, for very many rows.

    Parameters
    ----------
    Z : (M, r), Z Z' is the Gram matrix
    rows : the problem without it
    decision_values : alpha, (M, L), to K alpha with the kernel itself
    team : threads for pieces of rows
    tol : stop at this relative gap (`relative_gap`)
    max_iter : the largest number of Newton steps, at least 1; those of the sample do not count
    callback : called with the number of steps done and the relative gap after each stage

    Returns
    -------
    DualSolution, certified by decision values computed afresh from its alpha; not converged where
    a stage takes too many steps, or rounding is in the way. None where already the sample does not
    get to its gap.
    """
    state = Proximal(Z, rows, team)
    sample = _sample(Z, rows, state.equations.size)
    if sample is not None:
        of_sample = _Run(Proximal(*sample, team), None)
        of_sample.until(GAP_OF_SAMPLE, MOST_STEPS_OF_SAMPLE)
        if of_sample.gaps[-1] > GAP_OF_SAMPLE:
            return None
        state.begin_near(of_sample.state)
    run = _Run(state, callback)
    run.until(tol, max_iter)
    return DualSolution.certified(
        rows, run.alpha, decision_values(run.alpha), tol=tol, history=run.history,
        diagonal=namespace(Z).vecdot(Z, Z),
    )  # fmt: skip


def _sample(Z: FloatArray, rows: DualRows, n_equations: int) -> tuple[FloatArray, DualRows] | None:
    """Some of the rows, which count for all; None where these would be too few."""
    n_some = rows.n_points // ONE_IN
    if n_some < ROWS_PER_EQUATION * n_equations:
        return None
    some = np.sort(np.random.RandomState(0).permutation(rows.n_points)[:n_some])
    part = rows.at(some)
    return Z[some], replace(part, caps=part.caps * (rows.n_points / n_some))
