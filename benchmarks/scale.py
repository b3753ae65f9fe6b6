"""How far does it scale? Large kernels next to the SVMs that people use today.

    svc          MNIST, letter and satimage, next to scikit-learn's SVC: time, error, memory
    mnist60000   all of MNIST, and the same with a small cache; SVC takes minutes
    universum    what a universum point costs, next to a training point
    streamed     a universum of 200,000 points in a memory map, within 4 GB
    paths        from how many points on is the working-set path faster?
    growth       time against points, universum points, classes and dimensions, with exponents
    convergence  the gap against the time, on each path
    classes      a hundred classes: a whole search in units of its Gram matrix

Everything is measured to a relative duality gap of 1e-3 unless a table says otherwise. `SVC`
stops at its own default, a violation of 1e-3, and solves other problems (one for each pair of
classes): its time is what people pay today, not the price of the same optimum.

    python benchmarks/scale.py                # all, about 20 minutes on two cores
    python benchmarks/scale.py --only paths   # one question
    python benchmarks/scale.py --quick        # small problems, a minute: does it run?
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel

from _fit import mnist
from _shared import Report, Table, run_parts, timed
from _streamed import write
from musvm import UniversumSVCCV
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers.choose import PointProblem, solve_points

TOL = 1e-3


def fit_alone(script_name: str = "_fit.py", **settings: Any) -> dict[str, float]:
    """`measure` of a script in a process of its own."""
    script = Path(__file__).with_name(script_name)
    command = [sys.executable, str(script), json.dumps(settings)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def peers() -> list[str]:
    intelex = importlib.util.find_spec("sklearnex") is not None
    return ["SVC", "SVC (intelex)"] if intelex else ["SVC"]


# ---------------------------------------------------------------------------------------------
# Next to SVC


COLUMNS = (
    "data", "points", "method", "fit s", "SVC / ours", "error %", "GB", "support vectors", "gap",
)  # fmt: skip
CONDITIONS = (
    "C = 10; gamma = 0.02 for MNIST (pixels in 0..1), 1 for letter and satimage. GB is the peak of "
    "the resident size during `fit` above what the data takes."
)


def svc(report: Report, quick: bool) -> None:
    table = Table("RBF kernels next to SVC", COLUMNS, CONDITIONS)
    sizes = (1000,) if quick else (10_000, 20_000)
    cases: list[tuple[str, int | None]] = [("mnist", n) for n in sizes]
    cases += [("letter", 1000 if quick else None), ("satimage", None)]
    ratios = [_beside_svc(table, *case) for case in cases]
    table.goal("3 times faster than SVC on MNIST at 20,000 points", ratios[-3] >= 3.0,
               f"{ratios[-3]:.2f} times")  # fmt: skip
    slower = [1.0 / ratio for ratio in ratios[-2:]]
    table.goal("at most 3 times SVC's time on letter and satimage", max(slower) <= 3.0,
               f"{slower[0]:.2f} and {slower[1]:.2f} times")  # fmt: skip
    report.add(table)


def mnist60000(report: Report, quick: bool) -> None:
    n = 2000 if quick else 60_000
    limit = "The last row limits the kernel cache to 1 GB."
    table = Table("All of MNIST next to SVC", COLUMNS, f"{CONDITIONS} {limit}")
    ratio = _beside_svc(table, "mnist", n)
    limited = fit_alone(method="musvm", data="mnist", n=n, tol=TOL, cache_size=1000.0)
    _add(table, "mnist", n, "musvm, 1 GB cache", limited, "")
    table.goal("3 times faster than SVC", ratio >= 3.0, f"{ratio:.2f} times")
    report.add(table)


def _beside_svc(table: Table, data: str, n: int | None) -> float:
    """One row for us and one for every peer; SVC's time in units of ours."""
    ours = fit_alone(method="musvm", data=data, n=n, tol=TOL)
    others = {peer: fit_alone(method=peer, data=data, n=n) for peer in peers()}
    ratio = others["SVC"]["seconds"] / ours["seconds"]
    _add(table, data, n, "musvm", ours, ratio)
    for peer, found in others.items():
        _add(table, data, n, peer, found, others["SVC"]["seconds"] / found["seconds"])
    return ratio


