"""The interior-point method: K = Z Z' with few columns, any C and any conditioning.

Let Z be (M, r), W = Z' alpha the weights (here class-major, (L, r)) and F = Z W. Descent and
Newton steps on faces crawl where K is singular or nearly so and C is large. Here all rows stay
strictly inside their sets (`cones.py`), all products of a variable with its multiplier are driven
to zero together, and one Newton step of the whole is

    (I + sum_i z_i z_i' (x) B_i) dW = Z' (offsets) + Z' alpha - W

with B_i the Laplacian of row i: r L equations whatever M is. Adding the same vector to the weights
of all classes changes nothing, so the last class is held at zero while solving: r (L - 1)
equations, whose matrix is assembled from z_a z_b and the weights of the graphs, all pairs with all
pairs, as one product of matrices. Its entries are sums of nonnegative terms, it is scaled to a unit
diagonal before its Cholesky factor is taken, and its solutions are refined by residuals of the
changes of alpha themselves: what is added to alpha always agrees with what is added to W.

Mehrotra's predictor and corrector choose the steps, and Gondzio's correctors lengthen them where
some products lag behind: 15 to 60 of them whatever C is. M enters
linearly: M (r L)^2 / 2 operations a step, in pieces, by BLAS.

The point it ends at is interior: no entry is exactly at its bound. Entries that descent on their
row would put there are put there, and those that remain make up for it, by the same equations, so
that W stays what it was. What counts is then certified from this alpha with the kernel itself.

Z may be on a device: everything but the equations is written for arrays of any library, and those
of a device are in `backends/torch_interior.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from array_api_compat import device
from scipy.linalg import lapack

from musvm._input.tensors import Array, FloatArray, is_tensor, namespace, to_host
from musvm._pieces import lower_factor, square
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual._faces import project_rows
from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution
from musvm.solvers.cones import Balanced, Capped, Cone, Simplex

# Entries of an array of a piece, of which some twenty are in use at a time: more where there would
# be more than so many pieces, whose threads would wait for each other.
PIECE_ENTRIES, MOST_ENTRIES, MANY_PIECES = 2**15, 2**17, 16
# On a device, which a piece keeps busy by itself.
DEVICE_ENTRIES = 2**24
# Entries of the products z_a z_b that are formed at a time: they should stay in the cache.
PRODUCT_ENTRIES = 2**17
# With more columns than this their products are not formed: one symmetric product per pair of
# labels does the same.
MANY_COLUMNS = 72
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
# Refinements end when the residual has fallen by so much, or no longer falls. What it leaves
# between W and the weights of alpha must do no harm to the gap, which C multiplies; but a share of
# what is between them already is small enough.
REFINED, MAX_REFINEMENTS, SHARE_OF_START = 1e-8, 12, 0.01
# Steps without a smaller gap before the method gives up: rounding is what is left.
PATIENCE = 8
# The products are brought down to this share of what the tolerance asks for: below, the equations
# lose digits for nothing.
SHARE = 0.1
# Shares of k(x, x) by which snapping goes: all that descent would snap, then ever less of it.
EAGERNESS = (1.0, 1e-2, 1e-4, 1e-6)
# Times that snapping makes up for what it took from the weights.
GIVE_BACKS = 3
# Once the tolerance is met, so many steps towards products smaller by so much may make the solution
# sparser.
MORE_STEPS, MORE = 4, 1e-3


@dataclass
class Piece:
    """Some rows of one kind: their columns of Z', (r, R), and where they are among all."""

    rows: slice
    Zt: Array
    cone: Cone
    part: DualRows
    offset: Array | float = 0.0

    def __post_init__(self) -> None:
        squares = (self.Zt**2).sum(axis=0)
        self.curvature = namespace(squares).clip(squares, min=np.finfo(float).tiny)

    def decision_values(self, W: Array) -> Array:
        """F of the rows, (R, L), for weights W."""
        return (W @ self.Zt + self.offset).T

    def weights(self, values: Array) -> Array:
        """values Z, (L, r)."""
        return values @ self.Zt.T

    def gap_per_weight(self) -> Array:
        """By how much the gap of the rows grows, at most, for a change of W of length 1.

        Decision values change by |z| then, and the share of a row, c loss + <alpha, F> and what
        is constant, by that times the distance between two points of the row's set.
        """
        part = self.part
        if part.n_train:
            widest = 2.0**0.5
        else:
            widest = 8.0**0.5 if part.is_max else 2.0**0.5 * part.n_classes
        return widest * (part.caps @ self.curvature**0.5)


