"""Which rule keeps what a universum gains, and does no harm?

    python benchmarks/rules.py --folder FOLDER                       # the tables that are reported
    python benchmarks/rules.py --folder FOLDER --half inventing      # the same on the other half
    python benchmarks/rules.py --only errors                         # are the errors shown true?

The pairs of data set and universum, their two halves and their partitions are those of `_pairs.py`.
On every partition the package's own search computes the margins of all left-out points, by
"loo-estimate", in every cell of a grid over C, C*/C and Delta, and their test errors. They are kept
in FOLDER (an hour on one core), and every rule is then a matter of milliseconds.

A rule picks a plain finalist, one with universum, and one of the two. *Always* takes the second,
*hindsight* the one with the smaller test error, on every partition. A pair is significantly better
or worse if |t| > 2 over its partitions. The package's default was settled on the inventing half;
this is where `musvm.search.rule` and `musvm.search.scale` point to.

The reporting half was looked at twice. The first default took a single C from step (b) to step (c),
to save cells, though the inventing half spoke for its two neighbours as well. Both are in the
table.

Random averages are made of training points, and a point that is left out is still in them: left-out
margins say nothing there. The package recognises such a universum where there are fewer training
points than features and does not use it; here no rule does, and *always* is the only one to tell.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

import _pairs
from _pairs import Pair, Partition
from _shared import Report, Table
from musvm import UniversumSVCCV
from musvm.search import rule as default
from musvm.search.scale import DELTAS, WEIGHTS

# In units of 1 / scale of the kernel: the default grid, without its rounding.
CS = tuple(10.0 ** np.arange(-1.0, 2.01, 0.5))
SIGNIFICANT = 2.0


# ---------------------------------------------------------------------------------------------
# Computing


def file_of(pair: Pair, seed: int, folder: Path) -> Path:
    name = blake2b(pair.name.encode(), digest_size=6).hexdigest()
    return folder / f"{name}-{seed}.npz"


def compute(partition: Partition) -> dict[str, np.ndarray]:
    """Left-out margins and test errors of all cells, plain ones first."""
    n, m, L = partition.n, len(partition.y) - partition.n, int(partition.y.max()) + 1
    balanced = n / (m * L)
    search = UniversumSVCCV(
        [c / partition.scale for c in CS],
        kernel="precomputed",
        deltas=DELTAS,
        universum_weights=[w * balanced for w in WEIGHTS],
        universum_label=_pairs.UNIVERSUM,
        n_steps=1,
    ).fit(partition.gram, partition.y)
    results = search.results_
    return {
        "specs": np.column_stack(
            [
                results["C"] * partition.scale,
                results["universum_weight"] / balanced,
                results["delta"],
            ]
        ),
        "margins": search.left_out_margins_.astype(np.float32),
        "test": np.array([error_on_test_points(params, partition) for params in results["params"]]),
    }


def error_on_test_points(params: dict[str, Any], partition: Partition) -> float:
    from musvm import UniversumSVC

    model = UniversumSVC(kernel="precomputed", universum_label=_pairs.UNIVERSUM, **params)
    predicted = model.fit(partition.gram, partition.y).predict(partition.test)
    return float(np.mean(predicted != partition.y_test))


def stored(pair: Pair, seed: int, folder: Path) -> dict[str, np.ndarray]:
    """The cells of one partition, computed where they are not there yet."""
    file = file_of(pair, seed, folder)
    if not file.exists():
        began = time.perf_counter()
        arrays = compute(_pairs.draw(pair, seed, folder))
        scratch = file.with_suffix(f".{os.getpid()}.npz")
        np.savez(scratch, **arrays)
        scratch.rename(file)
        print(f"{time.perf_counter() - began:6.1f} s  {pair.name}, {seed}", file=sys.stderr)
    with np.load(file) as archive:
        return {name: archive[name] for name in ("specs", "margins", "test")}


# ---------------------------------------------------------------------------------------------
# Rules


@dataclass(frozen=True)
class Cells:
    """The cells of one partition.

    Attributes
    ----------
    C, weight, delta : in the units of the grids; a weight of 0 is no universum
    margins : (cells, n) of the points left out
    test : test errors
    """

    C: np.ndarray
    weight: np.ndarray
    delta: np.ndarray
    margins: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> Cells:
        C, weight, delta = arrays["specs"].T.round(4)
        wanted = np.isclose(C[:, None], CS, rtol=1e-2).any(axis=1)
        margins = arrays["margins"].astype(float)
        return cls(
            C[wanted], weight[wanted], delta[wanted], margins[wanted], arrays["test"][wanted]
        )

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """What every point counts, by the names of the evidence."""
        middle = np.median(np.abs(self.margins), axis=1, keepdims=True)
        quarter = 4.0 * self.margins / np.maximum(middle, 1e-300)
        return {
            "error": (self.margins <= 0).astype(float),
            "hinge": np.maximum(0.0, 1.0 - self.margins),
            "soft": default.soft_errors(self.margins),
            "soft, by the median margin": default.soft_errors(quarter / default.SLOPE),
        }

    def best(self, evidence: str, rows: np.ndarray) -> int:
        """The row of the smallest evidence, ties as `musvm.search.rule` breaks them."""
        mean = self.values[evidence].mean(axis=1)
        return default.first(rows, mean, -self.weight, self.delta, self.C)

    @property
    def plain(self) -> np.ndarray:
        return np.flatnonzero(self.weight == 0)

    def with_universum(self, weights: Sequence[float], C: float | None = None) -> np.ndarray:
        wanted = np.isclose(self.weight[:, None], weights, rtol=1e-2).any(axis=1)
        return np.flatnonzero(wanted & (True if C is None else self.C == C))


Finder = Callable[[Cells, str, int], int]
Decision = Callable[[Cells, int, int], bool]


def two_steps(cells: Cells, evidence: str, plain: int) -> int:
    """The paper's: C of the plain SVM, C*/C balanced."""
    return cells.best(evidence, cells.with_universum([1.0], cells.C[plain]))


