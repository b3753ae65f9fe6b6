"""Learning curves on the traffic signs: what a universum gains with 5 to 300 images a class.

Plain SVM and MU-SVM, both universa of the paper of 2016, random split and split by tracks. In each
partition C is chosen for the plain SVM from 2^-3 ... 2^3, and Delta with that C, by the estimated
leave-one-out error on the training images.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from musvm.experiments.data import Data, FloatArray, draw_partition, load_data
from musvm.experiments.experiment import Experiment
from musvm.experiments.models import Direct
from musvm.experiments.protocol import choose
from musvm.experiments.settings import C_GRID_2019, SETTINGS
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = (5, 10, 20, 50, 100, 200, 300)
SPLITS = {"random": "images drawn at random", "tracks": "signs never seen in training"}
SETTING = replace(SETTINGS["gtsrb"], Cs=C_GRID_2019)
UNIVERSA = {"no-entry": "'no entry'", "road-work": "'road work'"}
COLOURS = {"svm": "0.25", "no-entry": "C3", "road-work": "C1"}

PAGE = """\
# Learning curves

{made_by}

![Test error against training images a class, plain SVM and MU-SVM, two splits](curves.png)

The traffic signs '30', '70' and '80' with {m} images of another sign as universum, {partitions}
random partitions, {n_test} test images a class, linear kernel. C is chosen for the plain SVM from
2⁻³ ... 2³ and Δ from {{0, 0.01, 0.05, 0.1}} with that C, both by the estimated leave-one-out error
on the training images; C*/C = n/(mL). Bands are two standard errors of the mean.

{tables}
"""


def experiment(partitions: int, seed: int) -> Experiment:
    return Experiment(
        name="curves",
        conditions={"partitions": partitions, "seed": seed, "C": list(SETTING.Cs), "m": SETTING.m},
        tasks=[
            {"split": split, "n": n, "universum": universum, "partition": partition, "seed": seed}
            for split in SPLITS
            for n in SIZES
            for universum in UNIVERSA
            for partition in range(partitions)
        ],
        load=_load,
        work=_work,
        page=page,
        draw=lambda results: {"": draw(results)},
    )


def _load(path: Path | None, n_jobs: int) -> Data:
    return load_data(SETTING, path, n_jobs=n_jobs)


def _work(data: Data, task: Record) -> Record:
    setting = replace(SETTING, n_train=task["n"])
    part = draw_partition(
        data,
        setting,
        task["split"],
        task["seed"],
        task["partition"],
        task["universum"],
        setting.m,
    )
    family = Direct(setting.kernel, setting.gamma, "sum", "loo-estimate")
    outcome = {}
    for name, judged in choose(setting.Cs, family, part).items():
        model = family.fit(judged, part.X, part.y, part.universum)
        outcome[name] = float(np.mean(model.predict(part.X_test) != part.y_test))
    return outcome


def errors(results: Record, split: str, n: int, universum: str) -> dict[str, FloatArray]:
    """Errors in per cent of both models, over the partitions."""
    cells = [
        cell
        for cell in results["cells"]
        if (cell["split"], cell["n"], cell["universum"]) == (split, n, universum)
    ]
    cells.sort(key=lambda cell: int(cell["partition"]))
    return {name: 100 * np.array([cell[name] for cell in cells]) for name in ("svm", "mu_svm")}


def page(results: Record) -> str:
    conditions = results["conditions"]
    tables = []
    for split, words in SPLITS.items():
        tables.append(f"{words[0].upper()}{words[1:]}:\n\n{table(results, split)}")
    return PAGE.format(
        made_by=made_by(results, "musvm reproduce curves --data FOLDER"),
        m=conditions["m"],
        partitions=conditions["partitions"],
        n_test=SETTING.n_test,
        tables="\n".join(tables),
    )


def table(results: Record, split: str) -> str:
    """A line for each number of images a class."""
    header = ["images a class", "plain SVM (%)"]
    for words in UNIVERSA.values():
        header += [f"MU-SVM, {words} (%)", "minus plain SVM", "p"]
    rows = []
    for n in SIZES:
        row = [str(n)]
        for universum in UNIVERSA:
            both = errors(results, split, n, universum)
            pair = paired(both["mu_svm"], both["svm"])
            row += [] if len(row) > 1 else [spread(both["svm"])]
            row += [spread(both["mu_svm"]), difference(pair), p_value(pair)]
        rows.append(row)
    return as_markdown(header, rows)


def summary(results: Record) -> str:
    """The short table of the README: 'no entry', both splits."""
    header = ["labelled images a class"]
    for words in SPLITS.values():
        header += [f"{words}: plain SVM", "with universum", "change ± s.e."]
    rows = []
    for n in (5, 10, 20, 100, 300):
        row = [str(n)]
        for split in SPLITS:
            both = errors(results, split, n, "no-entry")
            means = [f"{both[name].mean():.1f} %" for name in ("svm", "mu_svm")]
            row += [*means, difference(paired(both["mu_svm"], both["svm"]))]
        rows.append(row)
    return as_markdown(header, rows)


def draw(results: Record) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (split, words) in zip(panels, SPLITS.items(), strict=True):
        _draw_split(axes, results, split)
        axes.set_title(words)
    panels[0].set_ylabel("test error (%)")
    panels[0].legend(loc="upper right")
    return figure


def _draw_split(axes: Axes, results: Record, split: str) -> None:
    lines = {"svm": ("plain SVM", "no-entry", "svm")}
    for universum, words in UNIVERSA.items():
        lines[universum] = (f"with the universum {words}", universum, "mu_svm")
    for key, (label, universum, model) in lines.items():
        values = [errors(results, split, n, universum)[model] for n in SIZES]
        mean = np.array([value.mean() for value in values])
        band = np.array([2 * value.std(ddof=1) / len(value) ** 0.5 for value in values])
        axes.plot(SIZES, mean, "o-", color=COLOURS[key], label=label)
        axes.fill_between(SIZES, mean - band, mean + band, color=COLOURS[key], alpha=0.15)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(SIZES, [str(n) for n in SIZES])
    ticks = (4, 6, 10, 15, 20, 30, 40)
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(color="0.9")
    axes.set_xlabel("labelled images a class")
