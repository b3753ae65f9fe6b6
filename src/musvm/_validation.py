"""From what a user passes to what the dual problem needs.

Three steps, each a function and what it returns:

    read        X, y, universum and weights in any accepted form   ->  `FitData`, all rows stacked
    caps        C, class and universum weights                     ->  one cap per row
    merge       equal rows of one class, or of the universum       ->  `Blocks`, one per block of
                                                                       the dual

Merging is exact. Rows with the same x and the same label enter the primal through the sum of
their caps; and any alpha of the merged row, shared out in proportion to the caps, is feasible
and has the same objective. So a row of weight 2 and the same row twice are literally the same
problem. Blocks are sorted by their contents, the sum of a row's entries first, which makes the
solution independent of the order of the rows, to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _get_feature_names,
    check_array,
    validate_data,
)

from musvm import _tensors as tensors
from musvm._digests import row_digests
from musvm.dual.problem import FloatArray, IntArray

UNIVERSUM = -1
"""The code of a universum row in `FitData.codes`; classes are 0..L-1."""


@dataclass(frozen=True)
class FitData:
    """All rows of a fit: those of X in their order, then those of `universum=`, if any.

    Attributes
    ----------
    X : (M, d) doubles, dense, CSR in canonical format or a tensor; (M, M) for a precomputed kernel
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
    def is_training(self) -> Any:
        return self.codes != UNIVERSUM

    @cached_property
    def digests(self) -> Any:
        """(M, 2) integers, equal for equal rows and, for all purposes, for no others."""
        return row_digests(self.X)

    @property
    def fingerprint(self) -> str:
        """Tells whether two fits saw the same rows and labels, in the same order."""
        h = blake2b(self.digests.tobytes(), digest_size=16)
        h.update(self.codes.astype(np.int64).tobytes())
        h.update("\0".join(map(str, self.classes)).encode())
        return h.hexdigest()


@dataclass(frozen=True)
class Blocks:
    """The rows of the dual problem: distinct rows of positive cap, training rows first.

    Attributes
    ----------
    rows : (B,) for every block one row of `FitData` that it stands for
    y : (B',) codes of the B' training blocks
    caps : (B,) the caps of the block's rows, added up
    block_of_row : (M,) the block of every row; meaningless where the share is 0
    share : (M,) the row's part of the cap of its block
    """

    rows: IntArray
    y: IntArray
    caps: FloatArray
    block_of_row: IntArray
    share: FloatArray

    def spread(self, alpha: FloatArray) -> FloatArray:
        """The (M, L) dual variables of all rows, from those of the blocks."""
        return alpha[self.block_of_row] * self.share[:, None]

    def total(self, values: FloatArray) -> FloatArray:
        """(B,) sums over the rows of every block."""
        return np.bincount(self.block_of_row, np.where(self.share > 0, values, 0.0)).astype(float)


# ---------------------------------------------------------------------------------------------
# Reading


def read(
    estimator: Any, X: Any, y: Any, universum: Any, sample_weight: Any, *, reset: bool = True
) -> FitData:
    """Validate everything that `fit` is given; sets `n_features_in_` and names if `reset`."""
    precomputed = estimator.kernel == "precomputed"
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
        return read_universum(part, estimator)

    return collect(estimator, X, y, universum, sample_weight, read_part, _stack)


def collect(
    estimator: Any,
    X: Any,
    y: Any,
    universum: Any,
    sample_weight: Any,
    read_part: Callable[[Any], Any],
    stack: Callable[[list[Any]], Any],
) -> FitData:
    """The data of a fit from a validated X and y, and functions for what the universum adds."""
    precomputed = estimator.kernel == "precomputed"
    weight = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
    parts = universum_parts(universum)
    _require_one_form(parts, y, estimator.universum_label, precomputed)
    classes, codes = encode_labels(y, estimator.universum_label)
    U = [read_part(part) for part in parts]
    m = sum(part.shape[0] for part in U)
    return FitData(
        X=stack([X, *U]),
        codes=np.concatenate([codes, np.full(m, UNIVERSUM, dtype=np.intp)]),
        classes=classes,
        weight=np.concatenate([weight, np.ones(m)]),
        n_given=X.shape[0],
        # Features are exact as they stand; the entries of a kernel matrix carry their rounding.
        resolution=float(np.finfo(X.dtype if precomputed else np.float64).eps),
    )


