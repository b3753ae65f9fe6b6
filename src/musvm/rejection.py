"""`RejectingClassifier`: predict a class, or "none of these".

A point x is accepted if its score s(x) is at least a threshold, and is then given the class that
the classifier predicts; otherwise it is given the reject label. The score is, by `method`,

    universum_score     max_l f_l(x) - min_l f_l(x), as the classifier computes it
    decision_function   the same, from its decision values; |f(x)| for two classes
    predict_proba       max_l p_l(x)

The spread of the decision values does not change if a constant is added to all of them, which for
most classifiers means nothing. The threshold is the largest with which

    calibration="cv"           at least the share `target` of the training points would have been
                               accepted, each scored by a model fitted without its fold
    calibration="universum"    (the smallest with which) at least the share `target` of the
                               universum points would have been rejected, each scored by a model
                               fitted without it
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from musvm._input.reading import is_universum, universum_parts
from musvm._input.tensors import FloatArray, IntArray
from musvm._sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    safe_indexing,
    safe_split,
)
from musvm.projections import decision_values, nested, universum_label

METHODS = ("universum_score", "decision_function", "predict_proba")


class RejectingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Classifier that may answer "none of these".

    Parameters
    ----------
    estimator : classifier
        Any classifier with one of the scores of `method`.

    reject_label : str, int, float or bool
        The label of points that are rejected. It must not be a class. If it has another type
        than the class labels, predictions are arrays of objects.

    target : float, default=0.95
        The wanted share of accepted points, or of rejected universum points, see `calibration`.
        With 1 and ``calibration="cv"`` every point is accepted.

    method : {'auto', 'universum_score', 'decision_function', 'predict_proba'} or callable, \
default='auto'
        The score that decides; 'auto' is the first of these that the classifier has. See the
        notes. A callable is given the fitted classifier and the points and returns one number
        for each, high for points to accept.

    calibration : {'cv', 'universum'}, default='cv'
        What the threshold is set by. 'cv': the share `target` of the training points is
        accepted when they are left out in cross-validation. 'universum': the share `target` of
        the universum points is rejected. If the classifier learns from the universum, each of
        its points is scored by a model that has not seen it.

    cv : int, cross-validation splitter or iterable, default=5
        The folds of 'cv', as in scikit-learn. For 'universum' an int, the number of folds of the
        universum.

    Attributes
    ----------
    estimator_ : classifier
        The classifier, fitted to all data.

    threshold_ : float
        Points with a smaller score are rejected.

    classes_ : ndarray of shape (n_classes,)
        The class labels; the reject label is not among them.

    n_features_in_ : int
        Number of features seen in `fit`. Only if the classifier has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Only if the classifier has them.

    See Also
    --------
    musvm.UniversumSVC.universum_score : A score made for this.

    Notes
    -----
    The score is `universum_score` as it is; the largest minus the smallest of the decision
    values, or the absolute value of a single one; the largest probability.

    The promise about accepted points holds for points like the training points. How many foreign
    points are rejected is another question, and only data answers it.

    Examples
    --------
    >>> from musvm import RejectingClassifier, UniversumSVC
    >>> from musvm.datasets import load_digits_universum
    >>> digits = load_digits_universum(
    ...     classes=range(5), universum=(5, 6, 7), n_per_class=20, m=100, random_state=0
    ... )
    >>> clf = RejectingClassifier(UniversumSVC(C=10, gamma=0.1), reject_label=-1)
    >>> clf.fit(digits.data, digits.target, universum=digits.universum).threshold_ > 0
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "reject_label": "no_validation",
        "target": [Interval(Real, 0, 1, closed="right")],
        "method": [StrOptions({"auto", *METHODS}), callable],
        "calibration": [StrOptions({"cv", "universum"})],
        "cv": ["cv_object"],
    }

    # As for UniversumSVC: nobody needs to ask for its routing.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"universum": True}

    def __init__(
        self,
        estimator: Any,
        reject_label: Any,
        *,
        target: float = 0.95,
        method: str | Callable[[Any, Any], Any] = "auto",
        calibration: str = "cv",
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.reject_label = reject_label
        self.target = target
        self.method = method
        self.calibration = calibration
        self.cv = cv

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        return tags

    # -----------------------------------------------------------------------------------------
    # Fitting

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, universum: Any = None) -> RejectingClassifier:
        """Fit the classifier and set the threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training points.

        y : array-like of shape (n_samples,)
            Labels. Rows with the classifier's `universum_label` are universum points.

        universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of \
