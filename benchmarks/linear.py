"""The linear path next to LIBLINEAR: MNIST, 60,000 images of 784 pixels, no universum.

    python benchmarks/linear.py                 # C = 0.01, 0.1 and 1, some minutes
    python benchmarks/linear.py --costs 0.1     # one of them
    python benchmarks/linear.py --quick         # 5,000 images, a minute: does it run?

Both solve the same problem, the machine of Crammer and Singer without intercept. Ours stops at a
duality gap of 1e-3: its objective is certified to be within 1e-3 of the optimum. LIBLINEAR does
not know its gap; it is run with ever smaller tolerances until its objective is no larger than
ours, and the time of that run is reported. Times are medians of five runs, of fewer where these
take more than five seconds: memory that is used for the first time costs either as much as some
sweeps.

fit      `fit` of both estimators, validation included
solver   ours from points in memory to the certified solution, without what the estimator does
         besides (hashing of rows for merging and leave-one-out, keeping of support vectors)
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from _fit import mnist
from _shared import Report, Table, timed
from musvm import UniversumSVC
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers.choose import PointProblem, solve_points

TOL = 1e-3
# Where the search for LIBLINEAR's tolerance begins: just too loose, so that few runs are in vain.
FIRST_TOLERANCE = {0.01: 0.13, 0.1: 0.052, 1.0: 0.032}
FORMS = {"dense": np.asarray, "CSR": sp.csr_matrix}


def objective(W: np.ndarray, X: Any, y: np.ndarray, C: float) -> float:
    """The primal objective of weights, (L, d)."""
    F = X @ W.T
    rows = np.arange(len(y))
    own = F[rows, y]
    margins = F + 1.0
    margins[rows, y] = own
    return float(0.5 * np.square(W).sum() + C * (margins.max(axis=1) - own).sum())


@dataclass
class Run:
    """What was measured of one estimator: seconds, objective, and a curve of both if known."""

    seconds: float
    objective: float
    note: str = ""
    curve: list[tuple[float, float]] = field(default_factory=list)


def ours(X: Any, y: np.ndarray, C: float) -> tuple[Run, Any]:
    """A whole fit."""
    model = UniversumSVC(C, kernel="linear", solver="linear", tol=TOL)
    seconds, _ = timed(lambda: model.fit(X, y))
    return Run(seconds, objective(model.model_.weights, X, y, C)), model


def ours_alone(X: Any, y: np.ndarray, C: float) -> Run:
    """The solver by itself, with the gap against the time."""
    order = np.argsort(y, kind="stable")
    rows = DualRows(y[order], int(y.max()) + 1, np.full(len(y), C))
    points = sp.csr_array(X) if sp.issparse(X) else X
    problem = PointProblem(Kernel("linear"), points, order, rows, 2e-16)
    curve: list[tuple[float, float]] = []

    def solve() -> Any:
        curve.clear()
        start = time.perf_counter()
        return solve_points(
            problem, solver="linear", tol=TOL, max_iter=1000,
            callback=lambda _, gap: curve.append((time.perf_counter() - start, gap)),
        )  # fmt: skip

    seconds, solution = timed(solve)
    return Run(seconds, solution.primal, f"{solution.gap / solution.primal:.1e}", curve)


def liblinear(X: Any, y: np.ndarray, C: float, tol: float) -> Run:
    model = LinearSVC(
        C=C, multi_class="crammer_singer", fit_intercept=False, tol=tol, max_iter=10**6,
        random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds, _ = timed(lambda: model.fit(X, y))
    return Run(seconds, objective(model.coef_, X, y, C), f"{tol:.2g}")


def liblinear_to(target: float, X: Any, y: np.ndarray, C: float, tol: float) -> list[Run]:
    """Runs with ever smaller tolerances; the last one reaches the target."""
    runs = [liblinear(X, y, C, tol)]
    while runs[-1].objective > target:
        tol *= 0.8
        runs.append(liblinear(X, y, C, tol))
    return runs


def compare(table: Table, X: np.ndarray, y: np.ndarray, C: float) -> tuple[Run, list[Run]]:
    """One row for each form of the points; returns what the plot needs."""
    for form, convert in FORMS.items():
        points = convert(X)
        fit, model = ours(points, y, C)
        alone = ours_alone(points, y, C)
        peers = liblinear_to(fit.objective, points, y, C, FIRST_TOLERANCE[C])
        peer = peers[-1]
        table.add(
            C, form, f"{fit.objective:.2f}", f"{model.dual_gap_ / model.objective_:.1e}",
            model.n_iter_, fit.seconds, alone.seconds, peer.note, f"{peer.objective:.2f}",
            peer.seconds, fit.seconds / peer.seconds, alone.seconds / peer.seconds,
        )  # fmt: skip
        limit = 0.5 if form == "dense" else 1.0
        table.goal(
            f"C = {C:g}, {form}: at most {limit:g} of LIBLINEAR's time to the same objective",
            fit.seconds <= limit * peer.seconds,
            f"{fit.seconds / peer.seconds:.2f} for the fit, "
            f"{alone.seconds / peer.seconds:.2f} for the solver",
        )
        if form == "dense":
            shown = alone, peers
    return shown


def plot(report: Report, curves: dict[float, tuple[Run, list[Run]]]) -> None:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for k, (C, (alone, peers)) in enumerate(curves.items()):
        seconds, gaps = np.array(alone.curve).T
        axes.plot(seconds, gaps, color=f"C{k}", label=f"C = {C:g}: relative gap")
        # The dual bound of ours: how far LIBLINEAR is from it, at most.
        bound = alone.objective * (1.0 - gaps[-1])
        excess = [run.objective / bound - 1.0 for run in peers]
        axes.plot(
            [run.seconds for run in peers], excess, "s", color=f"C{k}", label="LIBLINEAR's excess"
        )
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="relative to the objective")
    axes.legend()
    report.picture(figure, "convergence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="5,000 images")
    parser.add_argument("--costs", type=float, nargs="+", default=[0.01, 0.1, 1.0])
    arguments = parser.parse_args()
    data = mnist(5000 if arguments.quick else 60000)
    report = Report("linear", "The linear path next to LIBLINEAR", quick=arguments.quick)
    table = Table(
        f"MNIST, {len(data.y)} images, linear kernel",
        ("C", "points", "objective", "gap", "rounds", "fit s", "solver s", "LIBLINEAR tol",
         "its objective", "its fit s", "fit ratio", "solver ratio"),
        "Wall-clock seconds, medians of up to five runs. Ours stops at a relative gap of 1e-3; "
        "LIBLINEAR is run to the same objective.",
    )  # fmt: skip
    curves = {C: compare(table, data.X, data.y, C) for C in arguments.costs}
    report.add(table)
    plot(report, curves)
    report.store()


if __name__ == "__main__":
    main()
