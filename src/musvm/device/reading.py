"""Tensors that stay where they are: reading them for a fit, and computing with a fitted model.

Points become doubles on the device of X. Labels and weights, one number per row, go to the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_consistent_length,
    validate_data,
)
from torch import Tensor

from musvm import _tensors as tensors
from musvm import _validation as validation
from musvm._digests import GENERATORS, mix
from musvm.device.kernel import CHUNK, DeviceKernel


def read(estimator: Any, X: Any, y: Any, universum: Any, sample_weight: Any) -> validation.FitData:
    """What `_validation.read` makes of arrays, with X on its device; sets `n_features_in_`."""
    points = as_points(X, "X", estimator)
    y = validate_data(estimator, y=tensors.to_host(y))
    _check_n_features(estimator, points, reset=True)
    check_consistent_length(points, y)

    def read_part(part: Any) -> Tensor:
        U = as_points(part, "universum", estimator, device=points.device)
        validation.require_same_width(U, estimator)
        return U

    return validation.collect(
        estimator, points, y, universum, tensors.to_host(sample_weight), read_part, torch.cat
    )


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


def row_digests(X: Tensor) -> Any:
    """(M, 2) integers on the host: what `_digests.row_digests` finds for arrays."""
    pieces = X.split(max(CHUNK // X.shape[1], 1))
    return torch.cat([_digests(piece) for piece in pieces]).cpu().numpy()


def _digests(X: Tensor) -> Tensor:
    bits, is_zero = X.view(torch.int64), X == 0.0
    columns = torch.arange(1, X.shape[1] + 1, device=X.device)
    words = (mix(bits ^ columns * generator) for generator in GENERATORS)
    return torch.stack([word.masked_fill_(is_zero, 0).sum(1) for word in words], 1)


# ---------------------------------------------------------------------------------------------
# Models


def decision_values(model: Any, X: Any) -> Tensor:
    """f_l(x), (n_samples, n_classes), by a fitted `UniversumSVC`, on the device of X."""
    points = as_points(X, "X", model)
    _check_feature_names(model, X, reset=False)
    _check_n_features(model, points, reset=False)

    def here(values: Any) -> Tensor:
        return torch.as_tensor(values, device=points.device)

    if model._weights is not None:
        return points @ here(model._weights.T)
    if model.kernel not in DeviceKernel.NAMES:
        return here(model._decision_values(tensors.to_host(points)))
    vectors = model.support_vectors_
    Z = here(vectors.toarray() if sp.issparse(vectors) else vectors)
    kernel = DeviceKernel(model._settled_kernel(), points, Z)
    return kernel.weighted(slice(None), here(np.ascontiguousarray(model.dual_coef_.T)))


def labels(classes: Any, F: Tensor) -> Any:
    """The class of the largest value: a tensor for numbers, a NumPy array for strings."""
    winners = F.argmax(1)
    if classes.dtype.kind in "biuf":
        return torch.as_tensor(classes, device=F.device)[winners]
    return classes[winners.cpu().numpy()]
