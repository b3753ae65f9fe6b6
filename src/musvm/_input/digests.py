"""Digests of rows: 128 bits that tell whether two rows are equal, whatever holds them.

With b_k the 64 bits of the entry x_k, a double, the two words of a digest are

    h_r  =  sum over k with x_k != 0 of  mix(b_k XOR (k + 1) g_r)   mod 2^64,       r = 0, 1

where g_r is a fixed odd number, so that every column has words of its own. Entries that are zero,
-0.0 included, count for nothing: a row has the same digest dense, sparse and on a device. Sums of
integers are exact, hence the same in any order and on any number of threads.

mix is the bijection with which SplitMix64 makes independent words of such multiples: shifts bring
high bits down, products bring low bits up. It is written here for arrays and tensors, and in
`_hashing.pyx` for rows of doubles on the host. Nobody is kept from making two rows of one digest
on purpose; among rows that were not, two agree with a probability of 2^-128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._input import tensors
from musvm._input._hashing import hash_compressed, hash_dense
from musvm._threads import workers

# All numbers here as signed ones, since PyTorch computes with no others.
GENERATORS = (0x9E3779B97F4A7C15 - 2**64, 0xD1342543DE82EF95 - 2**64)
# Products, each after a shift; one more shift ends it.
MIXERS = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
LAST_SHIFT = 31
# Entries per piece.
PIECE_ENTRIES = 2**18


def row_digests(X: Any) -> Any:
    """(M, 2) integers, equal for equal rows, of doubles: dense, CSR or a tensor of PyTorch."""
    if tensors.is_tensor(X):
        from musvm._input import on_device

        return on_device.row_digests(X)
    digests = np.empty((X.shape[0], 2), dtype=np.int64)
    with workers() as team:
        team.each(X.shape[0], _hashing(X, digests), max(PIECE_ENTRIES // _width(X), 1))
    return digests


def _width(X: Any) -> int:
    """Entries of a row, in the mean."""
    n_entries = X.nnz if sp.issparse(X) else X.size
    return max(n_entries // max(X.shape[0], 1), 1)


def _hashing(X: Any, digests: Any) -> Callable[[slice], None]:
    """What writes the digests of a piece of the rows."""
    if sp.issparse(X):
        entries = X.data.view(np.int64), X.indices, X.indptr.astype(np.int64)
        return lambda piece: hash_compressed(*entries, piece.start, piece.stop, digests)
    bits = np.ascontiguousarray(X).view(np.int64)
    return lambda piece: hash_dense(bits, piece.start, piece.stop, digests)


def mix(words: Any) -> Any:
    """The bijection, of an array or a tensor of 64-bit integers."""
    for shift, factor in MIXERS:
        words = _shifted(words, shift) * factor
    return _shifted(words, LAST_SHIFT)


def _shifted(words: Any, shift: int) -> Any:
    # A shift of signed numbers repeats the sign: the mask takes it off.
    return words ^ ((words >> shift) & (2 ** (64 - shift) - 1))
