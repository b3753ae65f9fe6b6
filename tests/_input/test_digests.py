"""Digests of rows: one value for equal rows, dense, sparse or on a device, and for no others."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from musvm import UniversumSVC, loo_error
from musvm._input import digests
from musvm._input.digests import row_digests
from musvm._threads import Workers

WORD = 2**64 - 1

entries = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1.7976931348623157e308]),
    st.floats(allow_nan=False, allow_infinity=False),
)
matrices = hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=entries)


def digest_by_definition(row) -> tuple[int, int]:
    """The definition in integers of Python, as signed words."""

    def mixed(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
        return z ^ (z >> 31)

    words = []
    for generator in (0x9E3779B97F4A7C15, 0xD1342543DE82EF95):
        total = 0
        for k, x in enumerate(row):
            (bits,) = struct.unpack("<Q", struct.pack("<d", x))
            total += mixed(bits ^ ((k + 1) * generator & WORD)) if x != 0 else 0
        words.append((total + 2**63) % 2**64 - 2**63)
    return words[0], words[1]


def distinct(rows) -> int:
    return len({tuple(pair) for pair in row_digests(rows).tolist()})


@given(matrices)
def test_digests_are_as_defined_for_dense_and_sparse_rows(X):
    expected = [digest_by_definition(row) for row in X.tolist()]
    np.testing.assert_array_equal(row_digests(X), expected)
    S = sp.csr_array(X)
    np.testing.assert_array_equal(row_digests(S), expected, err_msg="CSR")
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    np.testing.assert_array_equal(row_digests(S), expected, err_msg="64-bit indices")


@given(matrices)
def test_digests_of_tensors_are_those_of_arrays(X):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    np.testing.assert_array_equal(row_digests(torch.as_tensor(X)), row_digests(X))


def test_pieces_of_a_tensor_are_put_together(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from musvm._input import on_device

    X = np.random.default_rng(0).normal(size=(50, 7))
    monkeypatch.setattr(on_device, "CHUNK", 4 * 7)
    np.testing.assert_array_equal(row_digests(torch.as_tensor(X)), row_digests(X))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_digests_do_not_depend_on_threads_and_pieces(form):
    X = np.random.default_rng(0).normal(size=(100, 6)) * [1, 0, 1, 1, 0, 1]
    expected = row_digests(form(X))
    hash_piece = digests._hashing(form(X), found := np.empty_like(expected))
    team = Workers(3)
    team.each(100, hash_piece, 7)
    team.close()
    np.testing.assert_array_equal(found, expected)


def test_read_only_and_strided_rows_are_hashed():
    X = np.random.default_rng(0).normal(size=(20, 8))
    expected = row_digests(X[:, ::2].copy())
    X.flags.writeable = False
    np.testing.assert_array_equal(row_digests(X[:, ::2]), expected)
    np.testing.assert_array_equal(row_digests(np.asfortranarray(X)), row_digests(X))


@given(matrices, st.randoms(use_true_random=False))
def test_stored_zeros_of_either_sign_count_for_nothing(X, random):
    S = sp.csr_array(X)
    full = sp.csr_array(np.ones_like(X))
    full.data = np.where(X == 0, random.choice([0.0, -0.0]), X).ravel()
    assert full.nnz == X.size
    np.testing.assert_array_equal(row_digests(full), row_digests(S))


@given(st.lists(entries, min_size=2, max_size=8), st.data())
def test_any_change_of_a_row_shows(row, data):
    k, m = data.draw(st.permutations(range(len(row))))[:2]
    row = np.array([*row, 0.0])
    swapped, negated, moved = row.copy(), row.copy(), row.copy()
    swapped[[k, m]] = row[[m, k]]
    negated[k] *= -1.0
    moved.view(np.int64)[k] ^= 1 << data.draw(st.integers(0, 51))
    for other in (swapped, negated, moved, np.roll(row, 1)):
        found = (row_digests(other[None]) == row_digests(row[None])).all()
        assert found == np.array_equal(other, row), other


def test_no_two_of_many_simple_rows_share_a_digest():
    """Alike in all but a bit or two, where a weak hash repeats itself."""
    one_entry = sp.csr_array(
        (np.tile([1.0, -1.0, 2.0, 0.5, 255.0], 20000), np.arange(100000) // 5, np.arange(100001)),
        shape=(100000, 20000),
    )
    assert distinct(one_entry) == 100000
    digits = np.indices((6,) * 6).reshape(6, -1).T - 2.0
    assert distinct(digits) == 6**6
    signs = 1.0 - 2.0 * (np.arange(2**16)[:, None] >> np.arange(16) & 1)
    assert distinct(signs) == 2**16


def test_words_of_simple_rows_look_like_fair_coins():
    """Two words of 64 bits are worth 128 only if both are good and they differ."""
    n = 2**16
    small_integers = np.arange(1.0, n + 1)[:, None]
    for rows in (sp.eye_array(n, format="csr"), small_integers):
        first, second = row_digests(rows).T.copy()
        for word in (first, second, first ^ second):
            coins = np.unpackbits(word.view(np.uint8).reshape(n, 8), axis=1)
            # Five standard deviations of a mean of 65,536 fair coins.
            np.testing.assert_allclose(coins.mean(axis=0), 0.5, atol=0.01)


# ---------------------------------------------------------------------------------------------
# One fit, whatever holds its rows


def points():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.7)
    return X, np.arange(60) % 3, rng.normal(size=(10, 5))


@pytest.mark.parametrize("there", ["sparse", "tensor"])
def test_leave_one_out_takes_the_data_of_the_fit_in_any_form(there):
    X, y, U = points()
    if there == "sparse":
        others = sp.csr_array(X), y, sp.csr_array(U)
    else:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        others = tuple(map(torch.as_tensor, (X, y, U)))
    settings = {"solver": "working-set", "tol": 1e-8}
    here = UniversumSVC(**settings).fit(X, y, universum=U)
    model = UniversumSVC(**settings).fit(others[0], others[1], universum=others[2])
    assert model.model_.fingerprint == here.model_.fingerprint
    expected = loo_error(here, X, y, universum=U).error
    assert loo_error(model, X, y, universum=U).error == expected
    assert loo_error(here, others[0], others[1], universum=others[2]).error == expected
