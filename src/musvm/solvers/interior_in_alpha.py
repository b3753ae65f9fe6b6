"""Interior points in alpha, with the Gram matrix: for some rows, of which some labels may change.

The multipliers of `cones.py` go by decision values F, which are those of alpha, K alpha + f with f
what is held, once a whole step has been taken. A step changes alpha by d and F by

    d = offset - B dF,     dF = K d + (K alpha + f - F).

With theta of every live label, as in B, and a multiplier lambda for every row,

    (K + diag(1 / theta)) (d - offset) + lambda = -(K offset + K alpha + f - F),

in changes that sum to zero in every row; rows of the "max" loss, in which two sums are tied
(`cones.py`), have a sigma, sigma = a'(d - offset) / h, on the left as well. The matrix is a sum of
two positive ones, in which nothing cancels (`EquationsInAlpha`). In weights (`interior.py`) d would
be the response of the rows to dF. That multiplies by theta what rounding leaves in dF, and theta of
a free variable grows without limit: of a smooth kernel alpha and its weights soon have nothing to
do with each other, and C multiplies what is between them. Here alpha takes d as it was solved for,
and F takes K d. They agree to the last digit whatever was lost in solving. What was lost, a
residual r of the equations, is only missed by the products: that of a variable x misses its target
by x r. So much may be left as is small next to the target.

Since so little is asked of them, equations that are nearly these do, as the preconditioner of
conjugate gradients:

- A label whose theta has all but vanished is left out: it follows from the others' changes. So the
  equations become fewer while the method closes in on the right face.
- Rows whose labels have nearly the same theta, as those of a universum at Delta = 0, are taken to
  have the same, and are eliminated for all labels at once (`musvm.dual.common_rows`).

What is left is solved label by label, with a multiplier for every row (`musvm.dual.label_blocks`),
where that costs less than a factor in the directions e_l - e_k, k the label of the row with the
largest theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from musvm._input.tensors import Array, BoolArray, FloatArray, IntArray
from musvm._pieces import Workspace
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.common_rows import CommonRows, work_of_common_rows
from musvm.dual.faces import Directions
from musvm.dual.label_blocks import LabelBlocks, least_work, work_of_blocks, work_of_directions
from musvm.dual.problem import DualProblem, DualRows
from musvm.solvers.central_path import CentralPath, closed, cone_of, slices_of_pieces
from musvm.solvers.cones import Cone, Star
from musvm.solvers.interior import GIVE_BACKS, ScaledFactor, refuse_equations
from musvm.solvers.ties import rows_of

# A label counts if theta k(x, x) exceeds this.
NOTICEABLE = 1e-7
# Rows are alike if none of their thetas is so many times another; it is worth while to share their
# factor for all labels if a step then takes such a part of the operations.
ALIKE, MUCH_LESS = 4.0, 0.6
# What products may miss their target by, as a share of it; that of a predictor, which is not taken,
# is so much of their mean.
MISSED, OF_PREDICTOR = 0.3, 1e-2
# Conjugate gradients end after so many iterations, or so many of which none misses half as much.
MAX_ITERATIONS, PATIENCE = 40, 2
# Columns of the Gram matrix that a thread takes at a time.
COLUMNS = 512


def labels_of(live: tuple[BoolArray, BoolArray]) -> BoolArray:
    """(L, R) the labels of which something may change."""
    return live[0] | live[1]


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
        return labels_of(self.live)

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
        self._may_share, self._workspace = True, Workspace()

    def times_gram(self, values: FloatArray) -> FloatArray:
        """values K, (L, R)."""
        found = np.empty_like(values)

        def multiply(part: slice) -> None:
            np.matmul(values, self.gram[:, part], out=found[:, part])

        self._team.each(values.shape[1], multiply, COLUMNS)
        return found

    def factorise(self, parts: list[Part]) -> None:
        self.rows = rows_of([part.cone.star for part in parts], self.gram.diagonal())
        self.star: Star = self.rows.star
        self._weights = np.divide(
            1.0, self.star.theta, out=np.zeros_like(self.star.theta), where=self.live
        )
        kept, self._sizes = self._heaviest_first(self.star.theta[self._label, self._row])
        self._kept = self._label[kept], self._row[kept]
        self._small = self.live.copy()
        self._small[self._kept] = False
        self._some_are_small = bool(self._small.any())
        self.size = int(self._sizes.sum()) - len(self._sizes)
        self._share(self._alike() if self._may_share else np.empty(0, dtype=np.intp))

    def share_no_rows(self) -> bool:
        """Solve the equations as they are from now on; False if that is what is done already."""
        if not self._may_share or not len(self._common):
            return False
        self._may_share = False
        self._share(np.empty(0, dtype=np.intp))
        return True

    def _alike(self) -> IntArray:
        """Rows with nearly the same theta for all labels, if it costs much less to share them."""
        label, row = self._kept
        rows, sizes = row[np.cumsum(self._sizes) - 1], self._sizes
        is_alike = (sizes == len(self.live)) & ~self.rows.are_tied[rows]
        logs = np.log(self._weights[:, rows[is_alike]])
        is_alike[is_alike] = np.ptp(logs, axis=0) <= np.log(ALIKE)
        in_rest = ~np.repeat(is_alike, sizes)
        n_common, n_others = int(is_alike.sum()), int((~is_alike).sum())
        shared = work_of_common_rows(n_common, n_others) + least_work(
            label[in_rest], sizes[~is_alike]
        )
        return rows[is_alike] if shared <= MUCH_LESS * least_work(label, sizes) else rows[:0]

    def _share(self, common: IntArray) -> None:
        """Factors with these rows eliminated for all labels at once."""
        # Those before them must not keep the workspace from growing into what they held.
        self._divide: Callable[[FloatArray], FloatArray] = lambda _: refuse_equations()
        label, row = self._kept
        is_other = np.zeros(len(self.gram), dtype=bool)
        is_other[row] = True
        is_other[common] = False
        self._common, self._others = common, np.flatnonzero(is_other)
        if len(common):
            weights = np.exp(np.log(self._weights[:, common]).mean(axis=0))
            self._shared = CommonRows(
                self.gram, common, self._others, weights, self._team, most_ridge=1.0
            )
            if not self._shared.is_definite:
                refuse_equations()
        in_rest = is_other[row]
        self._at = label[in_rest], row[in_rest]
        self._divide = self._solver_of(
            self._shared.schur if len(common) else self.gram,
            np.cumsum(is_other)[row[in_rest]] - 1 if len(common) else row[in_rest],
            self._sizes[is_other[row[np.cumsum(self._sizes) - 1]]],
        )

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

    def _solver_of(
        self, gram: FloatArray, place: IntArray, sizes: IntArray
    ) -> Callable[[FloatArray], FloatArray]:
        """Of labels at these places of a matrix, by rows of these sizes: a number for each."""
        label, weights = self._at[0], self._weights[self._at]
        if len(label) == 0:
            return lambda values: values
        ties = self.rows.ties(self._at, sizes)
        if work_of_blocks(label, len(sizes)) < work_of_directions(sizes):
            blocks = LabelBlocks(
                gram, place, label, sizes, weights, self._team, most_ridge=1.0, ties=ties,
                workspace=self._workspace,
            )  # fmt: skip
            if not blocks.is_definite:
                refuse_equations()
            return blocks.solve
        directions = Directions.of(place, label, sizes)
        H = directions.hessian(gram)
        group = np.repeat(np.arange(len(sizes)), sizes - 1)
        sides = directions.along(ties.coefficient) / np.sqrt(ties.give[group])
        _add_blocks(H, group, weights[directions.away], sides)
        H.flat[:: len(H) + 1] += weights[directions.towards]
        factor = ScaledFactor(H, self._team)

        def divide(values: FloatArray) -> FloatArray:
            return directions.change(factor.solve(directions.along(values)), len(values))

        return divide

    def solve(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The change whose image is nearly the values, up to a constant in every row; its sigma.

        (L, R) and (R,).
        """
        change = np.zeros_like(values)
        if len(self._common):
            u, of_others = self._shared.eliminate(values[:, self._common].T)
            values_there = values.copy()
            values_there[:, self._others] -= of_others.T
            change[self._at] = self._divide(values_there[self._at])
            change[:, self._common] = self._shared.changes(u, change[:, self._others].T).T
        else:
            change[self._at] = self._divide(values[self._at])
        left = values
        if self._some_are_small or self.rows.has_stiff_ties:
            left = values - self.times_gram(change)
            change += self._small * self.star.theta * self.rows.slopes(left)
        return self.rows.closed(change, left)

    def image(
        self, change: FloatArray, tension: FloatArray, gram_times_change: FloatArray
    ) -> FloatArray:
        """(K + diag(1 / theta)) change + a sigma, up to a constant in every row."""
        of_rows = self._weights * change + self.rows.pulled(tension)
        return self.centred(gram_times_change + of_rows)

    def centred(self, values: FloatArray) -> FloatArray:
        """Values of live labels less their mean, weighted by theta; zero elsewhere."""
        slopes: FloatArray = self.star.slopes(values)
        return slopes * self.live


