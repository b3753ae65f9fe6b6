"""Leave-one-out quantities of a solved dual problem, by any of the four methods.

Everything here is on the level of `musvm.dual.problem`: labels 0..L-1, training rows first. Only
training rows are left out; the universum always stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args, Literal

import numpy as np

from musvm.dual.problem import DualProblem, FloatArray, IntArray
from musvm.dual.solve import DualSolution

Method = Literal["span", "span-2016", "loo-estimate", "loo"]
METHODS: tuple[str, ...] = get_args(Method)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LeaveOneOutResult:
    """What leaving out one training point at a time says about a model.

    Attributes
    ----------
    method : the method it comes from
    error : share of the training points that count as errors when left out
    predictions : (n,) labels predicted for the points left out; None for the spans
    decision_values : (n, L) decision values there; None for the spans
    margins : (n,) f_y - max_{l != y} f_l of the points left out, or what a span says of it
    types : (M,) 0 no support vector, 1 inside its bounds, 2 at its bound
    two_active_share : share of training rows of type 1 with two nonzero entries
    n_without_resolve : points whose label was certified without solving anything; "loo" only
    types_kept_share : share of the support vectors without which all others keep their type;
        "loo" only
    """

    method: str
    error: float
    predictions: Any
    decision_values: FloatArray | None
    margins: FloatArray
    types: IntArray
    two_active_share: float
    n_without_resolve: int | None = None
    types_kept_share: float | None = None


def evaluate(
    problem: DualProblem,
    solution: DualSolution,
    method: str,
    *,
    callback: Progress | None = None,
) -> LeaveOneOutResult:
    """Leave out every training row of a solved problem.

    Parameters
    ----------
    problem : the problem
    solution : its solution
    method : "span", "span-2016", "loo-estimate" or "loo"
    callback : called with the number of points done and their total; "loo" only

    Returns
    -------
    LeaveOneOutResult
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}.")
    raise NotImplementedError(method)
