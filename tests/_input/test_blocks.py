"""Equal rows are found whatever words they share."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from musvm._input.blocks import _distinct


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.sampled_from([2, 2**40]))
def test_distinct_tuples_are_those_of_numpy(seed, n, n_words):
    """With many words the first one tells all rows apart, with few it does not."""
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, top, size=n) for top in (3, n_words, n_words)]
    first, block = _distinct(*keys)
    table = np.stack(keys, axis=1)
    expected, inverse = np.unique(table, axis=0, return_inverse=True)
    np.testing.assert_array_equal(table[first], expected)
    np.testing.assert_array_equal(block, inverse.ravel())
