"""The solver for many points: small problems chosen by violation, and one product per round.

K is never held here. A round

    1. surveys all rows: violations of the optimality conditions, and the duality gap;
    2. chooses a working set W (`backends/choosing.py`): half of it from the last one, the worst of
       it and, in every other round, what was new in it, the rest the worst of all;
    3. minimises D over the rows of W by block descent (`_descent.pyx`) against K_WW, which
       fits the processor's cache, until their violations are a fraction of the worst there was;
    4. updates all decision values, F += K[:, W] (change of alpha_W): a matrix product.

Who computes K and holds F is a backend (`backends/contract.py`): kernel rows in a cache, or another
device. Its products may be rounded to floats. That costs rounds, not accuracy: when the gap seems
small enough, F is computed in doubles, and if the gap is not small enough after all, the rounds go
on from there. Every error made since then is proportional to a change of alpha, so it shrinks with
the changes.

Solving W too loosely, or keeping none of it, multiplies the rounds: points that trade mass with
each other must meet in one working set. A point that was just solved violates nothing until its
partner moves, so what is new stays for a round now and then, whatever its violation: equal points
with different labels would not meet otherwise, and the rounds never end.

Where most points are support vectors, as with a universum, no working set is large enough. A
backend to which products with K cost little takes Newton steps (`musvm.dual.newton`) of all support
vectors at once, every few rounds; the sooner the more rows have to move in these, and at once where
a start is near the optimum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from musvm._input.tensors import FloatArray
from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution, hidden_gap
from musvm.solvers._descent import descend
from musvm.solvers.backends.contract import Backend, Survey, floats_hold
from musvm.solvers.rounds import curvatures, rounds_until_certified

MAX_MOVES_PER_ROW = 100
# Floats carry decision values to about 1e-6; thresholds far above can be met with them.
SINGLE_THRESHOLD = 1e-4
# Rounds before the first Newton step from a start that knows most support vectors.
WARM_ROUNDS = 1


class _Rounds:
    """The pieces of one run."""

    def __init__(
        self,
        rows: DualRows,
        backend: Backend,
        random_state: np.random.RandomState,
        *,
        warm: bool = False,
    ) -> None:
        self.rows = rows
        self.backend = backend
        self.random_state = random_state
        self.n_rounds = 0
        # Rounds since the last Newton step, those of many moves by how often a row moved.
        self.effort = max(backend.newton_every - WARM_ROUNDS, 0.0) if warm else 0.0
        self.curvature = curvatures(backend.diagonal)
        self.floats_hold = floats_hold(backend.diagonal)

    def improve(self, survey: Survey) -> Survey | None:
        """One round after its survey; None if all rows are optimal or no longer numbers."""
        if not survey.worst > 0.0:
            return None
        small = self.backend.small_problem(self.random_state)
        W, threshold = small.points, self.backend.looseness * small.worst
        in_floats = threshold > SINGLE_THRESHOLD and self.floats_hold
        dtype = np.float32 if in_floats else np.float64
        gram = np.ascontiguousarray(small.gram, dtype=dtype)
        rows = self.rows.at(W)
        alpha = _class_major(small.alpha)
        moves = descend(
            gram, alpha, np.array(small.F.T, dtype=dtype, order="C"),
            rows.y, rows.caps, rows.delta, rows.is_max, self.curvature[W],
            self.random_state.permutation(len(W)), threshold, MAX_MOVES_PER_ROW * len(W),
        )  # fmt: skip
        moved = np.any(small.alpha != alpha.T, axis=1)
        self.backend.change(W[moved], alpha.T[moved])
        self.n_rounds += 1
        self.effort += max(1.0, moves / len(W))
        if 0 < self.backend.newton_every <= self.effort:
            self.backend.newton_step(self.rows)
            self.effort = 0.0
        return self.backend.survey(self.rows)

    def certify(self, _: Survey) -> Survey:
        self.backend.restart()
        return self.backend.survey(self.rows)

    def hidden_gap(self, survey: Survey) -> float:
        """The relative gap that rounding may hide."""
        alpha, _F = self.backend.solution()
        return hidden_gap(self.rows, alpha, self.backend.diagonal, survey.gap, survey.primal)


def _class_major(values: FloatArray) -> FloatArray:
    return np.array(values.T, order="C")


def solve_by_working_sets(
    rows: DualRows,
    backend: Backend,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    warm: bool = False,
    rated: int | None = None,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution:
    """Minimise the dual to a relative duality gap of `tol`, or for `max_iter` rounds.

    Parameters
    ----------
    rows : the problem without its Gram matrix
    backend : computes with the Gram matrix; it starts at alpha = 0 or where `restart` put it
    tol : stop at this relative gap (`relative_gap`)
    max_iter : the largest number of rounds, at least 1
    warm : whether the backend starts near the optimum: from the solution of a similar problem
    rated : give up where the rate of so many rounds says that `max_iter` are too few; never if None
    random_state : orders rows and the first working set; a fixed seed if None
    callback : called with the number of rounds done and the relative gap after each

    Returns
    -------
    DualSolution, certified by decision values computed in doubles
    """
    rounds = _Rounds(rows, backend, random_state or np.random.RandomState(0), warm=warm)
    _, history = rounds_until_certified(
        rows,
        backend.survey(rows),
        rounds.improve,
        rounds.certify,
        rounds.hidden_gap,
        tol=tol,
        max_iter=max_iter,
        callback=callback,
        rated=rated,
    )
    return DualSolution.certified(rows, *backend.solution(), tol=tol, history=history)
