"""The NumPy statement of the problem, against the paper's definitions spelled out in loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given

from musvm.dual import problem as statement
from musvm.dual.problem import DualProblem, DualRows
from musvm.dual.solution import hidden_gap, rounding_of_gap
from oracles import (
    complementarity,
    constraint_violation,
    eq2_losses,
    eq4_losses,
    features,
    literal_alpha,
    samples_of,
)
from strategies import problems, problems_with_feasible_alpha


def literal_losses(problem, F) -> np.ndarray:
    """The loss of every point from the slacks of eq. (4) or eq. (2)."""
    if problem.rows.is_max:
        return eq2_losses(F, problem.rows.y, problem.rows.delta)
    samples = samples_of(problem)
    return np.bincount(samples.point, eq4_losses(samples, F), minlength=len(F))


def terms(problem, alpha, F) -> float:
    """The size of what is added up, against which rounding is measured."""
    mass = np.abs(alpha).sum(axis=1)
    losses = problem.rows.caps @ (4.0 + np.abs(F).sum(axis=1))
    return float(mass @ np.abs(problem.gram) @ mass + losses)


@given(problems_with_feasible_alpha())
def test_losses_are_the_smallest_slacks(case):
    problem, alpha = case
    F = problem.gram @ alpha
    np.testing.assert_allclose(F, problem.gram @ alpha, rtol=1e-12, atol=1e-12 * np.abs(F).max())
    found = statement.losses(problem.rows, F)
    np.testing.assert_allclose(
        found, literal_losses(problem, F), rtol=1e-12, atol=1e-13 * (1 + np.abs(F).max())
    )
    assert np.all(found >= 0)


@given(problems_with_feasible_alpha())
def test_dual_objective_is_minus_w_of_eq5(case):
    problem, alpha = case
    F = problem.gram @ alpha
    found = statement.dual_objective(problem.rows, alpha, F)
    Z = features(problem.gram)
    if problem.rows.universum_loss == "sum":
        samples, literal = samples_of(problem), literal_alpha(alpha, problem.rows.n_train)
        weights = Z[samples.point].T @ literal
        expected = 0.5 * np.sum(weights**2) + np.sum(literal * samples.e)
    else:
        weights = Z.T @ alpha
        own = sum(alpha[i, label] for i, label in enumerate(problem.rows.y))
        moved = 0.5 * np.abs(alpha[problem.rows.n_train :]).sum()
        expected = 0.5 * np.sum(weights**2) - own + problem.rows.delta * moved
    assert found == pytest.approx(expected, rel=0, abs=1e-12 * terms(problem, alpha, F))


@given(problems_with_feasible_alpha())
def test_primal_objective_is_that_of_the_weights(case):
    problem, alpha = case
    F = problem.gram @ alpha
    weights = features(problem.gram).T @ alpha
    expected = 0.5 * np.sum(weights**2) + problem.rows.caps @ literal_losses(problem, F)
    found = statement.primal_objective(problem.rows, alpha, F)
    assert found == pytest.approx(expected, rel=0, abs=1e-12 * terms(problem, alpha, F))


@given(problems_with_feasible_alpha())
def test_gap_is_primal_plus_dual_row_by_row_and_nonnegative(case):
    problem, alpha = case
    F = problem.gram @ alpha
    rows, size = statement.row_gaps(problem.rows, alpha, F), terms(problem, alpha, F)
    total = statement.primal_objective(problem.rows, alpha, F) + statement.dual_objective(
        problem.rows, alpha, F
    )
    assert rows.sum() == pytest.approx(total, rel=0, abs=1e-12 * size)
    assert rows.min() >= -1e-12 * size
    assert complementarity(problem, alpha).sum() == pytest.approx(total, rel=0, abs=1e-12 * size)


@given(problems_with_feasible_alpha())
def test_gap_and_primal_together_are_those_of_the_rows_and_of_the_weights(case):
    problem, alpha = case
    F = problem.gram @ alpha
    gaps = np.maximum(statement.row_gaps(problem.rows, alpha, F), 0.0)
    expected = gaps.sum(), statement.primal_objective(problem.rows, alpha, F)
    assert statement.gap_and_primal(problem.rows, alpha, F) == expected


@given(problems_with_feasible_alpha())
def test_row_gaps_are_nonnegative_for_an_indefinite_matrix_too(case):
    problem, alpha = case
    F = -3.0 * problem.gram @ alpha
    assert statement.row_gaps(problem.rows, alpha, F).min() >= -1e-12 * terms(problem, alpha, F)


@given(problems_with_feasible_alpha())
def test_a_feasible_alpha_is_seen_as_feasible(case):
    problem, alpha = case
    assert statement.infeasibility(problem.rows, alpha) <= 1e-14
    assert constraint_violation(problem, alpha) <= 1e-14


@given(problems_with_feasible_alpha())
def test_each_kind_of_violation_is_seen_and_measured(case):
    """Break one constraint of one row by a quarter of its cap."""
    problem, alpha = case
    n, L = problem.rows.n_train, problem.rows.n_classes
    for i, cap in enumerate(problem.rows.caps):
        unbalanced = alpha.copy()
        unbalanced[i, 0] -= cap / 4
        assert statement.infeasibility(problem.rows, unbalanced) == pytest.approx(0.25)

        beyond = alpha.copy()
        k, l = (problem.rows.y[i], (problem.rows.y[i] + 1) % L) if i < n else (0, 1)
        beyond[i] = 0.0
        beyond[i, [k, l]] = 1.25 * cap, -1.25 * cap
        assert statement.infeasibility(problem.rows, beyond) == pytest.approx(0.25)

        if i < n:
            wrong = alpha.copy()
            wrong[i] = 0.0
            wrong[i, [l, k]] = 0.25 * cap, -0.25 * cap
            assert statement.infeasibility(problem.rows, wrong) == pytest.approx(0.25)


def steepest_descent(problem, alpha, F, i) -> float:
    """The largest decrease per unit of mass moved from one label of row i to another.

    One-sided derivatives: a step of 1/64 of the cap crosses no bound or kink of an alpha in
    eighths, and without the quadratic term the dual is linear along it.
    """
    cap, L = problem.rows.caps[i], problem.rows.n_classes
    step, best = cap / 64.0, 0.0
    cost = statement.dual_costs(problem.rows, alpha)[i]
    for k in range(L):
        for l in range(L):
            moved = alpha.copy()
            moved[i, k] += step
            moved[i, l] -= step
            if k == l or constraint_violation(problem, moved) > 1e-6:
                continue
            change = (
                (statement.dual_costs(problem.rows, moved)[i] - cost) / step + F[i, k] - F[i, l]
            )
            best = max(best, -change)
    return best


@given(problems_with_feasible_alpha())
def test_kkt_violations_are_the_steepest_exchanges(case):
    problem, alpha = case
    F = problem.gram @ alpha
    found = statement.kkt_violations(problem.rows, alpha, F)
    rows = range(0, problem.n_points, 4)
    expected = [steepest_descent(problem, alpha, F, i) for i in rows]
    np.testing.assert_allclose(
        found[list(rows)], expected, rtol=1e-9, atol=1e-10 * (1 + np.abs(F).max())
    )


@given(problems_with_feasible_alpha())
def test_rows_without_violation_have_no_gap_and_the_other_way_round(case):
    problem, alpha = case
    F = problem.gram @ alpha
    size = 1.0 + problem.rows.delta + np.abs(F).max()
    gaps = statement.row_gaps(problem.rows, alpha, F) / problem.rows.caps
    violations = statement.kkt_violations(problem.rows, alpha, F)
    # In eighths of the cap: a violation v leaves a gap of at least cap v / 8, at most L cap v.
    assert np.all(gaps >= violations / 8.0 - 1e-10 * size)
    assert np.all(gaps <= 2 * problem.rows.n_classes * violations + 1e-10 * size)


@given(problems())
def test_malformed_problems_are_refused(problem):
    assume(problem.n_points > 1)
    K, y, L, caps = problem.gram, problem.rows.y, problem.rows.n_classes, problem.rows.caps
    for broken in [
        {"gram": K[:-1]},
        {"caps": caps[:-1]},
        {"caps": -caps},
        {"caps": np.where(np.arange(len(caps)) == 0, 0.0, caps)},
        {"y": np.zeros(problem.n_points + 1, dtype=np.intp)},
        {"n_classes": 1},
        {"delta": -1e-9},
    ]:
        rows = {"y": y, "n_classes": L, "caps": caps} | broken
        gram = rows.pop("gram", K)
        with pytest.raises(ValueError, match="must be"):
            DualProblem(gram, DualRows(**rows))


# ---------------------------------------------------------------------------------------------
# What a tolerance means


def test_relative_gap_is_that_of_the_gain_where_C_is_small_and_of_P_where_it_is_large():
    """P(0) is 3: the gains are 0.1 and 2.5."""
    rows = DualRows(np.array([0, 1]), 2, np.array([1.0, 2.0, 5.0]))
    assert rows.primal_at_zero == 3.0
    assert statement.relative_gap(rows, gap=1e-3, primal=2.9) == pytest.approx(1e-3 / 0.1)
    assert statement.relative_gap(rows, gap=1e-3, primal=0.5) == pytest.approx(1e-3 / 0.5)


def test_a_share_of_the_gain_counts_where_it_is_below_P():
    rows = DualRows(np.array([0, 1]), 2, np.array([1.0, 2.0]), share_of_gain=0.1)
    assert statement.relative_gap(rows, gap=1e-3, primal=0.5) == pytest.approx(1e-3 / 0.25)
    assert statement.relative_gap(rows, gap=1e-3, primal=0.1) == pytest.approx(1e-3 / 0.1)
    assert rows.at(np.array([0])).share_of_gain == 0.1


@pytest.mark.parametrize("primal", [3.0, 3.1])
def test_a_model_that_gains_nothing_has_no_small_relative_gap(primal):
    rows = DualRows(np.array([0, 1]), 2, np.array([1.0, 2.0]))
    assert statement.relative_gap(rows, gap=1e-3 + primal - 3.0, primal=primal) == np.inf


def test_a_model_without_losses_or_weights_is_worth_nothing():
    rows = DualRows(np.array([0, 1]), 2, np.array([1.0, 2.0]))
    assert statement.relative_gap(rows, gap=1e-3, primal=0.0) == np.inf


def test_what_rounding_hides_is_told_by_the_same_measure_as_the_gap():
    """P(0) is 3: at P = 2 with a gap of 0.5 the optimum gains at most 1.5."""
    rows = DualRows(np.array([0, 1]), 2, np.array([1.0, 2.0]), share_of_gain=0.1)
    alpha, diagonal = np.array([[1.0, -1.0], [-2.0, 2.0]]), np.array([1.0, 4.0])
    rounding = rounding_of_gap(rows, alpha, diagonal)
    assert hidden_gap(rows, alpha, diagonal, 0.5, 2.0) == pytest.approx(rounding / 0.15)
    assert hidden_gap(rows, alpha, diagonal, 0.5, 0.1) == pytest.approx(rounding / 0.1)


def test_rounding_and_optima_that_gain_nothing_are_told_by_P():
    rows = DualRows(np.array([0, 1]), 2, np.array([1.0, 2.0]))
    assert statement.relative_gap(rows, gap=2e-15, primal=3.0) == pytest.approx(2e-15 / 3)
    assert statement.relative_gap(rows, gap=1e-9, primal=3.0) == pytest.approx(1e-9 / 3)
    assert statement.relative_gap(rows, gap=0.0, primal=3.0) == 0.0


@given(problems_with_feasible_alpha())
def test_relative_gap_is_never_below_the_gap_relative_to_P(case):
    problem, alpha = case
    gap, primal = statement.gap_and_primal(problem.rows, alpha, problem.gram @ alpha)
    assume(primal > 0)
    assert statement.relative_gap(problem.rows, gap, primal) >= gap / primal