def three_steps(cells: Cells, evidence: str, plain: int) -> int:
    """A C of its own, at the largest C*/C and the smallest Delta; then all of both around it."""
    rows, step = cells.with_universum(WEIGHTS), CS[1] / CS[0]
    distance = np.abs(np.log(cells.C[rows] / own_C(cells, evidence)))
    return cells.best(evidence, rows[distance < 1.5 * np.log(step)])


def three_steps_of_one_C(cells: Cells, evidence: str, plain: int) -> int:
    """The same without the neighbours of that C."""
    return cells.best(evidence, cells.with_universum(WEIGHTS, own_C(cells, evidence)))


def own_C(cells: Cells, evidence: str) -> float:
    probes = cells.with_universum([max(WEIGHTS)])
    return cells.C[cells.best(evidence, probes[cells.delta[probes] == DELTAS[0]])]


def one_step(cells: Cells, evidence: str, plain: int) -> int:
    """All cells."""
    return cells.best(evidence, cells.with_universum(WEIGHTS))


def smaller(evidence: str, gate: float = 0.0) -> Decision:
    """By more than so many standard errors of the paired difference."""

    def decide(cells: Cells, plain: int, universum: int) -> bool:
        values = cells.values[evidence]
        difference, error = default.paired(
            (values[plain], values[universum]), np.ones(values.shape[1])
        )
        return difference < -gate * error - default.EQUAL

    return decide


def not_larger(cells: Cells, plain: int, universum: int) -> bool:
    errors = cells.values["error"].mean(axis=1)
    return bool(errors[universum] <= errors[plain] + default.EQUAL)


def as_the_package(cells: Cells, plain: int, universum: int) -> bool:
    margins = [cells.margins[plain], cells.margins[universum]]
    wrong, weight = [m <= 0 for m in margins], np.ones(len(margins[0]))
    return default.Change.of(margins, wrong, weight).is_gain


@dataclass(frozen=True)
class Rule:
    """How the finalists are found, and which of them is taken."""

    name: str
    evidence: str
    find: Finder
    decide: Decision

    def finalists(self, cells: Cells) -> tuple[int, int]:
        plain = cells.best(self.evidence, cells.plain)
        return plain, self.find(cells, self.evidence, plain)


DEFAULT = Rule("three steps by soft error; the default", "soft", three_steps, as_the_package)
RULES = [
    Rule("two steps by error; smaller by a standard error", "error", two_steps,
         smaller("error", 1.0)),
    Rule("two steps by error; smaller error", "error", two_steps, smaller("error")),
    Rule("two steps by error; error not larger", "error", two_steps, not_larger),
    Rule("two steps by error; smaller hinge loss", "error", two_steps, smaller("hinge")),
    Rule("two steps by error; smaller soft error, by the median margin", "error", two_steps,
         smaller("soft, by the median margin")),
    Rule("one step by error; smaller error", "error", one_step, smaller("error")),
    Rule("two steps by soft error; as the default", "soft", two_steps, as_the_package),
    Rule("one step by soft error; as the default", "soft", one_step, as_the_package),
    Rule("three steps of one C by soft error; as the default", "soft", three_steps_of_one_C,
         as_the_package),
    Rule("three steps by soft error; smaller", "soft", three_steps, smaller("soft")),
    Rule("three steps by soft error; smaller by half a standard error", "soft", three_steps,
         smaller("soft", 0.5)),
    DEFAULT,
]  # fmt: skip


# ---------------------------------------------------------------------------------------------
# What becomes of them


