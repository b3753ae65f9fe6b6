"""Spans against the paper's H with pseudo-inverse and against the program of Theorem 1.

Everything is a function of K, alpha and the types, so alpha is any feasible one here, with entries
exactly at 0 and at the caps; K is often singular (low rank, copies, zero rows).
"""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings

from loo_oracles import literal_types, span_eq17, span_qp
from musvm.dual.problem import DualProblem, DualRows
from musvm.dual.solution import solution_of
from musvm.loo.evaluate import evaluate
from musvm.loo.span import squared_distances, squared_spans
from musvm.loo.types import support_types
from musvm.solvers.gram import solve
from oracles import literal_alpha, samples_of
from strategies import problems, problems_with_feasible_alpha

EXACT = 1e-8


def correlations(K: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.where(K.diagonal() > 0, K.diagonal(), 1.0))
    return K / np.outer(scale, scale)


def is_clear(K: np.ndarray) -> bool:
    """Whether everyone agrees on the rank of K: no eigenvalue that might be 0 or might not."""
    values = np.linalg.eigvalsh(correlations(K)) if len(K) else np.ones(1)
    return not np.any((np.abs(values) > 1e-12) & (values < 1e-6))


def assert_spans(drawn, oracle):
    """The spans of all training points are the oracle's, relative to K_tt |alpha_t|^2."""
    problem, alpha = drawn
    K, types = problem.gram, support_types(problem.rows, alpha)
    assume(is_clear(K))
    spans = squared_spans(problem, alpha, types)
    for t in range(problem.rows.n_train):
        if types[t] == 0:
            assert spans[t] == 0
            continue
        others = np.flatnonzero((types == 1) & (np.arange(len(K)) != t))
        expected = oracle(K[np.ix_(others, others)], K[others, t], K[t, t], alpha[t])
        scale = K[t, t] * alpha[t] @ alpha[t]
        assert abs(spans[t] - expected) <= EXACT * scale, f"point {t} of type {types[t]}"


@settings(max_examples=150)
@given(problems_with_feasible_alpha())
def test_schur_complement_of_the_papers_matrix(drawn):
    assert_spans(drawn, span_eq17)


@settings(max_examples=60)
@given(problems_with_feasible_alpha())
def test_quadratic_program_of_theorem_1(drawn):
    assert_spans(drawn, span_qp)


@settings(max_examples=60)
@given(problems_with_feasible_alpha())
def test_universum_points_count_once(drawn):
    """With all artificial copies of eq. (3) in SV_1, which makes K singular, nothing changes."""
    problem, alpha = drawn
    assume(problem.rows.universum_loss == "sum" and is_clear(problem.gram))
    n = problem.rows.n_train
    samples = samples_of(problem)
    literal = literal_alpha(alpha, n)
    own = literal[np.arange(len(literal)), samples.label]
    types = literal_types(own, samples.cap)
    K = problem.gram[np.ix_(samples.point, samples.point)]
    spans = squared_spans(problem, alpha, support_types(problem.rows, alpha))
    for t in np.flatnonzero(types[:n] > 0):
        others = np.flatnonzero((types == 1) & (np.arange(len(K)) != t))
        expected = span_eq17(K[np.ix_(others, others)], K[others, t], K[t, t], alpha[t])
        assert abs(spans[t] - expected) <= EXACT * K[t, t] * alpha[t] @ alpha[t]


def test_a_point_inside_the_others_span_has_span_zero():
    """Two copies, and three points of a plane: exactly zero, not a small number."""
    X = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 2, -1], [0, 0, 0]])
    X = X[:, [0, 1, 2]] * np.array([1.0, 1e-6, 1e-6])  # units must not matter
    among, away = squared_distances(X @ X.T, np.arange(5), np.array([5]))
    assert among.tolist() == [0, 0, 0, 0, 0]
    assert away.tolist() == [0]
    among, _ = squared_distances(X @ X.T, np.array([0, 2, 3]), np.arange(0))
    np.testing.assert_allclose(among, [1, 0.5e-12, 1e-12], rtol=1e-12)


