"""Universum points made from training points: what they are averages of, what noise keeps."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from musvm.universum import random_average, random_noise

X = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 30.0], [50.0, 0.0], [0.0, 700.0]])
Y = np.array(["a", "a", "b", "b", "c"])
SPARSE = [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.coo_array]


def row_set(points) -> set[tuple[float, ...]]:
    return {tuple(np.round(row, 12)) for row in points}


def all_averages(groups) -> set[tuple[float, ...]]:
    """Every average of one training point per class, for each group of classes."""
    members = {label: X[label == Y] for label in "abc"}
    return row_set(
        np.mean(points, axis=0)
        for group in groups
        for points in product(*(members[label] for label in group))
    )


def test_averages_of_all_classes_are_exactly_the_possible_ones():
    U = random_average(X, Y, 300, random_state=0)
    assert U.shape == (300, 2)
    assert row_set(U) == all_averages(["abc"])


def test_averages_of_two_classes_are_exactly_the_possible_ones():
    U = random_average(X, Y, 1000, per_class=False, random_state=0)
    assert row_set(U) == all_averages(combinations("abc", 2))


def test_pairs_of_classes_are_equally_likely():
    points, labels = np.eye(3), [0, 1, 2]
    U = random_average(points, labels, 6000, per_class=False, random_state=0)
    shares = (U == 0).mean(axis=0)  # a feature is zero where its class was left out
    # Three standard deviations of a share of 1/3 among 6000.
    np.testing.assert_allclose(shares, 1 / 3, atol=3 * np.sqrt(2 / 9 / 6000))


@pytest.mark.parametrize("container", SPARSE)
@pytest.mark.parametrize("per_class", [True, False])
def test_sparse_averages_equal_dense_ones(container, per_class):
    options = {"m": 50, "per_class": per_class, "random_state": 3}
    U = random_average(container(X), Y, **options)
    assert sp.issparse(U)
    assert U.format == "csr"
    np.testing.assert_array_equal(U.toarray(), random_average(X, Y, **options))


@pytest.mark.parametrize("make", [lambda X, **o: random_average(X, Y, **o), random_noise])
def test_same_seed_same_points_and_float32_stays(make):
    first, second = (make(X, m=20, random_state=1) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (make(X, m=20, random_state=2) != first).any()
    assert make(X.astype(np.float32), m=5).dtype == np.float32
    assert make(X.astype(int), m=5).dtype == np.float64


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
def test_averages_lie_within_the_range_of_the_data(seed, m, per_class):
    rng = np.random.default_rng(seed)
    points, labels = rng.normal(size=(9, 4)), np.r_[0, 1, rng.integers(0, 4, 7)]
    U = random_average(points, labels, m, per_class=per_class, random_state=seed)
    assert U.shape == (m, 4)
    slack = 1e-12
    assert (points.min(axis=0) - slack <= U).all()
    assert (points.max(axis=0) + slack >= U).all()


def test_shuffled_noise_takes_each_feature_from_its_own_values():
    U = random_noise(X, 400, random_state=0)
    for j in range(2):
        assert set(U[:, j]) == set(X[:, j])
        values, counts = np.unique(U[:, j], return_counts=True)
        expected = np.array([np.mean(X[:, j] == value) for value in values])
        np.testing.assert_allclose(counts / 400, expected, atol=3 * np.sqrt(0.25 / 400))


def test_shuffled_features_are_independent():
    points = np.repeat([[1.0, 1.0], [-1.0, -1.0]], 10, axis=0)
    U = random_noise(points, 2000, random_state=0)
    assert abs(np.corrcoef(U.T)[0, 1]) < 3 / np.sqrt(2000)


def test_uniform_noise_fills_the_range_of_each_feature():
    U = random_noise(X, 4000, kind="uniform", random_state=0)
    np.testing.assert_allclose(U.min(axis=0), X.min(axis=0), atol=0.01 * X.max())
    np.testing.assert_allclose(U.max(axis=0), X.max(axis=0), rtol=0.01)
    np.testing.assert_allclose(U.mean(axis=0), X.max(axis=0) / 2, rtol=0.05)


@pytest.mark.parametrize("kind", ["shuffled", "uniform"])
@pytest.mark.parametrize("container", SPARSE)
def test_sparse_noise_equals_dense_noise_and_leaves_its_input_alone(container, kind):
    S = container(X)
    before = S.toarray()
    U = random_noise(S, 30, kind=kind, random_state=5)
    assert sp.issparse(U)
    np.testing.assert_array_equal(U.toarray(), random_noise(X, 30, kind=kind, random_state=5))
    np.testing.assert_array_equal(S.toarray(), before)


def test_shuffled_noise_stays_as_sparse_as_the_data_and_ignores_stored_zeros():
    S = sp.random_array((200, 1000), density=0.01, format="csc", random_state=0)
    S.data[::2] = 0.0
    U = random_noise(S, 400, random_state=0)
    wanted = 400 * 1000 * 0.005
    assert abs(U.nnz - wanted) < 5 * np.sqrt(wanted)
    assert S.nnz == 2000, "the stored zeros of the caller's matrix were removed"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_average(X, Y, 0), "m"),
        (lambda: random_average(X, Y, 2.5), "m"),
        (lambda: random_average(X, ["a"] * 5, 3), "at least two classes"),
        (lambda: random_average(X, Y[:3], 3), "inconsistent"),
        (lambda: random_noise(X, 3, kind="pink"), "kind"),
        (lambda: random_noise([[np.nan]], 3), "NaN"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
