"""Do certificates hold on hostile numbers, and do the solvers' paths agree? Random problems.

    python benchmarks/stress.py [--seed 0] [--count 1000] [--jobs 1] [--seconds S] [--log FILE]
    python benchmarks/stress.py --count 0 --log FILE [FILE ...]     # the table of what was run

Every seed is a problem: number of classes, loss, kernel, weights, Delta, C from 1e-6 to 1e6, and
points with duplicates, zero rows, collinear columns, offsets, scales from 1e-8 to 1e8, a single
column or more columns than rows. It is fitted as users do, and on every path that takes it. Each
fit is certified from outside (`musvm.verify`), in extended precision. Fits disagree if one has an
objective below what another, converged, certifies that no model can have.

With --log each seed is a line of JSON in the first of these files, seeds that are there already are
not run again, and the table is that of all of them: run it in pieces, on several machines, for as
long as you like. Seeds with something to look into keep what was found on every path; the others
only how many fits they are. Nothing but the package and its own dependencies is needed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from _shared import Report, Table, source_digest
from musvm import UniversumSVC, verify
from musvm.solvers.shortfall import BY_ROUNDING

from random_problems import problem  # isort: skip  (found through _shared)

# Paths that a user does not get without asking are cut off early: what they certify must be true
# wherever they are then.
PATHS = {"auto": 1000, "gram": 100, "working-set": 100, "linear": 100, "interior": 100}
LINEAR_ONLY = ("linear", "interior")
# Two objectives that differ by less, relatively, are the same number in doubles.
ROUNDING = 1e-9
OUTCOMES = (
    "fits",
    "by auto",
    "auto, rounding named",
    "auto, no reason",
    "cut off",
    "refused",
    "wrong certificates",
    "disagreeing paths",
    "silent or loud",
)
UNFINISHED = OUTCOMES[2:4]
"""Default fits that did not converge: the message names rounding as the reason, or it does not."""
NEWS = OUTCOMES[5:]
"""What makes a seed worth looking into, beside a default fit that did not converge."""
FAULTS = ("auto, no reason", *OUTCOMES[6:])
"""What must not happen."""


def fitted(seed: int, path: str) -> dict[str, Any]:
    """What became of one fit of a seed, as JSON can hold it."""
    parameters, X, y, U, weight = problem(seed)
    model = UniversumSVC(**parameters, solver=path, max_iter=PATHS[path])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, universum=U, sample_weight=weight)
        except ValueError as error:
            return {"refused": str(error)}
    reasons = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    check = verify(model, X, y, universum=U)
    return {
        "converged": check.converged,
        "holds": check.holds,
        "primal": check.primal,
        "dual": check.dual,
        "gap": check.gap,
        "claimed_gap": check.claimed_gap,
        "infeasibility": check.infeasibility,
        "explained": bool(reasons),
        "by_rounding": any(BY_ROUNDING in reason for reason in reasons),
        "leaked": [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)],
    }


def run(seed: int) -> dict[str, Any]:
    """What became of a seed: its fits by their outcome, and each of them if there is news."""
    kernel = problem(seed)[0]["kernel"]
    paths = [path for path in PATHS if kernel == "linear" or path not in LINEAR_ONLY]
    fits = {path: fitted(seed, path) for path in paths}
    counts = outcomes(fits)
    found = {"seed": seed, "kernel": kernel, "counts": {k: v for k, v in counts.items() if v}}
    if any(counts[name] for name in (*UNFINISHED, *NEWS)):
        found["fits"] = fits
    return found


def outcomes(fits: dict[str, dict[str, Any]]) -> Counter:
    """Fits of one problem by what became of them, and whether its paths disagree."""
    done = {path: fit for path, fit in fits.items() if "refused" not in fit}
    holding = [fit for fit in done.values() if fit["holds"]]
    lowest = min((fit["primal"] for fit in done.values()), default=0.0)
    # A fit that did not converge may be infeasible by a rounding of its caps; times decision values
    # of 1e17 that is no bound on anything.
    bounds = [-fit["dual"] - ROUNDING * fit["primal"] for fit in holding if fit["converged"]]
    bound = max(bounds, default=lowest)
    unfinished = {path for path, fit in done.items() if not fit["converged"]}
    some_refused = 0 < len(done) < len(fits)
    counts = Counter({"fits": len(fits), "by auto": 1})
    if "auto" in unfinished:
        counts[UNFINISHED[not done["auto"]["by_rounding"]]] = 1
    counts["cut off"] = len(unfinished - {"auto"})
    counts["refused"] = len(fits) - len(done)
    counts["wrong certificates"] = len(done) - len(holding)
    counts["disagreeing paths"] = int(some_refused or bound > lowest + ROUNDING * abs(lowest))
    counts["silent or loud"] = sum(
        bool(fit["leaked"]) or fit["converged"] == fit["explained"] for fit in done.values()
    )
    return counts


def seeds_in(logs: list[Path]) -> dict[int, dict[str, Any]]:
    """The seeds that files hold; a line that a kill left half is none."""
    found = {}
    for log in logs:
        for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
            try:
                one = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[one["seed"]] = one
    return found


def results(seeds: list[int], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The outcome of every seed, as they come; none is begun after the time is over."""
    end = time.monotonic() + options.seconds
    if options.jobs == 1:
        yield from (run(seed) for seed in seeds if time.monotonic() < end)
        return
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        portion = 50 * options.jobs
        for start in range(0, len(seeds), portion):
            if time.monotonic() < end:
                yield from pool.map(run, seeds[start : start + portion])


