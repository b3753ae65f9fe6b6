"""All paths lead to the same model: same objective, same predictions where these are certain."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_wine, make_classification
from tests.support.calls import starts_of
from threadpoolctl import threadpool_limits

from musvm import UniversumSVC
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers import by_turns
from musvm.solvers import choose as paths
from musvm.solvers.backends import host
from musvm.solvers.choose import PointProblem
from musvm.solvers.factors import pivoted_cholesky
from musvm.solvers.rounds import RATED

SOLVERS = ("gram", "working-set")


@pytest.fixture
def small_working_sets(monkeypatch):
    """Working sets far smaller than the problems of these tests."""
    monkeypatch.setattr(host, "SIZE", 40)


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of work small enough that several threads have some."""
    monkeypatch.setattr("musvm._threads.PIECE", 32)
    monkeypatch.setattr("musvm.solvers.linear.PIECE", 32)


@st.composite
def data(draw):
    """Overlapping classes, some of them in duplicates, and a universum or none."""
    seed, L = draw(st.integers(0, 10**6)), draw(st.integers(2, 5))
    X, y = make_classification(
        90, 8, n_informative=6, n_redundant=1, n_classes=L, n_clusters_per_class=1, class_sep=0.8,
        random_state=seed,
    )  # fmt: skip
    X[:5] = X[5:10]
    m = draw(st.sampled_from([0, 30]))
    return X, y, np.random.RandomState(seed).normal(size=(m, 8)) if m else None


ROUNDS = 3000
GAP = 1e-5
# Relative gaps that each path must reach in its rounds, by kernel and C, where GAP takes longer:
# descent is slow where C is large. A solver that stays where it begins has a gap of 1.
SLOW = {
    ("linear", "linear", 1.0): 1e-3,
    ("linear", "linear", 100.0): 0.5,
    ("working-set", "linear", 100.0): 1e-2,
}


@pytest.mark.usefixtures("small_working_sets", "small_pieces")
@pytest.mark.filterwarnings(f"ignore:The solver stopped after {ROUNDS} rounds")
@settings(max_examples=40)
@given(
    data=data(),
    C=st.sampled_from([0.01, 1.0, 100.0]),
    loss=st.sampled_from(["sum", "max"]),
    kernel=st.sampled_from(["linear", "rbf", "poly"]),
    delta=st.sampled_from([0.0, 0.1]),
    n_threads=st.sampled_from([1, 2]),
)
def test_objectives_agree_and_predictions_where_certain(data, C, loss, kernel, delta, n_threads):
    X, y, U = data
    with threadpool_limits(n_threads, user_api="blas"):
        models = [
            UniversumSVC(
                C, kernel=kernel, coef0=1.0, delta=delta, universum_loss=loss, tol=GAP,
                solver=solver, max_iter=ROUNDS,
            ).fit(X, y, universum=U)
            for solver in (*SOLVERS, *(["linear"] if kernel == "linear" else []))
        ]  # fmt: skip
    for model in models:
        required = SLOW.get((model.solver, kernel, C), GAP)
        assert model.dual_gap_ <= required * model.objective_, model.solver
    diagonal = models[0].model_.kernel.matrix(X, X).diagonal()
    for other in models[1:]:
        assert_same_model(models[0], other, X, diagonal)


def assert_same_model(first, second, X, diagonal):
    """Both are within their gaps of one optimum, in objective, decision values and predictions."""
    apart = abs(second.objective_ - first.objective_)
    assert apart <= max(first.dual_gap_, second.dual_gap_) + 1e-12 * first.objective_
    # Strong convexity: decision values are within sqrt(2 gap K) of the optimum's, each.
    radius = sum(np.sqrt(2.0 * model.dual_gap_ * diagonal) for model in (first, second))
    values = [model._decision_values(X) for model in (first, second)]
    assert np.all(np.abs(values[0] - values[1]) <= radius[:, None] * (1 + 1e-6) + 1e-9)
    second_best, best = np.partition(values[0], -2, axis=1)[:, -2:].T
    certain = best - second_best > 2.0 * radius + 1e-9
    assert np.array_equal(first.predict(X)[certain], second.predict(X)[certain])


