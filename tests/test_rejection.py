"""Rejection: the threshold keeps its promise, by hand-made scores and by folds done by hand."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from musvm import RejectingClassifier, UniversumSVC
from musvm.universum import WithUniversum

rng = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
Y = np.arange(90) % 3
X = CENTRES[Y] + rng.normal(size=(90, 2))
U = rng.normal(size=(40, 2)) + 2.0  # between the classes
FOLDS = StratifiedKFold(5)


@parametrize_with_checks(
    [
        RejectingClassifier(UniversumSVC(), 99),
        RejectingClassifier(LogisticRegression(), 99, target=0.9, method="predict_proba", cv=3),
        RejectingClassifier(LinearSVC(), 99, target=1.0),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


class Ranked(ClassifierMixin, BaseEstimator):
    """Scores a point by its first feature, whatever it was fitted to."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def universum_score(self, X):
        return np.asarray(X)[:, 0]


# ---------------------------------------------------------------------------------------------
# The threshold


@given(
    st.lists(st.integers(0, 30), min_size=10, max_size=60),
    st.integers(1, 100),
)
def test_threshold_is_the_largest_that_accepts_the_share(scores, per_cent):
    Z = np.array(scores, dtype=float)[:, None]
    labels = np.arange(len(Z)) % 2
    clf = RejectingClassifier(Ranked(), -1, target=per_cent / 100, cv=2).fit(Z, labels)
    accepted = np.sum(clf.predict(Z) != -1)
    assert 100 * accepted >= per_cent * len(Z)
    if per_cent == 100:
        assert clf.threshold_ == -np.inf
        return
    higher = Z[clf.threshold_ < Z]
    assert 100 * len(higher) < per_cent * len(Z), "a higher threshold would do as well"


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.integers(1, 100),
)
def test_threshold_by_universum_is_the_smallest_that_rejects_the_share(scores, per_cent):
    Z = np.array(scores, dtype=float)[:, None]
    clf = RejectingClassifier(Ranked(), -1, target=per_cent / 100, calibration="universum", cv=2)
    clf.fit(np.arange(6.0)[:, None], [0, 1] * 3, universum=Z)
    assert 100 * np.sum(clf.predict(Z) == -1) >= per_cent * len(Z)
    lower = np.nextafter(clf.threshold_, -np.inf)
    assert 100 * np.sum(lower > Z) < per_cent * len(Z), "a lower threshold would do as well"


def folds_by_hand(estimator, score, target=0.8, **fit_params):
    """The threshold from scores of left-out folds, sorted, counted from the top."""
    scores = np.concatenate(
        [
            score(clone(estimator).fit(X[train], Y[train], **fit_params), X[test])
            for train, test in FOLDS.split(X, Y)
        ]
    )
    return np.sort(scores)[::-1][round(target * len(X)) - 1]


def largest_difference(model, Z):
    F = model.decision_function(Z)
    return F.max(axis=1) - F.min(axis=1)


