"""Equal rows merged: the blocks of the dual problem.

Merging is exact. Rows with the same x and the same label enter the primal through the sum of
their caps; and any alpha of the merged row, shared out in proportion to the caps, is feasible
and has the same objective. So a row of weight 2 and the same row twice are literally the same
problem. Blocks are sorted by their contents, the sum of a row's entries first, which makes the
solution independent of the order of the rows, to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from musvm._input.reading import UNIVERSUM, FitData
from musvm._input.tensors import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Blocks:
    """The rows of the dual problem: distinct rows of positive cap, training rows first.

    Attributes
    ----------
    rows : (B,) for every block one row of `FitData` that it stands for
    y : (B',) codes of the B' training blocks
    caps : (B,) the caps of the block's rows, added up
    block_of_row : (M,) the block of every row; meaningless where the share is 0
    share : (M,) the row's part of the cap of its block
    """

    rows: IntArray
    y: IntArray
    caps: FloatArray
    block_of_row: IntArray
    share: FloatArray

    def shared_out(self, alpha: FloatArray) -> FloatArray:
        """The (M, L) dual variables of all rows, from those of the blocks."""
        return alpha[self.block_of_row] * self.share[:, None]

    @property
    def is_training(self) -> BoolArray:
        """(B,) whether a block stands for training rows."""
        return np.arange(len(self.rows)) < len(self.y)

    def total(self, values: FloatArray) -> FloatArray:
        """(B,) sums over the rows of every block."""
        return np.bincount(self.block_of_row, np.where(self.share > 0, values, 0.0)).astype(float)


def merge(data: FitData, caps: FloatArray, *, equal_rows: bool) -> Blocks:
    """The blocks of the dual problem; with `equal_rows` False every row is a block of its own.

    Rows of zero cap take part in nothing. Rows of a precomputed kernel stay apart: two of them
    hold the same point only if their columns agree too.
    """
    kept = np.flatnonzero(caps > 0)
    group = np.where(data.is_training, data.codes, len(data.classes))[kept]
    identity = data.digests[kept].T if equal_rows else [kept]
    first, block = _distinct(group, *identity)
    # By contents, so that rounding errors in the data change the order of a few blocks at most.
    with np.errstate(over="ignore", invalid="ignore"):
        contents = data.row_sums[kept[first]] if equal_rows else first
    order = _by_group(np.argsort(contents, kind="stable"), group[first])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    block_of_row = np.zeros(len(caps), dtype=np.intp)
    block_of_row[kept] = place[block]
    total: FloatArray = np.bincount(block_of_row, caps).astype(np.float64)
    rows = kept[first[order]]
    codes = data.codes[rows]
    return Blocks(
        rows=rows,
        y=np.ascontiguousarray(codes[codes != UNIVERSUM]),
        caps=total,
        block_of_row=block_of_row,
        share=np.where(caps > 0, caps / total[block_of_row], 0.0),
    )


def _distinct(*keys: Any) -> tuple[IntArray, IntArray]:
    """The first place of every distinct tuple of keys, in their order; the tuple of every place.

    That is `np.unique` of the keys as rows, which sorts them one comparison at a time.
    """
    order = _order(keys)
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    tuple_of_place = np.empty(len(order), dtype=np.intp)
    tuple_of_place[order] = np.cumsum(is_new) - 1
    return order[is_new], tuple_of_place


def _order(keys: Any) -> IntArray:
    """`np.lexsort` of the keys, the first of them the most important, which is a small integer.

    Digests hardly ever agree in their first word, and one sort of different numbers is enough.
    """
    group, *words = keys
    order = np.argsort(words[0]) if words else np.arange(len(group))
    if words and np.any(words[0][order[1:]] == words[0][order[:-1]]):
        return np.lexsort(keys[::-1])
    return _by_group(order, group)


def _by_group(order: IntArray, group: IntArray) -> IntArray:
    """Places in this order, but one group after the other."""
    # Stable, and in one pass for short integers.
    in_short = group.astype(np.int16) if len(group) and group.max() < 2**15 else group
    found: IntArray = order[np.argsort(in_short[order], kind="stable")]
    return found
