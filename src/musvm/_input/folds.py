"""Warnings about the data of a fit, told once by a call that makes many fits.

A search or a cross-validation fits a model to every fold, and every one of them finds the same
mistake. It is told

    by the fit to all data, where the call makes one (a search that refits, a calibration),
    else by the first fold.

Folds on several workers see nothing of the call: the first on each of them tells, whether or not a
fit to all data follows. Processes outlive a call, and serve the next: what they have told is kept
for the data that it was told of, and for a minute.

Python's own rule, once for every line of code, does not help: scikit-learn changes the filters
around every fold, which makes Python forget what it has told.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pickle import PicklingError
from time import monotonic
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from joblib import Parallel
from joblib import hash as content_hash
from sklearn.base import BaseEstimator

from musvm._messages import warn_user

# Where scikit-learn fits an estimator to a part of X, and to parts of what was passed with it.
_PAIR = "_fit_classifier_calibrator_pair"
_SPLITTING = ("_fit_and_score", "_fit_and_predict", _PAIR)

# How long a worker keeps to itself what it has told, in seconds.
MEMORY_S = 60.0

# What was told by whom, the pool that a call shares out its folds with or a worker, and until when
# it need not be told again.
_told: WeakKeyDictionary[Any, dict[str, float]] = WeakKeyDictionary()
_is_silent: ContextVar[bool] = ContextVar("_is_silent", default=False)


@contextmanager
def told_already() -> Iterator[None]:
    """Fits to data, or parts of them, whose mistakes have been told: they repeat no warnings."""
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
        if not _is_news(mistake, fold):
            return
    warn_user(message)


def _is_news(mistake: str, fold: FrameType) -> bool:
    """Whether the call, or this worker of it, has not told of the mistake yet; now it has."""
    pool, now = _pool(fold), monotonic()
    told = _told.setdefault(pool or threading.current_thread(), {})
    finding = mistake if pool else f"{mistake} {_digest_of_call(fold)}"
    if now < told.get(finding, -math.inf):
        return False
    told[finding] = now + MEMORY_S if pool is None else math.inf
    return True


def _digest_of_call(fold: FrameType) -> str:
    """A digest of what all folds of a call have in common: all data, and arguments not split."""
    given = fold.f_locals
    n = len(given["train"])
    shared = [
        value
        for value in (given.get("fit_params") or {}).values()
        if isinstance(value, tuple) or getattr(value, "shape", ())[:1] not in ((), (n,))
    ]
    try:
        return str(content_hash([given["X"], given["y"], *shared]))
    except (PicklingError, AttributeError, TypeError):
        # Such data are on a thread, which ends with its call, since no process can be sent them.
        return ""


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
    return False


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
