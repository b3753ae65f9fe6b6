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
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm._pieces import lower_factor, ridges
from musvm._threads import Workers
from musvm.dual._label_blocks import add_scaled, divide, factor_and_invert

# Rows of a block: LAPACK hears no interrupt meanwhile.
MOST_ROWS = 3000
# Entries of all blocks from which on threads share the labels of a solution.
SHARED = 10**6


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


class LabelBlocks:
    """The factors for variables in row `row` of K with label `label`, sorted by groups.

    Parameters
    ----------
    K : Gram matrix; its upper triangle is read
    row, label : (n,) of every variable; rows ascend
    sizes : (G,) how many variables a group has
    weights : (n,) what is added to the diagonal
    team : threads for labels
    most_ridge : what may be added to a unit diagonal where rounding leaves no factor

    Attributes
    ----------
    is_definite : whether there are factors; nothing can be solved without them
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
    ) -> None:
        self._group, self._team = np.repeat(np.arange(len(sizes)), sizes), team
        places = [np.flatnonzero(label == l) for l in np.unique(label)]
        # The largest first: threads that share them end at about the same time.
        self._places = sorted(places, key=len, reverse=True)
        self._scales = [np.empty(len(at)) for at in self._places]
        self._factors = [np.empty((len(at), len(at)), order="F") for at in self._places]
        self.is_definite = any(
            self._factorise(K, row, len(sizes), weights, ridge) for ridge in ridges(most_ridge)
        )

    def _factorise(
        self, K: FloatArray, row: IntArray, n_groups: int, weights: FloatArray, ridge: float
    ) -> bool:
        """Whether all blocks and S have a factor; S is summed in one order, whoever sums."""
        total = np.zeros((n_groups, n_groups), order="F")
        turns, has_failed = _Turns(), False

        def compute(which: slice) -> None:
            nonlocal has_failed
            k, is_found = which.start, False
            at, scale, factor = self._places[k], self._scales[k], self._factors[k]
            try:
                inverse = np.empty_like(factor, order="F")
                is_found = not has_failed and factor_and_invert(
                    K, row[at], weights[at], ridge, scale, factor, inverse
                )
            finally:
                with turns.after(k) as is_on:
                    has_failed = has_failed or not is_found
                    if is_found and is_on:
                        add_scaled(inverse, scale, self._group[at], total)

        try:
            self._team.each(len(self._places), compute, 1)
        except BaseException:
            # Of what was interrupted some numbers never come.
            turns.abandon()
            raise
        if has_failed:
            return False
        scale = 1.0 / np.sqrt(total.diagonal())
        total *= scale
        total *= scale[:, None]
        total.flat[:: n_groups + 1] += ridge
        self._total, self._scale = total, scale
        return lower_factor(total, self._team)

    def solve(self, values: FloatArray) -> FloatArray:
        """delta for v, one number for each variable."""
        delta = self._divided(values)
        sums = np.zeros(len(self._scale))
        np.add.at(sums, self._group, delta)
        divide(self._total, self._scale, sums)
        delta -= self._divided(sums[self._group])
        return delta

    def _divided(self, values: FloatArray) -> FloatArray:
        """A^-1 of the values of every label."""
        divided = np.empty_like(values)

        def compute(which: slice) -> None:
            for k in range(which.start, which.stop):
                part = values[self._places[k]]
                divide(self._factors[k], self._scales[k], part)
                divided[self._places[k]] = part

        is_shared = sum(factor.size for factor in self._factors) >= SHARED
        self._team.each(len(self._places), compute, 1 if is_shared else len(self._places))
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
