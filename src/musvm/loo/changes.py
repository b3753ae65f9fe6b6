"""How the faces of left-out problems differ from that of the fitted solution, the base.

The labels of a row that can move form groups with a fixed sum. Going from the groups of the base
to those of another problem,

    a label that is no longer free is *held* where the base would move it. If none of its group
    stays free, the group's sum holds the last one already;
    a label that is newly free adds a *direction*: towards it, away from a label of its group.

Rows that are free in all labels in the base (`reduced.py`) have lost labels only. There what is
held are sums over *blocks* of labels: a label that is not free, or the second of two groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from musvm.dual.problem import FloatArray, IntArray
from musvm.loo.active import NEGATIVE, ActiveSets, BoolArray, StateArray
from musvm.loo.reduced import Reduced


@dataclass(frozen=True)
class Changes:
    """The differences of a stack of problems, sorted by problem.

    held : problem, label and row among the kept ones
    blocks : problem, row among the eliminated ones and (., L) labels, 0 or 1
    new : problem, row among the kept ones and (., L) direction
    """

    held: tuple[IntArray, ...]
    blocks: tuple[Any, ...]
    new: tuple[Any, ...]

    def select(self, problems: BoolArray) -> Changes:
        """The changes of some of the problems."""
        parts = (self.held, self.blocks, self.new)
        return Changes(*(tuple(array[problems[part[0]]] for array in part) for part in parts))

    def count(self, n_problems: int) -> IntArray:
        """The number of changes of each problem, (T,)."""
        problems = np.concatenate([self.held[0], self.blocks[0], self.new[0]])
        return np.bincount(problems, minlength=n_problems)


def group_codes(sets: ActiveSets) -> StateArray:
    """(T, L, M): the group of every label that can move, 1, or 2 in split rows; 0 elsewhere.

    A label that is alone in its group cannot move.
    """
    second = np.zeros(sets.state.shape, dtype=bool)
    m = sets.split.shape[1]
    if m:
        second[..., -m:] = sets.split[:, None] & (sets.state[..., -m:] == NEGATIVE)
    codes = np.zeros(sets.state.shape, dtype=np.int8)
    for code, members in ((1, sets.free & ~second), (2, second)):
        codes[members & (members.sum(axis=1, keepdims=True) > 1)] = code
    return codes


def find_changes(base: StateArray, codes: StateArray, reduced: Reduced) -> Changes:
    """What changes from the codes of the base, (L, M), to those of a stack, (T, L, M)."""
    before, after = base[:, reduced.kept], codes[..., reduced.kept]
    parts = [_of_group(before == code, after == code) for code in (1, 2)]
    held, new = zip(*parts, strict=True)
    return Changes(_joined(held), _blocks(codes[..., reduced.eliminated]), _joined(new))


def _of_group(before: BoolArray, after: BoolArray) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Labels to be held, and new directions, of one group in every row."""
    unit = np.eye(before.shape[0])
    both = before & after
    common = np.asarray(both.any(axis=1))
    lost, gained = before & ~after, after & ~before
    _unset_first(lost, ~common)
    reference = np.where(common, both.argmax(axis=1), after.argmax(axis=1))
    _unset_first(gained, ~common)
    k, label, row = np.nonzero(gained)
    return np.nonzero(lost), (k, row, unit[label] - unit[reference[k, row]])


def _blocks(codes: StateArray) -> tuple[Any, ...]:
    """The blocks of eliminated rows: all but one, because the sum of the row is held already."""
    lost, second = codes == 0, (codes == 2).any(axis=1)
    no_first = ~(codes == 1).any(axis=1)
    _unset_first(lost, no_first & ~second)
    k, label, row = np.nonzero(lost)
    k2, row2 = np.nonzero(second & ~no_first)
    singles: FloatArray = np.eye(codes.shape[1])[label]
    return _joined([(k, row, singles), (k2, row2, (codes[k2, :, row2] == 2).astype(float))])


def _unset_first(mask: BoolArray, rows: BoolArray) -> None:
    """Clear the first label that is set, in the given rows."""
    k, row = np.nonzero(rows & mask.any(axis=1))
    mask[k, mask[k, :, row].argmax(axis=1), row] = False


def _joined(parts: Any) -> tuple[Any, ...]:
    """The arrays of all parts together, sorted by the first of them."""
    arrays = [np.concatenate(group) for group in zip(*parts, strict=True)]
    order = np.argsort(arrays[0], kind="stable")
    return tuple(array[order] for array in arrays)
