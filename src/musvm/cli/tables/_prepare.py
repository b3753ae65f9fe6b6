"""From a table to features: labels, columns that cannot be meant, and the steps of a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from musvm.cli.tables._table import Columns, Table, TableError, shown


def classes_of(labels: NDArray[np.str_]) -> Any:
    """Labels as integers if all of them are written as such, else as they are."""
    distinct, codes = np.unique(labels, return_inverse=True)
    try:
        numbers = np.array([int(label) for label in distinct.tolist()], dtype=np.int64)
    except (ValueError, OverflowError):
        return labels
    return numbers[codes] if list(map(str, numbers)) == distinct.tolist() else labels


def require_usable(table: Table) -> None:
    """Refuse columns that cannot be meant as features, of a table to train on."""
    if table.columns.names is None:
        return
    for name in table.columns.names:
        n_values = int(table.X[name].notna().sum())
        place = f"{table.path}: column {shown(name)}"
        if n_values == 0:
            raise TableError(f"{place} has no values; pass --ignore {shown(name)}")
        n_distinct = table.X[name].nunique() if name in table.columns.categorical else 0
        if n_distinct > max(20, n_values / 2):
            raise TableError(
                f"{place} has {n_distinct} categories in {n_values} values, like an identifier; "
                f"pass --ignore {shown(name)}"
            )


def preparation(columns: Columns, *, scale: bool = True) -> list[tuple[str, Any]]:
    """The steps of a pipeline that turn a table's columns into features, not fitted yet."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

    if columns.sparse:
        # Zeros stay zeros.
        return [("scale", MaxAbsScaler())] if scale else []
    numbers: list[tuple[str, Any]] = [
        ("impute", SimpleImputer(strategy="median", keep_empty_features=True)),
        *([("scale", StandardScaler())] if scale else []),
    ]
    if not columns.categorical:
        return numbers
    categories = [
        ("impute", SimpleImputer(strategy="most_frequent", keep_empty_features=True)),
        ("encode", OneHotEncoder(handle_unknown="ignore", sparse_output=False)),
    ]
    assert columns.names is not None
    numeric = [name for name in columns.names if name not in columns.categorical]
    parts = [
        *([("numbers", Pipeline(numbers), numeric)] if numeric else []),
        ("categories", Pipeline(categories), [*columns.categorical]),
    ]
    return [("columns", ColumnTransformer(parts, sparse_threshold=0.0))]
