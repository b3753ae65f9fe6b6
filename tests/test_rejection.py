"""Rejection: the threshold keeps its promise, by hand-made scores and by folds done by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from musvm import RejectingClassifier, UniversumSVC, UniversumSVCCV, loo_error
from musvm.rejection import fewest_points, lower_threshold, upper_threshold
from musvm.universum import WithUniversum

rng = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
Y = np.arange(90) % 3
X = CENTRES[Y] + rng.normal(size=(90, 2))
U = rng.normal(size=(40, 2)) + 2.0  # between the classes
FOLDS = StratifiedKFold(5)


# Data of some checks have a handful of points.
@pytest.mark.filterwarnings("ignore:target=")
@parametrize_with_checks(
    [
        RejectingClassifier(UniversumSVC(), 99),
        RejectingClassifier(LogisticRegression(), 99, target=0.9, method="predict_proba", cv=3),
        RejectingClassifier(LinearSVC(), 99, target=1.0),
        RejectingClassifier(UniversumSVC(), 99, calibration="loo-estimate", per_class=True),
        RejectingClassifier(LogisticRegression(), 99, calibration="split", random_state=0),
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


some_scores = st.lists(st.integers(0, 30).map(float), min_size=2, max_size=60)


@given(some_scores, st.integers(1, 100))
def test_every_one_of_exchangeable_scores_in_turn_is_accepted_as_often_as_promised(scores, target):
    """The guarantee itself: n + 1 scores, each in the role of the new one."""
    accepted = [
        scores[k] >= lower_threshold(np.array(scores[:k] + scores[k + 1 :]), target / 100)
        for k in range(len(scores))
    ]
    assert 100 * sum(accepted) >= target * len(scores)
    if len(set(scores)) == len(scores):
        assert 100 * sum(accepted) <= target * len(scores) + 100


@given(some_scores, st.integers(1, 100))
def test_every_one_of_exchangeable_scores_in_turn_is_rejected_as_often_as_promised(scores, target):
    rejected = [
        scores[k] < upper_threshold(np.array(scores[:k] + scores[k + 1 :]), target / 100)
        for k in range(len(scores))
    ]
    assert 100 * sum(rejected) >= target * len(scores)
    if len(set(scores)) == len(scores):
        assert 100 * sum(rejected) <= target * len(scores) + 100


def test_a_target_that_so_few_points_cannot_promise_makes_the_threshold_infinite():
    scores = np.arange(10.0)
    assert lower_threshold(scores, 0.95) == -np.inf
    assert upper_threshold(scores, 0.95) == np.inf
    assert lower_threshold(scores, 0.9) == 0.0
    assert upper_threshold(scores, 0.9) == np.nextafter(9.0, np.inf)
    assert lower_threshold(np.empty(0), 0.5) == -np.inf
    assert upper_threshold(np.empty(0), 0.5) == np.inf


@pytest.mark.parametrize("target", [0.01, 0.3, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_the_fewest_points_that_can_promise_a_target(target):
    n = fewest_points(target)
    for rule in (lower_threshold, upper_threshold):
        assert np.isfinite(rule(np.arange(float(n)), target))
        assert not np.isfinite(rule(np.arange(float(n - 1)), target))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": 0.99}, r"target=0\.99 takes at least 99 calibration points, and there are 60: "
         r"all points are accepted\. So few can promise a target of at most 0\.983\.$"),
        ({"calibration": "split", "held_back": 0.2}, "at least 19 calibration points, and there "
         r"are 12: .* at most 0\.923\.$"),
        ({"per_class": True, "target": 0.97}, "33 calibration points of each class, and there are "
         r"\d+ of class \d: all points that are given 3 of 3 classes are accepted"),
        ({"calibration": "universum", "target": 0.99}, "all points are rejected"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_promised_is_told(options, said):
    clf = RejectingClassifier(UniversumSVC(), -1, random_state=0, **options)
    with pytest.warns(UserWarning, match=said):
        clf.fit(X[:60], Y[:60], universum=U[:40])
    assert np.isinf(clf.threshold_).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.set_params(target=0.7, per_class=False).fit(X[:60], Y[:60], universum=U[:40])
        clf.set_params(target=1.0, calibration="cv").fit(X[:60], Y[:60])  # what was asked for


def kth(scores, target):
    """The k-th smallest, counted one by one: k / (n + 1) is as large as 1 - target allows."""
    k = 0
    while (k + 1) / (len(scores) + 1) <= 1 - target + 1e-9:
        k += 1
    return np.sort(scores)[k - 1] if k else -np.inf


def folds_by_hand(estimator, score, target=0.8, **fit_params):
    """The threshold from scores of left-out folds."""
    scores = np.concatenate(
        [
            score(clone(estimator).fit(X[train], Y[train], **fit_params), X[test])
            for train, test in FOLDS.split(X, Y)
        ]
    )
    return kth(scores, target)


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
    assert np.sum(scores < clf.threshold_) == np.ceil(0.75 * 41)
    assert clf.estimator_.objective_ == UniversumSVC().fit(X, Y, universum=U).objective_


def test_parts_of_a_universum_are_each_shared_out_over_the_folds():
    whole = RejectingClassifier(UniversumSVC(), -1, target=0.9, calibration="universum", cv=4)
    parts = clone(whole).fit(X, Y, universum=(U[:20], U[20:]))
    assert parts.threshold_ == whole.fit(X, Y, universum=U).threshold_


def test_marked_universum_sets_the_threshold_too():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    marked = RejectingClassifier(
        UniversumSVC(universum_label=-1), -1, target=0.9, calibration="universum", cv=4
    ).fit(Z, labels)
    passed = RejectingClassifier(UniversumSVC(), -1, target=0.9, calibration="universum", cv=4)
    assert marked.threshold_ == pytest.approx(passed.fit(X, Y, universum=U).threshold_)


def test_classifier_that_takes_no_universum_is_judged_on_it_as_it_is():
    clf = RejectingClassifier(LogisticRegression(), -1, target=0.5, calibration="universum")
    clf.fit(X, Y, universum=(U[:5], U[5:]))
    scores = largest_difference(LogisticRegression().fit(X, Y), U)
    assert np.sum(scores < clf.threshold_) == np.ceil(0.5 * 41)


def test_marked_universum_does_not_count_as_accepted():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    clf = RejectingClassifier(UniversumSVC(universum_label=-1), -1, target=0.8, cv=FOLDS)
    clf.fit(Z, labels)
    scores = np.empty(len(Z))
    for train, test in FOLDS.split(Z, labels):
        model = UniversumSVC(universum_label=-1).fit(Z[train], labels[train])
        scores[test] = model.universum_score(Z[test])
    assert clf.threshold_ == kth(scores[:90], 0.8)


# ---------------------------------------------------------------------------------------------
# Other sources of calibration scores


def leave_one_out_scores(estimator, universum):
    """Every point by a model that is trained without it, and the label it gets."""
    scores, labels = np.empty(len(X)), np.empty(len(X), dtype=int)
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        model = clone(estimator).fit(X[kept], Y[kept], universum=universum)
        scores[i], labels[i] = model.universum_score(X[[i]])[0], model.predict(X[[i]])[0]
    return scores, labels


@pytest.mark.parametrize("universum", [None, U], ids=["plain", "universum"])
def test_exact_leave_one_out_scores_are_those_of_models_trained_without_the_point(universum):
    svc = UniversumSVC(C=2.0, gamma=0.2, tol=1e-9)
    scores, labels = leave_one_out_scores(svc, universum)
    clf = RejectingClassifier(svc, -1, target=0.8, calibration="loo")
    exact = kth(scores, 0.8)
    # Scores may be taken lower by what their certificate leaves open, never higher.
    threshold = clf.fit(X, Y, universum=universum).threshold_
    assert threshold <= exact + 1e-6
    assert threshold == pytest.approx(exact, abs=0.02)
    per_class = clone(clf).set_params(per_class=True).fit(X, Y, universum=universum)
    by_hand = [kth(scores[labels == label], 0.8) for label in range(3)]
    np.testing.assert_allclose(per_class.threshold_, by_hand, atol=0.05)


def test_estimated_leave_one_out_scores_are_those_of_loo_error():
    clf = RejectingClassifier(UniversumSVC(), -1, target=0.8, calibration="loo-estimate")
    clf.fit(X, Y, universum=U)
    left_out = loo_error(clf.estimator_, X, Y, U, method="loo-estimate")
    assert clf.threshold_ == kth(np.ptp(left_out.decision_values, axis=1), 0.8)


def test_a_search_is_left_out_like_its_best_model():
    search = UniversumSVCCV([1.0], gammas=[0.2], deltas=[0.0]).fit(X, Y, universum=U)
    clf = RejectingClassifier(search, -1, target=0.8, calibration="loo-estimate")
    clf.fit(X, Y, universum=U)
    best = RejectingClassifier(search.best_estimator_, -1, target=0.8, calibration="loo-estimate")
    universum = U if search.best_estimator_.universum_weight else None
    assert clf.threshold_ == pytest.approx(best.fit(X, Y, universum=universum).threshold_, abs=1e-6)


def test_points_held_back_are_not_learnt_from():
    seen = []

    class Spy(LogisticRegression):
        def fit(self, X, y):
            seen.append(X)
            return super().fit(X, y)

    clf = RejectingClassifier(
        Spy(), -1, target=0.8, calibration="split", held_back=0.4, random_state=0
    ).fit(X, Y)
    [fitted] = seen
    assert len(fitted) == 54
    held = np.array([row for row in X if not (row == fitted).all(axis=1).any()])
    assert len(held) == 36
    assert clf.threshold_ == kth(clf.score_samples(held), 0.8)


def test_marked_universum_is_not_held_back():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    clf = RejectingClassifier(
        UniversumSVC(universum_label=-1), -1, calibration="split", random_state=0
    ).fit(Z, labels)
    assert np.sum(clf.estimator_.classes_ == -1) == 0
    fewer = RejectingClassifier(UniversumSVC(), -1, calibration="split", random_state=0)
    assert clf.threshold_ == pytest.approx(fewer.fit(X, Y, universum=U).threshold_, abs=1e-3)


def test_thresholds_per_class_are_of_the_points_given_that_class():
    clf = RejectingClassifier(LogisticRegression(), -1, target=0.8, per_class=True, cv=FOLDS)
    clf.fit(X, Y)
    scores, labels = np.empty(len(X)), np.empty(len(X))
    for train, test in FOLDS.split(X, Y):
        model = LogisticRegression().fit(X[train], Y[train])
        scores[test], labels[test] = largest_difference(model, X[test]), model.predict(X[test])
    by_hand = [kth(scores[labels == label], 0.8) for label in range(3)]
    np.testing.assert_allclose(clf.threshold_, by_hand)
    whole = LogisticRegression().fit(X, Y)
    own = clf.threshold_[whole.predict(U)]
    expected = np.where(largest_difference(whole, U) >= own, whole.predict(U), -1)
    np.testing.assert_array_equal(clf.predict(U), expected)


@pytest.mark.parametrize("calibration", ["split", "loo", "loo-estimate"])
def test_promise_is_kept_on_average_over_many_draws(calibration):
    """The mean share of new points accepted is at least the target, but for chance."""
    rng = np.random.default_rng(5)
    shares = []
    for seed in range(60):
        labels = np.arange(60) % 3
        points = CENTRES[labels] + 1.5 * rng.normal(size=(60, 2))
        new = CENTRES[np.arange(300) % 3] + 1.5 * rng.normal(size=(300, 2))
        clf = RejectingClassifier(
            UniversumSVC(gamma=0.1), -1, target=0.9, calibration=calibration, random_state=seed
        ).fit(points, labels)
        shares.append(np.mean(clf.predict(new) != -1))
    allowed = 3 * np.std(shares, ddof=1) / np.sqrt(len(shares))
    n = 18 if calibration == "split" else 60
    assert np.mean(shares) >= 0.9 - allowed
    assert np.mean(shares) <= 0.9 + 1 / (n + 1) + allowed


# ---------------------------------------------------------------------------------------------
# Bounded acceptance (docs/mathematics/bounded.md)


@given(
    st.integers(0, 2**31 - 1),
    st.floats(0.05, 2.0),
    st.floats(0.01, 1.5),
    st.sampled_from([None, U]),
)
@settings(max_examples=30)
def test_rbf_without_intercept_accepts_no_point_farther_than_the_radius(
    seed, gamma, threshold, universum
):
    model = UniversumSVC(C=3.0, gamma=gamma, tol=1e-2).fit(X, Y, universum=universum)
    A = np.ptp(model.dual_coef_, axis=0 if model.dual_coef_.shape[0] == 3 else 1).sum()
    radius = np.sqrt(max(np.log(A / threshold), 0) / gamma)
    rng = np.random.default_rng(seed)
    # Points at all distances around the support vectors, many of them near the bound.
    start = model.support_vectors_[rng.integers(len(model.support_vectors_), size=500)]
    direction = rng.normal(size=start.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points = start + radius * rng.uniform(0.5, 1.6, size=(500, 1)) * direction
    distance = euclidean_distances(points, model.support_vectors_).min(axis=1)
    accepted = model.universum_score(points) >= threshold
    assert np.all(distance[accepted] <= radius * (1 + 1e-9))
    if threshold > A:
        assert not accepted.any()


def test_linear_kernel_accepts_without_bound():
    model = UniversumSVC(kernel="linear").fit(X, Y, universum=U)
    ray = np.outer([1.0, 10.0, 1e6], X[0])
    scores = model.universum_score(ray)
    np.testing.assert_allclose(scores / scores[0], [1.0, 10.0, 1e6], rtol=1e-9)


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
            RejectingClassifier(UniversumSVC(), -1, method=len, calibration="loo"),
            ValueError,
            "needs a score made of decision values",
        ),
        (
            RejectingClassifier(LogisticRegression(), -1, calibration="loo"),
            TypeError,
            "needs a fitted UniversumSVC, got LogisticRegression",
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
