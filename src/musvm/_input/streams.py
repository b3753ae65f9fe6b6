"""Points that stay where they are, read in pieces: a universum larger than memory.

    parts     X, then those of the universum: arrays, of which a memory map is one, or what gives
              the same pieces of rows, one after the other, as often as it is asked to
    rows      of all parts on top of each other, doubles once they are taken

One pass over everything finds what has to be known of every row: that its entries are finite, its
digest and its sum. From then on rows come in pieces of a few megabytes, in the order in which they
are stored, or as the few that somebody wants to keep.

Every row that is handed out later has the digest that it had in the first pass, or the pass ends
with an error. A certificate is about the rows that its solver saw, and a source that shuffles them,
or draws them anew, would make it a statement about rows that nobody has. Rows of arrays and memory
maps are compared like all others: somebody may write to their memory or their file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite

from musvm._input.digests import row_digests
from musvm._input.tensors import (
    FloatArray,
    IntArray,
    is_dataset,
    is_tensor,
    row_sums,
    take,
    to_host,
)

# Entries of a piece: 32 MB of doubles.
PIECE_ENTRIES = 2**22
# A universum whose entries would take more bytes than this, as doubles, is not copied.
MOST_COPIED = 2**28
# Numbers that a double holds exactly, or as well as they were meant.
KINDS = "fiub"
SAME_ROWS = (
    "it is read several times, so give the same arrays in the same order each time (a DataLoader "
    "with shuffle=False)."
)


class Part(Protocol):
    """Rows of one origin."""

    def pieces(self) -> Iterator[Any]:
        """All rows, in pieces: dense or CSR, numbers of any type."""


class Stored:
    """An array of two dimensions, in memory or mapped to it."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def pieces(self) -> Iterator[Any]:
        n, d = self._array.shape
        step = max(PIECE_ENTRIES // max(d, 1), 1)
        return (self._array[start : start + step] for start in range(0, n, step))


class Repeated:
    """What a function gives that starts anew with every call.

    Parameters
    ----------
    start : returns an iterator over arrays
    read : validates one of them
    """

    def __init__(self, start: Callable[[], Iterable[Any]], read: Callable[[Any], Any]) -> None:
        self._start, self._read = start, read

    def pieces(self) -> Iterator[Any]:
        found = self._start()
        if hasattr(found, "shape") or not hasattr(found, "__iter__"):
            raise ValueError(
                f"universum is a function that returned {type(found).__name__!r}: it must return "
                "an iterator over arrays of shape (any number, n_features)."
            )
        for piece in map(_points_of, found):
            if np.ndim(piece) != 2 or np.shape(piece)[0]:
                yield from Stored(self._read(piece)).pieces()


def _points_of(piece: Any) -> Any:
    """The array of a piece; a DataLoader of a TensorDataset gives lists of tensors."""
    if not (isinstance(piece, (list, tuple)) and any(map(is_tensor, piece))):
        return to_host(piece)
    if len(piece) > 1:
        raise ValueError(
            f"universum gave a piece of {len(piece)} tensors: a universum has no labels, so give "
            "its points alone (a DataLoader of the tensor of points)."
        )
    return to_host(piece[0])


@dataclass(frozen=True)
class StreamedRows:
    """Rows of several parts, (M, d), of which `rows[chosen]` makes an array of doubles.

    Attributes
    ----------
    parts : where they are
    n_stored : rows of all parts
    n_columns : d
    stored : (M,) which of these are the rows
    digests : (M, 2) as `row_digests` finds them
    sums : (M,) of the entries of every row
    sparse : whether rows are taken as CSR
    """

    parts: list[Part]
    n_stored: int
    n_columns: int
    stored: IntArray
    digests: IntArray
    sums: FloatArray
    sparse: bool

    @classmethod
    def read(cls, parts: list[Part], *, sparse: bool = False) -> StreamedRows:
        """All rows of the parts, after the pass that looks at each of them."""
        digests, sums, width = [], [], 0
        for part in parts:
            for piece in part.pieces():
                values = _as_doubles(piece, sparse)
                # X was found to be finite before.
                assert_all_finite(values, input_name="universum")
                width = values.shape[1]
                digests.append(row_digests(values))
                sums.append(row_sums(values))
        found = np.concatenate(digests), np.concatenate(sums)
        n = len(found[1])
        return cls(parts, n, width, np.arange(n), *found, sparse)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.stored), self.n_columns

    def at(self, rows: IntArray) -> StreamedRows:
        """Some of the rows, where they are."""
        digests, sums = self.digests[rows], self.sums[rows]
        return replace(self, stored=self.stored[rows], digests=digests, sums=sums)

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, rows: slice | IntArray) -> Any:
        """Some rows in memory, in this order."""
        chosen = np.arange(len(self))[rows]
        if self.sparse:
            return self._taken_sparse(chosen)
        found = np.empty((len(chosen), self.shape[1]))
        for place, values in self.pieces(chosen):
            found[place] = values
        return found

    def _taken_sparse(self, chosen: IntArray) -> Any:
        places, values = [np.empty(0, dtype=np.intp)], [sp.csr_array((0, self.shape[1]))]
        for place, piece in self.pieces(chosen):
            places.append(place)
            values.append(piece)
        return sp.vstack(values, format="csr")[np.argsort(np.concatenate(places))]

    def pieces(self, rows: IntArray | None = None) -> Iterator[tuple[IntArray, Any]]:
        """Some rows, or all, in the order of their storage: their places in `rows`, and doubles.

        Each is compared with what was read first: other rows, or fewer or more, are refused.
        """
        stored, digests = self.stored, self.digests
        if rows is not None:
            stored, digests = stored[rows], digests[rows]
        order = np.argsort(stored, kind="stable")
        ascending, start = stored[order], 0
        for part in self.parts:
            for piece in part.pieces():
                stop = start + piece.shape[0]
                first, last = np.searchsorted(ascending, [start, stop])
                if first < last:
                    place = order[first:last]
                    values = _as_doubles(piece[ascending[first:last] - start], self.sparse)
                    _require_same_rows(values, digests[place])
                    yield place, values
                start = stop
        if start != self.n_stored:
            raise ValueError(
                f"universum gave {self.n_stored} rows with those of X when it was first read and "
                f"{start} now: {SAME_ROWS}"
            )


