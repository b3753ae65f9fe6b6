"""The limit on BLAS threads belongs to the process: the last holder restores it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import musvm
from musvm import UniversumSVC, _threads
from musvm._lazy import lazy
from musvm._threads import Workers, one_blas_thread, workers


def blas_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process has all cores")
def test_processes_that_run_tests_share_the_cores():
    """Had NumPy been loaded before the settings of all tests, each would take all of them."""
    assert blas_threads() <= int(os.environ["OMP_NUM_THREADS"])


def test_the_limit_holds_until_the_last_holder_leaves():
    with threadpool_limits(2, user_api="blas"):
        first, second = ExitStack(), ExitStack()
        assert first.enter_context(one_blas_thread()) == 2
        assert second.enter_context(one_blas_thread()) == 1
        first.close()
        assert blas_threads() == 1
        second.close()
        assert blas_threads() == 2


class InterruptedDict(dict):
    """An interrupt comes right after something was put in."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["before limits", "after limits", "at the end"])
def test_an_interrupt_on_the_way_in_leaves_nothing_held(where, monkeypatch):
    """Else BLAS would never again be held to one thread, or never have more."""
    set_to_one = _threads._set_to_one

    def interrupted(limits):
        if where == "after limits":
            set_to_one(limits)
        raise KeyboardInterrupt

    with threadpool_limits(2, user_api="blas"):
        with monkeypatch.context() as patch:
            if where == "at the end":
                patch.setattr(_threads._holders, "held", InterruptedDict())
            else:
                patch.setattr(_threads, "_set_to_one", interrupted)
            with pytest.raises(KeyboardInterrupt), one_blas_thread():
                pass
            assert not _threads._holders.held
        assert blas_threads() == 2
        with one_blas_thread() as n_threads:
            assert n_threads == 2
            assert blas_threads() == 1
        assert blas_threads() == 2


def test_every_piece_is_visited_once_on_any_number_of_threads():
    for n_threads in (1, 3):
        team, seen = Workers(n_threads), np.zeros(1000, dtype=int)

        def visit(part, seen=seen):
            seen[part] += 1

        team.each(1000, visit, piece=64)
        team.close()
        assert np.all(seen == 1)


def test_an_error_in_a_piece_reaches_the_caller():
    with workers() as team, pytest.raises(ZeroDivisionError):
        team.each(100, lambda part: 1 // 0, piece=10)


def in_threads(n: int, function) -> None:
    """Run a function of 0..n-1 on as many threads at once."""
    with ThreadPoolExecutor(n) as pool:
        for _ in pool.map(function, range(n)):
            pass


def test_any_thread_may_limit_after_another_has():
    """threadpoolctl lets only one thread set limits until it is released from that."""
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            pass
        seen = []

        def hold(_):
            with one_blas_thread():
                seen.append(blas_threads())

        in_threads(1, hold)
        assert seen == [1]
        assert blas_threads() == 2


def test_the_limit_is_restored_whoever_leaves_last():
    with threadpool_limits(2, user_api="blas"):
        entered, left = threading.Barrier(2), threading.Event()

        def first(_):
            with one_blas_thread():
                entered.wait()
            left.set()
            done.wait()

        def second():
            with one_blas_thread():
                entered.wait()
                left.wait()
                assert blas_threads() == 1

        done = threading.Event()
        thread = threading.Thread(target=first, args=(0,))
        thread.start()
        second()
        restored = blas_threads()
        done.set()
        thread.join()
        assert restored == 2


class PerThread:
    """A library whose limit is one of the calling thread, as OpenBLAS on OpenMP has it."""

    threading_layer = "openmp"

    def __init__(self) -> None:
        self.local = threading.local()

    def get_num_threads(self) -> int:
        return getattr(self.local, "limit", 4)

    def set_num_threads(self, n_threads: int) -> None:
        self.local.limit = n_threads


def test_a_limit_of_threads_is_set_in_each_of_them(monkeypatch):
    library = PerThread()
    monkeypatch.setattr("musvm._threads._blas", lambda: SimpleNamespace(lib_controllers=[library]))
    together, seen = threading.Barrier(3), []

    def hold(_):
        with one_blas_thread():
            together.wait()
            seen.append(library.get_num_threads())
        seen.append(library.get_num_threads())

    in_threads(3, hold)
    assert sorted(seen) == [1, 1, 1, 4, 4, 4]
    with workers() as team:
        team.each(3, lambda part: seen.append(library.get_num_threads()), piece=1)
    assert seen[6:] == [1, 1, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_has_neither_the_lock_nor_the_limit_of_threads_it_has_not():
    with threadpool_limits(2, user_api="blas"):
        held, done = threading.Event(), threading.Event()

        def hold(_=None):
            with one_blas_thread():
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            # Nothing but an exit status leaves a child, and no test runs twice.
            signal.alarm(30)
            restored = blas_threads() == 2
            with one_blas_thread():
                limited = blas_threads() == 1
            os._exit(0 if restored and limited and blas_threads() == 2 else 1)
        _, status = os.waitpid(child, 0)
        done.set()
        thread.join()
        assert status == 0
        assert blas_threads() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_for_whoever_is_changing_the_limit():
    from musvm import _threads

    held = threading.Event()

    def change():
        with _threads._holders.lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=change)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        with one_blas_thread():
            os._exit(0)
    _, status = os.waitpid(child, 0)
    thread.join()
    assert status == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_may_ask_for_what_another_thread_is_computing():
    """With the lock of functools before Python 3.12 one forked child in a hundred hung."""
    held, done = threading.Event(), threading.Event()

    class Slow:
        @lazy
        def answer(self):
            held.set()
            done.wait()
            return 42

    thread = threading.Thread(target=lambda: Slow().answer)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        done.set()
        os._exit(0 if Slow().answer == 42 else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert status == 0


def test_nothing_in_the_package_computes_under_the_lock_of_a_class():
    package = Path(musvm.__file__).parent
    users = [path.name for path in package.rglob("*.py") if "@cached_property" in path.read_text()]
    assert users == []


def test_a_library_that_is_loaded_later_is_held_as_well(monkeypatch):
    first, later = PerProcess(), PerProcess()
    loaded = [first]
    controller = SimpleNamespace(
        select=lambda user_api: SimpleNamespace(lib_controllers=list(loaded))
    )
    monkeypatch.setattr("musvm._threads.ThreadpoolController", lambda: controller)
    monkeypatch.setitem(sys.modules, "a module", ModuleType("a"))
    with one_blas_thread():
        assert first.limit == 1
    loaded.append(later)
    monkeypatch.setitem(sys.modules, "a module with a library of its own", ModuleType("b"))
    with one_blas_thread():
        assert (first.limit, later.limit) == (1, 1)
    assert (first.limit, later.limit) == (4, 4)


class PerProcess:
    """A library with one limit for all threads."""

    threading_layer = "pthreads"
    limit = 4

    def get_num_threads(self) -> int:
        return self.limit

    def set_num_threads(self, n_threads: int) -> None:
        self.limit = n_threads


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_decision_values_have_the_same_digits_on_any_number_of_threads(kernel, monkeypatch):
    monkeypatch.setattr("musvm.kernels.PIECE_ENTRIES", 20000)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 40)), np.arange(600) % 5
    model = UniversumSVC(kernel=kernel, gamma=0.01, tol=1e-2).fit(X, y)
    found = []
    for n_threads in (1, 2, 4):
        with threadpool_limits(n_threads, user_api="blas"):
            found.append(model.decision_function(X))
    assert all(np.array_equal(values, found[0]) for values in found)
