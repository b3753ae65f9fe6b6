"""Threads for products that are cut into pieces of fixed size.

BLAS rounds differently with a different number of threads. So work that is large enough for
several is cut into pieces that do not depend on their number, and each piece is a call of BLAS on
one thread: the results are the same on every machine size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

PIECE = 1024
"""Points per piece."""


@cache
def blas() -> ThreadpoolController:
    """The BLAS libraries of this process."""
    return ThreadpoolController()


class Workers:
    """Runs a function on every piece of 0..n, on `n_threads` threads."""

    def __init__(self, n_threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def each(self, n: int, function: Callable[[slice], None], piece: int = PIECE) -> None:
        pieces = [slice(start, min(start + piece, n)) for start in range(0, n, piece)]
        if self._pool is None or len(pieces) < 2:
            for one in pieces:
                function(one)
        else:
            for _ in self._pool.map(function, pieces):
                pass

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


@contextmanager
def workers() -> Iterator[Workers]:
    """As many threads as BLAS may use, while BLAS itself is held to one."""
    libraries = blas().select(user_api="blas").info()
    n_threads = max((library["num_threads"] for library in libraries), default=1)
    with blas().limit(limits=1, user_api="blas"):
        team = Workers(n_threads)
        try:
            yield team
        finally:
            team.close()
