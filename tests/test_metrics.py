"""OSCR against its definition counted pair by pair, and against scikit-learn where they agree."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, auc, roc_auc_score

from musvm.metrics import OSCRDisplay, oscr_curve, oscr_score

# Few different scores, so that ties are common.
scores = st.integers(-3, 3).map(float)
known_points = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), scores), min_size=1)
unknown_points = st.lists(scores, min_size=1)


def counted(known, unknown):
    """The share of pairs in which the known point is right and has the higher score."""
    pairs = [
        (truth == predicted) * (1.0 if s > t else 0.5 if s == t else 0.0)
        for truth, predicted, s in known
        for t in unknown
    ]
    return sum(pairs) / len(pairs)


@given(known_points, unknown_points)
def test_score_is_the_share_of_pairs(known, unknown):
    truth, predicted, s = zip(*known, strict=True)
    assert oscr_score(truth, predicted, s, unknown) == pytest.approx(counted(known, unknown))


@given(known_points, unknown_points)
def test_curve_is_counted_at_every_threshold_and_its_area_is_the_score(known, unknown):
    truth, predicted, s = map(list, zip(*known, strict=True))
    fpr, ccr, thresholds = oscr_curve(truth, predicted, s, unknown)
    assert thresholds.tolist() == [np.inf, *sorted({*s, *unknown}, reverse=True)]
    for k, t in enumerate(thresholds):
        assert fpr[k] == pytest.approx(np.mean(np.array(unknown) >= t))
        right = [a == b and c >= t for a, b, c in known]
        assert ccr[k] == pytest.approx(np.mean(right))
    assert (fpr[0], ccr[0], fpr[-1]) == (0, 0, 1)
    assert ccr[-1] == pytest.approx(accuracy_score(truth, predicted))
    assert auc(fpr, ccr) == pytest.approx(oscr_score(truth, predicted, s, unknown))


@given(st.lists(scores, min_size=1), unknown_points)
def test_with_all_labels_right_it_is_the_area_under_the_roc_curve(known, unknown):
    is_known = [1] * len(known) + [0] * len(unknown)
    expected = roc_auc_score(is_known, known + unknown)
    assert oscr_score(["a"] * len(known), ["a"] * len(known), known, unknown) == pytest.approx(
        expected
    )


def test_labels_of_different_types_are_different():
    assert oscr_score([1, 2], ["1", "2"], [1.0, 1.0], [0.0]) == 0.0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((["a"], ["a", "b"], [0.1], [0.2]), "inconsistent numbers of samples"),
        ((["a"], ["a"], [0.1, 0.2], [0.2]), "inconsistent numbers of samples"),
        ((["a"], ["a"], [np.nan], [0.2]), "known_scores contains NaN"),
        ((["a"], ["a"], [0.2], [np.inf]), "unknown_scores contains infinity"),
        ((["a"], ["a"], [0.2], []), r"0 sample\(s\)"),
        (([], [], [], [0.2]), r"0 sample\(s\)"),
        ((["a"], ["a"], [[0.2, 0.1]], [0.1]), "1d array"),
    ],
)
def test_wrong_input_is_refused(arguments, match):
    for function in (oscr_score, oscr_curve):
        with pytest.raises(ValueError, match=match):
            function(*arguments)


ARGUMENTS = ["a", "b", "b"], ["a", "b", "a"], [0.9, 0.4, 0.8], [0.5, 0.1]


def test_display_draws_the_curve():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    display = OSCRDisplay.from_scores(*ARGUMENTS, name="mine", ax=axes, color="C3")
    fpr, ccr, _ = oscr_curve(*ARGUMENTS)
    np.testing.assert_array_equal(display.line_.get_xydata(), np.column_stack([fpr, ccr]))
    assert display.line_.get_label() == f"mine (OSCR = {oscr_score(*ARGUMENTS):.2f})"
    assert display.line_.get_color() == "C3"
    assert (display.ax_, display.figure_) == (axes, figure)


def test_missing_matplotlib_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'musvm\[plot\]'"):
        OSCRDisplay.from_scores(*ARGUMENTS)
