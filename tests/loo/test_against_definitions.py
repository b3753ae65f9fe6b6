"""Leave-one-out against its definitions: Theorem 1, Corollary 1, and training n times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.metrics.pairwise import rbf_kernel

from loo_oracles import bordered, lead, left_out_on_the_face, retrained_values
from musvm.datasets import fetch_gtsrb
from musvm.dual.problem import DualProblem, DualRows
from musvm.loo.evaluate import evaluate
from musvm.loo.span import squared_spans
from musvm.loo.types import support_types
from musvm.solvers.gram import solve
from strategies import problems


@pytest.mark.parametrize("loss", ["sum", "max"])
@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 5))
def test_span_is_that_of_corollary_1_with_the_pseudo_inverse(loss, seed, n_classes):
    """The block of the inverse of H has rank L - 1, so its own inverse is a pseudo-inverse."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, size=10)
    X = rng.normal(size=(16, 4))
    X[:10, 0] += y
    caps = np.concatenate([np.full(10, 20.0), np.full(6, 5.0)])
    problem = DualProblem(rbf_kernel(X, gamma=0.5), DualRows(y, n_classes, caps, 0.1, loss))
    solution = solve(problem, tol=1e-10)
    types = support_types(problem.rows, solution.alpha)
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
    n = problem.rows.n_train
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


def digits_problem(kernel: str, n: int, m: int, C: float, delta: float, loss: str = "sum"):
    X, target = load_digits(return_X_y=True)
    train = np.concatenate([np.flatnonzero(target == k)[:n] for k in range(4)])
    rows = np.concatenate([train, np.flatnonzero(target > 3)[:m]])
    X = X[rows] / 16.0
    gram = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.125)
    caps = np.concatenate([np.full(4 * n, C), np.full(m, C * n / m if m else 1.0)])
    return DualProblem(gram, DualRows(target[train], 4, caps, delta, loss))


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_estimate_is_the_linear_answer_of_the_face(delta, loss):
    problem = digits_problem("rbf", 8, 20, 10.0, delta, loss)
    solution = solve(problem, tol=1e-12)
    result = evaluate(problem, solution, "loo-estimate")
    support = np.flatnonzero(result.types[: problem.rows.n_train] > 0)
    assert len(support) > 10
    for t in support:
        expected = left_out_on_the_face(problem, solution.alpha, t)
        expected -= expected.mean()
        found = result.decision_values[t] - result.decision_values[t].mean()
        assert np.abs(found - expected).max() <= 1e-6


# ---------------------------------------------------------------------------------------------
# The exact error: training n times


def assert_exact(problem: DualProblem, tol: float = 1e-6, retrained_to: float = 1e-9) -> None:
    """Point by point; ties within the accuracy of the retrained models may go either way."""
    result = evaluate(problem, solve(problem, tol=tol), "loo")
    n_tied = 0
    for t in range(problem.rows.n_train):
        values, unsure = retrained_values(problem, t, tol=retrained_to)
        if lead(values) > unsure:
            assert result.certified[t], f"point {t} is clear, but not certified"
            assert result.predictions[t] == values.argmax(), f"point {t} has another label"
        else:
            n_tied += 1
        away = float(np.ptp(result.decision_values[t] - values))
        assert away <= result.radius[t] + unsure, f"point {t} is farther off than it says"
    assert n_tied <= 0.05 * problem.rows.n_train + 1


@settings(max_examples=60)
@given(problems(max_train=8, max_universum=6))
def test_exact_on_any_problem(problem):
    """What is certified is true, also where kernels are singular and labels tie."""
    result = evaluate(problem, solve(problem, tol=1e-4), "loo")
    for t in range(problem.rows.n_train):
        values, unsure = retrained_values(problem, t, tol=1e-9)
        if result.certified[t] and lead(values) > unsure:
            assert result.predictions[t] == values.argmax(), f"point {t} has another label"
        away = float(np.ptp(result.decision_values[t] - values))
        assert away <= result.radius[t] + unsure, f"point {t} is farther off than it says"


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
    assert_exact(DualProblem(gram, DualRows(labels, 3, caps, 0.05)))


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
    assert_exact(DualProblem(X @ X.T, DualRows(np.repeat(np.arange(3), 25), 3, caps, 0.0)))