@pytest.mark.parametrize(
    ("estimator", "score"),
    [
        (UniversumSVC(), lambda model, Z: model.universum_score(Z)),
        (WithUniversum(UniversumSVC(), random_state=0), lambda model, Z: model.universum_score(Z)),
        (make_pipeline(StandardScaler(), UniversumSVC()), largest_difference),
        (LogisticRegression(), largest_difference),
        (SVC(), largest_difference),
        (Perceptron(), largest_difference),
        (GaussianNB(), lambda model, Z: model.predict_proba(Z).max(axis=1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_threshold_comes_from_left_out_folds(estimator, score):
    clf = RejectingClassifier(estimator, -1, target=0.8, cv=FOLDS).fit(X, Y)
    assert clf.threshold_ == pytest.approx(folds_by_hand(estimator, score))
    whole = clone(estimator).fit(X, Y)
    np.testing.assert_allclose(clf.score_samples(U), score(whole, U))
    expected = np.where(score(whole, U) >= clf.threshold_, whole.predict(U), -1)
    np.testing.assert_array_equal(clf.predict(U), expected)
    assert -1 in expected


def test_universum_is_in_every_fold():
    clf = RejectingClassifier(UniversumSVC(), -1, target=0.8, cv=FOLDS).fit(X, Y, universum=U)
    by_hand = folds_by_hand(UniversumSVC(), lambda m, Z: m.universum_score(Z), universum=U)
    assert clf.threshold_ == by_hand
    assert clf.estimator_.objective_ == UniversumSVC().fit(X, Y, universum=U).objective_


def test_share_of_new_points_accepted_is_near_the_target():
    labels = np.arange(3000) % 3
    new = CENTRES[labels] + np.random.default_rng(1).normal(size=(3000, 2))
    clf = RejectingClassifier(LogisticRegression(), -1, target=0.9).fit(X, Y)
    accepted = np.mean(clf.predict(new) != -1)
    # The threshold is a quantile of 90 scores: three standard deviations of such a share.
    assert abs(accepted - 0.9) < 3 * np.sqrt(0.9 * 0.1 / 90)


def test_universum_lowers_the_score_of_points_like_it():
    new = np.random.default_rng(1).normal(size=(500, 2)) + 2.0
    rejected = {
        name: np.mean(
            RejectingClassifier(UniversumSVC(), -1).fit(X, Y, universum=universum).predict(new)
            == -1
        )
        for name, universum in {"with": U, "without": None}.items()
    }
    assert rejected["with"] > rejected["without"] + 0.1


# ---------------------------------------------------------------------------------------------
# The threshold from a universum


def test_each_universum_point_is_scored_by_a_model_that_has_not_seen_it():
    clf = RejectingClassifier(UniversumSVC(), -1, target=0.75, calibration="universum", cv=4)
    clf.fit(X, Y, universum=U)
    scores = np.empty(len(U))
    for fold in range(4):
        left = np.arange(len(U)) % 4 == fold
        scores[left] = UniversumSVC().fit(X, Y, universum=U[~left]).universum_score(U[left])
    assert np.mean(scores < clf.threshold_) == 0.75
    assert clf.estimator_.objective_ == UniversumSVC().fit(X, Y, universum=U).objective_


def test_parts_of_a_universum_are_each_shared_out_over_the_folds():
    whole = RejectingClassifier(UniversumSVC(), -1, calibration="universum", cv=4)
    parts = clone(whole).fit(X, Y, universum=(U[:20], U[20:]))
    assert parts.threshold_ == whole.fit(X, Y, universum=U).threshold_


def test_marked_universum_sets_the_threshold_too():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    marked = RejectingClassifier(
        UniversumSVC(universum_label=-1), -1, calibration="universum", cv=4
    ).fit(Z, labels)
    passed = RejectingClassifier(UniversumSVC(), -1, calibration="universum", cv=4)
    assert marked.threshold_ == pytest.approx(passed.fit(X, Y, universum=U).threshold_)


def test_classifier_that_takes_no_universum_is_judged_on_it_as_it_is():
    clf = RejectingClassifier(LogisticRegression(), -1, target=0.5, calibration="universum")
    clf.fit(X, Y, universum=(U[:5], U[5:]))
    scores = largest_difference(LogisticRegression().fit(X, Y), U)
    assert np.sum(scores < clf.threshold_) == len(U) / 2


def test_marked_universum_does_not_count_as_accepted():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    clf = RejectingClassifier(UniversumSVC(universum_label=-1), -1, target=0.8, cv=FOLDS)
    clf.fit(Z, labels)
    scores = np.empty(len(Z))
    for train, test in FOLDS.split(Z, labels):
        model = UniversumSVC(universum_label=-1).fit(Z[train], labels[train])
        scores[test] = model.universum_score(Z[test])
    assert np.sum(scores[:90] >= clf.threshold_) == 72


# ---------------------------------------------------------------------------------------------
# Labels


@pytest.mark.parametrize(
    ("names", "reject_label", "kind"),
    [
        ([0, 1, 2], -1, "i"),
        ([0, 1, 2], 0.5, "f"),
        ([0, 1, 2], "none of these", "O"),
        (["a", "b", "c"], "none of these", "U"),
        (["a", "b", "c"], -1, "O"),
        ([0.0, 1.0, 2.0], -1, "f"),
    ],
)
def test_labels_come_back_as_they_are(names, reject_label, kind):
    labels = np.array(names)[Y]
    clf = RejectingClassifier(LogisticRegression(), reject_label, target=0.5).fit(X, labels)
    predicted = clf.predict(X)
    assert predicted.dtype.kind == kind
    assert set(predicted.tolist()) == {*names, reject_label}
    assert clf.classes_.tolist() == names


def test_score_counts_rejected_points_of_no_class_as_right():
    clf = RejectingClassifier(LogisticRegression(), "none", target=0.9).fit(X, Y)
    predicted = clf.predict(X)
    assert clf.score(X, predicted) == 1.0
    assert clf.score(X, Y) == np.mean([a == b for a, b in zip(predicted, Y, strict=True)])
    weight = np.arange(90.0)
    by_hand = weight[[a == b for a, b in zip(predicted, Y, strict=True)]].sum() / weight.sum()
    assert clf.score(X, Y, weight) == pytest.approx(by_hand)


# ---------------------------------------------------------------------------------------------
# Inside scikit-learn's tools


def test_grid_search_with_a_universum():
    clf = RejectingClassifier(UniversumSVC(), -1, cv=3)
    grid = {"estimator__C": [0.1, 1.0], "target": [0.7, 0.95]}
    search = GridSearchCV(clf, grid, cv=FOLDS, error_score="raise").fit(X, Y, universum=(U,))
    best = clone(clf).set_params(**search.best_params_)
    by_hand = [
        clone(best).fit(X[a], Y[a], universum=U).score(X[b], Y[b]) for a, b in FOLDS.split(X, Y)
    ]
    assert search.best_score_ == pytest.approx(np.mean(by_hand))
    assert search.best_params_["target"] == 0.95


def test_pipeline_scales_the_universum_with_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = Pipeline(
            [("scale", StandardScaler()), ("clf", RejectingClassifier(UniversumSVC(), -1))],
            transform_input=["universum"],
        ).fit(X, Y, universum=(U,))
    scaler = StandardScaler().fit(X)
    by_hand = RejectingClassifier(UniversumSVC(), -1).fit(
        scaler.transform(X), Y, universum=scaler.transform(U)
    )
    assert pipe["clf"].threshold_ == by_hand.threshold_


def test_pipeline_inside_gets_the_universum_with_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Pipeline(
            [("scale", StandardScaler()), ("clf", UniversumSVC())], transform_input=["universum"]
        )
        clf = RejectingClassifier(inner, -1, target=0.8, cv=FOLDS).fit(X, Y, universum=(U,))
        by_hand = folds_by_hand(inner, largest_difference, universum=(U,))
    assert clf.threshold_ == pytest.approx(by_hand)


def test_precomputed_kernel():
    K = rbf_kernel(X, gamma=0.3)
    # Rows of a kernel matrix are visited in another order, so the optima must be met tightly.
    given, own = UniversumSVC(kernel="precomputed", tol=1e-9), UniversumSVC(gamma=0.3, tol=1e-9)
    precomputed = RejectingClassifier(given, -1, cv=FOLDS).fit(K, Y)
    direct = RejectingClassifier(own, -1, cv=FOLDS).fit(X, Y)
    assert precomputed.threshold_ == pytest.approx(direct.threshold_)
    np.testing.assert_array_equal(precomputed.predict(K), direct.predict(X))


def test_own_score():
    clf = RejectingClassifier(
        RandomForestClassifier(5, random_state=0), -1, method=lambda model, Z: -np.abs(Z[:, 1])
    ).fit(X, Y)
    np.testing.assert_array_equal(clf.predict(X) == -1, -np.abs(X[:, 1]) < clf.threshold_)


# ---------------------------------------------------------------------------------------------
# Mistakes


@pytest.mark.parametrize(
    ("clf", "error", "message"),
    [
        (RejectingClassifier(UniversumSVC(), 2), ValueError, "reject_label=2 is one of"),
        (RejectingClassifier(UniversumSVC(), -1, target=0), ValueError, "target"),
        (RejectingClassifier(UniversumSVC(), -1, method="guess"), ValueError, "method"),
        (
            RejectingClassifier(UniversumSVC(), -1, calibration="universum"),
            ValueError,
            "needs universum points",
        ),
        (
            RejectingClassifier(LinearSVC(), -1, method="predict_proba"),
            TypeError,
            "LinearSVC has no predict_proba",
        ),
    ],
)
def test_mistakes_are_named(clf, error, message):
    with pytest.raises(error, match=message):
        clf.fit(X, Y)
