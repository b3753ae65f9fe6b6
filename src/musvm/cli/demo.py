"""`musvm demo`: a plain SVM against a universum SVM on handwritten digits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._terminal import fail, table, with_progress

if TYPE_CHECKING:
    from musvm.experiments.demo import Summary


@app.command(
    epilog=examples(
        "musvm demo",
        "musvm demo --partitions 5 --jobs -1 --figure five.pdf",
        "musvm demo --json --no-figure > demo.json",
    )
)
def demo(
    partitions: Annotated[
        int, typer.Option(min=2, help="Number of random partitions of the images.")
    ] = 20,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random partitions.")] = 0,
    figure: Annotated[
        Path, typer.Option(dir_okay=False, help="File to draw the figure to (.png, .pdf, .svg).")
    ] = Path("demo.png"),
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw no figure.")] = False,
    as_json: options.Json = False,
) -> None:
    """Compare plain and universum SVMs on handwritten digits.

    Classifies the digits 0-3 from ten training images each, with images of the digits 4-9 as
    universum. All parameters are chosen on the training images. Takes a minute or two.
    Other seeds draw other partitions and give other differences.
    """
    if not no_figure:
        _check_figure_path(figure)
    from musvm.experiments import demo as study

    outcomes = list(
        with_progress(
            study.run_partitions(partitions, seed=seed, n_jobs=jobs), partitions, "partitions"
        )
    )
    if as_json:
        typer.echo(json.dumps(study.as_document(outcomes, seed), indent=2, allow_nan=False))
    else:
        _print_summary(study.summarise(outcomes))
    if no_figure:
        return
    try:
        study.draw_figure(outcomes, seed).savefig(figure, dpi=150, bbox_inches="tight")
    except OSError as error:
        fail(f"cannot write the figure to {figure}: {error.strerror}")
    typer.echo(f"Figure: {figure}", err=as_json)


def _check_figure_path(path: Path) -> None:
    """Find out before the work, not after it, that the figure cannot be drawn."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ModuleNotFoundError:
        fail("drawing the figure needs matplotlib: pip install 'musvm[plot]', or pass --no-figure")
    if path.suffix.lstrip(".").lower() not in FigureCanvasBase.get_supported_filetypes():
        raise typer.BadParameter(f"no image format ends in {path.name!r}", param_hint="--figure")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"no such folder: {path.parent}", param_hint="--figure")


def _print_summary(summary: Summary) -> None:
    """The table of `musvm demo`, errors in per cent of the test images."""
    rows = table("test error (%)", "mean", "standard deviation")
    for name, mean, std in (
        ("plain SVM", summary.svm_mean, summary.svm_std),
        ("MU-SVM", summary.musvm_mean, summary.musvm_std),
    ):
        rows.add_row(name, f"{100 * mean:.2f}", f"{100 * std:.2f}")
    Console().print(rows)
    p_value = "undefined" if summary.p_value is None else f"{summary.p_value:.2g}"
    typer.echo(
        f"\nDifference, MU-SVM minus plain SVM: {100 * summary.difference:+.2f} points, "
        f"standard error {100 * summary.difference_standard_error:.2f}\n"
        f"Paired t test over {summary.n_partitions} partitions: p = {p_value}\n"
        f"The MU-SVM is better in {summary.n_better}, equal in {summary.n_equal}, "
        f"worse in {summary.n_worse}; a universum was chosen in {summary.n_universum_chosen}\n"
        f"Worst relative duality gap of {summary.n_fits} fits: {summary.worst_relative_gap:.1e}"
    )