def digits():
    X, y = load_digits(return_X_y=True)
    return X[y < 5] / 16.0, y[y < 5], X[y >= 5][:200] / 16.0


@pytest.mark.usefixtures("small_working_sets")
@pytest.mark.parametrize("form", ["csr", "csc", "float32", "fortran", "precomputed", "label"])
def test_every_form_of_input_gives_the_same_model(form):
    X, y, U = digits()
    settings = {"gamma": 0.2, "C": 5.0, "delta": 0.1, "solver": "working-set", "tol": 1e-4}
    expected = UniversumSVC(**settings).fit(X, y, universum=U)
    stacked, labels = np.vstack([X, U]), np.r_[y, np.full(len(U), -1)]
    model = UniversumSVC(**settings)
    if form in ("csr", "csc"):
        found = model.fit(sp.csr_array(X).asformat(form), y, universum=sp.csr_array(U))
    elif form == "float32":
        # Sixteenths are exact in floats.
        found = model.fit(X.astype(np.float32), y, universum=U.astype(np.float32))
    elif form == "fortran":
        found = model.fit(np.asfortranarray(X), y, universum=U)
    else:
        kernel = expected.model_.kernel.matrix(stacked, stacked)
        model.set_params(universum_label=-1)
        if form == "precomputed":
            model.set_params(kernel="precomputed")
        found = model.fit(kernel if form == "precomputed" else stacked, labels)
    assert found.converged_
    assert found.objective_ == pytest.approx(expected.objective_, rel=2e-4)


@pytest.mark.usefixtures("small_working_sets", "small_pieces")
@pytest.mark.parametrize(
    "settings",
    [{"solver": "working-set", "C": 5.0}, {"solver": "linear", "kernel": "linear", "C": 0.05}],
    ids=lambda settings: settings["solver"],
)
def test_the_number_of_threads_changes_no_digit(settings):
    X, y, U = digits()
    models = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            model = UniversumSVC(gamma=0.2, delta=0.1, **settings)
            models.append(model.fit(X, y, universum=U))
    assert np.array_equal(models[0].dual_coef_, models[1].dual_coef_)


def test_auto_takes_the_gram_matrix_only_where_it_is_small(monkeypatch):
    X, y, U = digits()
    with_gram, by_working_sets = (
        starts_of(monkeypatch, paths, name) for name in ("solve_with_gram", "solve_by_working_sets")
    )
    UniversumSVC(gamma=0.2).fit(X[:400], y[:400])
    assert (len(with_gram), len(by_working_sets)) == (1, 0)
    UniversumSVC(gamma=0.2, tol=1e-6).fit(X, y, universum=U)
    assert (len(with_gram), len(by_working_sets)) == (2, 0), "working sets try no tight tolerances"
    monkeypatch.setattr(paths, "GRAM_LIMIT", 1000)
    UniversumSVC(gamma=0.2).fit(X, y, universum=U)
    assert (len(with_gram), len(by_working_sets)) == (2, 1)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_indefinite_kernel_is_announced_on_every_path(solver):
    X, y, _ = digits()
    model = UniversumSVC(
        kernel="sigmoid", gamma=1.0, coef0=-1.0, C=0.01, solver=solver, tol=0.5, max_iter=50
    )
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        model.fit(X, y)


def test_an_asymmetric_kernel_is_refused_by_working_sets():
    X, y, _ = digits()
    model = UniversumSVC(kernel=lambda A, B: A @ B.T + A[:, 20:21], solver="working-set")
    with pytest.raises(ValueError, match="not symmetric"):
        model.fit(X, y)


def test_prediction_in_blocks_is_the_product(monkeypatch):
    X, y, U = digits()
    model = UniversumSVC(gamma=0.2).fit(X, y, universum=U)
    whole = model.decision_function(X)
    monkeypatch.setattr("musvm.kernels.CHUNK", 1000)
    np.testing.assert_allclose(model.decision_function(X), whole, rtol=1e-12, atol=1e-12)


def test_a_tiny_cache_is_enough():
    X, y, U = digits()
    small = UniversumSVC(gamma=0.2, solver="working-set", cache_size=0.1, tol=1e-2)
    large = UniversumSVC(gamma=0.2, tol=1e-4).fit(X, y, universum=U)
    assert small.fit(X, y, universum=U).objective_ == pytest.approx(large.objective_, rel=1.1e-2)


