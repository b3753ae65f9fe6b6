"""The solver: descend until the duality gap certifies the solution."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from musvm.dual import problem as statement
from musvm.dual._descent import sweep
from musvm.dual.problem import DualProblem, FloatArray


@dataclass(frozen=True)
class DualSolution:
    """What `solve` returns.

    Attributes
    ----------
    alpha : (M, L) dual variables, feasible
    decision : (M, L) decision values K alpha
    primal, dual : P, and D as minimised (P = -D at the optimum)
    gap : P + D, absolute
    n_rounds : rounds of the outer loop
    converged : whether gap <= tol * |P|
    history : relative gap after every round
    """

    alpha: FloatArray
    decision: FloatArray
    primal: float
    dual: float
    gap: float
    n_rounds: int
    converged: bool
    history: list[float] = field(repr=False, default_factory=list)


def solve(
    problem: DualProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    alpha: FloatArray | None = None,
    random_state: np.random.RandomState | None = None,
) -> DualSolution:
    """Minimise the dual to a relative duality gap of `tol`, or for `max_iter` rounds.

    `alpha` is a warm start, feasible or not; it is projected onto the problem's set.
    """
    rng = random_state or np.random.RandomState(0)
    M, L = problem.n_points, problem.n_classes
    a, F = np.zeros((L, M)), np.zeros((L, M))
    curvature = np.maximum(problem.gram.diagonal(), 1e-12)
    history: list[float] = []
    for _ in range(max_iter):
        sweep(
            problem.gram,
            a,
            F,
            problem.y,
            problem.caps,
            curvature,
            problem.delta,
            problem.universum_loss == "max",
            rng.permutation(M),
        )
        alpha_rows, F_rows = a.T.copy(), F.T.copy()
        gap = float(statement.row_gaps(problem, alpha_rows, F_rows).sum())
        primal = statement.primal_objective(problem, alpha_rows, F_rows)
        history.append(gap / abs(primal))
        if history[-1] <= tol:
            break
    return DualSolution(
        alpha_rows, F_rows, primal, gap - primal, gap, len(history), history[-1] <= tol, history
    )
