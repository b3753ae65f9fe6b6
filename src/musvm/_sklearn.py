"""What this package takes from scikit-learn's private modules, in one place.

Public names are imported from where scikit-learn documents them. The names below are private there
and may move from version to version; if one does, this is the file to mend.

`all_or_nothing` is our own: it wraps `fit` as scikit-learn's `_fit_context` does.
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

__all__ = [
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

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """A `fit` that leaves its estimator as it was, unless and until it succeeds.

    It runs on a copy that shares the parameters, whose state the estimator takes over at the end.
    """

    @wraps(fit)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        draft = object.__new__(type(self))
        draft.__dict__ = dict(vars(self))
        fit(draft, *args, **kwargs)
        self.__dict__ = draft.__dict__
        return self

    return wrapper  # type: ignore[return-value]
