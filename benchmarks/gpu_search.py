"""A search by folds on a GPU, next to its fits one by one.

    python benchmarks/gpu_search.py [--quick] [--only folds|grids]

grids   A search over eight C and four Delta, beside the same fits by `UniversumSVC`, each from
        nothing: does it cost at most 0.6 of their sum, and find the same errors?
folds   `selection.py --only folds` on a GPU: 20,000 digits of ten classes, 5,000 letters as
        universum, four C and two Delta in the paper's two steps. Does it cost at most 1.2 of the
        sum of its fits, and how much memory of the host does it take?

In the grids digits 0 to 6 of MNIST are the classes, 7 to 9 the universum. A search solves every
cell, without and with universum, on three folds, on tensors that stay on the GPU: the cells of a
fold share one kernel matrix, and each starts from a neighbour.

It needs PyTorch, a GPU, and MNIST's four files in `mnist` in the data folder, for the letters also
`nist_digits_letters.npz`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from _memory import forget_peak, resident_bytes
from _shared import Report, Table, many_digits
from gpu import GAMMA, gpu_report, images, on_device, seconds
from musvm import UniversumSVC, UniversumSVCCV

TOL, N_FOLDS = 1e-3, 3
EIGHT_CS = tuple(float(f"{C:.2g}") for C in np.logspace(-1.0, 2.5, 8))
COLUMNS = ("images", "C", "Delta", "fits", "cold fits s", "rounds", "search s", "share", "apart")


@dataclass(frozen=True)
class Grid:
    """Cells of a search, and how many images it is made on."""

    n_images: int
    Cs: tuple[float, ...]
    deltas: tuple[float, ...]


DELTAS = (0.0, 0.05, 0.1, 0.3)
GRIDS = (Grid(10_000, EIGHT_CS, DELTAS), Grid(60_000, EIGHT_CS, DELTAS))


class Data:
    """Training points, labels and universum on the device, and the folds of a search."""

    def __init__(self, n_images: int) -> None:
        X, y = images(False)
        X, y = X[:n_images], y[:n_images]
        self.X, self.y, self.universum = X[y < 7], y[y < 7], X[y >= 7]
        labels = self.y.cpu().numpy()
        self.folds = list(StratifiedKFold(N_FOLDS).split(np.zeros(len(labels)), labels))

    def search(self, grid: Grid) -> UniversumSVCCV:
        search = UniversumSVCCV(
            grid.Cs, gammas=(GAMMA,), deltas=grid.deltas, universum_weights=("balanced",),
            criterion=self.folds, n_steps=1, tol=TOL,
        )  # fmt: skip
        return search.fit(self.X, self.y, universum=self.universum)

    def cold(self, C: float, delta: float | None) -> tuple[float, int, float]:
        """Seconds and rounds of the fits of a cell to all folds, and the error of the points."""
        took, rounds, wrong = 0.0, 0, 0
        for train, test in self.folds:
            train, test = (torch.as_tensor(part, device=self.X.device) for part in (train, test))
            model = UniversumSVC(C, gamma=GAMMA, delta=delta or 0.0, tol=TOL)
            universum = None if delta is None else self.universum
            X, y = self.X[train], self.y[train]
            spent, _ = seconds(lambda m=model, a=X, b=y, u=universum: m.fit(a, b, universum=u))
            took, rounds = took + spent, rounds + model.n_iter_
            wrong += int((model.predict(self.X[test]) != self.y[test]).sum())
        return took, rounds, wrong / len(self.y)


def measure(table: Table, grid: Grid) -> None:
    data = Data(grid.n_images)
    took, search = seconds(lambda: data.search(grid))
    cells = [(C, delta) for C in grid.Cs for delta in (None, *grid.deltas)]
    cold = {cell: data.cold(*cell) for cell in cells}
    found = {
        (params["C"], params["delta"] if params["universum_weight"] else None): error
        for params, error in zip(
            search.results_["params"], search.results_["criterion"], strict=True
        )
    }
    total, rounds, _ = np.sum(list(cold.values()), axis=0)
    apart = max(abs(cold[cell][2] - error) for cell, error in found.items())
    table.add(
        grid.n_images, len(grid.Cs), len(grid.deltas), N_FOLDS * len(cells), float(total),
        int(rounds), took, took / float(total), f"{apart:.1e}",
    )  # fmt: skip
    print(table.rows[-1], flush=True)


def measure_grids(report: Report, quick: bool) -> None:
    table = Table(
        "Digits 0 to 6, and 7 to 9 as universum",
        COLUMNS,
        f"RBF, gamma = {GAMMA:g}, C*/C balanced, tol = {TOL:g}, {N_FOLDS} folds; one run each. C, "
        "Delta: how many values. Fits: of all cells without and with universum to all folds, each "
        "from nothing, with their rounds. The search solves the same cells and fits its choice to "
        "all points. Share: of the search in the sum of the cold fits. Apart: the largest "
        "difference of the errors of a cell.",
    )
    data = Data(5_000)
    # A fit before those that count starts PyTorch's libraries.
    UniversumSVC(1.0, gamma=GAMMA, tol=1e-2).fit(data.X, data.y, universum=data.universum)
    report.tables.append(table)
    for grid in (Grid(5_000, EIGHT_CS[3:5], (0.0, 0.1)),) if quick else GRIDS:
        measure(table, grid)
        share = table.rows[-1][7]
        table.goal(f"{grid.n_images} images: at most 0.6 of the sum of the cold fits",
                   share <= 0.6, f"{share:.2f}")  # fmt: skip
        report.store()


def measure_folds(report: Report, quick: bool) -> None:
    n, m = (3500, 500) if quick else (20_000, 5_000)
    sample = many_digits(n, m)
    X, U = (on_device(part, np.float32) for part in (sample.X, sample.universum))
    y = on_device(sample.y, np.int64)
    UniversumSVC(1.0, gamma=GAMMA, tol=1e-2, solver="working-set").fit(X[:4000], y[:4000])
    before = resident_bytes("VmRSS")
    forget_peak()
    search = UniversumSVCCV(
        [0.1, 1.0, 10.0, 100.0], gammas=[GAMMA], deltas=(0.0, 0.1),
        universum_weights=["balanced"], criterion=3, n_steps=2,
    )  # fmt: skip
    took, _ = seconds(lambda: search.fit(X, y, universum=U))
    peak = resident_bytes("VmHWM")
    parts = [train for train, _ in StratifiedKFold(3).split(sample.X, sample.y)]
    wanted = [(params, rows) for params in search.results_["params"] for rows in parts]
    wanted.append((search.best_params_, np.arange(n)))
    alone = sum(fit_alone(X, y, U, params, rows) for params, rows in wanted)
    table = Table(
        f"A search by 3 folds: {n:,} digits of ten classes, {m:,} letters as universum",
        ("cells", "fits", "search s", "fits alone s", "ratio", "host GB", "of it before", "error"),
        f"RBF, gamma = {GAMMA:g}; C in 0.1, 1, 10, 100 and Delta in 0, 0.1, in the paper's two "
        "steps, tol as it is by default; one run. Fits alone: the same fits by `UniversumSVC`, "
        "each from nothing and without its test points; the last of them is that of the model "
        "chosen, to all points. Host: the peak of the resident size during the search, and what "
        "Python, PyTorch, the driver and the data took before.",
    )
    table.add(len(search.results_["C"]), len(wanted), took, alone, took / alone, peak / 1e9,
              before / 1e9, search.best_score_)  # fmt: skip
    table.goal("at most 1.2 times the sum of its fits", took <= 1.2 * alone, f"{took / alone:.2f}")
    table.goal("within 4 GB of the host", peak <= 4e9, f"{peak / 1e9:.2f} GB")
    report.add(table)
    report.store()


def fit_alone(
    X: torch.Tensor, y: torch.Tensor, U: torch.Tensor, params: dict[str, Any], rows: np.ndarray
) -> float:
    """Seconds of a fit to some of the training points and all of the universum."""
    some = torch.as_tensor(rows, device=X.device)
    universum = U if params["universum_weight"] != 0 else None
    X, y = X[some], y[some]
    return seconds(lambda: UniversumSVC(**params).fit(X, y, universum=universum))[0]


PARTS = {"folds": measure_folds, "grids": measure_grids}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="small problems and two values of C")
    parser.add_argument("--only", choices=PARTS)
    arguments = parser.parse_args()
    report = gpu_report("gpu-search", "A search by folds on a GPU", arguments.quick)
    for name in [arguments.only] if arguments.only else PARTS:
        PARTS[name](report, arguments.quick)


if __name__ == "__main__":
    main()
