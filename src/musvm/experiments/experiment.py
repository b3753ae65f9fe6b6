"""What every experiment is: tasks that do not depend on each other, and a page about them.

A task is a small record of conditions; the work is a function of it and of the data. Outcomes are
kept one by one, so that a run that was killed continues. The results file holds the conditions,
the code, the versions and every outcome, and no clock times except those an experiment is about:
two runs under the same conditions write the same file, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from musvm._files import replacing
from musvm._progress import Progress
from musvm.experiments.store import Record, Store, code_digest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKAGES = ("musvm", "numpy", "scipy", "scikit-learn")
TIMES = "times"  # The key of clock times in an outcome.


@dataclass(frozen=True)
class Experiment:
    """One experiment, ready to run.

    Attributes
    ----------
    name : of its files
    conditions : what all tasks share, as a record
    tasks : what distinguishes them, a record each
    load : reads the data, given a file or folder, or None, and a number of processes
    work : the outcome of a task, given the data and the task; a record
    page : the page, in Markdown, given the results; figures are NAME.png and NAME_KEY.png
    draw : figures by key, "" for the main one, given the results
    times : whether clock times belong to the results; then tasks run one at a time
    """

    name: str
    conditions: Record
    tasks: list[Record]
    load: Callable[[Path | None, int], Any]
    work: Callable[[Any, Record], Record]
    page: Callable[[Record], str]
    draw: Callable[[Record], dict[str, Figure]] = lambda results: {}
    times: bool = False


def run(
    experiment: Experiment, path: Path | None, folder: Path, *, n_jobs: int = 1, verbose: int = 1
) -> Record:
    """Do the tasks that a store in `folder` lacks, and return the results.

    Parameters
    ----------
    experiment : what to do
    path : a file or folder with the data, if it needs any
    folder : finished tasks are kept in its subfolder ``cells``
    n_jobs : processes, as in joblib
    verbose : 1 shows progress
    """
    data = experiment.load(path, n_jobs)
    store = Store(folder / "cells")
    common = {**experiment.conditions, "code": code_digest(), "data": _digests(data)}
    # Times are not to be taken from a run beside which others ran.
    alone = {"alone": True} if experiment.times else {}
    keys = [{**common, **alone, **task} for task in experiment.tasks]
    outcomes = [store.load(key) for key in keys]
    missing = [k for k, outcome in enumerate(outcomes) if outcome is None]
    with Progress(experiment.name, len(missing), verbose=verbose) as progress:
        jobs = (delayed(_numbered)(k, experiment.work, data, experiment.tasks[k]) for k in missing)
        n_jobs = 1 if experiment.times else n_jobs
        for k, outcome in Parallel(n_jobs, return_as="generator_unordered")(jobs):
            store.save(keys[k], outcome)
            outcomes[k] = outcome
            progress.update(1)
    cells = [
        {**task, **_without_times(outcome or {}, experiment.times)}
        for task, outcome in zip(experiment.tasks, outcomes, strict=True)
    ]
    return {
        "experiment": experiment.name,
        "versions": {package: version(package) for package in PACKAGES},
        "conditions": common,
        "cells": cells,
    }


def write_results(results: Record, path: Path) -> None:
    """One task to a line: short, and a difference shows where it is."""
    head = {key: value for key, value in results.items() if key != "cells"}
    lines = ",\n  ".join(json.dumps(cell) for cell in results["cells"])
    text = json.dumps(head, indent=1)[:-2] + f',\n "cells": [\n  {lines}\n ]\n}}\n'
    with replacing(path) as file:
        file.write(text.encode())


def read_results(path: Path) -> Record:
    results: Record = json.loads(path.read_text(encoding="utf-8"))
    return results


def write_page(experiment: Experiment, results: Record, folder: Path) -> list[Path]:
    """The page and its figures; no figures without matplotlib."""
    page = folder / f"{experiment.name}.md"
    with replacing(page) as file:
        file.write(experiment.page(results).encode())
    try:
        figures = experiment.draw(results)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("matplotlib"):
            raise
        return [page]
    written = [page]
    for key, figure in figures.items():
        name = f"{experiment.name}_{key}" if key else experiment.name
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=110, metadata={"Software": None})
    return written


def _numbered(
    k: int, work: Callable[[Any, Record], Record], data: Any, task: Record
) -> tuple[int, Record]:
    with threadpool_limits(1):
        return k, work(data, task)


def _digests(data: Any) -> list[str]:
    """Of the data sets, whose `digest` tells their points apart."""
    sets: Iterable[Any] = data.values() if isinstance(data, dict) else [data]
    return [part.digest for part in sets if part is not None]


def _without_times(outcome: Record, wanted: bool) -> Record:
    return {k: v for k, v in outcome.items() if k != TIMES or wanted}