def universum_parts(universum: Any) -> list[Any]:
    """The arrays that `universum=` consists of, those without rows left out."""
    if universum is None:
        return []
    several = isinstance(universum, (tuple, list)) and all(np.ndim(part) == 2 for part in universum)
    parts = list(universum) if several else [universum]
    return [part for part in parts if n_rows(part) > 0]


def n_rows(part: Any) -> int:
    if np.ndim(part) == 0:
        raise ValueError("universum must be an array of shape (m, n_features), got a scalar.")
    return int(part.shape[0]) if hasattr(part, "shape") else len(part)


def read_universum(part: Any, estimator: Any) -> Any:
    """One array of universum points, validated against the columns of X."""
    if np.ndim(part) != 2:
        raise ValueError(
            "universum must be an array of shape (m, n_features) or a tuple of such arrays, "
            f"got {np.ndim(part)} dimension(s)."
        )
    names = _get_feature_names(part)
    expected = getattr(estimator, "feature_names_in_", None)
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
        raise ValueError(
            "The columns of universum must have the names of the columns of X, in the same "
            f"order: X has {list(expected)}, universum has {list(names)}."
        )
    return U


def require_same_width(U: Any, estimator: Any) -> None:
    """Refuse universum points with other columns than X."""
    if U.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"universum has {U.shape[1]} features, but X has {estimator.n_features_in_}."
        )


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


# ---------------------------------------------------------------------------------------------
# Caps


def row_caps(data: FitData, C: float, class_weight: Any, universum_weight: Any) -> FloatArray:
    """C times the weights of every row: class and sample weight, or universum weight.

    Counts are sums of sample weights throughout, so that weights stand for repeated rows.
    """
    training = data.is_training
    codes, weight = data.codes[training], data.weight[training]
    L = len(data.classes)
    totals: FloatArray = np.bincount(codes, weight, minlength=L).astype(np.float64)
    _require_weight(data.classes, totals)
    if isinstance(class_weight, str):
        of_class = totals.sum() / (L * totals)
    else:
        of_class = compute_class_weight(class_weight, classes=data.classes, y=data.classes)
    if not (np.isfinite(of_class).all() and (of_class >= 0).all()):
        raise ValueError("class_weight must hold finite numbers that are not negative.")
    _require_weight(data.classes, totals * of_class)

    caps = C * data.weight
    caps[training] *= of_class[codes]
    if isinstance(universum_weight, str):
        m = data.weight[~training].sum()
        universum_weight = totals.sum() / (m * L) if m > 0 else 0.0
    caps[~training] *= universum_weight
    return caps


def _require_weight(classes: Any, totals: FloatArray) -> None:
    if not totals.all():
        lost = classes[totals == 0].tolist()
        raise ValueError(
            f"The weights of all samples are zero in class(es) {lost}: give them some weight or "
            "remove them."
        )


# ---------------------------------------------------------------------------------------------
# Merging


def merge(data: FitData, caps: FloatArray, *, equal_rows: bool) -> Blocks:
    """The blocks of the dual problem; with `equal_rows` False every row is a block of its own.

    Rows of zero cap take part in nothing. Rows of a precomputed kernel stay apart: two of them
    hold the same point only if their columns agree too.
    """
    kept = np.flatnonzero(caps > 0)
    group = np.where(data.is_training, data.codes, len(data.classes))[kept]
    identity = data.digests[kept].T if equal_rows else [kept]
    first, block = _distinct(group, *identity)
    # By contents, so that rounding errors in the data change the order of a few blocks at most.
    with np.errstate(over="ignore", invalid="ignore"):
        contents = tensors.row_sums(data.X)[kept[first]] if equal_rows else first
    order = np.lexsort([contents, group[first]])
    block_of_row = np.zeros(len(caps), dtype=np.intp)
    block_of_row[kept] = np.argsort(order)[block]
    total: FloatArray = np.bincount(block_of_row, caps).astype(np.float64)
    rows = kept[first[order]]
    codes = data.codes[rows]
    return Blocks(
        rows=rows,
        y=np.ascontiguousarray(codes[codes != UNIVERSUM]),
        caps=total,
        block_of_row=block_of_row,
        share=np.where(caps > 0, caps / total[block_of_row], 0.0),
    )


def _distinct(*keys: Any) -> tuple[IntArray, IntArray]:
    """The first place of every distinct tuple of keys, in their order; the tuple of every place.

    That is `np.unique` of the keys as rows, which sorts them one comparison at a time.
    """
    order = np.lexsort(keys[::-1])
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    tuple_of_place = np.empty(len(order), dtype=np.intp)
    tuple_of_place[order] = np.cumsum(is_new) - 1
    return order[is_new], tuple_of_place
