"""Leave-one-out against its definitions: Theorem 1, Corollary 1, and training n times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.metrics.pairwise import rbf_kernel

from musvm.datasets import fetch_gtsrb
from musvm.dual.newton import find_face
from musvm.dual.problem import DualProblem
from musvm.dual.solve import solve
from musvm.loo.evaluate import evaluate
from musvm.loo.span import squared_spans
from musvm.loo.types import support_types
from strategies import problems


def bordered(K: np.ndarray, n_classes: int) -> np.ndarray:
    """The paper's H: K x I_L bordered by the constraints that rows sum to zero."""
    A = np.kron(np.eye(len(K)), np.ones((1, n_classes)))
    return np.block([[np.kron(K, np.eye(n_classes)), A.T], [A, np.zeros((len(K), len(K)))]])


def span_by_the_program(K: np.ndarray, t: int, others: np.ndarray, alpha_t: np.ndarray) -> float:
    """The quadratic program of Theorem 1, through its optimality conditions."""
    L = len(alpha_t)
    rhs = np.zeros(len(others) * (L + 1))
    rhs[: len(others) * L] = -np.kron(K[others, t], alpha_t)
    beta = np.linalg.lstsq(bordered(K[np.ix_(others, others)], L), rhs, rcond=1e-13)[0]
    beta = beta[: len(others) * L].reshape(len(others), L)
    return float(
        K[t, t] * alpha_t @ alpha_t
        + 2.0 * np.sum(K[others, t][:, None] * beta * alpha_t)
        + np.sum((beta @ beta.T) * K[np.ix_(others, others)])
    )


@given(problems())
def test_span_is_the_optimum_of_theorem_1(problem):
    """Every training support vector, singular kernel matrices included."""
    solution = solve(problem, tol=1e-8)
    types = support_types(problem, solution.alpha)
    spans = squared_spans(problem, solution.alpha, types)
    inside = np.flatnonzero(types == 1)
    for t in np.flatnonzero(types[: problem.n_train] > 0):
        expected = span_by_the_program(problem.gram, t, inside[inside != t], solution.alpha[t])
        size = problem.gram[t, t] * np.sum(solution.alpha[t] ** 2)
        assert abs(spans[t] - expected) <= 1e-8 * size


