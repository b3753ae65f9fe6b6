"""Does every problem converge, how fast next to its peers, and are the labels those of the optimum?

    python benchmarks/convergence.py --jobs 2                 # all data sets, some hours
    python benchmarks/convergence.py --data wine vehicle      # some of them
    python benchmarks/convergence.py --quick                  # iris and wine, C = 1 and 100
    python benchmarks/convergence.py --every 7                # one case in seven
    python benchmarks/convergence.py --log FILE               # what is in FILE is not run again
    python benchmarks/convergence.py --log FILE --clock       # what misses a goal, by the clock

Every data set raw, with each feature in 0..1 and standardised; kernels linear, RBF with gamma
'scale' and 1, polynomial of degree 3; C from 1e-4 to 1e4; without a universum, and with one or two
classes as universum at Delta = 0 and 0.1 (where three classes or more remain), or averages of
training points of different classes where no class can be spared. Default settings throughout.

peer     `LinearSVC(multi_class="crammer_singer")` for the linear kernel, `SVC` for all others, with
         the universum as one more class
path     the seconds of the fastest of the paths that `solver=` names, each given as long as "auto"
         took; where none is as fast, those of "auto"
differ   share of the labels of the training points that differ from those at a tolerance of 1e-8,
         in percent; not compared where the default fit takes more than SLOW seconds, or where that
         tolerance is out of reach and leaves a larger gap than the default did. Universum
         points lie between the classes by design, at Delta = 0 on the very boundary: their labels
         are no one's. Nor are those of training points on which two classes tie at the optimum, as
         they do where a universum makes two weight vectors the same, or all of them zero: at the
         tight tolerance a lead below TIE of the median lead, or below NOTHING, is a tie (leads of 1
         cost nothing; those of a tie fall with the tolerance, to 1e-9 and less)
certified  labels that the certificate covers (their lead exceeds sqrt(2 gap k(x, x))); all of these
         must be the same

Seconds are those of the processor, on one thread of BLAS, of one fit each: other work on the
machine does not count. What takes more than MOST_SECONDS of these, or MOST_TIMES as long as its
peer, is fitted once more by `--clock`, and its peer too, with nothing beside it, on all cores and
threads, and the time is that of the clock. Every case is a line of JSON in the log, from which the
tables are made; the first line, and one wherever another machine or other sources go on, says what
it was measured with. Of a sample of the cases only the summary is stored.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_svmlight_file,
    load_wine,
)
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from _shared import RESULTS, Report, Table, characters, data_file, machine, traffic_signs
from musvm import UniversumSVC
from musvm.universum import random_average

LOADERS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
LIBSVM = ("vehicle", "vowel", "segment", "satimage", "letter")
DATA = (*LOADERS, "vehicle", "vowel", "signs", "characters", "segment", "satimage", "letter")
MOST_POINTS = 3000
SCALINGS = {"raw": None, "min-max": MinMaxScaler, "standardised": StandardScaler}
KERNELS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "rbf scale": {"kernel": "rbf"},
    "rbf 1": {"kernel": "rbf", "gamma": 1.0},
    "poly 3": {"kernel": "poly", "degree": 3},
}
COSTS = (1e-4, 1e-2, 1.0, 1e2, 1e4)
DELTAS = (0.0, 0.1)
TIGHT, SLOW, QUICK, TIE, NOTHING = 1e-8, 10.0, 0.5, 1e-5, 1e-7
NOT_COMPARED = None, None, 0
PATHS = ("gram", "working-set", "interior", "linear")
# Goals: seconds of a fit, times the peer's plus a tenth of a second and their median, percent of
# the labels, times the fastest path and in which share of the cases.
MOST_SECONDS, MOST_TIMES, MOST_TYPICAL, MOST_DIFFER = 5.0, 10.0, 3.0, 0.1
MOST_OF_BEST, IN_MOST = 1.5, 0.95
COLUMNS = (
    "scaling", "kernel", "universum", "delta", "C", "seconds", "peer s", "path s", "steps", "gap",
    "converged", "differ %", "certified %", "wrong certificates",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Points, their labels, a universum, and what `UniversumSVC` is told."""

    scaling: str
    kernel: str
    universum: str
    X: np.ndarray
    y: np.ndarray
    U: np.ndarray
    C: float
    delta: float

    def model(self, **settings: Any) -> UniversumSVC:
        return UniversumSVC(self.C, **KERNELS[self.kernel], delta=self.delta, **settings)

    def fit(self, **settings: Any) -> UniversumSVC:
        return self.model(**settings).fit(self.X, self.y, universum=self.U)

    def fit_peer(self) -> Any:
        X = np.vstack([self.X, self.U])
        y = np.concatenate([self.y, np.full(len(self.U), self.y.max() + 1)])
        if self.kernel == "linear":
            peer = LinearSVC(C=self.C, multi_class="crammer_singer", fit_intercept=False)
        else:
            peer = SVC(C=self.C, **KERNELS[self.kernel])
        return peer.fit(X, y)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Points and labels 0..L-1, at most MOST_POINTS of them, drawn at random."""
    if name in LOADERS:
        X, y = LOADERS[name](return_X_y=True)
    elif name in LIBSVM:
        with gzip.open(data_file(f"libsvm/{name}.scale.gz")) as file:
            X, y = load_svmlight_file(file)
        X = X.toarray()
    else:
        sample = traffic_signs(100, 100) if name == "signs" else characters(5, 60, 60)
        X, extra = sample.points, np.full(len(sample.universum), sample.n_classes)
        y = np.concatenate([sample.y, extra])
    order = np.random.RandomState(0).permutation(len(y))[:MOST_POINTS]
    return X[order], np.unique(y[order], return_inverse=True)[1]


def universa(X: np.ndarray, y: np.ndarray) -> Iterator[tuple[str, Any, Any, np.ndarray]]:
    """No universum, one class of it, two; or averages where fewer than two classes would remain."""
    L = int(y.max()) + 1
    yield "none", X, y, X[:0]
    for spared in (1, 2):
        if L - spared >= 2:
            inside = y < L - spared
            yield f"{spared} of {L} classes", X[inside], y[inside], X[~inside]
    if L <= 3:
        averages = random_average(X, y, min(len(y), 300), random_state=0)
        yield "averages", X, y, averages


def cases(name: str, costs: tuple[float, ...]) -> Iterator[Case]:
    X, y = load(name)
    for scaling, scaler in SCALINGS.items():
        scaled = X if scaler is None else scaler().fit_transform(X)
        for universum, Xt, yt, U in universa(scaled, y):
            for kernel, C in itertools.product(KERNELS, costs):
                for delta in DELTAS if len(U) else DELTAS[:1]:
                    yield Case(scaling, kernel, universum, Xt, yt, U, C, delta)


def measure(case: Case) -> tuple:
    """One row of the table; what is quick is timed twice, since a first fit loads libraries."""
    seconds, model = timed_fit(case)
    if seconds < QUICK:
        seconds = min(seconds, timed_fit(case)[0])
    began = time.process_time()
    case.fit_peer()
    peer_seconds = time.process_time() - began
    return (
        case.scaling, case.kernel, case.universum, case.delta, f"{case.C:g}", seconds,
        peer_seconds, fastest_path(case, seconds), model.n_iter_,
        f"{model.dual_gap_ / model.objective_:.1e}", bool(model.converged_),
        *(labels(case, model) if seconds <= SLOW else NOT_COMPARED),
    )  # fmt: skip


def timed_fit(case: Case, **settings: Any) -> tuple[float, UniversumSVC]:
    began = time.process_time()
    model = case.fit(**settings)
    return time.process_time() - began, model


class OverTime(BaseException):
    """A fit is no longer of interest; libraries that handle every `Exception` let it pass."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise OverTime once the process has computed for so long."""

    def stop(*_: Any) -> None:
        raise OverTime

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def fastest_path(case: Case, seconds: float) -> float:
    """Seconds of the fastest path, none of which gets more than it takes to be faster."""
    best = seconds
    for path in PATHS:
        if path == "linear" and case.kernel != "linear":
            continue
        try:
            with at_most(best):
                taken, model = timed_fit(case, solver=path)
            best = min(best, taken) if model.converged_ else best
        except (OverTime, MemoryError):
            continue
    return best


