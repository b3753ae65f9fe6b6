"""Notebooks run cell by cell, as Jupyter runs them, without needing it."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, notebook: dict[str, Any]) -> None:
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any]) -> list[str]:
    """What every code cell prints; the value of a last expression comes at the end."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for number, cell in enumerate(code_cells(notebook), start=1):
        tree = ast.parse("".join(cell["source"]))
        shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        buffer = io.StringIO()
        with contextlib.redirect_stdout(buffer):
            exec(compile(tree, f"cell {number}", "exec"), namespace)
            if shown is not None:
                value = eval(
                    compile(ast.Expression(shown.value), f"cell {number}", "eval"), namespace
                )
                if value is not None:
                    print(repr(value))
        printed.append(buffer.getvalue())
    return printed


def with_outputs(notebook: dict[str, Any], printed: list[str]) -> dict[str, Any]:
    """The notebook with what its cells print, as a notebook stores it."""
    for count, (cell, text) in enumerate(zip(code_cells(notebook), printed, strict=True), start=1):
        lines = text.splitlines(keepends=True)
        output = {"name": "stdout", "output_type": "stream", "text": lines}
        cell["execution_count"], cell["outputs"] = count, [output] if lines else []
    return notebook


def stored(notebook: dict[str, Any]) -> list[str]:
    """What the cells printed when the notebook was written."""
    return [
        "".join("".join(output["text"]) for output in cell["outputs"])
        for cell in code_cells(notebook)
    ]
