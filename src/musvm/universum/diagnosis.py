"""Diagnosis: what a plain SVM says about a universum before it is used.

From the projections of `_projections.py`, for training points x with projections p onto their own
classes and universum points u with decision values f:

    separability    share of the training points with p >= 1 - EPSILON
    piling          share of the training points with |p - 1| <= EPSILON
    spread          mean of max_l f_l(u) - min_l f_l(u)
    inside          share of the universum points within the margins: all projections in (-1, 1)
    label entropy   entropy of the labels given to the universum, over log L: 1 if even, 0 if all
                    get the same label
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import entropy

from musvm._projections import Projections

EPSILON = 0.05


@dataclass(frozen=True)
class Measures:
    """The numbers behind a diagnosis; the module's docstring defines them."""

    separability: float
    piling: float
    spread: float
    inside: float
    label_entropy: float

    @classmethod
    def of(cls, projections: Projections) -> Measures:
        own, universum = projections.training, projections.universum
        counts = projections.label_counts
        return cls(
            separability=float(np.mean(own >= 1 - EPSILON)),
            piling=float(np.mean(np.abs(own - 1) <= EPSILON)),
            spread=float(projections.spreads.mean()),
            inside=float(np.mean(np.abs(universum).max(axis=1) < 1)),
            label_entropy=float(entropy(counts) / np.log(len(counts))),
        )
