"""Figures of merit for classifiers that may answer "none of these".

A classifier gives a point a label and a score, high if the point looks like one of the classes. At
a threshold t it answers the label if the score is at least t. With n points of the classes and u
unknown ones, which belong to none,

    CCR(t) = #{points of the classes with the right label and score >= t} / n
    FPR(t) = #{unknown points with score >= t} / u

are the rate of correct classification and the rate of false acceptance (Dhamija, Gunther and
Boult, "Reducing Network Agnostophobia", 2018). The curve of CCR over FPR, t from the largest score
to the smallest, ends at the ordinary accuracy for FPR = 1. The area under it is

    OSCR = (1 / nu) sum_{i correct} sum_j ([s_i > s_j] + [s_i = s_j] / 2)

over points i of the classes and unknown points j: the share of pairs in which the point of the
class has the right label and the higher score. With all labels right it is the area under the
receiver operating characteristic; it never exceeds that area nor the accuracy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, column_or_1d

from musvm._pyplot import pyplot_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

__all__ = ["OSCRDisplay", "oscr_curve", "oscr_score"]


def oscr_score(y_true: Any, y_pred: Any, known_scores: Any, unknown_scores: Any) -> float:
    """Area under the curve of correct classification over false acceptance.

    Parameters
    ----------
    y_true : array-like of shape (n_known,)
        Labels of the points of the classes.

    y_pred : array-like of shape (n_known,)
        Labels that the classifier gives them, whatever their score.

    known_scores : array-like of shape (n_known,)
        Their scores, high for points that look like the classes.

    unknown_scores : array-like of shape (n_unknown,)
        Scores of points that belong to no class.

    Returns
    -------
    score : float
        Between 0 and the accuracy. Equal scores count one half.

    See Also
    --------
    oscr_curve : The curve itself.
    OSCRDisplay : Draws it.

    Examples
    --------
    >>> from musvm.metrics import oscr_score
    >>> oscr_score(["a", "b", "b"], ["a", "b", "a"], [0.9, 0.4, 0.8], [0.5, 0.1])
    0.5
    """
    right, known, unknown = _checked(y_true, y_pred, known_scores, unknown_scores)
    # Of all scores together, a known one has this rank; among the known ones alone, that one. The
    # difference counts the unknown scores below it, equal ones by one half.
    rank = rankdata(np.concatenate([known, unknown]))[: len(known)]
    below = rank - rankdata(known)
    return float(below[right].sum() / (len(known) * len(unknown)))


def oscr_curve(
    y_true: Any, y_pred: Any, known_scores: Any, unknown_scores: Any
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rate of correct classification and rate of false acceptance at every threshold.

    Parameters
    ----------
    y_true : array-like of shape (n_known,)
        Labels of the points of the classes.

    y_pred : array-like of shape (n_known,)
        Labels that the classifier gives them, whatever their score.

    known_scores : array-like of shape (n_known,)
        Their scores, high for points that look like the classes.

    unknown_scores : array-like of shape (n_unknown,)
        Scores of points that belong to no class.

    Returns
    -------
    fpr : ndarray of shape (n_thresholds,)
        Share of the unknown points with a score of at least the threshold, from 0 to 1.

    ccr : ndarray of shape (n_thresholds,)
        Share of the points of the classes that have the right label and such a score.

    thresholds : ndarray of shape (n_thresholds,)
        Falling; the first is infinite.

    See Also
    --------
    oscr_score : The area under the curve.

    Examples
    --------
    >>> from musvm.metrics import oscr_curve
    >>> fpr, ccr, thresholds = oscr_curve(["a", "b"], ["a", "a"], [0.9, 0.4], [0.5])
    >>> fpr.tolist(), ccr.tolist()
    ([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 0.5])
    """
    right, known, unknown = _checked(y_true, y_pred, known_scores, unknown_scores)
    thresholds = np.unique(np.concatenate([known, unknown, [np.inf]]))[::-1]
    fpr = _share_at_least(unknown, thresholds, len(unknown))
    return fpr, _share_at_least(known[right], thresholds, len(known)), thresholds


def _share_at_least(scores: FloatArray, thresholds: FloatArray, total: int) -> FloatArray:
    smaller = np.searchsorted(np.sort(scores), thresholds, side="left")
    return (len(scores) - smaller) / total


def _checked(
    y_true: Any, y_pred: Any, known_scores: Any, unknown_scores: Any
) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
    """Which labels are right, and both kinds of scores."""
    known, unknown = (
        column_or_1d(
            check_array(scores, ensure_2d=False, dtype=np.float64, input_name=name), warn=False
        )
        for name, scores in (("known_scores", known_scores), ("unknown_scores", unknown_scores))
    )
    truth, predicted = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(truth, predicted, known)
    # Compared one by one: NumPy would turn numbers into text beside text.
    pairs = zip(truth.tolist(), predicted.tolist(), strict=True)
    return np.array([a == b for a, b in pairs], dtype=bool), known, unknown


class OSCRDisplay:
    """Curve of correct classification over false acceptance.

    Parameters
    ----------
    fpr : ndarray of shape (n_thresholds,)
        Rates of false acceptance, see :func:`oscr_curve`.

    ccr : ndarray of shape (n_thresholds,)
        Rates of correct classification.

    oscr : float, default=None
        The area under the curve, for the legend.

    name : str, default=None
        What the curve is called in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.

    ax_ : matplotlib Axes
        The axes it is drawn on.

    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> from musvm.metrics import OSCRDisplay
    >>> display = OSCRDisplay.from_scores(
    ...     ["a", "b", "b"], ["a", "b", "a"], [0.9, 0.4, 0.8], [0.5, 0.1], name="mine"
    ... )
    >>> display.line_.get_label()
    'mine (OSCR = 0.50)'
    """

    line_: Any
    ax_: Axes
    figure_: Figure

    def __init__(
        self, fpr: Any, ccr: Any, *, oscr: float | None = None, name: str | None = None
    ) -> None:
        self.fpr = fpr
        self.ccr = ccr
        self.oscr = oscr
        self.name = name

    @classmethod
    def from_scores(
        cls,
        y_true: Any,
        y_pred: Any,
        known_scores: Any,
        unknown_scores: Any,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **line: Any,
    ) -> OSCRDisplay:
        """Compute the curve and draw it.

        Parameters
        ----------
        y_true, y_pred, known_scores, unknown_scores : array-like
            As in :func:`oscr_score`.

        name : str, default=None
            What the curve is called in the legend.

        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.

        **line : dict
            Passed to matplotlib's `plot`.

        Returns
        -------
        display : OSCRDisplay
            The display, drawn.
        """
        known = (y_true, y_pred, known_scores, unknown_scores)
        fpr, ccr, _ = oscr_curve(*known)
        return cls(fpr, ccr, oscr=oscr_score(*known), name=name).plot(ax=ax, **line)

    def plot(self, ax: Axes | None = None, **line: Any) -> OSCRDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.

        **line : dict
            Passed to matplotlib's `plot`.

        Returns
        -------
        display : OSCRDisplay
            The same object.
        """
        if ax is None:
            return self.plot(pyplot_for("OSCRDisplay").subplots(layout="constrained")[1], **line)
        area = None if self.oscr is None else f"OSCR = {self.oscr:.2f}"
        label = f"{self.name} ({area})" if self.name and area else self.name or area
        [self.line_] = ax.plot(self.fpr, self.ccr, **{"label": label, **line})
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.set_xlabel("unknown points accepted (rate)")
        ax.set_ylabel("points of the classes accepted with the right label (rate)")
        if label:
            ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self
