"""How the faces of left-out problems differ from that of the fitted solution, the base.

The labels of a row that can move form groups with a fixed sum. Going from the groups of the base
to those of another problem,

    a label that is no longer free is *held* where the base would move it. If none of its group
    stays free, the group's sum holds the last one already;
    a label that is newly free adds a *direction*: towards it, away from a label of its group.

Rows that are free in all labels in the base (`reduced.py`) have lost labels only. There what is
held are *sums* over labels: a label that is not free, or the second of two groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.dual.faces import CodeArray
from musvm.loo.reduced import Reduced

HELD, HELD_SUM, NEW = range(3)


@dataclass(frozen=True)
class Changes:
    """The differences of a stack of problems, sorted by problem.

    problem, kind : (c,)
    row : (c,) among the kept ones; for sums among the eliminated ones
    vector : (c, L) the label that is held, the labels of a sum, 1 or 0; or a new direction
    """

    problem: IntArray
    kind: IntArray
    row: IntArray
    vector: FloatArray

    def __len__(self) -> int:
        return len(self.problem)

    def __getitem__(self, which: Any) -> Changes:
        return Changes(*(array[which] for array in vars(self).values()))

    def count(self, n_problems: int) -> IntArray:
        """The number of changes of each problem, (T,)."""
        return np.bincount(self.problem, minlength=n_problems)


def joined(parts: Sequence[Changes]) -> Changes:
    """All changes of several lists, one after the other."""
    return Changes(*map(np.concatenate, zip(*(vars(p).values() for p in parts), strict=True)))


def find_changes(base: CodeArray, codes: CodeArray, reduced: Reduced) -> Changes:
    """What changes from the codes of the base, (L, M), to those of a stack, (T, L, M)."""
    before, after = base[:, reduced.kept], codes[..., reduced.kept]
    groups = range(1, 1 + max(before.max(initial=1), after.max(initial=1)))
    parts = [part for code in groups for part in _of_group(before == code, after == code)]
    changes = joined([*parts, *_sums(codes[..., reduced.eliminated])])
    return changes[np.argsort(changes.problem, kind="stable")]


def _of_group(before: BoolArray, after: BoolArray) -> tuple[Changes, Changes]:
    """Labels to be held, and new directions, of one group in every row."""
    unit = np.eye(before.shape[0])
    both = before & after
    common = np.asarray(both.any(axis=1))
    lost, gained = before & ~after, after & ~before
    _unset_first(lost, ~common)
    reference = np.where(common, both.argmax(axis=1), after.argmax(axis=1))
    _unset_first(gained, ~common)
    k, label, row = np.nonzero(gained)
    return _labels(HELD, lost), _changes(NEW, k, row, unit[label] - unit[reference[k, row]])


def _sums(codes: CodeArray) -> tuple[Changes, Changes]:
    """The sums of eliminated rows: all but one, because that of the whole row is held already."""
    lost, second = codes == 0, (codes == 2).any(axis=1)
    no_first = ~(codes == 1).any(axis=1)
    _unset_first(lost, no_first & ~second)
    k, row = np.nonzero(second & ~no_first)
    return _labels(HELD_SUM, lost), _changes(
        HELD_SUM, k, row, (codes[k, :, row] == 2).astype(float)
    )


def _labels(kind: int, which: BoolArray) -> Changes:
    """A change for every single label that is set."""
    k, label, row = np.nonzero(which)
    return _changes(kind, k, row, np.eye(which.shape[1])[label])


def _changes(kind: int, problem: IntArray, row: IntArray, vector: FloatArray) -> Changes:
    return Changes(problem, np.full(len(problem), kind), row, vector)


def _unset_first(mask: BoolArray, rows: BoolArray) -> None:
    """Clear the first label that is set, in the given rows."""
    k, row = np.nonzero(rows & mask.any(axis=1))
    mask[k, mask[k, :, row].argmax(axis=1), row] = False
