"""What does a criterion select, and how far is it from the exact leave-one-out error?

    python benchmarks/criteria.py [--quick] [--jobs N] [--partitions N]

Ten random partitions of the traffic signs '30', '70', '80' (linear kernel; universum 'no entry'
or 'road work') and of handwritten digits 0-3 (RBF kernel; universum letters 'a' or 'i'), in the
paper's sizes. On each, `UniversumSVCCV` selects in the paper's two steps by every criterion, and
all combinations of C, "no universum" and Delta are tested.

The rule that it follows was chosen with `rules.py`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from _shared import Report, Table, data_file
from musvm import UniversumSVC, UniversumSVCCV

CRITERIA = ("span", "span-2016", "loo-estimate", "loo", 5)
CS = (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
DELTAS = (0.0, 0.01, 0.05, 0.1)
UNIVERSUM = -1


@dataclass(frozen=True)
class Sizes:
    n_per_class: int
    n_test_per_class: int
    m: int


@dataclass(frozen=True)
class Study:
    """A classification problem with a universum, to be drawn again and again."""

    name: str
    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    classes: tuple[Any, ...]
    universum: Any
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray]
    sizes: Sizes


@dataclass(frozen=True)
class Partition:
    """Kernel matrices: of training points, then universum points; and of test points to them."""

    gram: np.ndarray
    y: np.ndarray
    test: np.ndarray
    y_test: np.ndarray


def load_signs() -> tuple[np.ndarray, np.ndarray]:
    from musvm.datasets import fetch_gtsrb

    archive = data_file("GTSRB_Final_Training_Images.subset.zip")
    return fetch_gtsrb(classes=[1, 4, 5, 17, 25], archive=archive, return_X_y=True)


def load_characters() -> tuple[np.ndarray, np.ndarray]:
    from musvm.datasets import load_nist

    return load_nist(data_file("nist_digits_letters.npz"), classes="0123ai", return_X_y=True)


def paper_rbf(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The paper's kernel for handwritten digits."""
    return rbf_kernel(A, B, gamma=2.0**-7)


def studies(quick: bool) -> list[Study]:
    signs = Sizes(20, 100, 60) if quick else Sizes(100, 500, 500)
    digits = Sizes(20, 50, 60) if quick else Sizes(150, 100, 250)
    return [
        Study("signs, no entry", load_signs, (1, 4, 5), 17, linear_kernel, signs),
        Study("signs, road work", load_signs, (1, 4, 5), 25, linear_kernel, signs),
        Study("digits, letter a", load_characters, tuple("0123"), "a", paper_rbf, digits),
        Study("digits, letter i", load_characters, tuple("0123"), "i", paper_rbf, digits),
    ]


def draw(study: Study, X: np.ndarray, target: np.ndarray, seed: int) -> Partition:
    rng = np.random.default_rng(seed)
    train, test, sizes = [], [], study.sizes
    for label in study.classes:
        rows = rng.permutation(np.flatnonzero(target == label))
        train.append(rows[: sizes.n_per_class])
        test.append(rows[sizes.n_per_class : sizes.n_per_class + sizes.n_test_per_class])
    universum = rng.permutation(np.flatnonzero(target == study.universum))[: sizes.m]
    fitted = X[np.concatenate([*train, universum])]
    codes = np.arange(len(study.classes))
    return Partition(
        gram=study.kernel(fitted, fitted),
        y=np.r_[np.repeat(codes, sizes.n_per_class), np.full(len(universum), UNIVERSUM)],
        test=study.kernel(X[np.concatenate(test)], fitted),
        y_test=np.repeat(codes, [len(rows) for rows in test]),
    )


# ---------------------------------------------------------------------------------------------
# One partition


@dataclass(frozen=True)
class Outcome:
    """What the searches find on one partition.

    Attributes
    ----------
    searches : a search by every criterion, in two steps
    test_errors : of all cells, by their parameters
    in_exact_cells : the errors that every criterion finds in the cells of the exact search
    """

    searches: dict[Any, UniversumSVCCV]
    test_errors: dict[Any, float]
    in_exact_cells: dict[Any, np.ndarray]

    def selected(self, criterion: Any) -> tuple[float, float, bool]:
        """Test errors of the model selected and of its plain SVM; whether it has a universum."""
        search = self.searches[criterion]
        chosen = search.best_params_
        plain = {**chosen, "universum_weight": 0.0, "delta": 0.0}
        errors = [self.test_errors[name_of(params)] for params in (chosen, plain)]
        return *errors, search.universum_helps_


def name_of(params: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(params.items()))


def judge(partition: Partition, criteria: tuple[Any, ...]) -> Outcome:
    """Search by every criterion, and test all cells."""
    with TemporaryDirectory() as folder:  # the searches share their fits

        def search(criterion: Any, **parameters: Any) -> UniversumSVCCV:
            return UniversumSVCCV(
                kernel="precomputed",
                deltas=DELTAS,
                universum_weights=["balanced"],
                n_steps=2,
                universum_label=UNIVERSUM,
                criterion=criterion,
                memory=folder,
                **parameters,
            ).fit(partition.gram, partition.y)

        searches = {criterion: search(criterion) for criterion in criteria}
        in_exact_cells = {}
        if "loo" in criteria:
            exact = searches["loo"]
            for criterion, found in searches.items():
                if found.results_["C"][-1] != exact.results_["C"][-1]:
                    found = search(criterion, Cs=[exact.results_["C"][-1]])
                in_exact_cells[criterion] = errors_in_cells(exact, [searches[criterion], found])
    return Outcome(searches, errors_of_all_cells(partition), in_exact_cells)


