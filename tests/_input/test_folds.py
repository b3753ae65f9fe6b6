"""A call that makes many fits tells of a mistake in its data once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.model_selection._validation import _fit_and_predict
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from musvm import RejectingClassifier, UniversumSVC, UniversumSVCCV, make_universum_pipeline
from musvm._input import folds

rng = np.random.default_rng(0)
Y = np.arange(60) % 3
X = rng.normal(size=(60, 4)) + 2 * rng.normal(size=(3, 4))[Y]
MODEL = make_universum_pipeline(StandardScaler(), UniversumSVC())
GRID = {"universumsvc__C": [1.0, 2.0]}
ALL_DATA, ONE_FOLD = "40 of 40", r"\d\d of 40"


def by_folds(function):
    return lambda U: function(MODEL, X, Y, cv=3, params={"universum": U})


CALLS = {
    "search": (ALL_DATA, lambda U: GridSearchCV(MODEL, GRID, cv=3).fit(X, Y, universum=U)),
    "search that does not refit": (
        ONE_FOLD,
        lambda U: GridSearchCV(MODEL, GRID, cv=3, refit=False).fit(X, Y, universum=U),
    ),
    "scores": (ONE_FOLD, by_folds(cross_val_score)),
    "predictions": (ONE_FOLD, by_folds(cross_val_predict)),
    "calibration": (
        ALL_DATA,
        lambda U: CalibratedClassifierCV(MODEL, cv=3, ensemble=False).fit(X, Y, universum=U),
    ),
    "calibration of every fold": (
        ONE_FOLD,
        lambda U: CalibratedClassifierCV(MODEL, cv=3, ensemble=True).fit(X, Y, universum=U),
    ),
    "rejection": (
        ALL_DATA,
        lambda U: RejectingClassifier(MODEL, -1, cv=3).fit(X, Y, universum=U),
    ),
    "our search": (ALL_DATA, lambda U: UniversumSVCCV([1.0], criterion=3).fit(X, Y, universum=U)),
}


def told(call, universum):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(universum)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", CALLS)
def test_training_points_as_universum_are_told_once_in_every_call(name):
    found, call = CALLS[name]
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"^{found} universum rows are rows of X") as caught:
            call((X[:40],))
        assert len(caught) == 1


def test_a_universum_far_away_or_split_is_told_once():
    plain = UniversumSVC()
    (far,) = told(
        lambda U: GridSearchCV(plain, {"C": [1, 2]}, cv=3).fit(X, Y, universum=U), (X + 99,)
    )
    assert far.startswith("The universum lies far outside")
    (split,) = told(CALLS["scores"][1], X + 0.01)
    assert split.startswith("universum has as many rows as X")


def test_workers_tell_once_each_since_they_know_of_no_fit_that_follows():
    with parallel_config(backend="threading", n_jobs=2):
        for _ in range(2):
            assert len(told(CALLS["scores"][1], (X[:40],))) in (1, 2)
            assert len(told(CALLS["search that does not refit"][1], (X[:40],))) in (1, 2)
            assert len(told(CALLS["search"][1], (X[:40],))) in (2, 3)


class Listening(UniversumSVC):
    """Keeps what its fit tells: warnings of other processes do not come back by themselves."""

    def fit(self, X, y, universum=None):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().fit(X, y, universum=universum)
        self.heard_ = [str(warning.message) for warning in caught]
        return self


def heard_of_processes(X, universum):
    with parallel_config(backend="loky", n_jobs=2):
        params = {"universum": universum}
        found = cross_validate(Listening(), X, Y, cv=6, params=params, return_estimator=True)
    return [message for model in found["estimator"] for message in model.heard_]


def test_processes_that_are_used_again_tell_of_other_data():
    for points, universum in ((X, X[:40]), (X + 1, X[:40] + 1), (X + 1, X[10:50] + 1)):
        assert len(heard_of_processes(points, universum)) in (1, 2)
    # Folds of the universum differ from each other, but belong to one call.
    assert len(heard_of_processes(X, X + 0.01)) in (1, 2)


def test_workers_that_outlive_a_call_forget_what_they_told_a_minute_ago(monkeypatch):
    def fold(U):  # as a worker fits it: with no call in sight
        _fit_and_predict(MODEL, X, Y, np.arange(50), np.arange(50, 60), {"universum": U}, "predict")

    counts = []
    for now in (0.0, 59.0, 61.0, 62.0):
        monkeypatch.setattr(folds, "monotonic", lambda now=now: now)
        counts.append(len(told(fold, (X[:40],))))
    assert counts == [1, 0, 1, 0]


def test_points_that_cannot_be_digested_are_told_of_all_the_same():
    def evaluated(functions):
        return np.array([function() for (function,) in functions])

    points = np.array([[lambda row=row: row] for row in X])
    model = make_universum_pipeline(FunctionTransformer(evaluated), UniversumSVC())
    with parallel_config(backend="threading", n_jobs=2):
        found = told(
            lambda U: cross_val_score(model, points, Y, params={"universum": U}), (points[:40],)
        )
    assert len(found) in (1, 2)


def test_rows_that_repeat_a_few_points_are_nobodys_copy():
    empty = np.zeros((60, 4))
    few = np.where(rng.random((60, 4)) < 0.9, 0.0, 1.0)
    assert told(lambda U: UniversumSVC(gamma=1.0).fit(empty, Y, universum=U), empty[:40]) == []
    assert told(lambda U: UniversumSVC(gamma=1.0).fit(few, Y, universum=U), few[:40]) == []
