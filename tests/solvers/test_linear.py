"""The linear path: certified, equal to the path with the Gram matrix, and the same for every form
of the points.

Sweeps are rounded to floats inside, so every claim about accuracy is made through the
certificate, which is computed in doubles and checked here against the statement.
"""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import strategies
from musvm import UniversumSVC
from musvm._threads import Workers, workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualProblem, DualRows
from musvm.solvers import _linear
from musvm.solvers import choose as paths
from musvm.solvers import linear as linear_weights
from musvm.solvers.gram import solve
from musvm.solvers.linear import Points, solve_linear
from oracles import constraint_violation


@dataclass(frozen=True)
class Case:
    """Points and their rows, with the same as a problem with its Gram matrix."""

    X: np.ndarray
    rows: DualRows

    @property
    def problem(self) -> DualProblem:
        rows, gram = self.rows, self.X @ self.X.T
        gram = np.ascontiguousarray(0.5 * (gram + gram.T))
        return DualProblem(
            gram, DualRows(rows.y, rows.n_classes, rows.caps, rows.delta, rows.universum_loss)
        )

    def solve(self, *, points=None, tol=1e-3, **options):
        points = self.X if points is None else points
        everything = np.arange(len(self.X))
        return solve_linear(points, everything, self.rows, Workers(), tol=tol, **options)


@st.composite
def cases(draw) -> Case:
    """Small problems of every kind; zero rows and copies among the points, or few entries."""
    L = draw(st.integers(2, 6))
    n, m = draw(st.integers(1, 15)), draw(st.integers(0, 10))
    labels = st.lists(st.integers(0, L - 1), min_size=n, max_size=n)
    X = draw(strategies.points(n + m, draw(st.integers(1, 9))))
    if draw(st.booleans()):
        X[:, ::2] = 0.0
    rows = DualRows(
        np.array(draw(labels), dtype=np.intp),
        L,
        draw(strategies.caps(n, m)),
        draw(strategies.DELTAS),
        draw(strategies.LOSSES),
    )
    return Case(X, rows)


def digits(n: int = 600, m: int = 300, loss: str = "sum", C: float = 0.1) -> Case:
    """Digits 0-6 as classes, 7-9 as universum."""
    X, target = load_digits(return_X_y=True)
    inside, outside = np.flatnonzero(target < 7)[:n], np.flatnonzero(target >= 7)[:m]
    caps = C * np.r_[np.ones(len(inside)), np.full(len(outside), n / (m * 7))]
    rows = DualRows(target[inside].astype(np.intp), 7, caps, 0.1, loss)
    return Case(X[np.r_[inside, outside]] / 16.0, rows)


# ---------------------------------------------------------------------------------------------
# The points


FORMS = {"dense": np.asarray, "CSR": sp.csr_array}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zeros", [0, 4])
@settings(max_examples=50)
@given(X=strategies.points(12, 7), dtype=st.sampled_from([np.float32, np.float64]))
def test_sweeps_get_the_chosen_rows(form, zeros, X, dtype):
    X[:, :zeros] = 0.0
    rows = np.array([7, 2, 2, 11])
    found = Points(FORMS[form](X), rows, Workers()).for_sweeps(dtype)
    restored = np.zeros((len(rows), X.shape[1]))
    for k in range(len(rows)):
        entries = slice(found.starts[k], found.stops[k])
        columns = found.columns if found.dense else found.columns[entries]
        restored[k, columns] = found.data[entries]
    assert found.data.dtype == dtype
    np.testing.assert_array_equal(restored, X[rows].astype(dtype))