@dataclass(frozen=True)
class Outcome:
    """Test errors over the partitions of a pair, and how often the universum was taken."""

    pair: Pair
    plain: np.ndarray
    always: np.ndarray
    chosen: np.ndarray
    best_cell: np.ndarray
    taken: int

    @property
    def hindsight(self) -> np.ndarray:
        return np.minimum(self.plain, self.always)

    @property
    def t_always(self) -> float:
        return t_statistic(self.always - self.plain)

    @property
    def t_chosen(self) -> float:
        return t_statistic(self.chosen - self.plain)


def t_statistic(values: np.ndarray) -> float:
    """Mean over standard error; 0 where all values are 0."""
    spread = values.std(ddof=1) / np.sqrt(len(values))
    if spread == 0:
        return float(np.copysign(np.inf, values[0])) if values[0] else 0.0
    return float(values.mean() / spread)


def outcome(rule: Rule, pair: Pair, partitions: Sequence[Cells]) -> Outcome:
    errors = []
    for cells in partitions:
        plain, universum = rule.finalists(cells)
        taken = pair.universum != _pairs.AVERAGES and rule.decide(cells, plain, universum)
        row = universum if taken else plain
        tests = (cells.test[plain], cells.test[universum], cells.test[row], cells.test.min())
        errors.append((*tests, taken))
    *columns, taken = np.array(errors).T
    return Outcome(pair, *columns, int(taken.sum()))


def kept(outcomes: Sequence[Outcome]) -> float:
    """Share of hindsight's gain that is kept."""
    possible = sum((o.plain - o.hindsight).mean() for o in outcomes)
    return sum((o.plain - o.chosen).mean() for o in outcomes) / possible if possible else 1.0


def rule_table(data: dict[Pair, list[Cells]], half: str) -> Table:
    table = Table(
        f"Rules on the {len(data)} {half} pairs",
        ["rule", "always: better", "always: worse", "chosen: better", "of those always",
         "chosen: worse", "mean relative change %", "of hindsight's gain", "plain %", "chosen %"],
        "Ten partitions each. `better` and `worse` count pairs with |t| > 2 against the plain SVM "
        "that the same rule selects; `of those always` counts those among them where always using "
        "the universum is better as well.",
    )  # fmt: skip
    for rule in RULES:
        outcomes = [outcome(rule, pair, cells) for pair, cells in data.items()]
        helped = [o for o in outcomes if o.t_always < -SIGNIFICANT]
        better = [o for o in outcomes if o.t_chosen < -SIGNIFICANT]
        worse = [o for o in outcomes if o.t_chosen > SIGNIFICANT]
        plain, chosen = (np.array([getattr(o, n).mean() for o in outcomes])
                         for n in ("plain", "chosen"))  # fmt: skip
        both = [o for o in helped if o in better]
        table.add(
            rule.name, len(helped), sum(o.t_always > SIGNIFICANT for o in outcomes), len(better),
            len(both), len(worse), float(100 * np.mean(chosen / np.maximum(plain, 1e-3) - 1)),
            kept(outcomes), float(100 * plain.mean()), float(100 * chosen.mean()),
        )  # fmt: skip
        if rule is DEFAULT:
            table.goal("the default is significantly worse on none", not worse, str(len(worse)))
            table.goal(
                "better on two thirds of the pairs where always using the universum is better",
                3 * len(both) >= 2 * len(helped),
                f"{len(both)} of {len(helped)}",
            )
    return table


def pair_table(data: dict[Pair, list[Cells]], half: str) -> Table:
    table = Table(
        f"The default on the {half} pairs",
        ["pair", "plain %", "always %", "chosen %", "t always", "t chosen", "taken"],
        "Test errors, means over ten partitions.",
    )
    for pair, cells in data.items():
        o = outcome(DEFAULT, pair, cells)
        table.add(
            pair.name, *(float(100 * e.mean()) for e in (o.plain, o.always, o.chosen)),
            o.t_always, o.t_chosen, f"{o.taken} of {len(cells)}",
        )  # fmt: skip
    return table


def sign_table(halves: dict[str, dict[Pair, list[Cells]]]) -> Table:
    table = Table(
        "Traffic signs",
        ["a class", "universum", "half", "plain %", "always %", "chosen %", "hindsight %",
         "best cell %", "of hindsight's gain"],
        "'30', '70', '80', the descriptor of Dalal and Triggs, linear kernel, 500 universum "
        "points. `hindsight` takes the better of the two finalists, `best cell` the best of all "
        "cells, by test error on every partition.",
    )  # fmt: skip
    found = [
        (half, outcome(DEFAULT, pair, cells))
        for half, data in halves.items()
        for pair, cells in data.items()
        if pair.data == "signs"
    ]
    for half, o in sorted(found, key=lambda item: item[1].pair.n_per_class):
        errors = (o.plain, o.always, o.chosen, o.hindsight, o.best_cell)
        table.add(
            o.pair.n_per_class, o.pair.universum_name, half,
            *(float(100 * e.mean()) for e in errors), kept([o]),
        )  # fmt: skip
    for n in (10, 20):
        share = kept([o for half, o in found if o.pair.n_per_class == n and half == "reporting"])
        table.goal(
            f"two thirds of hindsight's gain kept at {n} a class (reporting)",
            share >= 2 / 3,
            f"{share:.2f}",
        )
    return table


