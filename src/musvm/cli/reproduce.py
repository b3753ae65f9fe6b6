"""`musvm reproduce`: the papers' experiments, and ours, one subcommand each."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._terminal import fail, in_the_shell

if TYPE_CHECKING:
    from musvm.experiments.experiment import Experiment

reproduce = typer.Typer(
    no_args_is_help=True,
    help="Run an experiment of the papers, or one of our own.\n\n"
    "The traffic signs are in GTSRB_Final_Training_Images.zip, to be had from "
    "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/: give the file or its "
    "folder as --data. Table 2 of the digits needs no download.",
    epilog=examples(
        "musvm reproduce table2",
        "musvm reproduce paper --data FOLDER",
        "musvm reproduce curves --data GTSRB_Final_Training_Images.zip --out results",
    ),
)
app.add_typer(reproduce, name="reproduce")


class Dataset(StrEnum):
    """The settings of `musvm.experiments.settings`."""

    gtsrb = "gtsrb"
    sequel = "sequel"
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


class Model(StrEnum):
    direct = "direct"
    one_vs_rest = "one-vs-rest"
    one_vs_one = "one-vs-one"


class Features(StrEnum):
    """The keys of `musvm.experiments.data.FEATURES`."""

    hog = "hog"
    gamma = "gamma"
    grey = "grey"
    no_window = "no-window"
    no_interpolation = "no-interpolation"
    neither = "neither"
    roi = "roi"
    simplified = "simplified"


DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="The file of the data set, or the folder of all.", exists=True),
]
Partitions = Annotated[int, typer.Option(min=2, help="Random partitions.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random partitions.")]
Out = Annotated[Path, typer.Option(file_okay=False, help="Folder for results and finished tasks.")]
Jobs = Annotated[
    int,
    typer.Option(
        callback=options.check_jobs,
        help="Processes; -1 for one per core. Times are always taken with one.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the results file instead of the page.")]
RESULTS = Path("results")


def perform(experiment: Experiment, data: Path | None, out: Path, jobs: int, as_json: bool) -> None:
    """Run an experiment, write its results, page and figures, and print one of them."""
    from musvm.experiments.experiment import run, write_page, write_results

    try:
        out.mkdir(parents=True, exist_ok=True)
        results = run(experiment, data, out, n_jobs=jobs)
        path = out / f"{experiment.name}.json"
        write_results(results, path)
        written = [path, *write_page(experiment, results, out)]
    except (OSError, ValueError, ImportError) as error:
        fail(in_the_shell(str(error)))
    text = json.dumps(results, indent=1) if as_json else experiment.page(results)
    typer.echo(text, nl=as_json)
    typer.echo(f"Written: {', '.join(map(str, written))}", err=True)
    if not any(file.suffix == ".png" for file in written) and experiment.name != "tables":
        typer.echo("No figure: pip install 'musvm[plot]' to have one.", err=True)


def _table_command(table: str, about: str) -> Callable[..., None]:
    """The subcommand of one of the paper's tables; all of them have the same options."""

    def command(
        dataset: Annotated[
            Dataset, typer.Option(help="The data set; the digits need no download.")
        ] = Dataset.digits,
        data: DataOption = None,
        partitions: Partitions = 10,
        jobs: Jobs = options.DEFAULT_JOBS,
        out: Out = RESULTS,
        seed: Seed = 0,
        split: Annotated[
            Split, typer.Option(help="'tracks' keeps the frames of one traffic sign together.")
        ] = Split.random,
        criterion: Annotated[
            Criterion, typer.Option(help="What chooses the models of Tables 2 and 4.")
        ] = Criterion.cv,
        loss: Annotated[
            options.Loss, typer.Option(help="Universum loss: 'sum' is eq. (4), 'max' is eq. (2).")
        ] = options.Loss.sum,
        model: Annotated[
            Model, typer.Option(help="The direct SVM, or binary ones with the same C*/C.")
        ] = Model.direct,
        features: Annotated[
            Features, typer.Option(help="How traffic signs are turned into numbers.")
        ] = Features.hog,
        as_json: Json = False,
    ) -> None:
        from musvm.experiments import tables
        from musvm.experiments.protocol import Study
        from musvm.experiments.settings import SETTINGS

        _check_options(table, dataset, split, criterion, model, features)
        study = Study(
            SETTINGS[dataset.value], split.value, seed, loss.value, model.value, features.value
        )
        experiment = tables.experiment(table, study, partitions, criterion.value)
        perform(experiment, data, out, jobs, as_json)

    command.__doc__ = about
    return command


