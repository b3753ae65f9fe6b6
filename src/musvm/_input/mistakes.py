"""Calls that work and are most likely not meant: a universum that is empty, X, or was split up.

A universum belongs to none of the classes. Where half of it, or a copy of half of X, are training
points, somebody has passed the wrong table, or the whole of which X is a part. Different points
are counted: rows that repeat a few values, such as empty ones, agree without being anybody's copy.

scikit-learn's cross-validation splits every argument of `fit` that has as many rows as X, together
with X. For a universum that happens to have as many rows that is an accident: in every fold the
model learns from another part of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from musvm._input.folds import current_fold, warn_of_data
from musvm._input.ranges import warn_if_on_another_scale
from musvm._input.reading import FitData, n_rows, universum_parts
from musvm._input.streams import starts_anew

# Fewer points than this agree by chance, where features take few values.
FEWEST = 20


def warn_of_universum(data: FitData, X: Any, universum: Any, *, precomputed: bool) -> None:
    """Say what is most likely not meant about the universum of a fit.

    The rows of a precomputed kernel are no points: all that can be known is that there are none.
    """
    warn_if_empty(data, universum)
    if not precomputed:
        warn_if_split(X, universum)
        warn_if_on_another_scale(data)
        warn_if_training_points(data)


def warn_if_training_points(data: FitData) -> None:
    """Say that the universum is made of rows of X, or has them all, if it does."""
    is_training = data.is_training
    if is_training.all():
        return
    # Pairs of integers as one, which NumPy looks up twenty times as fast.
    digests = data.digests[:, 0] ^ data.digests[:, 1]
    training, universum = np.unique(digests[is_training]), np.unique(digests[~is_training])
    if min(len(training), len(universum)) < FEWEST:
        return
    shared = np.intersect1d(training, universum, assume_unique=True)
    if 2 * len(shared) <= min(len(training), len(universum)):
        return
    n_found, m = int(np.isin(digests[~is_training], shared).sum()), int((~is_training).sum())
    warn_of_data(
        f"{n_found} of {m} universum rows are rows of X: a universum holds points of no class, not "
        "the training data. Leave out the rows of X.",
        "training points",
    )


def warn_if_empty(data: FitData, universum: Any) -> None:
    """Say that a universum was given and has no points: those of a filter that none passed, say."""
    if universum is not None and data.is_training.all():
        warn_of_data(
            "The universum has no points: this is a plain SVM. Pass universum=None to say so.",
            "empty",
        )


def warn_if_split(X: Any, universum: Any) -> None:
    """Say that cross-validation has split the universum into folds, if it has."""
    if isinstance(universum, tuple) or starts_anew(universum) is not None:
        return
    if len(parts := universum_parts(universum)) != 1:
        return
    if n_rows(parts[0]) != n_rows(X) or parts[0] is not universum:
        return
    if current_fold() is not None:
        warn_of_data(
            "universum has as many rows as X, so that scikit-learn splits it into folds with X. "
            "Pass universum=(U,): a tuple is never split.",
            "split",
            of_folds=True,
        )
