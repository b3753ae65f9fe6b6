"""What subcommands write: tables, progress, and the one line that ends a user's mistake."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import NoReturn, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

Item = TypeVar("Item")


def fail(message: str) -> NoReturn:
    """End with one line on stderr."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(1)


def with_progress(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
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


def table(*columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    made = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    for position, column in enumerate(columns):
        made.add_column(column, justify="right" if position else "left", no_wrap=True)
    return made
