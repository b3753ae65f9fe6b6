"""A search on a cluster that joblib knows gives what a serial search gives, to the last digit.

`musvm` has no code for clusters. These tests hold joblib's backends, and that every task fixes
its own number of BLAS threads, to that promise.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

from musvm import UniversumSVCCV
from musvm.search import run
from musvm.search.pool import MAX_LOSSES, Pool

rng = np.random.default_rng(2)
N, M = 90, 200  # large enough for joblib to send the Gram matrix by itself
Y = np.arange(N) % 3
X = 1.2 * rng.normal(size=(3, 8))[Y] + rng.normal(size=(N, 8))
U = rng.normal(size=(M, 8))


def fitted(**parameters) -> UniversumSVCCV:
    search = UniversumSVCCV([0.1, 1.0, 10.0], gammas=[0.05, 0.2], deltas=[0, 0.1], **parameters)
    return search.fit(X, Y, universum=U)


@cache
def serial(criterion) -> UniversumSVCCV:
    """What all clusters are compared with."""
    return fitted(criterion=criterion)


def assert_identical(found: UniversumSVCCV, expected: UniversumSVCCV) -> None:
    tables = [pd.DataFrame(s.results_).drop(columns="seconds") for s in (found, expected)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert np.array_equal(found.left_out_margins_, expected.left_out_margins_)
    assert np.array_equal(found.best_estimator_.dual_coef_, expected.best_estimator_.dual_coef_)


@pytest.fixture(params=["span", "loo-estimate", 3], ids=str)
def criterion(request):
    return request.param


@pytest.fixture(scope="module", params=[1, 2], ids=["one thread", "two threads"])
def dask_client(request):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with warnings.catch_warnings():
        # Of Dask's own making, and none of our business.
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=request.param, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.filterwarnings("ignore::UserWarning:distributed")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_dask(dask_client, criterion):
    with joblib.parallel_config(backend="dask"):
        found = fitted(criterion=criterion)
    assert_identical(found, serial(criterion))


def killing_one_worker(folder: Path) -> Callable[..., Any]:
    """`fit_cell`, which ends the first worker process that computes its fifth cell, at once."""
    original, searching = run.fit_cell, os.getpid()

    def fit_cell(*arguments: Any) -> Any:
        cells = folder / f"{os.getpid()}"
        cells.mkdir(exist_ok=True)
        (cells / str(len(list(cells.iterdir())))).touch()
        if len(list(cells.iterdir())) == 5 and os.getpid() != searching:
            try:
                (folder / "killed").mkdir()
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    return fit_cell


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("dask_client", [1], indirect=True, ids=["one thread"])
@pytest.mark.parametrize("criterion", ["loo-estimate", 3], ids=str)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
@pytest.mark.filterwarnings("ignore::UserWarning:distributed")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_that_is_killed_changes_nothing(dask_client, criterion, tmp_path, monkeypatch):
    expected = serial(criterion)
    n_workers = len(dask_client.scheduler_info()["workers"])
    monkeypatch.setattr(run, "fit_cell", killing_one_worker(tmp_path))
    with joblib.parallel_config(backend="dask"):
        found = fitted(criterion=criterion)
    assert (tmp_path / "killed").exists(), "no worker was killed"
    assert_identical(found, expected)
    dask_client.wait_for_workers(n_workers)


def test_tasks_that_are_lost_again_and_again_are_given_up():
    n_calls = 0

    def lost() -> None:
        nonlocal n_calls
        n_calls += 1
        raise CancelledError

    with Pool(None) as pool, pytest.raises(CancelledError):
        list(pool.run(lost, [()]))
    assert n_calls == 1 + MAX_LOSSES


def done(tasks) -> list:
    return [function(*arguments) for function, arguments, _ in tasks]


def test_a_result_that_comes_twice_counts_once(monkeypatch):
    """As Dask may send it: done by a worker that died afterwards, and again by another."""

    def twice(tasks):
        (first, x), second = done(tasks)
        return iter([(first, x), (first, "again"), second])

    with Pool(None) as pool:
        monkeypatch.setattr(pool, "_parallel", twice)
        assert list(pool.run(str, [("x",), ("y",)])) == [(0, "x"), (1, "y")]
        monkeypatch.undo()


def test_a_result_of_earlier_tasks_is_not_taken_for_one_of_later_tasks(monkeypatch):
    """As it may arrive from a worker that was given up."""
    known: list = []

    def late(tasks):
        earlier = known.copy()
        known.extend(done(tasks))
        return iter(earlier + known[len(earlier) :])

    with Pool(None) as pool:
        monkeypatch.setattr(pool, "_parallel", late)
        assert list(pool.run(str, [("a",), ("b",)])) == [(0, "a"), (1, "b")]
        assert list(pool.run(str, [("x",), ("y",)])) == [(0, "x"), (1, "y")]
        monkeypatch.undo()


@pytest.fixture(scope="module")
def ray_cluster():
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    joblib_ray = pytest.importorskip("ray.util.joblib", reason="Ray is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        joblib_ray.register_ray()
        yield
        ray.shutdown()


@pytest.mark.usefixtures("ray_cluster", "two_blas_threads")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ray(criterion):
    with joblib.parallel_config(backend="ray"):
        found = fitted(criterion=criterion)
    assert_identical(found, serial(criterion))
