"""Figures: paired differences of a table, and the paper's histograms of projections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from musvm.experiments.data import Data
from musvm.experiments.protocol import Cell, Study, choose, make_partition, model_family
from musvm.experiments.store import Record
from musvm.experiments.tables import groups_of, paired

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_differences(results: Record) -> Figure:
    """MU-SVM minus plain SVM in every partition, and the mean with two standard errors."""
    from matplotlib.figure import Figure

    groups = groups_of(results)
    figure = Figure(figsize=(7, 1.5 + 0.45 * len(groups)), layout="constrained")
    axes = figure.subplots()
    for height, group in enumerate(groups):
        plain, ours = group.errors("svm"), group.errors("mu_svm")
        pair = paired(ours, plain)
        axes.plot(ours - plain, np.full(len(plain), height), "o", color="C0", alpha=0.4)
        axes.errorbar(
            pair.mean, height, xerr=2 * pair.standard_error, fmt="D", color="black", capsize=4
        )
    axes.axvline(0, color="0.5", linewidth=1)
    labels = [f"{group.universum}, m = {group.m}, {group.criterion}" for group in groups]
    axes.set_yticks(range(len(groups)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("test error of the MU-SVM minus that of the plain SVM (points)")
    axes.set_title(f"{results['conditions']['dataset']}: left of the line the MU-SVM is better")
    return figure


def draw_projections(data: Data, study: Study, cell: Cell) -> Any:
    """Histograms of projections onto the plain SVM and the MU-SVM of a cell."""
    from musvm.display import ProjectionHistogramDisplay

    part = make_partition(data, study, cell)
    family = model_family(study, cell, part)
    chosen = choose(study, family, part)
    names = {
        "svm": f"SVM, C = {chosen['svm'].C:g}",
        "mu_svm": f"MU-SVM, {cell.universum}, Δ = {chosen['mu_svm'].delta:g}",
    }
    models = {
        names[key]: family.fit(judged, part.X, part.y, part.universum)
        for key, judged in chosen.items()
    }
    display = ProjectionHistogramDisplay.from_estimators(
        models, part.X, part.y, universum=part.universum
    )
    return display.figure_
