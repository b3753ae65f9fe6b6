"""The paper's figures: histograms of projections for the traffic signs, two universa.

The paper reads off them that the MU-SVM draws the universum's projections together between the
margins, and evens out the labels that it gives the universum. Drawn for the first partition, and
counted on all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from musvm import ProjectionHistogramDisplay, UniversumSVC
from musvm.experiments.data import Data, FloatArray, Partition, load_data
from musvm.experiments.experiment import Experiment
from musvm.experiments.protocol import Cell, Study, choose, make_partition, model_family
from musvm.experiments.settings import SETTINGS
from musvm.experiments.statistics import as_markdown, difference, made_by, paired
from musvm.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTING = SETTINGS["gtsrb"]
NAMES = {"svm": "SVM", "mu_svm": "MU-SVM"}
SIGNS = {1: "30", 4: "70", 5: "80"}
COLUMNS = {
    "spread": "spread of the universum",
    "inside": "universum inside the margins (%)",
    "largest_share": "most frequent label (%)",
    "piling": "training at the margin (%)",
    "error": "test error (%)",
}

PAGE = """\
# The paper's figures

{made_by}

Histograms of projections for the traffic signs '30', '70' and '80': training points of a class
onto their own class in blue, universum points in black, the plain SVM above and the MU-SVM below.
C is chosen for the plain SVM and Δ with that C, by 5-fold cross-validation on the training points,
as in the paper.

{figures}
## In numbers

Means over {n} random partitions of {n_train} training points a class and {m} universum points. The
spread is that of the decision values over the classes, in units of the margin; a universum point is
inside the margins if its spread is below 1; a training point is at the margin if its projection is
within 0.05 of 1.

{table}
MU-SVM minus SVM in the same partition, mean ± standard error:

{changes}
{conclusions}
"""


def experiment(partitions: int, seed: int) -> Experiment:
    return Experiment(
        name="figures",
        conditions={"partitions": partitions, "seed": seed},
        tasks=[
            {"universum": universum.name, "partition": partition, "seed": seed}
            for universum in SETTING.universa
            for partition in range(partitions)
        ],
        load=lambda path, n_jobs: load_data(SETTING, path, n_jobs=n_jobs),
        work=_work,
        page=page,
        draw=lambda results: {u.name: draw(results, u.name) for u in SETTING.universa},
    )


def _work(data: Data, task: Record) -> Record:
    study = Study(SETTING, seed=task["seed"])
    cell = Cell(task["partition"], task["universum"], SETTING.m, "cv")
    part = make_partition(data, study, cell)
    family = model_family(study, cell)
    outcome: Record = {}
    for name, judged in choose(SETTING.Cs, family, part).items():
        model = family.fit(judged, part.X, part.y, part.universum)
        outcome[name] = {"C": judged.C, "delta": judged.delta, **measure(model, part)}
        if task["partition"] == 0:
            outcome[name]["projections"] = _rounded(model.projections(part.X))
            outcome[name]["universum_projections"] = _rounded(model.projections(part.universum))
    if task["partition"] == 0:
        outcome["labels"] = part.y.tolist()
    return outcome


def _rounded(values: FloatArray) -> list[Any]:
    rounded: list[Any] = np.round(values, 3).tolist()
    return rounded


def measure(model: UniversumSVC, part: Partition) -> dict[str, float]:
    """The columns of the table."""
    spread = model.universum_score(part.universum)
    own = np.searchsorted(model.classes_, part.y)
    projections = model.projections(part.X)[np.arange(len(part.y)), own]
    _, counts = np.unique(model.predict(part.universum), return_counts=True)
    return {
        "spread": float(np.mean(spread)),
        "inside": 100 * float(np.mean(spread < 1)),
        "largest_share": 100 * float(counts.max() / len(part.universum)),
        "piling": 100 * float(np.mean(np.abs(projections - 1) < 0.05)),
        "error": 100 * (1 - model.score(part.X_test, part.y_test)),
    }


def draw(results: Record, universum: str) -> Figure:
    """The first partition, both models on the same axes."""
    cell = next(c for c in results["cells"] if c["universum"] == universum and c["partition"] == 0)
    labels = [SIGNS[label] for label in cell["labels"]]
    models: dict[str, Any] = {}
    for key, name in NAMES.items():
        shown = ProjectionHistogramDisplay.from_projections(
            labels, cell[key]["projections"], cell[key]["universum_projections"], name=name
        )
        models |= shown.models
        _close(shown.figure_)
    figure: Figure = ProjectionHistogramDisplay(models).plot(density=False).figure_
    _close(figure)
    return figure


def _close(figure: Any) -> None:
    """pyplot keeps figures alive until it is told."""
    import matplotlib.pyplot as plt

    plt.close(figure)


def numbers(results: Record, universum: str, model: str) -> FloatArray:
    """(partitions, columns)."""
    cells = [cell for cell in results["cells"] if cell["universum"] == universum]
    cells.sort(key=lambda cell: int(cell["partition"]))
    return np.array([[cell[model][name] for name in COLUMNS] for cell in cells])


def page(results: Record) -> str:
    universa = [universum.name for universum in SETTING.universa]
    rows = [
        [f"{u}, {NAMES[key]}", *(f"{v:.2f}" for v in numbers(results, u, key).mean(axis=0))]
        for u in universa
        for key in NAMES
    ]
    changes = []
    for universum in universa:
        ours, plain = (numbers(results, universum, key) for key in ("mu_svm", "svm"))
        pairs = [paired(ours[:, c], plain[:, c]) for c in range(len(COLUMNS))]
        changes.append([universum, *map(difference, pairs)])
    return PAGE.format(
        made_by=made_by(results, "musvm reproduce figures --data FOLDER"),
        figures="\n".join(_figure(results, universum) for universum in universa),
        n=results["conditions"]["partitions"],
        n_train=SETTING.n_train,
        m=SETTING.m,
        table=as_markdown(["universum, model", *COLUMNS.values()], rows),
        changes=as_markdown(["universum", *COLUMNS.values()], changes),
        conclusions="\n".join(conclusion(results, universum) for universum in universa),
    )


def _figure(results: Record, universum: str) -> str:
    cell = next(c for c in results["cells"] if c["universum"] == universum and c["partition"] == 0)
    chosen = cell["mu_svm"]
    return (
        f"![Histograms of projections, universum {universum}: SVM above, MU-SVM below]"
        f"(figures_{universum}.png)\n\n"
        f"*Universum {universum}, first partition: C = {chosen['C']:g}, "
        f"Δ = {chosen['delta']:g}.*\n"
    )


def conclusion(results: Record, universum: str) -> str:
    """In how many partitions the paper's statements hold."""
    names = list(COLUMNS)
    change = numbers(results, universum, "mu_svm") - numbers(results, universum, "svm")
    fewer = {name: int(np.sum(change[:, names.index(name)] < 0)) for name in names}
    return (
        f"- {universum}: of {len(change)} partitions, the MU-SVM has the smaller spread in "
        f"{fewer['spread']}, the more even labels in {fewer['largest_share']}, the smaller test "
        f"error in {fewer['error']}."
    )