def run_missing(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All seeds of the logs, after those that were asked for."""
    known, code = seeds_in(options.log), source_digest()
    count = 20 if options.quick else options.count
    wanted = [seed for seed in range(options.seed, options.seed + count) if seed not in known]
    for one in results(wanted, options):
        known[one["seed"]] = one | {"code": code}
        if options.log:
            with options.log[0].open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[one["seed"]]) + "\n")
    return list(known.values())


def table_of(found: list[dict[str, Any]]) -> Table:
    table = Table(
        "What became of them",
        ("code", "kernel", "problems", *OUTCOMES[2:], "fits"),
        "Auto: as users fit, for up to 1,000 rounds; those that did not converge, by whether the "
        "warning names rounding as the reason. Cut off: fits on a path that was asked for, "
        "after 100 rounds. Wrong certificates: fits that are infeasible, or say that they "
        "converged where the gap in extended precision is above `tol`. Disagreeing: an objective "
        "below another path's certified bound, or refused on one path alone. Silent or loud: not "
        "converged without the warning that says so, or another warning that leaked.",
    )
    total: Counter = Counter()
    for code, kernel in sorted({(one["code"], one["kernel"]) for one in found}):
        these = [one for one in found if (one["code"], one["kernel"]) == (code, kernel)]
        counts = sum((Counter(one["counts"]) for one in these), Counter())
        table.add(code, kernel, counts["by auto"], *_row(counts))
        total += counts
    table.add("all", "all", total["by auto"], *_row(total))
    faults = sum(total[name] for name in FAULTS)
    goal = "no wrong certificate, no disagreement, not converged only where it is said why"
    table.goal(goal, faults == 0, f"{faults} of {total['fits']}")
    n_problems = total["by auto"]
    table.goal("100,000 problems", n_problems >= 100_000, f"{n_problems:,}")
    return table


def _row(counts: Counter) -> tuple[int, ...]:
    return tuple(counts[name] for name in (*OUTCOMES[2:], "fits"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no seed after these")
    parser.add_argument("--log", type=Path, nargs="+", default=[], help="files of outcomes")
    parser.add_argument("--quick", action="store_true", help="20 problems")
    parser.add_argument("--no-page", action="store_true", help="print the table, store no page")
    options = parser.parse_args()
    found = run_missing(options)
    report = Report("stress", "Random problems, certified from outside", quick=options.quick)
    report.add(table_of(found))
    for name in (*UNFINISHED, *NEWS):
        seeds = [one["seed"] for one in found if name in one["counts"]]
        print(f"{name}: {len(seeds)} seeds, {sorted(seeds)[:40]}")
    if not options.no_page:
        report.store()


if __name__ == "__main__":
    main()
