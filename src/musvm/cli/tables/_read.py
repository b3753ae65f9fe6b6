"""Reading a table from a file, by its format."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from musvm.cli.tables._table import Layout, Table, TableError

FORMATS = ("csv", "parquet", "npz", "libsvm")
SUFFIXES = {
    **{".csv": "csv", ".tsv": "csv"},
    **{".parquet": "parquet", ".pq": "parquet", ".npz": "npz"},
    **{".libsvm": "libsvm", ".svm": "libsvm", ".svmlight": "libsvm", ".svl": "libsvm"},
}
STANDARD_INPUT = "-"


def read(source: str, layout: Layout, format: str | None = None) -> Table:
    """Read a table from a file, or from standard input if `source` is "-".

    Parameters
    ----------
    source : the file, or "-"
    layout : what it is expected to look like
    format : one of `FORMATS`; by default what the name of the file says, CSV for standard input

    Raises
    ------
    TableError
    """
    path = "standard input" if source == STANDARD_INPUT else source
    if format is None:
        format = "csv" if source == STANDARD_INPUT else format_of(source)
    try:
        content = sys.stdin.buffer.read() if source == STANDARD_INPUT else Path(source).read_bytes()
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not content:
        raise TableError(f"{path}: is empty")
    try:
        reader = import_module(f"musvm.cli.tables._{format}")
        table: Table = getattr(reader, f"read_{format}")(content, path, layout)
    except MemoryError:
        raise TableError(f"{path}: does not fit into memory") from None
    if not len(table):
        raise TableError(f"{path}: has no rows")
    return table


def format_of(path: str) -> str:
    """The format that the name of a file stands for."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(sorted(SUFFIXES))
        raise TableError(
            f"{path}: no table format ends in {suffix or 'nothing'!r} (known: {known}); "
            f"pass --format {'|'.join(FORMATS)}"
        )
    return SUFFIXES[suffix]
