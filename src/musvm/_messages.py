"""What a person reads: warnings that point to their line of code, and small tables."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path

OF_A_PIPELINE = (
    "For a pipeline pass its last step, pipeline[-1], and the data as that step sees them, "
    "pipeline[:-1].transform(X)."
)
"""What to do where a pipeline is not taken for the model that it ends in."""


def instead_of(model: object) -> str:
    """What to pass where a model is wanted and something was given that may hold one."""
    for name in ("best_estimator_", "estimator_"):
        if (inner := getattr(model, name, None)) is not None:
            of_inner = f" {OF_A_PIPELINE}" if hasattr(inner, "steps") else ""
            return f"Pass its {name}.{of_inner}"
    return OF_A_PIPELINE


# What a call goes through before it reaches us, or on its way: nobody's own code.
_PASSED_THROUGH = ("musvm", "sklearn", "joblib", "contextlib", "functools")


def _places() -> tuple[str, ...]:
    found = (find_spec(name) for name in _PASSED_THROUGH)
    origins = (Path(spec.origin) for spec in found if spec is not None and spec.origin)
    return tuple(str(path.parent if path.stem == "__init__" else path) for path in origins)


_OURS = _places()


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the location of the innermost caller outside this package and scikit-learn."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines of text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [first.ljust(widths[0]), *(cell.rjust(n) for cell, n in zip(rest, widths[1:], strict=True))]
        for first, *rest in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a table of HTML, the first row and the first column as heads."""
    head, *body = rows
    lines = [
        "".join(f"<th>{escape(cell)}</th>" for cell in head),
        *(
            f"<th>{escape(first)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
            for first, *rest in body
        ),
    ]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
