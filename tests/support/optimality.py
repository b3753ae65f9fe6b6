"""Whether a solution is the optimum, by the paper's own program solved by other means."""

from __future__ import annotations

import pytest

from musvm.dual.problem import DualProblem, infeasibility
from musvm.dual.solution import DualSolution
from oracles import optimum


def assert_optimal(solution: DualSolution, problem: DualProblem, tol: float) -> None:
    """Feasible, converged, and both objectives within `tol` of the optimum, up to its own."""
    oracle = optimum(problem)
    assert oracle.width <= tol, "the oracle itself is not sure"
    assert solution.converged
    assert solution.primal == pytest.approx(oracle.upper, rel=2 * tol)
    assert solution.primal - solution.gap == pytest.approx(oracle.lower, rel=2 * tol)
    assert infeasibility(problem.rows, solution.alpha) <= 1e-12
