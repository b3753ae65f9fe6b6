"""Solutions of the dual problem, with the certificate that says how good they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from musvm._input.tensors import FloatArray
from musvm.dual.problem import (
    DualProblem,
    DualRows,
    gains_nothing,
    gap_and_primal,
    relative_gap,
    worth,
)


@dataclass(frozen=True)
class Certificate:
    """How well a problem was solved.

    Attributes
    ----------
    primal : P
    gap : P + D, absolute
    relative_gap : what `tol` bounds
    n_rounds : rounds of the solver
    converged : whether the relative gap reached `tol`
    """

    primal: float
    gap: float
    relative_gap: float
    n_rounds: int
    converged: bool

    @property
    def dual(self) -> float:
        """D, as minimised: -P at the optimum."""
        return self.gap - self.primal


@dataclass(frozen=True)
class DualSolution(Certificate):
    """A feasible point of the dual, certified by decision values that were computed from it.

    Attributes
    ----------
    alpha : (M, L) dual variables
    decision : (M, L) decision values K alpha
    history : relative gap after every round
    hidden_gap : the relative gap that rounding of the kernel may hide, here or wherever the solver
        was on its way; 0 where it was not asked for
    """

    alpha: FloatArray
    decision: FloatArray
    history: list[float] = field(repr=False, default_factory=list)
    hidden_gap: float = 0.0

    @classmethod
    def certified(
        cls,
        rows: DualRows,
        alpha: FloatArray,
        decision: FloatArray,
        *,
        tol: float,
        history: list[float] | None = None,
        diagonal: FloatArray | None = None,
    ) -> DualSolution:
        """What alpha and its decision values certify; the last of `history` is replaced by it.

        With k(x, x), the `diagonal` of K, also what rounding may hide.
        """
        gap, primal = gap_and_primal(rows, alpha, decision)
        rounds = history or []
        return cls(
            primal=primal,
            gap=gap,
            relative_gap=np.inf,
            n_rounds=len(rounds),
            converged=False,
            alpha=alpha,
            decision=decision,
            history=rounds,
            hidden_gap=0.0 if diagonal is None else hidden_gap(rows, alpha, diagonal, gap, primal),
        ).measured_by(rows, tol)

    def measured_by(self, rows: DualRows, tol: float) -> DualSolution:
        """The same by the relative gap of these rows, which may compare with another share."""
        relative = relative_gap(rows, self.gap, self.primal)
        return replace(
            self,
            relative_gap=relative,
            converged=bool(relative <= tol),
            history=[*self.history[:-1], relative] if self.history else [],
        )


def rounding_of_gap(rows: DualRows, alpha: FloatArray, diagonal: FloatArray) -> float:
    """About how much rounding of the kernel may have changed P + D, from k(x, x).

    An entry K_ij has an error of eps sqrt(K_ii K_jj) where it is a sum of products that cancel, and
    f_i one of eps sqrt(K_ii) (sum_j K_jj |alpha_j|^2)^1/2 if these are independent. The gap has a
    loss c_i of every row in it, which changes by twice that at most. In random problems with large
    offsets the gap was off by 0.2 to 0.7 of this where that mattered.
    """
    with np.errstate(over="ignore"):
        sizes = np.abs(diagonal)
        of_alpha = np.sqrt(np.sum(sizes * np.square(alpha).sum(axis=1)))
        of_losses = np.sqrt(np.sum(np.square(rows.caps) * sizes))
        return float(2.0 * np.finfo(np.float64).eps * of_losses * of_alpha)


def hidden_gap(
    rows: DualRows, alpha: FloatArray, diagonal: FloatArray, gap: float, primal: float
) -> float:
    """What rounding of the kernel may have changed P + D by, relative to what `tol` is of.

    That is `worth` of the optimum, and no more than what the gap allows for: no alpha like this one
    can be certified below it.

    Far from the optimum this says little, but about eps c k(x, x) is hidden at every optimum. Where
    alpha is at its caps c, decision values are rounded by that much; where it is far below, P is
    about |alpha|, and a loss of c times the rounding of decision values, eps k(x, x) |alpha|, is
    next to it. Above 1 nothing can be certified, wherever the solver came to.
    """
    most = abs(primal) if gains_nothing(rows, gap, primal) else worth(rows, primal, gap)
    here = rounding_of_gap(rows, alpha, diagonal) / most if most > 0.0 else 0.0
    anywhere = float(np.finfo(np.float64).eps * np.max(rows.caps * np.abs(diagonal), initial=0.0))
    return max(here, anywhere) if anywhere >= 1.0 else here


def solution_of(problem: DualProblem, alpha: FloatArray, *, tol: float) -> DualSolution:
    """The solution that a feasible alpha, (M, L), is of a problem, with K alpha computed afresh."""
    alpha = np.ascontiguousarray(alpha)
    decision, diagonal = problem.gram @ alpha, problem.gram.diagonal()
    return DualSolution.certified(problem.rows, alpha, decision, tol=tol, diagonal=diagonal)
