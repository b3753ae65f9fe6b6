"""Many tasks through joblib, one BLAS thread each.

With one thread per task (`_threads.py`) a result does not depend on where the task runs: in this
process, in threads or processes of this machine, or on the workers of a cluster that joblib
knows.

joblib sends large arguments to one worker of a Dask cluster, which hands them on. If that worker
dies, its tasks are done elsewhere, but what it was sent is lost, and the tasks that need it are
cancelled. They are sent again, with their arguments. What is on its way to a worker that dies is
lost without a word, and joblib would wait for it for ever: all tasks are sent at once, so that
nothing is on its way once they run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from joblib import Parallel, delayed

from musvm._threads import one_blas_thread

# How often tasks are sent again, after which something is wrong that does not go away.
MAX_LOSSES = 3


class Pool:
    """Workers for the length of a search; to be used as a context manager."""

    def __init__(self, n_jobs: int | None) -> None:
        try:
            self._parallel = Parallel(
                n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="all"
            )
        except ValueError:  # Ray's workers hand over their results all at once.
            self._parallel = Parallel(n_jobs=n_jobs)
        self._n_runs = 0

    def __enter__(self) -> Pool:
        self._parallel.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._parallel.__exit__(*error)

    def run(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """(k, function(*arguments[k])) for every k, as soon as it is known.

        A task that was done when its worker died may be done again: the first result counts. One
        that was given up may still arrive while other tasks run: it is none of theirs.
        """
        self._n_runs += 1
        this, left = self._n_runs, dict(enumerate(arguments))
        for losses_left in range(MAX_LOSSES, -1, -1):
            tasks = [delayed(_numbered)(function, (this, k), *args) for k, args in left.items()]
            results = self._parallel(tasks)
            try:
                for (run, k), result in results:
                    if run == this and left.pop(k, None) is not None:
                        yield k, result
            except CancelledError:
                _close(results)
                if not losses_left:
                    raise
            if not left:
                return
        raise RuntimeError(f"{len(left)} tasks were run and gave no result")


def _close(results: Any) -> None:
    """End a generator of results; joblib warns of those that nobody took, which are done again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if hasattr(results, "close"):
            results.close()


def _numbered(
    function: Callable[..., Any], number: tuple[int, int], *arguments: Any
) -> tuple[tuple[int, int], Any]:
    with one_blas_thread():
        return number, function(*arguments)
