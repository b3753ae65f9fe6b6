"""Leave-one-out quantities of a solved dual problem, by any of the four methods.

Everything here is on the level of `musvm.dual.problem`: labels 0..L-1, training rows first. Only
training rows are left out; the universum always stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm.dual.decisions import own_margins
from musvm.dual.problem import DualProblem
from musvm.dual.solution import DualSolution
from musvm.loo.estimate import left_out_values
from musvm.loo.exact import Callback, leave_one_out
from musvm.loo.methods import METHODS
from musvm.loo.span import counts_as_error, span_margins, squared_spans
from musvm.loo.types import support_types, two_active_share


@dataclass(frozen=True, repr=False)
class LeaveOneOutResult:
    """What leaving out one training point at a time says about a model.

    Attributes
    ----------
    method : str
        The method it comes from.

    error : float
        Share of the training points that the method counts. For 'loo' and 'loo-estimate' that is
        the leave-one-out error, exact or estimated. **For the spans it is a bound, and no error**:
        it may rank models, and says nothing of how good one is; `is_error` tells.

    predictions : ndarray of shape (n,) or None
        Labels given to the points when left out. None for the spans.

    decision_values : ndarray of shape (n, n_classes) or None
        Decision values of the points when left out. None for the spans.

    margins : ndarray of shape (n,)
        :math:`f_y - \\max_{l \\ne y} f_l` at the points when left out. For the spans,
        :math:`(\\alpha_t^\\top f(x_t) - S_t^2) / \\alpha_{t y_t}`, which is the same under the
        assumptions of their theorem. Not positive at points that count as errors, but for those
        that "span-2016" counts because of their type.

    types : ndarray of shape (n + m,)
        0 for a point that is no support vector, 1 for one inside its bounds, 2 for one at its
        bound; training points first.

    two_active_share : float
        Share of the training points of type 1 with exactly two nonzero dual variables, 1 if
        there are none. The spans assume that it is 1.

    radius : ndarray of shape (n,) or None
        Differences of `decision_values` are no farther than this from those of models trained to
        optimality. For "loo" only, like all that follows.

    certified : ndarray of shape (n,) or None
        Whether the prediction is proven. It is not where two labels tie up to the accuracy of
        the arithmetic.

    n_without_resolve : int or None
        Points that needed no left-out model to be trained.

    types_kept_share : float or None
        Share of the training support vectors without which all other points keep their type, 1
        if there are none, as far as models were trained. The spans assume that it is 1.
    """

    method: str
    error: float
    predictions: Any
    decision_values: FloatArray | None
    margins: FloatArray
    types: IntArray
    two_active_share: float
    radius: FloatArray | None = None
    certified: Any = None
    n_without_resolve: int | None = None
    types_kept_share: float | None = None

    @property
    def is_error(self) -> bool:
        """Whether `error` is an error; the spans are bounds, which rank models and no more."""
        return METHODS[self.method].is_error

    def __repr__(self) -> str:
        """What the method computes, in words, and its figures."""
        figures = [f"two_active_share={self.two_active_share:.4g}"]
        if self.n_without_resolve is not None:
            figures.append(f"n_without_resolve={self.n_without_resolve}")
        if self.types_kept_share is not None:
            figures.append(f"types_kept_share={self.types_kept_share:.4g}")
        warned = "" if self.is_error else ", a bound and no error"
        return (
            f"LeaveOneOutResult({self.method!r}: {self.error:.4g}, the "
            f"{METHODS[self.method].words}{warned}; {', '.join(figures)})"
        )


def evaluate(
    problem: DualProblem,
    solution: DualSolution,
    method: str,
    *,
    callback: Callback | None = None,
    max_radius: float = np.inf,
) -> LeaveOneOutResult:
    """Leave out every training row of a solved problem.

    Parameters
    ----------
    problem : the problem
    solution : its solution
    method : "span", "span-2016", "loo-estimate" or "loo"
    callback : called with the number of points done and their total; "loo" only
    max_radius : how exactly differences of decision values are wanted; "loo" only

    Returns
    -------
    LeaveOneOutResult
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}.")
    types = support_types(problem.rows, solution.alpha)
    share = two_active_share(problem.rows, solution.alpha, types)
    if method in ("span", "span-2016"):
        return _by_span(problem, solution, method, types, share)
    if method == "loo-estimate":
        points = np.flatnonzero(types[: problem.rows.n_train] > 0)
        values = solution.decision[: problem.rows.n_train].copy()
        values[points] = left_out_values(problem, solution.alpha, solution.decision, points)
        return _by_values(problem, method, types, share, values)
    found = leave_one_out(problem, solution, types, callback, max_radius)
    kept = found.types_kept[types[: problem.rows.n_train] > 0]
    return _by_values(
        problem,
        method,
        types,
        share,
        found.values,
        radius=found.radius,
        certified=found.certified,
        n_without_resolve=int((~found.solved).sum()),
        types_kept_share=float(kept.mean()) if len(kept) else 1.0,
    )


def _by_span(
    problem: DualProblem, solution: DualSolution, method: str, types: IntArray, share: float
) -> LeaveOneOutResult:
    spans = squared_spans(problem, solution.alpha, types)
    margins = span_margins(problem, solution.alpha, solution.decision, types, spans)
    errors = counts_as_error(types, margins, type_2_always=method == "span-2016")
    return LeaveOneOutResult(method, float(errors.mean()), None, None, margins, types, share)


def _by_values(
    problem: DualProblem,
    method: str,
    types: IntArray,
    share: float,
    values: FloatArray,
    **details: Any,
) -> LeaveOneOutResult:
    predictions = values.argmax(axis=1)
    error = float((predictions != problem.rows.y).mean())
    margins = own_margins(values, problem.rows.y)
    return LeaveOneOutResult(method, error, predictions, values, margins, types, share, **details)
