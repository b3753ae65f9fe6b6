"""With the whole Gram matrix: Newton steps on faces and interior points, by turns.

Newton steps (`gram.py`) win where few variables are free at the optimum, or C is small. Interior
points (`interior.py`) take some twenty steps whatever C is, but each of them costs about
M E^2 / 2 + E^3 / 3 operations, with E = r (L - 1) equations for a Gram matrix of rank r. So Newton
steps begin, unless the rank is small, and get a part of the work that interior points would cost.
Then it is the turn of interior points: for all rows if E is small, or for what is still in play
(`in_play.py`). Newton steps also finish what rounding keeps interior points from, and do so more
cheaply than these do for all rows; where neither gets there, interior points in alpha go on, which
lose fewer digits than those in weights.

Another path may have tried before. Newton steps get a short try then where that one came close, or
the Gram matrix is well conditioned, and a longer one where it got nowhere and nearly all variables
are free in the end. Interior points for what is in play go on from where the other path ended, not
from where Newton steps got to: descent frees more variables than it settles. The last pivot of a
Cholesky factor of some points tells how well conditioned the matrix is, and whether the kernel is
so smooth that all rows may cost less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musvm._input.tensors import FloatArray
from musvm._lazy import lazy
from musvm._threads import Workers, own_or
from musvm.dual.problem import DualProblem, DualRows
from musvm.dual.solution import DualSolution
from musvm.solvers.attempts import Attempts, counted_from
from musvm.solvers.factors import pivoted_cholesky
from musvm.solvers.gram import Patience, at_most, solve
from musvm.solvers.in_play import solve_in_play
from musvm.solvers.interior import solve_interior

# The interior-point method comes first up to so many equations, r (L - 1), and no more than there
# are points, where these are so many times as many as columns. With more columns the Gram matrix
# has few small eigenvalues, and Newton steps need few rounds.
FIRST_EQUATIONS, POINTS_PER_COLUMN, STEPS = 1200, 2, 20
# Descent is quick where C k(x, x) is below this, on average.
EASY = 1.0
# Newton steps on faces get a part of the work that interior points would cost, within these limits:
# a hundredth of a second, and most of one. What these cost is known from a factor of the Gram
# matrix, which is cheap for few points. Twice as much where the relative gap is small by then: it
# falls faster at the end. Where interior points cost less than the least they come first.
NEWTON_SHARE, LEAST_WORK, MOST_WORK, FEW_POINTS = 0.3, 2e8, 1.6e10, 1000
PROMISING = 0.1
# With a well-conditioned matrix they get there, however many classes there are: ten times as much.
MOST_OF_WELL_CONDITIONED = 1.6e11
# A Gram matrix is well conditioned if pivots next to the first do not fall below the first of
# these; the second for every class where there is a universum, whose points are free in many
# labels. Where pivots fall below SMOOTH, what is in play must cost less than all rows.
WELL_CONDITIONED, SMOOTH = (1e-3, 5e-4), 1e-7
# After another path Newton steps get the work of a factor of the Gram matrix where the gap that it
# left is no more than CLOSE, or the matrix well conditioned: of 100 such fits among the cases of
# `benchmarks/convergence.py` no other was solved by them. They get that of so many factors
# where the gap is above FAR: one that needs them was left with 0.96, where 0.45 was left they took
# 3 s in vain.
CLOSE, FAR, MOST_FACTORS = 2e-3, 0.5, 10
# Then it is the turn of interior points, for what is in play where all rows would cost more than
# this; for all rows where that does not get there for as much work, up to so many equations. With
# more there is nothing but what is in play, for so much.
WORK_IN_PLAY, LAST_EQUATIONS, MOST_IN_PLAY = 3e10, 5000, 1e13
# Newton steps on faces, which may end what interior points for a part began, get as much work as
# these cost for all rows where the relative gap is below this, or where all rows are too many.
ALMOST_THERE = 0.05
# Points that tell whether the Gram matrix of many has few columns: these need no more, as a share.
SAMPLED, LOW_RANK = 300, 0.3
# A relative gap at which the free variables are those of the optimum.
FACE_TOL = 1e-10
# Rounds with the whole Gram matrix that go on from where rounding ended another path.
LAST_ROUNDS = 50
# What Newton steps may cost after all others, at least: a second or so.
LAST_WORK = 2e9


def solve_with_gram(
    problem: DualProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    alpha: FloatArray | None = None,
    team: Workers | None = None,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
    patient: bool = False,
    gap_of_trial: float | None = None,
) -> DualSolution:
    """`solve`, or interior points from where it gets no further for as much work.

    Interior points come first where the Gram matrix has few columns.

    `gap_of_trial` is the relative gap at which another path gave up, with this `alpha`; None if
    there was none. Newton steps come first after it only where they may get there.

    Where `patient`, Newton steps get MOST_WORK: they end with the free variables of the optimum, or
    nearly, and interior points with more of them unless the gap is next to nothing. A leave-one-out
    estimate, which lets the free ones make up for the point that is left out, is far too small
    then. So where `patient`, interior points that come first go on to FACE_TOL.
    """
    order: dict[str, Any] = {"random_state": random_state}
    attempts = Attempts(tol=tol, max_iter=max_iter, callback=callback, alpha=alpha)
    cost = InteriorCost(problem)
    Z = _few_columns(cost, patient=patient)
    if Z is None and (gap_of_trial is None or newton_may_get_there(cost, gap_of_trial)):
        may_go_on = patience_for(cost, patient=patient, gap_of_trial=gap_of_trial)
        attempts.add(solve, problem, may_go_on=may_go_on, is_near=gap_of_trial is not None, **order)
    if Z is None and gap_of_trial is not None:
        with own_or(team) as some:
            attempts.add_anew(
                solve_in_play, problem, some, alpha=alpha, most_work=cost.most_in_play(), **order
            )
    if not attempts.is_over:
        with own_or(team) as some:
            if Z is None:
                _add_interior_points(attempts, cost, some, order)
            else:
                as_far = FACE_TOL if patient else np.inf
                add_interior_and_finish(attempts, problem, Z, some, order, as_far)
    if attempts.is_within_reach and not attempts.has_what_was_asked_for(problem.rows):
        gap_so_far = attempts.best.relative_gap if attempts.has_begun else np.inf
        after_all = patience_after_all(cost, gap_so_far)
        attempts.add(solve, problem, may_go_on=after_all, **order)
    return attempts.best


def _few_columns(cost: InteriorCost, *, patient: bool) -> FloatArray | None:
    """A factor of the Gram matrix with so few columns that interior points come first.

    None where descent is quick, and where some of the points, evenly spread, need many columns for
    their number, or all of them too many. Of few points also where interior points would cost more
    than Newton steps get at least.
    """
    rows, gram = cost.problem.rows, cost.problem.gram
    M, L = rows.n_points, rows.n_classes
    are_few = M <= FEW_POINTS
    if (are_few and patient) or is_easy(rows, gram.diagonal()):
        return None
    of_sample = cost.factor_of_sample
    if of_sample is None or of_sample.shape[1] > LOW_RANK * len(of_sample):
        return None
    if cost.factor is None or cost.factor.shape[1] > most_columns(M, L):
        return None
    return None if are_few and cost.work > LEAST_WORK else cost.factor


class InteriorCost:
    """What interior points would cost, by a factor of the Gram matrix, once it is asked for."""

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem

    @lazy
    def factor(self) -> FloatArray | None:
        """None where the Gram matrix is indefinite."""
        return pivoted_cholesky(self.problem.gram)

    @lazy
    def factor_of_sample(self) -> FloatArray | None:
        """Of the Gram matrix of some points, evenly spread."""
        M, gram = self.problem.n_points, self.problem.gram
        if M <= SAMPLED:
            return self.factor
        sample = np.linspace(0, M - 1, SAMPLED).astype(np.intp)
        return pivoted_cholesky(gram[np.ix_(sample, sample)])

    @property
    def last_pivot(self) -> float:
        """Of some points, next to the first; 0 where these need fewer columns than they are."""
        Z = self.factor_of_sample
        if Z is None or Z.shape[1] < len(Z):
            return 0.0
        return float((np.abs(Z[:, -1]).max() / np.abs(Z[:, 0]).max()) ** 2)

    @property
    def is_well_conditioned(self) -> bool:
        """Whether nearly all variables are free in the end, so that Newton steps get there."""
        rows, (least, least_of_a_class) = self.problem.rows, WELL_CONDITIONED
        if rows.n_points > rows.n_train:
            least = least_of_a_class * rows.n_classes
        return self.last_pivot >= least

    @property
    def may_take_all(self) -> bool:
        """Whether the equations of all rows are few enough."""
        if self.factor is None:
            return False
        return bool(self.factor.shape[1] * (self.problem.rows.n_classes - 1) <= LAST_EQUATIONS)

    def most_in_play(self) -> float:
        """What interior points for a part may cost that go on from another path."""
        if self.last_pivot >= SMOOTH or not self.may_take_all:
            return MOST_IN_PLAY
        return min(self.work, MOST_IN_PLAY)

    @property
    def work(self) -> float:
        return self._work_with(self.factor)

    @property
    def at_least(self) -> float:
        """As far as some of the points tell: all of them need as many columns at least."""
        return self._work_with(self.factor_of_sample)

    def _work_with(self, factor: FloatArray | None) -> float:
        if factor is None:
            return np.inf
        rows = self.problem.rows
        return interior_work(rows.n_points, factor.shape[1], rows.n_classes)


def newton_may_get_there(cost: InteriorCost, gap_of_trial: float) -> bool:
    """Whether Newton steps are worth a try where another path gave up with this relative gap."""
    return gap_of_trial <= CLOSE or cost.is_well_conditioned


def patience_for(
    cost: InteriorCost, *, patient: bool = False, gap_of_trial: float | None = None
) -> Patience:
    """Whether Newton steps may go on after so much work, with this relative gap.

    Of another path's gap only where they may get there (`newton_may_get_there`).
    """
    if patient:
        return at_most(MOST_WORK)
    if gap_of_trial is not None:
        factors = MOST_FACTORS if gap_of_trial > FAR else 1
        return at_most(factors * cost.problem.n_points**3 / 3.0)

    def may_go_on(work: float, gap: float) -> bool:
        if work <= LEAST_WORK:
            return True
        if work > MOST_WORK and not (work <= MOST_OF_WELL_CONDITIONED and cost.is_well_conditioned):
            return False
        if cost.problem.n_points > FEW_POINTS:
            return True
        share = NEWTON_SHARE * (2.0 if gap <= PROMISING else 1.0)
        return work <= share * cost.at_least or work <= share * cost.work

    return may_go_on


def patience_after_all(cost: InteriorCost, gap_so_far: float) -> Patience | None:
    """Whether Newton steps may go on after interior points for all rows that did not get there.

    As long as they bring a smaller gap than these did, or for as much work; always where there was
    too much for these.
    """
    if not cost.may_take_all:
        return None
    most_work = max(cost.work, LAST_WORK)
    return lambda work, gap: work <= most_work or gap <= gap_so_far


def _add_interior_points(
    attempts: Attempts, cost: InteriorCost, team: Workers, order: dict[str, Any]
) -> None:
    """By interior points for all rows or first for what is in play, whichever costs less."""
    problem = cost.problem
    if cost.factor is None:
        return
    may_take_all = cost.may_take_all
    # Where nothing was found yet, too much was in play.
    went_on = attempts.has_begun and cost.work > WORK_IN_PLAY and attempts.add(
        solve_in_play, problem, team,
        most_work=cost.work if may_take_all else MOST_IN_PLAY, **order,
    )  # fmt: skip
    if went_on and (attempts.best.relative_gap <= ALMOST_THERE or not may_take_all):
        attempts.add(solve, problem, may_go_on=at_most(cost.work), **order)
    if may_take_all:
        add_interior_and_finish(attempts, problem, cost.factor, team, order)


def size_of(rows: DualRows, diagonal: FloatArray) -> float:
    """C k(x, x), on average."""
    return float(rows.caps.mean() * diagonal.mean())


def is_easy(rows: DualRows, diagonal: FloatArray) -> bool:
    """Whether descent is quick."""
    return size_of(rows, diagonal) <= EASY


def interior_work(n_points: int, n_columns: int, n_classes: int) -> float:
    """Operations of the interior-point method, roughly."""
    equations = n_columns * (n_classes - 1.0)
    return STEPS * (0.5 * n_points * equations**2 + equations**3 / 3.0)


def add_interior_and_finish(
    attempts: Attempts,
    problem: DualProblem,
    Z: FloatArray,
    team: Workers,
    order: dict[str, Any],
    as_far: float = np.inf,
) -> None:
    """By interior points with a factor of the Gram matrix; Newton steps finish the rest.

    They go as far as to a relative gap of `as_far`, where rounding lets them.
    """
    begin = partial(solve_interior, Z, problem.rows, partial(np.matmul, problem.gram), team)

    def go_as_far(*, tol: float, max_iter: int, callback: Any) -> DualSolution:
        found = begin(tol=min(tol, as_far), max_iter=max_iter, callback=callback)
        left = max_iter - found.n_rounds
        if found.converged or as_far >= tol or left < 1:
            return found
        # What misses its tolerance is strictly inside: all of its variables would be free.
        told = counted_from(found.n_rounds, callback)
        again = begin(tol=tol, max_iter=left, callback=told)
        rounds = found.n_rounds + again.n_rounds
        return replace(again, n_rounds=rounds, history=found.history + again.history)

    attempts.add_anew(go_as_far)
    finish(attempts, problem, order)
    # In alpha they lose fewer digits, and what rounding ended was near the optimum.
    if attempts.is_within_reach:
        most_work = max(interior_work(len(Z), Z.shape[1], problem.rows.n_classes), LEAST_WORK)
        attempts.add(solve_in_play, problem, team, most_work=most_work, **order)


def finish(attempts: Attempts, problem: DualProblem, order: dict[str, Any]) -> None:
    """Newton steps where rounding ended interior points, for some rounds.

    For as much work as is usual where only what is aimed at is missed.
    """
    is_enough = attempts.has_what_was_asked_for(problem.rows)
    attempts.add(
        solve, problem, at_most=LAST_ROUNDS, known_hidden=attempts.best.hidden_gap,
        may_go_on=at_most(MOST_WORK) if is_enough else None, **order,
    )  # fmt: skip


def most_columns(n_points: int, n_classes: int) -> int:
    """With how many columns the interior-point method is the one to take."""
    most_equations = min(FIRST_EQUATIONS, n_points)
    return min(most_equations // (n_classes - 1), n_points // POINTS_PER_COLUMN)
