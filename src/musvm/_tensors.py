"""Arrays of other libraries: PyTorch tensors and CuPy arrays.

Compute follows the input. A tensor is known by its type's module, so that neither library is
imported, or needed, until one of its arrays arrives. What is computed on a device (`device/`) is
computed by PyTorch; CuPy arrays are handed to it and back without a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LIBRARIES = ("torch", "cupy")


def library(array: Any) -> str | None:
    """The library of a tensor, None for anything else."""
    name = type(array).__module__.partition(".")[0]
    return name if name in LIBRARIES else None


def is_tensor(array: Any) -> bool:
    return library(array) is not None


def to_host(array: Any) -> Any:
    """A tensor as a NumPy array, also inside a tuple or list; anything else as it is."""
    if isinstance(array, (tuple, list)) and any(map(is_tensor, array)):
        return type(array)([to_host(part) for part in array])
    name = library(array)
    if name is None:
        return array
    if name == "cupy":
        return array.get()
    if array.layout is not _torch().strided:
        raise TypeError("Sparse tensors are not supported: pass dense ones, or SciPy's arrays.")
    tensor = array.detach().cpu()
    # NumPy has no bfloat16, and small floats only hold features.
    return tensor.float().numpy() if tensor.dtype.itemsize == 2 else tensor.numpy()


def to_torch(array: Any) -> Any:
    """A tensor as one of PyTorch, where it is."""
    return _torch().from_dlpack(array) if library(array) == "cupy" else array.detach()


def give_back(values: Any, caller: Any) -> Any:
    """A tensor of PyTorch in the library of the array `caller`; it is on its device already."""
    if library(caller) != "cupy":
        return values
    import cupy

    return cupy.from_dlpack(values)


def take(array: Any, rows: Any) -> Any:
    """Some rows of an array, given by a NumPy array."""
    if not is_tensor(array):
        return array[rows]
    return array[_torch().as_tensor(rows, device=array.device)]


def row_sums(array: Any) -> Any:
    """(M,) sums of rows, dense, sparse or on a device, as a NumPy array."""
    return np.asarray(to_host(array.sum(axis=1))).ravel()


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "Computing on CuPy arrays needs PyTorch: pip install 'musvm[torch]'."
        ) from error
    return torch
