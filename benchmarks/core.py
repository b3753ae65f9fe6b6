"""The solver against its Gram matrix, an interior-point solver and LIBLINEAR.

    python benchmarks/core.py [--quick] [--only signs|liblinear|classes|memory|profile]

Five questions, one table each; what is compared runs in the same process on the same data.

signs      What does a fit on the traffic signs cost, in units of the Gram matrix and next to an
           interior-point solver on the paper's literal eq. (5)?
liblinear  What does it cost without universum, next to LIBLINEAR's Crammer-Singer solver at equal
           primal objective?
classes    How does that grow with the number of classes?
memory     How many M x M arrays does a fit hold?
profile    Where does the time go?

Tables and plots are stored under `benchmarks/results/`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import LinearSVC

from _shared import Report, Sample, Table, characters, run_parts, timed, traffic_signs
from musvm import UniversumSVC
from musvm.dual.problem import DualProblem, DualRows
from musvm.solvers.by_turns import solve_with_gram
from oracles import (
    Samples,
    artificial_samples,
    eq2_losses,
    eq4_losses,
    interior_point,
    make_feasible,
)

TOL = 1e-6


def gram_matrix(points: np.ndarray, kernel: str, gamma: float | None = None) -> np.ndarray:
    """scikit-learn's, by all threads of BLAS."""
    parameters = {} if gamma is None else {"gamma": gamma}
    return pairwise_kernels(points, metric=kernel, **parameters)


def median_gamma(points: np.ndarray) -> float:
    """The median heuristic: 1 / median of the squared distances."""
    distances = pairwise_distances(points[::2], metric="sqeuclidean")
    return float(1.0 / np.median(distances[np.triu_indices_from(distances, 1)]))


# ---------------------------------------------------------------------------------------------
# Traffic signs: the Gram matrix, our fit, the interior-point solver


def literal_solution(
    gram: np.ndarray, sample: Sample, C: float, delta: float
) -> tuple[Samples, np.ndarray]:
    """Eq. (5) with all its n + mL samples by Clarabel: the samples and a feasible alpha of them.

    K is passed as a dense block per class, which took a third of the time of a factored form.
    """
    caps, L = sample.caps(C), sample.n_classes
    samples = artificial_samples(sample.y, L, caps, delta)
    N = len(samples.label)
    K = gram[np.ix_(samples.point, samples.point)]
    own = np.arange(L) == samples.label[:, None]
    x, _ = interior_point(
        P=C**2 * sp.kron(sp.csc_matrix(K), sp.eye(L)),
        q=C * samples.e.ravel(),
        A=sp.vstack([sp.kron(sp.eye(N), np.ones((1, L))), sp.eye(N * L)]),
        b=np.concatenate([np.zeros(N), (samples.cap[:, None] * own).ravel() / C]),
        n_equalities=N,
        tol=TOL,
    )
    return samples, make_feasible(samples, C * x.reshape(N, L))


def literal_qp(gram: np.ndarray, sample: Sample, C: float, delta: float) -> tuple[float, float]:
    """Primal objective and relative gap of Clarabel's solution, made feasible as ours are."""
    samples, literal = literal_solution(gram, sample, C, delta)
    alpha = np.zeros((len(gram), sample.n_classes))
    np.add.at(alpha, samples.point, literal)
    F = gram @ alpha
    square = np.vdot(alpha, F)
    primal = 0.5 * square + samples.cap @ eq4_losses(samples, F)
    dual = -0.5 * square - np.sum(literal * samples.e)
    return float(primal), float((primal - dual) / primal)


