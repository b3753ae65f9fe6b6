"""What does choosing the parameters cost?

    python benchmarks/selection.py [--quick] [--only search|recipe|folds|memory]

search   The paper's whole two-step search on the traffic signs, 8 values of C, then 4 of Delta, by
         every criterion: seconds, and in units of the Gram matrix; and the default search.
recipe   The same search as the paper states it, in the same table: eq. (5) with every artificial
         sample by an interior-point solver, and eq. (8) by the inverse of the full matrix H. Most
         of its time is Clarabel's, so one value of Delta may stand for all: see `--recipe-deltas`.
folds    A search by 3 folds over four C and two Delta, RBF, with 20,000 training points of ten
         classes and 5,000 of the universum: seconds next to the sum of its fits, and peak memory.
memory   The peak memory of a search by span with 1000 points of 10 classes and as many of the
         universum.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from _memory import data as synthetic_data
from _shared import Report, Sample, Table, many_digits, traffic_signs
from core import gram_matrix, literal_solution
from musvm import UniversumSVC, UniversumSVCCV
from musvm.search.steps import Steps

CS = np.logspace(-4, 3, 8)
DELTAS = (0.0, 0.01, 0.05, 0.1)
PAPER = {"Cs": CS, "deltas": DELTAS, "universum_weights": ["balanced"], "n_steps": 2}
CRITERIA = ("span", "span-2016", "loo-estimate", 5, "loo")
COLUMNS = ["criterion", "cells", "seconds", "in Gram matrices", "of 5-fold CV", "second opinion",
           "C", "universum", "Δ", "error", "worst gap"]  # fmt: skip


def name_of(criterion: Any) -> str:
    return f"{criterion}-fold CV" if isinstance(criterion, int) else criterion


def processor_time(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median of the seconds that the processor spends, and the last result."""
    seconds: list[float] = []
    for _ in range(repeats):
        began = time.process_time()
        result = function()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds), result


@contextmanager
def clocked_opinions() -> Iterator[list[float]]:
    """Processor seconds that the second opinions on finalists take."""
    seconds: list[float] = []
    opinion = Steps.opinion

    def clocked(*arguments: Any) -> Any:
        began = time.process_time()
        result = opinion(*arguments)
        seconds.append(time.process_time() - began)
        return result

    Steps.opinion = clocked
    yield seconds
    Steps.opinion = opinion