@pytest.mark.parametrize("setting", [{"solver": "newton"}, {"cache_size": 0.0}])
def test_wrong_settings_are_refused_by_name(setting):
    X, y, _ = digits()
    with pytest.raises(ValueError, match=next(iter(setting))):
        UniversumSVC(**setting).fit(X, y)


@pytest.mark.usefixtures("small_working_sets")
@pytest.mark.parametrize(("seed", "n_classes"), [(71, 5), (188, 5), (211, 4), (325054, 3)])
def test_equal_points_with_other_labels_meet_in_a_working_set(seed, n_classes):
    """The one that was just solved violates nothing until the other moves."""
    X, y = make_classification(
        90, 8, n_informative=6, n_redundant=1, n_classes=n_classes, n_clusters_per_class=1,
        class_sep=0.8, random_state=seed,
    )  # fmt: skip
    X[:5] = X[5:10]
    model = UniversumSVC(
        100.0, kernel="poly", coef0=1.0, tol=1e-5, solver="working-set", max_iter=300
    ).fit(X, y)
    assert model.dual_gap_ <= 1e-5 * model.objective_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_gram_matrix_has_the_same_digits_on_every_number_of_threads(kernel):
    X = np.random.default_rng(0).normal(size=(700, 300))
    y = np.arange(700) % 3
    models = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            models.append(UniversumSVC(C=0.1, kernel=kernel, solver="gram").fit(X, y))
    assert np.array_equal(models[0].dual_coef_, models[1].dual_coef_)


@pytest.mark.parametrize("place", [(0, 1), (599, 3)])
def test_an_asymmetric_matrix_is_refused_wherever_it_is(place):
    X, y, _ = digits()
    K = X @ X.T
    K[place] += 0.5
    model = UniversumSVC(kernel="precomputed", solver="working-set")
    with pytest.raises(ValueError, match="not symmetric: an entry and its mirror image differ"):
        model.fit(K, y)


# ---------------------------------------------------------------------------------------------
# Changing paths


def test_working_sets_hand_their_alpha_on(monkeypatch):
    """After too few rounds to converge, Newton steps go on from where they are."""
    monkeypatch.setattr(paths, "TRIAL_POINTS", 10)
    monkeypatch.setattr(paths, "TRIAL_ROUNDS", 1)
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    started = starts_of(monkeypatch, paths, "solve_with_gram")
    model = UniversumSVC(100.0, gamma=0.01).fit(X, y)
    reference = UniversumSVC(100.0, gamma=0.01, solver="gram", tol=1e-8).fit(X, y)
    assert len(started) == 1
    assert np.abs(started[0]).max() > 0.0
    assert model.converged_
    assert model.n_iter_ > 1
    assert model.objective_ == pytest.approx(reference.objective_, rel=1.1e-4)


@pytest.mark.parametrize(("gamma", "expected"), [(0.1, 1), (100.0, 0)])
def test_working_sets_leave_points_that_are_strangers_to_newton_steps(gamma, expected, monkeypatch):
    monkeypatch.setattr(paths, "TRIAL_POINTS", 10)
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    tried = starts_of(monkeypatch, paths, "solve_by_working_sets")
    assert UniversumSVC(gamma=gamma).fit(X, y).converged_
    assert len(tried) == expected


@pytest.mark.parametrize(("C", "expected"), [(1e-4, ["solve_linear"]), (10.0, ["solve_interior"])])
def test_few_columns_take_descent_where_that_is_quick_and_interior_points_elsewhere(
    C, expected, monkeypatch
):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    calls = {
        name: starts_of(monkeypatch, paths, name) for name in ("solve_linear", "solve_interior")
    }
    assert UniversumSVC(C, kernel="linear").fit(X, y).converged_
    assert [name for name, called in calls.items() if called] == expected


