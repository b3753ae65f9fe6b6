"""NPZ: the arrays `X`, `y` if there are labels, and `feature_names` if columns have names."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm.cli.tables._table import (
    NO_LABEL,
    Columns,
    Layout,
    Table,
    TableError,
    as_text,
    categories,
    checked_labels,
    first_line,
    listed,
    named_table,
    roles_of,
    shown,
)
from musvm.io.archive import array_size

# What an archive may open to: so many times its size, or so many bytes.
_LARGEST_EXPANSION, _ALWAYS_OPENED = 20, 1 << 28


def read_npz(content: bytes, path: str, layout: Layout) -> Table:
    arrays = _npz_arrays(content, path)
    target = layout.target or "y"
    X = _feature_array(arrays, path, target)
    labels = arrays.get(target)
    if labels is None and layout.labelled:
        raise TableError(
            f"{path}: has no array {shown(target)} with the labels; it has {listed([*arrays])}"
        )
    if labels is not None:
        if labels.shape != (len(X),) or labels.dtype.kind not in "biufU":
            raise TableError(f"{path}: {shown(target)} must hold one label for each row of X")
        labels = categories(map(as_text, labels), NO_LABEL)
    names = arrays.get("feature_names")
    if names is not None:
        if names.shape != (X.shape[1],):
            raise TableError(f"{path}: feature_names must hold one name for each column of X")
        return _named_array(path, X, [as_text(name) for name in names], labels, layout, target)
    expected = layout.columns
    if layout.categorical or layout.ignored or (expected and expected.names is not None):
        raise TableError(
            f"{path}: its columns have no names to match; save them too: "
            "np.savez(path, X=X, y=y, feature_names=names)"
        )
    if expected and expected.n != X.shape[1]:
        raise TableError(
            f"{path}: X has {X.shape[1]} columns, but the model has {expected.n} features"
        )
    values = sp.csr_array(X) if expected and expected.sparse else X
    table = Table(path, values, expected or Columns(X.shape[1]), target=target)
    return table if labels is None else replace(table, labels=checked_labels(labels, table))


def _named_array(
    path: str, X: Any, names: list[str], labels: Any, layout: Layout, target: str
) -> Table:
    roles = roles_of(names, replace(layout, labelled=False, target=None), path)
    if layout.categorical or roles.categorical:
        raise TableError(f"{path}: NPZ files hold numbers; use CSV or Parquet for categories")
    place = {name: column for column, name in enumerate(names)}
    values = {name: X[:, place[name]] for name in roles.features}
    return named_table(path, values, replace(roles, target=target), labels, None)


def _npz_arrays(content: bytes, path: str) -> dict[str, Any]:
    """The arrays of the archive, none of which may be larger than it says or hold objects."""
    if content[:6] == b"\x93NUMPY":
        raise TableError(
            f"{path}: is a single array; save it with a name: np.savez(path, X=X, y=y)"
        )
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _require_honest_size(archive, len(content), path)
            for info in archive.infolist():
                with archive.open(info) as file:
                    size = array_size(file)
                if size != info.file_size:
                    raise TableError(f"{path}: {shown(info.filename)} is no array we read")
                with archive.open(info) as file:
                    array_ = np.lib.format.read_array(file, allow_pickle=False)
                arrays[info.filename.removesuffix(".npy")] = array_
    except TableError:
        raise
    except (
        *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError),
        *(RuntimeError, OverflowError),
    ) as error:
        raise TableError(f"{path}: is no complete NPZ file ({first_line(error)})") from None
    return arrays


def _require_honest_size(archive: zipfile.ZipFile, size: int, path: str) -> None:
    """Refuse an archive that opens to far more than it is."""
    opened = sum(info.file_size for info in archive.infolist())
    if opened > max(_LARGEST_EXPANSION * size, _ALWAYS_OPENED):
        raise TableError(
            f"{path}: opens to {opened / 1e9:.1f} GB, more than {_LARGEST_EXPANSION} times its "
            "size; if that is right, save it without compression: np.savez"
        )


def _feature_array(arrays: dict[str, Any], path: str, target: str) -> Any:
    matrices = [name for name, value in arrays.items() if value.ndim == 2 and name != target]
    name = "X" if "X" in arrays or len(matrices) != 1 else matrices[0]
    if name not in arrays:
        raise TableError(f"{path}: has no array 'X' with the features; it has {listed([*arrays])}")
    X = arrays[name]
    if X.ndim != 2 or X.dtype.kind not in "biuf" or not X.shape[1]:
        raise TableError(f"{path}: the array {shown(name)} must be a matrix of numbers")
    X = np.ascontiguousarray(X, dtype=np.float64)
    if np.isinf(X).any():
        row, column = np.argwhere(np.isinf(X))[0]
        raise TableError(f"{path}: the array {shown(name)} is infinite at [{row}, {column}]")
    return X
