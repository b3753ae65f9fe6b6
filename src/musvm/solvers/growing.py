"""The solver for points of which few matter: candidates that grow, and a look at all others.

With A some of the points, the *candidates*, and alpha zero outside of A, the gap P + D of the whole
problem (`musvm.dual.problem`) is

    gap(A)  +  sum_{i not in A} c_i loss_i,

since a row of zeros has no dual cost. So a solution of the candidates alone is certified for all
points by their decision values, and these are all that is ever computed of a point that is no
candidate. A pass

    1. solves the problem of the candidates, by working sets (`working_set.py`) or whatever suits
       so few points, about as well as the last look at the others was good;
    2. computes the decision values of all others, block by block: the gap. Only a small one is
       worth computing in doubles;
    3. takes in those that add most to it, at most as many as there are candidates, or as a device
       has room for. What is left out on purpose adds up to less than the gap that is asked for.
       Where that may be all, points that nearly add to it come along: one look less, in the end.

Candidates at zero that violate nothing leave, once each: what comes back stays, so passes end. The
kernel matrix is that of the candidates, whatever the number of points: with most training points
far from the margin, or most universum points within Delta, these are little more than the support
vectors. The first candidates are a sample, of training points and universum points each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.dual.problem import DualRows, losses, relative_gap
from musvm.dual.solution import DualSolution
from musvm.solvers.backends.contract import Field
from musvm.solvers.working_set import solve_by_working_sets

# The first candidates: so many training points, or one of as many as the field says, and half as
# many of the universum.
FIRST = 8000
# A pass solves for the candidates to this share of the gap that the last look found, beginning
# with a loose one; what it leaves out on purpose is this share of the gap that is asked for.
SHARE, LEFT_OUT = 0.1, 0.25
# Of the gap that is asked for, what the candidates may have; and what share of the candidates is
# so little news that the next pass may be the last.
INSIDE, FEW = 0.5, 0.05
# Points with margins that many times as large as asked for, or a universum's that much further
# apart, nearly have a loss; of them so many come along for every candidate.
NEARLY, ALONG = 1.1, 0.25
# Of the candidates, how many may be new where more have no room.
SOME = 0.1
# A gap above the first is large, whatever floats do to it; below the second, the next is small.
ROUGH, NEAR = 1e-2, 0.1


class Start(NamedTuple):
    """Where candidates are.

    `alpha` and, once all points were looked at, their `decision` values; and whether that look
    found little that is new.
    """

    alpha: FloatArray
    decision: FloatArray | None
    is_near: bool


class SolveCandidates(Protocol):
    """Solves the problem of some points alone, from a start, to a relative gap of `tol`."""

    def __call__(
        self,
        points: IntArray,
        rows: DualRows,
        start: Start,
        *,
        tol: float,
        max_iter: int,
        random_state: np.random.RandomState,
        callback: Callable[[int, float], None],
    ) -> DualSolution: ...


def by_working_sets(field: Field) -> SolveCandidates:
    """Candidates by working sets, for any number of them."""

    def solve(points: IntArray, rows: DualRows, start: Start, **options: Any) -> DualSolution:
        backend, warm = field.backend(points), start.is_near
        if start.decision is not None:
            backend.start(start.alpha, start.decision)
        elif start.alpha.any():
            backend.restart(start.alpha)
            warm = True
        return solve_by_working_sets(rows, backend, warm=warm, **options)

    return solve


class _Passes:
    """Candidates, their alpha, and what a look at all others found."""

    def __init__(
        self,
        rows: DualRows,
        field: Field,
        solve_candidates: SolveCandidates,
        alpha: FloatArray | None,
        random_state: np.random.RandomState,
    ) -> None:
        self.rows = rows
        self.field = field
        self.solve_candidates = solve_candidates
        self.random_state = random_state
        self.alpha = np.zeros((rows.n_points, rows.n_classes))
        if alpha is not None:
            self.alpha += alpha
        self.inside = self._first() | self.alpha.any(axis=1)
        self.has_left = np.zeros(rows.n_points, dtype=bool)
        self.decision, self.has_looked = np.zeros_like(self.alpha), False
        self.gap, self.primal = 0.0, rows.primal_at_zero

    def _first(self) -> BoolArray:
        """A sample of the training points, and one of the universum."""
        n, M = self.rows.n_train, self.rows.n_points
        size = max(FIRST, n // self.field.one_of)
        training = self.random_state.permutation(n)[:size]
        universum = n + self.random_state.permutation(M - n)[: size // 2]
        chosen = np.zeros(M, dtype=bool)
        chosen[training] = chosen[universum] = True
        return chosen

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.rows, self.gap, self.primal)

    @property
    def is_near(self) -> bool:
        """Whether the last look found little that is new."""
        return self.has_looked and self.relative_gap <= NEAR

    def solve(
        self, tol: float, max_iter: int, callback: Callable[[int, float], None]
    ) -> DualSolution:
        """The candidates' problem, from where they are."""
        A = np.flatnonzero(self.inside)
        start = Start(self.alpha[A], self.decision[A] if self.has_looked else None, self.is_near)
        found = self.solve_candidates(
            A, self.rows.at(A), start, tol=tol, max_iter=max_iter,
            random_state=self.random_state, callback=callback,
        )  # fmt: skip
        self.alpha[A], self.decision[A] = found.alpha, found.decision
        return found

    def look(
        self, found: DualSolution, tol: float, *, is_last: bool
    ) -> tuple[IntArray, FloatArray]:
        """All others, and what each of them adds to the gap; a gap of `tol` is one in doubles."""
        others = np.flatnonzero(~self.inside)
        roughly = self.field.looks_roughly and not (self.is_near or is_last)
        self.has_looked = True
        shares = self._shares(found, others, roughly=roughly)
        # Floats may overflow: what is not a number is not large either.
        if roughly and not self.relative_gap > max(ROUGH, 2.0 * tol):
            shares = self._shares(found, others, roughly=False)
        return others, shares

    def _shares(self, found: DualSolution, others: IntArray, *, roughly: bool) -> FloatArray:
        support = np.flatnonzero(self.alpha.any(axis=1))
        rows = self.rows.at(others)
        loss, self.decision[others] = self.field.look(
            rows, others, support, self.alpha[support], roughly=roughly
        )
        shares: FloatArray = rows.caps * loss
        self.gap, self.primal = found.gap + shares.sum(), found.primal + shares.sum()
        return shares

    def grow(self, others: IntArray, shares: FloatArray, enough: float) -> float:
        """Take in those that add most, all but `enough` of it, and let go of whom none needs.

        Returns how many are new for every candidate that was there.
        """
        n_inside = int(self.inside.sum())
        idle = np.flatnonzero(self.inside & ~self.has_left & ~self.alpha.any(axis=1))
        idle = idle[losses(self.rows.at(idle), self.decision[idle]) == 0.0]
        self.inside[idle], self.has_left[idle] = False, True
        order = np.argsort(-shares, kind="stable")
        left_out = shares.sum() - np.cumsum(shares[order])
        most = self._most(n_inside)
        n_new = min(int(np.sum(left_out > enough)) + 1, most)
        new = order[:n_new][shares[order[:n_new]] > 0.0]
        self.inside[others[new]] = True
        grown = len(new) / n_inside
        if grown < FEW:
            along = min(most - len(new), int(ALONG * n_inside))
            self._take_along(np.flatnonzero(~self.inside), along)
        return grown

    def _take_along(self, others: IntArray, most: int) -> None:
        """Take in points that would have the largest losses if they were nearer to their bounds."""
        rows = self.rows.at(others)
        factors = np.where(np.arange(len(others)) < rows.n_train, 1.0 / NEARLY, NEARLY)
        nearly = rows.caps * losses(rows, factors[:, None] * self.decision[others])
        order = np.argsort(-nearly, kind="stable")[:most]
        self.inside[others[order[nearly[order] > 0.0]]] = True

    def _most(self, n_inside: int) -> int:
        """How many may come in: as many as there were, or as have room, but always some."""
        room = self.field.room
        if room is None:
            return n_inside
        return min(n_inside, max(room - int(self.inside.sum()), int(SOME * n_inside)))


