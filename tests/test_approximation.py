"""Kernels of low rank: the exact optimum lies where `approximation_cost` says it must."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
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