def errors_in_cells(exact: UniversumSVCCV, searches: Sequence[UniversumSVCCV]) -> np.ndarray:
    """The criterion in the cells of the exact search, from several searches together."""
    known = {
        name_of(params): error
        for search in searches
        for params, error in zip(
            search.results_["params"], search.results_["criterion"], strict=True
        )
    }
    return np.array([known[name_of(params)] for params in exact.results_["params"]])


def errors_of_all_cells(partition: Partition) -> dict[Any, float]:
    """Test errors of models that are fitted by themselves."""
    grid = [(0.0, 0.0), *(("balanced", delta) for delta in DELTAS)]
    errors = {}
    for C, (weight, delta) in product(CS, grid):
        params = {"C": C, "universum_weight": weight, "delta": delta}
        model = UniversumSVC(kernel="precomputed", universum_label=UNIVERSUM, **params)
        model.fit(partition.gram, partition.y)
        wrong = model.predict(partition.test) != partition.y_test
        errors[name_of(params)] = float(np.mean(wrong))
    return errors


def outcomes_of(
    study: Study, seeds: range, criteria: tuple[Any, ...], n_jobs: int
) -> list[Outcome]:
    X, target = study.load()
    tasks = (delayed(judge)(draw(study, X, target, s), criteria) for s in seeds)
    return Parallel(n_jobs=n_jobs, verbose=10)(tasks)


# ---------------------------------------------------------------------------------------------
# Tables


def mean_and_error(values: Any) -> tuple[float, float]:
    """Mean and standard error, in per cent."""
    values = 100.0 * np.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def selection_table(study: Study, outcomes: list[Outcome], criteria: tuple[Any, ...]) -> Table:
    sizes = study.sizes
    table = Table(
        f"Test error of the selected model: {study.name}",
        ["criterion", "error %", "s.e.", "plain SVM %", "difference", "s.e. of it",
         "universum chosen", "best in hindsight %"],
        f"{len(outcomes)} partitions, {sizes.n_per_class} training and {sizes.n_test_per_class} "
        f"test images a class, {sizes.m} universum images. `plain SVM` is the one that step (a) "
        "selects by the same criterion; `best in hindsight` the smallest test error of all cells "
        "of each partition.",
    )  # fmt: skip
    hindsight, _ = mean_and_error([min(o.test_errors.values()) for o in outcomes])
    worst = -np.inf
    for criterion in criteria:
        chosen, plain, used = zip(*(o.selected(criterion) for o in outcomes), strict=True)
        difference, error = mean_and_error(np.subtract(chosen, plain))
        worst = max(worst, difference - error)
        table.add(
            criterion_name(criterion), *mean_and_error(chosen), mean_and_error(plain)[0],
            difference, error, f"{sum(used)} of {len(used)}", hindsight,
        )  # fmt: skip
    table.goal(
        "never worse than the plain SVM by more than one standard error",
        worst <= 1e-9,
        f"{worst:+.2f} points beyond it at the worst",
    )
    return table


def distance_table(results: dict[str, list[Outcome]], criteria: tuple[Any, ...]) -> Table:
    table = Table(
        "Distance of the criteria from the exact leave-one-out error",
        ["data", "criterion", "mean |difference|", "largest", "mean difference"],
        "As fractions of the training points, in the cells that the two steps of the exact search "
        "visit: 8 values of C without universum, and 4 of Δ at the C chosen; on all partitions.",
    )
    worst = 0.0
    for name, outcomes in results.items():
        exact = np.array([o.in_exact_cells["loo"] for o in outcomes])
        for criterion in criteria:
            found = np.array([o.in_exact_cells[criterion] for o in outcomes])
            distance = np.abs(found - exact)
            if criterion == "loo-estimate":
                worst = max(worst, float(distance.mean()))
            table.add(
                name,
                criterion_name(criterion),
                float(distance.mean()),
                float(distance.max()),
                float((found - exact).mean()),
            )
    table.goal("loo-estimate within 0.01 on average", worst <= 0.01, f"{worst:.4f} at the worst")
    return table


def criterion_name(criterion: Any) -> str:
    return f"{criterion}-fold CV" if isinstance(criterion, int) else criterion


# ---------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small problems: does it run?")
    parser.add_argument("--partitions", type=int, default=None, help="ten if not given")
    parser.add_argument("--only", help="studies whose name contains this")
    parser.add_argument("--criteria", nargs="+", default=CRITERIA, help="all if not given")
    parser.add_argument("--jobs", type=int, default=1, help="partitions at a time")
    arguments = parser.parse_args()
    # The gap that was reached is a column of every search's results.
    warnings.filterwarnings("ignore", message="The solver stopped|.* did not reach tol")
    criteria = tuple(int(c) if str(c).isdigit() else c for c in arguments.criteria)
    n_partitions = arguments.partitions or (2 if arguments.quick else 10)
    report = Report("criteria", "What the criteria select", quick=arguments.quick)
    results = {}
    for study in studies(arguments.quick):
        if arguments.only and arguments.only not in study.name:
            continue
        outcomes = outcomes_of(study, range(n_partitions), criteria, arguments.jobs)
        results[study.name] = outcomes
        report.add(selection_table(study, outcomes, criteria))
        report.store()  # what is finished, if the rest is interrupted
    if "loo" in criteria:
        report.add(distance_table(results, criteria))
    report.store()


if __name__ == "__main__":
    main()