def _check_options(
    table: str,
    dataset: Dataset,
    split: Split,
    criterion: Criterion,
    model: Model,
    features: Features,
) -> None:
    """Find out before the work that options do not go together."""
    has_signs = dataset in (Dataset.gtsrb, Dataset.sequel)
    if split is Split.tracks and not has_signs:
        raise typer.BadParameter("only the traffic signs have tracks", param_hint="--split")
    if features is not Features.hog and not has_signs:
        raise typer.BadParameter(
            "only the traffic signs have a choice of features", param_hint="--features"
        )
    compares_all = table in ("table3", "timing")
    if criterion is not Criterion.cv and compares_all:
        raise typer.BadParameter(f"{table} compares them all", param_hint="--criterion")
    if model is not Model.direct and (compares_all or criterion is not Criterion.cv):
        raise typer.BadParameter("binary SVMs are for cross-validation only", param_hint="--model")


for _table, _about in {
    "table2": "Test errors of the plain SVM and with each universum.",
    "table3": "The same, models chosen by cross-validation and by bounds.",
    "table4": "The same for universa of several sizes.",
    "timing": "How long the selection of a model takes.",
}.items():
    reproduce.command(_table)(_table_command(_table, _about))


@reproduce.command()
def paper(
    data: DataOption = None,
    partitions: Partitions = 10,
    jobs: Jobs = options.DEFAULT_JOBS,
    out: Out = RESULTS,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """All tables of both papers, and the timing.

    On the traffic signs, and on NIST if it is there.
    """
    from musvm.experiments import paper as study
    from musvm.experiments import tables
    from musvm.experiments.protocol import Study
    from musvm.experiments.settings import SETTINGS

    perform(study.experiment(data, partitions, seed), data, out, jobs, as_json)
    signs = Study(SETTINGS["gtsrb"], seed=seed)
    perform(tables.experiment("timing", signs, partitions), data, out, jobs, as_json)


@reproduce.command()
def curves(
    data: DataOption = None,
    partitions: Partitions = 20,
    jobs: Jobs = options.DEFAULT_JOBS,
    out: Out = RESULTS,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learning curves on the traffic signs, 5 to 300 images a class."""
    from musvm.experiments import curves as study

    perform(study.experiment(partitions, seed), data, out, jobs, as_json)


@reproduce.command()
def components(
    data: DataOption = None,
    partitions: Partitions = 20,
    jobs: Jobs = options.DEFAULT_JOBS,
    out: Out = RESULTS,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Which part of the traffic signs' features the gain depends on."""
    from musvm.experiments import components as study

    perform(study.experiment(partitions, seed), data, out, jobs, as_json)


@reproduce.command()
def universa(
    data: DataOption = None,
    partitions: Partitions = 20,
    jobs: Jobs = options.DEFAULT_JOBS,
    out: Out = RESULTS,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Universa made of nothing, or selected from a pool.

    And how many points they need.
    """
    from musvm.experiments import universa as study

    perform(study.experiment(partitions, seed), data, out, jobs, as_json)


@reproduce.command("open-set")
def open_set(
    data: DataOption = None,
    partitions: Partitions = 10,
    jobs: Jobs = options.DEFAULT_JOBS,
    out: Out = RESULTS,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Saying "none of these": universum SVMs among what people use."""
    from musvm.experiments import open_set as study

    perform(study.experiment(partitions, seed), data, out, jobs, as_json)


@reproduce.command()
def figures(
    data: DataOption = None,
    partitions: Partitions = 10,
    jobs: Jobs = options.DEFAULT_JOBS,
    out: Out = RESULTS,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """The paper's histograms of projections on the traffic signs.

    And what is read off them.
    """
    from musvm.experiments import figures as study

    perform(study.experiment(partitions, seed), data, out, jobs, as_json)


@reproduce.command()
def thresholds(
    splits: Annotated[int, typer.Option(min=2, help="Random splits.")] = 1000,
    jobs: Jobs = options.DEFAULT_JOBS,
    out: Out = RESULTS,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Whether rejection accepts as many points as it promises.

    Needs no download.
    """
    from musvm.experiments import thresholds as study

    perform(study.experiment(splits, seed), None, out, jobs, as_json)
