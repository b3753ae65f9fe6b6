"""How often the verdict of `musvm.universum.diagnose` is right, and where its thresholds come from.

    python -m musvm.experiments.diagnosis --data DIR --out DIR [--partitions N]

A *pair* is a classification task and a universum. In every partition of a pair, C is chosen for
the plain SVM and Delta for the MU-SVM by 5-fold cross-validation on the training points, and the
plain SVM is diagnosed with the universum. With d the test error of the MU-SVM minus that of the
plain SVM, the truth of the pair is

    helps      mean of d <= -2 standard errors
    hurts      mean of d >= +2 standard errors
    neither    otherwise

All pairs set the thresholds. The pairs of one data set share points, so how often the verdict is
right is found by leaving one data set out: the others set thresholds, its own pairs judge them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from musvm._progress import Progress
from musvm.datasets import fetch_gtsrb, load_mnist, load_nist
from musvm.experiments._command import find, read_options, write
from musvm.experiments._task import OwnStudy
from musvm.experiments._verdicts import Pair, as_page
from musvm.experiments.data import Data, Partition
from musvm.experiments.protocol import Cell, choose, make_partition, model_family
from musvm.experiments.settings import Setting, Universum
from musvm.kernels import resolve_gamma
from musvm.projections import project
from musvm.universum import select_in_between
from musvm.universum.diagnosis import Measures

RESULTS, PAGE = "diagnosis.json", "diagnosis.md"
PARTITIONS = 20
M = 200  # universum points, or all there are
AVERAGE, BETWEEN = "random average", "in between"


@dataclass(frozen=True)
class Task:
    """A classification problem and its universa.

    `universa` maps names to labels; "random average" is made of the training points, "in between"
    is selected among the points of its labels.
    """

    source: str
    classes: Sequence[Any]
    universa: Mapping[str, Sequence[Any]]
    n_train: int = 20
    n_test: int = 300
    kernel: str = "rbf"

    @property
    def name(self) -> str:
        return f"{self.source} {' '.join(map(str, self.classes))}, {self.n_train} a class"


SIGNS = {"no entry": [17], "road work": [25]}
TASKS = [
    Task("traffic signs", [1, 4, 5], SIGNS | {AVERAGE: [], BETWEEN: [17, 25]}, kernel="linear"),
    Task("traffic signs", [1, 4, 5], SIGNS, n_train=50, kernel="linear"),
    Task("traffic signs", [1, 4, 5], SIGNS, n_train=100, kernel="linear"),
    Task(
        "NIST",
        "0123",
        {"a": "a", "i": "i", "O": "O", "4-9": "456789", AVERAGE: "", BETWEEN: "aeiouAEIOU456789"},
    ),
    Task("NIST", "0123", {"a": "a", "i": "i"}, n_train=100),
    Task("NIST", "358", {"e": "e", "A": "A", BETWEEN: "aeiouAEIOU"}),
    Task("NIST", "147", {"i": "i", "u": "u"}),
    Task("NIST", "069", {"o": "o", "a": "a", "1-5": "12345"}),
    Task("MNIST", range(5), {"5-7": [5, 6, 7], "8-9": [8, 9], AVERAGE: []}),
    Task("MNIST", range(5), {"5-7": [5, 6, 7]}, n_train=100),
    Task("MNIST", [3, 5, 8], {"0, 6": [0, 6], "2": [2], AVERAGE: []}),
    Task("MNIST", [4, 7, 9], {"1": [1], "5, 6": [5, 6]}, kernel="linear"),
    Task("letter", [1, 2, 3, 4], {"O, Q": [15, 17], "R, P": [18, 16], "I, J": [9, 10]}),
    Task("satimage", [1, 2, 3], {"4": [4], "5": [5], AVERAGE: []}),
    Task("segment", [1, 2, 3], {"4": [4], "5-7": [5, 6, 7]}),
    Task("vehicle", [1, 2], {"3": [3], "4": [4]}, n_test=150),
    Task("vowel", [0, 1, 2, 3], {"4, 5": [4, 5], "6-10": range(6, 11)}, n_test=25),
]


def load(source: str, folder: Path) -> Data:
    """All points of a data set."""
    if source == "traffic signs":
        signs: Any = fetch_gtsrb(archive=find(folder, "GTSRB_Final_Training_Images*.zip"))
        return Data(signs.data, signs.target, None)
    if source == "NIST":
        path = find(folder, "nist_digits_letters.npz")
        characters: Any = load_nist(path, features="images28")
        return Data(characters.data, characters.target, None)
    if source == "MNIST":
        digits: Any = load_mnist(folder / "mnist")
        return Data(digits.data, digits.target, None)
    X, y = load_svmlight_file(str(find(folder, f"libsvm/{source}.scale.gz")))
    return Data(X.toarray(), y.astype(int), None)


def study_of(task: Task, universum: str, data: Data) -> OwnStudy:
    """The study that a task and one of its universa make."""
    labels = tuple(task.universa[universum]) or tuple(task.classes)
    everything = universum == BETWEEN
    n_points = int(np.isin(data.y, labels).sum())
    setting = Setting(
        classes=tuple(task.classes),
        n_train=task.n_train,
        n_test=task.n_test,
        m=n_points if everything else min(M, n_points),
        sizes=(),
        kernel=task.kernel,
        gamma=resolve_gamma("scale", data.X, np.ones(len(data.X))),
        universa=(Universum(universum, labels),),
        what=task.name,
    )
    kind = "random-average" if universum == AVERAGE else "samples"
    return OwnStudy(universum=kind, own=setting)


def draw(study: OwnStudy, cell: Cell, data: Data) -> Partition:
    """The points of a partition; a universum in between is selected among all of its pool."""
    part = make_partition(data, study, cell)
    if cell.universum == BETWEEN:
        m = min(M, len(part.universum))
        return replace(part, universum=select_in_between(part.X, part.y, part.universum, m))
    return part


def run_partition(study: OwnStudy, number: int, data: Data) -> dict[str, float]:
    """Test errors of both models, and what the plain SVM says of the universum."""
    cell = Cell(number, study.setting.universa[0].name, study.setting.m, "cv")
    part = draw(study, cell, data)
    family = model_family(study, cell, part)
    chosen = choose(study, family, part)
    svm, musvm = (family.fit(j, part.X, part.y, part.universum) for j in chosen.values())
    outcome = {
        "svm": 1 - svm.score(part.X_test, part.y_test),
        "musvm": 1 - musvm.score(part.X_test, part.y_test),
        **asdict(Measures.of(project(svm, part.X, part.y, part.universum))),
    }
    return {name: round(value, 5) for name, value in outcome.items()}


# ---------------------------------------------------------------------------------------------
# All pairs


def read(path: Path) -> list[Pair]:
    """The pairs of a results file."""
    return [Pair(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def write_page(folder: Path) -> None:
    """The page of the results file in a folder, beside it."""
    write(folder / PAGE, as_page(read(folder / RESULTS), M))


def run(folder: Path, n_partitions: int) -> list[Pair]:
    pairs = []
    data: dict[str, Data] = {}
    with Progress("pairs", sum(len(task.universa) for task in TASKS)) as progress:
        for task in TASKS:
            if task.source not in data:
                data[task.source] = load(task.source, folder)
            for universum in task.universa:
                study = study_of(task, universum, data[task.source])
                outcomes = [
                    run_partition(study, number, data[task.source])
                    for number in range(n_partitions)
                ]
                pairs.append(Pair(task.source, task.name, universum, outcomes))
                progress.update(1)
    return pairs


def main() -> None:
    options = read_options(__doc__, PARTITIONS)
    pairs = run(options.data, options.partitions)
    lines = ",\n".join(json.dumps(asdict(pair)) for pair in pairs)
    write(options.out / RESULTS, f"[\n{lines}\n]\n")
    write_page(options.out)


if __name__ == "__main__":
    main()
