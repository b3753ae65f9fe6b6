"""What a fit promises on hostile numbers, and what survives a fit that fails."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import random_problems
import real_data
from musvm import UniversumSVC, loo_error, verify
from musvm.solvers import choose
from musvm.solvers.shortfall import BY_ROUNDING

DATA = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "cancer": tuple(part[:200] for part in load_breast_cancer(return_X_y=True)),
    "digits": tuple(part[:300] for part in load_digits(return_X_y=True)),
}


def scaled(name: str):
    """Points on a grid of 2^-20, so that an offset up to 2^32 is added without rounding."""
    X, y = DATA[name]
    return np.round(StandardScaler().fit_transform(X) * 2.0**20) / 2.0**20, y


# ---------------------------------------------------------------------------------------------
# Offsets: a year, a temperature in Kelvin, a time stamp


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["gram", "working-set"])
@pytest.mark.parametrize("name", DATA)
def test_an_offset_changes_neither_objective_nor_labels(name, solver, container):
    X, y = scaled(name)
    U = 0.5 * (X[:20] + X[-20:])
    settings = {"gamma": 1 / X.shape[1], "C": 10, "tol": 1e-7, "solver": solver, "delta": 0.1}
    plain = UniversumSVC(**settings).fit(X, y, universum=U)
    for offset in (1e6, 2.0**31):
        points = container(X + offset)
        model = UniversumSVC(**settings).fit(points, y, universum=U + offset)
        assert model.objective_ == pytest.approx(plain.objective_, rel=1e-6)
        assert np.array_equal(model.predict(points), plain.predict(X))
        together = model.decision_function(points)
        alone = [model.decision_function(points[i : i + 1]) for i in range(20)]
        np.testing.assert_allclose(np.concatenate(alone), together[:20], atol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "working-set"])
@pytest.mark.parametrize("name", real_data.NAMES)
def test_ten_real_data_sets_with_a_million_added(name, solver, request):
    """Values as they come: what adding rounds off, 1e-10, must not show in what is found."""
    folder = None if name in real_data.OF_SKLEARN else request.getfixturevalue("data_folder")
    loaded = real_data.load(name, folder, 150)
    if loaded is None:
        pytest.skip(f"the file of {name} is not in the data folder")
    X, y = loaded
    U, settings = 0.5 * (X[:20] + X[-20:]), {"C": 10, "tol": 1e-7, "delta": 0.1, "solver": solver}
    plain = UniversumSVC(**settings).fit(X, y, universum=U)
    moved = UniversumSVC(**settings).fit(X + 1e6, y, universum=U + 1e6)
    assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert_same_labels(plain, X, moved, X + 1e6)
    # Floats hold a million to a sixteenth. What they hold is a problem as good as any other.
    single, single_U = (X + 1e6).astype(np.float32), (U + 1e6).astype(np.float32)
    held, held_U = single.astype(np.float64) - 1e6, single_U.astype(np.float64) - 1e6
    plain = UniversumSVC(**settings).fit(held, y, universum=held_U)
    moved = UniversumSVC(**settings).fit(single, y, universum=single_U)
    assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert_same_labels(plain, held, moved, single)


def assert_same_labels(plain, X, moved, points):
    """The same labels wherever both certify theirs, and elsewhere but for ties at the optimum.

    A training point with negative dual variables of two labels has equal decision values there, by
    complementary slackness: which of the two is larger is what rounding makes of it.
    """
    both = plain.certified(X) & moved.certified(points)
    assert both.mean() > 0.9
    differ = np.flatnonzero(plain.predict(X) != moved.predict(points))
    assert not np.any(both[differ])
    for model, rows in ((plain, X), (moved, points)):
        for i in differ:
            labels = [
                np.searchsorted(model.classes_, m.predict(r)[i])
                for m, r in ((plain, X), (moved, points))
            ]
            assert np.all(model.model_.alpha[i, labels] < 0)
            assert abs(np.diff(model.decision_function(rows)[i, labels])) < 1e-5


def test_single_precision_with_an_offset_keeps_what_it_can_hold():
    X, y = DATA["iris"]
    single = (X + 1e4).astype(np.float32)
    exact = single.astype(np.float64) - 1e4
    settings = {"gamma": 0.5, "tol": 1e-7}
    model = UniversumSVC(**settings).fit(single, y)
    same = UniversumSVC(**settings).fit(exact, y)
    assert model.objective_ == pytest.approx(same.objective_, rel=1e-6)
    found, expected = model.decision_function(single), same.decision_function(exact)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-22, 1e22])
def test_paths_take_the_same_features(scale):
    """Kernels beyond floats, below 1e-38 and above 1e38, are as good as any in doubles."""
    X, y = scaled("iris")
    settings = {"kernel": "linear", "C": 1 / scale**2, "tol": 1e-3}
    found = [
        UniversumSVC(**settings, solver=solver).fit(scale * X, y)
        for solver in ("gram", "working-set", "linear", "interior")
    ]
    for model in found:
        assert model.converged_
        assert model.objective_ == pytest.approx(found[0].objective_, rel=2e-3)
        assert np.array_equal(model.predict(scale * X), found[0].predict(scale * X))


@pytest.mark.filterwarnings("ignore:The solver stopped")
@pytest.mark.parametrize("solver", ["auto", "gram", "working-set"])
def test_polynomials_beyond_floats_are_taken_on_every_path(solver):
    """Of the stress bench, seed 146: the kernel is 1e40 or so, a number in doubles."""
    X, y = scaled("iris")
    model = UniversumSVC(kernel="poly", degree=3, gamma=1e12, solver=solver, max_iter=5)
    assert np.isfinite(model.fit(100 * X, y).objective_)


@pytest.mark.parametrize("solver", ["auto", "gram"])
def test_a_gap_below_what_rounding_hides_is_no_proof(solver):
    """Points far from the origin: entries of 1e24 that differ in their last digits."""
    X, y = scaled("iris")
    model = UniversumSVC(C=1e5, kernel="poly", degree=2, gamma=1.0, coef0=1.0, solver=solver)
    with pytest.warns(ConvergenceWarning):
        model.fit(X + 1e6, y)
    assert not model.converged_
    assert verify(model, X + 1e6, y).holds


@pytest.mark.parametrize("seed", [1769, 1970, 3637])
@pytest.mark.filterwarnings("ignore:The solver stopped", "ignore:The relative duality gap")
def test_random_problems_that_claimed_a_gap_they_had_not(seed):
    """Their true gaps, in extended precision, are two to four times the tolerance."""
    parameters, X, y, U, weight = random_problems.problem(seed)
    model = UniversumSVC(**parameters).fit(X, y, universum=U, sample_weight=weight)
    assert verify(model, X, y, universum=U).holds


def gap_in_extended_precision(X, y, alpha, C):
    """P + D of a linear kernel and dual variables, summed up in 64 bits of mantissa."""
    points, alpha = X.astype(np.longdouble), alpha.astype(np.longdouble)
    F = points @ (points.T @ alpha)
    own = np.arange(len(y)), y
    margins = F + 1
    margins[own] -= 1
    loss = margins.max(axis=1) - F[own]
    return float((alpha * F).sum() + C * loss.sum() - alpha[own].sum())


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_rounding_is_named_where_doubles_cannot_hold_the_gap(offset):
    """What is said is true: the last digits of alpha decide whether the gap is within `tol`."""
    X, y = scaled("iris")
    model = UniversumSVC(C=1.0, kernel="linear")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X + offset, y)
    named = [BY_ROUNDING in str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert named == ([True] if offset else [])
    alpha = model.model_.alpha
    nudged = np.where(np.arange(len(y))[:, None] % 2, alpha, np.nextafter(alpha, 0.0))
    gaps = [gap_in_extended_precision(X + offset, y, a, 1.0) for a in (alpha, nudged)]
    assert (abs(gaps[1] - gaps[0]) > model.tol * 150) == bool(offset)


@pytest.mark.parametrize("seed", [212, 245, 289, 305, 314, 334, 462, 1951])
def test_a_fit_that_rounding_keeps_from_its_tolerance_says_so_early(seed):
    """They took all of their thousand rounds, or said that more of them would help."""
    parameters, X, y, U, weight = random_problems.problem(seed)
    model = UniversumSVC(**parameters)
    with pytest.warns(ConvergenceWarning, match=BY_ROUNDING):
        model.fit(X, y, universum=U, sample_weight=weight)
    assert model.n_iter_ < 200
    assert verify(model, X, y, universum=U).holds


@pytest.mark.parametrize("solver", ["gram", "working-set", "linear", "interior"])
def test_every_path_gives_up_early_where_rounding_leaves_no_hope(solver):
    X, y = scaled("iris")
    model = UniversumSVC(C=100.0, kernel="linear", solver=solver)
    with pytest.warns(ConvergenceWarning, match=f"more rounds would not help.*{BY_ROUNDING}"):
        model.fit(X + 1e9, y)
    assert model.n_iter_ < 200


def test_a_universum_in_pieces_gives_up_early_too():
    X, y = scaled("iris")
    model = UniversumSVC(C=100.0, kernel="linear", solver="working-set")
    with pytest.warns(ConvergenceWarning, match=BY_ROUNDING):
        model.fit(X[:120] + 1e9, y[:120], universum=lambda: [X[120:] + 1e9])
    assert model.n_iter_ < 200


@pytest.mark.parametrize("solver", ["auto", "gram", "working-set", "linear", "interior"])
def test_rounds_that_were_too_few_are_no_rounding(solver):
    X, y = scaled("iris")
    model = UniversumSVC(C=10, kernel="linear", solver=solver, tol=1e-8, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="after 1 round .*raise max_iter") as caught:
        model.fit(X, y)
    assert not any(BY_ROUNDING in str(w.message) for w in caught)


def test_a_matrix_of_one_s_own_is_to_be_scaled():
    X, y = scaled("iris")
    points = X + 1e8
    model = UniversumSVC(kernel="precomputed")
    with pytest.warns(ConvergenceWarning, match=f"{BY_ROUNDING}.*scale the matrix"):
        model.fit(points @ points.T, y)


# ---------------------------------------------------------------------------------------------
# A fit that fails, and a model that nobody touched


def failing(A, B):
    raise RuntimeError("out of luck")


@pytest.mark.parametrize("change", [{"kernel": failing}, {"gamma": 1e-3, "solver": "linear"}])
def test_a_failed_refit_leaves_the_old_model_as_it_was(change):
    X, y = DATA["iris"]
    clf = UniversumSVC(gamma="scale").fit(X, y)
    before, values = dict(vars(clf)), clf.decision_function(X)
    clf.set_params(**change)
    with pytest.raises((RuntimeError, ValueError)):
        clf.fit(1e3 * X[:, :3], y[::-1])
    clf.set_params(**{name: before[name] for name in change})
    assert vars(clf) == before
    assert np.array_equal(clf.decision_function(X), values)


def test_an_interrupted_refit_leaves_the_old_model_as_it_was(monkeypatch):
    """Settled parameters, gamma among them, belong to the new solution and come with it."""
    X, y = DATA["iris"]
    clf = UniversumSVC(gamma="scale").fit(X, y)
    values = clf.decision_function(X)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("musvm.estimator.solve_beyond_doubt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(1e3 * X, y)
    assert np.array_equal(clf.decision_function(X), values)


@pytest.mark.filterwarnings("ignore:The solver stopped", "ignore:The relative duality gap")
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", [1, 3, 5, 7, 8])
def test_leave_one_out_takes_models_that_nobody_touched(seed, kernel):
    """An objective computed twice differs by rounding, which is large where C and features are."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 4)) + 10.0 ** rng.uniform(0, 4), np.arange(30) % 3
    C = 10.0 ** rng.uniform(0, 6)
    model = UniversumSVC(C, kernel=kernel, gamma=0.5, tol=1e-3, max_iter=30).fit(X, y)
    assert 0.0 <= loo_error(model, X, y, method="span").error <= 1.0


