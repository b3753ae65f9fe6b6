"""A universum made inside pipelines and searches, against the same done by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from musvm import UniversumSVC
from musvm.universum import WithUniversum, random_average, random_noise

rng = np.random.default_rng(0)
Y = np.arange(60) % 3
X = (2 * rng.normal(size=(3, 4)))[Y] * [0.1, 1, 5, 20] + rng.normal(size=(60, 4)) * [0.2, 1, 5, 9]
FOLDS = StratifiedKFold(3)


@parametrize_with_checks(
    [
        WithUniversum(UniversumSVC(), random_state=0),
        WithUniversum(UniversumSVC(delta=0.1), make="random-noise", m=10, random_state=0),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


MAKERS = {
    "random-average": lambda X, y, m: random_average(X, y, m, random_state=7),
    "random-average-of-two": lambda X, y, m: random_average(
        X, y, m, per_class=False, random_state=7
    ),
    "random-noise": lambda X, y, m: random_noise(X, m, random_state=7),
}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("m", "expected"), [(7, 7), (1.0, 60), (0.5, 30), (0.001, 1)])
def test_is_the_classifier_fitted_with_that_universum(make, m, expected):
    model = WithUniversum(UniversumSVC(), make=make, m=m, random_state=7).fit(X, Y)
    U = MAKERS[make](X, Y, expected)
    by_hand = UniversumSVC().fit(X, Y, universum=U)
    np.testing.assert_array_equal(model.universum_, U)
    assert model.estimator_.objective_ == by_hand.objective_
    np.testing.assert_array_equal(model.decision_function(X), by_hand.decision_function(X))
    np.testing.assert_array_equal(model.universum_score(X), by_hand.universum_score(X))
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))


def test_function_as_maker_gets_what_it_needs():
    seen = []

    def twice_the_mean(X, y, m, random_state):
        seen.append((X.shape, y.tolist(), m, random_state))
        return np.tile(2 * X.mean(axis=0), (m, 1))

    model = WithUniversum(UniversumSVC(), make=twice_the_mean, m=3, random_state=4).fit(X, Y)
    assert seen == [((60, 4), Y.tolist(), 3, 4)]
    np.testing.assert_array_equal(model.universum_, np.tile(2 * X.mean(axis=0), (3, 1)))


def test_search_over_a_pipeline_makes_it_from_scaled_training_folds():
    pipe = make_pipeline(StandardScaler(), WithUniversum(UniversumSVC(), random_state=0))
    grid = {"withuniversum__m": [5, 40], "withuniversum__estimator__C": [0.01, 1.0]}
    search = GridSearchCV(pipe, grid, cv=FOLDS, error_score="raise").fit(X, Y)
    for parameters, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        C, m = parameters["withuniversum__estimator__C"], parameters["withuniversum__m"]
        by_hand = []
        for train, test in FOLDS.split(X, Y):
            scaler = StandardScaler().fit(X[train])
            scaled = scaler.transform(X[train])
            U = random_average(scaled, Y[train], m, random_state=0)
            model = UniversumSVC(C).fit(scaled, Y[train], universum=U)
            by_hand.append(model.score(scaler.transform(X[test]), Y[test]))
        assert score == pytest.approx(np.mean(by_hand))


def test_sparse_data_gives_the_same_model():
    model = WithUniversum(UniversumSVC(), random_state=0)
    dense, sparse = clone(model).fit(X, Y), clone(model).fit(sp.csr_array(X), Y)
    assert sp.issparse(sparse.universum_)
    np.testing.assert_allclose(
        sparse.decision_function(X), dense.decision_function(X), rtol=0, atol=1e-6
    )


def test_methods_are_those_of_the_wrapped_classifier():
    assert not hasattr(WithUniversum(LinearSVC()), "universum_score")
    assert hasattr(WithUniversum(LinearSVC()), "decision_function")


def test_kernel_matrix_is_refused():
    with pytest.raises(ValueError, match="cannot be made from a precomputed kernel"):
        WithUniversum(UniversumSVC(kernel="precomputed")).fit(X @ X.T, Y)
