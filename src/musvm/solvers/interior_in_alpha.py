"""Interior points in alpha, with the Gram matrix: for some rows, of which some labels may change.

The multipliers of `cones.py` go by decision values F, which are those of alpha, K alpha + f with f
what is held, once a whole step has been taken. A step changes alpha by d and F by

    d = offset - B dF,     dF = K d + (K alpha + f - F).

With theta of every live label, as in B, and a multiplier lambda for every row,

    (K + diag(1 / theta)) (d - offset) + lambda = -(K offset + K alpha + f - F),

in changes that sum to zero in every row: a matrix that is a sum of two positive ones, in which
nothing cancels (`EquationsInAlpha`). In weights (`interior.py`) d would be the response of the rows
to dF. That multiplies by theta what rounding leaves in dF, and theta of a free variable grows
without limit: of a smooth kernel alpha and its weights soon have nothing to do with each other, and
C multiplies what is between them. Here alpha takes d as it was solved for, and F takes K d. They
agree to the last digit whatever was lost in solving. What was lost, a residual r of the equations,
is only missed by the products: that of a variable x misses its target by x r. So much may be left
as is small next to the target.

A label whose theta has all but vanished is left out of the equations: it follows from the others'
changes. So the equations become fewer while the method closes in on the right face. They are
solved label by label, with a multiplier for every row (`musvm.dual.label_blocks`), where that costs
less than a factor in the directions e_l - e_k, k the label of the row with the largest theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from musvm._input.tensors import Array, BoolArray, FloatArray, IntArray
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.faces import Directions
from musvm.dual.label_blocks import LabelBlocks, work_of_blocks, work_of_directions
from musvm.dual.problem import DualProblem, DualRows
from musvm.solvers.central_path import CentralPath, closed, cone_of, slices_of_pieces
from musvm.solvers.cones import Cone, Star
from musvm.solvers.interior import GIVE_BACKS, ScaledFactor, refuse_equations

# A label counts if theta k(x, x) exceeds this.
NOTICEABLE = 1e-7
# What products may miss their target by, as a share of it; that of a predictor, which is not taken,
# is so much of their mean.
MISSED, OF_PREDICTOR = 0.1, 1e-3
MAX_REFINEMENTS = 8
# Columns of the Gram matrix that a thread takes at a time.
COLUMNS = 512


class Beginning(NamedTuple):
    """Where steps begin.

    alpha : (L, R), with everything that is not live at its bound
    F : (L, R) its decision values
    middle : share of the middle of every row next to alpha
    live : masks, (L, R) each: which x of a simplex, or which p and which q of a capped row
    """

    alpha: FloatArray
    F: FloatArray
    middle: float
    live: tuple[BoolArray, BoolArray]

    @property
    def labels(self) -> BoolArray:
        """(L, R) the labels of which something may change."""
        return self.live[0] | self.live[1]

    def cone(self, part: DualRows, rows: slice) -> Cone:
        """Of some rows, all of one kind."""
        live = self.live[0][:, rows], self.live[1][:, rows]
        return cone_of(part, self.F[:, rows], live, self.alpha[:, rows], self.middle)


@dataclass
class Part:
    """Some rows of one kind, and where they are among all."""

    rows: slice
    cone: Cone
    part: DualRows
    curvature: FloatArray


class EquationsInAlpha:
    """The matrix of the Newton step, for live labels, and its factor."""

    def __init__(self, gram: FloatArray, live: BoolArray, team: Workers) -> None:
        self.gram, self.live = gram, live
        self._team = team
        self._row, self._label = np.nonzero(live.T)
        self.size = len(self._row)

    def times_gram(self, values: FloatArray) -> FloatArray:
        """values K, (L, R)."""
        found = np.empty_like(values)

        def multiply(part: slice) -> None:
            np.matmul(values, self.gram[:, part], out=found[:, part])

        self._team.each(values.shape[1], multiply, COLUMNS)
        return found

    def factorise(self, parts: list[Part]) -> None:
        self.star = Star(np.hstack([part.cone.star.theta for part in parts]))
        theta = self.star.theta[self._label, self._row]
        kept, sizes = self._heaviest_first(theta)
        self._at = self._label[kept], self._row[kept]
        self._small = self.live.copy()
        self._small[self._at] = False
        self._some_are_small = bool(self._small.any())
        self.size = int(sizes.sum()) - len(sizes)
        by_labels = self._by_labels(sizes, theta[kept])
        self._divide = by_labels or self._by_directions(sizes, theta[kept])

    def _heaviest_first(self, theta: FloatArray) -> tuple[IntArray, IntArray]:
        """Variables that count, by rows, the heaviest of each row first; and how many a row has."""
        order = np.lexsort((-theta, self._row))
        row = self._row[order]
        first = np.diff(row, prepend=-1) > 0
        counts = theta[order] * self.gram.diagonal()[row] > NOTICEABLE
        rows_that_count = np.zeros(len(self.gram), dtype=bool)
        rows_that_count[row[counts & ~first]] = True
        kept = order[(counts | first) & rows_that_count[row]]
        return kept, np.unique(self._row[kept], return_counts=True)[1]

    def _by_labels(self, sizes: IntArray, theta: FloatArray) -> Callable[..., FloatArray] | None:
        """By one block for every label; None where directions cost less."""
        label, row = self._at
        if work_of_blocks(label, len(sizes)) >= work_of_directions(sizes):
            return None
        blocks = LabelBlocks(self.gram, row, label, sizes, 1.0 / theta, self._team, most_ridge=1.0)
        if not blocks.is_definite:
            refuse_equations()
        return blocks.solve

    def _by_directions(self, sizes: IntArray, theta: FloatArray) -> Callable[..., FloatArray]:
        label, row = self._at
        if len(row) == 0:
            return lambda values: values
        directions = Directions.of(row, label, sizes)
        H = directions.hessian(self.gram)
        group = np.repeat(np.arange(len(sizes)), sizes - 1)
        _add_blocks(H, group, 1.0 / theta[directions.away])
        H.flat[:: len(H) + 1] += 1.0 / theta[directions.towards]
        factor = ScaledFactor(H, self._team)

        def divide(values: FloatArray) -> FloatArray:
            return directions.change(factor.solve(directions.along(values)), len(values))

        return divide

    def solve(self, values: FloatArray) -> FloatArray:
        """The change whose image is the values, up to a constant in every row, (L, R)."""
        change = np.zeros_like(values)
        change[self._at] = self._divide(values[self._at])
        if self._some_are_small:
            slopes = self.star.slopes(values - self.times_gram(change))
            change += self._small * self.star.theta * slopes
        solved: FloatArray = self.star.closed(change)
        return solved

    def residual(self, change: FloatArray, values: FloatArray) -> FloatArray:
        """What diag(1 / theta) change misses of the values, up to a constant in every row."""
        found = np.divide(change, self.star.theta, out=np.zeros_like(change), where=self.live)
        missing: FloatArray = self.star.slopes(values - found)
        return missing * self.live


def _add_blocks(H: FloatArray, group: IntArray, values: FloatArray) -> None:
    """Add values[i] to H[i, j] wherever i and j are of one group; groups are contiguous."""
    _, starts, sizes = np.unique(group, return_index=True, return_counts=True)
    for size in np.unique(sizes):
        first = starts[sizes == size]
        at = first[:, None] + np.arange(size)
        H[at[:, :, None], at[:, None, :]] += values[first][:, None, None]


class InteriorInAlpha(CentralPath):
    """The state of the method for a problem of which some variables are held."""

    def __init__(self, problem: DualProblem, begin: Beginning, team: Workers) -> None:
        rows, diagonal = problem.rows, problem.gram.diagonal()
        parts = []
        for where in slices_of_pieces(rows, on_device=False):
            part = rows.at(np.arange(where.start, where.stop))
            parts.append(Part(where, begin.cone(part, where), part, diagonal[where]))
        self.equations: EquationsInAlpha = EquationsInAlpha(problem.gram, begin.labels, team)
        super().__init__(rows, parts, self.equations, team)
        self._of_held = begin.F - self.equations.times_gram(begin.alpha)
        self._F = begin.F.copy()
        self._own_F = self._decision_values()

    def _decision_values(self) -> FloatArray:
        return self.equations.times_gram(self.alpha()) + self._of_held

    def _advance(self, change: Array) -> None:
        self._F += change
        self._own_F = self._decision_values()

    def _direct(self, target: float, *, corrected: bool) -> FloatArray:
        """And gives the change of F."""
        self._map(lambda p: p.cone.aim(target, corrected=corrected))
        offset = self.joined(lambda cone: cone.d_alpha)
        unchanged = self._own_F - self._F + self.equations.times_gram(offset)
        wanted = target or OF_PREDICTOR * self.products() / self.n_products
        change, dF = self._response(unchanged, MISSED * wanted)
        d_alpha = offset + change
        self._map(lambda p: p.cone.follow(dF[:, p.rows], d_alpha[:, p.rows]))
        return dF

    def _response(self, unchanged: FloatArray, enough: float) -> tuple[FloatArray, FloatArray]:
        """How alpha responds where F would change so by itself, and how F then does.

        Refined until no product misses its target by more than `enough`, or that no longer falls.
        """
        widest = self.joined(lambda cone: np.max(cone.x, axis=0))
        change, dF, residual, missed = np.zeros_like(unchanged), unchanged, -unchanged, np.inf
        for _ in range(1 + MAX_REFINEMENTS):
            better = change + self.equations.solve(residual)
            dF_of_better = unchanged + self.equations.times_gram(better)
            residual = self.equations.residual(better, -dF_of_better)
            before, missed = missed, float(np.max(widest * np.abs(residual)))
            if not missed < before:
                break
            change, dF = better, dF_of_better
            if missed <= enough or missed > 0.5 * before:
                break
        return change, dF

    def gap_by_drift(self) -> float:
        """What the gap is larger or smaller by because F are not the decision values of alpha."""
        return abs(self._gap(self._own_F) - self._gap(self._F))

    def _gap(self, F: FloatArray) -> float:
        """Of alpha as it is, with these decision values."""

        def survey(p: Part) -> Array:
            return statement.stacked_gap_and_primal(p.part, p.cone.alpha.T, F[:, p.rows].T)

        return float(self._sum(survey)[0])

    def snapped(self, eagerness: float) -> FloatArray:
        """A feasible alpha near this one with as many entries as possible at their bounds.

        What that takes from the decision values is given back by the entries that are left.
        """
        snapped = self._map(lambda p: p.cone.snapped(p.curvature / eagerness))
        alpha, settled = (np.hstack([one[k] for one in snapped]) for k in (0, 2))
        star = Star(np.hstack([one[1].theta for one in snapped]))
        before = self.alpha()
        for _ in range(GIVE_BACKS):
            missing = self.equations.times_gram(before - alpha)
            change = np.where(settled, 0.0, self.equations.solve(missing))
            alpha += change - star.theta * (change.sum(axis=0) / star.total)
        return closed(self.rows, alpha)
