"""How rows answer a change of their decision values, those included in which two sums are tied.

By B of `cones.py`, a change d of alpha that sums to zero in every row follows from values v by

    d / theta + a sigma + lambda = v,    a'd = h sigma,

with a = 0 for all rows but those of the "max" loss. Since a has no mean, weighted by theta,

    d = theta (v - mean of v - a sigma),    sigma = sum theta a v / (h + sum theta a^2).

So sigma is known from v, and from d. Where h is next to nothing, as in rows at their cap, a'd / h
is rounding; where h is large it is better than h sigma, to which K would answer.
"""

from __future__ import annotations

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.dual.label_blocks import Ties
from musvm.solvers.cones import DoubleStar, Star

# A tie counts if it makes its row stiffer by this share: of less, conjugate gradients make up.
STIFFER = 0.01
# What a tie gives at least where equations are factored, next to the stiffness of its row.
LEAST_GIVE = 1e-10


class Rows:
    """Rows of which none is tied.

    Attributes
    ----------
    star : B of theta alone
    are_tied : (R,) whether rows are tied so much that it counts
    has_stiff_ties : whether sigma of some must be known from v
    """

    def __init__(self, star: Star) -> None:
        self.star = star
        self.are_tied: BoolArray = np.zeros(len(star.total), dtype=bool)
        self.has_stiff_ties = False

    def slopes(self, values: FloatArray) -> FloatArray:
        """d / theta for these values."""
        slopes: FloatArray = self.star.slopes(values)
        return slopes

    def pulled(self, tension: FloatArray) -> FloatArray | float:
        """a sigma."""
        return 0.0

    def closed(self, change: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A change that is nearly d, made to keep the sums, and its sigma."""
        return self.star.closed(change), np.zeros(len(self.star.total))

    def projected(self, change: FloatArray) -> FloatArray:
        """The change less what the sums must not change by, each label's part by its theta."""
        projected: FloatArray = self.star.projected(change)
        return projected

    def ties(self, at: tuple[IntArray, IntArray], sizes: IntArray) -> Ties:
        """Those of variables at these labels and rows, by rows of these sizes."""
        return Ties(np.zeros(len(at[0])), np.full(len(sizes), np.inf))


class TiedRows(Rows):
    """Rows of which some are tied: a, (L, R), and h, (R,), are 0 and 1 where there is no tie."""

    def __init__(self, star: Star, a: FloatArray, h: FloatArray, diagonal: FloatArray) -> None:
        """With k(x, x)."""
        super().__init__(star)
        self._a, self._h = a, h
        self._stiffness: FloatArray = (star.theta * a**2).sum(axis=0)
        self.are_tied = self._stiffness > STIFFER * h
        # From a'd / h digits are lost as h gets small, from h sigma as K answers to it: the two are
        # equally good where h k(x, x) is about 1.
        self._is_stiff = (h < self._stiffness) & (h * diagonal < 1.0)
        self.has_stiff_ties = bool(self._is_stiff.any())
        rows = np.arange(len(h))
        self._first = np.argmax(star.theta, axis=0), rows
        apart = a - a[self._first]
        self._second = np.argmax(star.theta * apart**2, axis=0), rows
        self._apart = np.where(self._is_stiff, apart[self._second], 1.0)

    def _tension(self, values: FloatArray) -> FloatArray:
        apart = values - values[self._first]
        total: FloatArray = (self.star.theta * self._a * apart).sum(axis=0)
        return total / (self._h + self._stiffness)

    def slopes(self, values: FloatArray) -> FloatArray:
        return super().slopes(values) - self.pulled(self._tension(values))

    def pulled(self, tension: FloatArray) -> FloatArray:
        pulled: FloatArray = self._a * tension
        return pulled

    def closed(self, change: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By the heaviest label and another one of the row, or by sigma."""
        change, _ = super().closed(change, values)
        along = (self._a * change).sum(axis=0)
        tension = np.where(self._is_stiff, self._tension(values), along / self._h)
        missing = np.where(self._is_stiff, self._h * tension - along, 0.0) / self._apart
        change[self._second] += missing
        change[self._first] -= missing
        return change, tension

    def projected(self, change: FloatArray) -> FloatArray:
        tension = (self._a * change).sum(axis=0) / (self._h + self._stiffness)
        of_ties: FloatArray = self.star.theta * self.pulled(tension)
        return super().projected(change) - of_ties

    def ties(self, at: tuple[IntArray, IntArray], sizes: IntArray) -> Ties:
        rows = at[1][np.cumsum(sizes) - 1]
        # Of less, the sum of the other terms of the matrix would be lost; `closed` makes up for it.
        least = np.where(self._is_stiff, LEAST_GIVE * self._stiffness, 0.0)
        give = np.maximum(self._h, least)[rows]
        return Ties(self._a[at], np.where(self.are_tied[rows], give, np.inf))


def rows_of(stars: list[Star | DoubleStar], diagonal: FloatArray) -> Rows:
    """All rows of some pieces, one after the other, with k(x, x)."""
    star = Star(np.hstack([one.theta for one in stars]))
    if not any(isinstance(one, DoubleStar) for one in stars):
        return Rows(star)
    ties = [_tie_of(one) for one in stars]
    a, h = (np.concatenate([tie[k] for tie in ties], axis=-1) for k in (0, 1))
    return TiedRows(star, a, h, diagonal)


def _tie_of(star: Star | DoubleStar) -> tuple[FloatArray, FloatArray]:
    if isinstance(star, DoubleStar):
        return star.tie
    return np.zeros_like(star.theta), np.ones_like(star.total)
