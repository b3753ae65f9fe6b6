"""What a person reads: warnings that point to their line of code, and small tables."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

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


class Tabulated:
    """What is printed, and shown in notebooks, as a table with sentences around it."""

    # Columns of text, which are aligned to the left; those of numbers are to the right.
    _columns_of_text: ClassVar[tuple[int, ...]] = (0,)

    def _rows(self) -> list[list[str]]:
        """The cells of the table, its head first."""
        raise NotImplementedError

    def _introduction(self) -> list[str]:
        """Sentences above the table."""
        return []

    def _sentences(self) -> list[str]:
        """Sentences below it."""
        return []

    def __repr__(self) -> str:
        above, table = self._introduction(), aligned(self._rows(), self._columns_of_text)
        parts = [*above, "", table, ""] if above else [table]
        return "\n".join([*parts, *self._sentences()])

    def _repr_html_(self) -> str:
        above, below = map(_paragraph, (self._introduction(), self._sentences()))
        return above + html_table(self._rows()) + below


def _paragraph(sentences: Sequence[str]) -> str:
    return f"<p>{'<br>'.join(map(escape, sentences))}</p>" if sentences else ""


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Rows of cells as lines of text, these columns to the left, the others to the right."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_left = [k in left or k - len(columns) in left for k in range(len(columns))]
    lines = (
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, is_left, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


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