@pytest.mark.parametrize(
    ("n", "gives_up", "expected"),
    [
        (300, False, ["solve_interior"]),
        (4400, False, ["solve_proximal"]),
        (4400, True, ["solve_proximal", "solve_interior"]),
    ],
)
def test_many_points_of_few_columns_take_proximal_points_before_interior_ones(
    n, gives_up, expected, monkeypatch
):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(n, 4))
    called = []

    def recorded(name, solver):
        return lambda *args, **more: called.append(name) or solver(*args, **more)

    for name in ("solve_proximal", "solve_interior"):
        monkeypatch.setattr(paths, name, recorded(name, getattr(paths, name)))
    if gives_up:
        monkeypatch.setattr("musvm.solvers.proximal.MOST_STEPS", 1)
    model = UniversumSVC(10.0, kernel="linear", delta=0.1)
    assert model.fit(X, y, universum=rng.normal(size=(n // 10, 4))).converged_
    assert called == expected


@pytest.mark.filterwarnings("ignore:The solver stopped")
@pytest.mark.parametrize("settings", [{"max_iter": 1}, {"max_iter": 30}, {"tol": 1e-8}])
def test_few_rounds_and_small_tolerances_are_left_to_interior_points(settings, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 4400)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(4400, 4))
    tried = starts_of(monkeypatch, paths, "solve_proximal")
    model = UniversumSVC(10.0, kernel="linear", **settings).fit(X, y)
    assert not tried
    assert model.n_iter_ <= settings.get("max_iter", 1000)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((4000, 10, 3), True),
        ((3999, 10, 3), False),
        ((8000, 40, 11), True),
        ((7999, 40, 11), False),
    ],
)
def test_points_are_many_next_to_their_equations(size, expected):
    assert paths.is_tall(*size) == expected


def test_a_gram_matrix_of_low_rank_is_recognised():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 3))
    found = pivoted_cholesky(Z @ Z.T)
    np.testing.assert_allclose(found @ found.T, Z @ Z.T, atol=1e-10)
    assert found.shape == (40, 3)
    assert pivoted_cholesky(np.array([[0.0, 1.0], [1.0, 0.0]])) is None, "indefinite"


@pytest.mark.filterwarnings("ignore:The solver stopped")
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("max_iter", [1, 3, 5, 10, 20, 40])
def test_all_attempts_together_keep_to_the_rounds_allowed(kernel, max_iter, monkeypatch):
    """Without patience every way is tried, one after another."""
    X, y = load_wine(return_X_y=True)
    limits = {"LEAST_WORK": 1.0, "MOST_WORK": 1.0, "WORK_IN_PLAY": 0.0, "EASY": 1e9}
    for name, limit in limits.items():
        monkeypatch.setattr(by_turns, name, limit)
    model = UniversumSVC(1e4, kernel=kernel, delta=0.0, tol=1e-9, max_iter=max_iter)
    model.fit(X[:120], y[:120], universum=X[120:])
    assert model.n_iter_ <= max_iter


def test_a_trial_leaves_interior_points_enough_rounds():
    """Descent alone would take two hundred rounds, and may try for all sixty."""
    X, y = load_digits(return_X_y=True)
    model = UniversumSVC(10.0, kernel="linear", max_iter=60).fit(X / 16, y)
    assert model.converged_


def test_a_trial_ends_where_its_rate_says_that_it_will_not_get_there(monkeypatch):
    """With this universum descent takes more than the forty rounds that it may try for."""
    X, y = load_digits(return_X_y=True)
    X, inside = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9), y < 8
    trials, without_end, solve_linear = [], [], paths.solve_linear

    def recorded(*args, **kwargs):
        trials.append(solve_linear(*args, **kwargs))
        without_end.append(solve_linear(*args, **kwargs | {"rated": None}))
        return trials[-1]

    monkeypatch.setattr(paths, "solve_linear", recorded)
    model = UniversumSVC(0.01, kernel="linear", delta=0.0)
    assert model.fit(X[inside], y[inside], universum=X[~inside]).converged_
    (trial,), (to_the_end,) = trials, without_end
    assert not trial.converged
    assert 2 * RATED <= trial.n_rounds < paths.EASY_ROUNDS == to_the_end.n_rounds
    assert not to_the_end.converged, "the trial was wrong to end"


