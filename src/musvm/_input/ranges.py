"""Whether a universum is on another scale than the training points.

The usual reason is that one of them was scaled and the other not. Four signs of it, none of which
the universa of real data show (other classes, averages, noise, of ten data sets, as they are and
scaled): being unlike the training points, as images with other pixels set are, is none.

    far outside   with lo_k and hi_k the smallest and largest value of feature k in the training
                  points, a point u lies outside their box by |u - clip(u, lo, hi)|; half of the
                  universum further away than the box is long, |hi - lo|
    outside       half of the universum outside [lo_k, hi_k] in most features k. A class may well be
                  so where there are few features, or few points that make the box
    shrunk        s being the root mean square distance of points from their mean, that of the
                  universum is below a tenth of that of the training points, and the two means
                  are more than twenty times its length apart. Averages vary little as well, around
                  the mean of the training points; so do features that a network has learnt, or
                  a kernel gives, six or seven times its length away
    standardised  every feature of the universum that varies has mean 0 and deviation 1, as a scaler
                  of its own makes them and no sample of a distribution has, and the training points
                  are not even nearly so (those of a fold of standardised points are)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler
from sklearn.utils.sparsefuncs import mean_variance_axis

from musvm._input import tensors
from musvm._input.folds import warn_of_data
from musvm._input.reading import FitData
from musvm._input.streams import pieces_of
from musvm._input.tensors import FloatArray, IntArray

# Points that are looked at, evenly spaced; a median needs fewer than a deviation.
SAMPLE, OF_MEDIAN = 1000, 200
# Entries of so many rows as are looked at together.
PIECE_ENTRIES = 2**15
# With fewer points or features their range says little about others.
FEWEST_POINTS, FEWEST_FEATURES = 10, 8
MOST_FEATURES = 0.6
SHRUNK, APART = 0.1, 20.0
# What standardised points may be off by: all of them, for rounding, and some of them.
EXACTLY, NEARLY = 1e-4, 0.15
# A universum of one point, repeated, has no scale.
CONSTANT = 1e-9


def warn_if_on_another_scale(data: FitData) -> None:
    """Say that the universum and the training points were most likely not scaled alike."""
    if found := sign_of_another_scale(data, "X"):
        warn_of_data(
            f"The universum {found}: was one of them scaled and the other not? "
            "make_universum_pipeline(StandardScaler(), UniversumSVC()) scales both.",
            "range",
        )


def sign_of_another_scale(data: FitData, training_points: str) -> str:
    """What the universum does that tells of another scale than that of the points so called.

    Nothing if nothing does.
    """
    training, universum = np.flatnonzero(data.is_training), np.flatnonzero(~data.is_training)
    if not len(universum):
        return ""
    with np.errstate(over="ignore", invalid="ignore"):
        return _sign(data.X, training, universum).format(X=training_points)


def _sign(X: Any, training: IntArray, universum: IntArray) -> str:
    points, U = tensors.look(X, training), tensors.look(X, _some(universum))
    if _is_outside(Excess.of(points, _some(U, OF_MEDIAN)), len(training)):
        return "lies far outside the range of {X}"
    if min(len(training), len(universum)) < FEWEST_POINTS:
        return ""
    some = tensors.look(points, _some(np.arange(len(training))))
    of_points, of_universum = Moments.of(some), Moments.of(U)
    if _is_shrunk(of_universum, of_points):
        return "varies far less than {X} and lies apart"
    seems_so = of_universum.is_standard(NEARLY) and not of_points.is_standard(NEARLY)
    pieces = (rows for _, rows in pieces_of(X, universum))
    if seems_so and Moments.of_pieces(pieces).is_standard(EXACTLY):
        return "has mean 0 and deviation 1 in every feature, unlike {X}"
    return ""


def _pieces(points: Any) -> Iterator[Any]:
    """Rows in pieces that the cache holds: what is computed of them is used at once."""
    step = max(PIECE_ENTRIES // max(points.shape[1], 1), 1)
    return (points[start : start + step] for start in range(0, points.shape[0], step))


def _some(rows: Any, most: int = SAMPLE) -> Any:
    """Up to so many of the rows."""
    return rows[:: -(-rows.shape[0] // most)]


class Excess(NamedTuple):
    """How universum points lie to the box of the training points.

    Attributes
    ----------
    distances : (m,) of every point from the box
    n_outside : (m,) features in which it is outside, of those that vary
    diagonal : length of the box
    n_varying : features in which the box is no point
    """

    distances: FloatArray
    n_outside: IntArray
    diagonal: float
    n_varying: int

    @classmethod
    def of(cls, points: Any, U: Any) -> Excess:
        if sp.issparse(points):
            return cls._of_sparse(points, U)
        xp = tensors.namespace(points)
        lo, hi = xp.min(points, axis=0), xp.max(points, axis=0)
        side = hi - lo
        varying = side > 0
        squares, n_outside = [], []
        for piece in _pieces(U):
            excess = piece - xp.clip(piece, lo, hi)
            squares.append(tensors.to_host(xp.vecdot(excess, excess)))
            n_outside.append(tensors.to_host(xp.sum((excess != 0) & varying, axis=1)))
        diagonal = float(xp.vecdot(side, side)) ** 0.5
        distances = np.sqrt(np.concatenate(squares))
        return cls(distances, np.concatenate(n_outside), diagonal, int(varying.sum()))

    @classmethod
    def _of_sparse(cls, points: Any, U: Any) -> Excess:
        """Entries that are not stored are inside the box, or nearly so."""
        lo, hi = (extreme(axis=0).toarray().ravel() for extreme in (points.min, points.max))
        values = U.data - np.clip(U.data, lo[U.indices], hi[U.indices])
        rows = np.repeat(np.arange(U.shape[0]), np.diff(U.indptr))
        counted = (values != 0) & (hi > lo)[U.indices]
        squares = np.bincount(rows, values**2, minlength=U.shape[0])
        n_outside = np.bincount(rows[counted], minlength=U.shape[0])
        diagonal = float(np.linalg.norm(hi - lo))
        return cls(np.sqrt(squares), n_outside, diagonal, int((hi > lo).sum()))


def _is_outside(found: Excess, n_points: int) -> bool:
    """Whether the universum lies far outside the box, or outside in most features."""
    if float(np.median(found.distances)) > found.diagonal:
        return True
    if n_points < FEWEST_POINTS or found.n_varying < FEWEST_FEATURES:
        return False
    return float(np.median(found.n_outside)) > MOST_FEATURES * found.n_varying


def _is_shrunk(universum: Moments, points: Moments) -> bool:
    """Whether the universum varies far less than the training points, and apart from them."""
    small, scale = universum.scale, points.scale
    apart = float(np.linalg.norm(points.mean - universum.mean))
    return CONSTANT * scale < small < SHRUNK * scale and apart > APART * small


class Moments(NamedTuple):
    """The mean and the variance of every feature."""

    mean: FloatArray
    variance: FloatArray

    @classmethod
    def of(cls, points: Any) -> Moments:
        if sp.issparse(points):
            return cls(*mean_variance_axis(points, axis=0))
        rows = tensors.to_host(points)
        mean = rows.mean(axis=0, dtype=np.float64)
        squares = sum(np.square(piece - mean).sum(axis=0) for piece in _pieces(rows))
        return cls(mean, squares / len(rows))

    @classmethod
    def of_pieces(cls, pieces: Iterable[Any]) -> Moments:
        """Those of all rows of the pieces, one of which is in memory at a time."""
        # Nothing is scaled: it refuses to centre sparse rows, and knows their mean all the same.
        found = StandardScaler(with_mean=False)
        for rows in pieces:
            found.partial_fit(tensors.to_host(rows))
        return cls(found.mean_, found.var_)

    @property
    def scale(self) -> float:
        """The root mean square distance of points from their mean."""
        return float(np.sqrt(self.variance.sum()))

    def is_standard(self, tolerance: float) -> bool:
        """Whether all features that vary have mean 0 and deviation 1, and there are many."""
        varies = self.variance > 0
        deviation = np.sqrt(self.variance[varies])
        far = np.maximum(np.abs(self.mean[varies]), np.abs(deviation - 1.0))
        return bool(varies.sum() >= FEWEST_FEATURES and far.max() < tolerance)
