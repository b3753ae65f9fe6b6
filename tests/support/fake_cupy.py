"""A stand-in for CuPy: what `musvm` asks of the module and its arrays, on the host.

The arrays refuse what CuPy's refuse: NumPy's functions, and being read without `get`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch


class ndarray:  # noqa: N801
    """A CuPy array by type, shape and the DLPack protocol."""

    __module__ = "cupy"

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor.shape)

    @property
    def ndim(self) -> int:
        return self._tensor.ndim

    def __len__(self) -> int:
        return len(self._tensor)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()

    def get(self) -> Any:
        return self._tensor.numpy().copy()


def install(monkeypatch: Any) -> Any:
    """Have `import cupy` find the stand-in, and return it; `asarray` makes its arrays."""
    cupy = ModuleType("cupy")
    cupy.ndarray = ndarray
    cupy.from_dlpack = lambda array: ndarray(torch.from_dlpack(array))
    cupy.asarray = lambda array: ndarray(torch.tensor(array))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy
