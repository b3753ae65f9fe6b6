"""What a person should know before trusting the result of a search."""

from __future__ import annotations

from typing import Any

import numpy as np

from musvm.search.comparison import Comparison
from musvm.search.steps import Grid

OPTIMISTIC = (
    "The error is that of the best of {n_cells} settings, chosen by the same points, so it is "
    "optimistic; cross-validation of the whole search is not."
)


def hints(results: dict[str, Any], comparison: Comparison, grid: Grid) -> list[str]:
    """Sentences: that the choice is optimistic, and where it sits on the edge of the grid."""
    n_cells = len(results["C"])
    found = [OPTIMISTIC.format(n_cells=n_cells)] if n_cells > 1 else []
    row = comparison.chosen.index
    kernel = int(results["kernel_setting"][row])
    found += _edge("C", results["C"][row], grid.Cs[kernel])
    if grid.gammas is not None:
        found += _edge("gamma", results["gamma"][row], [k.gamma for k in grid.kernels])
    if comparison.uses_universum:
        # 0 is where Delta ends by itself.
        found += _edge("delta", results["delta"][row], grid.deltas, lowest=0.0)
    return found


def _edge(name: str, value: Any, values: Any, lowest: float | None = None) -> list[str]:
    """A hint if the value is the smallest or the largest of several."""
    values = np.unique(np.asarray(values, dtype=float))
    if len(values) < 2 or value == lowest or value not in (values[0], values[-1]):
        return []
    end, beyond = ("smallest", "smaller") if value == values[0] else ("largest", "larger")
    return [f"{name} = {value:g} is the {end} that was tried: {beyond} ones may be better."]
