"""Projections: what a fitted model makes of training points and of universum points.

The projection of x onto class k is the lead of that class over the best of the others
(`musvm.dual.decisions`). A training point is projected onto its own class: at least
1 outside the margin, negative where it is misclassified. A universum point is projected onto
every class, and is given the label of its largest projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from musvm._input.reading import is_universum, universum_parts
from musvm._input.tensors import FloatArray, IntArray
from musvm._sklearn import safe_indexing
from musvm.dual.decisions import leads


@dataclass(frozen=True)
class Projections:
    """Projections onto one model of training points and universum points.

    Attributes
    ----------
    classes : (L,) class labels
    codes : (n,) index into `classes` of every training point
    training : (n,) projection of every training point onto its own class
    universum : (m, L) projections of the universum points onto every class
    """

    classes: Any
    codes: IntArray
    training: FloatArray
    universum: FloatArray

    @property
    def labels(self) -> IntArray:
        """(m,) index of the class that the model gives each universum point."""
        return self.universum.argmax(axis=1)

    @property
    def label_counts(self) -> IntArray:
        """(L,) number of universum points given each label."""
        return np.bincount(self.labels, minlength=len(self.classes))

    @property
    def spreads(self) -> FloatArray:
        """(m,) max_l f_l - min_l f_l of every universum point."""
        return -self.universum.min(axis=1)


def nested(estimator: Any) -> Iterator[Any]:
    """The estimator, then what pipelines, searches and wrappers hold, down to the classifier."""
    inner = estimator
    while hasattr(inner, "fit"):
        yield inner
        if hasattr(inner, "steps"):
            inner = inner.steps[-1][1]
        else:
            names = ("best_estimator_", "estimator_", "estimator")  # a fitted one comes first
            inner = next((getattr(inner, name) for name in names if hasattr(inner, name)), None)


def universum_label(estimator: Any) -> Any:
    """The label that marks universum rows for this estimator or for the one inside it."""
    labels = (getattr(inner, "universum_label", None) for inner in nested(estimator))
    return next((label for label in labels if label is not None), None)


def decision_values(estimator: Any, X: Any) -> FloatArray:
    """(n, L) decision values; the one value of a binary classifier is shared by both classes."""
    if not hasattr(estimator, "decision_function"):
        raise TypeError(f"{type(estimator).__name__} has no decision_function.")
    F = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if F.ndim == 1:
        F = np.column_stack([-0.5 * F, 0.5 * F])
    n_classes = len(estimator.classes_)
    if F.shape[1] != n_classes:
        raise ValueError(
            f"decision_function must give one value per class: {n_classes} classes, "
            f"{F.shape[1]} values. For SVC, set decision_function_shape='ovr'."
        )
    return F


def encode(y: Any, classes: Any) -> IntArray:
    """Index of every label in `classes`; a label that is none of them is refused."""
    index = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    labels = column_or_1d(y).tolist()
    if unknown := {label for label in labels if label not in index}:
        named = ", ".join(sorted(map(repr, unknown))[:5])
        raise ValueError(f"y has labels that the model does not know: {named}.")
    return np.array([index[label] for label in labels], dtype=np.intp)


def project(estimator: Any, X: Any, y: Any, universum: Any = None) -> Projections:
    """Projections of points with labels, and of a universum, onto a fitted classifier.

    `universum` is an array or a tuple of arrays. Rows of `y` with the estimator's
    `universum_label` are universum points as well.
    """
    check_consistent_length(X, y)
    y = column_or_1d(y)
    marked = is_universum(y, universum_label(estimator))
    training, others = np.flatnonzero(~marked), np.flatnonzero(marked)
    classes = estimator.classes_
    codes = encode(y[training], classes)
    own = leads(decision_values(estimator, safe_indexing(X, training)))
    parts = universum_parts(universum)
    if len(others):
        parts = [*parts, safe_indexing(X, others)]
    projected = [leads(decision_values(estimator, part)) for part in parts]
    return Projections(
        classes=classes,
        codes=codes,
        training=own[np.arange(len(codes)), codes],
        universum=np.concatenate([np.empty((0, len(classes))), *projected]),
    )
