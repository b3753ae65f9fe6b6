"""Whether a universum lies far outside the range of the training points.

With lo_k and hi_k the smallest and largest value of feature k in the training points, a point u
lies outside their box by

    |u - clip(u, lo, hi)|

The usual reason for a large value is that the training points were scaled and the universum was
not. Half of the universum further away than the box is long, |hi - lo|, is called far: what is
merely unlike the training points, such as images with other pixels set, stays well below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._input import tensors
from musvm._input.folds import warn_of_data
from musvm._input.reading import FitData

# Universum points that are looked at, evenly spaced.
SAMPLE = 1000


def warn_if_far_outside(data: FitData) -> None:
    """Say that the universum lies far outside the box of the training points, if it does."""
    training, universum = np.flatnonzero(data.is_training), np.flatnonzero(~data.is_training)
    if not len(universum):
        return
    sample = universum[:: -(-len(universum) // SAMPLE)]
    points = data.X if len(training) == len(data.codes) else tensors.take(data.X, training)
    with np.errstate(over="ignore", invalid="ignore"):
        outside, diagonal = _distances(points, tensors.take(data.X, sample))
        is_far = float(np.median(outside)) > diagonal
    if is_far:
        warn_of_data(
            "The universum lies far outside the range of X: was X scaled and the universum not? "
            "make_universum_pipeline(StandardScaler(), UniversumSVC()) scales both.",
            "range",
        )


def _distances(points: Any, U: Any) -> tuple[Any, float]:
    """How far every row of U is outside the box of the points, and the length of the box."""
    if sp.issparse(points):
        # Entries that are not stored are inside the box, or nearly so.
        lo, hi = (extreme(axis=0).toarray().ravel() for extreme in (points.min, points.max))
        values = U.data - np.clip(U.data, lo[U.indices], hi[U.indices])
        rows = np.repeat(np.arange(U.shape[0]), np.diff(U.indptr))
        squares = np.bincount(rows, values**2, minlength=U.shape[0])
        return np.sqrt(squares), float(np.linalg.norm(hi - lo))
    xp = tensors.namespace(points)
    lo, hi = xp.min(points, axis=0), xp.max(points, axis=0)
    excess, side = U - xp.clip(U, lo, hi), hi - lo
    squares = tensors.to_host(xp.vecdot(excess, excess))
    return np.sqrt(squares), float(xp.vecdot(side, side)) ** 0.5
