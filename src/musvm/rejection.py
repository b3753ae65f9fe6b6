"""`RejectingClassifier`: predict a class, or "none of these".

A point x is accepted if its score s(x) is at least a threshold t, and is then given the class that
the classifier predicts; otherwise it is given the reject label. The score is, by `method`,

    universum_score     max_l f_l(x) - min_l f_l(x), as the classifier computes it
    decision_function   the same, from its decision values; |f(x)| for two classes
    predict_proba       max_l p_l(x)

The spread of the decision values does not change if a constant is added to all of them, which for
most classifiers means nothing.

The threshold comes from *calibration scores* s_1 ... s_n of points that the scoring model has not
learnt from, by the rule of conformal prediction:

    t = the k-th smallest of them,   k = floor((n + 1) (1 - target));   t = -infinity for k = 0

If s_1 ... s_n and the score s of a new point are exchangeable, s < t means that s is among the k
smallest of n + 1 exchangeable numbers, whose probability is at most k / (n + 1) <= 1 - target. So

    P(s >= t) >= target,   and <= target + 1 / (n + 1) if no two scores are equal,

for every n, every distribution and every classifier. `calibration` says where the scores are from:

    split           a part of the training points that the classifier is not fitted to. They and a
                    new point are scored by one model: exchangeable, and the promise is exact
    loo             every point by the model without it, exact or estimated (`musvm.loo_error`).
    loo-estimate    The n + 1 scores would be exchangeable if each were by the model of all n
    cv              others; calibration models have seen one point, or one fold, fewer than that.
                    The promise holds up to what one point, or a fold, changes
    universum       each universum point by a model fitted without its fold; then the promise, with
                    the order of scores reversed, is that new points like it are rejected

With `per_class` the rule is applied to the points that are given each class on their own, and the
promise holds among new points that are given that class.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv, train_test_split
from sklearn.utils import get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from musvm._input.folds import told_already, warn_of_data
from musvm._input.reading import is_universum, universum_parts
from musvm._input.tensors import FloatArray, IntArray
from musvm._sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    check_y,
    fit_context,
    safe_indexing,
    safe_split,
)
from musvm.loo import loo_error
from musvm.projections import decision_values, nested, universum_label

METHODS = ("universum_score", "decision_function", "predict_proba")
# Exact left-out scores are known within this, in units of the margin.
MAX_RADIUS = 0.01


@dataclass(frozen=True)
class Calibration:
    """Scores of points, and the classes they are given, by models that have not seen them."""

    scores: FloatArray
    labels: Any

    @classmethod
    def join(cls, parts: Iterable[Calibration]) -> Calibration:
        found = list(parts)
        return cls(
            np.concatenate([part.scores for part in found]),
            np.concatenate([part.labels for part in found]),
        )

    def only(self, rows: NDArray[np.bool_]) -> Calibration:
        return Calibration(self.scores[rows], self.labels[rows])


def fewest_points(target: float) -> int:
    """The smallest n with n / (n + 1) >= target: fewer points cannot promise it."""
    return math.ceil(1 / (1 - target) - 1e-9) - 1 if target < 1 else sys.maxsize


def lower_threshold(scores: FloatArray, target: float) -> float:
    """The largest t with P(s >= t) >= target for a score s exchangeable with `scores`."""
    # 1e-9: 1 - 0.95 is not exactly 0.05, and 100 * 0.05 is 5 points all the same.
    k = math.floor((len(scores) + 1) * (1 - target) + 1e-9)
    return float(np.sort(scores)[k - 1]) if k else -math.inf


def upper_threshold(scores: FloatArray, target: float) -> float:
    """The smallest t with P(s < t) >= target for a score s exchangeable with `scores`."""
    k = math.ceil((len(scores) + 1) * target - 1e-9)
    if k > len(scores):
        return math.inf
    return float(np.nextafter(np.sort(scores)[k - 1], np.inf))


class RejectingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Classifier that may answer "none of these".

    Parameters
    ----------
    estimator : classifier
        Any classifier with one of the scores of `method`.

    reject_label : str, int, float or bool
        The label of points that are rejected; it has to be given, and must not be a class. Use one
        of the type of the class labels, such as 'none' among strings: if it has another type, -1
        among strings for example, predictions are arrays of objects, which scikit-learn's metrics
        do not take.

    target : float, default=0.95
        The promised probability that a new point of the classes is accepted, or one like the
        universum rejected, see `calibration`. With 1 every point is accepted (or rejected).

    method : {'auto', 'universum_score', 'decision_function', 'predict_proba'} or callable, \
default='auto'
        The score that decides; 'auto' is the first of these that the classifier has. See the
        notes. A callable is given the fitted classifier and the points and returns one number
        for each, high for points to accept.

    calibration : {'cv', 'loo', 'loo-estimate', 'split', 'universum'}, default='cv'
        What the threshold is set by. See the notes for what each promises.

        - 'cv': training points, each scored by a model fitted without its fold.
        - 'loo', 'loo-estimate': training points, each scored by the model without it, exact or
          estimated. For :class:`UniversumSVC` and searches for one, with scores made of decision
          values.
        - 'split': training points that are held back and not fitted at all.
        - 'universum': universum points. If the classifier learns from the universum, each is
          scored by a model that has not seen it.

    per_class : bool, default=False
        Set a threshold for each class from the points that are given that class.

    cv : int, cross-validation splitter or iterable, default=5
        The folds of 'cv', as in scikit-learn. For 'universum' an int, the number of folds of the
        universum.

    held_back : float, default=0.3
        The share of the training points that 'split' holds back, of every class alike.

    random_state : int, RandomState instance or None, default=None
        Determines which points 'split' holds back.

    Attributes
    ----------
    estimator_ : classifier
        The classifier, fitted to all data.

    threshold_ : float or ndarray of shape (n_classes,)
        Points with a smaller score are rejected; with `per_class`, the threshold of each class.

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

    A new point that comes from where the training points come from is accepted with a probability
    of at least `target`, over the draw of all points, and of at most `target` + 1 / (n + 1) if no
    scores are equal, n being the number of calibration points. With 'split' this holds for every
    n, distribution and classifier. With 'loo', 'loo-estimate' and 'cv' it holds up to the change
    that one training point, or one fold, makes to the scores; models of fewer points mostly score
    left-out points lower, which errs on the side of accepting. With 'universum' the same is true of
    rejecting points that come from where the universum comes from. A target that n points cannot
    promise, such as 0.95 with 10 points, makes the threshold infinite, of which a warning tells:
    n points can promise at most n / (n + 1).

    With `per_class` all of this holds among the points that are given each class.

    Of points that come from elsewhere nothing follows without assumptions, but for one thing: with
    an RBF kernel, no intercept and a positive threshold, an accepted point is no farther from the
    nearest support vector than a distance that can be computed, see the documentation.

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
        "calibration": [StrOptions({"cv", "loo", "loo-estimate", "split", "universum"})],
        "per_class": ["boolean"],
        "cv": ["cv_object"],
        "held_back": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    # As for UniversumSVC: nobody needs to ask for its routing.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"universum": True}

    def __init__(
        self,
        estimator: Any,
        reject_label: Any = None,
        *,
        target: float = 0.95,
        method: str | Callable[[Any, Any], Any] = "auto",
        calibration: str = "cv",
        per_class: bool = False,
        cv: Any = 5,
        held_back: float = 0.3,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.reject_label = reject_label
        self.target = target
        self.method = method
        self.calibration = calibration
        self.per_class = per_class
        self.cv = cv
        self.held_back = held_back
        self.random_state = random_state

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
        _require_label(self.reject_label, y)
        fitted = held = np.arange(len(y))
        if self.calibration == "split":
            fitted, held = self._split(y)
        X_fitted, y_fitted = safe_split(self.estimator, X, y, fitted)
        self.estimator_ = self._fit_one(X_fitted, y_fitted, universum)
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        if self.reject_label in self.classes_.tolist():
            raise ValueError(f"reject_label={self.reject_label!r} is one of the classes.")
        if self.calibration == "split":
            X_held, _ = safe_split(self.estimator, X, y, held, fitted)
            self.threshold_ = self._threshold(self._calibrated(self.estimator_, X_held))
            return self
        ways = {"universum": self._of_universum, "cv": self._of_folds}
        with told_already():
            scores = ways.get(self.calibration, self._of_leaving_one_out)(X, y, universum)
        self.threshold_ = self._threshold(scores)
        return self

    @property
    def _learns_from_universum(self) -> bool:
        return any(has_fit_parameter(inner, "universum") for inner in nested(self.estimator))

    def _fit_one(self, X: Any, y: Any, universum: Any) -> Any:
        passed = universum is not None and self._learns_from_universum
        return clone(self.estimator).fit(X, y, **({"universum": universum} if passed else {}))

    def _calibrated(self, estimator: Any, X: Any) -> Calibration:
        """Scores and classes given by a model that has not learnt from these points."""
        return Calibration(self._scores(estimator, X), np.asarray(estimator.predict(X)))

    def _left_out(self, left: IntArray, X: Any, y: Any, universum: Any) -> Calibration:
        """The rows `left` of X, by a classifier fitted to all other rows."""
        kept = np.setdiff1d(np.arange(len(y)), left)
        X_kept, y_kept = safe_split(self.estimator, X, y, kept)
        X_left, _ = safe_split(self.estimator, X, y, left, kept)
        return self._calibrated(self._fit_one(X_kept, y_kept, universum), X_left)

    def _split(self, y: Any) -> tuple[IntArray, IntArray]:
        """Rows to fit, with all universum rows among them, and rows to hold back."""
        check_classification_targets(check_y(y, estimator=self))
        rows = np.flatnonzero(~is_universum(y, universum_label(self.estimator)))
        _, held = train_test_split(
            rows,
            test_size=self.held_back,
            stratify=y[rows],
            random_state=self.random_state,
        )
        held = np.sort(held)
        return np.setdiff1d(np.arange(len(y)), held), held

    def _of_folds(self, X: Any, y: Any, universum: Any) -> Calibration:
        marked = is_universum(y, universum_label(self.estimator))
        return Calibration.join(
            self._left_out(left, X, y, universum).only(~marked[left])
            for _, left in check_cv(self.cv, y, classifier=True).split(X, y)
        )

    def _of_leaving_one_out(self, X: Any, y: Any, universum: Any) -> Calibration:
        if self.method not in ("auto", "universum_score", "decision_function"):
            raise ValueError(
                f"calibration={self.calibration!r} needs a score made of decision values; for "
                "other scores use 'cv' or 'split'."
            )
        left_out = loo_error(
            self.estimator_, X, y, universum, method=self.calibration, max_radius=MAX_RADIUS
        )
        values = np.asarray(left_out.decision_values)
        spread = np.abs(values) if values.ndim == 1 else np.ptp(values, axis=1)
        # Exact ones are known up to a radius: what is certainly reached keeps the promise.
        radius = 0.0 if left_out.radius is None else left_out.radius
        return Calibration(spread - radius, np.asarray(left_out.predictions))

    def _of_universum(self, X: Any, y: Any, universum: Any) -> Calibration:
        """Universum points, each by a classifier that has not learnt from it."""
        parts = universum_parts(universum)
        marked = np.flatnonzero(is_universum(y, universum_label(self.estimator)))
        if not parts and not len(marked):
            raise ValueError("calibration='universum' needs universum points.")
        n_folds = check_cv(self.cv, y, classifier=True).get_n_splits(X, y)
        if not parts:
            folds = [marked[fold::n_folds] for fold in range(min(n_folds, len(marked)))]
            return Calibration.join(self._left_out(left, X, y, None) for left in folds)
        if not self._learns_from_universum:
            return Calibration.join(self._calibrated(self.estimator_, part) for part in parts)
        return Calibration.join(
            self._fold_of_universum(fold, n_folds, X, y, parts) for fold in range(n_folds)
        )

    def _fold_of_universum(
        self, fold: int, n_folds: int, X: Any, y: Any, parts: list[Any]
    ) -> Calibration:
        """Every `n_folds`-th point of every part, by a classifier fitted with the others."""
        rows = [np.arange(_num_samples(part)) for part in parts]
        kept, left = (
            tuple(
                safe_indexing(part, row[(row % n_folds == fold) == wanted])
                for part, row in zip(parts, rows, strict=True)
            )
            for wanted in (False, True)
        )
        model = self._fit_one(X, y, kept)
        return Calibration.join(self._calibrated(model, part) for part in universum_parts(left))

    def _threshold(self, calibration: Calibration) -> Any:
        rule = lower_threshold if self.calibration != "universum" else upper_threshold
        groups = [calibration.scores]
        if self.per_class:
            groups = [calibration.scores[calibration.labels == label] for label in self.classes_]
        self._warn_of_too_few([len(scores) for scores in groups])
        thresholds = np.array([rule(scores, self.target) for scores in groups])
        return thresholds if self.per_class else float(thresholds[0])

    def _warn_of_too_few(self, numbers: list[int]) -> None:
        """Say that a threshold is infinite, unless that is what a target of 1 asks for."""
        needed, n = fewest_points(self.target), min(numbers)
        if self.target == 1 or n >= needed:
            return
        best = f"{math.floor(1000 * n / (n + 1)) / 1000:g}"
        each, whose, such = "", "", "all points are"
        if self.per_class:
            few = sum(number < needed for number in numbers)
            each, whose = " of each class", f" of class {self.classes_[numbers.index(n)]!s}"
            such = f"all points that are given {few} of {len(numbers)} classes are"
        fate = "rejected" if self.calibration == "universum" else "accepted"
        warn_of_data(
            f"target={self.target:g} takes at least {needed} calibration points{each}, and there "
            f"are {n}{whose}: {such} {fate}. So few can promise a target of at most {best}.",
            "target",
        )

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
        threshold = self.threshold_
        if np.ndim(threshold):
            threshold = threshold[np.searchsorted(self.classes_, predicted)]
        rejected = self.score_samples(X) < threshold
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


def _require_label(reject_label: Any, y: Any) -> None:
    if reject_label is None:
        suggested = "'none'" if y.dtype.kind in "USO" else "-1"
        raise ValueError(
            "RejectingClassifier needs the label that it gives to points of no class: pass one "
            f"that is no class, such as reject_label={suggested}."
        )
    if reject_label != reject_label:
        raise ValueError("reject_label is NaN, which equals no label, not even itself.")


def _type_of_both(dtype: Any, label: Any) -> Any:
    """A type for arrays that hold labels of this type and the reject label, both as they are."""
    other = np.asarray(label).dtype
    both_numbers = dtype.kind in "iuf" and other.kind in "iuf"
    return np.result_type(dtype, other) if both_numbers or dtype.kind == other.kind else object
