"""The cap of every row: C times class weight and sample weight, or times the universum's weight.

Counts are sums of sample weights throughout, so that weights stand for repeated rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray

# An objective is a sum of caps times losses, and products of two such must not overflow.
LARGEST_TOTAL = 1e150


def row_caps(data: FitData, C: float, class_weight: Any, universum_weight: Any) -> FloatArray:
    """(M,) C times the weights of every row."""
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

    with np.errstate(over="ignore"):
        caps = C * data.weight
        caps[training] *= of_class[codes]
    if isinstance(universum_weight, str):
        universum_weight = balanced_weight(totals.sum(), data.weight[~training].sum(), L)
    with np.errstate(over="ignore"):
        caps[~training] *= universum_weight
        total = caps.sum()
    if not total <= LARGEST_TOTAL:
        raise ValueError(
            f"C and the weights add up to {total:.1e}, too much to compute with: choose smaller "
            "ones."
        )
    return caps


def balanced_weight(n: float, m: float, n_classes: int) -> float:
    """Weight of the universum, C*/C, at which its losses weigh the same as those of training.

    It is n / (m L), and 0 if m is 0.

    Parameters
    ----------
    n : float
        Training points, counted by weight.

    m : float
        Universum points, counted by weight.

    n_classes : int
        L.

    Returns
    -------
    weight : float
        What `universum_weight="balanced"` stands for.

    Examples
    --------
    >>> from musvm.universum import balanced_weight
    >>> balanced_weight(300, 500, 3)
    0.2
    """
    return float(n / (m * n_classes)) if m > 0 else 0.0


def _require_weight(classes: Any, totals: FloatArray) -> None:
    if not totals.all():
        lost = classes[totals == 0].tolist()
        raise ValueError(
            f"The weights of all samples are zero in class(es) {lost}: give them some weight or "
            "remove them."
        )