def solve_growing(
    rows: DualRows,
    field: Field,
    *,
    solve_candidates: SolveCandidates | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    alpha: FloatArray | None = None,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution:
    """Minimise the dual to a relative duality gap of `tol`, or for `max_iter` rounds in all.

    Parameters
    ----------
    rows : the problem without its Gram matrix
    field : computes with the kernel between any of the points
    solve_candidates : solves for them; by working sets if None
    tol : stop at this relative gap (`relative_gap`) of the whole problem
    max_iter : the largest number of rounds, at least 1, of all passes together
    alpha : (M, L) where to start, feasible; zero if None
    random_state : chooses the first candidates, and orders rows; a fixed seed if None
    callback : called with the number of rounds done and the relative gap after each, that of the
        candidates or of the last look at all points, whichever is larger

    Returns
    -------
    DualSolution, certified for all points by decision values computed in doubles
    """
    solve = solve_candidates or by_working_sets(field)
    passes = _Passes(rows, field, solve, alpha, random_state or np.random.RandomState(0))
    history: list[float] = []
    inner_tol = max(field.first_tol, INSIDE * tol)

    def tell(n_rounds: int, gap: float) -> None:
        if callback is not None:
            callback(len(history) + n_rounds, max(gap, passes.relative_gap))

    while True:
        last = passes.relative_gap
        found = passes.solve(inner_tol, max_iter - len(history), tell)
        history += [max(gap, last) for gap in found.history]
        # Candidates that are given up before their rounds are over have met rounding.
        is_last = not found.converged or len(history) >= max_iter
        others, shares = passes.look(found, tol, is_last=is_last)
        gap = passes.relative_gap
        if gap <= tol or is_last:
            break
        grown = passes.grow(others, shares, LEFT_OUT * tol * passes.gap / gap)
        inner_tol = _next_tol(inner_tol, gap, tol, grown)
    return DualSolution.certified(rows, passes.alpha, passes.decision, tol=tol, history=history)


def _next_tol(last: float, gap: float, tol: float, grown: float) -> float:
    """The relative gap that the candidates' problem is solved to, after they grew by a share."""
    if grown == 0.0:
        return 0.5 * last
    last_one = INSIDE * tol
    return min(last, last_one if grown < FEW else max(SHARE * gap, last_one))
