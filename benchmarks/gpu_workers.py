"""A search by several processes on one GPU, one of which is killed on the way.

    python benchmarks/gpu_workers.py [--quick]

`GridSearchCV` over a pipeline that sends its points to the GPU and fits `UniversumSVC` there: four
C and two Delta on three folds, by one process, then on a Dask cluster of as many workers as are
asked for, all on the same GPU. One of the workers is killed once a few fits have been made; Dask
starts another, and what was lost is made again. Are the errors those of the one process?

Digits 0 to 6 of MNIST are the classes, 7 to 9 the universum, marked by a label of its own. It needs
PyTorch, a GPU, Dask (`distributed`), and MNIST's four files in `mnist` in the data folder.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import distributed
import joblib
import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from _shared import Table, data_file
from gpu import DEVICE, GAMMA, asked_for
from musvm import UniversumSplit, UniversumSVC
from musvm.datasets import load_mnist

UNIVERSUM, N_WORKERS, N_FOLDS, TOL = -1, 3, 3, 1e-3
GRID = {"universumsvc__C": [1.0, 3.0, 10.0, 30.0], "universumsvc__delta": [0.05, 0.1]}
# Fits that were made before a worker is killed.
MADE_BEFORE = 4


class Sent:
    """Points on the GPU; every call leaves a trace, by which fits are counted."""

    def __init__(self, traces: str) -> None:
        self.traces = traces

    def __call__(self, X: np.ndarray) -> torch.Tensor:
        handle, _ = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=self.traces)
        os.close(handle)
        return torch.as_tensor(X, device=DEVICE)


def accuracy(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    known = y != UNIVERSUM
    return float(np.mean(torch.as_tensor(model.predict(X[known])).cpu().numpy() == y[known]))


def search(X: np.ndarray, y: np.ndarray, traces: str, n_jobs: int) -> GridSearchCV:
    model = make_pipeline(
        FunctionTransformer(Sent(traces)),
        UniversumSVC(gamma=GAMMA, universum_label=UNIVERSUM, tol=TOL),
    )
    folds = UniversumSplit(N_FOLDS, universum_label=UNIVERSUM)
    found = GridSearchCV(model, GRID, cv=folds, scoring=accuracy, n_jobs=n_jobs, refit=False)
    return found.fit(X, y)


def kill_one(traces: Path, killed: list[int]) -> None:
    """Kill the process that left a trace last, once there are enough of them."""
    # A fit and its score leave a trace each.
    while len(made := sorted(traces.iterdir(), key=os.path.getmtime)) < 2 * MADE_BEFORE:
        time.sleep(0.02)
    killed.append(int(made[-1].name.split("-")[0]))
    os.kill(killed[0], signal.SIGKILL)


def timed_search(X: np.ndarray, y: np.ndarray, n_jobs: int, *, kill: bool) -> tuple[Any, ...]:
    """Seconds, the search, the processes that took part, and those that were killed."""
    killed: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        killer = threading.Thread(target=kill_one, args=(Path(folder), killed), daemon=True)
        if kill:
            killer.start()
        began = time.perf_counter()
        found = search(X, y, folder, n_jobs)
        took = time.perf_counter() - began
        processes = {name.name.split("-")[0] for name in Path(folder).iterdir()}
    return took, found, len(processes), len(killed)


def main() -> None:
    report, quick = asked_for(
        "gpu-workers", "A search by several processes on one GPU", __doc__, "2,000 images"
    )
    warnings.simplefilter("ignore", UserWarning)  # Dask's, of large arguments
    X, y = load_mnist(data_file("mnist"), return_X_y=True)
    n = 2000 if quick else 20_000
    X, y = X[:n].astype(np.float32), np.where(y[:n] < 7, y[:n], UNIVERSUM)
    torch.zeros(1, device=DEVICE)
    alone = timed_search(X, y, 1, kill=False)
    with (
        distributed.LocalCluster(
            n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        whole = timed_search(X, y, -1, kill=False)
        one_lost = timed_search(X, y, -1, kill=True)
    cells = len(alone[1].cv_results_["params"]) * N_FOLDS
    table = Table(
        f"{cells} fits of {n:,} images",
        ("search", "s", "processes", "killed", "errors that differ"),
        f"RBF, gamma = {GAMMA:g}, to a gap of {TOL:g}; three folds. Every process holds its own "
        "kernel matrix. The seconds of a cluster include the start of PyTorch in its workers.",
    )
    for name, (took, found, processes, killed) in (
        ("one process", alone), (f"{N_WORKERS} workers", whole),
        (f"{N_WORKERS} workers, one killed", one_lost),
    ):  # fmt: skip
        table.add(name, took, processes, killed, n_different(alone[1], found))
    differ = [row[-1] for row in table.rows]
    table.goal("the same errors, with a worker lost", max(differ) == 0 and table.rows[-1][3] == 1,
               f"{max(differ)} of {cells} differ")  # fmt: skip
    report.add(table)
    report.store()


def n_different(one: GridSearchCV, other: GridSearchCV) -> int:
    names = [f"split{k}_test_score" for k in range(N_FOLDS)]
    return sum(int((one.cv_results_[name] != other.cv_results_[name]).sum()) for name in names)


if __name__ == "__main__":
    main()
