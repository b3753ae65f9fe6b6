"""`UniversumSVC` inside scikit-learn's tools, each time with a universum.

Every result is compared with the same thing done by hand: folds fitted one by one, features
scaled before the fit.
"""

from __future__ import annotations

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from musvm import UniversumSVC

N = 60
rng = np.random.default_rng(0)
Y = np.arange(N) % 3
STRETCH = np.array([0.3, 1.0, 2.0, 3.0])  # so that it matters whether features are scaled
X = ((2 * rng.normal(size=(3, 4)))[Y] + 1.5 * rng.normal(size=(N, 4))) * STRETCH
FEW = (rng.normal(size=(25, 4)) + 0.5) * STRETCH
AS_MANY = (rng.normal(size=(N, 4)) + 0.5) * STRETCH
FOLDS = StratifiedKFold(4)
UNIVERSA = pytest.mark.parametrize("U", [FEW, AS_MANY], ids=["m < n", "m = n"])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def fold_scores(clf, U) -> list[float]:
    """Accuracy of every fold, the whole universum in each of them."""
    return [
        clone(clf).fit(X[train], Y[train], universum=U).score(X[test], Y[test])
        for train, test in FOLDS.split(X, Y)
    ]


def scaled_fold_scores(clf, U) -> list[float]:
    """The same with features, those of the universum too, scaled on the training part."""
    scores = []
    for train, test in FOLDS.split(X, Y):
        scaler = StandardScaler().fit(X[train])
        model = clone(clf).fit(scaler.transform(X[train]), Y[train], scaler.transform(U))
        scores.append(model.score(scaler.transform(X[test]), Y[test]))
    return scores


def scaling_pipeline(clf=None) -> Pipeline:
    return Pipeline(
        [("scale", StandardScaler()), ("clf", clf or UniversumSVC())],
        transform_input=["universum"],
    )


# ---------------------------------------------------------------------------------------------
# Searches and cross-validation


@UNIVERSA
def test_cross_val_score_passes_a_tuple_whole(U):
    clf = UniversumSVC(C=3)
    scores = cross_val_score(clf, X, Y, cv=FOLDS, params={"universum": (U,)})
    assert scores.tolist() == fold_scores(clf, U)


def test_bare_array_of_n_rows_is_split_and_a_tuple_is_not():
    """The trap that `fit` warns of; where it goes, the warning may go too."""
    seen = []

    class Watching(UniversumSVC):
        def fit(self, X, y, universum=None, sample_weight=None):
            seen.append(universum)
            return super().fit(X, y, universum, sample_weight)

    with pytest.warns(UserWarning, match="a tuple is never split"):
        cross_val_score(Watching(), X, Y, cv=FOLDS, params={"universum": AS_MANY})
    assert {len(U) for U in seen} == {45}
    seen.clear()
    cross_val_score(Watching(), X, Y, cv=FOLDS, params={"universum": (AS_MANY,)})
    assert all(U[0] is AS_MANY for U in seen)


