"""The rule that picks a cell, and why it is this one.

    (a)   without universum: the smallest error; of equal ones the smallest C, then the kernel
          that was given first
    (b)   with universum: the smallest error; of equal ones the largest C*/C, then the smallest
          Delta, the smallest C, the first kernel
    then  (b) if it gains more than one standard error over (a), otherwise (a)

Errors are counts over n points, so ties are common. (a) and (b) break them as the authors'
implementation does. The mean hinge loss of the left-out margins was tried instead
(`benchmarks/criteria.py --development`, on partitions that are not reported elsewhere). It goes
for large C, where a universum did harm on the traffic signs; and it cannot compare models with
and without universum, which draws all decision values together.

Both models judge the same points, and the standard error is that of the paired difference. A
single point that changes sides gains exactly one standard error, which is not enough. Without
this gate the gain of a point or two, on digits where no universum does anything, made the
selected model slightly worse than the plain SVM.

A span is not fit for the last comparison: it assumes that no other point changes its type when one
is left out, and the more a universum shrinks the spans, the more errors it overlooks. On the
traffic signs it took the universum on every partition for development, and the test error rose
by half a point or more. So where the criterion is a span, the errors that (a) and (b) make by
"loo-estimate" are compared (`steps.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from musvm._input.tensors import BoolArray, FloatArray, IntArray

# Errors that differ by less are equal: they are counts, up to rounding in the weights.
EQUAL = 1e-9


@dataclass(frozen=True)
class Rule:
    """The rule above, and what it was compared with.

    Attributes
    ----------
    plain_ties : "C", or "hinge" for the smallest hinge loss before the smallest C
    universum_ties : "weight", or "hinge" for the smallest hinge loss before the largest C*/C
    gate : a universum must gain more than this many standard errors
    """

    plain_ties: Literal["C", "hinge"] = "C"
    universum_ties: Literal["weight", "hinge"] = "weight"
    gate: float = 1.0

    def is_gain(self, gain: float, standard_error: float) -> bool:
        return gain > self.gate * standard_error + EQUAL


RULE = Rule()


def best_plain(results: dict[str, Any], rule: Rule = RULE) -> int:
    """Row of the best cell without universum."""
    return _first(
        np.flatnonzero(results["universum_weight"] == 0),
        results["error"],
        *([results["hinge"]] if rule.plain_ties == "hinge" else []),
        results["C"],
        results["kernel_setting"],
    )


def best_with_universum(
    results: dict[str, Any], plain: int | None = None, rule: Rule = RULE
) -> int | None:
    """Row of the best cell with universum; of the C and the kernel of row `plain`, if given."""
    is_candidate = results["universum_weight"] > 0
    if plain is not None:
        for column in ("C", "kernel_setting"):
            is_candidate &= results[column] == results[column][plain]
    if not is_candidate.any():
        return None
    return _first(
        np.flatnonzero(is_candidate),
        results["error"],
        *([results["hinge"]] if rule.universum_ties == "hinge" else []),
        -results["universum_weight"],
        results["delta"],
        results["C"],
        results["kernel_setting"],
    )


def paired_gain(plain: BoolArray, other: BoolArray, weight: FloatArray) -> tuple[float, float]:
    """By how much the error of `other` is lower, and the standard error of that difference.

    Both are errors on the same points, so the difference varies less than either of them.
    """
    share = weight / weight.sum()
    difference = plain.astype(float) - other
    mean = float(share @ difference)
    n = len(weight)
    unbiased = n / (n - 1) if n > 1 else np.inf
    return mean, float(np.sqrt(unbiased * np.square(share * (difference - mean)).sum()))


def _first(rows: IntArray, *columns: Any) -> int:
    """The row that comes first by the first column, then by the second, and so on."""
    for column in columns:
        values = np.asarray(column, dtype=float)[rows]
        rows = rows[values <= values.min() + EQUAL * max(1.0, abs(values.min()))]
    return int(rows[0])
