"""Problems on which Newton steps on faces crawl."""

from __future__ import annotations

import numpy as np
from musvm.solvers._descent import descend

from musvm.dual.problem import DualProblem, DualRows
from musvm.dual.solution import DualSolution, solution_of

MOST_SWEEPS = 10_000


def smooth_problem(
    seed: int,
    delta: float,
    C: float,
    L: int = 4,
    gamma: float = 0.1,
    loss: str = "sum",
    n: int = 60,
    m: int = 25,
) -> DualProblem:
    """Classes that overlap, a smooth RBF kernel and a large C: Newton steps on faces crawl here."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(L), rng.integers(0, L, n - L)])
    X = np.vstack([rng.normal(size=(n, 3)) + y[:, None] % 3, rng.normal(size=(m, 3)) + 1.0])
    distances = np.square(X[:, None] - X[None]).sum(axis=2)
    caps = C * rng.uniform(0.5, 2.0, n + m)
    return DualProblem(np.exp(-gamma * distances), DualRows(y, L, caps, delta, loss))


def descended(problem: DualProblem, gap: float) -> DualSolution:
    """By descent from zero until the relative gap is no more than this: not yet the right face."""
    rows, gram = problem.rows, problem.gram
    alpha = np.zeros((rows.n_classes, problem.n_points))
    order = np.arange(problem.n_points)
    for _ in range(MOST_SWEEPS):
        descend(
            gram, alpha, np.ascontiguousarray(alpha @ gram), rows.y, rows.caps, rows.delta,
            rows.is_max, gram.diagonal().copy(), order, 0.0, problem.n_points,
        )  # fmt: skip
        found = solution_of(problem, alpha.T.copy(), tol=0.0)
        if found.relative_gap <= gap:
            return found
    raise AssertionError(
        f"descent has a gap of {found.relative_gap:.1e} after {MOST_SWEEPS} sweeps"
    )
