"""Which part of the features the universum lives on: the descriptor taken apart.

The traffic signs, with every part of the descriptor changed on its own, and with the signs cropped
to the region of interest. C = 0.5 and Delta = 0.1 are held fixed, so that nothing but the features
differs; both errors hardly depend on them (`musvm reproduce paper` chooses them).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from musvm import UniversumSVC
from musvm.experiments.data import FEATURES, Data, FloatArray, draw_partition, load_data
from musvm.experiments.experiment import Experiment
from musvm.experiments.settings import SETTINGS
from musvm.experiments.statistics import (
    as_markdown,
    difference,
    made_by,
    p_value,
    paired,
    spread,
)
from musvm.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTING = SETTINGS["gtsrb"]
C, DELTA = 0.5, 0.1
SIZES = (20, 100)
SPLITS = ("random", "tracks")
UNIVERSA = ("no-entry", "road-work")
WORDS = {
    "hog": "Dalal and Triggs's, colour",
    "gamma": "square roots of the pixels",
    "grey": "grey",
    "no-window": "no window over a block",
    "no-interpolation": "no interpolation",
    "neither": "neither window nor interpolation",
    "roi": "cropped to the sign",
    "simplified": "scikit-image's, grey",
}

PAGE = """\
# Which part of the features matters

{made_by}

The traffic signs '30', '70' and '80', HOG features of the image resized to 40 x 40: 8 orientations,
5 x 5 pixels a cell, 2 x 2 cells a block, 1568 numbers. The first line is the descriptor as Dalal
and Triggs define it (and as OpenCV 4 computes it), with the gradient of the strongest colour
channel. Each other line changes one thing; *neither* two; scikit-image's has neither window nor
interpolation and blurs the image before it makes it smaller. {m} universum images, C = {C:g} and
Δ = {delta:g} throughout, {partitions} random partitions, test errors in per cent, mean and
(standard deviation). Differences are mean ± standard error, with the p-value of the paired t test.
*Change of the plain SVM* compares the plain SVM with that of the first line in the same partition.

![What the universum gains or costs, by features](components.png)

{tables}
"""


def experiment(partitions: int, seed: int) -> Experiment:
    return Experiment(
        name="components",
        conditions={"partitions": partitions, "seed": seed, "C": C, "delta": DELTA},
        tasks=[
            {"features": features, "split": split, "n": n, "partition": partition, "seed": seed}
            for features in FEATURES
            for split in SPLITS
            for n in SIZES
            for partition in range(partitions)
        ],
        load=_load,
        work=_work,
        page=page,
        draw=lambda results: {"": draw(results)},
    )


def _load(path: Path | None, n_jobs: int) -> dict[str, Data]:
    return {features: load_data(SETTING, path, features, n_jobs) for features in FEATURES}


def _work(data: dict[str, Data], task: Record) -> Record:
    setting = replace(SETTING, n_train=task["n"])
    outcome: Record = {}
    for universum in UNIVERSA:
        part = draw_partition(
            data[task["features"]],
            setting,
            task["split"],
            task["seed"],
            task["partition"],
            universum,
            setting.m,
        )
        # Training points do not depend on the universum, nor does the plain SVM.
        models = {universum: part.universum, **({} if outcome else {"plain": None})}
        for name, points in models.items():
            model = UniversumSVC(C, kernel="linear", delta=DELTA)
            predicted = model.fit(part.X, part.y, universum=points).predict(part.X_test)
            outcome[name] = float(np.mean(predicted != part.y_test))
    return outcome


def errors(results: Record, features: str, split: str, n: int) -> dict[str, FloatArray]:
    """Errors in per cent by model, over the partitions."""
    cells = [
        cell
        for cell in results["cells"]
        if (cell["features"], cell["split"], cell["n"]) == (features, split, n)
    ]
    cells.sort(key=lambda cell: int(cell["partition"]))
    return {name: 100 * np.array([cell[name] for cell in cells]) for name in ("plain", *UNIVERSA)}


def page(results: Record) -> str:
    tables = []
    for split in SPLITS:
        for n in SIZES:
            title = "Random split" if split == "random" else "Signs never seen in training"
            tables.append(f"## {title}, {n} images a class\n\n{table(results, split, n)}")
    return PAGE.format(
        made_by=made_by(results, "musvm reproduce components --data FOLDER"),
        m=SETTING.m,
        C=C,
        delta=DELTA,
        partitions=results["conditions"]["partitions"],
        tables="\n".join(tables),
    )


def table(results: Record, split: str, n: int) -> str:
    header = ["features", "plain SVM (%)", "change of the plain SVM", "p"]
    for universum in UNIVERSA:
        header += [f"{universum}, minus plain", "p"]
    reference = errors(results, "hog", split, n)["plain"]
    rows = []
    for features, words in WORDS.items():
        found = errors(results, features, split, n)
        change = paired(found["plain"], reference)
        row = [words, spread(found["plain"]), difference(change), p_value(change)]
        for universum in UNIVERSA:
            pair = paired(found[universum], found["plain"])
            row += [difference(pair), p_value(pair)]
        rows.append(row)
    return as_markdown(header, rows)


def draw(results: Record) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.5), layout="constrained")
    grid = figure.subplots(2, 2, sharex="col", sharey=True)
    heights = np.arange(len(WORDS))
    for axes, (split, n) in zip(
        grid.ravel(), [(split, n) for split in SPLITS for n in SIZES], strict=True
    ):
        for shift, (universum, colour) in zip(
            (-0.15, 0.15), (("no-entry", "C3"), ("road-work", "C1")), strict=True
        ):
            found = [errors(results, features, split, n) for features in WORDS]
            pairs = [paired(part[universum], part["plain"]) for part in found]
            axes.errorbar(
                [pair.mean for pair in pairs],
                heights + shift,
                xerr=[2 * pair.standard_error for pair in pairs],
                fmt="o",
                color=colour,
                label=universum,
                capsize=3,
            )
        axes.axvline(0, color="0.5", linewidth=1)
        axes.set_title(f"{n} images a class, split: {split}", fontsize="medium")
        axes.set_yticks(heights, WORDS.values())
        axes.grid(axis="x", color="0.9")
    grid[0, 0].invert_yaxis()
    grid[0, 0].legend(loc="lower left")
    for axes in grid[1]:
        axes.set_xlabel("MU-SVM minus plain SVM (points of error)")
    return figure
