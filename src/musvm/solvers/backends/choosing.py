"""Which rows make up the next working set.

Half of them come from the last one: the worst of it, after those that are to stay whatever their
violation. The rest are the worst of all others. Written against the array API, so that one piece of
code chooses on the host and on a device; there all sets are of one size, so that nothing has to
wait for it, while the host leaves out what violates nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from musvm._input.tensors import Array, namespace

KEPT = 0.5
# By how much ties are broken where all rows violate alike: a sample knows more than the first rows.
TIES = 1e-3


def first_set(violations: Array, size: int, ties: Array) -> Array:
    """The rows of the first working set, ascending; `ties` are (M,) in [0, 1)."""
    key = violations * (1.0 + TIES * ties)
    return namespace(key).sort(_largest(key, size))


def next_set(violations: Array, last: Array, stays: Array, size: int) -> tuple[Array, Array]:
    """The rows of the next working set, ascending, and which of them are new.

    Parameters
    ----------
    violations : (M,)
    last : (w,) the rows of the last one
    stays : (w,) which of these stay before any others
    size : rows of a set, at most M
    """
    xp, n_kept = namespace(violations), min(int(KEPT * size), len(last))
    order = xp.argsort(violations[last], descending=True, stable=True)
    order = order[xp.argsort(xp.astype(stays[order], xp.int8), descending=True, stable=True)]
    kept = last[order[:n_kept]]
    key = xp.asarray(violations, copy=True)
    # Not a number of the host's, which a device would wait for.
    key[kept] = xp.full_like(key[kept], -1.0)
    chosen = xp.concat([kept, _largest(key, size - n_kept)])
    order = xp.argsort(chosen)
    return chosen[order], order >= n_kept


def _largest(key: Array, k: int) -> Any:
    """The places of the k largest entries; on the host, of those that are positive."""
    if type(key) is not np.ndarray:
        # Floats tell the largest apart, in half the time.
        return key.float().topk(k, sorted=False).indices
    places = np.argpartition(-key, k - 1)[:k] if k else np.empty(0, dtype=np.intp)
    return places[key[places] > 0.0]


class LastSet(NamedTuple):
    """A working set: its rows, which of them were new, and whether its number is odd."""

    points: Array
    is_new: Array
    is_odd: Array

    @classmethod
    def first(cls, points: Array) -> LastSet:
        xp = namespace(points)
        is_new = xp.ones_like(points, dtype=xp.bool)
        return cls(points, is_new, xp.any(is_new))

    def next(self, violations: Array, size: int) -> tuple[Array, Array]:
        """The next rows, ascending, and which of them are new: new ones stay every other round."""
        return next_set(violations, self.points, self.is_new & self.is_odd, size)
