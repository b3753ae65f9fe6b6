"""A universum that is made of the training points says nothing about points that are left out.

Averages of training points, say, still hold a point that is left out of the training, and the model
is told by them where it was: its left-out error comes out near zero whatever the test error is. So
a search must not compare such a model with others by points left out.

Where n training points are linearly independent and fewer than the features, other points lie in
their span only by being made of them; that is checked. It cannot be told where there are more
points than features, nor from a kernel matrix alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._input.blocks import Blocks
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray, take, to_host

MAX_TRAINING, MAX_UNIVERSUM = 1000, 20
# Residuals below this share of a point's length are rounding errors.
TINY = 1e-6


def is_made_of_training_points(data: FitData, blocks: Blocks) -> bool:
    """Whether all of the universum, as far as it is examined, lies in the span of the rest."""
    n, M, d = len(blocks.y), len(blocks.rows), data.X.shape[1]
    if n == M or not n < d or n > MAX_TRAINING:
        return False
    some = np.unique(np.linspace(n, M - 1, MAX_UNIVERSUM).round().astype(np.intp))
    training, universum = (
        _dense(to_host(take(data.X, blocks.rows[part]))) for part in (slice(n), some)
    )
    combination, _, rank, _ = np.linalg.lstsq(training.T, universum.T, rcond=None)
    if rank < n:
        return False
    residual = np.linalg.norm(universum - combination.T @ training, axis=1)
    return bool((residual <= TINY * np.linalg.norm(universum, axis=1)).all())


def _dense(X: Any) -> FloatArray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
