"""The solver that holds K: descend, take a Newton step, certify; until the gap is small enough.

Block descent (`_descent.pyx`) finds the right face quickly and then crawls; a Newton step
(`musvm.dual.newton`) lands on the optimum of the face at once, but only the right face helps. One
round is a Newton step followed by sweeps of descent that cost about as much, or more where these
are about to get there, so neither can hold the other up for long. Every step lowers D, so no round
loses ground.

A Newton step that leads uphill after projection is blocked by variables close to their bounds;
they are snapped onto them, which gives a smaller face, and the step is taken there. Where that
fails as well, steps are cut off where they leave the face, as an active-set method does it.

One thread of BLAS: its results depend on the number of threads in the last digits, and the same
problem shall have the same solution however many searches share the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from musvm._input.tensors import FloatArray
from musvm._threads import one_blas_thread
from musvm.dual import problem as statement
from musvm.dual._faces import project_rows
from musvm.dual.faces import find_face, gradient, move, room, snap
from musvm.dual.newton import NewtonSolver, NotPositiveDefiniteError
from musvm.dual.problem import DualProblem
from musvm.dual.solution import DualSolution, hidden_gap
from musvm.solvers._descent import descend, largest_violation
from musvm.solvers.rounds import Hope, curvatures

MIN_SWEEPS, MAX_SWEEPS = 10, 200
# Newton steps cost more the more classes there are, and descent alone may do: it gets a chance, and
# so often another one if as many sweeps again would be enough at the rate of its last stage.
FIRST_SWEEPS, FIRST_SWEEPS_PER_CLASS, MORE_CHANCES = 30, 5, 3
# Descent does about this many operations fewer per second than BLAS-3 does.
DESCENT_SLOWDOWN = 2.5
# Violations that a stage of descent leaves, relative to the worst it found.
LOOSENESS = 0.3
# A variable blocks a step if it meets its bound in this first part of it; how often such variables
# are put on their bounds.
BLOCKING_PART, MAX_SNAPS = 0.2, 1
MAX_HALVINGS = 6
# A step gets somewhere if D falls by this share of what the last sweeps achieved.
SUFFICIENT = 0.01
# What a small step costs besides its products, as if it were these: a fraction of a millisecond.
OVERHEAD = 5e6
# What steps that are cut off may cost in all: so many sweeps, or a few milliseconds.
SEGMENT_SWEEPS, MIN_SEGMENT_WORK = 5, 1e8


@dataclass
class _State:
    """A feasible point: alpha and F = alpha K, class-major, and D there."""

    alpha: FloatArray
    F: FloatArray
    dual: float


class _Solver:
    """The pieces of the loop for one problem."""

    def __init__(
        self,
        problem: DualProblem,
        tol: float,
        random_state: np.random.RandomState,
        known_hidden: float,
    ) -> None:
        self.problem, self.rows = problem, problem.rows
        self.tol = tol
        self.known_hidden = known_hidden
        self.random_state = random_state
        self.newton: NewtonSolver | None = NewtonSolver(problem)
        self.diagonal = problem.gram.diagonal()
        self.curvature = curvatures(self.diagonal)
        self.descended = 0.0
        self.sweep_work = 2.0 * problem.n_points**2 * problem.rows.n_classes
        self.work = 0.0

    def state(self, alpha: FloatArray) -> _State:
        alpha = np.ascontiguousarray(alpha)
        self.work += self.sweep_work + OVERHEAD
        F = alpha @ self.problem.gram
        return _State(alpha, F, self.dual(alpha, F))

    def dual(self, alpha: FloatArray, F: FloatArray) -> float:
        return statement.dual_objective(self.rows, alpha.T, F.T)

    def gap_and_primal(self, state: _State) -> tuple[float, float]:
        return statement.gap_and_primal(self.rows, state.alpha.T, state.F.T)

    def relative_gap(self, state: _State) -> float:
        return statement.relative_gap(self.rows, *self.gap_and_primal(state))

    def hidden_gap(self, state: _State) -> float:
        """The relative gap that rounding may hide, here or as far as it is known."""
        found = self.gap_and_primal(state)
        return max(self.known_hidden, hidden_gap(self.rows, state.alpha.T, self.diagonal, *found))

    def start(self, alpha: FloatArray | None) -> _State:
        """A warm start as it is or scaled to the best length, whichever is lower once feasible.

        From one C to the next, rows at their bound grow with it and free rows do not.
        """
        L, M = self.rows.n_classes, self.problem.n_points
        if alpha is None:
            return _State(np.zeros((L, M)), np.zeros((L, M)), 0.0)
        given = np.array(np.asarray(alpha, dtype=np.float64).T, order="C")
        if given.shape != (L, M) or not np.all(np.isfinite(given)):
            raise ValueError(f"a warm start must be a finite array of shape ({M}, {L})")
        quadratic = float(np.vdot(given, given @ self.problem.gram))
        linear = float(statement.dual_costs(self.rows, given.T).sum())
        lengths = [1.0] + ([-linear / quadratic] if quadratic > 0 and linear < 0 else [])
        return min((self.projected(length * given) for length in lengths), key=lambda s: s.dual)

    def projected(self, alpha: FloatArray) -> _State:
        project_rows(alpha, self.rows.y, self.rows.caps, self.rows.is_max)
        return self.state(alpha)

    def descend(self, state: _State, n_sweeps: int) -> _State:
        """As many moves in place as n_sweeps sweeps would make, or until the gap closes.

        In stages, each of which leaves LOOSENESS of the worst violation. Where the rate of the last
        one says that as many moves again would close the gap, they are made, up to MORE_CHANCES
        times.
        """
        rows = self.rows
        kind = rows.y, rows.caps, rows.delta, rows.is_max
        moves_left = n_moves = n_sweeps * rows.n_points
        gap, chances = np.inf, MORE_CHANCES
        while moves_left > 0:
            worst = largest_violation(state.alpha, state.F, *kind)
            order = self.random_state.permutation(rows.n_points)
            moved = descend(
                self.problem.gram, state.alpha, state.F, *kind, self.curvature, order,
                LOOSENESS * worst, moves_left,
            )  # fmt: skip
            moves_left -= moved
            self.work += DESCENT_SLOWDOWN * self.sweep_work * moved / rows.n_points
            last_gap, gap = gap, self.relative_gap(state)
            if moved == 0 or gap <= self.tol:
                break
            if moves_left <= 0 and chances > 0 and gap < last_gap < np.inf and self.tol > 0.0:
                chances -= 1
                needed = int(moved * np.log(gap / self.tol) / np.log(last_gap / gap)) + 1
                moves_left = needed if needed <= n_moves else 0
        before, state.dual = state.dual, self.dual(state.alpha, state.F)
        self.descended = before - state.dual
        return state

    def newton_round(self, state: _State) -> tuple[_State, int]:
        """The state after a Newton step, if one leads down, and the sweeps that cost the same."""
        work_before = self.work
        if self.newton is not None:
            try:
                state = self._newton_step(state, self.newton)
            except NotPositiveDefiniteError:
                self.newton = None
        n_sweeps = int((self.work - work_before) / DESCENT_SLOWDOWN / self.sweep_work)
        return state, min(max(n_sweeps, MIN_SWEEPS), MAX_SWEEPS)

    def _newton_step(self, state: _State, newton: NewtonSolver) -> _State:
        """The first of several ways to take the step that gets somewhere, or the best of them."""
        enough = state.dual - SUFFICIENT * self.descended
        best = state
        for candidate in self._candidates(state, newton):
            best = self.better(best, candidate)
            if best.dual < enough:
                return best
        return self.better(best, self._segments(state, newton))

    def better(self, first: _State, second: _State) -> _State:
        """The one with the lower D; near the optimum, where D has no digits left, the gap."""
        if abs(first.dual - second.dual) > 1e-14 * abs(first.dual):
            return first if first.dual < second.dual else second
        return first if self.relative_gap(first) <= self.relative_gap(second) else second

    def _candidates(self, state: _State, newton: NewtonSolver) -> Iterator[_State]:
        """The whole step, from the point itself and with what blocks it snapped; then parts."""
        base = state
        for snaps_left in range(MAX_SNAPS, -1, -1):
            face = find_face(self.rows, base.alpha)
            if face.is_empty:
                return
            step = newton.step(face, gradient(self.rows, base.alpha, base.F))
            self.work += newton.work
            yield self.state(move(self.rows, face, base.alpha, step))
            snapped = snap(self.rows, face, base.alpha, step, BLOCKING_PART) if snaps_left else None
            if snapped is None:
                break
            base = self.state(snapped)
        for halvings in range(1, MAX_HALVINGS + 1):
            yield self.state(move(self.rows, face, base.alpha, 0.5**halvings * step))

    def _segments(self, state: _State, newton: NewtonSolver) -> _State:
        """Newton steps cut off where they leave the face.

        Each goes down and fixes at least one variable, as an active-set method does. It takes
        many of them, so they must be cheap next to descent.
        """
        best, current = state, state
        budget = max(SEGMENT_SWEEPS * DESCENT_SLOWDOWN * self.sweep_work, MIN_SEGMENT_WORK)
        most_work = self.work + budget
        while self.work + newton.work <= most_work:
            face = find_face(self.rows, current.alpha)
            if face.is_empty:
                break
            step = newton.step(face, gradient(self.rows, current.alpha, current.F))
            t = room(self.rows, face, current.alpha, step)
            current = self.state(move(self.rows, face, current.alpha, t * step))
            best = self.better(best, current)
            self.work += newton.work
            if t == 1.0:
                break
        return best


Patience = Callable[[float, float], bool]
"""Whether rounds may go on after so many operations, with this relative gap."""


def at_most(most_work: float) -> Patience:
    """As long as the operations are no more than these."""
    return lambda work, _: work <= most_work


def solve(
    problem: DualProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    alpha: FloatArray | None = None,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
    may_go_on: Patience | None = None,
    known_hidden: float = 0.0,
    is_near: bool = False,
) -> DualSolution:
    """Minimise the dual to a relative duality gap of `tol`, or for `max_iter` rounds.

    It ends early where rounding hides gaps of that size and they no longer fall.

    Parameters
    ----------
    problem : the instance to solve
    tol : stop at this relative gap (`relative_gap`)
    max_iter : the largest number of rounds, at least 1
    alpha : (M, L) warm start, feasible or not: it is rescaled and projected onto the set
    random_state : orders the rows of each sweep; a fixed seed if None
    callback : called with the number of rounds done and the relative gap after each
    may_go_on : told the operations of matrix products so far, or what takes as long, and the
        relative gap, whether another round may begin; as long as there are rounds if None
    known_hidden : the relative gap that rounding hid from whoever was here before
    is_near : whether alpha is near the optimum, so that descent alone gets no chance at first

    Returns
    -------
    DualSolution, certified by decision values computed afresh from its alpha
    """
    solver = _Solver(problem, tol, random_state or np.random.RandomState(0), known_hidden)
    with one_blas_thread():
        state, history = _run(solver, tol, max_iter, may_go_on, alpha, is_near, callback)
        return DualSolution.certified(
            problem.rows,
            np.ascontiguousarray(state.alpha.T),
            np.ascontiguousarray(state.F.T),
            tol=tol,
            history=history,
            diagonal=solver.diagonal,
        )


def _run(
    solver: _Solver,
    tol: float,
    max_iter: int,
    may_go_on: Patience | None,
    alpha: FloatArray | None,
    is_near: bool,
    callback: Callable[[int, float], None] | None,
) -> tuple[_State, list[float]]:
    """The loop of `solve`: the last state and the relative gap after every round."""
    state = solver.start(alpha)
    history: list[float] = []
    hope = Hope(tol)
    alone = max(FIRST_SWEEPS, FIRST_SWEEPS_PER_CLASS * solver.rows.n_classes)
    n_sweeps = MIN_SWEEPS if is_near else alone
    while len(history) < max_iter:
        if may_go_on is not None and history and not may_go_on(solver.work, history[-1]):
            break
        state = solver.descend(state, n_sweeps)
        if solver.relative_gap(state) > tol:
            state, n_sweeps = solver.newton_round(state)
        history.append(solver.relative_gap(state))
        if callback is not None:
            callback(len(history), history[-1])
        if history[-1] <= tol:
            # Sweeps update F, and round; the certificate must not.
            state = solver.state(state.alpha)
            history[-1] = solver.relative_gap(state)
            if history[-1] <= tol:
                break
        gap, _ = solver.gap_and_primal(state)
        if hope.is_lost(gap, history[-1], partial(solver.hidden_gap, state)):
            break
    return state, history
