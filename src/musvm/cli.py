"""The command `musvm`, one function per subcommand.

Contract of every subcommand: results go to stdout, progress and errors to stderr; `--json`
prints one JSON document and nothing else on stdout; colour, boxes and progress bars appear on
terminals only; a user's mistake ends with one line and a nonzero status, never with a traceback.
A subcommand imports what it needs when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from musvm import __version__

if TYPE_CHECKING:
    from musvm.demo import Summary

Item = TypeVar("Item")

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Typer's boxes are for terminals; a pipe or a log gets plain text.
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
)


def _examples(*commands: str) -> str:
    """The end of a help page; the backspace keeps the lines apart."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"musvm {__version__}")
        raise typer.Exit


@app.callback(epilog=_examples("musvm demo", "musvm demo --help"))
def musvm(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Multiclass universum support vector machines."""


@app.command(
    epilog=_examples(
        "musvm demo",
        "musvm demo --partitions 5 --jobs 1 --figure five.pdf",
        "musvm demo --json --no-figure > demo.json",
    )
)
def demo(
    partitions: Annotated[
        int, typer.Option(min=2, help="Number of random partitions of the images.")
    ] = 20,
    jobs: Annotated[
        int, typer.Option(help="Processes to use; -1 for one per processor core.")
    ] = -1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random partitions.")] = 0,
    figure: Annotated[
        Path, typer.Option(dir_okay=False, help="File to draw the figure to (.png, .pdf, .svg).")
    ] = Path("demo.png"),
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw no figure.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare a plain SVM with a universum SVM on handwritten digits.

    Classifies the digits 0-3 from ten training images each, with images of the digits 4-9 as
    universum. All parameters are chosen on the training images. Takes a minute or two.
    Other seeds draw other partitions and give other differences.
    """
    if jobs == 0:
        raise typer.BadParameter(
            "use -1 for all cores, or a number of processes", param_hint="--jobs"
        )
    if not no_figure:
        _check_figure_path(figure)
    from musvm import demo as study

    outcomes = list(
        _with_progress(
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
        _fail(f"cannot write the figure to {figure}: {error.strerror}")
    typer.echo(f"Figure: {figure}", err=as_json)


def _check_figure_path(path: Path) -> None:
    """Find out before the work, not after it, that the figure cannot be drawn."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ModuleNotFoundError:
        _fail("drawing the figure needs matplotlib: pip install 'musvm[plot]', or pass --no-figure")
    if path.suffix.lstrip(".").lower() not in FigureCanvasBase.get_supported_filetypes():
        raise typer.BadParameter(f"no image format ends in {path.name!r}", param_hint="--figure")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"no such folder: {path.parent}", param_hint="--figure")


def _fail(message: str) -> NoReturn:
    """End with one line on stderr."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(1)


def _with_progress(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Pass the items on, with a progress bar on stderr where that is a terminal."""
    console = Console(stderr=True)
    return iter(
        track(
            items,
            description=what,
            total=total,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
    )


def _table(*columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    return table


def _print_summary(summary: Summary) -> None:
    """The table of `musvm demo`, errors in per cent of the test images."""
    table = _table("test error (%)", "mean", "standard deviation")
    for name, mean, std in (
        ("plain SVM", summary.svm_mean, summary.svm_std),
        ("MU-SVM", summary.musvm_mean, summary.musvm_std),
    ):
        table.add_row(name, f"{100 * mean:.2f}", f"{100 * std:.2f}")
    Console().print(table)
    p_value = "undefined" if summary.p_value is None else f"{summary.p_value:.2g}"
    typer.echo(
        f"\nDifference, MU-SVM minus plain SVM: {100 * summary.difference:+.2f} points, "
        f"standard error {100 * summary.difference_standard_error:.2f}\n"
        f"Paired t test over {summary.n_partitions} partitions: p = {p_value}\n"
        f"The MU-SVM is better in {summary.n_better}, equal in {summary.n_equal}, "
        f"worse in {summary.n_worse}; a universum was chosen in {summary.n_universum_chosen}\n"
        f"Worst relative duality gap of {summary.n_fits} fits: {summary.worst_relative_gap:.1e}"
    )