@UNIVERSA
def test_grid_search_finds_what_a_loop_finds(U):
    grid = {"C": [0.01, 1.0], "delta": [0.0, 0.5]}
    search = GridSearchCV(UniversumSVC(gamma=0.1), grid, cv=FOLDS, error_score="raise")
    search.fit(X, Y, universum=(U,))
    by_hand = [
        np.mean(fold_scores(UniversumSVC(gamma=0.1, C=C, delta=delta), U))
        for C in grid["C"]
        for delta in grid["delta"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    refitted = UniversumSVC(gamma=0.1, **search.best_params_).fit(X, Y, universum=U)
    assert search.best_estimator_.objective_ == refitted.objective_


@UNIVERSA
def test_label_form_travels_through_cross_validation(U):
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    result = cross_validate(
        UniversumSVC(universum_label=-1), Z, labels, cv=FOLDS, return_estimator=True
    )
    for clf, score, (train, test) in zip(
        result["estimator"], result["test_score"], FOLDS.split(Z, labels), strict=True
    ):
        inside = labels[train] != -1
        again = UniversumSVC().fit(
            Z[train][inside], labels[train][inside], universum=Z[train][~inside]
        )
        assert clf.objective_ == again.objective_
        judged = test[labels[test] != -1]
        assert score == np.mean(again.predict(Z[judged]) == labels[judged])


def test_precomputed_kernel_is_cut_by_rows_and_columns():
    Z, labels = np.vstack([X, FEW]), np.r_[Y, np.full(len(FEW), -1)]
    direct = UniversumSVC(gamma=0.1, universum_label=-1)
    precomputed = UniversumSVC(kernel="precomputed", universum_label=-1)
    np.testing.assert_array_equal(
        cross_val_score(precomputed, rbf_kernel(Z, gamma=0.1), labels, cv=FOLDS),
        cross_val_score(direct, Z, labels, cv=FOLDS),
    )


# ---------------------------------------------------------------------------------------------
# Pipelines and metadata routing


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("asked", [True, False], ids=["requested", "by default"])
@pytest.mark.parametrize("wrap", [lambda U: U, lambda U: (U,), lambda U: (U[:9], U[9:])])
@UNIVERSA
def test_pipeline_scales_the_universum_too(U, wrap, asked):
    clf = UniversumSVC()
    if asked:
        clf.set_fit_request(universum=True)
    pipe = scaling_pipeline(clf).fit(X, Y, universum=wrap(U))
    scaler = StandardScaler().fit(X)
    by_hand = UniversumSVC().fit(scaler.transform(X), Y, universum=scaler.transform(U))
    assert pipe["clf"].objective_ == by_hand.objective_
    assert np.array_equal(pipe.predict(X), by_hand.predict(scaler.transform(X)))


@pytest.mark.usefixtures("routing")
@UNIVERSA
def test_search_over_a_pipeline_scales_the_whole_universum_in_every_fold(U):
    search = GridSearchCV(
        scaling_pipeline(), {"clf__C": [0.01, 1.0]}, cv=FOLDS, error_score="raise"
    ).fit(X, Y, universum=(U,))
    by_hand = [np.mean(scaled_fold_scores(UniversumSVC(C=C), U)) for C in (0.01, 1.0)]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)


def test_pipeline_without_routing_passes_the_universum_as_it_is():
    scaler = StandardScaler().fit(X)
    pipe = make_pipeline(StandardScaler(), UniversumSVC())
    pipe.fit(X, Y, universumsvc__universum=scaler.transform(FEW))
    by_hand = UniversumSVC().fit(scaler.transform(X), Y, universum=scaler.transform(FEW))
    assert pipe[-1].objective_ == by_hand.objective_


def test_pipeline_with_the_label_form_needs_no_routing():
    Z, labels = np.vstack([X, FEW]), np.r_[Y, np.full(len(FEW), -1)]
    pipe = make_pipeline(StandardScaler(), UniversumSVC(universum_label=-1)).fit(Z, labels)
    S = StandardScaler().fit_transform(Z)
    by_hand = UniversumSVC().fit(S[:N], Y, universum=S[N:])
    assert pipe[-1].objective_ == by_hand.objective_


@pytest.mark.usefixtures("routing")
def test_sample_weight_has_to_be_requested_as_everywhere():
    weight = np.linspace(0.5, 2, N)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        scaling_pipeline().fit(X, Y, universum=FEW, sample_weight=weight)
    pipe = Pipeline(
        [
            ("scale", StandardScaler().set_fit_request(sample_weight=False)),
            ("clf", UniversumSVC().set_fit_request(sample_weight=True)),
        ],
        transform_input=["universum"],
    ).fit(X, Y, universum=FEW, sample_weight=weight)
    scaler = StandardScaler().fit(X)
    by_hand = UniversumSVC().fit(
        scaler.transform(X), Y, universum=scaler.transform(FEW), sample_weight=weight
    )
    assert pipe["clf"].objective_ == by_hand.objective_


@pytest.mark.usefixtures("routing")
def test_transformer_that_returns_frames_gives_the_model_its_names():
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipe = scaling_pipeline()
    pipe["scale"].set_output(transform="pandas")
    pipe.fit(frame, Y, universum=(pd.DataFrame(FEW, columns=list("abcd")),))
    assert pipe["clf"].feature_names_in_.tolist() == ["a", "b", "c", "d"]
    plain = scaling_pipeline().fit(X, Y, universum=FEW)
    # The scaler adds up a frame's columns in another order than an array's.
    assert pipe["clf"].objective_ == pytest.approx(plain["clf"].objective_, rel=1e-9)
    assert np.array_equal(pipe.predict(frame), plain.predict(X))


def test_frames_with_string_labels():
    frame, universum = (pd.DataFrame(Z, columns=list("abcd")) for Z in (X, FEW))
    labels = pd.Series(np.array(["cat", "dog", "eel"])[Y])
    clf = UniversumSVC().fit(frame, labels, universum=universum)
    plain = UniversumSVC().fit(X, Y, universum=FEW)
    assert clf.classes_.tolist() == ["cat", "dog", "eel"]
    assert clf.objective_ == plain.objective_
    assert np.array_equal(clf.predict(frame), clf.classes_[plain.predict(X)])
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frame[["b", "a", "c", "d"]])


