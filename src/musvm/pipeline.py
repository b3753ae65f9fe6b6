"""`make_universum_pipeline`: a pipeline whose transformers see the universum too.

With T the transformers, fitted to the training points alone, the last step is fitted to

    T(X), y    and    universum = T(U)

scikit-learn's own `Pipeline` hands extra arguments of `fit` to a step as they are, so that a
scaled X would meet an unscaled U, unless metadata routing is switched on for the whole program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from musvm._input.mistakes import warn_if_split
from musvm._input.reading import parts_as_given, require_two_dimensions
from musvm._input.tensors import BoolArray, FloatArray
from musvm._sklearn import fit_context, routing_enabled
from musvm.estimator import no_probabilities


def _last_step_has(name: str) -> Any:
    """Whether the last step has this method."""

    def check(self: Any) -> bool:
        getattr(self.steps[-1][1], name)
        return True

    return available_if(check)


class UniversumPipeline(Pipeline):
    """Pipeline that sends a universum through its transformers, as it does the training points.

    :func:`make_universum_pipeline` names the steps by itself.

    Parameters
    ----------
    steps : list of (str, estimator) pairs
        Names and estimators, as in :class:`sklearn.pipeline.Pipeline`. `fit` of the last one
        takes `universum`, as that of :class:`UniversumSVC` does.

    memory : str, object with the joblib.Memory interface or None, default=None
        Keeps fitted transformers.

    verbose : bool, default=False
        Whether to print how long each step takes.

    See Also
    --------
    make_universum_pipeline : The same, shorter.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from musvm import UniversumPipeline, UniversumSVC
    >>> UniversumPipeline([("scale", StandardScaler()), ("svm", UniversumSVC())])
    UniversumPipeline(steps=[('scale', StandardScaler()), ('svm', UniversumSVC())])
    """

    # The universum is the last step's: with metadata routing it is routed there, not kept here.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"universum": UNUSED}

    def __init__(self, steps: Any, *, memory: Any = None, verbose: bool = False) -> None:
        self.steps = steps
        self.memory = memory
        self.verbose = verbose

    @property
    def transform_input(self) -> list[str] | None:
        """What scikit-learn transforms by itself: the universum, where metadata are routed."""
        return ["universum"] if routing_enabled() else None

    # Estimators of the steps are not validated yet, as in scikit-learn's.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, universum: Any = None, **params: Any) -> UniversumPipeline:
        """Fit the transformers to X, then the last step to all that they make of X and universum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training points, as the first step takes them.

        y : array-like of shape (n_samples,)
            Labels.

        universum : array-like of shape (m, n_features), or a tuple or list of such arrays, \
