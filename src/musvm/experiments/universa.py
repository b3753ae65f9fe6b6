"""What a universum can be made of when nobody has collected one, and how many points it needs.

Three tasks with few labelled images: traffic signs, NIST's digits 0-3 and MNIST's 3, 5 and 8. A
*pool* are images of the same kind that belong to no class. From the training images and the pool
universa are made in several ways (`MAKERS`); all else is held fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from musvm import UniversumSVC
from musvm.experiments.data import Data, FloatArray, Partition, draw_partition, load_data
from musvm.experiments.experiment import Experiment
from musvm.experiments.settings import SETTINGS, Setting, Universum
from musvm.experiments.statistics import as_markdown, difference, made_by, p_value, paired, spread
from musvm.experiments.store import Record
from musvm.universum import random_average, random_noise, select_in_between

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTA = 0.1
SIZES = (10, 20)
POOL = 1000
M = 300

Maker = Callable[[Partition, Any], FloatArray]


def _pool(m: int) -> Maker:
    return lambda part, model: part.universum[:m]


def _averages(per_class: bool) -> Maker:
    return lambda part, model: random_average(
        part.X, part.y, M, per_class=per_class, random_state=0
    )


def _mixture(part: Partition, model: Any) -> FloatArray:
    averages = random_average(part.X, part.y, M // 2, random_state=0)
    return np.vstack([averages, part.universum[: M // 2]])


MAKERS: dict[str, Maker] = {
    f"noise, {M}": lambda part, model: random_noise(part.X, M, random_state=0),
    f"averages, one of each class, {M}": _averages(per_class=True),
    f"averages of pairs, {M}": _averages(per_class=False),
    "pool, 100": _pool(100),
    f"pool, {M}": _pool(M),
    f"pool, {POOL}": _pool(POOL),
    f"half averages, half pool, {M}": _mixture,
    f"nearest to all class means, {M} of {POOL}": lambda part, model: select_in_between(
        part.X, part.y, part.universum, M
    ),
    f"least spread, {M} of {POOL}": lambda part, model: select_in_between(
        part.X, part.y, part.universum, M, estimator=model
    ),
}

TASKS: dict[str, tuple[Setting, float]] = {
    "gtsrb": (
        replace(SETTINGS["gtsrb"], universa=(Universum("pool", (17,)),)),
        0.5,
    ),
    "nist": (
        replace(SETTINGS["nist"], universa=(Universum("pool", tuple("aeiou")),)),
        10.0,
    ),
    "mnist": (
        Setting(
            dataset="mnist",
            classes=(3, 5, 8),
            n_train=20,
            n_test=500,
            m=POOL,
            sizes=(),
            kernel="rbf",
            gamma=0.02,
            universa=(Universum("pool", (0, 1, 2, 4, 6, 7, 9)),),
            what="handwritten digits 3, 5 and 8 of MNIST",
        ),
        10.0,
    ),
}
TITLES = {
    "gtsrb": "Traffic signs '30', '70', '80'; pool: 'no entry'",
    "nist": "NIST's digits 0-3; pool: the letters a, e, i, o, u",
    "mnist": "MNIST's digits 3, 5, 8; pool: the other digits",
}

PAGE = """\
# Making a universum

{made_by}

Which universum to use when none has been collected, and how many points of one. The *pool* are
{pool} images of the same kind that belong to no class; the other universa are made from the
training images. Linear kernel and C = 0.5 for the traffic signs, RBF kernel and C = 10 for the
others (γ = 2⁻⁷ for NIST, 0.02 for MNIST), Δ = {delta:g}, C*/C = n/(mL), all held fixed;
{partitions} random partitions. Entries are test errors in per cent, mean and (standard deviation),
and the difference from the plain SVM of the same partition, mean ± standard error, with the p-value
of the paired t test.

![What each universum gains or costs](universa.png)

