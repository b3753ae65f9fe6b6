"""One thread of BLAS, and threads of our own for products that are cut into fixed pieces.

BLAS adds up in another order when it uses more threads, and the last digits differ. So BLAS is
held to one thread wherever results must not depend on the machine or on what else runs there.
Work that is large enough for several threads is cut into pieces that do not depend on their
number, and each piece is a call of BLAS on one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

PIECE = 1024
"""Points per piece."""


_lock = threading.Lock()
_depth = 0
_limit: Any = None


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[int]:
    """Hold BLAS to one thread until the last holder lets go; gives what it was allowed before.

    The limit belongs to the process. If every thread set and restored it, one that ends would
    lift it for the others, or restore the limit of another.
    """
    global _depth, _limit
    with _lock:
        libraries = _blas().info()
        n_threads = max((library["num_threads"] for library in libraries), default=1)
        if _depth == 0:
            _limit = _blas().limit(limits=1)
        _depth += 1
    try:
        yield n_threads
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _limit.restore_original_limits()


class Workers:
    """Runs a function on every piece of 0..n, on `n_threads` threads."""

    def __init__(self, n_threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def each(self, n: int, function: Callable[[slice], Any], piece: int | None = None) -> None:
        step = piece or PIECE
        pieces = [slice(start, min(start + step, n)) for start in range(0, n, step)]
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
    with one_blas_thread() as n_threads:
        team = Workers(n_threads)
        try:
            yield team
        finally:
            team.close()
