"""`make_universum_pipeline` against scaling by hand, alone and inside scikit-learn's tools."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import musvm
from musvm import (
    RejectingClassifier,
    UniversumPipeline,
    UniversumSVC,
    UniversumSVCCV,
    make_universum_pipeline,
)

N = 60
rng = np.random.default_rng(0)
Y = np.arange(N) % 3
STRETCH = np.array([0.3, 1.0, 20.0, 300.0])
X = ((2 * rng.normal(size=(3, 4)))[Y] + 1.5 * rng.normal(size=(N, 4))) * STRETCH
U = (rng.normal(size=(25, 4)) + 0.5) * STRETCH
FOLDS = StratifiedKFold(4)
FORMS = {
    "array": lambda U: U,
    "tuple": lambda U: (U,),
    "two parts": lambda U: (U[:9], U[9:]),
    "list of rows": lambda U: U.tolist(),
}


def fitted(**parameters) -> UniversumPipeline:
    return make_universum_pipeline(StandardScaler(), UniversumSVC(**parameters)).fit(
        X, Y, universum=U
    )


def by_hand(U=U, **parameters) -> tuple[StandardScaler, UniversumSVC]:
    scaler = StandardScaler().fit(X)
    clf = UniversumSVC(**parameters)
    return scaler, clf.fit(scaler.transform(X), Y, universum=scaler.transform(U))


# As for every pipeline of scikit-learn: its parameters are the estimators that it fits.
PIPELINES = dict.fromkeys(
    ("check_dont_overwrite_parameters", "check_estimators_overwrite_params"),
    "a pipeline fits its steps in place",
)


@parametrize_with_checks(
    [make_universum_pipeline(StandardScaler(), UniversumSVC())],
    expected_failed_checks=lambda estimator: PIPELINES,
)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("routing", [False, True], ids=["as it is", "with metadata routing"])
@pytest.mark.parametrize("form", FORMS)
def test_is_scaling_by_hand_to_the_last_digit(form, routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        pipe = make_universum_pipeline(StandardScaler(), UniversumSVC(C=3, delta=0.1))
        assert pipe.fit(X, Y, universum=FORMS[form](U)) is pipe
    scaler, clf = by_hand(C=3, delta=0.1)
    Z = scaler.transform(X)
    assert pipe[-1].objective_ == clf.objective_
    for method in ("decision_function", "predict", "universum_score", "projections"):
        np.testing.assert_array_equal(getattr(pipe, method)(X), getattr(clf, method)(Z))
    assert pipe.score(X, Y) == clf.score(Z, Y)
    assert pipe.classes_.tolist() == [0, 1, 2]


def test_several_transformers_are_fitted_to_x_alone():
    pipe = make_universum_pipeline(StandardScaler(), PCA(3, random_state=0), UniversumSVC())
    pipe.fit(X, Y, universum=U)
    scaler = StandardScaler().fit(X)
    pca = PCA(3, random_state=0).fit(scaler.transform(X))
    first, second = (pca.transform(scaler.transform(Z)) for Z in (X, U))
    again = UniversumSVC().fit(first, Y, universum=second)
    np.testing.assert_array_equal(pipe.decision_function(X), again.decision_function(first))


def test_the_universum_makes_a_difference():
    plain = make_universum_pipeline(StandardScaler(), UniversumSVC()).fit(X, Y)
    assert not np.allclose(plain.decision_function(X), fitted().decision_function(X), atol=1e-3)
    assert plain[-1].universum_support_.size == 0


def test_label_form_and_a_universum_in_the_same_pipeline_are_one_or_the_other():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC(universum_label=-1))
    pipe.fit(Z, labels)
    S = StandardScaler().fit_transform(Z)
    assert pipe[-1].objective_ == UniversumSVC().fit(S[:N], Y, universum=S[N:]).objective_
    with pytest.raises(ValueError, match="one of the two forms"):
        clone(pipe).fit(Z, labels, universum=U)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_their_columns(library):
    frames = pytest.importorskip(library)
    make = (
        (lambda Z: pd.DataFrame(Z, columns=list("abcd")))
        if library == "pandas"
        else lambda Z: frames.DataFrame(Z, schema=list("abcd"))
    )
    scale = make_column_transformer((StandardScaler(), ["c", "d"]), remainder="passthrough")
    pipe = make_universum_pipeline(scale, UniversumSVC()).fit(make(X), Y, universum=make(U))
    assert pipe.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    scaler = StandardScaler().fit(X[:, 2:])

    def prepared(Z):
        return np.hstack([scaler.transform(Z[:, 2:]), Z[:, :2]])

    again = UniversumSVC().fit(prepared(X), Y, universum=prepared(U))
    # A frame's columns are added up in another order than an array's.
    np.testing.assert_allclose(
        pipe.decision_function(make(X)), again.decision_function(prepared(X)), atol=1e-6
    )


@pytest.mark.parametrize("routing", [False, True], ids=["as it is", "with metadata routing"])
def test_search_scales_the_whole_universum_in_every_fold(routing):
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC())
    grid = {"universumsvc__C": [0.01, 1.0], "standardscaler__with_mean": [True, False]}
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(pipe, grid, cv=FOLDS, error_score="raise")
        search.fit(X, Y, universum=(U,))
    results = search.cv_results_
    for parameters, found in zip(results["params"], results["mean_test_score"], strict=True):
        scores = []
        for train, test in FOLDS.split(X, Y):
            scaler = StandardScaler(with_mean=parameters["standardscaler__with_mean"])
            S = scaler.fit_transform(X[train])
            clf = UniversumSVC(parameters["universumsvc__C"])
            clf.fit(S, Y[train], universum=scaler.transform(U))
            scores.append(clf.score(scaler.transform(X[test]), Y[test]))
        assert found == pytest.approx(np.mean(scores))


def test_is_cloned_with_its_parameters():
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC(C=7), memory=None, verbose=False)
    assert pipe.get_params()["universumsvc__C"] == 7
    copy = clone(pipe).set_params(universumsvc__C=8)
    assert (pipe[-1].C, copy[-1].C, type(copy)) == (7, 8, UniversumPipeline)
    assert isinstance(pipe[:-1], UniversumPipeline)
    assert "UniversumSVC" in pipe._repr_html_()


def test_memory_keeps_the_fitted_transformers(tmp_path):
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC(), memory=str(tmp_path))
    for _ in range(2):
        pipe.fit(X, Y, universum=U)
        np.testing.assert_array_equal(pipe.predict(X), fitted().predict(X))
        assert pipe[-1].objective_ == fitted()[-1].objective_
    assert any(tmp_path.rglob("output.pkl"))


def test_search_of_our_own_as_last_step():
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVCCV([0.1, 1.0]))
    pipe.fit(X, Y, universum=U)
    scaler = StandardScaler().fit(X)
    search = UniversumSVCCV([0.1, 1.0])
    search.fit(scaler.transform(X), Y, universum=scaler.transform(U))
    assert pipe[-1].best_params_ == search.best_params_


@pytest.mark.parametrize("calibration", ["cv", "universum"])
def test_rejecting_classifier_over_it_and_inside_it(calibration):
    over = RejectingClassifier(
        make_universum_pipeline(StandardScaler(), UniversumSVC()), -1, calibration=calibration
    ).fit(X, Y, universum=U)
    np.testing.assert_array_equal(over.estimator_.predict(X), fitted().predict(X))
    np.testing.assert_array_equal(over.score_samples(X), fitted().universum_score(X))
    inside = make_universum_pipeline(
        StandardScaler(), RejectingClassifier(UniversumSVC(), -1, calibration=calibration)
    ).fit(X, Y, universum=U)
    assert set(inside.predict(U)) >= {-1}


def test_is_saved_and_loaded(tmp_path):
    pipe = fitted()
    musvm.save(pipe, tmp_path / "pipe.skops")
    again = musvm.load(tmp_path / "pipe.skops")
    assert type(again) is UniversumPipeline
    np.testing.assert_array_equal(again.universum_score(X), pipe.universum_score(X))


def test_other_arguments_reach_their_steps():
    weight = np.linspace(0.5, 2, N)
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC())
    pipe.fit(
        X, Y, universum=U, standardscaler__sample_weight=weight, universumsvc__sample_weight=weight
    )
    scaler = StandardScaler().fit(X, sample_weight=weight)
    again = UniversumSVC().fit(
        scaler.transform(X), Y, universum=scaler.transform(U), sample_weight=weight
    )
    assert pipe[-1].objective_ == again.objective_


TEXTS = ["red cat", "red dog", "blue cat", "blue dog"] * 5
COLOURS = ["red", "red", "blue", "blue"] * 5
OTHERS = ["green cat", "green dog", "cat dog"]
FORMS_OF_TEXTS = {
    "list": OTHERS,
    "array": np.array(OTHERS, dtype=object),
    "tuple": (OTHERS,),
    "series in a tuple": (pd.Series(OTHERS),),
    "two parts": (OTHERS[:1], OTHERS[1:]),
}


@pytest.mark.parametrize("form", FORMS_OF_TEXTS)
def test_texts_as_universum(form):
    pipe = make_universum_pipeline(TfidfVectorizer(), UniversumSVC())
    pipe.fit(TEXTS, COLOURS, universum=FORMS_OF_TEXTS[form])
    words = TfidfVectorizer().fit(TEXTS)
    again = UniversumSVC().fit(words.transform(TEXTS), COLOURS, universum=words.transform(OTHERS))
    assert pipe[-1].objective_ == again.objective_


def test_texts_in_a_cross_validation():
    pipe = make_universum_pipeline(TfidfVectorizer(), UniversumSVC())
    scores = cross_val_score(pipe, TEXTS, COLOURS, params={"universum": (OTHERS,)})
    assert scores.tolist() == [1.0] * 5


def frame(points, columns="abcd"):
    return pd.DataFrame(points, columns=list(columns))


FAULTS = {
    "NaN": (X, np.vstack([U, np.full(4, np.nan)]), "Input universum contains NaN"),
    "fewer columns": (X, U[:, :3], "universum has 3 features, but StandardScaler is expecting 4"),
    "one row": (X, U[0], "universum must be an array of shape .* got 1 dimension"),
    "texts": (X, np.full((3, 4), "a"), "In the universum: could not convert string to float"),
    "other order": (
        frame(X),
        frame(U, "abdc"),
        "In the universum: The feature names should match those that were passed during fit. Fea",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_universum_are_told_as_its_own(fault):
    points, universum, sentence = FAULTS[fault]
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC())
    with pytest.raises(ValueError, match=sentence):
        pipe.fit(points, Y, universum=universum)


def test_attributes_of_the_last_step_are_told_where_they_are():
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVCCV([1.0])).fit(X, Y, universum=U)
    with pytest.raises(AttributeError, match=r"last step has: pipeline\[-1\]\.comparison_\.$"):
        _ = pipe.comparison_
    assert not hasattr(pipe, "comparison_")
    with pytest.raises(AttributeError, match="has no attribute 'best_of_all_'"):
        _ = pipe.best_of_all_
    with pytest.raises(AttributeError, match=r"CalibratedClassifierCV\(pipeline, ensemble=False"):
        pipe.predict_proba(X)
    with pytest.raises(AttributeError, match=r"CalibratedClassifierCV\(UniversumSVCCV\(\), "):
        pipe[-1].predict_proba(X)


def test_what_asks_for_a_model_says_how_to_take_it_out_of_a_pipeline(tmp_path):
    pipe, page = fitted(), tmp_path / "report.html"
    advice = r"pass its last step, pipeline\[-1\], and the data .* pipeline\[:-1\]\.transform\(X\)"
    for ask in (
        lambda model, Z, V: musvm.verify(model, Z, Y, universum=V).holds,
        lambda model, Z, V: musvm.loo_error(model, Z, Y, universum=V, method="span").error < 1,
        lambda model, Z, V: musvm.report.write(model, Z, Y, V, page, deltas=None).exists(),
    ):
        with pytest.raises(TypeError, match=advice):
            ask(pipe, X, U)
        assert ask(pipe[-1], pipe[:-1].transform(X), pipe[:-1].transform(U))


def test_wrong_calls_say_what_to_do():
    pipe = make_universum_pipeline(StandardScaler(), UniversumSVC())
    with pytest.raises(ValueError, match=r"Pass universum=\.\.\., not universumsvc__universum"):
        pipe.fit(X, Y, universumsvc__universum=U)
    with pytest.raises(ValueError, match="LogisticRegression, does not learn from a universum"):
        make_universum_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y, universum=U)
    with pytest.raises(ValueError, match="does not accept the sample_weight parameter"):
        pipe.fit(X, Y, universum=U, sample_weight=np.ones(N))
    assert not hasattr(make_universum_pipeline(LogisticRegression()), "universum_score")
    with pytest.raises(TypeError, match="takes its steps one by one, without names"):
        make_universum_pipeline([StandardScaler(), UniversumSVC()])
    with pytest.raises(TypeError, match="takes its steps one by one, without names"):
        make_universum_pipeline(("scale", StandardScaler()), ("svm", UniversumSVC()))


# ---------------------------------------------------------------------------------------------
# A universum that was not scaled


FAR = "universum lies far outside the range of X"


def test_an_unscaled_universum_in_scikit_learns_pipeline_is_told():
    wine, labels = load_wine(return_X_y=True)
    known, foreign = wine[labels < 2], wine[labels == 2]
    pipe = make_pipeline(StandardScaler(), UniversumSVC())
    with pytest.warns(UserWarning, match=re.escape(FAR)) as caught:
        pipe.fit(known, labels[labels < 2], universumsvc__universum=foreign)
    assert caught[0].filename == __file__
    # The right way is silent.
    make_universum_pipeline(StandardScaler(), UniversumSVC()).fit(
        known, labels[labels < 2], universum=foreign
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("shift", "warned"), [(0.9, False), (1.1, True)])
def test_far_is_further_than_the_box_is_long(shift, warned, sparse):
    """The box of X is [0, 3] x [0, 4], of length 5; half of the universum is outside by 5 shift."""
    box = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0], [0.0, 4.0]])
    outside = np.array([[3 + 5 * shift, 2.0], [-5 * shift, 1.0], [1.0, 4 + 5 * shift], [1.0, 1.0]])
    if sparse:
        box, outside = (sp.csr_array(Z) for Z in (box, outside))
    clf = UniversumSVC(gamma=0.1)
    if warned:
        with pytest.warns(UserWarning, match=re.escape(FAR)):
            clf.fit(box, [0, 1, 0, 1], universum=outside)
    else:
        clf.fit(box, [0, 1, 0, 1], universum=outside)


def test_the_search_tells_as_well():
    Z = StandardScaler().fit_transform(X)
    with pytest.warns(UserWarning, match=re.escape(FAR)):
        UniversumSVCCV([1.0]).fit(Z, Y, universum=U)


def test_rooms_need_no_import_of_their_own():
    code = (
        "import sys, musvm\n"
        "assert not {'musvm.report', 'plotly', 'torch', 'skimage'}"
        " & set(sys.modules)\n"
        "assert callable(musvm.universum.random_average)\n"
        "assert callable(musvm.datasets.load_digits_universum)\n"
        "assert callable(musvm.report.write)\n"
        "assert {'universum', 'datasets', 'report'} <= set(dir(musvm))\n"
        "assert not {'plotly', 'torch', 'skimage'} & set(sys.modules)\n"
        "try:\n    musvm.nothing\n"
        "except AttributeError as error:\n    assert 'nothing' in str(error)\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
