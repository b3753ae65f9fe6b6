"""Does every problem converge, how fast next to its peers, and are the labels those of the optimum?

    python benchmarks/convergence.py                          # all data sets, an hour or two
    python benchmarks/convergence.py --data wine vehicle      # some of them
    python benchmarks/convergence.py --only summary           # gathers what the others have stored
    python benchmarks/convergence.py --quick                  # iris and wine, C = 1 and 100

Every data set raw, with each feature in 0..1 and standardised; kernels linear, RBF with gamma
'scale' and 1, polynomial of degree 3; C from 1e-4 to 1e4; without a universum, and with one or two
classes as universum at Delta = 0 and 0.1 (where three classes or more remain), or averages of
training points of different classes where no class can be spared. Default settings throughout.

peer     `LinearSVC(multi_class="crammer_singer")` for the linear kernel, `SVC` for all others, with
         the universum as one more class
differ   share of the labels of all points that differ from those at a tolerance of 1e-8, in percent
certified  labels that the certificate covers (their lead exceeds sqrt(2 gap k(x, x))); all of these
         must be the same

Seconds are those of the processor, of one fit each: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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

from _shared import RESULTS, Report, Table, characters, data_file, traffic_signs
from musvm import UniversumSVC
from musvm.universum import random_average

LOADERS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
LIBSVM = ("vehicle", "vowel", "segment", "satimage", "letter")
DATA = (*LOADERS, *LIBSVM, "signs", "characters")
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
TIGHT = 1e-8
# Goals: seconds of a fit, times the peer's plus a tenth of a second, percent of the labels.
MOST_SECONDS, MOST_TIMES, MOST_DIFFER = 5.0, 10.0, 0.1
COLUMNS = (
    "scaling", "kernel", "universum", "delta", "C", "seconds", "peer s", "steps", "gap",
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
    """One row of the table."""
    began = time.process_time()
    model = case.fit()
    seconds = time.process_time() - began
    began = time.process_time()
    case.fit_peer()
    peer_seconds = time.process_time() - began
    tight = case.fit(tol=TIGHT)
    points = np.vstack([case.X, case.U])
    values = model.decision_function(points)
    values = np.stack([-values, values], axis=1) / 2 if values.ndim == 1 else values
    ordered = np.sort(values, axis=1)
    reach = np.sqrt(2.0 * model.dual_gap_ * squared_lengths(model, points))
    certified = ordered[:, -1] - ordered[:, -2] > reach
    differ = model.predict(points) != tight.predict(points)
    return (
        case.scaling, case.kernel, case.universum, case.delta, f"{case.C:g}", seconds,
        peer_seconds, model.n_iter_, f"{model.dual_gap_ / model.objective_:.1e}",
        bool(model.converged_), 100.0 * float(differ.mean()), 100.0 * float(certified.mean()),
        int((differ & certified).sum()),
    )  # fmt: skip


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
    slowest = max(row["seconds"] for row in rows)
    table.goal(
        f"none takes more than {MOST_SECONDS:g} s", slowest <= MOST_SECONDS, f"{slowest:.1f}"
    )
    ratios = [row["seconds"] / (row["peer s"] + 0.1) for row in rows]
    worst = max(ratios)
    table.goal(
        f"none takes more than {MOST_TIMES:g} times its peer and 0.1 s", worst <= MOST_TIMES,
        f"{worst:.1f}; the median is {statistics.median(ratios):.2f}",
    )  # fmt: skip
    worst = max(row["differ %"] for row in rows)
    table.goal(
        f"at most {MOST_DIFFER:g} % of the labels differ from the optimum's", worst <= MOST_DIFFER,
        f"{worst:.2f} %",
    )  # fmt: skip
    n_wrong = sum(row["wrong certificates"] for row in rows)
    table.goal("every certified label is the optimum's", n_wrong == 0, f"{n_wrong} are not")


def run(name: str, quick: bool) -> None:
    report = Report(f"convergence-{name}", f"Convergence: {name}", quick=quick)
    table = Table(f"{name}, default settings", COLUMNS, "Seconds of one fit on the processor.")
    for case in cases(name, (1.0, 1e2) if quick else COSTS):
        table.add(*measure(case))
        print(f"\r{name}: {len(table.rows)} fits", end="", file=sys.stderr, flush=True)
    judge(table, [dict(zip(COLUMNS, row, strict=True)) for row in table.rows])
    report.add(table)
    report.store()


def summarise(quick: bool) -> None:
    """One line for every data set whose results are stored."""
    report = Report("convergence", "Convergence: summary", quick=quick)
    table = Table(
        "All data sets",
        ("data", "fits", "converged", "slowest s", "median s", "worst ratio", "most differ %"),
        "Ratios are to the peer's seconds plus 0.1.",
    )
    everything = []
    for name in DATA:
        path = RESULTS / f"convergence-{name}{'-quick' * quick}.json"
        if not path.exists():
            continue
        rows = json.loads(path.read_text(encoding="utf-8"))["tables"][0]["rows"]
        seconds = [row["seconds"] for row in rows]
        table.add(
            name, len(rows), sum(row["converged"] for row in rows), max(seconds),
            statistics.median(seconds),
            max(row["seconds"] / (row["peer s"] + 0.1) for row in rows),
            max(row["differ %"] for row in rows),
        )  # fmt: skip
        everything += rows
    if everything:
        judge(table, everything)
    report.add(table)
    report.store()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="iris and wine, two values of C")
    parser.add_argument("--data", nargs="+", choices=DATA, help="some of the data sets")
    parser.add_argument("--only", choices=["summary"], help="gather what is stored")
    arguments = parser.parse_args()
    # What was reached is in the tables; peers are run as they come.
    warnings.simplefilter("ignore")
    if arguments.only is None:
        names = arguments.data or (("iris", "wine") if arguments.quick else DATA)
        for name in names:
            run(name, arguments.quick)
    summarise(arguments.quick)


if __name__ == "__main__":
    main()