def _add(table: Table, data: str, n: int | None, method: str, found: dict, ratio: Any) -> None:
    table.add(
        data, n or "all", method, found["seconds"], ratio, found["error %"], found["GB"],
        found.get("support vectors", ""), found.get("gap", ""),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Universum points


# Training points, and every delta that is tried with them.
UNIVERSUM_CASES = ((10_000, (0.0, 0.1, 0.5)), (30_000, (0.1,)))
# What a universum point may cost, in training points, by delta.
MOST_COST = {0.0: 4.0, 0.1: 2.0}


def universum(report: Report, quick: bool) -> None:
    table = Table(
        "What a universum point costs",
        [
            "training", "universum", "Δ", "fit s", "rounds", "support vectors",
            "ms per point more", "in training points", "entries in training points",
        ],
        "MNIST, digits 0-6 as classes and 7-9 as universum, C = 10, gamma = 0.02, C* balanced. "
        "'More' is against the same training points alone; 'in training points' against as many "
        "training points more. Entries: of the kernel between support vectors and all points, "
        "which any solver meets that certifies its gap; how many more of them, in the same units.",
    )  # fmt: skip
    scale = 20 if quick else 1
    m = 10_000 // scale
    found = [cost for n, deltas in UNIVERSUM_CASES for cost in _costs(table, n // scale, m, deltas)]
    for delta, most in MOST_COST.items():
        costs = [cost for tried, cost in found if tried == delta]
        table.goal(f"a universum point costs at most {most:g} training points at Δ = {delta:g}",
                   max(costs) <= most, ", ".join(f"{cost:.2f}" for cost in costs))  # fmt: skip
    report.add(table)


def _costs(table: Table, n: int, m: int, deltas: tuple[float, ...]) -> list[tuple[float, float]]:
    """Every delta, and what m universum points cost in units of m training points."""
    settings = {"method": "musvm", "data": "mnist7", "tol": TOL}
    first, training = fit_alone(n=n, **settings), fit_alone(n=n + m, **settings)

    def more(found: dict[str, float]) -> np.ndarray:
        """Seconds, and entries of the kernel between support vectors and all points."""
        before, after = n * first["support vectors"], (n + m) * found["support vectors"]
        return np.array([found["seconds"] - first["seconds"], after - before])

    table.add(n, 0, "", *_figures(first), "", "", "")
    table.add(n + m, 0, "", *_figures(training), 1000.0 * more(training)[0] / m, 1.0, 1.0)
    costs = []
    for delta in deltas:
        found = fit_alone(n=n, m=m, delta=delta, **settings)
        ratios = more(found) / more(training)
        table.add(n, m, delta, *_figures(found), 1000.0 * more(found)[0] / m, *ratios.tolist())
        costs.append((delta, float(ratios[0])))
    return costs


def _figures(found: dict[str, float]) -> tuple[float, float, float]:
    return found["seconds"], found["rounds"], found["support vectors"]


STREAMED_DELTAS = (1.0,)


def streamed(report: Report, quick: bool) -> None:
    table = Table(
        "A universum in a memory map",
        [
            "training", "universum", "Δ", "fit s", "processor s", "rounds", "gap",
            "training SV", "universum SV", "within Δ %", "error %", "predict all s", "GB",
        ],
        "MNIST, digits 0-6 as classes; the universum are pairs of images of 7-9, shifted by up to "
        "four pixels and blended, in single precision on disk. C = 10, gamma = 0.02, C* balanced, "
        "a kernel cache of 1.5 GB. 'Processor s' is the time of the fit on all cores, without "
        "what else the machine did. GB: the peak of the resident size of the whole process.",
    )  # fmt: skip
    n, m = (500, 45_000) if quick else (10_000, 200_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "universum.npy"
        write(path, m)
        for delta in STREAMED_DELTAS:
            found = fit_alone(
                "_streamed.py", path=str(path), n=n, delta=delta, tol=TOL, cache_size=1500.0
            )
            names = (
                "seconds", "processor s", "rounds", "gap", "training support vectors",
                "universum support vectors", "within delta %", "error %", "predict s", "GB",
            )  # fmt: skip
            table.add(n, m, delta, *(found[name] for name in names))
            table.goal(f"converged within 4 GB at Δ = {delta:g}",
                       bool(found["converged"]) and found["GB"] <= 4.0,
                       f"gap {found['gap']:.1e}, {found['GB']:.2f} GB")  # fmt: skip
    report.add(table)


# ---------------------------------------------------------------------------------------------
# Which path, and how each grows


def problem_of(
    X: np.ndarray, y: np.ndarray, U: np.ndarray, kernel: Kernel, C: float, delta: float
) -> PointProblem:
    n, m, L = len(X), len(U), int(y.max()) + 1
    caps = np.r_[np.full(n, C), np.full(m, C * n / (m * L) if m else C)]
    points = np.vstack([X, U]) if m else X
    order = np.r_[np.argsort(y, kind="stable"), np.arange(n, n + m)]
    dual = DualRows(y[order[:n]].astype(np.intp), L, caps, delta)
    return PointProblem(kernel, points, order, dual, 2e-16)


def solve_time(problem: PointProblem, solver: str, tol: float = TOL) -> tuple[float, Any]:
    return timed(
        lambda: solve_points(problem, solver=solver, tol=tol, max_iter=2000), repeats=3, enough=3.0
    )


def paths(report: Report, quick: bool) -> None:
    table = Table(
        "Seconds by path",
        ["data", "universum", "C", "points", "tol", "gram s", "working-set s", "ratio"],
        "MNIST with the RBF kernel, gamma = 0.02. With a universum half of the points are digits "
        "7-9, which are no classes, and Δ = 0.1.",
    )
    sizes = (300, 600) if quick else (500, 1000, 2000, 3000, 4000, 6000)
    for with_universum in (False, True):
        for C, tol in ((1.0, 1e-4), (10.0, 1e-3), (10.0, 1e-4), (100.0, 1e-4)):
            for M in sizes:
                split = mnist(M // 2, M // 2, 7) if with_universum else mnist(M)
                problem = problem_of(
                    split.X, split.y, split.universum, Kernel("rbf", 0.02), C,
                    0.1 if with_universum else 0.0,
                )  # fmt: skip
                gram, _ = solve_time(problem, "gram", tol)
                working, _ = solve_time(problem, "working-set", tol)
                word = "half" if with_universum else "none"
                table.add("MNIST", word, C, M, tol, gram, working, gram / working)
    report.add(table)


def growth(report: Report, quick: bool) -> None:
    table = Table(
        "Growth of each path",
        ["path", "along", "from", "to", "exponent", "per round", "seconds", "rounds"],
        "Exponents of fitted power laws, of the whole time and of the time per round. Gaussian "
        "classes that overlap; RBF kernel, linear for the path of that name; 4,000 points, 2,000 "
        "universum points (800 and 400 for the Gram matrix), 10 classes and 100 dimensions unless "
        "varied. Two classes more may make a problem easier: the time per round is what a path is "
        "answerable for.",
    )
    figure, axes = _figure(4)
    for solver, scale in (("gram", 5), ("working-set", 1), ("linear", 1)):
        for axis, name in zip(axes, GROWTH, strict=True):
            _grow(table, axis, solver, name, 10 * scale if quick else scale)
    for axis, (name, values) in zip(axes, GROWTH.items(), strict=True):
        axis.set(xlabel=GROWTH_LABELS[name], ylabel="time per round (s)", title=f"along {name}")
        axis.set_xticks(values, [str(value) for value in values])
        axis.minorticks_off()
        # Room for the legend above the curves.
        low, high = axis.get_ylim()
        axis.set_ylim(low, high * (high / low) ** 0.45)
        axis.legend(fontsize=8, loc="upper left")
    report.picture(figure, "curves")
    report.add(table)


GROWTH_BASE = {"n": 4000, "m": 2000, "L": 10, "d": 100}
GROWTH = {
    "n": [2000, 4000, 8000, 16000],
    "m": [1000, 2000, 4000, 8000],
    "L": [3, 10, 30, 100],
    "d": [25, 100, 400, 1600],
}
GROWTH_LABELS = {
    "n": "training points", "m": "universum points", "L": "classes", "d": "dimensions"
}  # fmt: skip


def _grow(table: Table, axis: Any, solver: str, name: str, scale: int) -> None:
    """One row and one curve: numbers of points are divided by `scale`, classes and d are not."""
    base = {k: v // scale if k in "nm" else v for k, v in GROWTH_BASE.items()}
    values = [v // scale if name in "nm" else v for v in GROWTH[name]]
    runs = [_grown(base | {name: value}, solver) for value in values]
    seconds, rounds = (np.array(column) for column in zip(*runs, strict=True))
    per_round = _exponent(values, seconds / rounds)
    table.add(
        solver, name, values[0], values[-1], _exponent(values, seconds), per_round,
        " ".join(f"{s:.2f}" for s in seconds), " ".join(map(str, rounds)),
    )  # fmt: skip
    axis.loglog(values, seconds / rounds, "o-", label=f"{solver}, exponent {per_round:.2f}")


def _grown(size: dict[str, int], solver: str) -> tuple[float, int]:
    """Seconds and rounds of one synthetic problem."""
    n, m, L, d = size["n"], size["m"], size["L"], size["d"]
    X, y = make_blobs(n, d, centers=L, cluster_std=3.0, center_box=(-3, 3), random_state=0)
    U, _ = make_blobs(m, d, centers=5, cluster_std=3.0, center_box=(-3, 3), random_state=1)
    kernel = Kernel("rbf", 1.0 / (d * X.var()))
    if solver == "linear":
        scale = np.sqrt(d * X.var())
        X, U, kernel = X / scale, U / scale, Kernel("linear")
    problem = problem_of(X, y, U, kernel, 10.0, 0.1)
    seconds, solution = timed(
        lambda: solve_points(problem, solver=solver, tol=TOL, max_iter=300), repeats=1
    )
    return seconds, max(solution.n_rounds, 1)


def _exponent(values: Any, seconds: Any) -> float:
    return float(np.polyfit(np.log(values), np.log(seconds), 1)[0])


def convergence(report: Report, quick: bool) -> None:
    table = Table(
        "Seconds to a relative duality gap",
        ["data", "path", "1e-1", "1e-2", "1e-3", "1e-4", "1e-6"],
        "4,000 points of MNIST, RBF kernel, gamma = 0.02, C = 10; with a universum 2,000 of them "
        "are digits 7-9 and Δ = 0.1. A round's gap comes from kernels in floats; where the plot "
        "rises, it was certified in doubles, and the rounds went on.",
    )
    figure, axes = _figure(2)
    M = 600 if quick else 4000
    for axis, with_universum in zip(axes, (False, True), strict=True):
        split = mnist(M // 2, M // 2, 7) if with_universum else mnist(M)
        name = "with universum" if with_universum else "plain"
        problem = problem_of(
            split.X, split.y, split.universum, Kernel("rbf", 0.02), 10.0, 0.1 * with_universum
        )
        for solver in ("gram", "working-set"):
            times, gaps = _trace(problem, solver)
            axis.semilogy(times, gaps, "o-", markersize=3, label=solver)
            table.add(name, solver, *(_first_below(times, gaps, g) for g in LEVELS))
        axis.set(xlabel="time (s)", ylabel="relative duality gap", title=f"MNIST, {name}")
        axis.legend()
    report.picture(figure, "gaps")
    report.add(table)


LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)


def _trace(problem: PointProblem, solver: str) -> tuple[list[float], list[float]]:
    times, gaps, start = [], [], time.perf_counter()

    def note(_: int, gap: float) -> None:
        times.append(time.perf_counter() - start)
        gaps.append(gap)

    solve_points(problem, solver=solver, tol=1e-6, max_iter=2000, callback=note)
    return times, gaps


def _first_below(times: list[float], gaps: list[float], level: float) -> float | str:
    return next((t for t, gap in zip(times, gaps, strict=True) if gap <= level), "")


def _figure(n_panels: int) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    return plt.subplots(1, n_panels, figsize=(4.2 * n_panels, 3.4), layout="constrained")


# ---------------------------------------------------------------------------------------------
# A hundred classes


def classes(report: Report, quick: bool) -> None:
    table = Table(
        "A hundred classes: the two-step search by the span bound",
        ["classes", "points", "universum", "dimensions", "Gram s", "search s", "in Gram matrices"],
        "Five points a class, 8 values of C, then 4 of Δ; RBF kernel. Gaussian classes.",
    )
    L, m, d = (10, 100, 200) if quick else (100, 2000, 2000)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(L, d))
    X, y = np.repeat(centres, 5, axis=0), np.repeat(np.arange(L), 5)
    X = X + 2.0 * rng.normal(size=X.shape)
    U = 2.2 * rng.normal(size=(m, d))
    points = np.vstack([X, U])
    gamma = 1.0 / (d * X.var())
    gram_s, _ = timed(lambda: rbf_kernel(points, gamma=gamma))
    search_s, _ = timed(lambda: UniversumSVCCV(gammas=[gamma]).fit(X, y, universum=U), repeats=1)
    table.add(L, len(X), m, d, gram_s, search_s, search_s / gram_s)
    table.goal("at most 60 Gram matrices", search_s <= 60 * gram_s, f"{search_s / gram_s:.0f}")
    report.add(table)


# ---------------------------------------------------------------------------------------------

PARTS = {
    "svc": (svc, "Large kernels next to SVC"),
    "mnist60000": (mnist60000, "All of MNIST next to SVC"),
    "universum": (universum, "The cost of universum points"),
    "streamed": (streamed, "A universum on disk"),
    "paths": (paths, "Which path is faster"),
    "growth": (growth, "Growth"),
    "convergence": (convergence, "Gap against time"),
    "classes": (classes, "A hundred classes"),
}


if __name__ == "__main__":
    run_parts("scale", __doc__, PARTS)