@pytest.mark.parametrize("loss", ["sum", "max"])
@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 5))
def test_span_is_that_of_corollary_1_with_the_pseudo_inverse(loss, seed, n_classes):
    """The block of the inverse of H has rank L - 1, so its own inverse is a pseudo-inverse."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, size=10)
    X = rng.normal(size=(16, 4))
    X[:10, 0] += y
    caps = np.concatenate([np.full(10, 20.0), np.full(6, 5.0)])
    problem = DualProblem(rbf_kernel(X, gamma=0.5), y, n_classes, caps, 0.1, loss)
    solution = solve(problem, tol=1e-10)
    types = support_types(problem, solution.alpha)
    inside = np.flatnonzero(types == 1)
    inverse = np.linalg.inv(bordered(problem.gram[np.ix_(inside, inside)], n_classes))
    spans = squared_spans(problem, solution.alpha, types)
    for k, t in enumerate(inside[inside < 10]):
        block = inverse[k * n_classes : (k + 1) * n_classes, k * n_classes : (k + 1) * n_classes]
        a = solution.alpha[t]
        assert spans[t] == pytest.approx(a @ np.linalg.pinv(block, rcond=1e-10) @ a, rel=1e-8)


@given(problems())
def test_bounds_count_what_eq_8_counts(problem):
    solution = solve(problem, tol=1e-8)
    span, old = (evaluate(problem, solution, method) for method in ("span", "span-2016"))
    n = problem.n_train
    spans = squared_spans(problem, solution.alpha, span.types)
    products = np.einsum("il,il->i", solution.alpha[:n], solution.decision[:n])
    unclear = np.abs(spans - products) <= 1e-9 * (np.abs(spans) + np.abs(products))
    inside, at_bound = span.types[:n] == 1, span.types[:n] == 2
    wrong = spans >= products
    for result, expected in (
        (span, wrong & (inside | at_bound)),
        (old, (wrong & inside) | at_bound),
    ):
        assert abs(result.error * n - expected.sum()) <= (unclear & (inside | at_bound)).sum()
    assert old.error >= span.error


# ---------------------------------------------------------------------------------------------
# The estimate: the face answers linearly


def left_out_on_the_face(problem: DualProblem, alpha: np.ndarray, t: int) -> np.ndarray:
    """Decision values at x_t when the free variables of all other rows re-optimise."""
    K = problem.gram
    face = find_face(problem, np.ascontiguousarray(alpha.T))
    use = face.row != t
    row, label = face.row[use], face.label[use]
    _, group = np.unique(face.group[use], return_inverse=True)
    H = K[np.ix_(row, row)] * (label[:, None] == label)
    A = (np.arange(group.max() + 1)[:, None] == group).astype(float)
    left = np.block([[H, A.T], [A, np.zeros((len(A), len(A)))]])
    gradient = -(K[row, t] * alpha[t, label])
    step = np.linalg.lstsq(left, -np.concatenate([gradient, np.zeros(len(A))]), rcond=None)[0]
    moved = alpha.copy()
    moved[t] = 0.0
    np.add.at(moved, (row, label), step[: len(row)])
    return K[t] @ moved


def digits_problem(kernel: str, n: int, m: int, C: float, delta: float, loss: str = "sum"):
    X, target = load_digits(return_X_y=True)
    train = np.concatenate([np.flatnonzero(target == k)[:n] for k in range(4)])
    rows = np.concatenate([train, np.flatnonzero(target > 3)[:m]])
    X = X[rows] / 16.0
    gram = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.125)
    caps = np.concatenate([np.full(4 * n, C), np.full(m, C * n / m if m else 1.0)])
    return DualProblem(gram, target[train], 4, caps, delta, loss)


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_estimate_is_the_linear_answer_of_the_face(delta, loss):
    problem = digits_problem("rbf", 8, 20, 10.0, delta, loss)
    solution = solve(problem, tol=1e-12)
    result = evaluate(problem, solution, "loo-estimate")
    support = np.flatnonzero(result.types[: problem.n_train] > 0)
    assert len(support) > 10
    for t in support:
        expected = left_out_on_the_face(problem, solution.alpha, t)
        expected -= expected.mean()
        found = result.decision_values[t] - result.decision_values[t].mean()
        assert np.abs(found - expected).max() <= 1e-6


# ---------------------------------------------------------------------------------------------
# The exact error: training n times


def trained_n_times(problem: DualProblem) -> np.ndarray:
    """Decision values of every training point by a model trained without it, from scratch."""
    values = np.empty((problem.n_train, problem.n_classes))
    for t in range(problem.n_train):
        kept = np.delete(np.arange(problem.n_points), t)
        without = replace(
            problem,
            gram=np.ascontiguousarray(problem.gram[np.ix_(kept, kept)]),
            y=np.delete(problem.y, t),
            caps=problem.caps[kept],
        )
        values[t] = problem.gram[t, kept] @ solve(without, tol=1e-9).alpha
    return values


def assert_exact(problem: DualProblem):
    result = evaluate(problem, solve(problem, tol=1e-6), "loo")
    values = trained_n_times(problem)
    ordered = np.sort(values, axis=1)
    tied = ordered[:, -1] - ordered[:, -2] <= 1e-6
    assert np.all(result.certified | tied)
    assert np.array_equal(result.predictions[~tied], values.argmax(axis=1)[~tied])
    assert abs(result.error - np.mean(values.argmax(axis=1) != problem.y)) <= tied.mean()
    difference = result.decision_values - values
    spread = difference.max(axis=1) - difference.min(axis=1)
    assert np.all(spread <= result.radius + 1e-3), "farther off than it says"


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("m", [0, 40])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_exact_on_digits(kernel, m, loss):
    assert_exact(digits_problem(kernel, 12, m, 1.0, 0.05, loss))


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("with_universum", [False, True])
@pytest.mark.parametrize("name", ["vehicle", "vowel", "segment"])
def test_exact_on_libsvm_sets(name, with_universum, C, data_folder):
    path = data_folder / "libsvm" / f"{name}.scale.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the data sets")
    X, y = load_svmlight_file(str(path))
    X, y = X.toarray(), y.astype(int)
    first = np.unique(y)[:3]
    train = np.concatenate([np.flatnonzero(y == k)[:20] for k in first])
    universum = np.flatnonzero(~np.isin(y, first))[: 30 if with_universum else 0]
    gram = rbf_kernel(X[np.concatenate([train, universum])], gamma=1.0)
    caps = np.concatenate([np.full(60, C), np.full(len(universum), 0.5 * C)])
    labels = np.searchsorted(first, y[train])
    assert_exact(DualProblem(gram, labels, 3, caps, 0.05))


@pytest.mark.parametrize("with_universum", [False, True])
def test_exact_on_traffic_signs(with_universum, data_folder):
    archive = data_folder / "GTSRB_Final_Training_Images.subset.zip"
    if not archive.exists():
        pytest.skip("the traffic signs are not among the data sets")
    signs = fetch_gtsrb(archive=archive, classes=[1, 4, 5, 17], n_jobs=1)
    rng = np.random.default_rng(0)
    train = np.concatenate(
        [rng.permutation(np.flatnonzero(signs.target == k))[:25] for k in (1, 4, 5)]
    )
    universum = np.flatnonzero(signs.target == 17)[: 50 if with_universum else 0]
    X = signs.data[np.concatenate([train, universum])]
    caps = np.concatenate([np.full(75, 1.0), np.full(len(universum), 0.5)])
    assert_exact(DualProblem(X @ X.T, np.repeat(np.arange(3), 25), 3, caps, 0.0))
