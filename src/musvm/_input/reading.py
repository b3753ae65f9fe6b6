"""Reading what `fit` is given: X, y, universum and weights in any accepted form, as `FitData`.

The first of three steps from what a user passes to what the dual problem needs. The others are the
caps of all rows (`weights.py`) and the blocks that equal rows are merged into (`blocks.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, validate_data

from musvm._input.digests import row_digests
from musvm._input.folds import warn_of_data
from musvm._input.streams import (
    Repeated,
    Stored,
    StreamedRows,
    starts_anew,
    stays_where_it_is,
)
from musvm._input.tensors import BoolArray, FloatArray, IntArray, is_dataset, row_sums
from musvm._lazy import lazy
from musvm._messages import warn_user
from musvm._sklearn import check_sample_weight, get_feature_names

# Types that become doubles where they are used; all others become doubles first.
NUMBERS = [np.float64, *map(np.dtype, ("f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "?"))]

# Attributes of which arrays, tables and lists have one at least.
OF_ARRAYS = ("__getitem__", "shape", "__array__", "__dataframe__")

UNIVERSUM = -1
"""The code of a universum row in `FitData.codes`; classes are 0..L-1."""


@dataclass(frozen=True)
class FitData:
    """All rows of a fit: those of X in their order, then those of `universum=`, if any.

    Attributes
    ----------
    X : (M, d) doubles, dense, CSR in canonical format, a tensor or `StreamedRows`; (M, M) for a
        precomputed kernel
    codes : (M,) index into `classes`, or UNIVERSUM
    classes : (L,) sorted labels
    weight : (M,) nonnegative sample weights
    n_given : rows of the X that was passed; the rest come from `universum=`
    resolution : relative rounding error of the entries of the kernel matrix
    """

    X: Any
    codes: IntArray
    classes: Any
    weight: FloatArray
    n_given: int
    resolution: float

    @property
    def is_training(self) -> BoolArray:
        return self.codes != UNIVERSUM

    @property
    def of_X(self) -> FitData:
        """The rows of X without those of `universum=`."""
        n = self.n_given
        if n == len(self.codes):
            return self
        parts = {"X": self.X[:n], "codes": self.codes[:n], "weight": self.weight[:n]}
        return replace(self, **parts)

    @lazy
    def digests(self) -> Any:
        """(M, 2) integers, equal for equal rows and, for all purposes, for no others."""
        return self.X.digests if isinstance(self.X, StreamedRows) else row_digests(self.X)

    @property
    def row_sums(self) -> FloatArray:
        """(M,) sums of the entries of every row."""
        return self.X.sums if isinstance(self.X, StreamedRows) else row_sums(self.X)

    @property
    def fingerprint(self) -> str:
        """Tells whether two fits saw the same rows and labels, in the same order."""
        h = blake2b(self.digests.tobytes(), digest_size=16)
        h.update(self.codes.astype(np.int64).tobytes())
        # Names may come from files whose bytes are no text.
        h.update("\0".join(map(str, self.classes)).encode(errors="surrogatepass"))
        return h.hexdigest()


def read(
    estimator: Any,
    X: Any,
    y: Any,
    universum: Any,
    sample_weight: Any,
    universum_sample_weight: Any = None,
    *,
    reset: bool = True,
    may_stream: bool = False,
) -> FitData:
    """Validate everything that `fit` is given; sets `n_features_in_` and names if `reset`.

    With `may_stream` a large universum stays where it is, and may be given in pieces.
    """
    precomputed = estimator.kernel == "precomputed"
    _require_rows(X)
    _require_labels(y)
    _require_numbers(X, "X")
    columns = _columns(X)
    X, y = validate_data(
        estimator,
        X,
        y,
        reset=reset,
        accept_sparse=False if precomputed else "csr",
        dtype=[np.float64, np.float32],
        order="C",
    )
    if precomputed and X.shape[0] != X.shape[1]:
        raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")

    def read_part(part: Any) -> Any:
        _require_same_order(columns, _columns(part))
        if reset and columns is None:
            _warn_of_names(part)
        return read_universum(part, estimator)

    weights = sample_weight, universum_sample_weight
    start = starts_anew(universum) if may_stream else None
    if start is not None:
        in_pieces = [Repeated(start, read_part)]
        return collect(estimator, X, y, in_pieces, weights, lambda part: part, _stream)
    parts = universum_parts(universum)
    if may_stream and not precomputed and stays_where_it_is(X, parts):

        def as_it_is(part: Any) -> Stored:
            require_same_width(require_two_dimensions(part), estimator)
            return Stored(part)

        return collect(estimator, X, y, parts, weights, as_it_is, _stream)
    return collect(estimator, X, y, parts, weights, read_part, _stack)


def points_for(estimator: Any, X: Any) -> Any:
    """The points that a fitted estimator is asked about, once found to be like those of its fit.

    Dense ones as they are, of any type of numbers: a memory map is not copied.
    """
    precomputed = estimator.kernel == "precomputed"
    _require_rows(X)
    return validate_data(
        estimator,
        X,
        reset=False,
        accept_sparse=False if precomputed else "csr",
        dtype=np.float64 if precomputed or sp.issparse(X) else NUMBERS,
    )


def _require_rows(X: Any) -> None:
    """Refuse what hands out its rows one after the other, a DataLoader for one."""
    if is_dataset(X) and hasattr(X, "__getitem__"):
        raise TypeError(
            "X must be an array or a tensor with a row for every point, got a "
            f"{type(X).__name__}: pass its points as X, such as dataset.tensors[0] or "
            "torch.stack([point for point, label in dataset]), and its labels as y."
        )
    if hasattr(X, "__iter__") and not any(hasattr(X, name) for name in OF_ARRAYS):
        raise TypeError(
            "X must be an array or a tensor with a row for every point, got a "
            f"{type(X).__name__}: put its pieces together, by np.concatenate or torch.cat, and "
            "pass all points as X."
        )


def _require_labels(y: Any) -> None:
    """Refuse labels of which some are missing, as tables have them."""
    dtype = getattr(y, "dtype", None)
    are_numbers = isinstance(dtype, np.dtype) and dtype.kind in "biufc"
    if are_numbers or not (isinstance(y, (list, tuple)) or getattr(y, "ndim", 0) == 1):
        return
    labels = list(y)
    missing = [row for row, label in enumerate(labels) if label is None or _is_nan(label)]
    if missing:
        raise ValueError(
            f"Input y contains NaN: {len(missing)} of {len(labels)} labels are missing, the first "
            f"in row {missing[0]}; leave these rows out, or give them a label of their own and "
            "pass it as universum_label."
        )


def _is_nan(label: Any) -> bool:
    return isinstance(label, float) and label != label


def collect(
    estimator: Any,
    X: Any,
    y: Any,
    parts: list[Any],
    weights: tuple[Any, Any],
    read_part: Callable[[Any], Any],
    stack: Callable[[list[Any]], Any],
) -> FitData:
    """The data of a fit from a validated X and y, parts of the universum, and how to add them."""
    precomputed = estimator.kernel == "precomputed"
    weight = check_sample_weight(weights[0], y, dtype=np.float64, ensure_non_negative=True)
    _require_one_form(parts, y, estimator.universum_label, precomputed)
    classes, codes = encode_labels(y, estimator.universum_label)
    if not parts and estimator.universum_label is not None and (codes != UNIVERSUM).all():
        warn_user(f"{nothing_marked(classes, estimator.universum_label)}: this is a plain SVM.")
    rows = stack([X, *map(read_part, parts)])
    m = rows.shape[0] - X.shape[0]
    return FitData(
        X=rows,
        codes=np.concatenate([codes, np.full(m, UNIVERSUM, dtype=np.intp)]),
        classes=classes,
        weight=np.concatenate([weight, _universum_weights(weights[1], m)]),
        n_given=X.shape[0],
        # Features are exact as they stand; the entries of a kernel matrix carry their rounding.
        resolution=float(np.finfo(X.dtype if precomputed else np.float64).eps),
    )


def _universum_weights(given: Any, m: int) -> FloatArray:
    """(m,) weights of the rows of `universum=`, given as one array or one for every part."""
    if given is None:
        return np.ones(m)
    parts = given if isinstance(given, tuple) and all(map(np.ndim, given)) else [given]
    weight = np.concatenate([np.ravel(part) for part in parts]) if len(parts) else np.empty(0)
    if len(weight) != m:
        raise ValueError(
            f"universum_sample_weight has {len(weight)} entries, but universum has {m} rows; rows "
            "that universum_label marks in y are weighted by sample_weight."
        )
    return check_array(
        weight,
        ensure_2d=False,
        ensure_min_samples=0,
        dtype=np.float64,
        input_name="universum_sample_weight",
        ensure_non_negative=True,
    )


def universum_parts(universum: Any) -> list[Any]:
    """The arrays that `universum=` consists of, those without rows left out."""
    if universum is None:
        return []
    several = False
    if isinstance(universum, (tuple, list)):
        dimensions = [n_dimensions(part) for part in universum]
        several = all(number == 2 for number in dimensions)
        if not several and 2 in dimensions:
            odd = next(k for k, number in enumerate(dimensions) if number != 2)
            raise ValueError(
                f"Part {odd} of universum has {dimensions[odd]} dimension(s), and part "
                f"{dimensions.index(2)} has 2: all parts hold points, and a universum has no "
                "labels."
            )
    parts = list(universum) if several else [universum]
    return [part for part in parts if n_rows(part) > 0]


def n_dimensions(part: Any) -> int:
    """Those of an array, or of nested lists whose rows are of one length."""
    try:
        return int(np.ndim(part))
    except ValueError as error:
        raise ValueError("universum has rows of different lengths.") from error


def parts_as_given(universum: Any) -> list[Any]:
    """The parts of a universum as the first step of a pipeline takes them: arrays, or texts."""
    if isinstance(universum, tuple) and universum and all(map(_are_texts, universum)):
        return list(universum)
    return universum_parts(universum)


def _are_texts(part: Any) -> bool:
    return np.ndim(part) == 1 and all(isinstance(text, str) for text in part)


def n_rows(part: Any) -> int:
    if starts_anew(part) is not None:
        raise ValueError(
            "universum is given in pieces, which only UniversumSVC.fit takes: put them together, "
            "by np.concatenate or torch.cat, and pass all points as one array."
        )
    if n_dimensions(part) == 0:
        raise ValueError(
            "universum must be an array of shape (m, n_features), got a "
            f"{'scalar' if np.isscalar(part) else type(part).__name__}."
        )
    return int(part.shape[0]) if hasattr(part, "shape") else len(part)


def _columns(table: Any) -> list[Any] | None:
    """The names of the columns of a table, whatever they are; None of what is no table."""
    columns = getattr(table, "columns", None)
    return None if columns is None else list(columns)


def _require_same_order(expected: list[Any] | None, found: list[Any] | None) -> None:
    """Refuse columns in another order than those of X, by names of any type, numbers too.

    Names that are strings are compared in every respect by `read_universum`.
    """
    if expected is None or found is None or expected == found or len(expected) != len(found):
        return
    if len(set(expected)) == len(expected) and set(expected) == set(found):
        at = next(k for k, name in enumerate(expected) if name != found[k])
        raise ValueError(other_columns(at, expected[at], found[at]))


def other_columns(at: int, expected: Any, found: Any) -> str:
    """What is wrong with the names of the columns of a universum."""
    return (
        "The columns of universum must have the names of the columns of X, in the same "
        f"order: column {at} is {expected!r} in X, but {found!r} in universum."
    )


def _require_numbers(table: Any, what: str) -> None:
    """Refuse columns of times: NumPy has no type for them and for numbers."""
    kinds = getattr(table, "dtypes", None)
    columns = _columns(table)
    if kinds is None or columns is None:
        return
    for name, kind in zip(columns, kinds, strict=False):
        if getattr(kind, "kind", "?") in "mM":
            raise ValueError(
                f"Column {name!r} of {what} holds times ({kind}), and numbers are needed: leave it "
                "out of X and of universum, or make numbers of it in both."
            )


def read_universum(part: Any, estimator: Any) -> Any:
    """One array of universum points, validated against the columns of X."""
    names = get_feature_names(require_two_dimensions(part))
    expected = getattr(estimator, "feature_names_in_", None)
    _require_numbers(part, "universum")
    U = check_array(
        part,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        input_name="universum",
        estimator=estimator,
    )
    require_same_width(U, estimator)
    if names is not None and expected is not None and not np.array_equal(names, expected):
        at = int(np.flatnonzero(names != expected)[0])
        raise ValueError(other_columns(at, expected[at], names[at]))
    return U


def _warn_of_names(part: Any) -> None:
    """A table for a universum beside an array as X: nothing tells whether the orders agree."""
    if get_feature_names(part) is not None:
        warn_of_data(
            "universum has names of columns and X has none, so that nothing tells whether they are "
            "in the same order: pass X as a table as well, or the universum as an array.",
            "names",
        )


def require_two_dimensions(part: Any) -> Any:
    if n_dimensions(part) != 2:
        raise ValueError(
            "universum must be an array of shape (m, n_features) or a tuple of such arrays, "
            f"got {n_dimensions(part)} dimension(s)."
        )
    return part


def require_same_width(U: Any, estimator: Any) -> None:
    """Refuse universum points with other columns than X."""
    if U.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"universum has {U.shape[1]} features, but X has {estimator.n_features_in_}."
        )


def _stream(parts: list[Any]) -> StreamedRows:
    """Rows on top of each other, those of the universum where they are; sparse if X is."""
    X, *universum = parts
    return StreamedRows.read([Stored(X), *universum], sparse=sp.issparse(X))


def _stack(parts: list[Any]) -> Any:
    """Rows on top of each other, as doubles; sparse if the first part, X, is."""
    if sp.issparse(parts[0]):
        # A copy in any case: what follows changes it.
        sparse = [sp.csr_array(part, dtype=np.float64, copy=True) for part in parts]
        X = sparse[0] if len(sparse) == 1 else sp.vstack(sparse, format="csr")
        X.sum_duplicates()
        X.eliminate_zeros()
        return X
    dense = [part.toarray() if sp.issparse(part) else part for part in parts]
    if len(dense) == 1:
        return dense[0].astype(np.float64, copy=False)
    return np.concatenate(dense, dtype=np.float64)


def in_canonical_form(X: Any) -> Any:
    """A CSR matrix with each entry stored once, as a fit sees it; the caller's stays as it is."""
    if X.has_canonical_format:
        return X
    canonical = X.copy()
    canonical.sum_duplicates()
    return canonical


