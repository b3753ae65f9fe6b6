"""`WithUniversum`: a classifier that makes its own universum when it is fitted.

A transformer sees X alone and returns as many rows as it got, so it cannot add universum points to
the data on their way through a pipeline. A classifier that wraps another can: it is given X and y
of the current fold, after all transformers, makes the universum from them and fits the wrapped
classifier with it. No held-out point takes part.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from musvm._sklearn import HasMethods, Interval, StrOptions, fit_context
from musvm.universum.making import FLOATS, random_average, random_noise


def _average_of_all(X: Any, y: Any, m: int, random_state: Any) -> Any:
    return random_average(X, y, m, random_state=random_state)


def _average_of_two(X: Any, y: Any, m: int, random_state: Any) -> Any:
    return random_average(X, y, m, per_class=False, random_state=random_state)


def _noise(X: Any, y: Any, m: int, random_state: Any) -> Any:
    return random_noise(X, m, random_state=random_state)


MAKERS = {
    "random-average": _average_of_all,
    "random-average-of-two": _average_of_two,
    "random-noise": _noise,
}


def _wrapped_has(name: str) -> Any:
    """Whether the fitted classifier, or else the one to be fitted, has this method."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return available_if(check)


class WithUniversum(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Classifier that makes a universum from its training data.

    Put it where the classifier would stand, at the end of a pipeline or inside a search. What
    the universum is made from is what `fit` is given: the training points of the fold, after the
    transformers of the pipeline.

    Parameters
    ----------
    estimator : classifier
        The classifier to fit; its `fit` takes `universum`, as that of
        :class:`~musvm.UniversumSVC` does.

    make : {'random-average', 'random-average-of-two', 'random-noise'} or callable, \
default='random-average'
        How the universum is made: by :func:`random_average` of all classes or of two, by
        :func:`random_noise`, or by a function that is given `X`, `y`, the number of points and
        `random_state` and returns the points.

    m : int or float, default=1.0
        Number of universum points. A float is a multiple of the number of training points.

    random_state : int, RandomState instance or None, default=None
        Passed to the function that makes the universum.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.

    universum_ : {ndarray, sparse array} of shape (m, n_features)
        The universum it was fitted with.

    classes_ : ndarray of shape (n_classes,)
        The class labels.

    n_features_in_ : int
        Number of features seen in `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` has names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from musvm import UniversumSVC
    >>> from musvm.universum import WithUniversum
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), WithUniversum(UniversumSVC(), random_state=0))
    >>> grid = {"withuniversum__m": [50, 200], "withuniversum__estimator__delta": [0, 0.1]}
    >>> search = GridSearchCV(model, grid, cv=3).fit(X, y)
    >>> bool(search.best_score_ > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "make": [StrOptions(set(MAKERS)), callable],
        "m": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, None, closed="neither"),
        ],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        make: Any = "random-average",
        m: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.make = make
        self.m = m
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> WithUniversum:
        """Make the universum and fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training points.

        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self : WithUniversum
            The fitted estimator.
        """
        if get_tags(self.estimator).input_tags.pairwise:
            raise ValueError("A universum cannot be made from a precomputed kernel matrix.")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
        m = self.m if isinstance(self.m, Integral) else max(1, round(self.m * X.shape[0]))
        make: Any = MAKERS[self.make] if isinstance(self.make, str) else self.make
        self.universum_ = make(X, y, m, self.random_state)
        self.estimator_ = clone(self.estimator).fit(X, y, universum=(self.universum_,))
        self.classes_ = self.estimator_.classes_
        return self

    def _apply(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        return getattr(self.estimator_, method)(X)

    def predict(self, X: Any) -> Any:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels.
        """
        return self._apply("predict", X)

    @_wrapped_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Decision values of the fitted classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        decision : ndarray of shape (n_samples, n_classes) or (n_samples,)
            The decision values.
        """
        return self._apply("decision_function", X)

    @_wrapped_has("universum_score")
    def universum_score(self, X: Any) -> Any:
        """How much points look like the classes rather than like the universum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        score : ndarray of shape (n_samples,)
            The scores of the fitted classifier.
        """
        return self._apply("universum_score", X)