{tables}
"""


def experiment(partitions: int, seed: int) -> Experiment:
    return Experiment(
        name="universa",
        conditions={"partitions": partitions, "seed": seed, "delta": DELTA, "pool": POOL},
        tasks=[
            {"task": task, "n": n, "partition": partition, "seed": seed}
            for task in TASKS
            for n in SIZES
            for partition in range(partitions)
        ],
        load=_load,
        work=_work,
        page=page,
        draw=lambda results: {"": draw(results)},
    )


def _load(path: Path | None, n_jobs: int) -> dict[str, Data]:
    return {task: load_data(setting, path, n_jobs=n_jobs) for task, (setting, _) in TASKS.items()}


def _work(data: dict[str, Data], task: Record) -> Record:
    setting, C = TASKS[task["task"]]
    setting = replace(setting, n_train=task["n"])
    part = draw_partition(
        data[task["task"]], setting, "random", task["seed"], task["partition"], "pool", POOL
    )
    model = UniversumSVC(C, kernel=setting.kernel, gamma=setting.gamma, delta=DELTA)
    outcome = {"plain": _error(model, part, None)}
    for name, make in MAKERS.items():
        outcome[name] = _error(model, part, make(part, model))
    return outcome


def _error(model: UniversumSVC, part: Partition, universum: Any) -> float:
    predicted = model.fit(part.X, part.y, universum=universum).predict(part.X_test)
    return float(np.mean(predicted != part.y_test))


def errors(results: Record, task: str, n: int) -> dict[str, FloatArray]:
    """Errors in per cent by universum, over the partitions."""
    cells = [cell for cell in results["cells"] if (cell["task"], cell["n"]) == (task, n)]
    cells.sort(key=lambda cell: int(cell["partition"]))
    return {name: 100 * np.array([cell[name] for cell in cells]) for name in ("plain", *MAKERS)}


def page(results: Record) -> str:
    tables = [f"## {TITLES[task]}\n\n{table(results, task)}" for task in TASKS]
    conditions = results["conditions"]
    return PAGE.format(
        made_by=made_by(results, "musvm reproduce universa --data FOLDER"),
        pool=conditions["pool"],
        delta=conditions["delta"],
        partitions=conditions["partitions"],
        tables="\n".join(tables),
    )


def table(results: Record, task: str) -> str:
    header = ["universum"]
    for n in SIZES:
        header += [f"{n} a class (%)", "minus plain SVM", "p"]
    found = {n: errors(results, task, n) for n in SIZES}
    rows = []
    for name in ("plain", *MAKERS):
        row = ["none" if name == "plain" else name]
        for n in SIZES:
            pair = paired(found[n][name], found[n]["plain"])
            row += [spread(found[n][name])]
            row += ["–", "–"] if name == "plain" else [difference(pair), p_value(pair)]
        rows.append(row)
    return as_markdown(header, rows)


def draw(results: Record) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    panels = figure.subplots(1, len(TASKS), sharey=True)
    heights = np.arange(len(MAKERS))
    for axes, task in zip(panels, TASKS, strict=True):
        for shift, n, colour in ((-0.15, 10, "C0"), (0.15, 20, "C3")):
            found = errors(results, task, n)
            pairs = [paired(found[name], found["plain"]) for name in MAKERS]
            axes.errorbar(
                [pair.mean for pair in pairs],
                heights + shift,
                xerr=[2 * pair.standard_error for pair in pairs],
                fmt="o",
                color=colour,
                label=f"{n} images a class",
                capsize=3,
            )
        axes.axvline(0, color="0.5", linewidth=1)
        axes.set_title(TITLES[task].replace("; ", "\n"), fontsize="small")
        axes.set_yticks(heights, MAKERS)
        axes.grid(axis="x", color="0.9")
    panels[0].invert_yaxis()
    panels[2].legend(loc="lower right", fontsize="small")
    panels[1].set_xlabel("MU-SVM minus plain SVM (points of error); left of 0 it gains")
    return figure