def signs(report: Report, quick: bool) -> None:
    sample = traffic_signs(20, 60) if quick else traffic_signs()
    points, L = sample.points, sample.n_classes
    table = Table(
        f"Traffic signs: n = {len(sample.X)}, m = {len(sample.universum)}, L = {L}, linear kernel",
        ["C", "Δ", "Gram s", "solve s", "fit s", "QP s", "solve/Gram", "fit/Gram", "QP/fit",
         "gap", "QP gap", "rounds", "P/P_QP - 1"],
        f"HOG of {points.shape[1]} numbers; cold start to a relative gap of {TOL:g}. `solve` is "
        "the dual alone, `fit` all of `UniversumSVC.fit`, validation and Gram matrix included. "
        "QP: Clarabel on the literal eq. (5), tol_gap_rel = tol_feas = 1e-6, everything else at "
        "its defaults; its gap is that of its solution made feasible. Medians.",
    )  # fmt: skip
    gram_time, gram = timed(lambda: gram_matrix(points, "linear"), repeats=11)
    for C in (1.0,) if quick else (0.1, 1.0, 10.0, 100.0):
        for delta in (0.0, 0.1):
            problem = DualProblem(gram, DualRows(sample.y, L, sample.caps(C), delta))
            model = UniversumSVC(C, kernel="linear", delta=delta, tol=TOL)
            solve_time, solution = timed(lambda p=problem: solve_with_gram(p, tol=TOL))
            fit_time, _ = timed(lambda m=model: m.fit(sample.X, sample.y, sample.universum))
            qp_time, (qp_primal, qp_gap) = timed(
                lambda C=C, delta=delta: literal_qp(gram, sample, C, delta), repeats=1
            )
            table.add(
                C, delta, gram_time, solve_time, fit_time, qp_time,
                solve_time / gram_time, fit_time / gram_time, qp_time / fit_time,
                solution.gap / solution.primal, qp_gap, solution.n_rounds,
                solution.primal / qp_primal - 1.0,
            )  # fmt: skip
    slowest = max(row[7] for row in table.rows)
    least = min(row[8] for row in table.rows)
    table.goal("a fit costs at most 5 Gram matrices", slowest <= 5, f"{slowest:.1f}")
    table.goal("at least 50 times faster than the QP solver", least >= 50, f"{least:.0f} times")
    report.add(table)
    plot_signs(report, table)


def plot_signs(report: Report, table: Table) -> None:
    labels = [f"C={row[0]:g}\nΔ={row[1]:g}" for row in table.rows]
    x = np.arange(len(labels))
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for k, (column, name) in enumerate([(2, "Gram matrix"), (4, "our fit"), (5, "Clarabel")]):
        axes.bar(x + 0.27 * (k - 1), [row[column] for row in table.rows], 0.25, label=name)
    axes.set(yscale="log", ylabel="seconds", title=table.title)
    axes.set_xticks(x, labels)
    figure.legend(loc="outside lower center", ncols=3)
    report.picture(figure, "times")


# ---------------------------------------------------------------------------------------------
# Without universum: LIBLINEAR


def liblinear(sample: Sample, C: float, tol: float) -> tuple[float, float]:
    """Seconds and primal objective of LIBLINEAR's Crammer-Singer solver at one tolerance."""
    model = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=C, tol=tol)
    model.set_params(max_iter=10_000_000, random_state=0)
    seconds, _ = timed(lambda: model.fit(sample.X, sample.y), repeats=3)
    W = model.coef_
    losses = eq2_losses(sample.X @ W.T, sample.y, 0.0)
    return seconds, float(0.5 * np.sum(W**2) + C * losses.sum())


def loosest_liblinear(sample: Sample, C: float, goal: float) -> tuple[float, float, float]:
    """Tolerance, seconds and objective of its cheapest run that gets down to `goal`.

    Tolerances are tried from loose to tight; the tightest one stands in if none gets there.
    """
    for tol in 10.0 ** -np.arange(1.0, 10.5, 0.5):
        seconds, objective = liblinear(sample, C, tol)
        if objective <= goal or seconds > 60.0:
            break
    return float(tol), seconds, objective


def without_universum(report: Report, quick: bool) -> None:
    signs_sample = traffic_signs(20 if quick else 100, 1)
    sample = Sample(signs_sample.X, signs_sample.y, signs_sample.universum[:0])
    table = Table(
        f"Traffic signs without universum: n = {len(sample.X)}, against LIBLINEAR",
        ["C", "accuracy", "our fit s", "LinearSVC s", "LinearSVC/fit", "its tol", "its P/P* - 1",
         "our P/P* - 1"],
        "`UniversumSVC.fit`, Gram matrix included, at tol = accuracy, against "
        '`LinearSVC(multi_class="crammer_singer", fit_intercept=False)` at the loosest tolerance '
        "(two per decade) whose primal objective is within the accuracy of the optimum P*, which "
        "our solver certifies to 1e-9.",
    )  # fmt: skip
    gram = gram_matrix(sample.X, "linear")
    for C in (1.0,) if quick else (0.1, 1.0, 10.0, 100.0):
        problem = DualProblem(gram, DualRows(sample.y, 3, sample.caps(C)))
        optimum = -solve_with_gram(problem, tol=1e-9).dual
        for accuracy in (1e-4, 1e-6):
            model = UniversumSVC(C, kernel="linear", tol=accuracy)
            ours, _ = timed(lambda m=model: m.fit(sample.X, sample.y))
            tol, theirs, objective = loosest_liblinear(sample, C, optimum * (1.0 + accuracy))
            table.add(
                C, accuracy, ours, theirs, theirs / ours, tol,
                objective / optimum - 1.0, model.objective_ / optimum - 1.0,
            )  # fmt: skip
    least = min(row[4] for row in table.rows if row[1] == TOL)
    table.goal(
        f"at least 5 times faster at accuracy {TOL:g}", least >= 5, f"{least:.1f} times at least"
    )
    report.add(table)


