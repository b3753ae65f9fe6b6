"""What a fitted model is made of: pipelines, searches, wrappers and calibration, down to SVMs.

A model is a tree. Its root is what the user fitted; below a pipeline is its last step, below a
search the model that it chose, below a wrapper the classifier that it fitted, and below a
calibrated classifier the one or more models whose decision values become probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator


def fitted_parts(model: Any) -> Iterator[Any]:
    """The model, then all that it holds inside."""
    waiting = [model]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(_inside(part)))


def innermost(model: Any) -> Any:
    """The classifier at the end of the first branch."""
    while inside := _inside(model):
        model = inside[0]
    return model


def calibrated(model: Any) -> CalibratedClassifierCV | None:
    """What turns decision values into probabilities on the way to the classifier, if anything."""
    found = (part for part in fitted_parts(model) if isinstance(part, CalibratedClassifierCV))
    return next(found, None)


def _inside(part: Any) -> list[Any]:
    if isinstance(part, FrozenEstimator):  # which passes questions on to what it holds
        return [part.estimator]
    if isinstance(part, CalibratedClassifierCV):
        return [one.estimator for one in part.calibrated_classifiers_]
    if hasattr(part, "steps"):
        return [part.steps[-1][1]]
    for name in ("best_estimator_", "estimator_"):
        if hasattr(part, name):
            return [getattr(part, name)]
    return []
