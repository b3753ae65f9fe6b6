"""From rows to blocks of the dual: which rows are one, and in what order blocks come."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from musvm._input.blocks import _distinct, merge
from musvm._input.reading import UNIVERSUM, FitData

KEYS = st.tuples(st.integers(1, 3), st.integers(0, 30)).flatmap(
    lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(-2, 2))
)


@given(KEYS)
def test_distinct_tuples_are_those_of_numpy(keys):
    first, place = _distinct(*keys)
    _, expected, inverse = np.unique(keys.T, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(place, inverse.ravel())


def data_of(X, codes) -> FitData:
    return FitData(X, codes, np.arange(3), np.ones(len(codes)), len(codes), 2e-16)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@given(
    codes=hnp.arrays(np.intp, 12, elements=st.integers(UNIVERSUM, 2)),
    X=hnp.arrays(np.float64, (12, 2), elements=st.sampled_from([-1.0, -0.0, 0.0, 2.0])),
    caps=hnp.arrays(np.float64, 12, elements=st.sampled_from([0.0, 0.5, 3.0])),
)
def test_blocks_are_the_distinct_rows_by_class_and_sum(form, codes, X, caps):
    assume(caps.any())
    blocks = merge(data_of(form(X), codes), caps, equal_rows=True)
    group = np.where(codes == UNIVERSUM, 3, codes)
    rows = [(int(group[k]), *(X[k] + 0.0)) for k in range(12)]
    found = [rows[k] for k in blocks.rows]
    groups = {rows[k] for k in np.flatnonzero(caps)}
    assert len(found) == len(groups)
    assert set(found) == groups
    order = [(group, sum(row)) for group, *row in found]
    assert order == sorted(order)
    assert blocks.caps.sum() == caps.sum()
    for row in np.flatnonzero(caps):
        k = blocks.rows[blocks.block_of_row[row]]
        assert codes[k] == codes[row]
        assert np.array_equal(X[k], X[row])
        assert blocks.share[row] * blocks.caps[blocks.block_of_row[row]] == pytest.approx(caps[row])
