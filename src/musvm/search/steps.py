"""The steps of a search.

(a)  for every kernel a chain over C, upwards, without universum
(b)  for the kernel chosen in (a) and every C a cell with universum, with the largest C*/C and the
     smallest Delta, that starts from the plain cell of the same C
(c)  for the C chosen in (b), its two neighbours, and every C*/C a chain over Delta, downwards,
     again from the plain cell

In one step instead of three, (c) follows every plain cell; in the paper's two steps it follows the
cell chosen in (a). A model with universum wants another C than one without, which is why (b) is
there; which C that is depends little on C*/C and Delta, which is why it looks at one of each.

Where cells are solved one at a time, on a device, chains over Delta follow the smallest C alone,
and at each of their cells a chain over C begins, upwards: the plain cell of the same C knows
nothing of the universum, which the cell of a smaller C has learnt already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from musvm._input.blocks import Blocks
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray, IntArray
from musvm.dual.problem import UniversumLoss
from musvm.kernels import Kernel
from musvm.loo.estimate import DIRECT_LIMIT, is_singular
from musvm.search.cells import CellFit, Part, Points, Source, make_part
from musvm.search.comparison import Opinion
from musvm.search.criteria import in_words, is_error
from musvm.search.run import Cell, Chain, Runner, Spec, finished
from musvm.search.scoring import FoldScorer
from musvm.search.sources import Sources

Fold = tuple[IntArray, IntArray]

Weight = float | str

# Folds for a second opinion where "loo-estimate" would cost more than they do.
N_FOLDS = 5
# An estimate is wrong if folds say so by this many standard errors; they have fewer points.
N_ERRORS = 3.0


@dataclass(frozen=True)
class Grid:
    """What is searched, without repetitions.

    Attributes
    ----------
    kernels : one for every value of gamma
    gammas : these values as they were given; None if the kernel has no gamma
    Cs : for every kernel, upwards
    deltas : upwards
    weights : C*/C, not 0; none without universum
    balanced : what the weight "balanced" stands for
    """

    kernels: Sequence[Kernel]
    gammas: Sequence[float | str] | None
    Cs: Sequence[Sequence[float]]
    weights: Sequence[Weight]
    deltas: Sequence[float]
    balanced: float

    def value(self, weight: Weight | None) -> float:
        """C*/C as a number, 0 without universum."""
        if weight is None:
            return 0.0
        return self.balanced if isinstance(weight, str) else weight

    @property
    def probe(self) -> dict[Weight, list[float]]:
        """What step (b) looks at: the largest C*/C, and its smallest Delta."""
        return {max(self.weights, key=self.value): [self.deltas[0]]}

    def around(self, spec: Spec) -> list[float]:
        """C of a cell, and those next to it."""
        Cs = list(self.Cs[spec.kernel])
        place = Cs.index(spec.C)
        return Cs[max(place - 1, 0) : place + 2]

    def all_but(self, done: Mapping[Weight, Sequence[float]]) -> dict[Weight, list[float]]:
        """Every Delta of every C*/C that is not done."""
        left = {w: [d for d in self.deltas if d not in done.get(w, ())] for w in self.weights}
        return {weight: deltas for weight, deltas in left.items() if deltas}


class Steps:
    """All steps on one data set."""

    def __init__(
        self,
        grid: Grid,
        data: FitData,
        blocks: Blocks,
        class_weight: Any,
        universum_loss: UniversumLoss,
        folds: Sequence[Fold] | None,
        sources: Sources,
        runner: Runner,
        scorer: FoldScorer | None = None,
    ) -> None:
        self.grid = grid
        self.runner = runner
        self.sources = sources
        self._scorer = scorer
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
        size = max(n_workers, self.sources.n_kept)
        kernels = list(range(len(self.grid.kernels)))
        for first in range(0, len(kernels), size):
            yield kernels[first : first + size]
            self.sources.forget()

    def without_universum(self, kernels: Sequence[int]) -> list[Cell]:
        """Step (a) for some of the kernels."""
        bundles = []
        for k in kernels:
            source = self.sources.training(self.grid.kernels[k])
            key = self.runner.key(source)
            specs = [Spec(k, C) for C in self.grid.Cs[k]]
            bundles.append([Chain(source, part, specs, key) for part in self._parts[None]])
        return self._cells(bundles)

    def with_universum(
        self, plain: Sequence[Cell], wanted: Mapping[Weight, Sequence[float]]
    ) -> list[Cell]:
        """The wanted Delta of every C*/C, from plain cells; one kernel after the other."""
        cells: list[Cell] = []
        for k in sorted({cell.spec.kernel for cell in plain} if wanted else ()):
            source = self.sources.full(self.grid.kernels[k])
            key = self.runner.key(source)
            of_kernel = [cell for cell in plain if cell.spec.kernel == k]
            first = of_kernel[:1] if self.sources.one_at_a_time else of_kernel
            bundles = [
                self._continued(cell, weight, deltas, source, key)
                for cell in first
                for weight, deltas in wanted.items()
            ]
            cells += self._cells(bundles)
            Cs = [cell.spec.C for cell in of_kernel[len(first) :]]
            if Cs:
                cells += self._cells([self._upwards(b, place, Cs) for b, place in _links(bundles)])
        return cells

    def _cells(self, bundles: Sequence[Sequence[Chain]]) -> list[Cell]:
        """Solved, judged and scored."""
        cells = self.runner.cells(bundles)
        if self._scorer is None:
            return cells
        return [replace(cell, split_scores=self._scorer(cell.fits)) for cell in cells]

    def in_order(self, cells: Sequence[Cell]) -> list[Cell]:
        """Cells as a table lists them."""
        order = [None, *self.grid.weights].index
        return sorted(
            cells, key=lambda c: (c.spec.kernel, c.spec.C, order(c.spec.weight), c.spec.delta)
        )

    def opinion(self, cells: Sequence[Cell], criterion: Any) -> Opinion:
        """What the finalists' errors are: by the criterion, or by another if that is a bound."""
        folds = self._few_folds() if isinstance(criterion, str) else []
        if not is_error(criterion):
            if folds and not _is_quickly_estimated(cells[-1].fits[0]):
                return self._by_folds(cells, folds)
            cells, criterion = self._by_estimate(cells), "loo-estimate"
        first, words = cells[0], in_words(criterion)
        margins, wrong = [c.margins for c in cells], [c.wrong for c in cells]
        found = Opinion(words, margins, wrong, first.weight, first.rows, first.judge_of_row)
        if criterion == "loo-estimate" and folds and any(map(self._is_singular, cells)):
            checked = self._by_folds(cells, folds)
            return checked if _is_too_good(found, checked) else found
        return found

    def _by_estimate(self, cells: Sequence[Cell]) -> list[Cell]:
        chains = [self._again(cell, []) for cell in cells]
        self.runner.progress.total += len(chains)
        judged = self.runner.judge([(chain, 0) for (chain,) in chains], "loo-estimate")
        return [finished(of_cell, 0, [j]) for of_cell, j in zip(chains, judged, strict=True)]

    def _by_folds(self, cells: Sequence[Cell], folds: Sequence[Fold]) -> Opinion:
        chains = [self._again(cell, folds) for cell in cells]
        self.runner.progress.total += sum(map(len, chains))
        self.runner.solve([chain for of_cell in chains for chain in of_cell])
        found = [finished(of_cell, 0, [c.fits[0] for c in of_cell]) for of_cell in chains]
        return self.opinion(found, len(folds))

    def _is_singular(self, cell: Cell) -> bool:
        """Whether the estimate is in doubt: its support vectors depend on each other."""
        source = self._source(cell.spec)
        assert not isinstance(source, Points), "folds have no estimate"
        return is_singular(source, cell.fits[0].alpha, self._parts[cell.spec.weight][0].blocks)

    def _again(self, cell: Cell, folds: Sequence[Fold]) -> list[Chain]:
        """The cell as a chain that is solved; or one chain per fold, to be solved from there."""
        weight, fit, key = cell.spec.weight, cell.fits[0], cell.keys[0]
        source, whole = self._source(cell.spec), self._parts[weight][0]
        if not folds:
            return [Chain(source, whole, [cell.spec], key, fits=[fit], keys=[key])]
        parts = [self._make_part(weight, fold) for fold in folds]
        return [
            Chain(source, part, [cell.spec], key, fit.alpha[np.isin(whole.blocks, part.blocks)])
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

    def _source(self, spec: Spec) -> Source:
        kernel = self.grid.kernels[spec.kernel]
        return self.sources.training(kernel) if spec.weight is None else self.sources.full(kernel)

    def final(self, cell: Cell) -> CellFit:
        """The fit of a cell to all data, from scratch if the cell has seen folds only."""
        if self.runner.method is not None:
            return cell.fits[0]
        source, part = self._source(cell.spec), self._make_part(cell.spec.weight)
        chain = Chain(source, part, [cell.spec], self.runner.key(source))
        self.runner.solve([chain])
        return chain.fits[0]

    def _continued(
        self, cell: Cell, weight: Weight, deltas: Sequence[float], source: Source, key: str
    ) -> list[Chain]:
        kernel, C = cell.spec.kernel, cell.spec.C
        specs = [Spec(kernel, C, weight, delta) for delta in reversed(deltas)]
        return [
            Chain(source, part, specs, self.runner.key(key, before), _with_zeros(fit.alpha, part))
            for part, fit, before in zip(self._parts[weight], cell.fits, cell.keys, strict=True)
        ]

    def _upwards(self, solved: Sequence[Chain], place: int, Cs: Sequence[float]) -> list[Chain]:
        """From cells that are solved, on every part, through larger C."""
        specs = [replace(solved[0].specs[place], C=C) for C in Cs]
        return [
            Chain(chain.source, chain.part, specs, chain.keys[place], chain.fits[place].alpha)
            for chain in solved
        ]


def _links(bundles: Sequence[list[Chain]]) -> list[tuple[list[Chain], int]]:
    """All cells of bundles of chains, as a bundle and a place in its chains."""
    return [(bundle, place) for bundle in bundles for place in range(len(bundle[0].specs))]


def _is_quickly_estimated(fit: CellFit) -> bool:
    """Whether "loo-estimate" has one dense factor for all points."""
    n_support = int(np.any(fit.alpha != 0.0, axis=1).sum())
    return bool(n_support * (fit.alpha.shape[1] - 1) <= DIRECT_LIMIT)


def _is_too_good(estimated: Opinion, checked: Opinion) -> bool:
    """Whether an estimate is below the error by folds by more than that may be off."""
    for one, other in zip(estimated.wrong, checked.wrong, strict=True):
        p = float(checked.weight @ other / checked.weight.sum())
        error = float(estimated.weight @ one / estimated.weight.sum())
        if error < p - N_ERRORS * np.sqrt(p * (1 - p) / len(other)):
            return True
    return False


def _with_zeros(plain: FloatArray, part: Part) -> FloatArray:
    """The solution without universum as a start with it: its universum rows are zero."""
    start = np.zeros((len(part.blocks), plain.shape[1]))
    start[: len(plain)] = plain
    return start