# ---------------------------------------------------------------------------------------------
# Growth with the number of classes


def classes(report: Report, quick: bool) -> None:
    sizes = (3, 5) if quick else (3, 5, 10, 20)
    per_class, m = (10, 60) if quick else (30, 400)
    table = Table(
        f"Handwritten characters: {per_class} images a class, m = {m}, growth with L",
        ["kernel", "C", "Δ", "L", "M", "Gram s", "fit s", "solve s", "solve/Gram",
         "of that at L=3", "L/3", "gap", "rounds"],
        "10,000 binary pixels, scaled to a mean |x|² of 1. RBF: gamma by the median heuristic, "
        "1 / median squared distance. Universum: the remaining characters; for L = 20 none "
        f"remain and averages of two training images stand in. Cold start to a gap of {TOL:g}.",
    )  # fmt: skip
    ratios: dict[tuple, dict[int, float]] = defaultdict(dict)
    for L in sizes:
        sample = characters(L, per_class, m)
        gamma = median_gamma(sample.points)
        for kernel in ("linear", "rbf"):
            add_growth(table, ratios, sample, kernel, gamma)
    table.rows.sort(key=lambda row: row[:4])
    worst = max(row[9] / row[10] for row in table.rows)
    table.goal(
        "the ratio to the Gram matrix grows no faster than L",
        worst <= 1.0,
        f"{worst:.2f} times as fast at the worst",
    )
    report.add(table)
    plot_growth(report, ratios)


def add_growth(
    table: Table, ratios: dict[tuple, dict[int, float]], sample: Sample, kernel: str, gamma: float
) -> None:
    """One row for each C and Δ; `ratios` collects solve / Gram by kernel, C, Δ and L."""
    points, L = sample.points, sample.n_classes
    gram_time, gram = timed(lambda: gram_matrix(points, kernel, gamma if kernel == "rbf" else None))
    for C in (1.0, 100.0):
        for delta in (0.0, 0.1):
            problem = DualProblem(gram, DualRows(sample.y, L, sample.caps(C), delta))
            model = UniversumSVC(C, kernel=kernel, gamma=gamma, delta=delta, tol=TOL)
            seconds, solution = timed(lambda p=problem: solve_with_gram(p, tol=TOL), repeats=3)
            fit_time, _ = timed(
                lambda m=model: m.fit(sample.X, sample.y, sample.universum), repeats=3
            )
            growth = ratios[kernel, C, delta]
            growth[L] = seconds / gram_time
            table.add(
                kernel, C, delta, L, len(points), gram_time, fit_time, seconds, growth[L],
                growth[L] / growth[3], L / 3, solution.gap / solution.primal, solution.n_rounds,
            )  # fmt: skip


def plot_growth(report: Report, ratios: dict[tuple, dict[int, float]]) -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for (kernel, C, delta), growth in sorted(ratios.items()):
        style = "o-" if kernel == "rbf" else "s--"
        axes.plot(
            list(growth), list(growth.values()), style, label=f"{kernel}, C={C:g}, Δ={delta:g}"
        )
    reference = np.array(sorted(next(iter(ratios.values()))))
    start = np.median([growth[3] for growth in ratios.values()])
    axes.plot(reference, start * reference / 3, "k:", label="proportional to L")
    axes.set(
        xscale="log", yscale="log", xlabel="classes L", ylabel="time of the solver / Gram matrix",
        title="Characters: growth with the number of classes",
    )  # fmt: skip
    axes.set_xticks(reference, map(str, reference))
    axes.minorticks_off()
    figure.legend(loc="outside right center", fontsize="small")
    report.picture(figure, "growth")


# ---------------------------------------------------------------------------------------------
# Memory