def test_frames_with_the_universum_as_a_string_label():
    frame = pd.DataFrame(np.vstack([X, FEW]), columns=list("abcd"))
    labels = pd.Series([*np.array(["cat", "dog", "eel"])[Y], *["none"] * len(FEW)])
    clf = UniversumSVC(universum_label="none").fit(frame, labels)
    assert clf.classes_.tolist() == ["cat", "dog", "eel"]
    assert clf.objective_ == UniversumSVC().fit(X, Y, universum=FEW).objective_


# ---------------------------------------------------------------------------------------------
# Copies of a model


def joblib_copy(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    return joblib.load(buffer)


@pytest.mark.parametrize("copy", [lambda m: pickle.loads(pickle.dumps(m)), joblib_copy])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@UNIVERSA
def test_copies_give_identical_decision_values(U, kernel, copy):
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    data = rbf_kernel(Z, gamma=0.1) if kernel == "precomputed" else Z
    clf = UniversumSVC(C=0.1, kernel=kernel, universum_label=-1).fit(data, labels)
    again = copy(clf)
    assert np.array_equal(again.decision_function(data), clf.decision_function(data))
    assert np.array_equal(again.universum_support_, clf.universum_support_)


@UNIVERSA
def test_clone_has_the_parameters_and_nothing_of_the_fit(U):
    clf = UniversumSVC(C=2, delta=0.3, universum_label="u", class_weight={0: 2.0}, kernel="poly")
    clf.set_params(kernel="rbf").fit(X, Y, universum=U)
    again = clone(clf)
    assert again.get_params() == clf.get_params()
    assert not hasattr(again, "classes_")
    assert again.fit(X, Y, universum=U).objective_ == clf.objective_


# ---------------------------------------------------------------------------------------------
# Other tools


def test_probabilities_by_calibration():
    calibrated = CalibratedClassifierCV(UniversumSVC(), ensemble=False, cv=3)
    P = calibrated.fit(X, Y, universum=(FEW,)).predict_proba(X)
    assert P.shape == (N, 3)
    assert np.mean(P.argmax(axis=1) == Y) > 0.6


def test_one_versus_rest_of_binary_models():
    with sklearn.config_context(enable_metadata_routing=True):
        ovr = OneVsRestClassifier(UniversumSVC()).fit(X, Y, universum=(FEW,))
    for label, binary in enumerate(ovr.estimators_):
        by_hand = UniversumSVC().fit(X, np.equal(Y, label), universum=FEW)
        assert binary.objective_ == by_hand.objective_


def test_predictions_of_held_out_rows():
    predicted = cross_val_predict(UniversumSVC(), X, Y, cv=FOLDS, params={"universum": (FEW,)})
    assert np.mean(predicted == Y) == pytest.approx(np.mean(fold_scores(UniversumSVC(), FEW)))


def test_html_representation_names_the_parameters():
    html = UniversumSVC(delta=0.25)._repr_html_()
    assert "UniversumSVC" in html
    assert "0.25" in html
