"""Newton equations of groups of labels, solved label by label.

Let variables (i, l), label l of row i, be free in groups, each inside one row, whose sum is fixed.
The step delta of a quadratic whose Hessian is K for every label, and w on the diagonal, solves

    minimise   1/2 sum_l delta_l' (K_ll + W_l) delta_l - <v, delta>     over zero sums of groups,

where K_ll is K of the rows in which l is free. Only the sums tie labels to each other. With a
multiplier lambda for every group,

    delta_l = A_l^-1 (v_l - lambda),    S lambda = sum_l A_l^-1 v_l,    S = sum_l A_l^-1,
    A_l = K_ll + W_l,

a factor and an inverse for every label, and one factor of as many rows as there are groups. For
variables in G groups that costs about sum_l n_l^3 + G^3 / 3 operations, where directions within
the groups, of which there are n - G, cost (n - G)^3 / 3: thirty times as much with 25 classes,
less with two. Where K is nearly singular digits are lost in S; who needs them refines.

Another sum over the variables of a group, with coefficients a, may be *tied*: (a'delta)^2 / (2 h)
is added to what is minimised. It has a multiplier sigma of its own, with a'delta = h sigma,

    delta_l = A_l^-1 (v_l - lambda - a_l sigma),

and S has a row more for each of them: sums of A_l^-1 a_l and of a_l A_l^-1 a_l, and h.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm._pieces import Workspace, lower_factor, ridges
from musvm._threads import Workers
from musvm.dual._label_blocks import (
    add_scaled,
    add_tied,
    divide_by_factor,
    invert,
    multiply,
    scale_lower,
)

# Rows of a block: LAPACK hears no interrupt meanwhile.
MOST_ROWS = 3000
# Entries of all blocks from which on threads share the labels of a solution, in so many shares: to
# hand one to a thread takes as long as a label.
SHARED, SHARES = 4 * 10**6, 4


def work_of_blocks(label: IntArray, n_groups: int) -> float:
    """Operations that `LabelBlocks` takes for variables with these labels.

    Infinite where a block would hold up an interrupt.
    """
    sizes = np.bincount(label).astype(float)
    if sizes.max(initial=0.0) > MOST_ROWS:
        return np.inf
    return float((sizes**3).sum()) + n_groups**3 / 3.0


def work_of_directions(sizes: IntArray) -> float:
    """Operations that a factor takes in the directions within groups of these sizes."""
    return float((sizes - 1).sum()) ** 3 / 3.0


def least_work(label: IntArray, sizes: IntArray) -> float:
    """Operations of whichever takes fewer, for variables with these labels in groups."""
    return min(work_of_blocks(label, len(sizes)), work_of_directions(sizes))


class Ties(NamedTuple):
    """Sums over groups that are tied.

    coefficient : (n,) a of every variable
    give : (G,) h of every group, infinite where nothing is tied
    """

    coefficient: FloatArray
    give: FloatArray


class LabelBlocks:
    """Inverses of A_l and the factor of S, for variables in row `row` of K with label `label`.

    Variables are sorted by groups.

    Parameters
    ----------
    K : Gram matrix; its upper triangle is read
    row, label : (n,) of every variable; rows ascend
    sizes : (G,) how many variables a group has
    weights : (n,) what is added to the diagonal
    team : threads for labels
    most_ridge : what may be added to a unit diagonal where rounding leaves no factor
    ties : sums that are tied, if any are
    workspace : for the matrices; what it lent before is overwritten

    Attributes
    ----------
    is_definite : whether rounding left all of them; nothing can be solved without
    """

    def __init__(
        self,
        K: FloatArray,
        row: IntArray,
        label: IntArray,
        sizes: IntArray,
        weights: FloatArray,
        team: Workers,
        most_ridge: float = 0.0,
        ties: Ties | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self._group, self._team = np.repeat(np.arange(len(sizes)), sizes), team
        self._give = np.empty(0)
        if ties is not None:
            is_tied = np.isfinite(ties.give)
            place = np.where(is_tied, len(sizes) + np.cumsum(is_tied) - 1, -1)
            self._give, self._tie = ties.give[is_tied], place[self._group]
            self._coefficient = ties.coefficient
        places = [np.flatnonzero(label == l) for l in np.unique(label)]
        # The largest first: threads that share them end at about the same time.
        self._places = sorted(places, key=len, reverse=True)
        self._scales = [np.empty(len(at)) for at in self._places]
        n_sums, workspace = len(sizes) + len(self._give), workspace or Workspace()
        workspace.empty_for([n_sums, *map(len, self._places)])
        self._inverses = [workspace.square(len(at)) for at in self._places]
        self._total = workspace.square(n_sums)
        self.is_definite = any(
            self._factorise(K, row, len(sizes), weights, ridge) for ridge in ridges(most_ridge)
        )

    def _factorise(
        self, K: FloatArray, row: IntArray, n_groups: int, weights: FloatArray, ridge: float
    ) -> bool:
        """Whether all blocks and S have a factor; S is summed in one order, whoever sums."""
        total, turns, has_failed = self._total, _Turns(), False
        total.fill(0.0)

        def compute(which: slice) -> None:
            nonlocal has_failed
            k, is_found = which.start, False
            at, scale, inverse = self._places[k], self._scales[k], self._inverses[k]
            try:
                is_found = not has_failed and invert(K, row[at], weights[at], ridge, scale, inverse)
            finally:
                with turns.after(k) as is_on:
                    has_failed = has_failed or not is_found
                    if is_found and is_on:
                        self._add(inverse, scale, at, total)

        try:
            self._team.each(len(self._places), compute, 1)
        except BaseException:
            # Of what was interrupted some numbers never come.
            turns.abandon()
            raise
        if has_failed:
            return False
        diagonal = np.einsum("ii->i", total)
        diagonal[n_groups:] += self._give
        self._scale = 1.0 / np.sqrt(diagonal)
        scale_lower(total, self._scale)
        diagonal += ridge
        return lower_factor(total, self._team)

    def _add(self, inverse: FloatArray, scale: FloatArray, at: IntArray, total: FloatArray) -> None:
        """What a label adds to S."""
        add_scaled(inverse, scale, self._group[at], total)
        if len(self._give):
            tie, coefficient = self._tie[at], self._coefficient[at]
            add_tied(inverse, scale, self._group[at], tie, coefficient, total)

    def solve(self, values: FloatArray) -> FloatArray:
        """delta for v, one number for each variable."""
        delta = self._divided(values)
        sums = np.asarray(np.bincount(self._group, delta, len(self._scale)), dtype=np.float64)
        if len(self._give):
            tied = self._tie >= 0
            np.add.at(sums, self._tie[tied], (self._coefficient * delta)[tied])
        divide_by_factor(self._total, self._scale, sums)
        multipliers = sums[self._group]
        if len(self._give):
            multipliers += np.where(tied, self._coefficient * sums[self._tie], 0.0)
        delta -= self._divided(multipliers)
        return delta

    def _divided(self, values: FloatArray) -> FloatArray:
        """A^-1 of the values of every label."""
        divided = np.empty_like(values)
        is_shared = sum(inverse.size for inverse in self._inverses) >= SHARED
        n_shares = min(SHARES, len(self._places)) if is_shared else 1

        def compute(which: slice) -> None:
            for k in range(which.start, len(self._places), n_shares):
                part = values[self._places[k]]
                product = np.zeros_like(part)
                multiply(self._inverses[k], self._scales[k], part, product)
                divided[self._places[k]] = product

        self._team.each(n_shares, compute, 1)
        return divided


class _Turns:
    """Lets threads do something one after the other, in the order of their numbers."""

    def __init__(self) -> None:
        self._next, self._is_on, self._changed = 0, True, threading.Condition()

    @contextmanager
    def after(self, number: int) -> Iterator[bool]:
        """Wait for all smaller numbers; False if some will never come."""
        with self._changed:
            self._changed.wait_for(lambda: self._next == number or not self._is_on)
            try:
                yield self._is_on
            finally:
                self._next += 1
                self._changed.notify_all()

    def abandon(self) -> None:
        """Let go of all who wait."""
        with self._changed:
            self._is_on = False
            self._changed.notify_all()
