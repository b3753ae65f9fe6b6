"""Steps along the central path of the dual, whatever solves their equations.

All rows stay strictly inside their sets (`cones.py`), and the products of all variables with their
multipliers are driven to zero together. Mehrotra's predictor and corrector choose the steps, and
Gondzio's correctors lengthen them where some products lag behind: 15 to 60 of them whatever C is.
Newton's equations are written in weights (`interior.py`) or in alpha (`interior_in_alpha.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from array_api_compat import device

from musvm._input.tensors import Array, FloatArray, namespace, to_host
from musvm._threads import Workers
from musvm.dual._faces import project_rows
from musvm.dual.problem import DualRows
from musvm.solvers.cones import Balanced, Capped, Cone, Simplex

# Entries of an array of a piece, of which some twenty are in use at a time: more where there would
# be more than so many pieces, whose threads would wait for each other.
PIECE_ENTRIES, MOST_ENTRIES, MANY_PIECES = 2**15, 2**17, 16
# On a device, which a piece keeps busy by itself.
DEVICE_ENTRIES = 2**24
# How much of the way to the boundary a step goes.
NEARLY = 0.99
# No step aims at products larger than this share of the present mean, unless these need not be as
# small: where the predictor gets nowhere, correctors do more for the step than a timid target.
MOST_CENTRED = 0.5
# A step shorter than LONG is corrected so as to be longer by LONGER; at least a share of that must
# come of it. A correction takes roughly as long as so many operations of BLAS for every entry of
# alpha: there may be as many of them in a step as take no longer than its equations.
LONG, LONGER, WORTHWHILE = 0.8, 0.3, 0.1
MAX_CORRECTIONS, CORRECTION = 4, 1500.0


class CentralPath:
    """Predictors and correctors; subclasses solve for the changes of all pieces.

    A piece has a `cone`, and what else its subclass needs.
    """

    def __init__(self, rows: DualRows, pieces: list[Any], equations: Any, workers: Workers) -> None:
        self.rows, self.pieces, self.equations = rows, pieces, equations
        self.workers = workers
        self.n_products: int = sum(piece.cone.n_products for piece in pieces)

    def _map(self, function: Callable[[Any], Any], of: list[Any] | None = None) -> list[Any]:
        """A function of all pieces, or what stands for them, on several threads, in their order."""
        return self.workers.map(function, self.pieces if of is None else of)

    def _sum(self, function: Callable[[Any], Any], of: list[Any] | None = None) -> Any:
        return sum(self._map(function, of))

    def step(self, floor: float = 0.0) -> None:
        """One predictor and corrector. No product is aimed below `floor`."""
        self._map(lambda p: p.cone.linearise())
        self.equations.factorise(self.pieces)
        mean = self.products() / self.n_products
        self._direct(0.0, corrected=False)
        t = min(1.0, self._room())
        predicted = self._sum(lambda p: p.cone.products(t)) / self.n_products
        target = max(min((predicted / mean) ** 3, MOST_CENTRED) * mean, floor)
        self._map(lambda p: p.cone.keep_left_out(target))
        change = self._direct(target, corrected=True)
        change, t = self._lengthened(change, min(1.0, NEARLY * self._room()), target)
        self._map(lambda p: p.cone.advance(t))
        self._advance(t * change)

    def _direct(self, target: float, *, corrected: bool) -> Array:
        """Set the changes of all pieces for a step towards a target; gives that of the rest."""
        raise NotImplementedError

    def _advance(self, change: Array) -> None:
        """Add the change to what is not of any piece."""
        raise NotImplementedError

    def _lengthened(self, change: Array, t: float, target: float) -> tuple[Array, float]:
        """The same step, or one that is longer because it keeps nearer to the centre."""
        for _ in range(self._n_corrections()):
            if t >= LONG:
                break
            aim = min(1.0, t + LONGER)
            before = [piece.cone.changes for piece in self.pieces]
            self._pull_to_centre(aim, target)
            other = self._direct(target, corrected=True)
            length = min(1.0, NEARLY * self._room())
            if length < t + WORTHWHILE * (aim - t):
                for piece, changes in zip(self.pieces, before, strict=True):
                    piece.cone.changes = changes
                break
            change, t = other, length
        return change, t

    def _n_corrections(self) -> int:
        """How many of them take no longer than the equations in weights.

        In alpha both cost less.
        """
        size, n_entries = float(self.equations.size), self.rows.n_points * self.rows.n_classes
        equations = self.rows.n_points * size**2 / 2.0 + size**3 / 3.0
        return min(int(equations / (CORRECTION * n_entries)), MAX_CORRECTIONS)

    def _pull_to_centre(self, aim: float, target: float) -> None:
        self._map(lambda p: p.cone.pull_to_centre(aim, target))

    def products(self) -> float:
        """The sum of all x z: the gap, once the multipliers go by the decision values of alpha."""
        return float(self._sum(lambda p: p.cone.products()))

    def _room(self) -> float:
        """The longest step that stays inside."""
        steepest = max(self._map(lambda p: p.cone.steepest()))
        return 1.0 / steepest if steepest > 0 else np.inf

    def alpha(self) -> Array:
        """alpha as it is, class-major."""
        return self.joined(lambda cone: cone.alpha)

    def joined(self, of_cone: Callable[[Cone], Array]) -> Array:
        """What is of every cone, (L, R), one after the other."""
        parts = [of_cone(piece.cone) for piece in self.pieces]
        return namespace(parts[0]).concat(parts, axis=1)

    def feasible(self) -> FloatArray:
        """alpha within the constraints to the last digit, class-major."""
        return made_feasible(self.rows, self.alpha())


def made_feasible(rows: DualRows, alpha: Array) -> FloatArray:
    """A new class-major alpha on the host; rows that left the set are projected onto it.

    The others keep their digits.
    """
    nearest = np.array(to_host(alpha), dtype=np.float64)
    n, y, caps, is_max = rows.n_train, rows.y, rows.caps, rows.is_max
    excess = nearest[:, :n].copy()
    excess[y, np.arange(n)] -= caps[:n]
    a = nearest[:, n:]
    sizes = np.maximum(a, 0.0).sum(axis=0) if is_max else a.max(axis=0, initial=0.0)
    above = np.concatenate([excess.max(axis=0), sizes - caps[n:]])
    outside = np.flatnonzero(above > 0.0)
    part = np.ascontiguousarray(nearest[:, outside])
    project_rows(part, y[outside[outside < n]], caps[outside], is_max)
    nearest[:, outside] = part
    return nearest


def closed(rows: DualRows, alpha: Array) -> FloatArray:
    """The same where rows sum to zero only nearly: their largest entries make up for it."""
    xp = namespace(alpha)
    columns = xp.arange(alpha.shape[1], device=device(alpha))
    alpha[xp.argmax(xp.abs(alpha), axis=0), columns] -= alpha.sum(axis=0)
    return made_feasible(rows, alpha)


def slices_of_pieces(rows: DualRows, *, on_device: bool) -> list[slice]:
    """The rows of one kind after those of the other, in pieces."""
    n, size = rows.n_train, _rows_of_a_piece(rows, on_device)
    bounds = [*range(0, n, size), *range(n, rows.n_points, size), rows.n_points]
    return [slice(start, min(stop, n) if start < n else stop) for start, stop in pairwise(bounds)]


def _rows_of_a_piece(rows: DualRows, on_device: bool) -> int:
    L = rows.n_classes
    if on_device:
        return max(DEVICE_ENTRIES // L, 64)
    several = -(-rows.n_points // MANY_PIECES)
    return max(min(max(PIECE_ENTRIES // L, several), MOST_ENTRIES // L), 64)


def cone_of(
    part: DualRows,
    F: Array,
    live: tuple[Any, Any] | None = None,
    near: Array | None = None,
    middle: float = 1.0,
) -> Cone:
    """The cone of rows that are all of one kind."""
    first = None if live is None else live[0]
    if part.n_train:
        e, (places, labels) = namespace(F).zeros_like(F), part.own
        e[labels, places] = 1.0
        return Simplex(e * part.caps, e - F, first, near, middle)
    if part.is_max:
        return Balanced(part.caps, F, part.delta, live, near, middle)
    if part.delta == 0.0:
        return Simplex(0.0 * F + part.caps, -F, first, near, middle)
    return Capped(part.caps, F, part.delta, live, near, middle)