@dataclass(frozen=True)
class Restriction:
    """A part of a larger problem: some of its rows, of which some variables may change.

    Attributes
    ----------
    offset : (L, R) what the rest of the problem adds to the decision values
    alpha : (L, R) to begin near, with everything that is not live at its bound
    W : (L, r) its weights
    middle : share of the middle of every row next to alpha, where steps begin
    live : masks, (L, R) each: which x of a simplex, or which p and which q of a capped row
    """

    offset: FloatArray
    alpha: FloatArray
    W: FloatArray
    middle: float
    live: tuple[Any, Any]

    def cone(self, part: DualRows, rows: slice, Zt: FloatArray) -> Cone:
        """Of some rows, all of one kind, with their columns of Z'."""
        first, second = self.live
        live = first[:, rows], second[:, rows]
        F = self.W @ Zt + self.offset[:, rows]
        return _cone(part, F, live, self.alpha[:, rows], self.middle)


def _pieces(Z: Array, rows: DualRows, restriction: Restriction | None) -> list[Piece]:
    n, L = rows.n_train, rows.n_classes
    size = _rows_of_a_piece(rows, is_tensor(Z))
    bounds = [*range(0, n, size), *range(n, rows.n_points, size), rows.n_points]
    pieces = []
    for start, next_start in pairwise(bounds):
        stop = min(next_start, n) if start < n else next_start
        where, part = slice(start, stop), rows.at(np.arange(start, stop)).beside(Z)
        Zt = _transposed(Z[start:stop])
        if restriction is None:
            pieces.append(Piece(where, Zt, _cone(part, _zeros(Z, L, stop - start)), part))
        else:
            cone = restriction.cone(part, where, Zt)
            pieces.append(Piece(where, Zt, cone, part, restriction.offset[:, where]))
    return pieces