# ---------------------------------------------------------------------------------------------
# Are the errors true?


def random_labels(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, Any, str, float]]:
    """Points whose labels were drawn at random: the true error is 1 - 1 / L."""
    rng = np.random.default_rng(seed)
    for n, d, L, kernel in ((100, 50, 10, "linear"), (100, 5, 3, "rbf"), (60, 200, 2, "linear"),
                            (90, 20, 3, "rbf")):  # fmt: skip
        X, y = rng.normal(size=(n, d)), rng.permutation(np.arange(n) % L)
        name = f"random labels, {L} classes, {n} points in {d} dimensions, {kernel}"
        yield name, X, y, rng.normal(size=(n, d)), kernel, 1 - 1 / L


def error_table(data: dict[Pair, list[Cells]]) -> Table:
    table = Table(
        "Reported errors next to test errors",
        ["problem", "n", "reported %", "test %", "mean |difference|", "standard error from n",
         "ratio"],
        "Of the models that the default chooses, by the estimated leave-one-out error; ten "
        "partitions of each pair. Universa of random averages are left out: they are made of the "
        "training points, so a point that is left out is still in them, and its error is none. "
        "The standard error is sqrt(p (1 - p) / n) for the test error p.",
    )  # fmt: skip
    problems: dict[str, list[tuple[int, float, float]]] = {}
    for pair, partitions in data.items():
        if pair.universum == _pairs.AVERAGES:
            continue
        for cells in partitions:
            plain, universum = DEFAULT.finalists(cells)
            row = universum if DEFAULT.decide(cells, plain, universum) else plain
            reported = float(cells.values["error"][row].mean())
            found = cells.margins.shape[1], reported, float(cells.test[row])
            problems.setdefault(pair.name, []).append(found)
    for seed in range(_pairs.N_PARTITIONS):
        for name, X, y, universum, kernel, truth in random_labels(seed):
            search = UniversumSVCCV(kernel=kernel).fit(X, y, universum=universum)
            problems.setdefault(name, []).append((len(y), search.best_score_, truth))
    ratios = []
    for name, found in problems.items():
        n, reported, test = np.array(found).T
        expected = float(np.sqrt(test.mean() * (1 - test.mean()) / n[0]))
        difference = float(np.abs(reported - test).mean())
        ratios.append(difference / expected)
        table.add(name, int(n[0]), float(100 * reported.mean()), float(100 * test.mean()),
                  difference, expected, ratios[-1])  # fmt: skip
    table.goal(
        "the mean difference is at most the standard error expected from n",
        float(np.mean(ratios)) <= 1,
        f"{np.mean(ratios):.2f} of it on average over {len(ratios)} problems",
    )
    return table


# ---------------------------------------------------------------------------------------------


def load(half: str, pairs: Sequence[Pair], folder: Path, n: int) -> dict[Pair, list[Cells]]:
    first = _pairs.FIRST_INVENTING_SEED if half == "inventing" else 0
    return {
        pair: [Cells.of(stored(pair, seed, folder)) for seed in range(first, first + n)]
        for pair in pairs
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("rules"), help="where cells are kept")
    parser.add_argument("--half", choices=("inventing", "reporting"), default="reporting")
    parser.add_argument("--only", choices=("rules", "errors"))
    parser.add_argument("--quick", action="store_true", help="few pairs: does it run?")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="The solver stopped|.* did not reach tol")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    half, n = arguments.half, 2 if arguments.quick else _pairs.N_PARTITIONS
    halves = {}
    for name, pairs in zip(("inventing", "reporting"), _pairs.halves(), strict=True):
        wanted = [p for p in pairs if not arguments.quick or p.data == "digits"]
        halves[name] = load(name, wanted, arguments.folder, n)
    if arguments.only != "errors":
        name = "rules" if half == "reporting" else "rules-inventing"
        report = Report(name, "Which rule keeps what a universum gains", quick=arguments.quick)
        report.add(rule_table(halves[half], half))
        report.add(sign_table(halves))
        report.add(pair_table(halves[half], half))
        report.store()
    if arguments.only != "rules":
        report = Report("errors", "Are the errors shown true?", quick=arguments.quick)
        report.add(error_table(halves[half]))
        report.store()


if __name__ == "__main__":
    main()
