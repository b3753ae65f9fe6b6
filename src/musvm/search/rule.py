"""The rule that picks a cell, and the one place where it stands.

Every point i is left out of the training once. Its margin is then m_i, and it counts as an error
if m_i <= 0. Counts over n points tie often, and say the same of a point that is missed by a hair
and of one that is far off. So cells are ranked by their *soft error*, in which every point counts

    s(m) = 1 / (1 + exp(2 m)),

1/2 on the boundary, 0.12 at the margin of 1 that training asks for, 0.88 at -1. Margins are in
these units for every cell, so a universum that draws all decision values together has to make up
for it.

    (a)   without universum: the smallest soft error; of equal ones the smallest C, then the
          kernel that was given first
    (b)   with universum: the smallest soft error; of equal ones the largest C*/C, then the
          smallest Delta, the smallest C, the first kernel
    then  (b) if its soft error is smaller and so is its error; or if its soft error is smaller by
          more than half a standard error of the paired difference; otherwise (a)

Soft errors are equal if they differ by no more than the solver's tolerance leaves open.

`benchmarks/rules.py` compares it with many others: it was found on one half of the pairs of data
set and universum there, and is reported on the other.

A span is a bound, and bounds may rank cells of one kind, but they have no margins in these units
and shrink as a universum is added, whether or not the model gets better. Where the criterion is a
span, it ranks the cells by its count, and the two finalists are judged by a second opinion
(`steps.py`).

Where a person says what is to be scored, that score takes the place of both errors: the cells with
the highest one are the finalists, and (b) wins if its score is higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm.search.criteria import is_error

SLOPE = 2.0
# By how many standard errors the soft error must fall where the error does not.
GATE = 0.5
# Values that differ by less are equal: sums over the same points in another order.
EQUAL = 1e-9
# Soft errors that differ by less are: cells of two models that are the same, solved to a relative
# gap of 1e-4 on different ways. Those of cross-validation moved by up to 5e-5 as it fell to 1e-9.
NOISE = 1e-4

# What the soft error is, for those who read its figures.
IN_WORDS = (
    "The soft error counts a point by its margin when left out: 0.5 on the boundary, 0.12 at the "
    "margin 1, 0.88 at -1."
)


def soft_errors(margins: FloatArray) -> FloatArray:
    """What every point counts."""
    counts: FloatArray = expit(-SLOPE * np.asarray(margins, dtype=float))
    return counts


def ranked_by(criterion: Any, scoring: Any = None) -> str:
    """The column of a table of cells that ranks them."""
    if scoring is not None:
        return "score"
    return "soft_error" if is_error(criterion) else "criterion"


def ranking(results: dict[str, Any], column: str) -> FloatArray:
    """What is smaller for a better cell."""
    values: FloatArray = np.asarray(results[column], dtype=float)
    return -values if column == "score" else values


def best_plain(results: dict[str, Any], column: str) -> int:
    """Row of the best cell without universum."""
    return first(
        np.flatnonzero(results["universum_weight"] == 0),
        ranking(results, column),
        results["C"],
        results["kernel_setting"],
        within=_noise_of(column),
    )


def best_with_universum(
    results: dict[str, Any], column: str, among: BoolArray | None = None
) -> int | None:
    """Row of the best cell with universum, of those given or of all; None if there are none."""
    is_candidate = results["universum_weight"] > 0
    if among is not None:
        is_candidate = is_candidate & among
    if not is_candidate.any():
        return None
    return first(
        np.flatnonzero(is_candidate),
        ranking(results, column),
        -results["universum_weight"],
        results["delta"],
        results["C"],
        results["kernel_setting"],
        within=_noise_of(column),
    )


def _noise_of(column: str) -> float:
    """By how much the values of a column may differ where the models do not."""
    return NOISE if column == "soft_error" else EQUAL


class Change(NamedTuple):
    """What left-out points say of the second of two models, which has a universum.

    Attributes
    ----------
    error, standard_error : by how much its error is larger than that of the first, and how sure
        that is
    soft_error, soft_standard_error : the same of the soft errors
    """

    error: float
    standard_error: float
    soft_error: float
    soft_standard_error: float

    @classmethod
    def of(
        cls, margins: Sequence[FloatArray], wrong: Sequence[BoolArray], weight: FloatArray
    ) -> Change:
        """From the margins of both models at the same points, and which of them are wrong."""
        soft = [soft_errors(of_model) for of_model in margins]
        return cls(*paired(wrong, weight), *paired(soft, weight))

    @property
    def is_softer(self) -> bool:
        """Whether the soft error falls at all."""
        return self.soft_error < -NOISE

    @property
    def is_clear(self) -> bool:
        """Whether it falls by more than its standard error explains."""
        return self.is_softer and self.soft_error < -GATE * self.soft_standard_error - EQUAL

    @property
    def is_gain(self) -> bool:
        """Whether the rule speaks for the second model."""
        return self.is_clear or (self.is_softer and self.error < -EQUAL)

    @property
    def reason(self) -> str:
        """What the rule says of the change of the soft error."""
        if self.is_clear:
            return ", more than half of that"
        if self.is_gain:
            return ", and the error falls as well"
        if self.is_softer:
            return ", less than half of that, and the error does not fall"
        return ", no more than the solver leaves open" if self.soft_error <= NOISE else ""


def paired(values: Sequence[Any], weight: FloatArray) -> tuple[float, float]:
    """The mean of what the second of two has more than the first, and its standard error.

    Both are values of the same points, so the difference varies less than either of them.
    """
    plain, universum = values
    share = weight / weight.sum()
    difference = np.asarray(universum, dtype=float) - np.asarray(plain, dtype=float)
    mean = float(share @ difference)
    n = len(weight)
    unbiased = n / (n - 1) if n > 1 else np.inf
    spread = float(np.square(share * (difference - mean)).sum())
    return mean, float(np.sqrt(unbiased * spread)) if spread else 0.0


def first(rows: IntArray, *columns: Any, within: float = EQUAL) -> int:
    """The row that comes first by the first column, then by the second, and so on.

    Values of the first column that differ by no more than `within` are equal.
    """
    for column in columns:
        values = np.asarray(column, dtype=float)[rows]
        rows = rows[values <= values.min() + within * max(1.0, abs(values.min()))]
        within = EQUAL
    return int(rows[0])
