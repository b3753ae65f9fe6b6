"""Tensors that stay where they are: reading them for a fit or a prediction.

Points become doubles on the device of X. Labels and weights, one number per row, go to the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import check_consistent_length, validate_data
from torch import Tensor

from musvm._input import reading, tensors
from musvm._input.digests import GENERATORS, mix
from musvm._sklearn import check_feature_names, check_n_features

# Entries of the largest matrix that is made at a time.
CHUNK = 2**27
# Entries of a piece on its way to the host.
ENTRIES_A_PIECE = 2**20


def read(estimator: Any, X: Any, y: Any, universum: Any, *weights: Any) -> reading.FitData:
    """What `reading.read` makes of arrays, with X on its device; sets `n_features_in_`."""
    points = as_points(X, "X", estimator)
    y = validate_data(estimator, y=tensors.to_host(y))
    check_n_features(estimator, points, reset=True)
    check_consistent_length(points, y)

    def read_part(part: Any) -> Tensor:
        U = as_points(part, "universum", estimator, device=points.device)
        reading.require_same_width(U, estimator)
        return U

    of_rows, of_universum = map(tensors.to_host, weights)
    parts = reading.universum_parts(universum)
    return reading.collect(
        estimator, points, y, parts, (of_rows, of_universum), read_part, torch.cat
    )


def points_for(estimator: Any, X: Any) -> Tensor:
    """The points that a fitted estimator is asked about, once found to be like those of its fit."""
    points = as_points(X, "X", estimator)
    check_feature_names(estimator, X, reset=False)
    check_n_features(estimator, points, reset=False)
    return points


def as_points(array: Any, name: str, estimator: Any, device: torch.device | None = None) -> Tensor:
    """A matrix of finite doubles on a device, that of the array itself if None."""
    if sp.issparse(array):
        array = array.toarray()
    tensor = tensors.to_torch(array) if tensors.is_tensor(array) else torch.as_tensor(array)
    if tensor.layout is not torch.strided or tensor.is_complex():
        raise TypeError(
            f"{name} must be a dense tensor of real numbers: pass sparse ones as SciPy's arrays."
        )
    if tensor.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {tensor.ndim}D array instead: {name} must be of shape "
            "(n_samples, n_features)."
        )
    if not tensor.numel():
        raise ValueError(
            f"Found array with {tensor.shape[0]} sample(s) and {tensor.shape[1]} feature(s) in "
            f"{name} while a minimum of 1 is required by {type(estimator).__name__}."
        )
    points = tensor.to(device=device or tensor.device, dtype=torch.float64)
    if not bool(torch.isfinite(torch.stack(points.aminmax())).all()):
        raise ValueError(f"Input {name} contains NaN or infinity.")
    return points.contiguous()


def in_pieces(tensor: Tensor) -> Any:
    """A tensor of a GPU as a NumPy array.

    A GPU writes to memory that the system may not move, of which two pieces take turns: seven times
    as fast as to new memory, every page of which has to be asked for on the way.
    """
    flat = tensor.contiguous().view(-1)
    pinned = torch.empty((2, ENTRIES_A_PIECE), dtype=flat.dtype, pin_memory=True)
    found = np.empty(tuple(tensor.shape), dtype=pinned.numpy().dtype)
    targets, arrived = torch.from_numpy(found).view(-1).split(ENTRIES_A_PIECE), []
    for k, piece in enumerate(flat.split(ENTRIES_A_PIECE)):
        pinned[k % 2, : len(piece)].copy_(piece, non_blocking=True)
        arrived.append(torch.cuda.current_stream(tensor.device).record_event())
        if k:
            _take_over(targets[k - 1], pinned[(k - 1) % 2], arrived[k - 1])
    _take_over(targets[-1], pinned[(len(targets) - 1) % 2], arrived[-1])
    return found


def _take_over(target: Tensor, piece: Tensor, arrived: Any) -> None:
    arrived.synchronize()
    target.copy_(piece[: len(target)])


def row_digests(X: Tensor) -> Any:
    """(M, 2) integers on the host: what `digests.row_digests` finds for arrays."""
    pieces = X.split(max(CHUNK // X.shape[1], 1))
    return torch.cat([_digests(piece) for piece in pieces]).cpu().numpy()


def _digests(X: Tensor) -> Tensor:
    bits, is_zero = X.view(torch.int64), X == 0.0
    columns = torch.arange(1, X.shape[1] + 1, device=X.device)
    words = (mix(bits ^ columns * generator) for generator in GENERATORS)
    return torch.stack([word.masked_fill_(is_zero, 0).sum(1) for word in words], 1)
