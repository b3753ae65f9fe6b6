"""One thread of BLAS, and threads of our own for products that are cut into fixed pieces.

BLAS adds up in another order when it uses more threads, and the last digits differ. So BLAS is
held to one thread wherever results must not depend on the machine or on what else runs there.
Work that is large enough for several threads is cut into pieces that do not depend on their
number, and each piece is a call of BLAS on one thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import threadpoolctl
from threadpoolctl import ThreadpoolController

PIECE = 1024
"""Points per piece."""


class _Holders:
    """Who holds BLAS to one thread, and what it was allowed before.

    Most libraries have one limit for the process, which the first holder sets and the last one
    restores, whichever threads they are. OpenBLAS on OpenMP has one limit for every thread.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.of_thread = threading.local()
        self.held: dict[object, int] = {}
        self.limits: list[tuple[Any, int]] = []

    def _are_own(self) -> bool:
        """Whether the calling thread holds BLAS."""
        return threading.get_ident() in self.held.values()

    def enter(self, holder: object) -> None:
        """Hold BLAS for somebody; an interrupt on the way leaves it as it was."""
        with self.lock:
            try:
                if not self.held:
                    self.limits = _above_one(_libraries(per_thread=False))
                    _set_to_one(self.limits)
                if not self._are_own():
                    self.of_thread.limits = _above_one(_libraries(per_thread=True))
                    _set_to_one(self.of_thread.limits)
                self.held[holder] = threading.get_ident()
            finally:
                self._restore_unneeded()

    def leave(self, holder: object) -> None:
        """Let go of what is held for somebody, if anything."""
        with self.lock:
            self.held.pop(holder, None)
            self._restore_unneeded()

    def _restore_unneeded(self) -> None:
        """All limits that nobody needs any longer."""
        if not self._are_own():
            _set(getattr(self.of_thread, "limits", []))
            self.of_thread.limits = []
        if not self.held:
            self._restore()

    def _restore(self) -> None:
        if self.limits:
            _release_control()
            _set(self.limits)
            _release_control()
            self.limits = []

    def after_fork(self) -> None:
        """In a child: of all threads only the one that forked is left, and what it holds."""
        self.lock = threading.Lock()
        was_held, own = bool(self.held), threading.get_ident()
        self.held = {holder: thread for holder, thread in self.held.items() if thread == own}
        if was_held and not self.held:
            self._restore()


def _above_one(libraries: list[Any]) -> list[tuple[Any, int]]:
    """The libraries that may use more than one thread, and how many."""
    before = [(library, library.get_num_threads()) for library in libraries]
    # What is at one already is somebody else's to restore.
    return [(library, n_threads) for library, n_threads in before if n_threads not in (None, 1)]


def _set_to_one(limits: list[tuple[Any, int]]) -> None:
    if limits:
        _release_control()
        _set([(library, 1) for library, _ in limits])


def _set(limits: list[tuple[Any, int]]) -> None:
    for library, n_threads in limits:
        library.set_num_threads(n_threads)


def _release_control() -> None:
    """Let any thread set limits: by itself threadpoolctl keeps that to the first one that did."""
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    release = getattr(controller, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process.

    Extension modules bring their own, OpenCV's for one: there may be another one wherever more
    modules are loaded than at the last look.
    """
    return _found(len(sys.modules))


@lru_cache(maxsize=1)
def _found(_n_modules: int) -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _libraries(*, per_thread: bool) -> list[Any]:
    """Those whose limit is one of the calling thread, or of the process."""
    found = _blas().lib_controllers
    return [one for one in found if (getattr(one, "threading_layer", "") == "openmp") == per_thread]


def _threads_allowed() -> int:
    counts = [library.get_num_threads() for library in _blas().lib_controllers]
    return max((count for count in counts if count is not None), default=1)


def _limit_this_thread() -> None:
    """For a thread of our own: it computes nothing else, so nothing is restored."""
    _set_to_one(_above_one(_libraries(per_thread=True)))


_holders = _Holders()
if hasattr(os, "register_at_fork"):
    # A child must not inherit a lock that a thread holds which it has not.
    os.register_at_fork(
        before=lambda: _holders.lock.acquire(),
        after_in_parent=lambda: _holders.lock.release(),
        after_in_child=_holders.after_fork,
    )


@contextmanager
def one_blas_thread() -> Iterator[int]:
    """Hold BLAS to one thread until the last holder lets go; gives what it was allowed before.

    The limit belongs to the process. If every thread set and restored it, one that ends would
    lift it for the others, or restore the limit of another.
    """
    n_threads, holder = _threads_allowed(), object()
    try:
        _holders.enter(holder)
        yield n_threads
    finally:
        _holders.leave(holder)


class Workers:
    """Runs a function on every piece of 0..n, on `n_threads` threads."""

    def __init__(self, n_threads: int = 1) -> None:
        self._pool: ThreadPoolExecutor | None = None
        if n_threads > 1:
            self._pool = ThreadPoolExecutor(n_threads, initializer=_limit_this_thread)

    def each(self, n: int, function: Callable[[slice], Any], piece: int | None = None) -> None:
        step = piece or PIECE
        pieces = [slice(start, min(start + step, n)) for start in range(0, n, step)]
        if self._pool is None or len(pieces) < 2:
            for one in pieces:
                function(one)
        else:
            for _ in self._pool.map(function, pieces):
                pass

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """The function of every item, in their order; a thread takes one at a time."""
        found: list[Any] = [None] * len(items)

        def compute(which: slice) -> None:
            for k in range(which.start, which.stop):
                found[k] = function(items[k])

        self.each(len(items), compute, 1)
        return found

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


def own_or(team: Workers | None) -> AbstractContextManager[Workers]:
    """A team that is there, or one for the time being."""
    return workers() if team is None else nullcontext(team)
