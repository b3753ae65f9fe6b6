"""The paper's equations (1) to (5), each stated as a test, and one problem solved by hand.

A slack variable is the largest of the lower bounds its constraints give; where copies have to
be found, a linear program finds them.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from musvm.dual import problem as statement
from musvm.dual.problem import DualProblem, DualRows
from musvm.solvers.gram import solve
from oracles import artificial_samples, literal_alpha, optimum, samples_of, solve_eq2, solve_eq5
from strategies import changed, problems, problems_with_feasible_alpha

decision_rows = st.integers(2, 6).flatmap(
    lambda L: st.lists(
        st.one_of(st.integers(-2, 2).map(float), st.floats(-3.0, 3.0)), min_size=L, max_size=L
    )
)


def loss_of(f, *, label=None, delta=0.0, loss="sum") -> float:
    """The loss that the package gives to one point with decision values f."""
    y = np.array([] if label is None else [label], dtype=np.intp)
    problem = DualProblem(np.eye(1), DualRows(y, len(f), np.ones(1), delta, loss))
    return float(statement.losses(problem.rows, np.array([f]))[0])


# ---------------------------------------------------------------------------------------------
# Equations (1) to (4): the losses


@given(decision_rows, st.data())
def test_eq1_slack_of_a_training_point(f, data):
    """(w_y - w_l)^T x >= e_l - xi for every l, with e_l = 1 - [l = y]."""
    y = data.draw(st.integers(0, len(f) - 1))
    xi = max(float(l != y) - (f[y] - f[l]) for l in range(len(f)))
    assert loss_of(f, label=y) == pytest.approx(xi, abs=1e-12)


@given(decision_rows, st.floats(0.0, 2.0))
def test_eq2_slack_of_a_universum_point(f, delta):
    """|(w_k - w_l)^T x| <= Delta + zeta for every k and l, zeta >= 0."""
    zeta = max(0.0, *(abs(f[k] - f[l]) - delta for k in range(len(f)) for l in range(len(f))))
    assert loss_of(f, delta=delta, loss="max") == pytest.approx(zeta, abs=1e-12)


def test_eq3_artificial_samples():
    """Two training points, one universum point, three classes: 2 + 1 * 3 samples."""
    samples = artificial_samples(np.array([2, 0]), 3, np.array([5.0, 5.0, 0.5]), 0.25)
    assert samples.point.tolist() == [0, 1, 2, 2, 2]
    assert samples.label.tolist() == [2, 0, 0, 1, 2]
    assert samples.cap.tolist() == [5.0, 5.0, 0.5, 0.5, 0.5]
    d = -0.25
    assert samples.e.tolist() == [[1, 1, 0], [0, 1, 1], [0, d, d], [d, 0, d], [d, d, 0]]


@given(decision_rows, st.floats(0.0, 2.0))
def test_eq4_loss_is_the_sum_over_the_copies(f, delta):
    """Copy k has label k and e_l = -Delta (1 - [l = k]); its slack is that of eq. (1)."""
    slacks = [max(-delta * (l != k) - (f[k] - f[l]) for l in range(len(f))) for k in range(len(f))]
    assert loss_of(f, delta=delta, loss="sum") == pytest.approx(sum(slacks), abs=1e-12)


@given(decision_rows, st.floats(0.0, 2.0))
def test_eq4_is_one_to_l_minus_one_times_eq2(f, delta):
    one, many = loss_of(f, delta=delta, loss="max"), loss_of(f, delta=delta, loss="sum")
    assert one - 1e-12 <= many <= (len(f) - 1) * one + 1e-12


def test_eq4_and_eq2_differ_for_three_classes():
    """Hand: f = (2, 0, 0), Delta = 0.5. Eq. (2) pays 2 - 0.5 once, eq. (4) for two copies."""
    assert loss_of([2.0, 0.0, 0.0], delta=0.5, loss="max") == 1.5
    assert loss_of([2.0, 0.0, 0.0], delta=0.5, loss="sum") == 3.0


@given(problems())
def test_eq2_and_eq4_agree_for_two_classes(problem):
    problem = changed(problem, n_classes=2, y=problem.rows.y % 2)
    arguments = problem.gram, problem.rows.y, 2, problem.rows.caps, problem.rows.delta
    assert solve_eq2(*arguments).upper == pytest.approx(solve_eq5(*arguments).upper, rel=1e-7)
    one, many = (changed(problem, universum_loss=loss) for loss in ("max", "sum"))
    assert solve(one, tol=1e-8).primal == pytest.approx(solve(many, tol=1e-8).primal, rel=1e-6)


@given(problems())
def test_universum_of_weight_zero_is_the_plain_svm(problem):
    """C* = 0, as a limit: with w of the plain SVM, P(0) <= P(C*) <= P(0) + sum_j C*_j loss_j(w).

    Both ends come from the solver without universum, the middle from the solver with it.
    """
    n = problem.rows.n_train
    plain = changed(problem, gram=problem.gram[:n, :n].copy(), caps=problem.rows.caps[:n].copy())
    solution = solve(plain, tol=1e-8)
    F = problem.gram[:, :n] @ solution.alpha
    price = problem.rows.caps[n:] @ statement.losses(problem.rows, F)[n:]
    with_universum = solve(problem, tol=1e-8).primal
    slack = 1e-7 * solution.primal
    assert -solution.dual - slack <= with_universum <= solution.primal + price + slack


# ---------------------------------------------------------------------------------------------
# Equation (5) and Algorithm 1


@settings(max_examples=50)
@given(problems(losses=st.just("sum")))
def test_eq5_solved_by_algorithm_1_is_what_the_package_solves(problem):
    """Same optimum, and the same decision values sum_i alpha_i K(x_i, x) up to the gap."""
    solution, oracle = solve(problem, tol=1e-8), optimum(problem)
    assert oracle.width <= 1e-7
    assert -solution.dual == pytest.approx(oracle.lower, rel=1e-6)
    samples = samples_of(problem)
    alpha = literal_alpha(solution.alpha, problem.rows.n_train)
    F = problem.gram[:, samples.point] @ alpha
    size = (np.abs(problem.gram) @ np.abs(solution.alpha)).max()
    assert np.abs(F - solution.decision).max() <= 1e-12 * size


def cheapest_copies(a, cap: float, *, one_slack: bool) -> float | None:
    """The least total mass c_1 + ... + c_L of copies that add up to a; None if none exist.

    Copy k puts c_k at label k and takes t_kl >= 0 from the others l, sum_l t_kl = c_k. Each
    c_k <= cap for eq. (4); the slack of eq. (2) is shared, sum_k c_k <= cap.
    """
    L = len(a)
    pairs = [(k, l) for k in range(L) for l in range(L) if k != l]
    adds_up = np.array([[float(l == k) - float(l == j) for k, j in pairs] for l in range(L)])
    mass = np.array([[float(k == l) for l, _ in pairs] for k in range(L)])
    caps = (np.ones((1, len(pairs))), [cap]) if one_slack else (mass, np.full(L, cap))
    result = linprog(np.ones(len(pairs)), *caps, A_eq=adds_up, b_eq=a)
    return float(result.fun) if result.status == 0 else None


def zero_sum_rows(L: int):
    """Integers that sum to zero: sums and comparisons with the cap are exact."""
    return st.lists(st.integers(-4, 4), min_size=L - 1, max_size=L - 1).map(
        lambda values: np.array([*values, -sum(values)], dtype=float)
    )


@given(st.integers(2, 5).flatmap(zero_sum_rows), st.integers(1, 6))
def test_the_reduction_is_exact(a, cap):
    """Copies with sum a exist if and only if a lies in the reduced set, and the cheapest of them
    cost Delta times the positive part of a."""
    positive = np.maximum(a, 0.0).sum()
    reachable = {"sum": a.max() <= cap, "max": positive <= cap}
    for loss in ("sum", "max"):
        cost = cheapest_copies(a, float(cap), one_slack=loss == "max")
        if not reachable[loss]:
            assert cost is None, f"{loss}: copies exist outside the reduced set"
            continue
        assert cost == pytest.approx(positive, abs=1e-9), f"{loss}: not the cheapest cost"
        problem = DualProblem(
            np.eye(1), DualRows(np.array([], np.intp), len(a), np.ones(1) * cap, 1.0, loss)
        )
        assert statement.infeasibility(problem.rows, a[None, :]) == 0.0
        assert statement.dual_costs(problem.rows, a[None, :])[0] == pytest.approx(cost, abs=1e-9)


@given(problems_with_feasible_alpha())
def test_canonical_copies_are_feasible_for_eq5(case):
    """The copies with c_k = max(a_k, 0), which support-vector types are read from."""
    problem, alpha = case
    problem = changed(problem, universum_loss="sum")
    samples = samples_of(problem)
    literal = literal_alpha(alpha, problem.rows.n_train)
    own = samples.label[:, None] == np.arange(problem.rows.n_classes)
    bound = np.where(own, samples.cap[:, None], 0.0)
    assert np.all(literal <= bound + 1e-15 * samples.cap[:, None])
    assert np.all(np.abs(literal.sum(axis=1)) <= 1e-14 * samples.cap)
    total = np.zeros_like(alpha)
    np.add.at(total, samples.point, literal)
    assert np.all(np.abs(total - alpha) <= 1e-14 * np.abs(alpha).max(initial=0.0))


# ---------------------------------------------------------------------------------------------
# Five points, three classes, solved by hand

POINTS = [(2, 0), (0, 2), (-2, -1), (1, 1), (1, 0)]  # the last one is the universum
LABELS = [0, 1, 2, 0]
CAPS = [Fraction(1)] * 4 + [Fraction(1, 2)]
DELTA = Fraction(1, 4)

# The point (1, 1) has both a cap's worth of alpha and a loss; the universum point is at its cap.
BY_HAND = {
    "sum": (
        [
            ("11/60", "-11/60", "0"),
            ("-8/15", "8/15", "0"),
            ("0", "-11/30", "11/30"),
            ("1", "-1", "0"),
            ("-1", "1/2", "1/2"),
        ],
        Fraction(47, 30),
    ),
    "max": (
        [
            ("0", "0", "0"),
            ("-10/19", "10/19", "0"),
            ("0", "-15/38", "15/38"),
            ("1", "-1", "0"),
            ("-1/2", "0", "1/2"),
        ],
        Fraction(217, 152),
    ),
}


def exact_weights(alpha):
    """w_l = sum_i alpha_il x_i, as three pairs of fractions."""
    return [
        [sum(row[l] * x[axis] for row, x in zip(alpha, POINTS, strict=True)) for axis in (0, 1)]
        for l in range(3)
    ]


def exact_objectives(alpha, loss):
    """P and D of the golden problem in rational arithmetic."""
    W = exact_weights(alpha)
    half_norm = sum(v * v for w in W for v in w) / 2
    primal, linear = half_norm, Fraction(0)
    for i, (x, cap) in enumerate(zip(POINTS, CAPS, strict=True)):
        f = [w[0] * x[0] + w[1] * x[1] for w in W]
        if i < len(LABELS):
            y = LABELS[i]
            primal += cap * max(f[l] - f[y] + (l != y) for l in range(3))
            linear -= alpha[i][y]
        else:
            slacks = [max(max(f) - fk - DELTA, Fraction(0)) for fk in f]
            primal += cap * (sum(slacks) if loss == "sum" else max(slacks))
            linear += DELTA * sum(max(v, Fraction(0)) for v in alpha[i])
    return primal, half_norm + linear


def exactly_feasible(alpha, loss) -> bool:
    *training, universum = alpha
    own = all(row[y] <= cap for row, y, cap in zip(training, LABELS, CAPS[:4], strict=True))
    others = all(
        v <= 0 for row, y in zip(training, LABELS, strict=True) for l, v in enumerate(row) if l != y
    )
    mass = sum(max(v, Fraction(0)) for v in universum)
    within = max(universum) <= CAPS[4] if loss == "sum" else mass <= CAPS[4]
    return own and others and within and all(sum(row) == 0 for row in alpha)


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_five_points_by_hand(loss):
    """alpha is feasible and its gap is exactly zero, so it is the optimum; the solver agrees."""
    rows, objective = BY_HAND[loss]
    alpha = [[Fraction(v) for v in row] for row in rows]
    primal, dual = exact_objectives(alpha, loss)
    assert (primal, dual) == (objective, -objective)
    assert exactly_feasible(alpha, loss)

    X = np.array(POINTS, dtype=float)
    caps = np.array([float(cap) for cap in CAPS])
    problem = DualProblem(X @ X.T, DualRows(np.array(LABELS, np.intp), 3, caps, float(DELTA), loss))
    solution = solve(problem, tol=1e-12)
    assert solution.primal == pytest.approx(float(objective), rel=1e-11)
    assert -solution.dual == pytest.approx(float(objective), rel=1e-11)
    expected = X @ np.array([[float(v) for v in w] for w in exact_weights(alpha)]).T
    # Weights are as certain as the square root of the gap.
    np.testing.assert_allclose(solution.decision, expected, rtol=0, atol=1e-5)
