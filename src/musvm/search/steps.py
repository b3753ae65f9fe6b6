"""The two steps of a search.

(a)  for every kernel a chain over C, upwards, without universum
(b)  for every C*/C a chain over Delta, upwards, that starts from the cell chosen in (a);
     in a joint search from every cell of (a)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from musvm._input.blocks import Blocks
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray, IntArray
from musvm.dual.problem import UniversumLoss
from musvm.kernels import Kernel
from musvm.loo.estimate import DIRECT_LIMIT
from musvm.search.cells import CellFit, Part, make_part
from musvm.search.choose import paired_gain
from musvm.search.grams import Grams
from musvm.search.run import Cell, Chain, Runner, Spec

Fold = tuple[IntArray, IntArray]

SPANS = ("span", "span-2016")
# Folds for a second opinion where "loo-estimate" would cost more than they do.
N_FOLDS = 5


@dataclass(frozen=True)
class Grid:
    """What is searched, without repetitions.

    Attributes
    ----------
    kernels : one for every value of gamma
    gammas : these values as they were given; None if the kernel has no gamma
    Cs, deltas : upwards
    weights : C*/C, not 0; none without universum
    balanced : what the weight "balanced" stands for
    """

    kernels: Sequence[Kernel]
    gammas: Sequence[float | str] | None
    Cs: Sequence[float]
    weights: Sequence[float | str]
    deltas: Sequence[float]
    balanced: float


class Steps:
    """Both steps on one data set."""

    def __init__(
        self,
        grid: Grid,
        data: FitData,
        blocks: Blocks,
        class_weight: Any,
        universum_loss: UniversumLoss,
        folds: Sequence[Fold] | None,
        runner: Runner,
    ) -> None:
        self.grid = grid
        self.runner = runner
        self.grams = Grams(data, blocks)
        self._data = data
        self._make_part = partial(make_part, data, blocks, class_weight, universum_loss)
        self._parts = {
            weight: [self._make_part(weight)]
            if folds is None
            else [self._make_part(weight, fold) for fold in folds]
            for weight in (None, *grid.weights)
        }

    def batches(self, n_workers: int) -> Iterator[list[int]]:
        """Kernels to treat side by side: enough for the workers, or as many as memory keeps."""
        size = max(n_workers, self.grams.n_kept)
        kernels = list(range(len(self.grid.kernels)))
        for first in range(0, len(kernels), size):
            yield kernels[first : first + size]
            self.grams.forget()

    def without_universum(self, kernels: Sequence[int]) -> list[Cell]:
        """Step (a) for some of the kernels."""
        bundles = []
        for k in kernels:
            gram = self.grams.training(self.grid.kernels[k])
            key = self.runner.key(gram)
            specs = [Spec(k, C) for C in self.grid.Cs]
            bundles.append([Chain(gram, part, specs, key) for part in self._parts[None]])
        return self.runner.cells(bundles)

    def with_universum(self, plain: Sequence[Cell]) -> list[Cell]:
        """Step (b), continued from plain cells; one kernel after the other, to save memory."""
        cells: list[Cell] = []
        if not self.grid.weights:
            return cells
        for k in sorted({cell.spec.kernel for cell in plain}):
            gram = self.grams.full(self.grid.kernels[k])
            key = self.runner.key(gram)
            bundles = [
                self._continued(cell, weight, gram, key)
                for cell in plain
                if cell.spec.kernel == k
                for weight in self.grid.weights
            ]
            cells += self.runner.cells(bundles)
        order = [None, *self.grid.weights].index
        return sorted(
            cells, key=lambda c: (c.spec.kernel, c.spec.C, order(c.spec.weight), c.spec.delta)
        )

    def compare(self, plain: Cell, universum: Cell) -> tuple[float, float]:
        """By how much a universum lowers the error, and the standard error of that."""
        if self.runner.method not in SPANS:
            return paired_gain(plain.wrong, universum.wrong, plain.weight)
        cells = (plain, universum)
        folds = [] if _is_quickly_estimated(universum.fits[0]) else self._few_folds()
        chains = [chain for cell in cells for chain in self._again(cell, folds)]
        self.runner.progress.total += len(chains)
        if not folds:
            judged = self.runner.judge([(chain, 0) for chain in chains], "loo-estimate")
            return paired_gain(judged[0].wrong, judged[1].wrong, plain.weight)
        self.runner.solve(chains)
        wrong = [chain.fits[0].wrong for chain in chains]
        weight = [chain.part.weight for chain in chains[: len(folds)]]
        return paired_gain(
            np.concatenate(wrong[: len(folds)]),
            np.concatenate(wrong[len(folds) :]),
            np.concatenate(weight),
        )

    def _again(self, cell: Cell, folds: Sequence[Fold]) -> list[Chain]:
        """The cell as a chain that is solved; or one chain per fold, to be solved from there."""
        weight, fit, key = cell.spec.weight, cell.fits[0], cell.keys[0]
        gram, whole = self._gram(cell.spec), self._parts[weight][0]
        if not folds:
            return [Chain(gram, whole, [cell.spec], key, fits=[fit], keys=[key])]
        parts = [self._make_part(weight, fold) for fold in folds]
        return [
            Chain(gram, part, [cell.spec], key, fit.alpha[np.isin(whole.blocks, part.blocks)])
            for part in parts
        ]

    def _few_folds(self) -> list[Fold]:
        """Five stratified folds; fewer where a class has fewer points, none where it has one."""
        rows, codes = self._parts[None][0].rows, self._data.codes
        n_splits = min(N_FOLDS, int(np.bincount(codes[rows]).min()))
        if n_splits < 2:
            return []
        splits = StratifiedKFold(n_splits).split(rows, codes[rows])
        return [(rows[train], rows[test]) for train, test in splits]

    def _gram(self, spec: Spec) -> FloatArray:
        kernel = self.grid.kernels[spec.kernel]
        return self.grams.training(kernel) if spec.weight is None else self.grams.full(kernel)

    def final(self, cell: Cell) -> CellFit:
        """The fit of a cell to all data, from scratch if the cell has seen folds only."""
        if self.runner.method is not None:
            return cell.fits[0]
        gram, part = self._gram(cell.spec), self._make_part(cell.spec.weight)
        chain = Chain(gram, part, [cell.spec], self.runner.key(gram))
        self.runner.solve([chain])
        return chain.fits[0]

    def _continued(
        self, cell: Cell, weight: float | str, gram: FloatArray, key: str
    ) -> list[Chain]:
        kernel, C = cell.spec.kernel, cell.spec.C
        specs = [Spec(kernel, C, weight, delta) for delta in reversed(self.grid.deltas)]
        return [
            Chain(gram, part, specs, self.runner.key(key, before), _with_zeros(fit.alpha, part))
            for part, fit, before in zip(self._parts[weight], cell.fits, cell.keys, strict=True)
        ]


def _is_quickly_estimated(fit: CellFit) -> bool:
    """Whether "loo-estimate" has one dense factor for all points."""
    n_support = int(np.any(fit.alpha != 0.0, axis=1).sum())
    return n_support * (fit.alpha.shape[1] - 1) <= DIRECT_LIMIT


def _with_zeros(plain: FloatArray, part: Part) -> FloatArray:
    """The solution without universum as a start with it: its universum rows are zero."""
    start = np.zeros((len(part.blocks), plain.shape[1]))
    start[: len(plain)] = plain
    return start
