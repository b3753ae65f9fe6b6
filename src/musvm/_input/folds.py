"""Warnings about the data of a fit, told once by a call that makes many fits.

A search or a cross-validation fits a model to every fold, and every one of them finds the same
mistake. It is told

    by the fit to all data, where the call makes one (a search that refits, a calibration),
    else by the first fold; of folds on several workers, by the first on each.

Python's own rule, once for every line of code, does not help: scikit-learn changes the filters
around every fold, which makes Python forget what it has told.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from joblib import Parallel
from sklearn.base import BaseEstimator

from musvm._messages import warn_user

# Where scikit-learn fits an estimator to a part of X, and to parts of what was passed with it.
_PAIR = "_fit_classifier_calibrator_pair"
_SPLITTING = ("_fit_and_score", "_fit_and_predict", _PAIR)

# What was told by whom: the pool that a call shares out its folds with, or a worker of it.
_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
_is_silent: ContextVar[bool] = ContextVar("_is_silent", default=False)


@contextmanager
def told_already() -> Iterator[None]:
    """Fits to parts of data that a fit to all of them has judged: they repeat no warnings."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def current_fold() -> FrameType | None:
    """The call by which scikit-learn fits to a fold, if this is such a fit."""
    frame = inspect.currentframe()
    while frame is not None and not (_is_of_sklearn(frame) and _name(frame) in _SPLITTING):
        frame = frame.f_back
    return frame


def warn_of_data(message: str, mistake: str, *, of_folds: bool = False) -> None:
    """Warn of a mistake in the data; one `of_folds` is not seen by a fit to all data."""
    if _is_silent.get():
        return
    fold = current_fold()
    if fold is not None:
        if not of_folds and _is_followed_by_all_data(fold):
            return
        told = _told.setdefault(_pool(fold) or threading.current_thread(), set())
        if mistake in told:
            return
        told.add(mistake)
    warn_user(message)


def _is_followed_by_all_data(fold: FrameType) -> bool:
    """Whether the fold belongs to an estimator that is fitted to all data as well."""
    if _name(fold) == _PAIR:
        return False
    frame = fold.f_back
    while frame is not None:
        owner = frame.f_locals.get("self")
        if _name(frame) == "fit" and _is_of_sklearn(frame) and isinstance(owner, BaseEstimator):
            return bool(getattr(owner, "refit", True))
        frame = frame.f_back
    # On a worker nothing is known of the call but that searches number their candidates.
    return _pool(fold) is None and fold.f_locals.get("candidate_progress") is not None


def _pool(fold: FrameType) -> Parallel | None:
    frame: FrameType | None = fold
    while frame is not None:
        if isinstance(pool := frame.f_locals.get("self"), Parallel):
            return pool
        frame = frame.f_back
    return None


def _name(frame: FrameType) -> str:
    return frame.f_code.co_name


def _is_of_sklearn(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("sklearn.")
