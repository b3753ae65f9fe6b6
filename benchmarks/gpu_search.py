"""A search by folds on a GPU, next to its fits one by one.

    python benchmarks/gpu_search.py [--quick]

Digits 0 to 6 of MNIST are the classes, 7 to 9 the universum. The search solves every cell, without
and with universum, on three folds, on tensors that stay on the GPU: the cells of a fold share one
kernel matrix, and each starts from a neighbour. Beside it the same fits by `UniversumSVC`, each
from nothing. Does the search cost at most 0.6 of their sum, and does it find the same errors?

It needs PyTorch, a GPU, and MNIST's four files in `mnist` in the data folder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from _shared import Table
from gpu import GAMMA, asked_for, images, seconds
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


# The whole grid on a sixth of the images, and a part of it on all of them.
GRIDS = (
    Grid(10_000, EIGHT_CS, (0.0, 0.05, 0.1, 0.3)),
    Grid(60_000, EIGHT_CS[3:5], (0.1,)),
)


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


def main() -> None:
    report, quick = asked_for(
        "gpu-search", "A search by folds on a GPU", __doc__, "5,000 images and two values of C"
    )
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
    for grid in (Grid(5_000, EIGHT_CS[3:5], (0.0, 0.1)),) if quick else GRIDS:
        measure(table, grid)
    for row in table.rows:
        table.goal(
            f"{row[0]} images: at most 0.6 of the sum of the cold fits", row[7] <= 0.6,
            f"{row[7]:.2f}",
        )  # fmt: skip
    report.add(table)
    report.store()


if __name__ == "__main__":
    main()
