"""Tables from files, and the preparation that turns their columns into features.

Reading. CSV, Parquet, NPZ and LIBSVM text become a `Table`: features, labels if there are any,
and where in the file each row stands. An error is a `TableError`, which names the file, the line
or column, and what to do.

Columns have names (CSV, Parquet) or only numbers (LIBSVM, NPZ without names). Named ones are
matched by name. A column of a text file is numeric if all its values are numbers and categorical
if none is. A mixture is refused, because it is more often a slip than a category, unless the
caller says which it is.

Preparing. Missing numbers become the median of their column and are then scaled; missing
categories become the most frequent one and are then one-hot encoded, a category that training
has not seen as zeros. All of it is fitted to training rows and applied to universum rows and to
new ones.
"""

from musvm.cli.tables._prepare import classes_of, preparation, require_usable
from musvm.cli.tables._read import FORMATS, STANDARD_INPUT, format_of, read
from musvm.cli.tables._table import (
    Columns,
    Layout,
    Table,
    TableError,
    as_text,
    is_decimal,
    listed,
    shown,
    where,
)

__all__ = [
    "FORMATS",
    "STANDARD_INPUT",
    "Columns",
    "Layout",
    "Table",
    "TableError",
    "as_text",
    "classes_of",
    "format_of",
    "is_decimal",
    "listed",
    "preparation",
    "read",
    "require_usable",
    "shown",
    "where",
]