def _add_blocks(H: FloatArray, group: IntArray, values: FloatArray, sides: FloatArray) -> None:
    """Add values[i] + sides[i] sides[j] to H[i, j] wherever i and j are of one group.

    Groups are contiguous, and their values the same.
    """
    _, starts, sizes = np.unique(group, return_index=True, return_counts=True)
    for size in np.unique(sizes):
        first = starts[sizes == size]
        at = first[:, None] + np.arange(size)
        squares = sides[at][:, :, None] * sides[at][:, None, :]
        H[at[:, :, None], at[:, None, :]] += values[first][:, None, None] + squares


class _Response(NamedTuple):
    """How alpha responds, how F then changes, sigma of all rows, and what products miss."""

    change: FloatArray
    decision: FloatArray
    tension: FloatArray
    missed: float


class InteriorInAlpha(CentralPath):
    """The state of the method for a problem of which some variables are held."""

    equations: EquationsInAlpha

    def __init__(self, problem: DualProblem, begin: Beginning, team: Workers) -> None:
        rows, diagonal = problem.rows, problem.gram.diagonal()
        parts = []
        for where in slices_of_pieces(rows, on_device=False):
            part = rows.at(np.arange(where.start, where.stop))
            parts.append(Part(where, begin.cone(part, where), part, diagonal[where]))
        super().__init__(rows, parts, EquationsInAlpha(problem.gram, begin.labels, team), team)
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
        offset: FloatArray = self.joined(lambda cone: cone.d_alpha)
        unchanged = self._own_F - self._F + self.equations.times_gram(offset)
        wanted = target or OF_PREDICTOR * self.products() / self.n_products
        response = self._response(unchanged, MISSED * wanted)
        if response.missed > wanted and self.equations.share_no_rows():
            response = self._response(unchanged, MISSED * wanted)
        d_alpha, dF, tension = offset + response.change, response.decision, response.tension
        self._map(lambda p: p.cone.follow(dF[:, p.rows], d_alpha[:, p.rows], tension[p.rows]))
        return dF

    def _response(self, unchanged: FloatArray, enough: float) -> _Response:
        """How alpha responds where F would change so by itself.

        By conjugate gradients, until no product misses its target by more than `enough`. The
        preconditioner is not quite symmetric: directions are made conjugate by what residuals
        change by.
        """
        equations, widest = self.equations, self.joined(lambda cone: cone.widest())
        nothing, residual = np.zeros_like(unchanged), equations.centred(-unchanged)
        found = _Response(nothing, unchanged, np.zeros(unchanged.shape[1]), np.inf)
        direction, gram_times, tension = nothing, nothing, found.tension
        best, before, height, n_waited = found, residual, np.inf, 0
        for _ in range(MAX_ITERATIONS):
            solved, solved_tension = equations.solve(residual)
            slope = float(np.vdot(solved, residual - before)) / height
            before, height = residual, float(np.vdot(solved, residual))
            direction = solved + slope * direction
            tension = solved_tension + slope * tension
            gram_times = equations.times_gram(solved) + slope * gram_times
            image = equations.image(direction, tension, gram_times)
            curvature = float(np.vdot(direction, image))
            if not (height > 0.0 and curvature > 0.0):
                break
            length = float(np.vdot(direction, residual)) / curvature
            residual = residual - length * image
            missed = float(np.max(widest * np.abs(residual)))
            found = _Response(
                found.change + length * direction,
                found.decision + length * gram_times,
                found.tension + length * tension,
                missed,
            )
            n_waited = 0 if missed < 0.5 * best.missed else n_waited + 1
            best = min(best, found, key=lambda one: one.missed)
            if missed <= enough or n_waited >= PATIENCE:
                break
        return best

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
        rows = rows_of([one[1] for one in snapped], self.equations.gram.diagonal())
        before = self.alpha()
        for _ in range(GIVE_BACKS):
            missing = self.equations.times_gram(before - alpha)
            change, _ = self.equations.solve(missing)
            alpha += rows.projected(np.where(settled, 0.0, change))
        return closed(self.rows, alpha)