default=None
            Points of no class, in the form of `X`. In a search use a tuple, ``(U,)``, which is
            never split into folds.

        **params : dict
            Further arguments of the steps' `fit`, named ``step__argument``.

        Returns
        -------
        self : UniversumPipeline
            The fitted pipeline.
        """
        _require_instances(step for _, step in self.steps)
        name, last = self.steps[-1]
        if f"{name}__universum" in params:
            raise ValueError(
                f"Pass universum=..., not {name}__universum=...: it goes through every step."
            )
        if universum is not None and not has_fit_parameter(last, "universum"):
            inner = getattr(last, "estimator", None)
            learns = inner is not None and has_fit_parameter(inner, "universum")
            hint = f" Put the pipeline into {type(last).__name__} instead." if learns else ""
            raise ValueError(
                f"The last step, {type(last).__name__}, does not learn from a universum.{hint}"
            )
        if universum is None or routing_enabled():
            return super().fit(X, y, **params, **_given(universum))
        warn_if_split(X, universum)
        prefix = f"{name}__"
        of_last = {key.removeprefix(prefix): params[key] for key in params if _is_of(key, prefix)}
        transformers = self._transformers()
        points = transformers.fit_transform(
            X, y, **{key: params[key] for key in params if not _is_of(key, prefix)}
        )
        # With `memory`, fitted transformers are other objects than those that were given.
        self.steps = [*transformers.steps[:-1], self.steps[-1]]
        parts = tuple(_transformed(part, transformers, X) for part in parts_as_given(universum))
        last.fit(points, y, universum=parts, **of_last)
        return self

    def __getattr__(self, name: str) -> Any:
        """Say where an attribute is that the last step has and a pipeline does not."""
        if name == "predict_proba":
            raise AttributeError(no_probabilities(type(self).__name__, "pipeline"))
        steps = vars(self).get("steps")
        if steps and name.endswith("_") and name[0] != "_" and hasattr(steps[-1][1], name):
            raise AttributeError(
                f"{type(self).__name__} has no {name}, but its last step has: pipeline[-1].{name}."
            )
        return self.__getattribute__(name)

    def _transformers(self) -> Pipeline:
        """All steps but the last, in whose place points are passed on as they are."""
        steps = [*self.steps[:-1], (self.steps[-1][0], "passthrough")]
        return Pipeline(steps, memory=self.memory, verbose=self.verbose)

    def _apply(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.steps[-1][1], method)(self._transformers().transform(X))

    @_last_step_has("universum_score")
    def universum_score(self, X: Any) -> FloatArray:
        """How much points look like the classes rather than like the universum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.

        Returns
        -------
        score : ndarray of shape (n_samples,)
            The scores of the last step.
        """
        return self._apply("universum_score", X)

    @_last_step_has("projections")
    def projections(self, X: Any) -> FloatArray:
        """Lead of every class over the best of the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.

        Returns
        -------
        projections : ndarray of shape (n_samples, n_classes)
            The projections of the last step.
        """
        return self._apply("projections", X)

    @_last_step_has("certified")
    def certified(self, X: Any) -> BoolArray:
        """Which predicted labels the duality gap guarantees to be those of the exact optimum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.

        Returns
        -------
        certified : ndarray of shape (n_samples,)
            What the last step certifies.
        """
        return self._apply("certified", X)


def _require_instances(steps: Iterable[Any]) -> None:
    for step in steps:
        if isinstance(step, type):
            name = step.__name__
            raise TypeError(f"The step {name} is a class, not an estimator: pass {name}().")


def _transformed(part: Any, transformers: Pipeline, X: Any) -> Any:
    """What the transformers make of universum points; their errors speak of X, ours do not."""
    if np.ndim(X) == 2:
        require_two_dimensions(part)
    try:
        return transformers.transform(part)
    except (ValueError, TypeError) as error:
        words = re.sub(r"\bX\b", "universum", " ".join(str(error).split()))
        known = words if "universum" in words else f"In the universum: {words}"
        raise (ValueError if isinstance(error, ValueError) else TypeError)(known) from error


def _given(universum: Any) -> dict[str, Any]:
    return {} if universum is None else {"universum": universum}


def _is_of(key: str, prefix: str) -> bool:
    return key.startswith(prefix)


def make_universum_pipeline(
    *steps: Any, memory: Any = None, verbose: bool = False
) -> UniversumPipeline:
    """Pipeline of transformers and a classifier, whose universum goes through every step.

    Parameters
    ----------
    *steps : estimators
        Transformers, then a classifier that learns from a universum. Their names are those of
        their types, in lower case, as in :func:`sklearn.pipeline.make_pipeline`.

    memory : str, object with the joblib.Memory interface or None, default=None
        Keeps fitted transformers.

    verbose : bool, default=False
        Whether to print how long each step takes.

    Returns
    -------
    pipeline : UniversumPipeline
        The pipeline.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.preprocessing import StandardScaler
    >>> from musvm import UniversumSVC, make_universum_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> X, y, universum = X[y < 2], y[y < 2], X[y == 2]
    >>> pipe = make_universum_pipeline(StandardScaler(), UniversumSVC())
    >>> round(pipe.fit(X[::2], y[::2], universum=universum).score(X[1::2], y[1::2]), 2)
    0.95

    In a search the universum is passed in a tuple, which is never split into folds.

    >>> search = GridSearchCV(pipe, {"universumsvc__delta": [0, 0.1]})
    >>> bool(search.fit(X, y, universum=(universum,)).best_score_ > 0.95)
    True
    """
    if any(isinstance(step, (list, tuple)) for step in steps):
        raise TypeError(
            "make_universum_pipeline takes its steps one by one, without names; "
            "UniversumPipeline takes a list of names and steps."
        )
    _require_instances(steps)
    named = make_pipeline(*steps).steps
    return UniversumPipeline(named, memory=memory, verbose=verbose)
