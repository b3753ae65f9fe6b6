"""Kernels of low rank: the exact optimum lies where `approximation_cost` says it must."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.preprocessing import StandardScaler

from musvm import UniversumSVC, approximation_cost, make_universum_pipeline

GAMMA = 0.05


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X /= 16.0
    return X[y < 4][:200], y[y < 4][:200], X[y >= 4][:150]


def approximate(n_components: int, **options) -> object:
    features = Nystroem(gamma=GAMMA, n_components=n_components, random_state=0)
    return make_universum_pipeline(features, UniversumSVC(kernel="linear", **options))


@settings(max_examples=30, deadline=None)
@given(
    n_components=st.integers(2, 40),
    C=st.sampled_from([0.01, 1.0, 100.0]),
    delta=st.sampled_from([0.0, 0.1, 1.0]),
    loss=st.sampled_from(["sum", "max"]),
    intercept=st.booleans(),
    tol=st.sampled_from([1e-1, 1e-3, 1e-6]),
    seed=st.integers(0, 2**16),
)
def test_the_exact_optimum_is_between_the_bounds(
    n_components, C, delta, loss, intercept, tol, seed
):
    rng = np.random.default_rng(seed)
    y = np.arange(40) % 3
    X, U = rng.normal(size=(40, 4)), rng.normal(size=(20, 4))
    X[np.arange(40), y] += 1.0
    options = {"C": C, "delta": delta, "universum_loss": loss, "fit_intercept": intercept}
    model = approximate(n_components, tol=tol, **options).fit(X, y, universum=U)
    found = approximation_cost(model, X, universum=U)
    exact = UniversumSVC(gamma=GAMMA, tol=1e-8, max_iter=5000, **options).fit(X, y, universum=U)
    rounding = 1e-7 * exact.objective_
    assert found.lower_bound <= exact.objective_ + rounding
    assert exact.objective_ - exact.dual_gap_ <= found.objective + rounding


def test_the_cost_is_the_quadratic_form_of_the_residual(digits):
    X, y, U = digits
    model = approximate(30, delta=0.1).fit(X, y, universum=U)
    found = approximation_cost(model, X, universum=U)
    features, machine = model[0], model[-1]
    points = np.vstack([X, U])
    Z = features.transform(points)
    E = rbf_kernel(points, gamma=GAMMA) - Z @ Z.T
    alpha = machine.model_.alpha
    assert found.cost == pytest.approx(0.5 * np.sum(alpha * (E @ alpha)), rel=1e-9)
    assert found.cost > 0.01 * found.objective
    used = alpha.any(axis=1)
    # The diagonal of an RBF kernel is 1.
    assert found.residual == pytest.approx(np.diag(E)[used].mean(), rel=1e-9)
    assert found.objective == machine.objective_
    gap = machine.dual_gap_
    assert found.lower_bound == pytest.approx(machine.objective_ - gap - found.cost, rel=1e-12)
    assert found.relative == pytest.approx((gap + found.cost) / machine.objective_, rel=1e-9)


def test_features_that_hold_the_kernel_cost_nothing(digits):
    X, y, U = digits
    model = approximate(200, delta=0.1).fit(X, y, universum=U)
    found = approximation_cost(model, X, universum=U)
    # The basis are the training points alone: universum points have a residual.
    plain = approximate(200).fit(X, y)
    alone = approximation_cost(plain, X)
    assert alone.cost < 1e-8 * alone.objective
    assert alone.residual < 1e-9
    assert found.residual > alone.residual


def test_more_features_leave_less_out(digits):
    X, y, U = digits
    residuals = [
        approximation_cost(
            approximate(r, delta=0.1).fit(X, y, universum=U), X, universum=U
        ).residual
        for r in (5, 25, 125)
    ]
    assert residuals == sorted(residuals, reverse=True)
    assert residuals[0] > 3 * residuals[-1]


def test_other_forms_of_the_data_give_the_same_bounds(digits):
    """Steps before the features, parts of a universum, sparse points, and the label form."""
    X, y, U = digits
    model = approximate(40, delta=0.1).fit(X, y, universum=U)
    expected = approximation_cost(model, X, universum=U)
    parts = approximate(40, delta=0.1).fit(X, y, universum=(U[:50], U[50:]))
    assert approximation_cost(parts, X, universum=(U[:50], U[50:])) == expected
    assert approximation_cost(model, sp.csr_array(X), universum=U) == expected
    stacked, labels = np.vstack([X, U]), np.r_[y, np.full(len(U), -1)]
    marked = approximate(40, delta=0.1, universum_label=-1).fit(stacked, labels)
    bounds = approximation_cost(marked, stacked)
    exact = UniversumSVC(gamma=GAMMA, delta=0.1, tol=1e-6).fit(X, y, universum=U)
    assert bounds.lower_bound <= exact.objective_ <= bounds.objective
    scaled = make_universum_pipeline(
        StandardScaler(with_std=False), Nystroem(gamma=GAMMA, n_components=40, random_state=0),
        UniversumSVC(kernel="linear", delta=0.1),
    ).fit(X, y, universum=U)  # fmt: skip
    assert approximation_cost(scaled, X, universum=U).cost > 0.0


def test_what_cannot_be_bounded_is_refused(digits):
    X, y, U = digits
    model = approximate(20).fit(X, y, universum=U)
    for wrong in (
        UniversumSVC().fit(X, y),
        make_universum_pipeline(Nystroem(), UniversumSVC()),
        make_universum_pipeline(RBFSampler(), UniversumSVC(kernel="linear")),
    ):
        with pytest.raises(ValueError, match="ends with Nystroem and"):
            approximation_cost(wrong, X)
    with pytest.raises(ValueError, match="not the data"):
        approximation_cost(model, X)
    with pytest.raises(ValueError, match="not the data"):
        approximation_cost(model, X[::-1], universum=U)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "sigmoid"}, "kernel='sigmoid'"),
        ({"kernel": "additive_chi2"}, "kernel='additive_chi2'"),
        ({"kernel": "poly", "coef0": -1.0, "degree": 2}, "coef0=-1"),
        ({"kernel": "polynomial", "kernel_params": {"coef0": -0.5}}, "coef0=-0.5"),
        ({"kernel": "poly", "coef0": 1.0, "degree": 2.5}, "degree=2.5"),
    ],
)
def test_kernels_that_are_not_semidefinite_are_refused(digits, options, words):
    X, y, U = digits
    features = Nystroem(n_components=20, random_state=0, **options)
    model = make_universum_pipeline(features, UniversumSVC(kernel="linear", delta=0.1))
    with pytest.raises(ValueError, match=f"positive semi-definite kernel, not .*{words}"):
        approximation_cost(model.fit(X, y, universum=U), X, universum=U)


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian", "cosine", "chi2"])
def test_kernels_that_are_semidefinite_are_not_refused(digits, kernel):
    """The bounds are those of the exact kernel, on its own matrix."""
    X, y, U = digits
    features = Nystroem(kernel=kernel, n_components=60, random_state=0)
    model = make_universum_pipeline(features, UniversumSVC(kernel="linear", delta=0.1))
    found = approximation_cost(model.fit(X, y, universum=U), X, universum=U)
    points, labels = np.vstack([X, U]), np.r_[y, np.full(len(U), -1)]
    exact = UniversumSVC(kernel="precomputed", delta=0.1, tol=1e-6, universum_label=-1).fit(
        pairwise_kernels(points, metric=kernel), labels
    )
    rounding = 1e-7 * exact.objective_
    assert found.lower_bound <= exact.objective_ + rounding
    assert exact.objective_ - exact.dual_gap_ <= found.objective + rounding


def test_a_function_that_is_not_semidefinite_is_refused(digits):
    """Where the optimum of the features is no bound: K - K' has a negative quadratic form."""
    X, y, U = digits

    def distance(x, z):
        return -float(np.sum((x - z) ** 2))

    features = Nystroem(kernel=distance, n_components=20, random_state=0)
    model = make_universum_pipeline(features, UniversumSVC(kernel="linear", delta=0.1))
    model.fit(X, y, universum=U)
    points, Z = np.vstack([X, U])[model[-1].model_.support], model[-1].support_vectors_
    E = pairwise_kernels(points, metric=distance) - Z @ Z.T
    assert np.linalg.eigvalsh(E)[0] < -1.0
    with pytest.raises(ValueError, match="overstate the kernel"):
        approximation_cost(model, X, universum=U)