def _rows_of_a_piece(rows: DualRows, on_device: bool) -> int:
    L = rows.n_classes
    if on_device:
        return max(DEVICE_ENTRIES // L, 64)
    several = -(-rows.n_points // MANY_PIECES)
    return max(min(max(PIECE_ENTRIES // L, several), MOST_ENTRIES // L), 64)


def _transposed(part: Array) -> Array:
    """Some rows of Z, column after column in memory."""
    return part.T.contiguous() if is_tensor(part) else np.ascontiguousarray(part.T)


def _zeros(like: Array, *shape: int) -> Array:
    return namespace(like).zeros(shape, dtype=like.dtype, device=device(like))


def _cone(
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
        return Balanced(part.caps, F, part.delta)
    if part.delta == 0.0:
        return Simplex(0.0 * F + part.caps, -F, first, near, middle)
    return Capped(part.caps, F, part.delta, live, near, middle)


# ---------------------------------------------------------------------------------------------
# The equations


class Equations:
    """The matrix of the Newton step and its factor."""

    def __init__(self, n_columns: int, n_classes: int, workers: Workers) -> None:
        self.r, self.L = n_columns, n_classes
        self.size = n_columns * (n_classes - 1)
        self.workers = workers
        self._pairs = np.triu_indices(n_classes - 1)

    def factorise(self, pieces: list[Piece]) -> None:
        H = self._by_pairs(pieces) if self.r > MANY_COLUMNS else self._by_products(pieces)
        self._factor = ScaledFactor(H.reshape(self.size, self.size), self.workers)

    def solve(self, rhs: FloatArray) -> FloatArray:
        """The weights, summing to zero over the classes, whose image is rhs, (L, r)."""
        W = np.zeros((self.L, self.r))
        W[:-1] = self._factor.solve(rhs[:-1].ravel()).reshape(self.L - 1, self.r)
        mean: FloatArray = W.mean(axis=0)
        return W - mean

    def _by_products(self, pieces: list[Piece]) -> FloatArray:
        """For few columns: the products z_a z_b, a <= b, times the weights of all pairs."""
        r, n_pairs = self.r, len(self._pairs[0])
        packed = sum(self.workers.map(lambda p: _weighted_products(p, n_pairs), pieces))
        order = np.zeros((r, r), dtype=np.intp)
        order[np.triu_indices(r)] = np.arange(r * (r + 1) // 2)
        order = np.maximum(order, order.T)
        H = self._empty()
        for pair, (k, l) in enumerate(zip(*self._pairs, strict=True)):
            H[k, :, l, :] = packed[pair, order] if k == l else -packed[pair, order]
            H[l, :, k, :] = H[k, :, l, :]
        plus_identity(H)
        return H

    def _by_pairs(self, pieces: list[Piece]) -> FloatArray:
        """For many columns: Z' diag(weights) Z for one pair of labels after another."""
        Zt = np.hstack([piece.Zt for piece in pieces])
        weights = np.hstack([pair_weights(piece.cone) for piece in pieces])
        H = self._empty()
        ks, ls = self._pairs

        def compute(which: slice) -> None:
            for pair in range(which.start, which.stop):
                k, l = ks[pair], ls[pair]
                block = square(Zt, np.sqrt(weights[pair]))
                H[k, :, l, :] = block if k == l else -block
                H[l, :, k, :] = H[k, :, l, :]

        self.workers.each(len(ks), compute, 1)
        plus_identity(H)
        return H

    def _empty(self) -> FloatArray:
        return np.empty((self.L - 1, self.r, self.L - 1, self.r))


def plus_identity(H: Array) -> None:
    """Add what 1/2 |W|^2 is of weights whose mean over the classes is taken off, in place.

    H is (L - 1, r, L - 1, r).
    """
    n, diagonal = H.shape[0], namespace(H).arange(H.shape[1], device=device(H))
    for k, l in np.ndindex(n, n):
        H[k, diagonal, l, diagonal] += float(k == l) - 1.0 / (n + 1)


def pair_weights(cone: Cone) -> Array:
    """A_kl for k < l < L - 1, and for k = l the sum of A_kl over the others; (pairs, R)."""
    factors = cone.graph()
    xp, (L, R) = namespace(factors[0]), factors[0].shape
    weights = _zeros(factors[0], L * (L - 1) // 2, R)
    for g in factors:
        others = xp.zeros_like(g)
        others[1:] = g[:-1].cumsum(0)
        others[:-1] += xp.flip(xp.flip(g[1:], axis=0).cumsum(0), axis=0)
        start = 0
        for k in range(L - 1):
            weights[start] += g[k] * others[k]
            weights[start + 1 : start + L - 1 - k] += g[k] * g[k + 1 : L - 1]
            start += L - 1 - k
    return weights


def _weighted_products(piece: Piece, n_pairs: int) -> FloatArray:
    """sum_i z_ia z_ib A_i,kl for all pairs k <= l, and all a <= b; (pairs, products)."""
    Zt, weights = piece.Zt, pair_weights(piece.cone)
    first, second = np.triu_indices(len(Zt))
    step = max(PRODUCT_ENTRIES // len(first), 32)
    total = np.zeros((n_pairs, len(first)))
    for start in range(0, Zt.shape[1], step):
        z = Zt[:, start : start + step]
        # Two calls that take rows cost less than one product for every column of Z.
        products = np.take(z, first, axis=0)
        products *= np.take(z, second, axis=0)
        total += weights[:, start : start + step] @ products.T
    return total


def refuse_equations() -> NoReturn:
    """Say why no ridge helps."""
    raise ValueError(
        "The equations of interior points contain NaN or infinite values: scale the features."
    )


def larger_ridge(ridge: float) -> float:
    """The next one to try; of a matrix with a unit diagonal 1 is enough, if these are numbers."""
    if ridge > 1.0:
        refuse_equations()
    return max(10.0 * ridge, 1e-15)


class ScaledFactor:
    """The Cholesky factor of a positive matrix, scaled to a unit diagonal, in place, before it.

    Only the upper triangle is read. A matrix that rounding has made indefinite gives way to the
    nearest one that has a factor.
    """

    def __init__(self, H: FloatArray, team: Workers) -> None:
        self._scale = 1.0 / np.sqrt(H.diagonal())
        H *= self._scale
        H *= self._scale[:, None]
        ridge = 0.0
        while True:
            self._lower = np.array(H.T, order="F")
            self._lower.flat[:: len(H) + 1] += ridge
            if lower_factor(self._lower, team):
                break
            ridge = larger_ridge(ridge)

    def solve(self, b: FloatArray) -> FloatArray:
        """H^-1 b."""
        solved: FloatArray = lapack.dpotrs(self._lower, b * self._scale, lower=1)[0] * self._scale
        return solved


# ---------------------------------------------------------------------------------------------
# The steps


class Interior:
    """The state of the method for one problem, or for a part of one with equations of its own."""

    def __init__(
        self,
        Z: Array,
        rows: DualRows,
        workers: Workers,
        restriction: Restriction | None = None,
        equations: Any = None,
    ) -> None:
        self.rows = rows
        self.workers = workers
        self.pieces = _pieces(Z, rows, restriction)
        self.W = _zeros(Z, rows.n_classes, Z.shape[1])
        if restriction is not None:
            self.W += restriction.W
        self.equations = equations or Equations(Z.shape[1], rows.n_classes, workers)
        self.n_products = sum(piece.cone.n_products for piece in self.pieces)
        self.own_weights = self._sum(lambda p: p.weights(p.cone.alpha))
        self._gap_per_weight = float(self._sum(Piece.gap_per_weight))

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
        dW = self._direct(target, corrected=True)
        dW, t = self._lengthened(dW, min(1.0, NEARLY * self._room()), target)
        self._map(lambda p: p.cone.advance(t))
        self.W += t * dW
        self.own_weights = self._sum(lambda p: p.weights(p.cone.alpha))

    def kept(self) -> tuple[Array, Array, list[Cone]]:
        """What `take_back` needs to undo the steps that follow; on the host alone."""
        return self.W.copy(), self.own_weights, [deepcopy(piece.cone) for piece in self.pieces]

    def take_back(self, kept: tuple[Array, Array, list[Cone]]) -> None:
        """Go back to a point that was kept; the equations of a step from there still hold."""
        self.W, self.own_weights, cones = kept
        for piece, cone in zip(self.pieces, cones, strict=True):
            piece.cone = cone
            cone.linearise()

    def _lengthened(self, dW: Array, t: float, target: float) -> tuple[Array, float]:
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
            dW, t = other, length
        return dW, t

    def _n_corrections(self) -> int:
        """How many of them take no longer than the equations."""
        size, n_entries = float(self.equations.size), self.rows.n_points * self.rows.n_classes
        equations = self.rows.n_points * size**2 / 2.0 + size**3 / 3.0
        return min(int(equations / (CORRECTION * n_entries)), MAX_CORRECTIONS)

    def _pull_to_centre(self, aim: float, target: float) -> None:
        self._map(lambda p: p.cone.pull_to_centre(aim, target))

    def products(self) -> float:
        """The sum of all x z: the gap, if W were the weights of alpha."""
        return float(self._sum(lambda p: p.cone.products()))

    def _direct(self, target: float, *, corrected: bool) -> Array:
        """Set the changes of all pieces for a step towards a target, and give that of W."""

        def aim(piece: Piece) -> Array:
            piece.cone.aim(target, corrected=corrected)
            return piece.weights(piece.cone.d_alpha)

        def respond(piece: Piece) -> Array:
            piece.cone.respond(change @ piece.Zt)
            return piece.weights(piece.cone.d_alpha)

        start = self.own_weights - self.W
        dW = namespace(start).zeros_like(start)
        residual = start + self._sum(aim)
        size = _norm(residual)
        enough = min(REFINED * size, max(SHARE_OF_START * _norm(start), self._harmless(target)))
        for _ in range(1 + MAX_REFINEMENTS):
            change = self.equations.solve(residual)
            dW += change
            residual = start + self._sum(respond) - dW
            size, before = _norm(residual), size
            if size <= enough or size > 0.5 * before:
                break
        return dW

    def _harmless(self, target: float) -> float:
        """What W and the weights of alpha may differ by: a gap no larger than that of the target.

        The predictor, whose target is 0, is not taken.
        """
        return target * self.n_products / self._gap_per_weight if target else np.inf

    def _room(self) -> float:
        """The longest step that stays inside."""
        steepest = max(self._map(lambda p: p.cone.steepest()))
        return 1.0 / steepest if steepest > 0 else np.inf

    def alpha(self) -> Array:
        """alpha as it is, class-major."""
        return namespace(self.W).concat([piece.cone.alpha for piece in self.pieces], axis=1)

    def feasible(self) -> FloatArray:
        """alpha within the constraints to the last digit, class-major."""
        return _feasible(self.rows, self.alpha())

    def gap_and_primal(self) -> tuple[float, float]:
        """Of alpha as it is, with Z Z' for K."""
        return self._gap_and_primal(self.own_weights)

    def gap_by_drift(self) -> float:
        """What the gap is larger or smaller by because W are not the weights of alpha."""
        return abs(self._gap_and_primal(self.own_weights)[0] - self._gap_and_primal(self.W)[0])

    def _gap_and_primal(self, W: Array) -> tuple[float, float]:
        """Of alpha as it is, with decision values by these weights."""

        def survey(piece: Piece) -> Array:
            F = piece.decision_values(W)
            return statement.stacked_gap_and_primal(piece.part, piece.cone.alpha.T, F)

        gap, primal = self._sum(survey).tolist()
        return gap, primal

    def snapped(self, eagerness: float) -> FloatArray:
        """A feasible alpha near this one with as many entries as possible at their bounds.

        What that takes from the weights is given back by the entries that are left.
        """
        snapped = self._map(lambda p: _Snapped(p, eagerness))
        for _ in range(GIVE_BACKS):
            self._give_back(snapped)
        xp = namespace(self.W)
        alpha = xp.concat([s.alpha for s in snapped], axis=1)
        columns = xp.arange(alpha.shape[1], device=device(alpha))
        alpha[xp.argmax(xp.abs(alpha), axis=0), columns] -= alpha.sum(axis=0)
        return _feasible(self.rows, alpha)

    def _give_back(self, snapped: list[_Snapped]) -> None:
        """Let the entries that are left make up for what is missing of the weights."""
        V = self.equations.solve(self.own_weights - self._sum(_Snapped.weights, snapped))
        self._map(lambda s: s.give_back(V), snapped)


def _norm(values: Array) -> float:
    return float(namespace(values).linalg.vector_norm(values))


def _feasible(rows: DualRows, alpha: Array) -> FloatArray:
    """A new class-major alpha on the host; rows that left the set are projected onto it.

    The others keep their digits.
    """
    feasible = np.array(to_host(alpha), dtype=np.float64)
    n, y, caps, is_max = rows.n_train, rows.y, rows.caps, rows.is_max
    excess = feasible[:, :n].copy()
    excess[y, np.arange(n)] -= caps[:n]
    a = feasible[:, n:]
    sizes = np.maximum(a, 0.0).sum(axis=0) if is_max else a.max(axis=0, initial=0.0)
    above = np.concatenate([excess.max(axis=0), sizes - caps[n:]])
    outside = np.flatnonzero(above > 0.0)
    part = np.ascontiguousarray(feasible[:, outside])
    project_rows(part, y[outside[outside < n]], caps[outside], is_max)
    feasible[:, outside] = part
    return feasible


class _Snapped:
    """alpha of a piece with entries at their bounds, and how the others respond."""

    def __init__(self, piece: Piece, eagerness: float) -> None:
        self.piece = piece
        self.alpha, self.star, settled = piece.cone.snapped(piece.curvature / eagerness)
        self.free = ~settled

    def weights(self) -> Array:
        return self.piece.weights(self.alpha)

    def give_back(self, V: Array) -> None:
        self.alpha -= self.free * self.star.response(V @ self.piece.Zt)


# ---------------------------------------------------------------------------------------------
# The loop


class _Run:
    """The steps of one problem until a certified solution is found."""

    def __init__(
        self,
        interior: Interior,
        decision_values: Callable[[FloatArray], FloatArray],
        diagonal: FloatArray,
        tol: float,
    ) -> None:
        self.interior = interior
        self.decision_values = decision_values
        self.tol = tol
        self.diagonal = diagonal
        self.history: list[float] = []
        self.found: DualSolution | None = None
        self._best = np.inf, interior.alpha()
        self._n_waited = self._n_more = 0
        self._primal = np.inf

    @property
    def is_over(self) -> bool:
        """Whether more steps would bring no more digits, or no sparser solution."""
        return self._n_waited >= PATIENCE or self._n_more > MORE_STEPS

    def step(self) -> float:
        """One step; the relative gap after it, with Z Z' for K."""
        interior, rows = self.interior, self.interior.rows
        interior.step(self._floor())
        gap, self._primal = interior.gap_and_primal()
        self.history.append(statement.relative_gap(rows, gap, self._primal))
        smaller = gap < self._best[0]
        if smaller:
            self._best = gap, interior.alpha()
        self._n_waited = 0 if smaller else self._n_waited + 1
        self._n_more += self.found is not None
        return self.history[-1]

    def _floor(self) -> float:
        """What no product needs to be below."""
        worth = statement.worth(self.interior.rows, self._primal)
        share = SHARE * (MORE if self.found else 1.0)
        return share * self.tol * max(worth, 0.0) / self.interior.n_products

    def snap(self) -> bool:
        """Look for a certified solution nearby; whether it is as sparse as can be."""
        for eagerness in EAGERNESS[:1] if self.found else EAGERNESS:
            solution = self._certified(self.interior.snapped(eagerness))
            if solution.converged:
                self.found = solution
                return eagerness == EAGERNESS[0]
        return False

    def solution(self) -> DualSolution:
        """What was found, or the best point so far."""
        if self.found is None:
            return self._certified(_feasible(self.interior.rows, self._best[1]))
        history = [*self.history[:-1], self.found.relative_gap]
        return replace(self.found, n_rounds=len(history), history=history)

    def _certified(self, alpha: FloatArray) -> DualSolution:
        """Of a class-major alpha, with K itself."""
        alpha = np.ascontiguousarray(alpha.T)
        return DualSolution.certified(
            self.interior.rows, alpha, self.decision_values(alpha), tol=self.tol,
            history=self.history, diagonal=self.diagonal,
        )  # fmt: skip


def solve_interior(
    Z: Array,
    rows: DualRows,
    decision_values: Callable[[FloatArray], FloatArray],
    workers: Workers,
    *,
    equations: Any = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution:
    """Minimise the dual of a kernel of few columns.

    Parameters
    ----------
    Z : (M, r), Z Z' is the Gram matrix, or nearly; on any device
    rows : the problem without it
    decision_values : alpha, (M, L), to K alpha with the Gram matrix itself
    workers : threads for pieces of rows
    equations : those of the device of Z; `Equations` if None
    tol : stop at this relative gap (`relative_gap`)
    max_iter : the largest number of steps, at least 1
    callback : called with the number of steps done and the relative gap after each

    Returns
    -------
    DualSolution, certified with the Gram matrix itself; the best point where rounding, or a Z too
    far from it, keeps the method from the tolerance
    """
    squares = to_host(namespace(Z).vecdot(Z, Z))
    interior = Interior(Z, rows, workers, equations=equations)
    run = _Run(interior, decision_values, squares, tol)
    while len(run.history) < max_iter and not run.is_over:
        relative = run.step()
        if callback is not None:
            callback(len(run.history), relative)
        if relative <= tol and run.snap():
            break
    return run.solution()
