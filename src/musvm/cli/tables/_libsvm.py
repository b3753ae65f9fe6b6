"""LIBSVM text: a label, then `feature:value` for the values that are not zero."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any, NoReturn

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
)

# Counts of features beyond this, and beyond the bytes of the file, are slips: a vector of their
# weights for every class would not fit anywhere.
_MOST_FEATURES = 1 << 20


def read_libsvm(content: bytes, path: str, layout: Layout) -> Table:
    expected = layout.columns
    if layout.target is not None and layout.columns is None:
        raise TableError(f"{path}: LIBSVM files have no columns; the label is the first value")
    if expected is not None and expected.names is not None:
        raise TableError(
            f"{path}: its features have no names, and the model expects {listed(expected.names)}"
        )
    n_features = None if expected is None else expected.n
    try:
        X, y = _svmlight(content, layout.zero_based, n_features)
        n_features = X.shape[1]
    except (ValueError, OverflowError, MemoryError) as error:
        _report_bad_line(content, path, layout, n_features, error)
    lines = [
        number
        for number, line in enumerate(content.split(b"\n"), start=1)
        if line.partition(b"#")[0].strip()
    ]
    X = sp.csr_array(X)
    if not np.isfinite(X.data).all():
        row = int(np.searchsorted(X.indptr, np.flatnonzero(~np.isfinite(X.data))[0], "right")) - 1
        raise TableError(f"{path}: line {lines[row]} has a value that is not finite")
    columns = Columns(X.shape[1], sparse=True)
    values = X.toarray() if expected is not None and not expected.sparse else X
    labels = categories(map(as_text, y), NO_LABEL)
    table = Table(path, values, columns if expected is None else expected, lines=lines)
    return replace(table, labels=checked_labels(labels, table))


def _svmlight(content: bytes, zero_based: bool, n_features: int | None) -> Any:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(
        io.BytesIO(content), zero_based=zero_based, n_features=n_features, dtype=np.float64
    )
    if X.shape[1] > max(_MOST_FEATURES, len(content)):
        raise ValueError(f"feature {X.shape[1]} is out of range")
    return X, y


def _report_bad_line(
    content: bytes, path: str, layout: Layout, n_features: int | None, error: Exception
) -> NoReturn:
    """scikit-learn does not say which line it could not read, so read them one by one."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            _svmlight(line, layout.zero_based, n_features)
        except (ValueError, OverflowError, MemoryError) as reason:
            hint = "; pass --zero-based if features count from 0" if b" 0:" in line else ""
            raise TableError(f"{path}: line {number}: {first_line(reason)}{hint}") from None
    raise TableError(f"{path}: is no LIBSVM text ({first_line(error)})") from None