def memory(report: Report, quick: bool) -> None:
    M = 1000 if quick else 2500
    table = Table(
        f"Peak memory of a fit beyond its input, in M x M arrays of doubles, M = {M}",
        ["kernel", "L", "C", "Δ", "traced by Python", "resident", "rounds"],
        "Half of the points are universum, 64 features, relative gap 1e-6; each row in a process "
        "of its own. The Gram matrix is one of the arrays.",
    )
    for kernel, L, C, delta in [
        ("linear", 3, 1.0, 0.1),
        ("rbf", 3, 1.0, 0.0),
        ("rbf", 3, 100.0, 0.1),
        ("rbf", 10, 1.0, 0.1),
    ]:
        case = {"M": M, "L": L, "kernel": kernel, "C": C, "delta": delta}
        found = memory_of(case)
        table.add(kernel, L, C, delta, found["traced"], found["resident"], found["rounds"])
    most = max(max(row[4], row[5]) for row in table.rows)
    table.goal("no more than three M x M arrays", most <= 3.0, f"{most:.2f}")
    report.add(table)


def memory_of(case: dict[str, Any]) -> dict[str, Any]:
    script = Path(__file__).with_name("_memory.py")
    run = subprocess.run(
        [sys.executable, str(script), json.dumps(case)], check=True, capture_output=True, text=True
    )
    return json.loads(run.stdout.splitlines()[-1])


# ---------------------------------------------------------------------------------------------
# Profile

# Files and folders of the package, and what time spent in them is spent on.
STAGES = {
    "kernels.py": "Gram matrix",
    "gram.py": "descent",
    "newton.py": "Newton",
    "problem.py": "certificate",
    "solution.py": "certificate",
    "solvers": "other solvers",
    "estimator.py": "input, attributes",
    "model.py": "input, attributes",
    "_input": "input, attributes",
}
STAGE_NAMES = [*dict.fromkeys(STAGES.values()), "other"]


def profile(report: Report, quick: bool) -> None:
    table = Table(
        "Where the time of a fit goes, per cent",
        ["data", "kernel", "C", "Δ", "fit s", *STAGE_NAMES],
        "`UniversumSVC.fit` to a relative gap of 1e-6. Time in NumPy, SciPy and compiled code "
        "counts for the function of the package that called it; descent includes the loop "
        "around it.",
    )
    data = [("signs", traffic_signs(20, 60) if quick else traffic_signs(), "linear")]
    for L in () if quick else (3, 10):
        data += [(f"characters, L={L}", characters(L), kernel) for kernel in ("linear", "rbf")]
    for name, sample, kernel in data:
        gamma = median_gamma(sample.points)
        for C, delta in [(1.0, 0.1), (100.0, 0.0), (100.0, 0.1)]:
            model = UniversumSVC(C, kernel=kernel, gamma=gamma, delta=delta, tol=TOL)
            shares, seconds = stage_shares(model, sample)
            table.add(name, kernel, C, delta, seconds, *(shares[s] for s in STAGE_NAMES))
    report.add(table)


class StageClock:
    """Adds up the time by stage, as a profile function for `sys.setprofile`.

    Time belongs to the innermost function of the package on the stack, so NumPy, SciPy and
    compiled code count for whoever called them.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.stack = ["other"]
        self.last = time.perf_counter()

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        self.seconds[self.stack[-1]] += time.perf_counter() - self.last
        if event == "call":
            self.stack.append(stage_of(frame.f_code.co_filename) or self.stack[-1])
        elif event == "return" and len(self.stack) > 1:
            self.stack.pop()
        self.last = time.perf_counter()


def stage_shares(model: UniversumSVC, sample: Sample) -> tuple[dict[str, float], float]:
    """Per cent of the time of a fit by stage, and the time in seconds."""
    clock = StageClock()
    sys.setprofile(clock)
    model.fit(sample.X, sample.y, sample.universum)
    sys.setprofile(None)
    total = sum(clock.seconds.values())
    return {stage: 100.0 * clock.seconds[stage] / total for stage in STAGE_NAMES}, total


def stage_of(path: str) -> str | None:
    *folders, file = Path(path).parts
    if "musvm" not in folders:
        return None
    return STAGES.get(file) or STAGES.get(folders[-1])


# ---------------------------------------------------------------------------------------------

PARTS = {
    "signs": (signs, "A fit on traffic signs"),
    "liblinear": (without_universum, "A fit without universum"),
    "classes": (classes, "Growth with the number of classes"),
    "memory": (memory, "Memory of a fit"),
    "profile": (profile, "Where the time of a fit goes"),
}


if __name__ == "__main__":
    run_parts("core", __doc__, PARTS)