def test_a_negative_cost_is_refused_where_the_diagonal_is_harmless():
    """One basis point tells the classes apart; all others are unlike their own class."""
    n = 20
    basis = np.random.RandomState(0).permutation(n)[0]
    X = np.c_[np.tile([-1.0, 1.0], n // 2), np.arange(n)]

    def contrary(x, z):
        agrees = basis in (x[1], z[1]) or x[1] == z[1]
        return x[0] * z[0] * (1.0 if agrees else -1.0)

    features = Nystroem(kernel=contrary, n_components=1, random_state=0)
    model = make_universum_pipeline(features, UniversumSVC(kernel="linear", C=0.01))
    model.fit(X, X[:, 0])
    Z, alpha = model[-1].support_vectors_, model[-1].dual_coef_.T
    E = pairwise_kernels(X[model[-1].support_], metric=contrary) - Z @ Z.T
    np.testing.assert_allclose(np.diag(E), 0.0, atol=1e-12)
    assert np.sum(alpha * (E @ alpha)) < -0.01
    with pytest.raises(ValueError, match="overstate the kernel"):
        approximation_cost(model, X)


def test_a_function_that_is_semidefinite_gives_the_bounds_of_its_name(digits):
    X, y, U = digits
    named = approximate(20, delta=0.1).fit(X[:60], y[:60], universum=U[:40])

    def gaussian(x, z):
        return np.exp(-GAMMA * np.sum((x - z) ** 2))

    features = Nystroem(kernel=gaussian, n_components=20, random_state=0)
    model = make_universum_pipeline(features, UniversumSVC(kernel="linear", delta=0.1))
    model.fit(X[:60], y[:60], universum=U[:40])
    found = approximation_cost(model, X[:60], universum=U[:40])
    expected = approximation_cost(named, X[:60], universum=U[:40])
    assert found.cost == pytest.approx(expected.cost, rel=1e-3)
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-3)


@pytest.mark.parametrize("form", [tuple, list])
def test_texts_go_through_the_steps_first(form):
    rng = np.random.default_rng(0)
    y = np.arange(45) % 3
    words = rng.integers(0, 30, size=(65, 6))
    texts = [f"class{k} " + " ".join(f"word{w}" for w in words[i]) for i, k in enumerate(y)]
    others = [" ".join(f"word{w}" for w in row) for row in words[45:]]
    steps = TfidfVectorizer(), Nystroem(gamma=0.5, n_components=10, random_state=0)
    model = make_universum_pipeline(*steps, UniversumSVC(kernel="linear", delta=0.1))
    given = (others,) if form is tuple else others
    found = approximation_cost(model.fit(texts, y, universum=given), texts, universum=given)
    points, U = model[0].transform(texts), model[0].transform(others)
    exact = UniversumSVC(gamma=0.5, delta=0.1, tol=1e-6).fit(points, y, universum=U)
    assert found.cost > 0.0
    assert found.lower_bound <= exact.objective_ <= found.objective
    dense = make_universum_pipeline(steps[1], UniversumSVC(kernel="linear", delta=0.1))
    dense.fit(points.toarray(), y, universum=U.toarray())
    bounds = approximation_cost(dense, points.toarray(), universum=U.toarray())
    assert found.cost == pytest.approx(bounds.cost, rel=1e-3)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_tables_go_through_the_steps_first(digits, output):
    pd = pytest.importorskip("pandas")
    X, y, U = digits
    names = [f"pixel {j}" for j in range(X.shape[1])]
    table, others = (pd.DataFrame(points, columns=names) for points in (X, U))
    table["place"], others["place"] = "here", "there"
    chosen = names[10:50]
    with sklearn.config_context(transform_output=output):
        model = make_universum_pipeline(
            make_column_transformer((StandardScaler(with_std=False), chosen)),
            Nystroem(gamma=GAMMA, n_components=40, random_state=0),
            UniversumSVC(kernel="linear", delta=0.1),
        ).fit(table, y, universum=others)
        found = approximation_cost(model, table, universum=others)
    # The kernel does not see the offset.
    exact = UniversumSVC(gamma=GAMMA, delta=0.1, tol=1e-6)
    exact.fit(X[:, 10:50], y, universum=U[:, 10:50])
    assert found.lower_bound <= exact.objective_ <= found.objective
    alone = approximate(40, delta=0.1).fit(table[names], y, universum=others[names])
    assert approximation_cost(alone, table[names], universum=others[names]).cost > 0.0


def test_an_ignored_universum_may_be_passed_or_left_out(digits):
    X, y, U = digits
    model = approximate(40, universum_weight=0).fit(X, y, universum=U)
    expected = approximation_cost(approximate(40).fit(X, y), X)
    assert approximation_cost(model, X, universum=U) == expected
    assert approximation_cost(model, X) == expected


def test_a_universum_without_support_vectors(digits):
    X, y, _ = digits
    U = 0.5 * X[::-1][:20]
    model = make_universum_pipeline(
        StandardScaler(), *(step for _, step in approximate(40, delta=50.0).steps)
    ).fit(X, y, universum=U)
    assert not len(model[-1].universum_support_)
    assert approximation_cost(model, X, universum=U).cost > 0.0
