"""How much memory a piece of code holds at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """What is run inside; afterwards the largest number of bytes that it held."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield lambda: found[0]
        found.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
