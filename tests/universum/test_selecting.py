"""Candidates between the classes: by hand in the plane, and by definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from musvm import UniversumSVC
from musvm.universum import select_in_between

# Three classes around (0, 0), (6, 0) and (3, 6).
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 6.0]])
Y = np.repeat(["left", "right", "top"], 5)
X = np.repeat(CENTRES, 5, axis=0) + np.tile(
    [[0, 0], [0.5, 0], [-0.5, 0], [0, 0.5], [0, -0.5]], (3, 1)
)
MIDDLE = [3.0, 2.25]  # as far from each of the three
CANDIDATES = np.array(
    [
        [0.0, 0.0],  # in a class
        MIDDLE,
        [3.0, 30.0],  # far above, level between left and right
        [-9.0, 0.0],  # beyond a class
        [3.0, 0.0],  # between two of them
        [60.0, -60.0],
    ]
)


def test_the_middle_first_then_between_two_and_no_outlier():
    U, indices = select_in_between(X, Y, CANDIDATES, 3, return_indices=True)
    assert indices.tolist() == [1, 4, 0]
    np.testing.assert_array_equal(U, CANDIDATES[indices])


def test_a_classifier_selects_what_it_is_least_sure_of():
    svm = UniversumSVC(kernel="linear")
    U, indices = select_in_between(X, Y, CANDIDATES, 2, estimator=svm, return_indices=True)
    scores = svm.fit(X, Y).universum_score(CANDIDATES)
    assert indices.tolist() == np.argsort(scores)[:2].tolist()
    np.testing.assert_array_equal(U, CANDIDATES[indices])


def test_the_classifier_is_cloned():
    svm = UniversumSVC()
    select_in_between(X, Y, CANDIDATES, 1, estimator=svm)
    assert not hasattr(svm, "classes_")


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_no_candidate_left_out_is_closer_to_its_farthest_mean(seed, m):
    rng = np.random.default_rng(seed)
    points, labels = rng.normal(size=(12, 3)), np.arange(12) % 4
    candidates = 2 * rng.normal(size=(20, 3))
    _, chosen = select_in_between(points, labels, candidates, m, return_indices=True)
    means = [points[labels == k].mean(axis=0) for k in range(4)]
    farthest = np.max([np.linalg.norm(candidates - mean, axis=1) for mean in means], axis=0)
    assert len(set(chosen)) == m
    rest = np.setdiff1d(np.arange(20), chosen)
    assert farthest[chosen].max() <= farthest[rest].min(initial=np.inf) + 1e-9
    assert (np.diff(farthest[chosen]) >= -1e-9).all()


@pytest.mark.parametrize("estimator", [None, UniversumSVC(kernel="linear")])
def test_sparse_in_sparse_out(estimator):
    U = select_in_between(sp.csr_array(X), Y, sp.csr_array(CANDIDATES), 3, estimator=estimator)
    assert sp.issparse(U)
    dense = select_in_between(X, Y, CANDIDATES, 3, estimator=estimator)
    np.testing.assert_array_equal(U.toarray(), dense)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y, CANDIDATES, 7), "m=7 candidates cannot be selected among 6"),
        ((X, Y, CANDIDATES[:, :1], 2), "candidates has 1 features, but X has 2"),
        ((X, ["a"] * 15, CANDIDATES, 2), "fewer than two classes"),
        ((X, Y, CANDIDATES, 0), "m"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        select_in_between(*arguments)
