"""What a person should know before trusting the result of a search."""

from __future__ import annotations

from typing import Any

import numpy as np

from musvm._input.reading import FitData
from musvm.search.comparison import Comparison
from musvm.search.steps import Grid

WHOLE_SEARCH = "cross-validation of the whole search"
"""What is not optimistic; the shell has its own name for it."""
OPTIMISTIC = (
    "The error is that of the best of {n_cells} settings, chosen by the same points, so it is "
    f"optimistic; {WHOLE_SEARCH} is not."
)


def hints(results: dict[str, Any], comparison: Comparison, grid: Grid, data: FitData) -> list[str]:
    """That the choice is optimistic, which classes cannot be judged, what is on a grid's edge."""
    n_cells = len(results["C"])
    found = [OPTIMISTIC.format(n_cells=n_cells)] if n_cells > 1 else []
    found += _single_points(data)
    row = comparison.chosen.index
    kernel = int(results["kernel_setting"][row])
    found += _edge("C", results["C"][row], grid.Cs[kernel])
    if grid.gammas is not None:
        found += _edge("gamma", results["gamma"][row], [k.gamma for k in grid.kernels])
    if comparison.uses_universum:
        # 0 is where Delta ends by itself.
        found += _edge("delta", results["delta"][row], grid.deltas, lowest=0.0)
    return found


def _single_points(data: FitData) -> list[str]:
    """A hint if the only training point of a class is left out, and nothing is left to judge it."""
    counted = data.codes[data.is_training & (data.weight > 0)]
    numbers = np.bincount(counted, minlength=len(data.classes))
    single = [str(label) for label in data.classes[numbers == 1].tolist()]
    if not single:
        return []
    which = f"class {single[0]}" if len(single) == 1 else f"{len(single)} classes"
    return [f"There is a single training point of {which}: left out, nothing can tell its label."]


def _edge(name: str, value: Any, values: Any, lowest: float | None = None) -> list[str]:
    """A hint if the value is the smallest or the largest of several."""
    values = np.unique(np.asarray(values, dtype=float))
    if len(values) < 2 or value == lowest or value not in (values[0], values[-1]):
        return []
    end, beyond = ("smallest", "smaller") if value == values[0] else ("largest", "larger")
    return [f"{name} = {value:g} is the {end} that was tried: {beyond} ones may be better."]
