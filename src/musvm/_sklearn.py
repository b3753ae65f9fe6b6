"""What this package takes from scikit-learn's private modules, in one place.

Public names are imported from where scikit-learn documents them. The names below are private there
and may move from version to version; if one does, this is the file to mend.

`all_or_nothing` is our own: it wraps `fit` as scikit-learn's `_fit_context` does. So is
`FitEvents`, which tells the callbacks of scikit-learn 1.9 (`sklearn.callback`) what a fit is doing;
before that version there are none, and it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._metadata_requests import _routing_enabled as routing_enabled
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    validate_parameter_constraints,
    validate_params,
)
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_feature_names as check_feature_names
from sklearn.utils.validation import _check_n_features as check_n_features
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _check_y as check_y
from sklearn.utils.validation import _get_feature_names as get_feature_names

try:
    from sklearn.callback import CallbackSupportMixin
except ModuleNotFoundError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Before scikit-learn 1.9: no callbacks."""


__all__ = [
    "CallbackSupportMixin",
    "FitEvents",
    "HasMethods",
    "Interval",
    "StrOptions",
    "all_or_nothing",
    "check_feature_names",
    "check_n_features",
    "check_sample_weight",
    "check_y",
    "fit_context",
    "get_feature_names",
    "routing_enabled",
    "safe_indexing",
    "safe_split",
    "validate_parameter_constraints",
    "validate_params",
]

# What scikit-learn notes on an estimator while its callbacks run.
_OF_CALLBACKS = {"_callback_fit_ctx", "_skl_callbacks_to_teardown"}

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """A `fit` that leaves its estimator as it was, unless and until it succeeds.

    It runs on a copy that shares the parameters, whose state the estimator takes over at the end.
    """

    @wraps(fit)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        draft = object.__new__(type(self))
        draft.__dict__ = dict(vars(self))
        try:
            fit(draft, *args, **kwargs)
        except BaseException:
            # Callbacks that were started are ended by whoever called, on this estimator.
            for name in _OF_CALLBACKS & vars(draft).keys():
                setattr(self, name, getattr(draft, name))
            raise
        self.__dict__ = draft.__dict__
        return self

    return wrapper  # type: ignore[return-value]


class FitEvents:
    """Tells scikit-learn's callbacks of the steps of a fit; nobody, where none were set.

    A request to stop is not followed: a fit ends at its tolerance.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, max_steps: int | None) -> None:
        self._data = {"estimator": estimator, "X": X, "y": y}
        self._context = None
        if getattr(estimator, "_skl_callbacks", None):
            self._context = estimator._init_callback_context(max_subtasks=max_steps)  # noqa: SLF001
            self._context.call_on_fit_task_begin(**self._data)

    def step(self, name: str, **facts: Any) -> None:
        """One more step is done, with these facts about it."""
        if self._context is not None:
            step = self._context.subcontext(task_name=name)
            step.call_on_fit_task_begin(**self._data)
            step.call_on_fit_task_end(**self._data, metadata=facts)

    def end(self) -> None:
        """The fit is done."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._data)
