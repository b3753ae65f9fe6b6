"""Each private name of scikit-learn that is used: it is there, and does what it is used for."""

from __future__ import annotations

from numbers import Real

import numpy as np
import pandas
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.svm import SVC

from musvm import UniversumSVC, _sklearn
from musvm._sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    check_feature_names,
    check_n_features,
    check_sample_weight,
    check_y,
    fit_context,
    get_feature_names,
    routing_enabled,
    safe_indexing,
    safe_split,
    validate_parameter_constraints,
    validate_params,
)

X = np.arange(12.0).reshape(6, 2)
FRAME = pandas.DataFrame(X, columns=["a", "b"])


def test_every_name_of_the_shim_is_tested_here():
    ours = {"all_or_nothing", "FitEvents"}
    # Callbacks, which not every version has, have tests of their own.
    here = set(globals()) | ours | {"CallbackSupportMixin"}
    assert set(_sklearn.__all__) <= here


def test_without_callbacks_nobody_is_told():
    events = _sklearn.FitEvents(object(), X, None, 3)
    events.step("round", n_rounds=1)
    events.end()
    assert vars(UniversumSVC()).keys() == UniversumSVC().get_params().keys()


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Interval(Real, 0, None, closed="neither"), 0.5, 0.0),
        (StrOptions({"sum", "max"}), "sum", "mean"),
        (HasMethods(["fit", "predict"]), SVC(), object()),
    ],
    ids=["Interval", "StrOptions", "HasMethods"],
)
def test_constraints_tell_good_from_bad(constraint, good, bad):
    assert constraint.is_satisfied_by(good)
    assert not constraint.is_satisfied_by(bad)
    validate_parameter_constraints({"p": [constraint]}, {"p": good}, caller_name="here")
    with pytest.raises(ValueError, match="'p' parameter of here"):
        validate_parameter_constraints({"p": [constraint]}, {"p": bad}, caller_name="here")


def test_parameters_of_a_function_are_validated():
    at_least_one = Interval(Real, 1, None, closed="left")

    @validate_params({"n": [at_least_one]}, prefer_skip_nested_validation=True)
    def doubled(n):
        return 2 * n

    assert doubled(3) == 6
    with pytest.raises(ValueError, match=r"'n' parameter of .*doubled"):
        doubled(0)


def test_fit_validates_the_parameters_first():
    class Model(BaseEstimator):
        _parameter_constraints = {"C": [Interval(Real, 0, None, closed="neither")]}  # noqa: RUF012

        def __init__(self, C=1.0):
            self.C = C

        @fit_context(prefer_skip_nested_validation=True)
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

    assert Model().fit(X).fitted_
    with pytest.raises(ValueError, match="'C' parameter of Model"):
        Model(-1.0).fit(X)


def test_features_are_remembered_and_compared():
    model = BaseEstimator()
    check_n_features(model, X, reset=True)
    check_feature_names(model, FRAME, reset=True)
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="1 features"):
        check_n_features(model, X[:, :1], reset=False)
    with pytest.raises(ValueError, match="feature names"):
        check_feature_names(model, FRAME[["b", "a"]], reset=False)


def test_feature_names_are_those_of_a_frame():
    assert get_feature_names(FRAME).tolist() == ["a", "b"]
    assert get_feature_names(X) is None


def test_sample_weights_are_one_number_a_row():
    assert check_sample_weight(None, X).tolist() == [1.0] * 6
    with pytest.raises(ValueError, match="sample_weight"):
        check_sample_weight([1.0], X)


def test_labels_are_finite_and_in_one_column():
    assert check_y([0, 1, 2], multi_output=False, estimator=SVC()).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="NaN"):
        check_y([0.0, np.nan], multi_output=False, estimator=SVC())


def test_rows_are_taken_of_arrays_and_frames():
    assert safe_indexing(X, [1, 3]).tolist() == X[[1, 3]].tolist()
    assert safe_indexing(FRAME, [1, 3]).index.tolist() == [1, 3]


def test_a_precomputed_kernel_is_split_in_rows_and_columns():
    K, y = X @ X.T, np.arange(6)
    model = UniversumSVC(kernel="precomputed")
    kept, left = [0, 1, 2, 3], [4, 5]
    K_kept, y_kept = safe_split(model, K, y, kept)
    K_left, _ = safe_split(model, K, y, left, kept)
    assert (K_kept.shape, K_left.shape) == ((4, 4), (2, 4))
    assert y_kept.tolist() == kept
    assert np.array_equal(K_left, K[np.ix_(left, kept)])


def test_routing_is_enabled_where_it_was_asked_for():
    assert not routing_enabled()
    with sklearn.config_context(enable_metadata_routing=True):
        assert routing_enabled()
