"""Independent oracles for leave-one-out: the paper's matrices and programs, and retraining.

Nothing here uses `musvm.loo`. Spans come from the paper's own H, bordered by A, and from the
quadratic program of Theorem 1, solved by interior points. The linear estimate comes from one dense
Karush-Kuhn-Tucker system for each point. Left-out models are trained from scratch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from musvm.dual.problem import DualProblem
from musvm.solvers.gram import solve
from oracles import features, interior_point

# ---------------------------------------------------------------------------------------------
# Spans


def literal_types(own: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """Definition 1 for samples with alpha_iy = own, at caps that are met exactly."""
    return np.where(own <= 0, 0, np.where(own < caps, 1, 2))


def bordered(K: np.ndarray, n_classes: int) -> np.ndarray:
    """H of eq. (7)."""
    N = len(K)
    A = np.kron(np.eye(N), np.ones((1, n_classes)))
    return np.block([[np.kron(K, np.eye(n_classes)), A.T], [A, np.zeros((N, N))]])


def span_eq17(K: np.ndarray, k_t: np.ndarray, K_tt: float, alpha_t: np.ndarray) -> float:
    """The proof's Schur complement of H over the others, whose kernel matrix is K, by pinv."""
    L = len(alpha_t)
    H = bordered(K, L)
    columns = np.vstack([np.kron(k_t[:, None], np.eye(L)), np.zeros((len(K), L))])
    force = columns @ alpha_t
    answer = np.linalg.pinv(H, rcond=1e-13, hermitian=True) @ force
    return float(K_tt * alpha_t @ alpha_t - force @ answer)


def span_qp(K: np.ndarray, k_t: np.ndarray, K_tt: float, alpha_t: np.ndarray) -> float:
    """The program of Theorem 1 by interior points, in features: v = sum_i z_i beta_i."""
    N, L = len(K), len(alpha_t)
    Z = features(np.block([[np.array([[K_tt]]), k_t[None]], [k_t[:, None], K]]))
    scale = np.linalg.norm(alpha_t) * np.sqrt(K_tt)
    if scale == 0:
        return 0.0
    unit = np.sqrt(K_tt)
    r = Z.shape[1]
    # Variables v / scale and beta / |alpha_t|: v = sum_i z_i beta_i with beta_t = alpha_t.
    weights = sp.hstack([-sp.eye(r * L), sp.kron(Z[1:].T / unit, sp.eye(L))])
    sums = sp.hstack([sp.csc_matrix((N, r * L)), sp.kron(sp.eye(N), np.ones((1, L)))])
    fixed = np.outer(Z[0] / unit, alpha_t / np.linalg.norm(alpha_t)).ravel()
    x, _ = interior_point(
        P=sp.block_diag([2 * sp.eye(r * L), sp.csc_matrix((N * L, N * L))]),
        q=np.zeros((r + N) * L),
        A=sp.vstack([weights, sums]),
        b=np.concatenate([-fixed, np.zeros(N)]),
        n_equalities=r * L + N,
        tol=1e-12,
    )
    return float(x[: r * L] @ x[: r * L]) * scale**2


# ---------------------------------------------------------------------------------------------
# The linear estimate


def free_groups(problem: DualProblem, alpha: np.ndarray, i: int) -> list[list[int]]:
    """Labels of row i that are strictly inside their bounds, in groups of fixed sum."""
    a, cap, labels = alpha[i], problem.rows.caps[i], range(problem.rows.n_classes)
    if i < problem.rows.n_train:
        y = problem.rows.y[i]
        return [[l for l in labels if (l != y and a[l] < 0) or (l == y and 0 < a[l] < cap)]]
    if problem.rows.is_max and np.maximum(a, 0).sum() >= cap * (1 - 1e-12):
        return [[l for l in labels if a[l] > 0], [l for l in labels if a[l] < 0]]
    capped = cap * (1 - 1e-12) if problem.rows.universum_loss == "sum" else np.inf
    return [[l for l in labels if a[l] < capped and (problem.rows.delta == 0 or a[l] != 0)]]


def left_out_on_the_face(problem: DualProblem, alpha: np.ndarray, t: int) -> np.ndarray:
    """Decision values of point t when alpha_t is dropped and the face answers, by dense KKT."""
    groups = [
        [(i, l) for l in group]
        for i in range(problem.n_points)
        if i != t
        for group in free_groups(problem, alpha, i)
        if len(group) > 1
    ]
    variables = [variable for group in groups for variable in group]
    rows = np.array([i for i, _ in variables], dtype=int)
    labels = np.array([l for _, l in variables], dtype=int)
    H = problem.gram[np.ix_(rows, rows)] * (labels[:, None] == labels)
    force = -problem.gram[rows, t] * alpha[t][labels]
    sums = np.zeros((len(groups), len(variables)))
    column = 0
    for g, group in enumerate(groups):
        sums[g, column : column + len(group)] = 1.0
        column += len(group)
    system = np.block([[H, sums.T], [sums, np.zeros((len(groups), len(groups)))]])
    rhs = np.concatenate([-force, np.zeros(len(groups))])
    x = np.linalg.lstsq(system, rhs, rcond=1e-12)[0][: len(variables)]
    values = problem.gram[t] @ alpha - problem.gram[t, t] * alpha[t]
    np.add.at(values, labels, problem.gram[t, rows] * x)
    return values


# ---------------------------------------------------------------------------------------------
# Retraining


def without(problem: DualProblem, t: int) -> DualProblem:
    kept = np.delete(np.arange(problem.n_points), t)
    rows = replace(problem.rows, y=np.delete(problem.rows.y, t), caps=problem.rows.caps[kept])
    return DualProblem(np.ascontiguousarray(problem.gram[np.ix_(kept, kept)]), rows)


def retrained_values(problem: DualProblem, t: int, tol: float) -> tuple[np.ndarray, float]:
    """Decision values of point t of a model trained without it, from scratch, and their error.

    The error of a difference is 2 sqrt(gap K_tt): P alone is strongly convex. Without any other
    point the model is zero.
    """
    if problem.n_points == 1:
        return np.zeros(problem.rows.n_classes), 0.0
    solution = solve(without(problem, t), tol=tol)
    values = np.delete(problem.gram[t], t) @ solution.alpha
    return values, 2.0 * float(np.sqrt(max(solution.gap, 0.0) * problem.gram[t, t]))


def lead(values: np.ndarray) -> float:
    second, first = np.sort(values)[-2:]
    return float(first - second)
