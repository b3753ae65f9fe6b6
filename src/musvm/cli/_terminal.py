"""What subcommands write: tables, notes, progress, and the one line that ends a user's mistake."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

Item = TypeVar("Item")


# ---------------------------------------------------------------------------------------------
# Errors, warnings and notes, on stderr


LONGEST_MESSAGE = 1000
LONGEST_NAME = 200


def fail(message: str, status: int = 1) -> NoReturn:
    """End with one line on stderr, whatever other libraries have quoted in it."""
    line = printable(message)
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[: LONGEST_MESSAGE // 2]} ... {line[-LONGEST_MESSAGE // 2 :]}"
    typer.echo(f"Error: {line}", err=True)
    raise typer.Exit(status)


def note(message: str) -> None:
    """One line on stderr that the user should know."""
    typer.echo(f"Note: {printable(message)}", err=True)


def warn(message: str) -> None:
    """One line on stderr about what is most likely a mistake."""
    typer.echo(f"Warning: {printable(message)}", err=True)


@contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """End with one line what a user's files can cause, and print warnings as one line each.

    Anything else that goes wrong is a mistake of ours and keeps its traceback.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = _print_warning  # type: ignore[assignment]
        try:
            yield
        except ModuleNotFoundError as error:
            # Those that name the extra to install; another one is a bug.
            if "pip install" not in str(error):
                raise
            fail(str(error))
        except ValueError as error:
            if not isinstance(error, _mistakes()):
                raise
            fail(str(error))


def _mistakes() -> tuple[type[Exception], ...]:
    """What a user's files can cause, in the modules that were needed so far."""
    kinds = {
        "musvm.cli.tables": "TableError",
        "musvm.io.model_file": "ModelFileError",
        "musvm.io.onnx_export": "ExportError",
    }
    return tuple(getattr(sys.modules[home], kinds[home]) for home in kinds if home in sys.modules)


def _print_warning(message: Warning | str, *context: Any) -> None:
    warn(in_the_shell(" ".join(str(message).split())))


# Advice that names arguments of Python, and what it is here.
_IN_THE_SHELL = (
    (r"pass the file as archive=\.\.\.", "pass the file as --data FILE"),
    (
        r"((raise max_iter|try another solver), scale|centre and scale) the features, "
        r"(lower C, )?or loosen tol",
        "leave out --no-scale, or smaller --C",
    ),
    (r", or raise cache_size\b", ""),
    (r"into cache_size=(\S+ MB)", r"into \1"),
    (r"criterion='?([\w-]+)'?", r"--select \1"),
    (r"rows of X\b", "rows of the training table"),
    (r"its X had\b", "the table of the fit had"),
    (r"its universum had\b", "the universum of the fit had"),
    (r"its classes are\b", "the classes of the fit are"),
)


def in_the_shell(message: str) -> str:
    """A sentence of the library with options instead of arguments."""
    for pattern, words in _IN_THE_SHELL:
        message = re.sub(pattern, words, message)
    return message


def shortened(name: str) -> str:
    """The beginning of a name that is too long to be one."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def counted(n: int, what: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


# ---------------------------------------------------------------------------------------------
# Results, on stdout


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def printable(text: str) -> str:
    """The text with its control characters written out: names from files are nobody's commands."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def print_facts(facts: Mapping[str, str]) -> None:
    """Names and values, one pair a line; on a terminal the names in bold, long values wrapped."""
    facts = {printable(name): printable(value) for name, value in facts.items()}
    if sys.stdout.isatty():
        grid = Table.grid(padding=(0, 2))
        for name, value in facts.items():
            grid.add_row(Text(name, style="bold cyan"), Text(value))
        Console().print(grid)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {value}")


def table(*columns: str, left: int = 0) -> Table:
    """A table of numbers, but for one column of text, the first unless `left` says otherwise."""
    made = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    for position, column in enumerate(columns):
        made.add_column(Text(column), justify="left" if position == left else "right", no_wrap=True)
    return made


def print_table(made: Table) -> None:
    """Print a table; in a pipe it is as wide as it needs to be."""
    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    console.print(made)


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
