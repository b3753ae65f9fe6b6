"""What a table is, what it is expected to be, and which of its columns plays which part."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset(
    ["", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>"]
)
# A class may well be called "None" or "NA".
NO_LABEL = frozenset([""])


class TableError(ValueError):
    """A file could not be used as a table; the message says where and what to do."""


@dataclass(frozen=True)
class Columns:
    """What the features of a table are.

    Attributes
    ----------
    n : their number
    names : their names in order; None if the format has none
    categorical : the names of those that are categories; the others are numbers
    sparse : whether most entries are zero and not stored
    """

    n: int
    names: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()
    sparse: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Columns:
        """What `as_dict` has written, maybe by way of JSON.

        Raises KeyError, TypeError or ValueError for what it cannot have written: the dictionary
        comes from a file that others have made.
        """
        n, names, sparse = stored["n"], stored["names"], stored["sparse"]
        categorical = _distinct_texts(stored["categorical"])
        if type(n) is not int or type(sparse) is not bool:
            raise TypeError("a number of columns and whether they are sparse were expected")
        if names is not None and len(names := _distinct_texts(names)) != n:
            raise ValueError("the number of names is not that of columns")
        if n < 1 or not set(categorical) <= set(names or ()):
            raise ValueError("there are no columns, or categorical ones without a name")
        return cls(n, names, categorical, sparse)


def _distinct_texts(stored: Any) -> tuple[str, ...]:
    if not isinstance(stored, (list, tuple)) or not all(isinstance(name, str) for name in stored):
        raise TypeError("a list of names was expected")
    if len(set(stored)) < len(stored):
        raise ValueError("a name is there twice")
    return tuple(stored)


@dataclass(frozen=True)
class Table:
    """What was read from a file.

    Attributes
    ----------
    path : the file, as errors call it
    X : features: a DataFrame where columns have names, else an array or a CSR array
    columns : what the features are
    labels : (n,) labels as text, or None
    target : the column they come from, or None
    lines : (n,) line of the file on which each row starts, for text formats
    notes : what the reader thought the user should know
    """

    path: str
    X: Any
    columns: Columns
    labels: NDArray[np.str_] | None = None
    target: str | None = None
    lines: Sequence[int] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def missing(self) -> NDArray[np.intp]:
        """(d,) how many cells of each column are missing; of sparse tables none is."""
        if self.columns.sparse:
            return np.zeros(self.columns.n, dtype=np.intp)
        if self.columns.names is None:
            return np.isnan(self.X).sum(axis=0)
        return self.X.isna().to_numpy().sum(axis=0)

    def take(self, rows: NDArray[np.intp]) -> Table:
        """The table of some of its rows."""
        return replace(
            self,
            X=self.X.iloc[rows] if self.columns.names is not None else self.X[rows],
            labels=None if self.labels is None else self.labels[rows],
            lines=None if self.lines is None else [self.lines[row] for row in rows],
        )


@dataclass(frozen=True)
class Layout:
    """What a file is expected to look like.

    Attributes
    ----------
    labelled : whether there must be labels
    target : the column of the labels; by default the last one, in a table that must have labels
    columns : the features there must be, of an earlier table; None lets the file decide
    categorical : columns that are categories even if they look like numbers
    ignored : columns to leave out
    header : whether the first line of a CSV file has the names of the columns
    reorder : whether the columns may come in another order than in `columns`
    zero_based : whether LIBSVM files count features from 0
    """

    labelled: bool = False
    target: str | None = None
    columns: Columns | None = None
    categorical: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    header: bool = True
    reorder: bool = False
    zero_based: bool = False


# ---------------------------------------------------------------------------------------------
# Which column is what


@dataclass(frozen=True)
class Roles:
    """The columns of a file by what is to be done with them."""

    features: tuple[str, ...]
    target: str | None
    numeric: frozenset[str] = frozenset()
    categorical: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def roles_of(names: Sequence[str], layout: Layout, path: str) -> Roles:
    _check_names(names, path)
    if layout.columns is not None:
        return _known_roles(names, layout, layout.columns, path)
    for wanted in (layout.target, *layout.categorical, *layout.ignored):
        if wanted is not None and wanted not in names:
            raise TableError(
                f"{path}: there is no column {shown(wanted)}; {_instead_of(wanted, names)}"
            )
    left = [name for name in names if name not in layout.ignored]
    target, notes = layout.target, []
    if target is None and layout.labelled:
        if not left:
            raise TableError(f"{path}: all its columns are ignored")
        target = left[-1]
        notes.append(
            f"labels are those of the last column, {shown(target)}; --target chooses another"
        )
    if layout.header and (data := [name for name in names if is_decimal(name)]):
        notes.append(
            f"{path}: columns are called {listed(data, most=3)}; if that line is data, pass "
            "--no-header"
        )
    features = tuple(name for name in left if name != target)
    if not features:
        raise TableError(f"{path}: has no feature columns beside {shown(target)}")
    return Roles(features, target, categorical=frozenset(layout.categorical), notes=tuple(notes))


def is_decimal(name: str) -> bool:
    """Whether a name is a number with decimals, as measurements are and names are not.

    "nan" and "inf" are words like any other.
    """
    return _is_number(name) and not float(name).is_integer()


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def _instead_of(wanted: str, names: Sequence[str]) -> str:
    """What may have been meant by a name that is not there, else the names that are."""
    close = _closest(wanted, names)
    return f"did you mean {shown(close)}?" if close else f"it has {listed(names, last=True)}"


def _closest(wanted: str, names: Sequence[str]) -> str | None:
    alike = {name.casefold(): name for name in names}
    close = get_close_matches(wanted.casefold(), alike, n=1, cutoff=0.75)
    return alike[close[0]] if close else None


def _known_roles(names: Sequence[str], layout: Layout, columns: Columns, path: str) -> Roles:
    """The roles of columns that an earlier table has fixed."""
    if columns.names is None:
        return _unnamed_roles(names, layout, columns, path)
    here, expected = set(names), set(columns.names)
    if absent := [name for name in columns.names if name not in here]:
        unknown = [name for name in names if name not in expected and name != layout.target]
        close = _closest(absent[0], unknown)
        meant = f"{shown(close)}: did you mean that? Rename it"
        raise TableError(
            f"{path}: lacks the column{'s' * (len(absent) > 1)} {listed(absent)}; columns are "
            f"matched by name, and this file has {meant if close else listed(names, last=True)}"
        )
    found = [name for name in names if name in expected]
    if found != list(columns.names) and not layout.reorder:
        given, known = next(
            pair for pair in zip(found, columns.names, strict=True) if pair[0] != pair[1]
        )
        raise TableError(
            f"{path}: its columns are in another order than the model's: {shown(given)} stands "
            f"where {shown(known)} was; if the names are right, pass --reorder"
        )
    target = layout.target if layout.target in names else None
    if target is None and layout.labelled:
        raise TableError(f"{path}: there is no column {shown(layout.target)} with the labels")
    extra = [name for name in names if name not in expected and name != target]
    notes = [f"{path}: ignored {listed(extra)}, unknown to the model"] if extra else []
    return Roles(
        columns.names,
        target,
        numeric=frozenset(columns.names) - set(columns.categorical),
        categorical=frozenset(columns.categorical),
        notes=tuple(notes),
    )


def _unnamed_roles(names: Sequence[str], layout: Layout, columns: Columns, path: str) -> Roles:
    """The roles of named columns where the model knows only their number."""
    target = layout.target if layout.target in names else None
    features = tuple(name for name in names if name != target)
    if len(features) != columns.n:
        raise TableError(
            f"{path}: has {len(features)} feature columns, but the model has {columns.n} features"
        )
    return Roles(features, target, numeric=frozenset(features))


def _check_names(names: Sequence[str], path: str) -> None:
    for position, name in enumerate(names, start=1):
        if not name:
            raise TableError(
                f"{path}: column {position} has no name; if it is an index that pandas wrote, "
                "write the file with index=False"
            )
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        hint = "; if that line is data, pass --no-header" if _is_number(twice) else ""
        raise TableError(f"{path}: two columns are called {shown(twice)}{hint}")


def shown(text: str | None) -> str:
    """A name or a cell in a message: quoted, its control characters escaped, not too long."""
    text = str(text)
    return repr(text if len(text) <= 40 else text[:40] + "...")


def listed(names: Sequence[str], most: int = 6, *, last: bool = False) -> str:
    """Names, of many the first; the last too if that matters: it often has the labels."""
    if len(names) <= most:
        return ", ".join(map(shown, names))
    first = names[: most - 1] if last else names[:most]
    found = f"{', '.join(map(shown, first))} and {len(names) - len(first)} more"
    return f"{found}, the last {shown(names[-1])}" if last else found


# ---------------------------------------------------------------------------------------------
# Putting a table together


def named_table(
    path: str, values: dict[str, Any], roles: Roles, labels: Any, lines: Sequence[int] | None
) -> Table:
    pd = import_pandas()
    categorical = tuple(name for name in roles.features if values[name].dtype == object)
    if categorical:
        series = {name: pd.Series(values[name], dtype=values[name].dtype) for name in values}
        X = pd.DataFrame({name: series[name] for name in roles.features})
    else:
        X = pd.DataFrame(
            np.column_stack([values[name] for name in roles.features]), columns=[*roles.features]
        )
    table = Table(
        path=path,
        X=X,
        columns=Columns(len(roles.features), roles.features, categorical),
        target=roles.target,
        lines=lines,
        notes=roles.notes,
    )
    return table if labels is None else replace(table, labels=checked_labels(labels, table))


def checked_labels(labels: Any, table: Table) -> NDArray[np.str_]:
    """Labels as text, none of them missing."""
    absent = [row for row, label in enumerate(labels) if not isinstance(label, str)]
    if absent:
        raise TableError(
            f"{table.path}: {where(table, absent[0])} has no label in column "
            f"{shown(table.target)}; remove such rows, or give them a label of their own and pass "
            "it as --universum-label"
        )
    return np.array(labels, dtype=np.str_)


def where(table: Table, row: int) -> str:
    """How to find a row of a table in its file."""
    return f"row {row + 1}" if table.lines is None else f"line {table.lines[row]}"


def categories(cells: Iterable[str], missing: frozenset[str] = MISSING) -> Any:
    """An array of strings, NaN where one is missing."""
    return np.array([math.nan if cell in missing else cell for cell in cells], dtype=object)


def as_text(value: Any) -> str:
    """A label or category as text; whole numbers without a decimal point."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def import_pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError:
        raise TableError("Tables need the package pandas: pip install 'musvm[cli]'") from None
    return pandas
