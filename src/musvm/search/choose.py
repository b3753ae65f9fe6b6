"""The rule that picks a cell.

Criteria are counts over n points, so ties are common. The rule is

    plain SVM   the smallest error; among equal ones ...
    universum   ...
    gate        ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from musvm.dual.problem import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

# Errors that differ by less are equal: they are counts, up to rounding in the weights.
EQUAL = 1e-9


@dataclass(frozen=True)
class Rule:
    """How cells are compared.

    Attributes
    ----------
    plain_ties : which of several C, or kernels, with the smallest error
        "C", the smallest C, then the first kernel; "hinge", the smallest mean hinge loss of the
        left-out margins, then as before
    universum_ties : which of several Delta, or C*/C, with the smallest error
        "delta", the largest C*/C, then the smallest Delta; "hinge", as above, then as before
    gate : how many standard errors of the paired difference a universum must gain to be used
    ties_to_universum : whether a universum is used where it gains exactly nothing
    """

    plain_ties: Literal["C", "hinge"] = "hinge"
    universum_ties: Literal["delta", "hinge"] = "delta"
    gate: float = 0.0
    ties_to_universum: bool = False


@dataclass(frozen=True)
class Choice:
    """Positions of the best plain cell, the best universum cell (if any) and the one to use."""

    plain: int
    universum: int | None
    best: int


def choose(
    results: dict[str, Any],
    wrong: BoolArray,
    weight: FloatArray,
    *,
    joint: bool,
    rule: Rule = Rule(),  # noqa: B008  frozen
) -> Choice:
    """Apply a rule to the cells of a search.

    Parameters
    ----------
    results : columns by name, as in `UniversumSVCCV.results_`
    wrong : (cells, points) which points count as errors
    weight : (points,) how much each point counts
    joint : whether universum cells of all C and kernels compete, or only those of the plain cell
    rule : the rule
    """
    plain = choose_plain(results, rule)
    rows = np.flatnonzero(results["universum_weight"] > 0)
    if not joint:
        same = (results["C"][rows] == results["C"][plain]) & (
            results["kernel_setting"][rows] == results["kernel_setting"][plain]
        )
        rows = rows[same]
    if len(rows) == 0:
        return Choice(plain, None, plain)
    universum = _first(
        rows,
        results["error"],
        *([results["hinge"]] if rule.universum_ties == "hinge" else []),
        -results["universum_weight"],
        results["delta"],
        results["C"],
        results["kernel_setting"],
    )
    gain, standard_error = paired_gain(wrong[plain], wrong[universum], weight)
    needed = rule.gate * standard_error
    helps = gain > needed + EQUAL or (rule.ties_to_universum and abs(gain) <= EQUAL)
    return Choice(plain, universum, universum if helps else plain)


def choose_plain(results: dict[str, Any], rule: Rule = Rule()) -> int:  # noqa: B008  frozen
    """The best cell without universum."""
    return _first(
        np.flatnonzero(results["universum_weight"] == 0),
        results["error"],
        *([results["hinge"]] if rule.plain_ties == "hinge" else []),
        results["C"],
        results["kernel_setting"],
    )


def paired_gain(plain: BoolArray, other: BoolArray, weight: FloatArray) -> tuple[float, float]:
    """By how much the error of `other` is lower, and the standard error of that difference.

    Both judge the same points, so the difference varies less than either error.
    """
    share = weight / weight.sum()
    difference = plain.astype(float) - other
    mean = float(share @ difference)
    return mean, float(np.sqrt(np.square(share * (difference - mean)).sum()))


def _first(rows: IntArray, *columns: Any) -> int:
    """The row that comes first by the first column, then by the second, and so on."""
    for column in columns:
        values = np.asarray(column, dtype=float)[rows]
        rows = rows[values <= values.min() + EQUAL * max(1.0, abs(values.min()))]
    return int(rows[0])
