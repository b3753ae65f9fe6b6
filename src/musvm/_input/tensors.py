"""Arrays: the types that all rooms share, and arrays of other libraries, PyTorch's and CuPy's.

Compute follows the input, by the array API where both libraries have it (`namespace`). Neither is
imported, or needed, until one of its arrays arrives. What is computed on a device is computed by
PyTorch; CuPy arrays are handed to it and back without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_cupy_array, is_torch_array, to_device
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
Array = Any
"""A `FloatArray`, or doubles on a device."""

# Bytes from which a tensor comes to the host piece by piece.
LARGE = 2**23
# Rows of no more entries are short; so many of them are many.
SHORT, MANY_ROWS = 26, 200


def _reduction(ufunc: Any) -> Callable[..., Any]:
    """The reduction of a ufunc, which must be told its axis.

    Without one, `ufunc.reduce` reduces axis 0 where the array API means all entries.
    """

    def reduce(array: Any, *, axis: int, keepdims: bool = False) -> Any:
        return ufunc.reduce(array, axis, None, None, keepdims)

    return reduce


def _selection(ufunc: Any) -> Callable[..., Any]:
    """The reduction of `maximum` or `minimum`, whose result no order changes.

    Short rows are reduced column by column: NumPy takes up to ten times as long for one after the
    other.
    """
    one_by_one = _reduction(ufunc)

    def reduce(array: Any, *, axis: int, keepdims: bool = False) -> Any:
        is_short = array.ndim == 2 and axis == 1 and 0 < array.shape[1] <= SHORT
        if not is_short or len(array) < MANY_ROWS or not array.flags.c_contiguous:
            return one_by_one(array, axis=axis, keepdims=keepdims)
        chosen = array[:, 0].copy()
        for column in array.T[1:]:
            ufunc(chosen, column, out=chosen)
        return chosen[:, None] if keepdims else chosen

    return reduce


# NumPy's own functions take as long to find their way as to reduce a small array: the same by
# shorter ways. `vecdot` is over the last axis, as in the array API.
_SHORTER = {
    "max": _selection(np.maximum),
    "min": _selection(np.minimum),
    "sum": _reduction(np.add),
    "vecdot": partial(np.einsum, "...i,...i->..."),
}
_NUMPY = SimpleNamespace(**vars(numpy_namespace) | _SHORTER)


def namespace(array: Any) -> Any:
    """The array API of the library of an array; its reductions must be given their axis."""
    return _NUMPY if type(array) is np.ndarray else array_namespace(array)


def positive_part(array: Any) -> Any:
    """max(x, 0) of every entry; `maximum` would send the 0 to a device first, and wait for it."""
    if type(array) is np.ndarray:
        return np.maximum(array, 0.0)
    return namespace(array).clip(array, min=0.0)


def is_tensor(array: Any) -> bool:
    return is_torch_array(array) or is_cupy_array(array)


def is_dataset(given: Any) -> bool:
    """Whether this is one of PyTorch's data sets or loaders: no array, whatever it may hold."""
    return any(base.__module__.startswith("torch.utils.data") for base in type(given).__mro__)


def is_on_host(array: Any) -> bool:
    """Whether a tensor is in the memory of the processor."""
    return is_torch_array(array) and array.device.type == "cpu"


def to_host(array: Any) -> Any:
    """A tensor as a NumPy array, also inside a tuple or list; anything else as it is."""
    if isinstance(array, (tuple, list)) and any(map(is_tensor, array)):
        return type(array)([to_host(part) for part in array])
    if not is_torch_array(array):
        return to_device(array, "cpu") if is_cupy_array(array) else array
    if array.layout is not _torch().strided:
        raise TypeError("Sparse tensors are not supported: pass dense ones, or SciPy's arrays.")
    if array.device.type == "cuda" and array.nbytes > LARGE and array.dtype.itemsize > 2:
        from musvm._input.on_device import in_pieces

        return in_pieces(array.detach())
    tensor = to_device(array.detach(), "cpu")
    # NumPy has no bfloat16, and small floats only hold features.
    is_small_float = tensor.dtype.is_floating_point and tensor.dtype.itemsize == 2
    return tensor.float().numpy() if is_small_float else tensor.numpy()


def to_torch(array: Any) -> Any:
    """A tensor as one of PyTorch, where it is."""
    return _torch().from_dlpack(array) if is_cupy_array(array) else array.detach()


def give_back(values: Any, caller: Any) -> Any:
    """A tensor of PyTorch in the library of the array `caller`; it is on its device already."""
    if not (is_cupy_array(caller) and is_torch_array(values)):
        return values
    import cupy

    return cupy.from_dlpack(values)


def take(array: Any, rows: Any) -> Any:
    """Some rows of an array, given by a NumPy array; those of a tensor as one of PyTorch."""
    if not is_tensor(array):
        return array[rows]
    tensor = to_torch(array)
    return tensor[_torch().as_tensor(rows, device=tensor.device)]


def look(array: Any, rows: IntArray) -> Any:
    """`take` for whoever only reads: a view of the array where rows are one after the other."""
    if is_tensor(array) or not len(rows):
        return take(array, rows)
    first, behind = rows[0], rows[0] + len(rows)
    in_order = np.array_equal(rows, np.arange(first, behind))
    return array[first:behind] if in_order else array[rows]


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
