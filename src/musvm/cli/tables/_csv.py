"""CSV: text with a header line, separated by commas, semicolons or tabs.

Every cell is a number, a word or missing. Missing are empty cells and the usual words for it
(`MISSING`). A line with too few or too many values is refused, not padded.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from musvm.cli.tables._table import (
    MISSING,
    NO_LABEL,
    Layout,
    Roles,
    Table,
    TableError,
    categories,
    named_table,
    roles_of,
    shown,
)

_DELIMITERS = ",;\t"
_ROWS_AT_A_TIME = 4096
# 1,5 or 1'000 or 1.000,5 or 3 % or $3, but no date, version or address.
_DISGUISED = re.compile(
    r"[$\u20ac\u00a3]?\s*[+-]?\d+(?:\.\d{3})*(?:[,' ]\d+)*(?:\.\d+)?\s*[%$\u20ac\u00a3\u2030]?",
    flags=re.ASCII,
)
_WHOLE = re.compile(r"[+-]?\d+\.0*", flags=re.ASCII)


@dataclass
class _TextColumn:
    """Collects the cells of one column: floats for as long as they are numbers, else text.

    `kind` is "number", "category", "label", or None where the cells decide. `named` tells whether
    the columns have names of their own, by which options can call them.
    """

    name: str
    kind: str | None
    path: str
    named: bool = True
    parts: list[Any] = field(default_factory=list)

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        numbers = None if self.kind in ("category", "label") else numbers_in(cells)
        if numbers is None and self.kind == "number":
            row = next(k for k, cell in enumerate(cells) if numbers_in([cell]) is None)
            self._fail(f"line {lines[row]}: {shown(cells[row])} is not a number")
        self.parts.append([cell.strip() for cell in cells] if numbers is None else numbers)

    def finish(self, lines: Sequence[int]) -> Any:
        """The whole column: floats with NaN, or objects, strings and NaN, where values miss."""
        if all(isinstance(part, np.ndarray) for part in self.parts):
            numbers: Any = np.concatenate([np.empty(0), *self.parts])
            if np.isinf(numbers).any():
                line = lines[int(np.flatnonzero(np.isinf(numbers))[0])]
                self._fail(f"line {line}: the number is infinite")
            return numbers
        if self.kind is None:
            self._require_words(lines)
        cells: list[Any] = []
        for part in self.parts:
            # Only parts without any value are still numbers here.
            cells += [""] * len(part) if isinstance(part, np.ndarray) else part
        if self.kind == "label":
            return categories(map(_whole, cells), NO_LABEL)
        return categories(cells, MISSING)

    def _require_words(self, lines: Sequence[int]) -> None:
        """Refuse a column of numbers and words, or of numbers that only people can read."""
        numbers, words = self._places(lines)
        if not words:
            return
        line, word = words[0]
        options = f"--categorical {shown(self.name)} or --ignore {shown(self.name)}"
        if all(_is_number_in_disguise(cell) for _, cell in words):
            self._fail(
                f"line {line}: {shown(word)} looks like a number in another notation; write "
                f"numbers like 1.5, without units or separators"
                + ("" if numbers else f", or pass {options}")
            )
        if not numbers:
            return
        if not self.named and len(words) == 1 and line == lines[0]:
            self._fail(
                f"line {line}: {shown(word)} stands where all others are numbers; leave out "
                "--no-header if the names of the columns are there"
            )
        self._fail(
            f"has numbers (line {numbers[0][0]}: {shown(numbers[0][1])}) and words "
            f"(line {line}: {shown(word)}); correct the file, leave the cell empty if "
            f"the value is missing, or pass {options}"
        )

    def _places(self, lines: Sequence[int]) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """The first number, and all words, with their lines."""
        numbers: list[tuple[int, str]] = []
        words: list[tuple[int, str]] = []
        for line, cell in zip(lines, chain.from_iterable(self.parts), strict=True):
            value = numbers_in([str(cell)])
            if value is None:
                words.append((line, str(cell)))
            elif not numbers and not math.isnan(value[0]):
                numbers.append((line, str(cell)))
        return numbers, words

    def _fail(self, what: str) -> NoReturn:
        raise TableError(f"{self.path}: column {shown(self.name)}: {what}")


def _is_number_in_disguise(cell: str) -> bool:
    """Whether a cell is a number with a decimal comma, separated thousands or a unit."""
    return _DISGUISED.fullmatch(cell) is not None


def _whole(label: str) -> str:
    """A label as text; whole numbers without a decimal point, so that 1 and 1.0 are one class."""
    return label.partition(".")[0] if _WHOLE.fullmatch(label) else label


def numbers_in(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """The cells as numbers, NaN where one is missing; None if one is something else."""
    if "_" in ",".join(cells):
        return None  # Python reads 1_000 as a number; nobody writes one like that in a table.
    try:
        return np.array(list(map(float, cells)))
    except ValueError:
        pass
    try:
        return np.array([math.nan if c.strip() in MISSING else float(c) for c in cells])
    except ValueError:
        return None


def read_csv(content: bytes, path: str, layout: Layout) -> Table:
    records = _csv_records(_decoded(content, path), path)
    try:
        header_line, header = next(records)
    except StopIteration:
        raise TableError(f"{path}: has no header line") from None
    second = next(records, None)
    records = chain([] if second is None else [second], records)
    names = [name.strip() for name in header]
    if not layout.header:
        names = [f"x{position}" for position in range(1, len(header) + 1)]
        records = chain([(header_line, header)], records)
    else:
        _require_names(names, f"{path}: line {header_line}", second)
    roles = roles_of(names, layout, path)
    table = _collect(records, names, roles, path, named=layout.header)
    if layout.header:
        _require_no_data(names, table, header_line)
    return table


def _require_names(names: list[str], place: str, second: tuple[int, list[str]] | None) -> None:
    """Refuse a first line that has no names: a comment, a quotation of them, or numbers."""
    is_alone = len(names) == 1 or second is None or len(second[1]) != len(names)
    if names[0].startswith("#") and is_alone:
        raise TableError(
            f"{place} is a comment, where the names of the columns should be; remove it"
        )
    if all(len(name) > 1 and name[0] == name[-1] == "'" for name in names):
        raise TableError(
            f"{place}: names and words are quoted by '; quote them by \", or not at all"
        )
    if len(names) > 1 and numbers_in(names) is not None:
        raise TableError(
            f"{place} has only numbers, where the names of the columns should be; pass "
            "--no-header if there are none"
        )


def _require_no_data(names: list[str], table: Table, header_line: int) -> None:
    """Refuse a first line of data: numbers, and what other lines have for a label."""
    n_numbers = sum(numbers_in([name]) is not None for name in names)
    if 2 * n_numbers > len(names) and table.labels is not None and table.target in table.labels:
        raise TableError(
            f"{table.path}: line {header_line} has {n_numbers} numbers and {shown(table.target)}, "
            "a label of other lines too, where the names of the columns should be; pass "
            "--no-header if there are none"
        )


def _collect(
    records: Iterator[tuple[int, list[str]]],
    names: list[str],
    roles: Roles,
    path: str,
    *,
    named: bool = True,
) -> Table:
    """Read all records into the columns that have a role."""
    kinds = dict.fromkeys(roles.numeric, "number") | dict.fromkeys(roles.categorical, "category")
    wanted = {name: _TextColumn(name, kinds.get(name), path, named) for name in roles.features}
    if roles.target is not None:
        wanted[roles.target] = _TextColumn(roles.target, "label", path)
    place = {name: position for position, name in enumerate(names)}
    positions = [(place[name], column) for name, column in wanted.items()]
    lines = array("q")
    for rows, starts in _chunks(records, len(names), path):
        lines.extend(starts)
        cells = list(zip(*rows, strict=True))
        for position, column in positions:
            column.add(cells[position], starts)
    values = {name: column.finish(lines) for name, column in wanted.items()}
    labels = None if roles.target is None else values.pop(roles.target)
    return named_table(path, values, roles, labels, lines)


def _chunks(
    records: Iterator[tuple[int, list[str]]], width: int, path: str
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Records of the right number of cells, many at a time, and their lines."""
    rows: list[list[str]] = []
    starts: list[int] = []
    for line, row in records:
        if len(row) != width:
            raise TableError(
                f"{path}: line {line} has {len(row)} value{'s' * (len(row) != 1)}, but there are "
                f"{width} columns"
            )
        rows.append(row)
        starts.append(line)
        if len(rows) == _ROWS_AT_A_TIME:
            yield rows, starts
            rows, starts = [], []
    if rows:
        yield rows, starts


def _csv_records(text: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV text that are not blank, with the line on which each starts."""
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first_line.count)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = "unexpected end of data" in str(error)
            reason = 'a " opens a cell and is never closed' if unclosed else error
            raise TableError(f"{path}: line {line}: {reason}") from None
        if len(row) > 1 or (row and row[0].strip()):
            yield line, row


def _decoded(content: bytes, path: str) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(f"{path}: is UTF-16 text; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"{path}: line {line} is not UTF-8 text; convert the file, or pass --format if it is "
            "no text"
        ) from None
