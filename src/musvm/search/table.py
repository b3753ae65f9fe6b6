"""The cells of a search as tables: columns by name.

`as_table` is our own; `as_cv_results` has the names that scikit-learn's searches use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from musvm.search.criteria import is_error
from musvm.search.rule import ranking
from musvm.search.run import Cell, Spec
from musvm.search.steps import Grid

# Names in `cv_results_` of columns that rank cells and are no scores.
RANKS = {"soft_error": "mean_test_soft_error", "criterion": "mean_test_bound"}


def as_table(cells: Sequence[Cell], grid: Grid, criterion: Any) -> dict[str, Any]:
    """A dictionary of equally long arrays, one entry per cell.

    Where the criterion is a bound, no errors are known.
    """
    unknown = np.full(len(cells), np.nan)
    known = is_error(criterion)
    columns: dict[str, Any] = {
        "step": np.array(["a" if cell.spec.weight is None else "b" for cell in cells]),
        "kernel_setting": np.array([cell.spec.kernel for cell in cells]),
        "gamma": np.array([_gamma(cell.spec, grid) for cell in cells]),
        "C": np.array([cell.spec.C for cell in cells]),
        "universum_weight": np.array([grid.value(cell.spec.weight) for cell in cells]),
        "delta": np.array([cell.spec.delta for cell in cells]),
        "criterion": np.array([cell.criterion for cell in cells]),
        "error": np.array([cell.criterion for cell in cells]) if known else unknown,
        "soft_error": np.array([cell.soft_error for cell in cells]) if known else unknown.copy(),
        "hinge": np.array([cell.hinge for cell in cells]),
        "relative_gap": np.array([max(f.relative_gap for f in cell.fits) for cell in cells]),
        "converged": np.array([all(f.converged for f in cell.fits) for cell in cells]),
        "n_iter": np.array([sum(int(f.n_rounds) for f in cell.fits) for cell in cells]),
        "seconds": np.array([cell.seconds.sum() for cell in cells]),
    }
    if cells[0].score is not None:
        columns["score"] = np.array([cell.score for cell in cells])
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


def as_cv_results(cells: Sequence[Cell], results: dict[str, Any], column: str) -> dict[str, Any]:
    """The same cells as scikit-learn's searches describe them.

    Without a scorer, scores are shares of hits; that of all points together is the mean, which a
    mean of folds of different sizes would not be. Only finalists have one if a bound ranks cells.
    """
    found: dict[str, Any] = {}
    for name, seconds in (
        ("fit", [cell.seconds - cell.judging for cell in cells]),
        ("score", [cell.judging for cell in cells]),
    ):
        found[f"mean_{name}_time"] = np.mean(seconds, axis=1)
        found[f"std_{name}_time"] = np.std(seconds, axis=1)
    for name in results["params"][0]:
        found[f"param_{name}"] = np.array([p[name] for p in results["params"]], dtype=object)
    found["params"] = list(results["params"])
    n_splits = len(cells[0].fits)
    if n_splits > 1:
        splits = np.array(
            [1.0 - c.split_errors if c.split_scores is None else c.split_scores for c in cells]
        )
        for k in range(n_splits):
            found[f"split{k}_test_score"] = splits[:, k]
        found["std_test_score"] = splits.std(axis=1)
    found["mean_test_score"] = results["score"] if "score" in results else 1.0 - results["error"]
    # What ranks the cells, where that is no score.
    if column in RANKS:
        found[RANKS[column]] = results[column]
    found["rank_test_score"] = rankdata(ranking(results, column), method="min").astype(np.int32)
    return found
