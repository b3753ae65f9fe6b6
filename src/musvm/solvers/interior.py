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
changes of alpha themselves, until what is added to alpha agrees with what is added to W as far as
rounding lets it.

There are 15 to 60 steps whatever C is (`central_path.py`), and M enters linearly: M (r L)^2 / 2
operations a step, in pieces, by BLAS.

The point it ends at is interior: no entry is exactly at its bound. Entries that descent on their
row would put there are put there, and those that remain make up for it, by the same equations, so
that W stays what it was. What counts is then certified from this alpha with the kernel itself.

Z may be on a device: everything but the equations is written for arrays of any library, and those
of a device are in `backends/torch_interior.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from array_api_compat import device
from scipy.linalg import lapack

from musvm._input.tensors import Array, FloatArray, is_tensor, namespace, to_host
from musvm._pieces import lower_factor, square
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.dual.solution import DualSolution
from musvm.solvers.central_path import (
    CentralPath,
    closed,
    cone_of,
    made_feasible,
    slices_of_pieces,
)
from musvm.solvers.cones import Cone

# Entries of the products z_a z_b that are formed at a time: they should stay in the cache.
PRODUCT_ENTRIES = 2**17
# With more columns than this their products are not formed: one symmetric product per pair of
# labels does the same.
MANY_COLUMNS = 72
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

    def __post_init__(self) -> None:
        squares = (self.Zt**2).sum(axis=0)
        self.curvature = namespace(squares).clip(squares, min=np.finfo(float).tiny)

    def decision_values(self, W: Array) -> Array:
        """F of the rows, (R, L), for weights W."""
        return (W @ self.Zt).T

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


def _pieces(Z: Array, rows: DualRows) -> list[Piece]:
    pieces = []
    for where in slices_of_pieces(rows, on_device=is_tensor(Z)):
        part = rows.at(np.arange(where.start, where.stop)).beside(Z)
        cone = cone_of(part, _zeros(Z, rows.n_classes, where.stop - where.start))
        pieces.append(Piece(where, _transposed(Z[where]), cone, part))
    return pieces


def _transposed(part: Array) -> Array:
    """Some rows of Z, column after column in memory."""
    return part.T.contiguous() if is_tensor(part) else np.ascontiguousarray(part.T)


def _zeros(like: Array, *shape: int) -> Array:
    return namespace(like).zeros(shape, dtype=like.dtype, device=device(like))


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


class Interior(CentralPath):
    """The state of the method for one problem, with weights."""

    def __init__(self, Z: Array, rows: DualRows, workers: Workers, equations: Any = None) -> None:
        equations = equations or Equations(Z.shape[1], rows.n_classes, workers)
        super().__init__(rows, _pieces(Z, rows), equations, workers)
        self.W = _zeros(Z, rows.n_classes, Z.shape[1])
        self.own_weights = self._sum(lambda p: p.weights(p.cone.alpha))
        self._gap_per_weight = float(self._sum(Piece.gap_per_weight))

    def _advance(self, change: Array) -> None:
        self.W += change
        self.own_weights = self._sum(lambda p: p.weights(p.cone.alpha))

    def _direct(self, target: float, *, corrected: bool) -> Array:
        """And gives the change of W."""

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

    def gap_and_primal(self) -> tuple[float, float]:
        """Of alpha as it is, with Z Z' for K."""

        def survey(piece: Piece) -> Array:
            F = piece.decision_values(self.own_weights)
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
        alpha = namespace(self.W).concat([s.alpha for s in snapped], axis=1)
        return closed(self.rows, alpha)

    def _give_back(self, snapped: list[_Snapped]) -> None:
        """Let the entries that are left make up for what is missing of the weights."""
        V = self.equations.solve(self.own_weights - self._sum(_Snapped.weights, snapped))
        self._map(lambda s: s.give_back(V), snapped)


def _norm(values: Array) -> float:
    return float(namespace(values).linalg.vector_norm(values))


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
            return self._certified(made_feasible(self.interior.rows, self._best[1]))
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