def test_a_gap_that_rounding_leaves_in_doubt_is_made_smaller(monkeypatch):
    """Nine tenths of `tol` and a third of it that rounding may hide are too much together."""
    X, y = DATA["iris"]
    solve, tolerances = choose.solve_points, []

    def barely(problem, *, tol, **options):
        tolerances.append(tol)
        found = solve(problem, tol=1e-8, **options)
        relative = 0.9 * tol if len(tolerances) == 1 else found.relative_gap
        return replace(found, gap=relative * found.primal, relative_gap=relative)

    objective = UniversumSVC().fit(X, y).objective_
    monkeypatch.setattr(choose, "rounding_of_gap", lambda *_: objective * 1e-4 / 3.0)
    monkeypatch.setattr(choose, "hidden_gap", lambda *_: 1e-4 / 3.0)
    monkeypatch.setattr(choose, "solve_points", barely)
    clf = UniversumSVC().fit(X, y)
    assert clf.converged_
    assert tolerances == [1e-4, 0.5e-4]


def test_auto_does_not_fall_behind_interior_points_that_rounding_ended():
    """Points alike with different labels, an offset of 100 and C = 1e6: neither gets to `tol`."""
    r = np.random.default_rng(1)
    X, y = r.normal(size=(66, 50)), np.arange(66) % 15
    X[:, 0], X[:20] = 100.0, X[20:40]
    weights = r.choice([1e-3, 1.0, 50.0], 66)
    objectives = {}
    for solver in ("auto", "interior"):
        model = UniversumSVC(1e6, kernel="linear", solver=solver)
        with pytest.warns(ConvergenceWarning):
            objectives[solver] = model.fit(X, y, sample_weight=weights).objective_
    # Both know the optimum to some ten-thousandths; zero weights are three times above it.
    assert objectives["auto"] <= 1.01 * objectives["interior"]
