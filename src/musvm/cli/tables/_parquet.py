"""Parquet, whose columns know their types."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from musvm.cli.tables._csv import numbers_in
from musvm.cli.tables._table import (
    MISSING,
    NO_LABEL,
    Layout,
    Roles,
    Table,
    TableError,
    as_text,
    categories,
    first_line,
    import_pandas,
    named_table,
    roles_of,
    shown,
)


def read_parquet(content: bytes, path: str, layout: Layout) -> Table:
    pd = import_pandas()
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise TableError(
            f"{path}: Parquet files need the package pyarrow: pip install 'musvm[parquet]'"
        ) from None
    try:
        frame = pd.read_parquet(io.BytesIO(content), engine="pyarrow")
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: is no complete Parquet file ({first_line(error)})") from None
    frame.columns = [str(name) for name in frame.columns]
    roles = roles_of(list(frame.columns), layout, path)
    values = {
        name: _typed_column(frame[name], _kind(name, roles), f"{path}: column {shown(name)}")
        for name in roles.features
    }
    labels = None
    if roles.target is not None:
        place = f"{path}: column {shown(roles.target)}"
        labels = _typed_column(frame[roles.target], "label", place)
    return named_table(path, values, roles, labels, None)


def _kind(name: str, roles: Roles) -> str | None:
    if name in roles.categorical:
        return "category"
    return "number" if name in roles.numeric else None


def _typed_column(series: Any, kind: str | None, place: str) -> Any:
    """A column whose type the file knows, as floats or as objects."""
    types = import_pandas().api.types
    is_number = types.is_numeric_dtype(series.dtype) and not types.is_bool_dtype(series.dtype)
    if is_number and kind in ("number", None) and not types.is_complex_dtype(series.dtype):
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0]) + 1
            raise TableError(f"{place}: row {row}: the number is infinite")
        return numbers
    cells = [
        None if missing else value for value, missing in zip(series, series.isna(), strict=True)
    ]
    if not all(isinstance(cell, (str, bool, int, float, np.generic, type(None))) for cell in cells):
        raise TableError(
            f"{place}: holds values of type {series.dtype}; turn them into numbers or text, or "
            "pass --ignore"
        )
    if kind == "number":
        numbers = numbers_in(["" if cell is None else str(cell) for cell in cells])
        if numbers is None:
            raise TableError(f"{place}: holds {series.dtype}, where the model expects numbers")
        return numbers
    texts = ["" if cell is None else as_text(cell) for cell in cells]
    return categories(texts, NO_LABEL if kind == "label" else MISSING)
