"""Runs the cells of a table, and the results file that comes of it.

Cells that a store has are not computed again, so tables share them, and a run that was killed
continues. The results file holds the conditions, the versions and the outcome of every cell, and
no clock times except those the table is about: two runs under the same conditions write the same
file, byte for byte.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from musvm._files import replacing
from musvm._progress import Progress
from musvm.experiments.data import Data
from musvm.experiments.protocol import Cell, Study, run_cell
from musvm.experiments.settings import DELTA_GRID, FOLDS
from musvm.experiments.store import Record, Store

PACKAGES = ("musvm", "numpy", "scipy", "scikit-learn")
BOUNDS = ("span-2016", "span", "loo-estimate")
FORMAT = 1  # Part of every cell's conditions: to be raised when the meaning of a cell changes.


def cells_of(table: str, study: Study, partitions: int, criterion: str) -> list[Cell]:
    """The cells of a table, partition by partition; `criterion` is for Tables 2 and 4."""
    setting = study.setting
    names = [universum.name for universum in setting.universa]
    if study.universum == "random-average":
        names = names[:1]  # The averages do not depend on whose place they take.
    criteria: Sequence[str] = [criterion]
    sizes: Sequence[int] = [setting.m]
    if table == "table3":
        criteria = ["cv", *BOUNDS]
    if table == "table4":
        sizes = setting.sizes
    if table == "timing":
        names, criteria = names[:1], ["cv", *BOUNDS, "loo"]
    return [
        Cell(partition, name, m, criterion)
        for partition in range(partitions)
        for criterion in criteria
        for name in names
        for m in sizes
    ]


def run_table(
    table: str,
    data: Data,
    study: Study,
    *,
    partitions: int,
    folder: Path,
    criterion: str = "cv",
    n_jobs: int = 1,
    verbose: int = 1,
) -> Record:
    """Compute what a store in `folder` lacks, and return the results of the table.

    Parameters
    ----------
    table : "table2", "table3", "table4" or "timing"
    data : the points of the data set
    study : the conditions
    partitions : number of random partitions
    folder : where the results go; finished cells are kept in its subfolder ``cells``
    criterion : what chooses the models of Tables 2 and 4
    n_jobs : processes, as in joblib
    verbose : 1 shows progress
    """
    cells = cells_of(table, study, partitions, criterion)
    store = Store(folder / "cells")
    # Times of one table are not to be taken from another, which may have run beside others.
    purpose = "timing" if table == "timing" else "error"
    common = {
        "format": FORMAT,
        "musvm": version("musvm"),
        "purpose": purpose,
        "data": data.digest,
        **_conditions(study),
    }
    conditions = [{**common, **asdict(cell)} for cell in cells]
    outcomes = [store.load(condition) for condition in conditions]
    missing = [k for k, outcome in enumerate(outcomes) if outcome is None]
    with Progress(f"{table} {study.dataset}", len(missing), verbose=verbose) as progress:
        tasks = (delayed(_numbered)(k, data, study, cells[k]) for k in missing)
        for k, outcome in Parallel(n_jobs, return_as="generator_unordered")(tasks):
            store.save(conditions[k], outcome)
            outcomes[k] = outcome
            progress.update(1)
    kept = [
        {**asdict(cell), **_without_times(outcome, table)}
        for cell, outcome in zip(cells, outcomes, strict=True)
        if outcome is not None
    ]
    return {
        "table": table,
        "partitions": partitions,
        "conditions": common,
        "versions": {package: version(package) for package in PACKAGES},
        **({"machine": _machine(n_jobs)} if table == "timing" else {}),
        "cells": kept,
    }


def slug(table: str, study: Study, criterion: str = "cv") -> str:
    """The name of a results file: the table, the data set, and what departs from the paper."""
    departures = {**study.departures, **({} if criterion == "cv" else {"criterion": criterion})}
    words = [table, study.dataset]
    for name, value in departures.items():
        words.append(name if value is True else f"{name}-{value}")
    return "_".join(words)


def write_results(results: Record, path: Path) -> None:
    """One cell to a line: short, and a difference shows where it is."""
    head = {key: value for key, value in results.items() if key != "cells"}
    lines = ",\n  ".join(json.dumps(cell) for cell in results["cells"])
    text = json.dumps(head, indent=1)[:-2] + f',\n "cells": [\n  {lines}\n ]\n}}\n'
    with replacing(path) as file:
        file.write(text.encode())


def _numbered(k: int, data: Data, study: Study, cell: Cell) -> tuple[int, Record]:
    return k, run_cell(data, study, cell)


def _conditions(study: Study) -> Record:
    gamma = study.setting.gamma if study.gamma is None else study.gamma
    return {
        **asdict(study),
        "setting": asdict(study.setting),
        "gamma": gamma,
        "C": list(study.Cs),
        "delta": list(DELTA_GRID),
        "folds": FOLDS,
    }


def _without_times(outcome: Record, table: str) -> dict[str, Any]:
    return {k: v for k, v in outcome.items() if k != "times" or table == "timing"}


def _machine(n_jobs: int) -> Record:
    return {"architecture": platform.machine(), "cores": os.cpu_count(), "processes": n_jobs}
