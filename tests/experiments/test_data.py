"""Partitions: right sizes, nothing on both sides, nested universa, signs kept together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives import gtsrb_images, write_zip
from musvm.experiments.data import (
    FEATURES,
    Data,
    MissingDataError,
    draw_partition,
    load_data,
    load_points,
)
from musvm.experiments.settings import SETTINGS, Universum

SETTING = replace(SETTINGS["gtsrb"], n_train=6, n_test=10, m=12)
PER_CLASS = 40


def numbered_signs() -> Data:
    """Every point is its own number, so that rows can be told apart after drawing."""
    y = np.repeat([1, 4, 5, 17, 25], PER_CLASS)
    X = np.arange(len(y), dtype=float)[:, None]
    return Data(X, y, np.arange(len(y)) // 4)


seeds = st.integers(0, 2**31 - 1)
splits = st.sampled_from(["random", "tracks"])


@given(seed=seeds, number=st.integers(0, 50), split=splits)
def test_sides_are_disjoint_balanced_and_of_the_right_size(seed, number, split):
    data = numbered_signs()
    part = draw_partition(data, SETTING, split, seed, number, "no-entry", 12)
    assert not np.intersect1d(part.X, part.X_test).size, "a point is on both sides"
    for label in SETTING.classes:
        assert np.sum(part.y == label) == SETTING.n_train
        assert np.sum(part.y_test == label) == SETTING.n_test
    np.testing.assert_array_equal(part.y, data.y[part.X[:, 0].astype(int)])
    np.testing.assert_array_equal(part.y_test, data.y[part.X_test[:, 0].astype(int)])
    assert set(data.y[part.universum[:, 0].astype(int)]) == {17}
    assert len(np.unique(part.universum)) == 12


@given(seed=seeds)
def test_split_by_tracks_keeps_every_sign_on_one_side(seed):
    data = numbered_signs()
    part = draw_partition(data, SETTING, "tracks", seed, 0, "road-work", 5)
    test_tracks = data.tracks[part.X_test[:, 0].astype(int)]
    assert not np.intersect1d(part.groups, test_tracks).size
    np.testing.assert_array_equal(part.groups, data.tracks[part.X[:, 0].astype(int)])


@given(seed=seeds, small=st.integers(1, 20), large=st.integers(20, 40))
def test_universa_are_nested_and_leave_training_and_test_points_alone(seed, small, large):
    data = numbered_signs()
    few = draw_partition(data, SETTING, "random", seed, 3, "no-entry", small)
    many = draw_partition(data, SETTING, "random", seed, 3, "no-entry", large)
    other = draw_partition(data, SETTING, "random", seed, 3, "road-work", small)
    np.testing.assert_array_equal(few.universum, many.universum[:small])
    for part in (many, other):
        np.testing.assert_array_equal(few.X, part.X)
        np.testing.assert_array_equal(few.X_test, part.X_test)


@settings(max_examples=20)
@given(seed=seeds)
def test_partitions_differ_from_each_other(seed):
    data = numbered_signs()
    first, second = (
        draw_partition(data, SETTING, "random", seed, number, "no-entry", 5) for number in (0, 1)
    )
    assert not np.array_equal(first.X, second.X)


def test_too_few_points_are_refused_with_the_class():
    data = numbered_signs()
    with pytest.raises(ValueError, match="class 1 has too few points for 6 to train on and 35"):
        draw_partition(data, replace(SETTING, n_test=35), "random", 0, 0, "no-entry", 5)
    with pytest.raises(ValueError, match="universum no-entry has 40 points, fewer than 41"):
        draw_partition(data, SETTING, "random", 0, 0, "no-entry", 41)


def test_split_by_tracks_needs_tracks():
    data = replace(numbered_signs(), tracks=None)
    with pytest.raises(ValueError, match="tracks"):
        draw_partition(data, SETTING, "tracks", 0, 0, "no-entry", 5)


@pytest.mark.parametrize("dataset", ["nist", "abcdetc", "gtsrb", "isolet"])
def test_missing_data_says_what_to_get(dataset, tmp_path):
    for path in (None, tmp_path):
        with pytest.raises(MissingDataError, match=r"is not there.*: get .* as --data"):
            load_data(SETTINGS[dataset], path)


def assert_every_table_has_enough_points(dataset, path):
    setting = SETTINGS[dataset]
    data = load_data(setting, path)
    for universum in setting.universa:
        m = max(setting.m, *setting.sizes)
        part = draw_partition(data, setting, "random", 0, 0, universum.name, m)
        assert len(part.X) == setting.n_train * len(setting.classes)
        assert len(part.universum) == m


def test_the_digits_are_enough_for_every_table():
    assert_every_table_has_enough_points("digits", None)


@pytest.mark.parametrize(
    ("dataset", "file"),
    [
        ("nist", "nist_digits_letters.npz"),
        ("gtsrb", "GTSRB_Final_Training_Images.subset.zip"),
    ],
)
def test_the_files_are_enough_for_every_table(dataset, file, data_folder):
    if not (data_folder / file).exists():
        pytest.skip(f"no {file}")
    assert_every_table_has_enough_points(dataset, data_folder / file)


def test_digest_tells_data_apart():
    data = numbered_signs()
    moved, renamed = replace(data, X=data.X + 1), replace(data, y=data.y + 1)
    assert len({data.digest, moved.digest, renamed.digest}) == 3
    assert numbered_signs().digest == data.digest


def test_isolet_is_read_from_its_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSVM_DATA_HOME", str(tmp_path / "home"))
    for name, letter in (("isolet1+2+3+4.data", 2), ("isolet5.data", 26)):
        (tmp_path / name).write_text("0.5, " * 617 + f"{letter}.\n")
    data = load_data(SETTINGS["isolet"], tmp_path)
    assert data.X.shape == (2, 617)
    assert data.y.tolist() == ["B", "Z"]


def test_abcdetc_is_read_from_its_file_with_the_letters_that_are_needed(tmp_path):
    file = tmp_path / "final.svl"
    labels = {"0": 53, "1": 54, "2": 55, "3": 56, "a": 1, "i": 9, "b": 2}
    file.write_text("".join(f"{label} 4950:1\n" for label in labels.values()))
    assert load_data(SETTINGS["abcdetc"], file).y.tolist() == ["0", "1", "2", "3", "a", "i"]


def test_signs_come_from_all_archives_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSVM_DATA_HOME", str(tmp_path / "home"))
    name = "GTSRB_Final_Training_Images.{}.zip"
    write_zip(tmp_path / name.format("a"), gtsrb_images(classes=(1, 4)))
    write_zip(tmp_path / name.format("b"), gtsrb_images(classes=(4, 17), seed=1))
    data = load_points("gtsrb", tmp_path, [1, 4, 17])
    assert data.X.shape == (18, 1568)
    assert sorted(data.y.tolist()) == [1] * 6 + [4] * 6 + [17] * 6
    assert len(set(data.tracks)) == 6
    with pytest.raises(ValueError, match=r"classes \[2\] are not in"):
        load_points("gtsrb", tmp_path, [1, 2])


@pytest.mark.parametrize("features", FEATURES)
def test_features_have_names(features, tmp_path, monkeypatch):
    pytest.importorskip("skimage", reason="scikit-image computes the simplified features")
    monkeypatch.setenv("MUSVM_DATA_HOME", str(tmp_path / "home"))
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1,)))
    data = load_points("gtsrb", archive, [1], features)
    assert data.X.shape == (6, 1568)
    usual = load_points("gtsrb", archive, [1])
    assert np.array_equal(data.X, usual.X) == (features == "hog")


def test_a_universum_may_take_the_same_number_of_every_sign():
    setting = replace(SETTING, universa=(Universum("both", (17, 25), even=True),))
    data = numbered_signs()
    part = draw_partition(data, setting, "random", 0, 0, "both", 12)
    signs, counts = np.unique(data.y[part.universum[:, 0].astype(int)], return_counts=True)
    assert (signs.tolist(), counts.tolist()) == ([17, 25], [6, 6])
    with pytest.raises(ValueError, match="universum both has 80 points, fewer than 100"):
        draw_partition(data, setting, "random", 0, 0, "both", 100)


def test_a_universum_without_labels_are_averages_of_one_point_of_each_class():
    setting = replace(SETTING, universa=(Universum("random-average"),))
    part = draw_partition(numbered_signs(), setting, "random", 0, 0, "random-average", 9)
    own = [part.X[part.y == label, 0] for label in (1, 4, 5)]
    possible = {(a + b + c) / 3 for a in own[0] for b in own[1] for c in own[2]}
    for value in part.universum[:, 0]:
        assert min(abs(value - p) for p in possible) < 1e-9
