"""The paper's figures: traffic signs projected onto the SVM and the MU-SVM, and their numbers.

    python -m musvm.experiments.figures --data DIR --out DIR [--partitions N]

Data, sizes and selection are those of the paper's Table 2. Each universum has a figure of the
first partition. The statement that the MU-SVM narrows the universum and evens out its labels is
checked on all partitions, by the measures of `musvm.universum.diagnosis`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from musvm import ProjectionHistogramDisplay, UniversumSVC
from musvm._input.tensors import FloatArray
from musvm._progress import Progress
from musvm.experiments._command import find, read_options, write
from musvm.experiments.data import Data, Partition, load_data
from musvm.experiments.protocol import Cell, Study, choose, make_partition, model_family
from musvm.experiments.settings import PARTITIONS
from musvm.experiments.tables import as_markdown, difference, paired
from musvm.projections import project
from musvm.universum.diagnosis import Measures

STUDY = Study("gtsrb")
MODELS = ("SVM", "MU-SVM")
SIGNS = ("30", "70", "80")  # the classes 1, 4 and 5
# Column of the table: measure, factor and unit.
COLUMNS = {
    "separability": (100, "training outside the margin (%)"),
    "piling": (100, "training at the margin (%)"),
    "spread": (1, "spread of the universum"),
    "inside": (100, "universum inside the margins (%)"),
    "label_entropy": (1, "label entropy"),
    "largest_share": (100, "most frequent label (%)"),
    "error": (100, "test error (%)"),
}

PAGE = """\
# The paper's figures

Histograms of projections for the traffic signs '30', '70' and '80': training points of a class
onto their own class in blue, universum points in black, the plain SVM above and the MU-SVM below.
C is chosen for the plain SVM and Δ with that C, by 5-fold cross-validation on the training points,
as in the paper. Made by `python -m musvm.experiments.figures`, from images and HOG features that
differ from the paper's (see {{doc}}`tables`).

{figures}
## In numbers

Means over {n} random partitions of {n_train} training points a class and {m} universum points.
The measures are defined in {{func}}`musvm.universum.diagnose`: the spread is that of the decision
values over the classes, in units of the margin; the entropy of the labels given to the universum
is 1 if they are even.

{table}
MU-SVM minus SVM in the same partition, mean ± standard error:

{changes}
{conclusions}
"""

FIGURE = """\
![Histograms of projections, universum {name}: SVM above, MU-SVM below]({file})

*Universum {name}, first partition: C = {C:g}, Δ = {delta:g}.*
"""


def fit_both(part: Partition, cell: Cell) -> dict[str, UniversumSVC]:
    """The plain SVM and the MU-SVM, with parameters chosen on the training points."""
    family = model_family(STUDY, cell, part)
    chosen = choose(STUDY, family, part)
    fitted = [family.fit(judged, part.X, part.y, part.universum) for judged in chosen.values()]
    return dict(zip(MODELS, fitted, strict=True))


def measure(model: UniversumSVC, part: Partition) -> list[float]:
    """The columns of the table, before their factors."""
    projections = project(model, part.X, part.y, part.universum)
    values = asdict(Measures.of(projections))
    values["largest_share"] = projections.label_counts.max() / len(part.universum)
    values["error"] = 1 - model.score(part.X_test, part.y_test)
    return [values[name] for name in COLUMNS]


def draw(models: dict[str, UniversumSVC], part: Partition, path: Path) -> None:
    """One figure, with the signs named as the paper names them."""
    projected = {
        name: replace(project(model, part.X, part.y, part.universum), classes=SIGNS)
        for name, model in models.items()
    }
    figure = ProjectionHistogramDisplay(projected).plot().figure_
    figure.savefig(path, dpi=90)


def run(data: Data, n_partitions: int, out: Path) -> dict[str, Any]:
    """(universum, model, partition, column) numbers, and a description of each figure."""
    universa = [universum.name for universum in STUDY.setting.universa]
    numbers = np.empty((len(universa), len(MODELS), n_partitions, len(COLUMNS)))
    figures = []
    with Progress("fits", len(universa) * n_partitions) as progress:
        for u, number in np.ndindex(len(universa), n_partitions):
            cell = Cell(number, universa[u], STUDY.setting.m, "cv")
            part = make_partition(data, STUDY, cell)
            models = fit_both(part, cell)
            numbers[u, :, number] = [measure(model, part) for model in models.values()]
            if number == 0:
                file = f"figure_{universa[u]}.png"
                draw(models, part, out / file)
                chosen = models["MU-SVM"]
                figures.append(
                    FIGURE.format(name=universa[u], file=file, C=chosen.C, delta=chosen.delta)
                )
            progress.update(1)
    return {"universa": universa, "numbers": numbers, "figures": figures}


def as_page(universa: list[str], numbers: FloatArray, figures: list[str]) -> str:
    """The page, with every number computed here."""
    factors, names = zip(*COLUMNS.values(), strict=True)
    numbers = numbers * np.array(factors)
    cells = list(np.ndindex(len(universa), len(MODELS)))
    rows = [
        [f"{universa[u]}, {MODELS[k]}", *(f"{value:.2f}" for value in numbers[u, k].mean(axis=0))]
        for u, k in cells
    ]
    changes = [
        [name, *(difference(paired(ours[:, c], plain[:, c])) for c in range(len(COLUMNS)))]
        for name, (plain, ours) in zip(universa, numbers, strict=True)
    ]
    return PAGE.format(
        figures="\n".join(figures),
        n=numbers.shape[2],
        n_train=STUDY.setting.n_train,
        m=STUDY.setting.m,
        table=as_markdown(["universum, model", *names], rows),
        changes=as_markdown(["universum", *names], changes),
        conclusions="\n".join(map(conclusion, universa, numbers)),
    )


def conclusion(universum: str, numbers: FloatArray) -> str:
    """In how many partitions the paper's statement holds."""
    svm, musvm = (dict(zip(COLUMNS, values.T, strict=True)) for values in numbers)
    narrower = np.sum(musvm["spread"] < svm["spread"])
    more_even = np.sum(musvm["label_entropy"] > svm["label_entropy"])
    better = np.sum(musvm["error"] < svm["error"])
    return (
        f"- {universum}: of {numbers.shape[1]} partitions, the MU-SVM has the smaller spread in "
        f"{narrower}, the more even labels in {more_even}, the smaller test error in {better}."
    )


def main() -> None:
    options = read_options(__doc__, PARTITIONS)
    data = load_data("gtsrb", find(options.data, "GTSRB_Final_Training_Images*.zip"))
    write(options.out / "figures.md", as_page(**run(data, options.partitions, options.out)))


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    main()
