"""The cells of a search as a table: columns by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from musvm.search.run import Cell, Spec
from musvm.search.steps import Grid


def as_table(cells: Sequence[Cell], grid: Grid) -> dict[str, Any]:
    """A dictionary of equally long arrays, one entry per cell."""
    columns: dict[str, Any] = {
        "step": np.array(["a" if cell.spec.weight is None else "b" for cell in cells]),
        "kernel_setting": np.array([cell.spec.kernel for cell in cells]),
        "gamma": np.array([_gamma(cell.spec, grid) for cell in cells]),
        "C": np.array([cell.spec.C for cell in cells]),
        "universum_weight": np.array([_weight(cell.spec, grid) for cell in cells]),
        "delta": np.array([cell.spec.delta for cell in cells]),
        "error": np.array([cell.error for cell in cells]),
        "hinge": np.array([cell.hinge for cell in cells]),
        "relative_gap": np.array([max(f.relative_gap for f in cell.fits) for cell in cells]),
        "converged": np.array([all(f.converged for f in cell.fits) for cell in cells]),
        "n_iter": np.array([sum(int(f.n_rounds) for f in cell.fits) for cell in cells]),
        "seconds": np.array([cell.seconds for cell in cells]),
    }
    for k, of in enumerate(("", "universum_")):
        for kind in ("type_1", "type_2"):
            columns[f"n_{of}{kind}"] = np.array(
                [np.mean([getattr(f, f"n_{kind}")[k] for f in cell.fits]) for cell in cells]
            )
    columns["params"] = np.empty(len(cells), dtype=object)
    columns["params"][:] = [parameters(cell.spec, grid) for cell in cells]
    return columns


def parameters(spec: Spec, grid: Grid) -> dict[str, Any]:
    """The parameters of `UniversumSVC` that a cell stands for."""
    return {
        "C": spec.C,
        **({} if grid.gammas is None else {"gamma": grid.gammas[spec.kernel]}),
        "universum_weight": 0.0 if spec.weight is None else spec.weight,
        "delta": spec.delta,
    }


def _gamma(spec: Spec, grid: Grid) -> float:
    return float("nan") if grid.gammas is None else grid.kernels[spec.kernel].gamma


def _weight(spec: Spec, grid: Grid) -> float:
    if spec.weight is None:
        return 0.0
    return grid.balanced if isinstance(spec.weight, str) else spec.weight
