"""Do certificates hold on hostile numbers, and do the solvers' paths agree? Random problems.

    python benchmarks/stress.py [--first 0] [--problems 1000] [--log FILE] [--max-iter 1000]

Every seed is a problem: number of classes, loss, kernel, weights, Delta, C from 1e-6 to 1e6, and
points with duplicates, zero rows, collinear columns, offsets, scales from 1e-8 to 1e8, a single
column or more columns than rows. It is fitted on every path that takes it. Each fit is certified
from outside (`musvm.verify`), in extended precision. Fits disagree if one has an objective below
what another certifies that no model can have.

With --log each seed is a line of JSON in that file, seeds that are there already are not run
again, and the table is that of the whole file: run it in pieces, for as long as you like.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from _shared import Report, Table
from musvm import UniversumSVC, verify

PATHS = ("gram", "working-set", "linear")
# Two objectives that differ by less, relatively, are the same number in doubles.
ROUNDING = 1e-9
OUTCOMES = ("fits", "not converged", "refused", "wrong certificates", "disagreeing paths")


def points(rng: np.random.Generator, n: int, d: int, centres: np.ndarray, y: Any) -> np.ndarray:
    """Classes around their centres, made difficult in some of the ways that tables are."""
    X = centres[y] + rng.normal(size=(n, d))
    if rng.random() < 0.2:
        X[rng.integers(0, n, size=n // 3)] = X[rng.integers(0, n)]
    if rng.random() < 0.2:
        X[rng.integers(0, n, size=max(n // 5, 1))] = 0.0
    if rng.random() < 0.2 and d > 1:
        X[:, -1] = X[:, 0] * rng.normal()
    return X


def problem(seed: int) -> tuple[dict[str, Any], np.ndarray, np.ndarray, Any, Any]:
    """Parameters, X, y, universum and sample weights of a seed."""
    rng = np.random.default_rng(seed)
    L = int(rng.integers(2, 7))
    n, m = int(rng.integers(2 * L, 60)), int(rng.choice([0, 5, 20]))
    d = int(rng.choice([1, 2, 5, 20, 80]))
    y = np.r_[np.arange(L), rng.integers(0, L, size=n - L)]
    centres = rng.uniform(0, 3) * rng.normal(size=(L, d))
    everything = points(rng, n + m, d, centres, np.r_[y, rng.integers(0, L, size=m)])
    if rng.random() < 0.3:
        everything = everything + 10.0 ** rng.uniform(0, 9)
    spread = everything.std() or 1.0
    if rng.random() < 0.4:
        everything = everything * 10.0 ** rng.uniform(-8, 8)
        spread = everything.std() or 1.0
    kernel = str(rng.choice(["linear", "rbf", "rbf", "poly"]))
    parameters = {
        "C": 10.0 ** rng.uniform(-6, 6),
        "kernel": kernel,
        "gamma": 10.0 ** rng.uniform(-2, 1) / (d * spread**2),
        "degree": int(rng.integers(2, 4)),
        "coef0": 1.0,
        "delta": float(rng.choice([0.0, 0.0, 0.05, 1.0])),
        "universum_loss": str(rng.choice(["sum", "max"])),
    }
    weight = rng.choice([0.5, 1.0, 10.0], size=n) if rng.random() < 0.3 else None
    return parameters, everything[:n], y, everything[n:] if m else None, weight


def run(seed: int, max_iter: int) -> dict[str, Any]:
    """What became of one seed, as JSON can hold it."""
    parameters, X, y, U, weight = problem(seed)
    found: dict[str, Any] = {"seed": seed, "kernel": parameters["kernel"], "fits": {}}
    for path in PATHS if parameters["kernel"] == "linear" else PATHS[:2]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = UniversumSVC(**parameters, solver=path, max_iter=max_iter)
            try:
                model.fit(X, y, universum=U, sample_weight=weight)
            except ValueError as error:
                found["fits"][path] = {"refused": str(error)}
                continue
        check = verify(model, X, y, universum=U)
        found["fits"][path] = {
            "converged": check.converged,
            "holds": check.holds,
            "primal": check.primal,
            "gap": check.gap,
            "claimed_gap": check.claimed_gap,
            "infeasibility": check.infeasibility,
        }
    return found


def outcomes(found: dict[str, Any]) -> Counter:
    """Of one seed: its fits by what became of them, and whether its paths disagree."""
    fits = list(found["fits"].values())
    done = [fit for fit in fits if "refused" not in fit]
    feasible = [fit for fit in done if fit["holds"]]
    lowest = min((fit["primal"] for fit in done), default=0.0)
    bound = max((fit["primal"] - fit["gap"] for fit in feasible), default=lowest)
    counts = Counter({"problems": 1, "fits": len(fits)})
    counts["not converged"] = sum(not fit["converged"] for fit in done)
    counts["refused"] = len(fits) - len(done)
    counts["wrong certificates"] = sum(not fit["holds"] for fit in done)
    some_refused = 0 < counts["refused"] < len(fits)
    counts["disagreeing paths"] = int(some_refused or bound > lowest + ROUNDING * abs(lowest))
    return counts


def seeds_in(log: Path | None) -> dict[int, dict[str, Any]]:
    """The seeds that a file holds; a line that a kill left half is none."""
    found = {}
    if log is not None and log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            try:
                one = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[one["seed"]] = one
    return found


def run_missing(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All seeds of the log, after those that were asked for."""
    known = seeds_in(options.log)
    n_problems = 20 if options.quick else options.problems
    for seed in range(options.first, options.first + n_problems):
        if seed in known:
            continue
        known[seed] = run(seed, options.max_iter)
        if options.log is not None:
            with options.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[seed]) + "\n")
    return list(known.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--problems", type=int, default=1000, help="how many seeds")
    parser.add_argument("--log", type=Path, help="a file that keeps every seed's outcome")
    parser.add_argument("--max-iter", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="20 problems")
    options = parser.parse_args()
    found = run_missing(options)
    report = Report("stress", "Random problems, certified from outside", quick=options.quick)
    table = Table(
        "What became of them",
        ("kernel", "problems", *OUTCOMES),
        "Wrong certificates: fits that are infeasible, or say that they converged where the gap in "
        "extended precision is above `tol`. Disagreeing: an objective below another path's "
        "certified bound, or refused on one path alone.",
    )
    total: Counter = Counter()
    for kernel in sorted({one["kernel"] for one in found}):
        counts = sum((outcomes(one) for one in found if one["kernel"] == kernel), Counter())
        table.add(kernel, counts["problems"], *(counts[name] for name in OUTCOMES))
        total += counts
    table.add("all", total["problems"], *(total[name] for name in OUTCOMES))
    wrong = total["wrong certificates"] + total["disagreeing paths"]
    table.goal("no wrong certificate, no disagreement", wrong == 0, f"{wrong} of {total['fits']}")
    report.add(table)
    bad = [one["seed"] for one in found if outcomes(one)["wrong certificates"]]
    odd = [one["seed"] for one in found if outcomes(one)["disagreeing paths"]]
    print(f"seeds with a wrong certificate: {bad[:50]}\nseeds that disagree: {odd[:50]}")
    report.store()


if __name__ == "__main__":
    main()
