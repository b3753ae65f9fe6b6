"""Calls that work and are most likely not meant: a universum that is X, or that was split up.

A universum belongs to none of the classes. Where half of it, or a copy of half of X, are training
points, somebody has passed the wrong table, or the whole of which X is a part.

scikit-learn's cross-validation splits every argument of `fit` that has as many rows as X, together
with X. For a universum that happens to have as many rows that is an accident: in every fold the
model learns from another part of it.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from musvm._input.reading import FitData, n_rows, universum_parts
from musvm._input.streams import starts_anew
from musvm._messages import warn_user

# Fewer rows than this agree by chance, where features take few values.
FEWEST = 20
# Where scikit-learn fits an estimator to a part of X, and to parts of what was passed with it.
_SPLITTING = ("_fit_and_score", "_fit_and_predict", "_fit_classifier_calibrator_pair")


def warn_if_training_points(data: FitData) -> None:
    """Say that the universum is made of rows of X, or has them all, if it does."""
    is_training = data.is_training
    n, m = int(is_training.sum()), int((~is_training).sum())
    if min(n, m) < FEWEST:
        return
    # Pairs of integers as one, which NumPy looks up twenty times as fast.
    digests = data.digests[:, 0] ^ data.digests[:, 1]
    training, universum = digests[is_training], digests[~is_training]
    n_found = int(np.isin(universum, training).sum())
    if 2 * n_found <= m and 2 * int(np.isin(training, universum).sum()) <= n:
        return
    warn_user(
        f"{n_found} of {m} universum rows are rows of X: a universum holds points of no class, not "
        "the training data. Leave out the rows of X, or make one by musvm.universum.random_average."
    )


def warn_if_split(X: Any, universum: Any) -> None:
    """Say that cross-validation has split the universum into folds, if it has."""
    if isinstance(universum, tuple) or starts_anew(universum) is not None:
        return
    if len(parts := universum_parts(universum)) != 1:
        return
    if n_rows(parts[0]) != n_rows(X) or parts[0] is not universum:
        return
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name not in _SPLITTING:
        frame = frame.f_back
    if frame is not None and frame.f_globals.get("__name__", "").startswith("sklearn."):
        warn_user(
            "universum has as many rows as X, so that scikit-learn splits it into folds with X. "
            "Pass universum=(U,): a tuple is never split."
        )