def _require_same_rows(values: Any, digests: IntArray) -> None:
    """Refuse rows, as doubles, that are not those of these digests, in this order."""
    if not np.array_equal(row_digests(values), digests):
        raise ValueError(f"universum gave other rows than when it was first read: {SAME_ROWS}")


def _as_doubles(piece: Any, sparse: bool) -> Any:
    if sparse:
        values = sp.csr_array(piece, dtype=np.float64, copy=True)
        values.sum_duplicates()
        values.eliminate_zeros()
        return values
    dense = piece.toarray() if sp.issparse(piece) else piece
    return np.ascontiguousarray(dense, dtype=np.float64)


def pieces_of(points: Any, chosen: IntArray) -> Iterator[tuple[IntArray, Any]]:
    """Some rows of points, streamed or in memory: their places in `chosen`, and the rows."""
    if isinstance(points, StreamedRows):
        yield from points.pieces(chosen)
        return
    step = max(PIECE_ENTRIES // max(points.shape[1], 1), 1)
    for start in range(0, len(chosen), step):
        part = chosen[start : start + step]
        yield np.arange(start, start + len(part)), take(points, part)


def row_values(points: Any, function: Callable[[Any], FloatArray]) -> FloatArray:
    """A number for every row, of a function that finds them for rows in memory."""
    if not isinstance(points, StreamedRows):
        return function(points)
    found = np.empty(len(points))
    for place, values in points.pieces():
        found[place] = function(values)
    return found


# ---------------------------------------------------------------------------------------------
# What is read in pieces


def starts_anew(universum: Any) -> Callable[[], Iterable[Any]] | None:
    """How to read a universum that is given in pieces; None where it is arrays.

    A function of no arguments gives its pieces anew each time, and so does an object that can be
    iterated over. An iterator is used up by the first pass.
    """
    if is_dataset(universum) and hasattr(universum, "__getitem__"):
        raise ValueError(
            f"universum is a {type(universum).__name__}: pass its tensor of points, such as "
            "dataset.tensors[0], or a DataLoader of it with shuffle=False."
        )
    if hasattr(universum, "__next__"):
        raise ValueError(
            "universum is an iterator, which can be read only once: pass a function that returns "
            "a new one each time, or a list of arrays."
        )
    # The keys of a dictionary are no pieces.
    is_array = isinstance(universum, (tuple, list, str, dict)) or any(
        hasattr(universum, name) for name in ("shape", "__array__", "__dataframe__")
    )
    if universum is None or is_array:
        return None
    if callable(universum):
        return universum
    return universum.__iter__ if hasattr(universum, "__iter__") else None


def stays_where_it_is(X: Any, parts: list[Any]) -> bool:
    """Whether arrays are too large to copy: dense ones, whether mapped to memory or in it."""
    dense = all(isinstance(part, np.ndarray) and part.dtype.kind in KINDS for part in [X, *parts])
    return dense and 8 * sum(part.size for part in parts) > MOST_COPIED
