"""The command itself: its version, its help, and what every subcommand registers with."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from musvm import __version__

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Typer's boxes are for terminals; a pipe or a log gets plain text.
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
)


def examples(*commands: str) -> str:
    """The end of a help page; the backspace keeps the lines apart."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"musvm {__version__}")
        raise typer.Exit


@app.callback(
    epilog=examples(
        "musvm demo",
        "musvm fit train.csv --universum others.csv --report report.html",
        "musvm predict model.skops new.csv --scores",
    )
)
def musvm(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Multiclass universum support vector machines."""
