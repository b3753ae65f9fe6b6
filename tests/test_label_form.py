"""The label form and scikit-learn's tools, certified labels, and probabilities."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.preprocessing import StandardScaler

from musvm import (
    UniversumSplit,
    UniversumSVC,
    UniversumSVCCV,
    make_universum_pipeline,
    make_universum_scorer,
)

rng = np.random.default_rng(0)
N, M = 60, 40
Y = np.arange(N) % 3
X = (1.5 * rng.normal(size=(3, 4)))[Y] + 1.5 * rng.normal(size=(N, 4))
U = rng.normal(size=(M, 4))
Z, LABELS = np.vstack([X, U]), np.r_[Y, np.full(M, -1)]
NAMES = np.array(["cat", "dog", "eel"])[Y]


# ---------------------------------------------------------------------------------------------
# A label that is not there


@pytest.mark.parametrize(
    ("y", "label", "said"),
    [
        (NAMES, "other", "No row of y has universum_label='other', only 'cat', 'dog', 'eel'"),
        (NAMES, -1, "No row of y has universum_label=-1, only 'cat', 'dog', 'eel'"),
        (Y, "other", "No row of y has universum_label='other', only 0, 1, 2"),
        (np.arange(N) % 10, -1, "universum_label=-1, only 0, 1, 2, 3, 4, ..."),
    ],
)
@pytest.mark.parametrize("make", [UniversumSVC, lambda **p: UniversumSVCCV([1.0], **p)])
def test_a_label_that_no_row_has_is_told(make, y, label, said):
    with pytest.warns(UserWarning, match=re.escape(said)) as caught:
        make(universum_label=label).fit(X, y)
    assert caught[0].filename == __file__


def test_a_label_is_not_missed_where_the_universum_is_passed():
    """Nothing is said (warnings are errors here), and the universum is that of the argument."""
    marked = UniversumSVC(universum_label=-1).fit(X, Y, universum=U)
    assert marked.objective_ == UniversumSVC().fit(X, Y, universum=U).objective_


def test_the_splitter_tells_as_well():
    with pytest.warns(UserWarning, match="universum_label=-1, only 'cat', 'dog', 'eel'"):
        list(UniversumSplit(3).split(X, NAMES))


# ---------------------------------------------------------------------------------------------
# Scores


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", None])
@pytest.mark.parametrize("names", [False, True], ids=["numbers", "strings"])
def test_scorer_leaves_universum_rows_out(scoring, names):
    y = np.r_[NAMES, np.full(M, "none")] if names else LABELS
    label = "none" if names else -1
    scorer = make_universum_scorer(scoring, universum_label=label)
    folds = StratifiedKFold(4)
    clf = UniversumSVC(universum_label=label)
    found = cross_val_score(clf, Z, y, cv=folds, scoring=scorer)
    expected = []
    for train, test in folds.split(Z, y):
        known = test[y[test] != label]
        predicted = UniversumSVC(universum_label=label).fit(Z[train], y[train]).predict(Z[known])
        expected.append(
            balanced_accuracy_score(y[known], predicted)
            if scoring == "balanced_accuracy"
            else np.mean(predicted == y[known])
        )
    np.testing.assert_allclose(found, expected)
    # What it is for: scikit-learn's own counts every universum row as an error.
    plain = cross_val_score(clf, Z, y, cv=folds, scoring="accuracy")
    assert plain.mean() < found.mean() - 0.2


def test_scorer_in_a_search_and_a_pickle():
    scorer = pickle.loads(pickle.dumps(make_universum_scorer("accuracy", universum_label=-1)))
    assert repr(scorer) == "make_universum_scorer('accuracy', universum_label=-1)"
    search = GridSearchCV(
        UniversumSVC(universum_label=-1), {"C": [0.1, 1.0]}, cv=UniversumSplit(3), scoring=scorer
    ).fit(Z, LABELS)
    usual = GridSearchCV(
        UniversumSVC(universum_label=-1), {"C": [0.1, 1.0]}, cv=UniversumSplit(3)
    ).fit(Z, LABELS)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], usual.cv_results_["mean_test_score"]
    )


def test_only_universum_rows_cannot_be_scored():
    clf = UniversumSVC(universum_label=-1).fit(Z, LABELS)
    with pytest.raises(ValueError, match="nothing to score"):
        make_universum_scorer()(clf, U, np.full(M, -1))


# ---------------------------------------------------------------------------------------------
# Probabilities, and predictions of folds


def test_probabilities_are_those_of_calibration():
    clf = UniversumSVC().fit(X, Y, universum=U)
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match=r"CalibratedClassifierCV\(UniversumSVC\(\), ensemble"):
        clf.predict_proba(X)
    calibrated = CalibratedClassifierCV(UniversumSVC(), ensemble=False, cv=3)
    probabilities = calibrated.fit(X, Y, universum=(U,)).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.mean(probabilities.argmax(axis=1) == Y) > 0.6
    inside = calibrated.calibrated_classifiers_[0].estimator
    assert inside.objective_ == clf.objective_


def test_predictions_of_folds_with_a_universum_in_a_tuple():
    folds = StratifiedKFold(3)
    found = cross_val_predict(
        UniversumSVC(), X, Y, cv=folds, method="decision_function", params={"universum": (U,)}
    )
    for train, test in folds.split(X, Y):
        clf = UniversumSVC().fit(X[train], Y[train], universum=U)
        np.testing.assert_array_equal(found[test], clf.decision_function(X[test]))


# ---------------------------------------------------------------------------------------------
# Certified labels


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("max_iter", [1, 3, 1000])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_certified_labels_are_those_of_the_optimum(kernel, max_iter):
    new = 1.5 * rng.normal(size=(500, 4))
    rough = UniversumSVC(kernel=kernel, delta=0.1, max_iter=max_iter).fit(X, Y, universum=U)
    exact = UniversumSVC(kernel=kernel, delta=0.1, tol=1e-10).fit(X, Y, universum=U)
    certain = rough.certified(new)
    np.testing.assert_array_equal(rough.predict(new)[certain], exact.predict(new)[certain])
    diagonal = np.ones(500) if kernel == "rbf" else (new**2).sum(axis=1)
    by_hand = rough.projections(new).max(axis=1) > np.sqrt(2 * rough.dual_gap_ * diagonal)
    np.testing.assert_array_equal(certain, by_hand)
    if max_iter == 1000:
        assert certain.mean() > 0.5


def test_certified_through_a_pipeline():
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC()).fit(X, Y, universum=U)
    expected = pipe[-1].certified(pipe[0].transform(X))
    np.testing.assert_array_equal(pipe.certified(X), expected)


def test_what_cannot_be_certified_is_refused():
    K = rbf_kernel(X)
    with pytest.raises(ValueError, match=r"k\(x, x\) is not known"):
        UniversumSVC(kernel="precomputed").fit(K, Y).certified(K)
    with (
        pytest.warns(UserWarning, match="not positive semi-definite"),
        pytest.raises(ValueError, match="kernel='sigmoid' cannot be certified"),
    ):
        UniversumSVC(kernel="sigmoid", gamma=1.0).fit(X, Y).certified(X)


@pytest.mark.parametrize("missing", [None, np.nan, float("nan")])
@pytest.mark.parametrize("make", [UniversumSVC, UniversumSVCCV])
def test_labels_that_are_missing_are_told_by_their_row(make, missing):
    labels = np.array(["a", "b", "c"], dtype=object)[Y]
    labels[[3, 7]] = missing
    said = f"2 of {len(Y)} labels are missing, the first in row 3; leave these rows out, or give"
    for y in (labels, labels.tolist(), pd.Series(labels)):
        with pytest.raises(ValueError, match=said):
            make().fit(X, y)