def test_scaling_single_points_scales_their_distances():
    rng = np.random.default_rng(0)
    X, scale = rng.normal(size=(6, 4)), 10.0 ** np.arange(-6, 6, 2)
    inside, outside = np.arange(3), np.arange(3, 6)
    before = np.concatenate(squared_distances(X @ X.T, inside, outside))
    Y = X * scale[:, None]
    after = np.concatenate(squared_distances(Y @ Y.T, inside, outside))
    np.testing.assert_allclose(after, before * scale**2, rtol=1e-9)


# ---------------------------------------------------------------------------------------------
# The bounds


@given(problems())
def test_margins_and_errors_agree(problem):
    """A support vector counts as an error where its margin is not positive, a tie included."""
    solution = solve(problem, tol=1e-8)
    span, original = evaluate(problem, solution, "span"), evaluate(problem, solution, "span-2016")
    types = span.types[: problem.rows.n_train]
    by_margin = (types > 0) & (span.margins <= 0)
    assert span.error == np.mean(by_margin)
    assert original.error == np.mean(by_margin | (types == 2))
    assert np.array_equal(span.margins, original.margins)
    assert span.predictions is None
    assert span.decision_values is None


def test_golden_orthonormal_points():
    """Two orthonormal points, one for each class; C = 2 is no bound.

    By symmetry alpha_1 = (a, -a), alpha_2 = (-a, a), and D = 2 a^2 - 2 a is least at a = 1/2. The
    fitted margins are 2 a = 1. No other point is in either's span: S_t^2 = |alpha_t|^2 = 1/2, as
    large as alpha_t' f(x_t) = 2 a^2, so both count as errors, with margin 0; and so they are,
    because without x_t nothing is known about its direction.
    """
    problem = DualProblem(np.eye(2), DualRows(np.array([0, 1]), 2, np.full(2, 2.0)))
    alpha = np.array([[0.5, -0.5], [-0.5, 0.5]])
    solution = solve(problem, tol=1e-12)
    np.testing.assert_allclose(solution.alpha, alpha, atol=1e-12)
    exact = solution_of(problem, alpha, tol=1e-12)
    for method in ("span", "span-2016"):
        result = evaluate(problem, exact, method)
        assert result.error == 1.0
        assert result.margins.tolist() == [0.0, 0.0]
        assert result.types.tolist() == [1, 1]
        assert result.two_active_share == 1.0
    np.testing.assert_allclose(squared_spans(problem, alpha, result.types), 0.5)


def test_golden_points_on_a_line():
    """x = 1, 2 of class 1 and x = -1 of class 0 on a line, C = 2.

    With w_1 = -w_0 = w the margins are 2 w |x|, so w = 1/2, and the points at 1 and -1 share it:
    alpha_1 = (-a, a), alpha_3 = (1/2 - a)(1, -1), any a; take a = 1/4. Each of them is in the span
    of the other, so S_t = 0: leaving one out changes nothing, and there is no error. At C = 1/8
    both are at their bound, w = 1/4 from them alone, x = 2 sits at its margin of 1 and beyond, and
    SV_1 is empty: S_t^2 = |alpha_t|^2 x_t^2 = 1/32 < alpha_t' f(x_t) = 2 (1/8)(1/4) = 1/16.
    """
    X = np.array([1.0, 2.0, -1.0])
    y = np.array([1, 1, 0])
    direction = np.array([-1.0, 1.0])
    problem = DualProblem(np.outer(X, X), DualRows(y, 2, np.full(3, 2.0)))
    alpha = np.outer([0.25, 0.0, -0.25], direction)
    result = evaluate(problem, solution_of(problem, alpha, tol=1e-12), "span")
    assert result.error == 0.0
    assert result.margins.tolist() == [1.0, 2.0, 1.0]
    assert squared_spans(problem, alpha, result.types).tolist() == [0, 0, 0]

    tight = DualProblem(problem.gram, DualRows(y, 2, np.full(3, 0.125)))
    alpha = np.outer([0.125, 0.0, -0.125], direction)
    exact = solution_of(tight, alpha, tol=1e-12)
    span, original = evaluate(tight, exact, "span"), evaluate(tight, exact, "span-2016")
    assert squared_spans(tight, alpha, span.types).tolist() == [1 / 32, 0, 1 / 32]
    assert span.types.tolist() == [2, 0, 2]
    assert span.error == 0.0
    np.testing.assert_allclose(span.margins, [0.25, 1.0, 0.25])
    assert original.error == 2 / 3
