"""The page of the command line, written from the commands themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

OPENING = """\
# The command line

What `--help` says after every command, with the version of these pages. {doc}`/user_guide/shell` is
the introduction, {doc}`/transcript` an example from tables to predictions.
"""


def page() -> str:
    """All commands, each with its help."""
    import typer.main

    from musvm.cli import app

    # Boxes and colours are for terminals, and lines must not depend on the one of the build.
    os.environ["COLUMNS"] = "96"
    parts = [
        f"## {name}\n\n```text\n{text.strip()}\n```\n"
        for name, text in _commands(typer.main.get_command(app), "musvm", None)
    ]
    return "\n".join([OPENING, *parts])


def _commands(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    """Every command by its full name, groups first."""
    context = command.make_context(name.split()[-1], [], parent=parent, resilient_parsing=True)
    context.terminal_width = 96
    yield name, command.get_help(context)
    for child in getattr(command, "commands", {}):
        yield from _commands(command.commands[child], f"{name} {child}", context)


def write(app: Sphinx) -> None:
    path = Path(app.srcdir) / "reference" / "shell.md"
    text = page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
