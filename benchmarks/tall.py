"""Many points, few columns, a linear kernel: next to LIBLINEAR's machine of Crammer and Singer.

    python benchmarks/tall.py                  # 100,000 x 50 and 1,000,000 x 20, C = 1 and 100
    python benchmarks/tall.py --quick          # 10,000 x 20: does it run?
    python benchmarks/tall.py --limit 600      # seconds that LIBLINEAR gets for one fit

Ten overlapping classes, made by a random generator. Ours is fitted with default settings twice:
without a universum, which is the problem that LIBLINEAR solves too, and with one of a tenth as many
points. LIBLINEAR is given ever smaller tolerances, each time to the end, until its objective is
within 1e-4 of ours or its time is over; what it has reached by then is in the table. Seconds are
wall-clock seconds of one fit: ours may use all cores that it is given, LIBLINEAR uses one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from _shared import Report, Table
from linear import objective
from musvm import UniversumSVC

SIZES = ((100_000, 50), (1_000_000, 20))
COSTS = (1.0, 100.0)
CLASSES, SAME, GOAL = 10, 1e-4, 3.0
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)


def sample(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points around ten centres, their labels, and points around the middle of all."""
    rng = np.random.default_rng(0)
    centres = 0.5 * rng.normal(size=(CLASSES, d))
    y = rng.integers(0, CLASSES, n)
    return centres[y] + rng.normal(size=(n, d)), y, rng.normal(size=(n // 10, d))


def ours(C: float, X: np.ndarray, y: np.ndarray, U: np.ndarray | None) -> tuple[float, Any]:
    began = time.perf_counter()
    model = UniversumSVC(C, kernel="linear", delta=0.1).fit(X, y, universum=U)
    return time.perf_counter() - began, model


def _fit_peer(n: int, d: int, C: float, tol: float, sender: Any) -> None:
    warnings.simplefilter("ignore")
    X, y, _ = sample(n, d)
    began = time.perf_counter()
    model = LinearSVC(
        C=C, multi_class="crammer_singer", fit_intercept=False, tol=tol, max_iter=10**6
    ).fit(X, y)
    seconds = time.perf_counter() - began
    sender.send((seconds, objective(model.coef_, X, y, C)))


def peer(n: int, d: int, C: float, target: float, limit: float) -> tuple[float, float | None, bool]:
    """Seconds of LIBLINEAR to the target, its objective, and whether it got there in time."""
    last: tuple[float, float | None] = (limit, None)
    for tol in TOLERANCES:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=_fit_peer, args=(n, d, C, tol, sender))
        process.start()
        arrived = receiver.poll(limit)
        if arrived:
            last = receiver.recv()
        process.kill()
        process.join()
        if not arrived:
            return limit, last[1], False
        if last[1] is not None and last[1] <= target * (1.0 + SAME):
            return *last, True
    return *last, False


def row(table: Table, n: int, d: int, C: float, limit: float) -> None:
    X, y, U = sample(n, d)
    seconds, model = ours(C, X, y, None)
    with_universum, other = ours(C, X, y, U)
    reached = objective(model.model_.weights, X, y, C)
    peer_seconds, peer_objective, there = peer(n, d, C, reached, limit)
    table.add(
        f"{n:,} x {d}", C, seconds, bool(model.converged_), f"{reached:.7g}",
        f"{'' if there else '> '}{peer_seconds:.1f}",
        "none" if peer_objective is None else f"{peer_objective:.7g}",
        peer_seconds / seconds, with_universum, bool(other.converged_),
        peer_seconds / with_universum,
    )  # fmt: skip
    table.goal(
        f"{n:,} x {d}, C = {C:g}: at least {GOAL:g} times as fast as LIBLINEAR, converged",
        bool(model.converged_ and other.converged_ and peer_seconds >= GOAL * with_universum),
        f"{'' if there else 'more than '}{peer_seconds / seconds:.1f} without and "
        f"{peer_seconds / with_universum:.1f} with a universum",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="10,000 points of 20 columns")
    parser.add_argument("--limit", type=float, default=200.0, help="seconds for LIBLINEAR")
    arguments = parser.parse_args()
    report = Report("tall", "Many points, few columns", quick=arguments.quick)
    table = Table(
        "Linear kernel, ten classes",
        ("points", "C", "ours s", "converged", "objective", "LIBLINEAR s", "its objective",
         "ratio", "with universum s", "converged there", "ratio to LIBLINEAR without"),
        f"Wall-clock seconds of one fit, on {len(os.sched_getaffinity(0))} cores. LIBLINEAR knows "
        "no universum: the last ratio compares our larger problem with its smaller one.",
    )  # fmt: skip
    for n, d in ((10_000, 20),) if arguments.quick else SIZES:
        for C in COSTS:
            row(table, n, d, C, arguments.limit)
            print(table.rows[-1], flush=True)
    report.add(table)
    report.store()


if __name__ == "__main__":
    main()
