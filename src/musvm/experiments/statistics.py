"""Errors of many partitions in few words: means, spreads and paired differences, as Markdown.

Two models of a partition see the same points, so their errors are compared in pairs. With d_p the
difference in partition p, the tables give the mean of d, its standard error and the p-value of
the paired t test. Partitions share points, so all three speak of this data set and not of others
like it, and many comparisons stand in one table: a p-value just below 0.05 among them is nothing
to build on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_1samp

from musvm.experiments.data import FloatArray
from musvm.experiments.settings import Published
from musvm.experiments.store import Record

ABSENT = "–"


@dataclass(frozen=True)
class Paired:
    """A mean difference over partitions; `p` is None where all differences are equal."""

    mean: float
    standard_error: float
    p: float | None


def paired(ours: FloatArray, reference: FloatArray) -> Paired:
    """`ours` minus `reference`."""
    d = ours - reference
    if len(d) < 2 or np.ptp(d) < 1e-9:  # the t statistic is 0/0 or infinite
        return Paired(float(d.mean()), 0.0 if len(d) > 1 else math.nan, None)
    standard_error = float(d.std(ddof=1) / math.sqrt(len(d)))
    return Paired(float(d.mean()), standard_error, float(ttest_1samp(d, 0.0).pvalue))


def as_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text and whose others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows)) + "\n"


def spread(errors: FloatArray) -> str:
    """Mean and standard deviation, as the paper writes them."""
    if len(errors) < 2:
        return f"{errors.mean():.2f}"
    return f"{errors.mean():.2f} ({errors.std(ddof=1):.2f})"


def published(value: Published | None) -> str:
    return ABSENT if value is None else f"{value[0]:.2f} ({value[1]:.2f})"


def difference(pair: Paired) -> str:
    """Mean and standard error of a difference; a true minus sign, as in text."""
    return f"{pair.mean:+.2f} ± {pair.standard_error:.2f}".replace("-", "−")


def p_value(pair: Paired) -> str:
    return ABSENT if pair.p is None else f"{pair.p:.2g}"


def made_by(results: Record, command: str) -> str:
    """The line of a page that says where its figures come from."""
    code, package = results["conditions"]["code"], results["versions"]["musvm"]
    return (
        f"Made by `{command}` with musvm {package}, sources `{code}`; every outcome is in "
        f"[{results['experiment']}.json]({results['experiment']}.json)."
    )
