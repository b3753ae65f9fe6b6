"""Which kernel rows are in a cache, and which of them make room: those not used for longest.

Written against the array API, so that one piece of code keeps the books on the host and on a
device. The rows themselves are the owner's: `reserve` tells it which to compute and where to put
them, and a row that could not be computed is not taken for one that is there.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import device

from musvm._input.tensors import Array, namespace


class Slots:
    """Places for rows of `n_points` points, fewer than these.

    Parameters
    ----------
    n_points : M
    n_slots : rows that there is room for
    like : an array; the books are kept by its library, on its device
    """

    def __init__(self, n_points: int, n_slots: int, like: Array) -> None:
        xp = namespace(like)
        options: dict[str, Any] = {"dtype": xp.int64, "device": device(like)}
        self._of_point = xp.full((n_points,), -1, **options)
        self._point = xp.full((n_slots,), -1, **options)
        self._last_use = xp.zeros((n_slots,), **options)
        self._clock = 0

    def reserve(self, points: Array) -> tuple[Array, Array]:
        """Make room for the rows of distinct points, no more than there are slots.

        Returns the points whose rows are missing, and the ascending slots that they go to, taken
        from rows that were not asked for now. They are there once `fill` says so.
        """
        xp = namespace(points)
        self._clock += 1
        slots = self._of_point[points]
        self._last_use[slots[slots >= 0]] = self._clock
        missing = points[slots < 0]
        if not len(missing):
            return missing, missing
        slots = xp.sort(xp.argsort(self._last_use, stable=True)[: len(missing)])
        displaced = self._point[slots]
        self._of_point[displaced[displaced >= 0]] = -1
        self._point[slots] = -1
        return missing, slots

    def fill(self, points: Array, slots: Array) -> None:
        """The rows of these points are in these slots now."""
        self._of_point[points] = slots
        self._point[slots] = points
        self._last_use[slots] = self._clock

    def of(self, points: Array) -> Array:
        """The slots of rows that are there."""
        return self._of_point[points]
