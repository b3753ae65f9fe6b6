"""`musvm reproduce`: the paper's tables, timing and figures."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._terminal import fail

if TYPE_CHECKING:
    from musvm.experiments.data import Data
    from musvm.experiments.protocol import Study


class What(StrEnum):
    """What to reproduce."""

    table2 = "table2"
    table3 = "table3"
    table4 = "table4"
    timing = "timing"
    figures = "figures"


class Dataset(StrEnum):
    """The data sets of `musvm.experiments.settings`."""

    gtsrb = "gtsrb"
    nist = "nist"
    abcdetc = "abcdetc"
    isolet = "isolet"
    digits = "digits"


class Split(StrEnum):
    random = "random"
    tracks = "tracks"


class Criterion(StrEnum):
    cv = "cv"
    span_2016 = "span-2016"
    span = "span"
    loo_estimate = "loo-estimate"
    loo = "loo"


class Weight(StrEnum):
    balanced = "balanced"
    searched = "searched"


class Universum(StrEnum):
    samples = "samples"
    random_average = "random-average"


class Ties(StrEnum):
    smallest_c = "smallest-C"
    hinge = "hinge"


class Model(StrEnum):
    direct = "direct"
    one_vs_rest = "one-vs-rest"


@app.command(
    epilog=examples(
        "musvm reproduce table2",
        "musvm reproduce table3 --dataset gtsrb --data GTSRB_Final_Training_Images.zip",
        "musvm reproduce table2 --dataset gtsrb --split tracks --out results",
        "musvm reproduce table2 --dataset nist --data nist.npz --loss max --json",
    )
)
def reproduce(
    what: Annotated[What, typer.Argument(help="A table of the paper, its timing or its figures.")],
    dataset: Annotated[
        Dataset, typer.Option(help="The data set; the digits need no download.")
    ] = Dataset.digits,
    data: Annotated[
        Path | None, typer.Option(help="Its file, archive or folder.", exists=True)
    ] = None,
    partitions: Annotated[int, typer.Option(min=2, help="Random partitions.")] = 10,
    jobs: Annotated[
        int,
        typer.Option(
            callback=options.check_jobs,
            help="Processes; -1 for one per core. The timing always uses one.",
        ),
    ] = 2,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for results and finished cells.")
    ] = Path("results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random partitions.")] = 0,
    split: Annotated[
        Split, typer.Option(help="'tracks' keeps the frames of one traffic sign together.")
    ] = Split.random,
    criterion: Annotated[
        Criterion, typer.Option(help="What chooses the models of Tables 2 and 4.")
    ] = Criterion.cv,
    loss: Annotated[
        options.Loss, typer.Option(help="Universum loss: 'sum' is eq. (4), 'max' is eq. (2).")
    ] = options.Loss.sum,
    weight: Annotated[
        Weight, typer.Option(help="C*/C: n/(mL), or searched around it.")
    ] = Weight.balanced,
    universum: Annotated[
        Universum, typer.Option(help="Points of other classes, or averages of training points.")
    ] = Universum.samples,
    model: Annotated[
        Model, typer.Option(help="The direct SVM, or binary ones with the same C*/C.")
    ] = Model.direct,
    ties: Annotated[
        Ties, typer.Option(help="Among equal errors, the smallest C or the smallest hinge loss.")
    ] = Ties.smallest_c,
    gamma: Annotated[
        float | None, typer.Option(help="Of the RBF kernel, instead of the setting's.")
    ] = None,
    fixed_c: Annotated[
        float | None, typer.Option("--C", help="The only C, instead of the paper's grid.")
    ] = None,
    color: Annotated[bool, typer.Option("--color", help="Colour gradients (gtsrb).")] = False,
    roi: Annotated[bool, typer.Option("--roi", help="Images cropped to the sign (gtsrb).")] = False,
    feature_scale: Annotated[float, typer.Option(help="Factor of all features (gtsrb).")] = 1.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results file instead of the table.")
    ] = False,
) -> None:
    """Run an experiment of the paper, and set its figures beside ours.

    Writes a results file (JSON), a table (Markdown) and a figure to the folder, and prints the
    table. A run that was interrupted continues where it was when it is started again.
    """
    from musvm.experiments.data import Features, load_data
    from musvm.experiments.protocol import Study

    study = Study(
        dataset.value,
        split.value,
        seed,
        loss.value,
        weight.value,
        universum.value,
        model.value,
        ties.value,
        gamma,
        fixed_c,
        Features(color, roi, feature_scale),
    )
    _check_options(study, what, criterion)
    try:
        out.mkdir(parents=True, exist_ok=True)
        points = load_data(study.dataset, data, study.features, n_jobs=jobs)
        if what is What.figures:
            _figures(points, study, criterion.value, out)
        else:
            _table(what.value, points, study, criterion.value, partitions, jobs, out, as_json)
    except (OSError, ValueError, ImportError) as error:
        fail(str(error))


def _check_options(study: Study, what: What, criterion: Criterion) -> None:
    """Find out before the work that options do not go together."""
    is_gtsrb = study.dataset == "gtsrb"
    if study.split == "tracks" and not is_gtsrb:
        raise typer.BadParameter("only gtsrb has tracks", param_hint="--split")
    if not is_gtsrb and (study.features.color or study.features.roi or study.features.scale != 1):
        raise typer.BadParameter("only gtsrb has a choice of features", param_hint="--dataset")
    if study.gamma is not None and study.setting.kernel != "rbf":
        raise typer.BadParameter("the kernel has no gamma", param_hint="--gamma")
    if criterion is not Criterion.cv and what in (What.table3, What.timing):
        raise typer.BadParameter(f"{what.value} compares them all", param_hint="--criterion")
    if study.model == "one-vs-rest" and (
        what not in (What.table2, What.table4) or criterion is not Criterion.cv
    ):
        raise typer.BadParameter("one-vs-rest is for cross-validation only", param_hint="--model")


def _table(
    what: str,
    points: Data,
    study: Study,
    criterion: str,
    partitions: int,
    jobs: int,
    out: Path,
    as_json: bool,
) -> None:
    from musvm.experiments.plots import draw_differences
    from musvm.experiments.run import run_table, slug, write_results
    from musvm.experiments.tables import describe, markdown

    results = run_table(
        what,
        points,
        study,
        partitions=partitions,
        folder=out,
        criterion=criterion,
        n_jobs=1 if what == "timing" else jobs,
    )
    path = out / slug(what, study, criterion)
    write_results(results, path.with_name(f"{path.name}.json"))
    text = f"{describe(results)}\n\n{markdown(results)}"
    path.with_name(f"{path.name}.md").write_text(text, encoding="utf-8")
    typer.echo(json.dumps(results, indent=1) if as_json else text, nl=as_json)
    written = [f"{path}.json", f"{path}.md"]
    try:
        _save(draw_differences(results), f"{path}.png")
        written.append(f"{path}.png")
    except ModuleNotFoundError:
        typer.echo("No figure: pip install 'musvm[plot]' to have one.", err=True)
    typer.echo(f"Written: {', '.join(written)}", err=True)


def _figures(points: Data, study: Study, criterion: str, out: Path) -> None:
    from musvm.experiments.plots import draw_projections
    from musvm.experiments.protocol import Cell
    from musvm.experiments.run import slug

    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        fail("the figures need matplotlib: pip install 'musvm[plot]'")
    mpl.use("agg")
    for universum in study.setting.universa:
        cell = Cell(0, universum.name, study.setting.m, criterion)
        path = out / f"{slug('figures', study, criterion)}_{universum.name}.png"
        _save(draw_projections(points, study, cell), str(path))
        typer.echo(path)


def _save(figure: Any, path: str) -> None:
    figure.savefig(path, dpi=150, bbox_inches="tight")
