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

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm._pieces import lower_factor
from musvm._threads import Workers
from musvm.dual._label_blocks import add_scaled, divide, factor_and_invert

# Rows of a block: LAPACK hears no interrupt meanwhile.
MOST_ROWS = 3000
# Inverses that are held at a time, and so the most threads that are of use.
AT_A_TIME = 4


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
        self._group = np.repeat(np.arange(len(sizes)), sizes)
        self._places = [np.flatnonzero(label == l) for l in np.unique(label)]
        self._scales = [np.empty(len(places)) for places in self._places]
        self._factors = [np.empty((len(p), len(p)), order="F") for p in self._places]
        ridge = 0.0
        self.is_definite = self._factorise(K, row, len(sizes), weights, team, ridge)
        while not self.is_definite and ridge < most_ridge:
            ridge = min(max(10.0 * ridge, 1e-15), most_ridge)
            self.is_definite = self._factorise(K, row, len(sizes), weights, team, ridge)

    def _factorise(
        self,
        K: FloatArray,
        row: IntArray,
        n_groups: int,
        weights: FloatArray,
        team: Workers,
        ridge: float,
    ) -> bool:
        """Whether all blocks and S have a factor; S is summed in the order of the labels."""
        total = np.zeros((n_groups, n_groups), order="F")
        found, inverses = [True] * len(self._places), [np.empty((0, 0))] * len(self._places)

        def compute(which: slice) -> None:
            for k in range(first + which.start, first + which.stop):
                at, inverses[k] = self._places[k], np.empty_like(self._factors[k], order="F")
                own = self._scales[k], self._factors[k], inverses[k]
                found[k] = factor_and_invert(K, row[at], weights[at], ridge, *own)

        for first in range(0, len(found), AT_A_TIME):
            labels = range(first, min(first + AT_A_TIME, len(found)))
            team.each(len(labels), compute, 1)
            if not all(found):
                return False
            for k in labels:
                add_scaled(inverses[k], self._scales[k], self._group[self._places[k]], total)
                inverses[k] = np.empty((0, 0))
        scale = 1.0 / np.sqrt(total.diagonal())
        total *= scale
        total *= scale[:, None]
        total.flat[:: n_groups + 1] += ridge
        self._total, self._scale = total, scale
        return lower_factor(total, team)

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
        for places, scale, factor in zip(self._places, self._scales, self._factors, strict=True):
            part = values[places]
            divide(factor, scale, part)
            divided[places] = part
        return divided