def search(report: Report, arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    sample = traffic_signs(20, 60) if quick else traffic_signs()
    size = f"n = {len(sample.X)}, m = {len(sample.universum)}, L = 3, linear kernel"
    with threadpool_limits(1):
        gram_time, gram = processor_time(lambda: gram_matrix(sample.points, "linear"), 15)
        paper = Table(
            f"The paper's two-step search on the traffic signs: {size}",
            COLUMNS,
            "`UniversumSVCCV.fit` as a whole, validation and final fit included; C in 1e-4..1e3, "
            "Δ in 0, 0.01, 0.05, 0.1, C*/C balanced. Seconds are medians of the processor's, on "
            f"one thread; one Gram matrix takes {1000 * gram_time:.1f} ms. `second opinion` is "
            "what judging the two finalists takes of them.",
        )
        seconds = {c: add_search(paper, sample, gram_time, c, PAPER, 5) for c in CRITERIA}
        if arguments.only != "search":
            add_recipe(paper, sample, gram, gram_time, arguments.recipe_deltas)
        relate_to_folds(paper, seconds[5])
        add_goals(paper, seconds, gram_time)
        report.add(paper)
        default = Table(
            f"The default grid and steps on the same signs: {size}",
            COLUMNS,
            "Seven C by the scale of the kernel, four C*/C and three Δ in three steps, which keeps "
            "more of what a universum gains (`rules.py`), for about four times as many cells. "
            "Once each.",
        )
        cost = {
            c: add_search(default, sample, gram_time, c, {}, 1) for c in ("span", "loo-estimate", 5)
        }
        relate_to_folds(default, cost[5])
        report.add(default)


def add_search(
    table: Table, sample: Sample, gram_time: float, criterion: Any, settings: Any, repeats: int
) -> float:
    """A row for a search, and its seconds."""
    model = UniversumSVCCV(kernel="linear", criterion=criterion, **settings)
    with clocked_opinions() as opinions:
        seconds, model = processor_time(
            lambda: model.fit(sample.X, sample.y, universum=sample.universum), repeats
        )
    best, results = model.best_params_, model.results_
    table.add(
        name_of(criterion), len(results["C"]), seconds, seconds / gram_time, float("nan"),
        statistics.median(opinions), best["C"], "yes" if model.universum_helps_ else "no",
        best["delta"], model.best_score_, float(results["relative_gap"].max()),
    )  # fmt: skip
    return seconds


def relate_to_folds(table: Table, seconds: float) -> None:
    place = COLUMNS.index("of 5-fold CV")
    table.rows = [(*row[:place], row[2] / seconds, *row[place + 1 :]) for row in table.rows]


def add_goals(table: Table, seconds: dict[Any, float], gram_time: float) -> None:
    in_grams, opinion = seconds["span"] / gram_time, table.rows[0][COLUMNS.index("second opinion")]
    faster, slower = seconds[5] / seconds["span"], seconds["loo"] / seconds[5]
    without = seconds[5] / (seconds["span"] - opinion)
    table.goal("span costs at most 33 Gram matrices", in_grams <= 33, f"{in_grams:.1f}")
    table.goal(
        "span is at least 3 times faster than 5-fold CV", faster >= 3,
        f"{faster:.1f} times, {without:.1f} without the second opinion: a bound is no error, so "
        "that the figures shown are those of a leave-one-out estimate for both finalists",
    )  # fmt: skip
    table.goal("loo costs at most 2.6 times 5-fold CV", slower <= 2.6, f"{slower:.1f} times")


# ---------------------------------------------------------------------------------------------
# The paper's recipe


def add_recipe(
    table: Table, sample: Sample, gram: np.ndarray, gram_time: float, n_deltas: int
) -> None:
    """A row for eq. (5) and eq. (8) as they stand, extrapolated if not every Δ is computed."""
    n = len(sample.X)
    plain = Sample(sample.X, sample.y, sample.universum[:0])
    step_a = [recipe_cell(gram[:n, :n], plain, float(C), 0.0) for C in CS]
    errors = [error for _, error in step_a]
    C = float(CS[int(np.argmin(errors))])  # ties: the smallest C, as the authors do
    step_b = [recipe_cell(gram, sample, C, delta) for delta in DELTAS[:n_deltas]]
    best = int(np.argmin([error for _, error in step_b]))
    total = sum(s for s, _ in step_a) + np.mean([s for s, _ in step_b]) * len(DELTAS)
    left = len(DELTAS) - n_deltas
    computed = f", {left} of {len(DELTAS)} Δ extrapolated" if left else ""
    table.add(
        f"paper's recipe{computed}", len(CS) + len(DELTAS), total, total / gram_time, float("nan"),
        0.0, C, "yes", DELTAS[best], step_b[best][1], float("nan"),
    )  # fmt: skip


def recipe_cell(gram: np.ndarray, sample: Sample, C: float, delta: float) -> tuple[float, float]:
    """Seconds and eq. (8) of one cell."""
    began = time.process_time()
    samples, alpha = literal_solution(gram, sample, C, delta)
    own = alpha[np.arange(len(alpha)), samples.label]
    # An interior-point solver comes near its bounds without meeting them.
    type_2 = own >= (1.0 - 1e-4) * samples.cap
    type_1 = np.flatnonzero((own > 1e-6 * own.max()) & ~type_2)
    F = gram[np.ix_(samples.point, samples.point)] @ alpha
    spans = full_h_spans(gram[np.ix_(samples.point[type_1], samples.point[type_1])], alpha[type_1])
    training = type_1 < len(sample.X)
    wrong = spans >= np.einsum("il,il->i", alpha[type_1], F[type_1])
    count = np.sum(wrong & training) + np.sum(type_2[: len(sample.X)])
    return time.process_time() - began, float(count / len(sample.X))


def full_h_spans(K: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """S_t^2 of eq. (7), from the inverse of H.

    Artificial samples share their points, which makes H singular; the smallest ridge that allows
    an inverse stands in for what the paper leaves open. The block (H^-1)_tt has rank L - 1, so
    its inverse is a pseudo-inverse.
    """
    n, L = alpha.shape
    ridge = 1e-8 * np.trace(K) / max(n, 1)
    A = np.kron(np.eye(n), np.ones((1, L)))
    H = np.block([[np.kron(K + ridge * np.eye(n), np.eye(L)), A.T], [A, np.zeros((n, n))]])
    inverse = scipy.linalg.inv(H, overwrite_a=True, check_finite=False)
    blocks = [inverse[t * L : t * L + L, t * L : t * L + L] for t in range(n)]
    return np.array([a @ np.linalg.pinv(B) @ a for a, B in zip(alpha, blocks, strict=True)])


# ---------------------------------------------------------------------------------------------
# Beyond the Gram matrix


def folds(report: Report, arguments: argparse.Namespace) -> None:
    n, m = (3500, 500) if arguments.quick else (20_000, 5_000)
    table = Table(
        f"A search by 3 folds: {n:,} digits of ten classes, {m:,} letters as universum, RBF",
        ["cells", "fits", "seconds", "processor s", "fits alone, processor s", "ratio", "peak GB",
         "error"],
        "C in 0.1, 1, 10, 100 and Δ in 0, 0.1, in the paper's two steps, one worker, "
        "`cache_size` as it is by default; in a process of its own. `fits alone` are the same fits "
        "by `UniversumSVC`, one after the other, each from nothing and without its test points; "
        "the last of them is that of the model chosen, to all points. The peak is that of the "
        "search.",
    )  # fmt: skip
    script = [sys.executable, __file__, "--measure-folds", json.dumps({"n": n, "m": m})]
    run = subprocess.run(script, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(run.stdout.splitlines()[-1])
    ratio = found["processor"] / found["alone"]
    table.add(found["cells"], found["fits"], found["seconds"], found["processor"], found["alone"],
              ratio, found["peak"], found["error"])  # fmt: skip
    table.goal("within 4 GB", found["peak"] <= 4.0, f"{found['peak']:.2f} GB")
    table.goal("at most 1.2 times the sum of its fits", ratio <= 1.2, f"{ratio:.2f} times")
    report.add(table)


def measure_folds(n: int, m: int) -> dict[str, float]:
    sample = many_digits(n, m)
    began, processor = time.perf_counter(), time.process_time()
    search = UniversumSVCCV(
        [0.1, 1.0, 10.0, 100.0], gammas=[0.02], deltas=(0.0, 0.1), universum_weights=["balanced"],
        criterion=3, n_steps=2,
    ).fit(sample.X, sample.y, universum=sample.universum)  # fmt: skip
    found = {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - processor,
        "peak": peak_gigabytes(),
        "error": search.best_score_,
        "cells": len(search.results_["C"]),
        "fits": 3 * len(search.results_["C"]) + 1,
    }
    parts = [train for train, _ in StratifiedKFold(3).split(sample.X, sample.y)]
    wanted = [(params, rows) for params in search.results_["params"] for rows in parts]
    wanted.append((search.best_params_, np.arange(n)))
    found["alone"] = sum(fit_alone(sample, params, rows) for params, rows in wanted)
    return found


def fit_alone(sample: Sample, params: dict[str, Any], rows: np.ndarray) -> float:
    """Processor seconds of a fit to some of the training points and all of the universum."""
    universum = sample.universum if params["universum_weight"] != 0 else None
    X, y = sample.X[rows], sample.y[rows]
    began = time.process_time()
    UniversumSVC(**params).fit(X, y, universum=universum)
    return time.process_time() - began


# ---------------------------------------------------------------------------------------------
# Memory


def memory(report: Report, arguments: argparse.Namespace) -> None:
    M = 400 if arguments.quick else 2000
    table = Table(
        f"Peak memory of a search by span: {M // 2} points of 10 classes, as many of the universum",
        ["kernel", "before GB", "peak GB", "seconds"],
        "Resident size of a process of its own, Python and all libraries included; 8 values of C, "
        "4 of Δ.",
    )
    for kernel in ("linear", "rbf"):
        script = [sys.executable, __file__, "--measure", json.dumps({"M": M, "kernel": kernel})]
        run = subprocess.run(script, check=True, capture_output=True, text=True)
        found = json.loads(run.stdout.splitlines()[-1])
        table.add(kernel, found["before"], found["peak"], found["seconds"])
    most = max(row[2] for row in table.rows)
    table.goal("within 2 GB", most <= 2.0, f"{most:.2f} GB")
    report.add(table)


def measure(M: int, kernel: str) -> dict[str, float]:
    X, y, universum = synthetic_data(M, 10)
    before = peak_gigabytes()
    began = time.perf_counter()
    UniversumSVCCV(CS, kernel=kernel, deltas=DELTAS).fit(X, y, universum=universum)
    seconds = time.perf_counter() - began
    return {"before": before, "peak": peak_gigabytes(), "seconds": seconds}


def peak_gigabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


# ---------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small problems: does it run?")
    parser.add_argument(
        "--only", choices=["search", "recipe", "folds", "memory"], help="one question"
    )
    parser.add_argument(
        "--recipe-deltas",
        type=int,
        default=len(DELTAS),
        help="values of Δ that the recipe computes",
    )
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--measure-folds", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # The gap that was reached is a column of the table.
    warnings.filterwarnings("ignore", message=".* did not reach tol")
    if arguments.measure:
        print(json.dumps(measure(**arguments.measure)))
        return
    if arguments.measure_folds:
        print(json.dumps(measure_folds(**arguments.measure_folds)))
        return
    for name, run in (("search", search), ("folds", folds), ("memory", memory)):
        if arguments.only in (None, name) or (arguments.only == "recipe" and name == "search"):
            report = Report(f"selection-{name}", "Choosing the parameters", quick=arguments.quick)
            run(report, arguments)
            report.store()


if __name__ == "__main__":
    main()
