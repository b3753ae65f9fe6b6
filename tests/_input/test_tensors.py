"""The array API by shorter ways: the same values, and no reduction without an axis."""

from __future__ import annotations

import numpy as np
import pytest

from musvm._input.tensors import MANY_ROWS, SHORT, look, namespace, take

A = np.array([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])


@pytest.mark.parametrize("name", ["max", "min", "sum"])
def test_a_reduction_refuses_a_missing_axis(name):
    """Left to itself, the reduction of a ufunc would take axis 0 and say nothing."""
    with pytest.raises(TypeError, match="axis"):
        getattr(namespace(A), name)(A)


@pytest.mark.parametrize("name", ["max", "min", "sum"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_reduction_is_that_of_numpy(name, axis, keepdims):
    found = getattr(namespace(A), name)(A, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(found, getattr(np, name)(A, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("n_columns", [1, 3, SHORT, SHORT + 1])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, lambda A: np.hstack([A, A])[::2]])
def test_many_short_rows_are_reduced_as_few_are(name, n_columns, form):
    """Column by column; NaN wins, as it does with NumPy."""
    many = np.random.default_rng(0).normal(size=(MANY_ROWS, n_columns))
    many[7, 0] = np.nan
    many = form(many)
    for keepdims in (False, True):
        found = getattr(namespace(many), name)(many, axis=1, keepdims=keepdims)
        expected = getattr(np, name)(many, axis=1, keepdims=keepdims)
        np.testing.assert_array_equal(found, expected)
        assert not np.shares_memory(found, many)


def test_a_product_of_vectors_is_over_the_last_axis():
    assert namespace(A).vecdot(A, A).tolist() == [35.0, 56.0]


@pytest.mark.parametrize(
    ("rows", "shares"),
    [([2, 3, 4], True), ([2, 4], False), ([4, 3], False), ([1, 1], False), ([], False)],
)
def test_a_look_at_rows_copies_them_only_where_they_are_not_in_order(rows, shares):
    array, rows = np.arange(12.0).reshape(6, 2), np.array(rows, dtype=np.intp)
    found = look(array, rows)
    np.testing.assert_array_equal(found, take(array, rows))
    assert np.shares_memory(found, array) == shares