def labels(case: Case, model: UniversumSVC) -> tuple[float | None, float | None, int]:
    """Percent of labels that differ from the optimum's, percent certified, wrongly certified."""
    tight = case.fit(tol=TIGHT)
    if tight.dual_gap_ > model.dual_gap_:
        return NOT_COMPARED
    at_optimum = leads(tight, case.X)
    tie = at_optimum <= max(TIE * np.median(at_optimum), NOTHING)
    differ = model.predict(case.X) != tight.predict(case.X)
    reach = np.sqrt(2.0 * model.dual_gap_ * squared_lengths(model, case.X))
    certified = leads(model, case.X) > reach
    wrong = int((differ & certified).sum())
    return 100.0 * float((differ & ~tie).mean()), 100.0 * float(certified.mean()), wrong


def leads(model: UniversumSVC, points: np.ndarray) -> np.ndarray:
    """By how much the first class of every point leads the second."""
    values = model.decision_function(points)
    if values.ndim == 1:
        return np.abs(values)
    ordered = np.sort(values, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def squared_lengths(model: UniversumSVC, points: np.ndarray) -> np.ndarray:
    """k(x, x) of every point."""
    kernel = model.model_.kernel
    squares = np.square(points).sum(axis=1)
    if kernel.name == "rbf":
        return np.ones(len(points))
    return squares if kernel.name == "linear" else (kernel.gamma * squares) ** kernel.degree


def judge(table: Table, rows: list[dict[str, Any]]) -> None:
    """The goals, over rows of any number of tables."""
    n = len(rows)
    n_converged = sum(row["converged"] for row in rows)
    table.goal("every fit converges", n_converged == n, f"{n_converged} of {n}")
    judge_seconds(table, "", [row["seconds"] for row in rows])
    ratios = [ratio_of(row) for row in rows]
    judge_ratios(table, "", ratios)
    typical = statistics.median(ratios)
    table.goal(
        f"at most {MOST_TYPICAL:g} times in the median", typical <= MOST_TYPICAL, f"{typical:.2f}"
    )
    near = sum(row["seconds"] <= MOST_OF_BEST * row["path s"] + 0.01 for row in rows) / n
    table.goal(
        f"auto within {MOST_OF_BEST:g} times the fastest path (and 0.01 s) in {IN_MOST:.0%}",
        near >= IN_MOST, f"{near:.1%}",
    )  # fmt: skip
    compared = [row["differ %"] for row in rows if row["differ %"] is not None]
    n_apart = sum(share > MOST_DIFFER for share in compared)
    table.goal(
        f"at most {MOST_DIFFER:g} % of the labels differ from the optimum's", n_apart == 0,
        f"more in {n_apart} of {len(compared)} compared; at most {max(compared):.2f} %, "
        f"{statistics.mean(compared):.3f} % in the mean",
    )  # fmt: skip
    n_wrong = sum(row["wrong certificates"] for row in rows)
    table.goal("every certified label is the optimum's", n_wrong == 0, f"{n_wrong} are not")


def judge_seconds(table: Table, which: str, seconds: list[float]) -> None:
    """The goal about seconds, `which` says of what clock and of which fits."""
    n_slow = sum(taken > MOST_SECONDS for taken in seconds)
    table.goal(
        f"none takes more than {MOST_SECONDS:g} s{which}", n_slow == 0,
        f"{n_slow} of {len(seconds)} do; the slowest takes {max(seconds, default=0.0):.1f} s",
    )  # fmt: skip


def judge_ratios(table: Table, which: str, ratios: list[float]) -> None:
    """The goal about the peer, `which` says of what clock and of which fits."""
    n_above = sum(ratio > MOST_TIMES for ratio in ratios)
    table.goal(
        f"none takes more than {MOST_TIMES:g} times its peer and 0.1 s{which}", n_above == 0,
        f"{n_above} of {len(ratios)} do; at most {max(ratios, default=0.0):.1f}",
    )  # fmt: skip


def ratio_of(row: dict[str, Any]) -> float:
    """Seconds of the processor to those of the peer."""
    return float(row["seconds"] / (row["peer s"] + 0.1))


def clock_ratio(row: dict[str, Any]) -> float:
    """The same by the clock."""
    return float(row["clock s"] / (row["peer clock s"] + 0.1))


def is_slow(row: dict[str, Any]) -> bool:
    return bool(row["seconds"] > MOST_SECONDS)


def is_far(row: dict[str, Any]) -> bool:
    """Whether the peer is much faster."""
    return ratio_of(row) > MOST_TIMES


def measured(name: str, number: int, case: Case) -> dict[str, Any]:
    """A line of the log."""
    warnings.simplefilter("ignore")  # what was reached is in the tables
    return {"data": name, "case": number, **dict(zip(COLUMNS, measure(case), strict=True))}


def run(
    names: tuple[str, ...], costs: tuple[float, ...], jobs: int, log: Path, every: int = 1
) -> None:
    """Add to the log what is not in it."""
    done = {(line["data"], line["case"]) for line in lines_of(log)}
    tasks = [
        joblib.delayed(measured)(name, number, case)
        for name in names
        for number, case in enumerate(cases(name, costs))
        if number % every == 0 and (name, number) not in done
    ]
    # The largest data sets last: what is cut off is a whole data set, not a bit of each.
    with (
        threadpool_limits(1, user_api="blas"),
        joblib.parallel_config("loky", inner_max_num_threads=1),
        log.open("a", encoding="utf-8") as file,
    ):
        parallel = joblib.Parallel(jobs, return_as="generator_unordered", pre_dispatch=2 * jobs)
        conditions = machine() | ({"cases": f"one in {every}"} if every > 1 else {})
        if conditions not in machines_of(log):
            print(json.dumps({"machine": conditions}), file=file, flush=True)
        for count, line in enumerate(parallel(tasks), 1):
            print(json.dumps(line), file=file, flush=True)
            print(f"\r{count} of {len(tasks)} fits", end="", file=sys.stderr, flush=True)


def lines_of(log: Path) -> list[dict[str, Any]]:
    """The cases of a log."""
    return [line for line in _read(log) if "seconds" in line]


def clocked(log: Path) -> list[dict[str, Any]]:
    """The cases of a log that were fitted by the clock too, with what it says."""
    of_the_clock = {
        (line["data"], line["case"]): line for line in _read(log) if "peer clock s" in line
    }
    return [
        line | of_the_clock[line["data"], line["case"]]
        for line in lines_of(log)
        if (line["data"], line["case"]) in of_the_clock
    ]


def machines_of(log: Path) -> list[dict[str, str]]:
    """What the cases of a log were measured on and with."""
    return [line["machine"] for line in _read(log) if "machine" in line]


def _read(log: Path) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def facts(log: Path) -> dict[str, str]:
    """Every fact about the machines of a log, once."""
    found: dict[str, list[str]] = {}
    for one in machines_of(log):
        for key, value in one.items():
            found.setdefault(key, []).append(value)
    return {key: "; ".join(dict.fromkeys(values)) for key, values in found.items()}


def run_by_the_clock(log: Path) -> None:
    """Add to the log what the clock says of fits that miss a goal, each in a process of its own."""
    done = {(line["data"], line["case"]) for line in clocked(log)}
    slow = [line for line in lines_of(log) if is_slow(line) or is_far(line)]
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_THREADS")}
    with log.open("a", encoding="utf-8") as file:
        for line in slow:
            name, number = line["data"], line["case"]
            if (name, number) in done:
                continue
            command = [sys.executable, __file__, "--one", name, str(number)]
            out = subprocess.run(command, env=environment, capture_output=True, check=True)
            taken, of_peer = map(float, out.stdout.split())
            told = {"data": name, "case": number, "clock s": taken, "peer clock s": of_peer}
            print(json.dumps(told), file=file, flush=True)
            print(told, flush=True)


def fit_by_the_clock(name: str, number: int) -> tuple[float, float]:
    """Seconds of one fit of a process that has made another one before, and of its peer."""
    warnings.simplefilter("ignore")
    case = next(itertools.islice(cases(name, COSTS), number, None))
    warm_up = replace(case, X=np.eye(4), y=np.arange(4) % 2, U=np.ones((1, 4)))
    warm_up.fit()
    warm_up.fit_peer()
    began = time.perf_counter()
    case.fit()
    ended = time.perf_counter()
    case.fit_peer()
    return ended - began, time.perf_counter() - ended


def report_on(log: Path, quick: bool) -> None:
    """A page for every data set, and the summary."""
    lines = sorted(lines_of(log), key=lambda line: (line["data"], line["case"]))
    summary = Table(
        "All data sets",
        ("data", "fits", "converged", "slowest s", "median s", "median ratio", "most differ %"),
        "Ratios are to the peer's seconds plus 0.1. Labels of points on which classes tie at the "
        "optimum are no one's, and not compared.",
    )
    is_sample = "cases" in facts(log)
    for name in DATA:
        rows = [line for line in lines if line["data"] == name]
        if not rows:
            continue
        if not is_sample:
            _store_cases(name, rows, log, quick)
        seconds = [row["seconds"] for row in rows]
        summary.add(
            name, len(rows), sum(row["converged"] for row in rows), max(seconds),
            statistics.median(seconds),
            statistics.median(ratio_of(row) for row in rows),
            max(row["differ %"] for row in rows if row["differ %"] is not None),
        )  # fmt: skip
    report = Report(f"convergence{'-sample' * is_sample}", "Convergence: summary", quick=quick)
    report.machine = facts(log)
    judge(summary, lines)
    by_the_clock, which = clocked(log), " by the clock, of those above that, on all cores"
    slow = [row["clock s"] for row in by_the_clock if is_slow(row)]
    far = [clock_ratio(row) for row in by_the_clock if is_far(row)]
    if slow:
        judge_seconds(summary, which, slow)
    if far:
        judge_ratios(summary, which, far)
    report.add(summary)
    report.store()


def _store_cases(name: str, rows: list[dict[str, Any]], log: Path, quick: bool) -> None:
    report = Report(f"convergence-{name}", f"Convergence: {name}", quick=quick)
    report.machine = facts(log)
    table = Table(f"{name}, default settings", COLUMNS, "Seconds of one fit on the processor.")
    for row in rows:
        table.add(*(row[column] for column in COLUMNS))
    judge(table, rows)
    report.add(table)
    report.store()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="iris and wine, two values of C")
    parser.add_argument("--data", nargs="+", choices=DATA, default=None)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--every", type=int, default=1, help="one case in so many; 7 meets every C and kernel"
    )
    parser.add_argument(
        "--log", type=Path, default=None, help="a file of earlier runs to go on with"
    )
    parser.add_argument(
        "--clock", action="store_true", help="fits of the log that miss a goal, by the clock"
    )
    parser.add_argument(
        "--one", nargs=2, metavar=("DATA", "CASE"), help="seconds of one by the clock"
    )
    arguments = parser.parse_args()
    if arguments.one:
        print(*fit_by_the_clock(arguments.one[0], int(arguments.one[1])))
        return
    quick = arguments.quick
    names = tuple(arguments.data or (("iris", "wine") if quick else DATA))
    kind = "-sample" * (arguments.every > 1) + "-quick" * quick
    log = arguments.log or RESULTS / f"convergence{kind}.jsonl"
    if arguments.clock:
        run_by_the_clock(log)
    else:
        run(names, (1.0, 1e2) if quick else COSTS, arguments.jobs, log, arguments.every)
    report_on(log, quick)


if __name__ == "__main__":
    main()
