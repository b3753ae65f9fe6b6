"""Cells of a search, solved in chains and judged one by one.

Each cell of a chain starts from the solution of the one before, on each part (`cells.py`). The
chains are the same whatever computes them, so the results are too: the first cells of all chains
are solved side by side, then the second ones, and so on; all judgements follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import Any

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm._progress import Progress
from musvm.dual.problem import DualRows
from musvm.search.cells import (
    CellFit,
    Judgement,
    Options,
    Part,
    Points,
    Source,
    fit_cell,
    judge_cell,
)
from musvm.search.memory import CellStore, digest
from musvm.search.pool import Pool
from musvm.search.rule import soft_errors

# Part of every key: cells of other versions are computed again.
FORMAT = f"musvm {version('musvm')}, cells 4"


@dataclass(frozen=True)
class Spec:
    """The parameters of a cell; `weight` is None without universum."""

    kernel: int
    C: float
    weight: float | str | None = None
    delta: float = 0.0


@dataclass
class Chain:
    """Cells of one part that are solved in this order, each from the one before.

    `source` is the Gram matrix, or points where there is none. `key` identifies it and, through
    the key of the start, all that led to it.
    """

    source: Source
    part: Part
    specs: Sequence[Spec]
    key: str
    start: FloatArray | None = None
    fits: list[CellFit] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """A finished cell: its fit on every part, and what the judges of all of them found.

    `margins`, `wrong` and `weight` are the judges' left-out margins, whether they count as
    errors, and how much each counts. `rows` are the rows of the data that were left out and
    `judge_of_row` the judges that stand for them. `seconds` are those of every part, and
    `judging` what of them its judges took. `split_errors` is the share of errors among the judges
    of every part, and `split_scores` what a scorer found, if there is one.
    """

    spec: Spec
    fits: list[CellFit]
    keys: list[str]
    margins: FloatArray
    wrong: Any
    weight: FloatArray
    rows: IntArray
    judge_of_row: IntArray
    seconds: FloatArray
    judging: FloatArray
    split_errors: FloatArray
    split_scores: FloatArray | None = None

    @property
    def criterion(self) -> float:
        """The share of the judges that count as errors: an error, or a bound on it."""
        return float(self.weight @ self.wrong / self.weight.sum())

    @property
    def soft_error(self) -> float:
        return float(self.weight @ soft_errors(self.margins) / self.weight.sum())

    @property
    def score(self) -> float | None:
        """The mean of the splits, if there is a scorer."""
        return None if self.split_scores is None else float(np.mean(self.split_scores))

    @property
    def hinge(self) -> float:
        return float(self.weight @ np.maximum(0.0, 1.0 - self.margins) / self.weight.sum())


@dataclass
class Runner:
    """Computes cells, or finds them in the store. `method` None: the parts have judges."""

    options: Options
    method: str | None
    pool: Pool
    store: CellStore
    progress: Progress

    def key(self, *parts: Any) -> str:
        """What identifies a cell, by everything that it depends on; costs nothing if not kept."""
        if not self.store.is_kept:
            return ""
        known = [p.identity if isinstance(p, Points) else [p] for p in parts]
        return digest(FORMAT, *(entry for entries in known for entry in entries))

    def cells(self, bundles: Sequence[Sequence[Chain]]) -> list[Cell]:
        """Solve and judge chains; those of a bundle have the same specs on different parts."""
        self.solve([chain for bundle in bundles for chain in bundle])
        links = [(bundle, k) for bundle in bundles for k in range(len(bundle[0].specs))]
        if self.method is None:
            return [finished(bundle, k, [chain.fits[k] for chain in bundle]) for bundle, k in links]
        judgements = self.judge([(bundle[0], k) for bundle, k in links], self.method)
        return [finished(bundle, k, [j]) for (bundle, k), j in zip(links, judgements, strict=True)]

    def solve(self, chains: Sequence[Chain]) -> None:
        """Fill in the fits and the keys of chains."""
        for k in range(max(len(chain.specs) for chain in chains)):
            keys, arguments = [], []
            going_on = [chain for chain in chains if k < len(chain.specs)]
            for chain in going_on:
                spec = chain.specs[k]
                before = chain.keys[-1] if chain.keys else chain.key
                start = chain.fits[-1].alpha if chain.fits else chain.start
                keys.append(
                    self.key(
                        before, *_values(chain.part), *_values(self.options), spec.C, spec.delta
                    )
                )
                arguments.append(
                    (chain.source, chain.part, self.options, spec.C, spec.delta, start)
                )
            for chain, key, fit in zip(
                going_on, keys, self._compute(fit_cell, CellFit, keys, arguments), strict=True
            ):
                chain.fits.append(fit)
                chain.keys.append(key)

    def judge(self, links: Sequence[tuple[Chain, int]], method: str) -> list[Judgement]:
        """Leave-one-out of solved cells, given as chains and places in them."""
        keys = [self.key(chain.keys[k], method) for chain, k in links]
        arguments = [
            (
                chain.source,
                chain.part,
                self.options,
                chain.specs[k].C,
                chain.specs[k].delta,
                chain.fits[k].alpha,
                method,
            )
            for chain, k in links
        ]
        return self._compute(judge_cell, Judgement, keys, arguments)

    def _compute(
        self,
        function: Callable[..., Any],
        kind: Callable[..., Any],
        keys: Sequence[str],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """function(*arguments[k]) for every k, from the store where it is there."""
        stored = [self.store.load(key) for key in keys]
        results = [None if arrays is None else kind(**arrays) for arrays in stored]
        missing = [k for k, result in enumerate(results) if result is None]
        self.progress.update(len(keys) - len(missing))
        for position, result in self.pool.run(function, [arguments[k] for k in missing]):
            results[missing[position]] = result
            self.store.save(keys[missing[position]], vars(result))
            self.progress.update(1)
        return results


def _values(record: Part | Options | DualRows) -> list[Any]:
    """The arrays and numbers of a record, and of the records in it."""
    found: list[Any] = []
    for field_ in fields(record):
        value = getattr(record, field_.name)
        found += _values(value) if isinstance(value, DualRows) else [value]
    return found


def finished(bundle: Sequence[Chain], k: int, judges: Sequence[CellFit | Judgement]) -> Cell:
    """The k-th cell of a bundle, from what its judges found."""
    fits = [chain.fits[k] for chain in bundle]
    weights = [chain.part.weight for chain in bundle]
    # Folds judge as they fit; leave-one-out judges afterwards.
    judging = [j.judging if isinstance(j, CellFit) else j.seconds for j in judges]
    apart = [0.0 if isinstance(j, CellFit) else j.seconds for j in judges]
    offsets = np.cumsum([0, *(len(chain.part.weight) for chain in bundle)])
    positions = [
        offset + chain.part.judge_of_row for offset, chain in zip(offsets, bundle, strict=False)
    ]
    return Cell(
        spec=bundle[0].specs[k],
        fits=fits,
        keys=[chain.keys[k] for chain in bundle],
        margins=np.concatenate([judge.margins for judge in judges]),
        wrong=np.concatenate([judge.wrong for judge in judges]),
        weight=np.concatenate(weights),
        rows=np.concatenate([chain.part.rows for chain in bundle]),
        judge_of_row=np.concatenate(positions),
        seconds=np.array([fit.seconds for fit in fits]) + apart,
        judging=np.array(judging),
        split_errors=np.array(
            [
                w @ j.wrong / w.sum() if len(w) else np.nan
                for w, j in zip(weights, judges, strict=True)
            ]
        ),
    )
