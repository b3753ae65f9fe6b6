"""Many tasks through joblib, one BLAS thread each.

With one thread per task (`_threads.py`) a result does not depend on where the task runs: in this
process, in threads or processes of this machine, or on the workers of a cluster that joblib
knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from joblib import Parallel, delayed

from musvm._threads import one_blas_thread


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
