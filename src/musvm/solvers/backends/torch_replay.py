"""The same work on the same tensors, many times: launched once, replayed after.

A fit makes thousands of small operations on a GPU, each of which takes the host longer to launch
than the GPU to carry out. What is done over and over, on tensors that stay where they are, is
recorded as one graph of operations and launched as one: a survey of all rows takes a sixth of the
time, an iteration of conjugate gradients a third (`benchmarks/gpu.py`).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

# Streams to record on, one for every thread and device: libraries keep memory for each stream.
_streams = threading.local()


class Replayed:
    """A function without arguments that waits for nothing, and reads and writes fixed tensors.

    Its first call is an ordinary one, in which libraries get ready; the second is recorded. Later
    calls overwrite what earlier ones returned. On a processor, and where recording fails, every
    call is an ordinary one.
    """

    def __init__(self, function: Callable[[], Any], device: torch.device) -> None:
        self._function = function
        self._device = device
        self._is_ordinary = device.type != "cuda"
        self._is_ready = False
        self._graph: Any = None
        self._result: Any = None

    @property
    def is_recorded(self) -> bool:
        return self._graph is not None

    def __call__(self) -> Any:
        if self._is_ready and not self._is_ordinary and self._graph is None:
            self._record()
        if self._graph is None:
            self._is_ready = True
            return self._function()
        self._graph.replay()
        return self._result

    def _record(self) -> None:
        """Record what the function does, without doing it."""
        graph, stream = torch.cuda.CUDAGraph(), _stream(self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        try:
            with _no_collection(), torch.cuda.stream(stream):
                self._result = _captured(graph, self._function)
            self._graph = graph
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError:
            self._is_ordinary = True
        torch.cuda.current_stream(self._device).wait_stream(stream)


def _stream(device: torch.device) -> Any:
    kept: dict[torch.device, Any] = vars(_streams).setdefault("by_device", {})
    if device not in kept:
        kept[device] = torch.cuda.Stream(device)
    return kept[device]


def _captured(graph: Any, function: Callable[[], Any]) -> Any:
    # What other threads do in the meantime is not part of it.
    graph.capture_begin(capture_error_mode="thread_local")
    try:
        result = function()
    except BaseException:
        with suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()
    return result


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from destroying other graphs on the way, which ends a recording."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
