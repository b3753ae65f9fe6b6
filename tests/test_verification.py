"""`verify` recomputes a certificate from the data, and finds one that is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

import musvm
from musvm import UniversumSVC, UniversumSVCCV, make_universum_pipeline, verify

X, Y = load_iris(return_X_y=True)
U = 0.5 * (X[:30] + X[-30:])


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.2])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_what_a_fit_claims_is_what_is_found(kernel, delta, loss):
    model = UniversumSVC(
        C=3, kernel=kernel, gamma=0.1, delta=delta, universum_loss=loss, class_weight={0: 2.0}
    )
    model.fit(X, Y, universum=U, sample_weight=1.0 + np.arange(150) % 3)
    found = verify(model, X, Y, universum=U)
    assert found.holds
    assert found.primal == pytest.approx(model.objective_, rel=1e-9)
    assert found.gap == pytest.approx(model.dual_gap_, rel=1e-3, abs=1e-9 * model.objective_)
    assert found.dual == pytest.approx(found.gap - found.primal, rel=1e-12)
    assert found.gap <= model.tol * found.primal


def test_points_of_any_kind():
    plain = UniversumSVC().fit(X, Y)
    expected = verify(plain, X, Y)
    assert verify(plain, sp.csr_array(X), Y) == expected
    K = X @ X.T
    precomputed = UniversumSVC(kernel="precomputed").fit(K, Y)
    called = UniversumSVC(kernel=lambda A, B: A @ B.T).fit(X, Y)
    for found in (verify(precomputed, K, Y), verify(called, X, Y)):
        assert found.holds
        assert found.primal == pytest.approx(
            UniversumSVC(kernel="linear").fit(X, Y).objective_, rel=2e-4
        )


def changed(model, **changes):
    model.model_ = replace(model.model_, **changes)
    return verify(model, X, Y, universum=U)


def test_a_wrong_certificate_does_not_hold():
    def fitted():
        return UniversumSVC(C=3, gamma=0.1).fit(X, Y, universum=U)

    honest = fitted().model_
    assert not changed(fitted(), dual_coef=0.9 * honest.dual_coef).holds
    tipped = honest.dual_coef.copy()
    tipped[0] += 1e-6
    assert not changed(fitted(), dual_coef=tipped).feasible
    above = changed(fitted(), dual_coef=1.001 * honest.dual_coef)
    assert above.infeasibility == pytest.approx(1e-3, rel=1e-6)
    early = UniversumSVC(C=3, gamma=0.1, tol=0.3).fit(X, Y, universum=U)
    early.tol = 1e-6
    assert not verify(early, X, Y, universum=U).holds


def test_other_data_are_refused_and_so_is_no_model():
    model = UniversumSVC().fit(X, Y)
    with pytest.raises(ValueError, match="differ from those"):
        verify(model, X, Y[::-1])
    with pytest.raises(NotFittedError):
        musvm.verify(UniversumSVC(), X, Y)


def test_a_search_stands_for_its_model_and_a_pipeline_is_refused():
    search = UniversumSVCCV([1.0], criterion=3).fit(X, Y)
    assert verify(search, X, Y) == verify(search.best_estimator_, X, Y)
    pipeline = make_universum_pipeline(StandardScaler(), UniversumSVC()).fit(X, Y)
    with pytest.raises(TypeError, match="For a pipeline pass its last step"):
        verify(pipeline, X, Y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_model_with_an_intercept_is_verified(kernel):
    model = UniversumSVC(kernel=kernel, fit_intercept=True, tol=1e-6).fit(X, Y)
    found = verify(model, X, Y)
    assert found.holds
    assert found.primal == pytest.approx(model.objective_, rel=1e-9)


def test_whether_anything_can_be_gained_is_known_up_to_rounding():
    """Equal points with different labels, features around 1e3: the optimum is next to zero weights.

    P + D is rounded by more than what is left to be gained.
    """
    r = np.random.default_rng(29)
    n, L, d = int(r.integers(8, 40)), int(r.integers(2, 8)), int(r.integers(1, 4))
    m = int(r.integers(0, 60))
    y = np.arange(n) % L
    X, U = r.normal(size=(n, d)) * 1e3, r.normal(size=(m, d)) * 1e3
    X[: n // 2] = X[n // 2 : 2 * (n // 2)]
    model = UniversumSVC(C=10 ** r.uniform(1, 6), kernel="linear", universum_loss="max")
    found = verify(model.fit(X, y, universum=U), X, y, U)
    assert model.converged_
    assert found.holds, str(found)