such arrays, default=None
            Points of no class. The classifier is fitted with them if its `fit` takes them;
            in any case they can set the threshold.

        Returns
        -------
        self : RejectingClassifier
            The fitted estimator.
        """
        X, y = indexable(X, y)
        y = column_or_1d(y, warn=True)
        self.estimator_ = self._fit_one(X, y, universum)
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        if self.reject_label in self.classes_.tolist():
            raise ValueError(f"reject_label={self.reject_label!r} is one of the classes.")
        if self.calibration == "cv":
            self.threshold_ = self._threshold_by_cv(X, y, universum)
        else:
            self.threshold_ = self._threshold_by_universum(X, y, universum)
        return self

    @property
    def _learns_from_universum(self) -> bool:
        return any(has_fit_parameter(inner, "universum") for inner in nested(self.estimator))

    def _fit_one(self, X: Any, y: Any, universum: Any) -> Any:
        passed = universum is not None and self._learns_from_universum
        return clone(self.estimator).fit(X, y, **({"universum": universum} if passed else {}))

    def _left_out_scores(self, left: IntArray, X: Any, y: Any, universum: Any) -> FloatArray:
        """Scores of the rows `left` of X by a classifier fitted to all other rows."""
        kept = np.setdiff1d(np.arange(len(y)), left)
        X_kept, y_kept = safe_split(self.estimator, X, y, kept)
        X_left, _ = safe_split(self.estimator, X, y, left, kept)
        return self._scores(self._fit_one(X_kept, y_kept, universum), X_left)

    def _threshold_by_cv(self, X: Any, y: Any, universum: Any) -> float:
        if self.target == 1:
            return -np.inf
        marked = is_universum(y, universum_label(self.estimator))
        scores = [
            self._left_out_scores(left, X, y, universum)[~marked[left]]
            for _, left in check_cv(self.cv, y, classifier=True).split(X, y)
        ]
        ordered = np.sort(np.concatenate(scores))
        # 1e-9: 1 - 0.95 is not exactly 0.05, and 100 * 0.05 is 5 points all the same.
        return float(ordered[math.floor(len(ordered) * (1 - self.target) + 1e-9)])

    def _threshold_by_universum(self, X: Any, y: Any, universum: Any) -> float:
        ordered = np.sort(np.concatenate(self._universum_scores(X, y, universum)))
        n_rejected = math.ceil(len(ordered) * self.target - 1e-9)
        return float(np.nextafter(ordered[n_rejected - 1], np.inf))

    def _universum_scores(self, X: Any, y: Any, universum: Any) -> list[FloatArray]:
        """Scores of the universum points, each by a classifier that has not learnt from it."""
        parts = universum_parts(universum)
        marked = np.flatnonzero(is_universum(y, universum_label(self.estimator)))
        if not parts and not len(marked):
            raise ValueError("calibration='universum' needs universum points.")
        n_folds = check_cv(self.cv, y, classifier=True).get_n_splits(X, y)
        if not parts:
            folds = [marked[fold::n_folds] for fold in range(min(n_folds, len(marked)))]
            return [self._left_out_scores(left, X, y, None) for left in folds]
        if not self._learns_from_universum:
            return [self._scores(self.estimator_, part) for part in parts]
        scores = []
        for fold in range(n_folds):
            in_fold = [np.arange(_num_samples(part)) % n_folds == fold for part in parts]
            kept = [
                safe_indexing(p, np.flatnonzero(~f)) for p, f in zip(parts, in_fold, strict=True)
            ]
            left = [
                safe_indexing(p, np.flatnonzero(f)) for p, f in zip(parts, in_fold, strict=True)
            ]
            model = self._fit_one(X, y, tuple(kept))
            scores += [self._scores(model, part) for part in universum_parts(tuple(left))]
        return scores

    # -----------------------------------------------------------------------------------------
    # Using the model

    def _scores(self, estimator: Any, X: Any) -> FloatArray:
        """The score of every point by a fitted classifier."""
        if callable(self.method):
            return np.asarray(self.method(estimator, X), dtype=np.float64)
        wanted = METHODS if self.method == "auto" else (self.method,)
        method = next((name for name in wanted if hasattr(estimator, name)), None)
        if method is None:
            raise TypeError(f"{type(estimator).__name__} has no {' and no '.join(wanted)}.")
        if method == "decision_function":
            return np.ptp(decision_values(estimator, X), axis=1)
        values = np.asarray(getattr(estimator, method)(X), dtype=np.float64)
        return values.max(axis=1) if method == "predict_proba" else values

    def score_samples(self, X: Any) -> FloatArray:
        """Scores that `threshold_` is compared with.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            The scores; a point below `threshold_` is rejected.
        """
        check_is_fitted(self)
        return self._scores(self.estimator_, X)

    def predict(self, X: Any) -> Any:
        """Predict the class of each point, or that it has none.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels, `reject_label` among them.
        """
        check_is_fitted(self)
        predicted = np.asarray(self.estimator_.predict(X))
        rejected = self.score_samples(X) < self.threshold_
        labels = predicted.astype(_type_of_both(predicted.dtype, self.reject_label))
        labels[rejected] = self.reject_label
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the points whose label is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        y : array-like of shape (n_samples,)
            True labels; `reject_label` for points that should be rejected.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        score : float
            The share, by weight. A rejected point of a class counts as an error.
        """
        truth = column_or_1d(y).tolist()
        right = [a == b for a, b in zip(self.predict(X).tolist(), truth, strict=True)]
        return float(np.average(right, weights=sample_weight))


def _type_of_both(dtype: Any, label: Any) -> Any:
    """A type for arrays that hold labels of this type and the reject label, both as they are."""
    other = np.asarray(label).dtype
    both_numbers = dtype.kind in "iuf" and other.kind in "iuf"
    return np.result_type(dtype, other) if both_numbers or dtype.kind == other.kind else object
