"""Many tasks through joblib, one BLAS thread each.

BLAS adds up in another order when it uses more threads, and the last digits differ. With one
thread per task a result does not depend on where the task runs: in this process, in threads or
processes of this machine, or on the workers of a cluster that joblib knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_depth = 0
_limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread in this process until the last of its holders lets go.

    The limit belongs to the process. If every thread set and restored it, one that ends would
    lift it for the others.
    """
    global _depth, _limits
    with _lock:
        if _depth == 0:
            _limits = threadpool_limits(1, user_api="blas")
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _limits.restore_original_limits()


class Pool:
    """Workers for the length of a search; to be used as a context manager."""

    def __init__(self, n_jobs: int | None) -> None:
        try:
            self._parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        except ValueError:  # Ray's workers hand over their results all at once.
            self._parallel = Parallel(n_jobs=n_jobs)

    def __enter__(self) -> Pool:
        self._parallel.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._parallel.__exit__(*error)

    def run(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """(k, function(*arguments[k])) for every k, as soon as it is known."""
        tasks = (delayed(_numbered)(function, k, *args) for k, args in enumerate(arguments))
        yield from self._parallel(tasks)


def _numbered(function: Callable[..., Any], k: int, *arguments: Any) -> tuple[int, Any]:
    with one_blas_thread():
        return k, function(*arguments)
