"""Reading a table from a file, by its format; one that gzip has compressed is opened first."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
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
# How compressed files begin, whatever they are called.
GZIP_START, GZIP_SUFFIX = b"\x1f\x8b", ".gz"
# What a compressed file may open to: so many times its size, as text with few digits does, or so
# many bytes.
LARGEST_EXPANSION, ALWAYS_OPENED = 200, 1 << 28


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
        if content.startswith(GZIP_START):
            content = _opened(content, path)
        reader = import_module(f"musvm.cli.tables._{format}")
        table: Table = getattr(reader, f"read_{format}")(content, path, layout)
    except MemoryError:
        raise TableError(f"{path}: does not fit into memory") from None
    if not len(table):
        raise TableError(f"{path}: has no rows")
    return table


def _opened(content: bytes, path: str) -> bytes:
    """What gzip has compressed, unless that is far more than any table."""
    most = max(LARGEST_EXPANSION * len(content), ALWAYS_OPENED)
    try:
        with gzip.open(io.BytesIO(content)) as file:
            opened = file.read(most + 1)
    except (OSError, EOFError, zlib.error):
        raise TableError(f"{path}: is no complete gzip file") from None
    if len(opened) > most:
        raise TableError(
            f"{path}: opens to more than {LARGEST_EXPANSION} times its size; if that is right, "
            "decompress it first: gzip -d"
        )
    if not opened:
        raise TableError(f"{path}: is empty")
    return opened


def format_of(path: str) -> str:
    """The format that the name of a file stands for; compressed files have a second suffix."""
    name = Path(path)
    suffix = (name.with_suffix("") if name.suffix.lower() == GZIP_SUFFIX else name).suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(sorted(SUFFIXES))
        raise TableError(
            f"{path}: no table format ends in {suffix or 'nothing'!r} (known: {known}, each also "
            f"with {GZIP_SUFFIX}); pass --format {'|'.join(FORMATS)}"
        )
    return SUFFIXES[suffix]
