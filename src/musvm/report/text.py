"""Text and numbers as the report shows them.

Names of classes, features and files are untrusted: they may hold markup, control characters or
half a surrogate pair, and be of any length. They pass two gates.

    as_text         to characters that can be printed and encoded, and not too many of them; HTML
                    is escaped by the template engine, always
    as_plotly_text  for labels in figures, where Plotly reads tags and entities of its own

Numbers of one column share a format, so that their digits stand below each other.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

MAX_LENGTH = 120
MAX_TICK_LENGTH = 24
MINUS, MISSING = "\N{MINUS SIGN}", "\N{EN DASH}"
# Characters that have no shape or turn the direction of their neighbours; the rest of "Cf" joins
# letters in some scripts and is left alone.
_UNPRINTABLE = {"Cc", "Cs", "Zl", "Zp"}
_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def as_text(name: Any, max_length: int = MAX_LENGTH) -> str:
    """Any label as visible text; what cannot be seen is written as a Python escape."""
    text = "".join(_visible(character) for character in str(name)[: max_length + 1])
    if len(text) > max_length:
        text = text[: max_length - 1] + "…"
    return text if text.strip() else repr(text)


def _visible(character: str) -> str:
    hidden = (
        unicodedata.category(character) in _UNPRINTABLE
        or unicodedata.bidirectional(character) in _DIRECTIONS
    )
    return character.encode("unicode_escape").decode("ascii") if hidden else character


def as_plotly_text(name: Any, max_length: int = MAX_TICK_LENGTH) -> str:
    """A label for a figure: Plotly decodes entities after it has looked for tags."""
    text = as_text(name, max_length)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = text.replace(character, entity)
    return text


# ---------------------------------------------------------------------------------------------
# Numbers


def is_number(value: Any) -> bool:
    """Whether a value is a number for a column of numbers; a boolean is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number_format(values: Sequence[Any]) -> Callable[[Any], str]:
    """One format for all numbers of a column; None and NaN become a dash."""
    finite = [float(value) for value in values if is_number(value) and math.isfinite(value)]
    spec = _specification(finite)

    def show(value: Any) -> str:
        if value is None or (is_number(value) and math.isnan(value)):
            return MISSING
        return format(float(value), spec).replace("-", MINUS)

    return show


def _specification(values: list[float]) -> str:
    if all(value == int(value) and abs(value) < 1e6 for value in values):
        return ",.0f"
    sizes = [abs(value) for value in values if value]
    if max(sizes) >= 1e6 or max(sizes) < 1e-3:
        return ".2e"
    most = min(4, max(1, 3 - math.floor(math.log10(min(sizes)))))
    exact = (d for d in range(1, most) if all(round(value, d) == value for value in values))
    return f",.{next(exact, most)}f"


def percent(value: Any) -> str:
    """A share as a percentage with one decimal, never broken before its unit."""
    return MISSING if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def scientific(value: Any) -> str:
    """A small number, such as a duality gap."""
    return MISSING if value is None else f"{value:.1e}".replace("-", MINUS)


def compact(value: float) -> str:
    """A number of a grid: as it was typed, but no more than four digits of it."""
    return f"{value:.4g}".replace("-", MINUS)


def shortest(value: float) -> str:
    """A number as it was typed: 0.05, not 0.0500."""
    return f"{value:.12g}".replace("-", MINUS)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 point`, `2 points`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
