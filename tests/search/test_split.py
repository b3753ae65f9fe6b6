"""`UniversumSplit`: the folds of the training points, the universum in every training part."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_validate,
)

from musvm import UniversumSplit, UniversumSVC

rng = np.random.default_rng(0)
N, M = 48, 30
Y = np.arange(N) % 3
X = 1.5 * rng.normal(size=(3, 4))[Y] + rng.normal(size=(N, 4))
U = rng.normal(size=(M, 4))
ORDER = rng.permutation(N + M)  # universum rows among the others
Z = np.vstack([X, U])[ORDER]
LABELS = np.r_[Y, np.full(M, -1)][ORDER]
TRAINING = np.flatnonzero(LABELS != -1)

SPLITTERS = [
    StratifiedKFold(3),
    KFold(4, shuffle=True, random_state=1),
    ShuffleSplit(3, random_state=2),
    LeaveOneOut(),
    RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=3),
]


def assert_same_splits(found, cv, groups=None):
    """`found` are the splits of the training rows by themselves, plus the universum."""
    expected = list(cv.split(Z[TRAINING], LABELS[TRAINING], groups))
    assert len(found) == len(expected)
    for (train, test), (kept, left) in zip(found, expected, strict=True):
        assert np.array_equal(test, TRAINING[left])
        assert np.array_equal(train[LABELS[train] != -1], np.sort(TRAINING[kept]))
        assert np.sum(LABELS[train] == -1) == M
        assert np.all(np.diff(train) > 0)


@pytest.mark.parametrize("cv", SPLITTERS, ids=repr)
def test_training_points_are_split_as_if_alone(cv):
    split = UniversumSplit(cv, universum_label=-1)
    assert_same_splits(list(split.split(Z, LABELS)), cv)
    assert split.get_n_splits(Z, LABELS) == cv.get_n_splits(Z[TRAINING])


def test_a_number_means_stratified_folds():
    assert_same_splits(list(UniversumSplit(4).split(Z, LABELS)), StratifiedKFold(4))
    assert UniversumSplit(4).get_n_splits() == 4


def test_a_list_of_splits_counts_training_points():
    splits = list(KFold(3).split(X))
    assert_same_splits(list(UniversumSplit(splits).split(Z, LABELS)), KFold(3))


def test_groups_stay_together_whatever_those_of_the_universum():
    groups = rng.integers(0, 6, size=N + M)
    split = UniversumSplit(GroupKFold(3))
    assert_same_splits(list(split.split(Z, LABELS, groups)), GroupKFold(3), groups[TRAINING])
    assert split.get_n_splits(Z, LABELS, groups) == 3


@pytest.mark.filterwarnings("ignore:No row of y has universum_label='universum':UserWarning")
@given(st.lists(st.sampled_from(["a", "b", None]), min_size=8, max_size=30), st.integers(2, 4))
def test_every_training_row_is_tested_once_and_no_universum_row_ever(marks, n_splits):
    labels = np.array(["universum" if mark is None else mark for mark in marks])
    n_training = int(np.sum(labels != "universum"))
    if n_training < n_splits:
        return
    split = UniversumSplit(KFold(n_splits), universum_label="universum")
    tested = np.concatenate([test for _, test in split.split(labels, labels)])
    assert sorted(tested) == np.flatnonzero(labels != "universum").tolist()
    for train, test in split.split(labels, labels):
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(labels)


@pytest.mark.parametrize("convert", [pd.DataFrame, sp.csr_array, lambda Z: Z.tolist()])
def test_any_container_of_rows(convert):
    found = list(UniversumSplit(3).split(convert(Z), pd.Series(LABELS)))
    assert_same_splits(found, StratifiedKFold(3))


def test_a_string_may_mark_the_universum_among_numbers():
    mixed = np.array([label if label >= 0 else "none" for label in LABELS.tolist()], dtype=object)
    found = list(UniversumSplit(3, "none").split(Z, mixed))
    assert_same_splits(found, StratifiedKFold(3))


def test_only_universum_cannot_be_split():
    with pytest.raises(ValueError, match="nothing to split"):
        list(UniversumSplit(3).split(Z, np.full(len(Z), -1)))


def test_grid_search_sees_the_whole_universum_in_every_fold():
    grid = {"C": [0.1, 1.0], "delta": [0.0, 0.2]}
    model = UniversumSVC(gamma=0.1, universum_label=-1)
    search = GridSearchCV(model, grid, cv=UniversumSplit(3), error_score="raise").fit(Z, LABELS)
    in_order = TRAINING[np.argsort(TRAINING)]
    by_hand = []
    for C in grid["C"]:
        for delta in grid["delta"]:
            scores = []
            for train, test in StratifiedKFold(3).split(Z[in_order], LABELS[in_order]):
                fold = UniversumSVC(C, gamma=0.1, delta=delta)
                fold.fit(Z[in_order[train]], LABELS[in_order[train]], universum=U)
                scores.append(fold.score(Z[in_order[test]], LABELS[in_order[test]]))
            by_hand.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand, atol=1e-12)


def test_cross_validate_passes_groups():
    groups = np.arange(N + M) % 5
    model = UniversumSVC(universum_label=-1)
    result = cross_validate(
        model, Z, LABELS, groups=groups, cv=UniversumSplit(GroupKFold(3)), return_indices=True
    )
    for test in result["indices"]["test"]:
        assert -1 not in LABELS[test]
    tested_groups = [set(groups[test]) for test in result["indices"]["test"]]
    assert sum(map(len, tested_groups)) == len(set.union(*tested_groups)) == 5


def test_metadata_routing_passes_groups_without_being_asked():
    groups = np.arange(N + M) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        result = cross_validate(
            UniversumSVC(universum_label=-1),
            Z,
            LABELS,
            params={"groups": groups},
            cv=UniversumSplit(GroupKFold(3)),
            error_score="raise",
        )
    assert len(result["test_score"]) == 3


def test_clone_and_representation():
    split = UniversumSplit(StratifiedKFold(4), universum_label="u")
    again = clone(split)
    assert again.universum_label == "u"
    assert again.cv.n_splits == 4
    assert repr(UniversumSplit(7, universum_label=-2)) == "UniversumSplit(cv=7, universum_label=-2)"
    search = clone(GridSearchCV(UniversumSVC(), {"C": [1.0]}, cv=split))
    assert isinstance(search.cv, UniversumSplit)