def test_weights_of_points_far_from_the_origin_keep_their_digits():
    """Class by class, sums grow to half of all that is added before they cancel."""
    rng, n = np.random.default_rng(0), 40_000
    X, alpha = 100.0 + rng.normal(size=(n, 3)), rng.uniform(size=(n, 2)) * [[1.0, -1.0]]
    alpha[n // 2 :] *= -1.0
    exact = [[math.fsum(x * a) for a in alpha.T] for x in X.T]
    V = Points(X, np.arange(n), Workers()).weights(alpha)[:, :2]
    added = np.abs(alpha[:, :1] * X).sum()
    assert np.abs(V - exact).max() <= 1.5e-16 * added, "one sum of all is off by 7e-16"


def test_only_points_with_many_zeros_are_compressed():
    full, rows = np.ones((10, 4)), np.arange(10)
    half = full * [1, 0, 1, 0]
    assert Points(full, rows, Workers()).for_sweeps(np.float32).dense
    assert not Points(half, rows, Workers()).for_sweeps(np.float32).dense


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zeros", [0, 4])
@settings(max_examples=50)
@given(X=strategies.points(12, 7), L=st.integers(1, 40))
def test_products_are_those_of_the_chosen_rows(form, zeros, X, L):
    X[:, :zeros] = 0.0
    rows = np.array([7, 2, 3, 11])
    points = Points(FORMS[form](X), rows, Workers())
    alpha = np.random.default_rng(0).normal(size=(4, L)) * [[1], [0], [1], [1]]
    V = points.weights(alpha)
    largest = np.abs(X).max()
    np.testing.assert_allclose(V[:, :L], X[rows].T @ alpha, rtol=1e-12, atol=1e-14 * largest)
    assert not V[:, L:].any()
    F = points.decision_values(V, L)
    np.testing.assert_allclose(F, X[rows] @ V[:, :L], rtol=1e-12, atol=1e-13 * largest**2)
    norms = points.for_sweeps(np.float64).squared_norms(Workers())
    np.testing.assert_allclose(norms, np.square(X[rows]).sum(axis=1), rtol=1e-12)


# ---------------------------------------------------------------------------------------------
# The solution


@settings(max_examples=150)
@given(cases())
def test_objective_is_that_of_the_path_with_the_gram_matrix(case):
    solution, problem = case.solve(max_iter=200), case.problem
    reference = solve(problem, tol=1e-6)
    assert constraint_violation(problem, solution.alpha) <= 1e-12
    # A gap is a bound: both optima lie between the dual and the primal objective.
    scale = 1e-6 * abs(reference.primal)
    assert -solution.dual <= reference.primal + scale
    assert -reference.dual <= solution.primal + scale
    assert solution.primal - reference.primal <= solution.gap + scale


@settings(max_examples=100)
@given(cases())
def test_the_certificate_is_that_of_the_statement(case):
    solution, problem = case.solve(tol=1e-2, max_iter=100), case.problem
    F = case.X @ (case.X.T @ solution.alpha)
    rounding = 1e-12 * (1.0 + np.abs(F).max()) * problem.rows.caps.sum()
    np.testing.assert_allclose(solution.decision, F, rtol=1e-9, atol=1e-9 * (1 + np.abs(F).max()))
    gap = statement.row_gaps(problem.rows, solution.alpha, F).sum()
    assert solution.gap == pytest.approx(gap, rel=1e-6, abs=rounding)
    primal = statement.primal_objective(problem.rows, solution.alpha, F)
    assert solution.primal == pytest.approx(primal, rel=1e-9, abs=rounding)
    relative = statement.relative_gap(problem.rows, solution.gap, solution.primal)
    assert solution.relative_gap == relative
    assert solution.converged == (relative <= 1e-2)
    assert not solution.converged or solution.gap <= 1e-2 * abs(solution.primal)


@settings(max_examples=100)
@given(cases())
def test_sparse_points_give_the_solution_of_dense_ones(case):
    dense = case.solve(max_iter=200)
    sparse = case.solve(points=sp.csr_array(case.X), max_iter=200)
    scale = 1e-9 * abs(dense.primal)
    assert -dense.dual <= sparse.primal + scale
    assert -sparse.dual <= dense.primal + scale
    if np.count_nonzero(case.X) <= linear_weights.DENSE * case.X.size:
        # Both are compressed, so that not a digit differs.
        assert np.array_equal(dense.alpha, sparse.alpha)


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_a_tight_tolerance_is_reached_although_sweeps_begin_in_floats(loss):
    case = digits(loss=loss)
    solution = case.solve(tol=1e-8, max_iter=5000)
    F = case.X @ (case.X.T @ solution.alpha)
    assert solution.converged
    gap = statement.row_gaps(case.rows, solution.alpha, F).sum()
    assert gap <= 1.01e-8 * solution.primal
    assert solution.primal == pytest.approx(solve(case.problem, tol=1e-9).primal, rel=2e-8)


def test_without_a_universum_it_is_the_machine_of_liblinear():
    X, y = load_digits(return_X_y=True)
    X /= 16.0
    rows = DualRows(y.astype(np.intp), 10, np.full(len(y), 0.05))
    peer = LinearSVC(
        C=0.05, multi_class="crammer_singer", fit_intercept=False, tol=1e-6, random_state=0
    ).fit(X, y)
    weights = peer.coef_
    margins = X @ weights.T + 1.0
    own = margins[np.arange(len(y)), y] - 1.0
    margins[np.arange(len(y)), y] = own
    objective = 0.5 * np.square(weights).sum() + 0.05 * (margins.max(axis=1) - own).sum()
    solution = Case(X, rows).solve(tol=1e-5)
    assert solution.converged
    assert solution.primal == pytest.approx(objective, rel=1e-4)


def test_points_that_are_all_zero_are_no_obstacle():
    rows = DualRows(np.array([0, 1, 2], dtype=np.intp), 3, np.full(5, 7.0), 0.1)
    solution = Case(np.zeros((5, 4)), rows).solve()
    assert solution.converged
    assert solution.primal == pytest.approx(21.0)


@pytest.mark.parametrize("factor", [1e-80, 1e80])
def test_features_outside_the_range_of_floats_are_solved_in_doubles(factor):
    case = digits(n=100, m=30)
    rows = case.rows
    # (factor x, C / factor^2) is the same problem in other units.
    scaled = DualRows(rows.y, rows.n_classes, rows.caps / factor**2, rows.delta)
    solution = Case(case.X * factor, scaled).solve()
    assert solution.converged
    assert solution.primal * factor**2 == pytest.approx(case.solve().primal, rel=2e-3)


def test_features_whose_squares_overflow_are_refused():
    case = digits(n=30, m=5)
    with pytest.raises(ValueError, match="kernel"):
        Case(case.X * 1e200, case.rows).solve()


def test_rounds_end_at_max_iter_with_an_honest_certificate():
    case, gaps = digits(), []
    solution = case.solve(tol=1e-12, max_iter=3, callback=lambda _, gap: gaps.append(gap))
    assert solution.n_rounds == len(gaps) == 3
    assert not solution.converged
    F = case.X @ (case.X.T @ solution.alpha)
    gap = statement.row_gaps(case.rows, solution.alpha, F).sum()
    assert solution.gap == pytest.approx(gap, rel=1e-6)
    measure = statement.relative_gap(case.rows, gap, solution.primal)
    assert solution.history[-1] == pytest.approx(measure, rel=1e-6)


# ---------------------------------------------------------------------------------------------
# What must not matter


def small_case(C: float) -> Case:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    X = rng.normal(size=(140, 5)) + np.concatenate([y, np.ones(20)])[:, None]
    return Case(X, DualRows(y, 3, np.full(140, C), 0.1))


def test_rounds_go_further_once_the_tolerance_is_reached():
    """For at most as many again; what is found by then is never worse."""
    case, told = small_case(1e-2), []
    usual = case.solve(tol=1e-3)
    further = case.solve(tol=1e-3, further=1e-2, callback=lambda n, gap: told.append(n))
    assert usual.converged
    assert further.converged
    assert further.relative_gap <= 1e-5 < usual.relative_gap
    assert usual.n_rounds < further.n_rounds <= 2 * usual.n_rounds
    assert told == list(range(1, further.n_rounds + 1))
    no_further = case.solve(tol=1e-3, further=1e-30)
    assert no_further.n_rounds <= 2 * usual.n_rounds
    assert no_further.relative_gap <= usual.relative_gap
    assert no_further.converged


def test_what_never_reached_the_tolerance_goes_no_further():
    case = small_case(1e-2)
    assert case.solve(tol=1e-9, max_iter=3, further=0.1).n_rounds == 3


@pytest.mark.parametrize("sparse", [False, True])
def test_the_number_of_threads_changes_no_digit(sparse, monkeypatch):
    monkeypatch.setattr(linear_weights, "PIECE", 100)
    case, found = digits(), []
    points = sp.csr_array(case.X) if sparse else case.X
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"), workers() as team:
            found.append(solve_linear(points, np.arange(len(case.X)), case.rows, team, tol=1e-3))
    assert np.array_equal(found[0].alpha, found[1].alpha)
    assert found[0].gap == found[1].gap


def test_how_columns_are_counted_changes_no_digit(monkeypatch):
    case = digits(n=200, m=60)
    X = case.X * (case.X > 0.5)
    short = Points(X, np.arange(len(X)), Workers()).for_sweeps(np.float32).columns
    alpha = Case(X, case.rows).solve().alpha
    monkeypatch.setattr(linear_weights, "MANY_COLUMNS", X.shape[1] - 1)
    long = Points(X, np.arange(len(X)), Workers()).for_sweeps(np.float32).columns
    assert (short.itemsize, long.itemsize) == (2, 4)
    assert np.array_equal(short, long)
    assert np.array_equal(Case(X, case.rows).solve().alpha, alpha)


@pytest.mark.parametrize(("d", "column_bytes"), [(2**16, 2), (2**16 + 1, 4)])
def test_columns_stay_apart_where_16_bits_end(d, column_bytes):
    # One class by the first column, one by the last: where 16 bits are too few they are the same.
    rng, y = np.random.default_rng(0), np.arange(24) % 3
    X = np.zeros((30, d))
    X[:, :: d // 50] = 0.1 * rng.normal(size=X[:, :: d // 50].shape)
    for label, column in enumerate((0, d - 1, d - 2)):
        X[:24][y == label, column] = 1.0
    case = Case(X, DualRows(y, 3, np.full(30, 0.3), 0.1))
    points = Points(X, np.arange(30), Workers()).for_sweeps(np.float32)
    assert (points.dense, points.columns.itemsize) == (False, column_bytes)
    solution, reference = case.solve(tol=1e-6), solve(case.problem, tol=1e-6)
    assert solution.converged
    assert abs(solution.primal - reference.primal) <= max(solution.gap, reference.gap)
    F = X @ (X.T @ solution.alpha)
    np.testing.assert_allclose(solution.decision, F, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", ["gram", "working-set", "linear"])
def test_the_number_of_threads_changes_no_digit_of_the_weights(solver):
    X, y = load_digits(return_X_y=True)
    models = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            model = UniversumSVC(0.01, kernel="linear", solver=solver, tol=1e-2)
            models.append(model.fit(X / 16.0, y))
    assert np.array_equal(models[0].coef_, models[1].coef_)


@pytest.fixture
def two_kinds_of_vectors():
    if not _linear.use_long_vectors(True):
        pytest.skip("the processor has short vectors only")
    yield
    _linear.use_long_vectors(True)


# Share of entries that are not zero, form, and bytes per column where columns are listed per row.
LAYOUTS = {
    "dense": (1.0, np.asarray, None),
    "compressed": (0.4, np.asarray, 2),
    "CSR": (0.4, sp.csr_array, 4),
}


@pytest.mark.usefixtures("two_kinds_of_vectors")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
# Tiles of 4; 8; 16; 16 and 4; 16, 16 and 8 labels.
@pytest.mark.parametrize("L", [2, 5, 10, 17, 40])
def test_longer_vectors_change_no_digit(layout, dtype, L):
    rng, (share, form, column_bytes) = np.random.default_rng(L), LAYOUTS[layout]
    X = form(rng.normal(size=(60, 33)) * (rng.random((60, 33)) < share))
    y, caps = rng.integers(L, size=50), np.full(60, 0.3)
    found = []
    for wanted in (False, True):
        assert _linear.use_long_vectors(wanted) == wanted
        descent = linear_weights._Descent(X, np.arange(60), DualRows(y, L, caps, 0.1), Workers())
        descent.use(dtype)
        points = descent.points
        assert points.data.dtype == dtype
        assert (None if points.dense else points.columns.itemsize) == column_bytes
        descent.certify()
        descent.sweeps(np.arange(60), 3, np.random.RandomState(0))
        swept_V, swept, certified = descent.V.copy(), descent.survey(), descent.certify()
        found.append((swept_V, swept.alpha, swept.F, certified.F, descent.V))
    names = ("swept V", "alpha", "F", "exact F", "exact V")
    for name, short, long in zip(names, *found, strict=True):
        assert np.any(short), name
        assert np.array_equal(short, long), name


def test_rows_that_take_no_part_change_nothing():
    case = digits(n=100, m=30)
    padding = np.full((20, case.X.shape[1]), 3.0)
    points = np.vstack([padding, case.X, padding])
    chosen = np.arange(20, 20 + len(case.X))
    among_others = solve_linear(points, chosen, case.rows, Workers(), tol=1e-3)
    alone = case.solve()
    assert among_others.primal == pytest.approx(alone.primal, rel=1e-3)
    assert among_others.alpha.shape == alone.alpha.shape


def test_no_matrix_between_points_is_ever_made():
    n = 4000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    rows = DualRows(rng.integers(0, 3, size=n), 3, np.full(n, 0.01))
    tracemalloc.start()
    Case(X, rows).solve(tol=1e-2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n, "a Gram matrix of bytes would be larger"


# ---------------------------------------------------------------------------------------------
# The choice of the path


def test_many_points_with_a_linear_kernel_take_the_linear_path(monkeypatch):
    monkeypatch.setattr(paths, "GRAM_LIMIT", 10)
    assert paths.choose(11, "linear", "auto") == "linear"
    assert paths.choose(10, "linear", "auto") == "gram"
    assert paths.choose(11, "rbf", "auto") == "working-set"
    assert paths.choose(11, "linear", "working-set") == "working-set"


def test_the_linear_path_refuses_other_kernels():
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match=r"solver='linear' needs kernel='linear', got .*'rbf'"):
        UniversumSVC(solver="linear").fit(X, y)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["sum", "max"])
def test_the_estimator_is_the_same_on_every_path(sparse, loss):
    case = digits(n=200, m=60)
    n = case.rows.n_train
    X, U = case.X[:n], case.X[n:]
    if sparse:
        X, U = sp.csr_array(X), sp.csr_array(U)
    settings = {"C": 0.1, "kernel": "linear", "delta": 0.1, "universum_loss": loss, "tol": 1e-6}
    fits = {
        solver: UniversumSVC(solver=solver, **settings).fit(X, case.rows.y, universum=U)
        for solver in ("gram", "working-set", "linear")
    }
    reference = fits["gram"]
    for solver, fit in fits.items():
        assert fit.converged_, solver
        assert fit.objective_ == pytest.approx(reference.objective_, rel=2e-6), solver
        # Decision values differ by no more than the certificates allow.
        bound = np.sqrt(2 * fit.dual_gap_) + np.sqrt(2 * reference.dual_gap_)
        assert np.linalg.norm(fit.coef_ - reference.coef_) <= bound, solver


def test_the_estimator_says_when_rounds_ran_out():
    case = digits(n=200, m=60)
    n = case.rows.n_train
    model = UniversumSVC(C=10.0, kernel="linear", solver="linear", tol=1e-10, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="2 rounds"):
        model.fit(case.X[:n], case.rows.y, universum=case.X[n:])
    assert not model.converged_


@pytest.mark.parametrize("zeros", [0.0, 0.9], ids=["dense", "mostly zero"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_the_order_of_the_rows_changes_no_digit(container, zeros):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = (rng.normal(size=(3, 40))[y] + rng.normal(size=(300, 40))) * (rng.random((300, 40)) > zeros)
    order = rng.permutation(300)
    one, other = (
        UniversumSVC(kernel="linear", solver="linear").fit(container(X[rows]), y[rows])
        for rows in (np.arange(300), order)
    )
    assert one.objective_ == other.objective_
    assert np.array_equal(one.model_.alpha[order], other.model_.alpha)
