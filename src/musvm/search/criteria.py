"""What judges the cells of a search: a method of leave-one-out by name, or folds."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from musvm.loo.methods import METHODS


def in_words(criterion: Any) -> str:
    """What a criterion computes, to follow "the"."""
    if isinstance(criterion, str):
        return METHODS[criterion].words
    n_folds = number_of_folds(criterion)
    return "cross-validation error" if n_folds is None else f"{n_folds}-fold cross-validation error"


def is_error(criterion: Any) -> bool:
    """Whether what a criterion computes may be shown to people as an error."""
    return not isinstance(criterion, str) or METHODS[criterion].is_error


def number_of_folds(criterion: Any) -> int | None:
    """The number of splits, where a criterion that splits tells it."""
    if isinstance(criterion, Integral):
        return int(criterion)
    if isinstance(criterion, Sequence):
        return len(criterion)
    return getattr(criterion, "n_splits", None)