def is_universum(y: Any, universum_label: Any) -> Any:
    """Which entries of y are the universum label; none if there is no such label."""
    if universum_label is None:
        return np.zeros(len(y), dtype=bool)
    return np.array([bool(label == universum_label) for label in y.tolist()])


def encode_labels(y: Any, universum_label: Any) -> tuple[Any, IntArray]:
    """The sorted classes, and y as indices into them, UNIVERSUM for universum rows."""
    marked = is_universum(y, universum_label)
    if marked.all():
        raise ValueError("y holds only the universum label, so there is no class to learn.")
    labels = _of_one_type(y[~marked])
    check_classification_targets(labels)
    classes, inverse = np.unique(labels, return_inverse=True)
    if universum_label is not None and not marked.any():
        _refuse_lookalikes(classes, universum_label)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class."
        )
    codes = np.full(len(y), UNIVERSUM, dtype=np.intp)
    codes[~marked] = inverse
    return classes, codes


def nothing_marked(classes: Any, universum_label: Any) -> str:
    """That the universum label was not found, and what was."""
    found = ", ".join(map(repr, np.asarray(classes[:5]).tolist()))
    more = ", ..." if len(classes) > 5 else ""
    return f"No row of y has universum_label={universum_label!r}, only {found}{more}"


def _of_one_type(labels: Any) -> Any:
    """Labels in an array of objects as what they are, if they are numbers or booleans."""
    if labels.dtype != object:
        return labels
    are_strings = [isinstance(label, str) for label in labels]
    if any(are_strings) and not all(are_strings):
        raise ValueError("y mixes strings with labels of other types: use one type for all.")
    native = labels if any(are_strings) else np.array(labels.tolist())
    return native if native.ndim == 1 else labels


def _refuse_lookalikes(classes: Any, universum_label: Any) -> None:
    """-1 among strings becomes '-1', silently, and would be taken for a class."""
    for label in classes.tolist():
        if str(label) == str(universum_label):
            raise ValueError(
                f"universum_label={universum_label!r} matches no label, but y has {label!r}: "
                f"set universum_label={label!r}."
            )


def _require_one_form(parts: list[Any], y: Any, universum_label: Any, precomputed: bool) -> None:
    if not parts:
        return
    if precomputed:
        raise ValueError(
            "With kernel='precomputed' the universum cannot be passed as universum=: pass as X "
            "the (n + m) x (n + m) kernel matrix of training and universum points together, and "
            "mark the universum rows in y with universum_label."
        )
    if is_universum(y, universum_label).any():
        raise ValueError(
            f"y has rows labelled universum_label={universum_label!r} and universum= is given "
            "as well: pass the universum in one of the two forms."
        )