def test_an_easy_problem_may_end_in_its_trial_however_few_rounds_are_allowed():
    X, y = load_digits(return_X_y=True)
    model = UniversumSVC(1e-4, kernel="linear", max_iter=30).fit(X / 16, y)
    assert model.converged_
    assert model.n_iter_ <= 15


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_interior_points_without_room_for_their_equations_are_refused(kernel):
    X, y = load_digits(return_X_y=True)
    model = UniversumSVC(kernel=kernel, solver="interior", cache_size=1.0)
    with pytest.raises(MemoryError, match="more than cache_size=1: use 'auto'"):
        model.fit(X[:300] / 16, y[:300])
    assert not hasattr(model, "classes_")
    assert model.set_params(solver="auto").fit(X[:300] / 16, y[:300]).converged_


def test_who_goes_on_is_told_what_working_sets_got_to(monkeypatch):
    asked, reached, trial = [], [], paths.solve_by_working_sets

    def recorded(problem, *, gap_of_trial, **options):
        asked.append(gap_of_trial)
        return by_turns.solve_with_gram(problem, gap_of_trial=gap_of_trial, **options)

    def tried(*args, **options):
        found = trial(*args, **options)
        reached.append(found.relative_gap)
        return found

    monkeypatch.setattr(paths, "solve_with_gram", recorded)
    monkeypatch.setattr(paths, "solve_by_working_sets", tried)
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    UniversumSVC(100.0, gamma=0.01).fit(X, y)
    monkeypatch.setattr(paths, "TRIAL_POINTS", 10)
    monkeypatch.setattr(paths, "TRIAL_ROUNDS", 1)
    UniversumSVC(100.0, gamma=0.01).fit(X, y)
    assert len(reached) == 1
    assert asked == [None, *reached]


def test_a_trial_of_working_sets_ends_where_its_rate_says_so(monkeypatch):
    """Smooth kernels and a large C: it would not have got there in all of its rounds either."""
    trials, solve = [], paths.solve_by_working_sets

    def recorded(*args, **options):
        trials.append(solve(*args, **options))
        return trials[-1]

    monkeypatch.setattr(paths, "solve_by_working_sets", recorded)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(paths.TRIAL_POINTS, 2))
    y = (X.sum(axis=1) + rng.normal(size=len(X)) > 0).astype(int)
    model = UniversumSVC(1e4, gamma=0.1)
    assert model.fit(X, y).converged_
    rated = paths.TRIAL_RATED
    monkeypatch.setattr(paths, "TRIAL_RATED", None)
    assert model.fit(X, y).converged_
    with_rate, without = trials
    assert 2 * rated <= with_rate.n_rounds < paths.TRIAL_ROUNDS == without.n_rounds
    assert not without.converged, "the trial was wrong to end"


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_weights_are_closer_to_the_optimum_where_that_costs_little(kernel):
    """C k(x, x) small: leads are small there, and so must the error be next to the gain."""
    X, y = load_digits(return_X_y=True)
    X = X[:1500] / 16
    model = UniversumSVC(1e-4, kernel=kernel, tol=1e-2).fit(X, y[:1500])
    gain = 1e-4 * 1500 - model.objective_
    assert model.dual_gap_ <= paths.EASY_AIM * model.tol * gain


def lengths_of(kernel: str, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    dual = DualRows(np.zeros(len(rows), dtype=np.intp), 2, np.ones(len(rows)))
    return PointProblem(Kernel(kernel), X, rows, dual, 1e-15).diagonal


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_lengths_are_those_of_the_rows_in_their_order(kernel):
    """Of all rows and of some; what takes no part is not looked at."""
    rng = np.random.default_rng(0)
    X, order = rng.normal(size=(9, 3)), rng.permutation(9)
    expected = Kernel(kernel).matrix(X, X).diagonal()
    np.testing.assert_allclose(lengths_of(kernel, X, order), expected[order])
    X[order[0]] = 1e200
    np.testing.assert_allclose(lengths_of(kernel, X, order[1:]), expected[order[1:]])


def test_the_factor_of_a_matrix_has_the_same_digits_on_any_number_of_threads():
    """Of so many rows BLAS shares them out, unless it is held."""
    X = np.random.default_rng(0).normal(size=(700, 3))
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            found.append(pivoted_cholesky(K))
    np.testing.assert_array_equal(*found)
