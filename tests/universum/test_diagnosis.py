"""Diagnosis: the numbers by their definitions, the table by eye."""

from __future__ import annotations

import html
import math
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from musvm import UniversumSVC, UniversumSVCCV
from musvm.universum import Diagnosis, WithUniversum, diagnose
from musvm.universum import nuisance as ranking
from musvm.universum.diagnosis import EPSILON

rng = np.random.default_rng(0)
Y = np.arange(60) % 3
X = (2 * rng.normal(size=(3, 5)))[Y] + rng.normal(size=(60, 5))
WIDE, NARROW = 3 * rng.normal(size=(40, 5)), 0.01 * rng.normal(size=(30, 5))
ONE_CLASS = X[Y == 1] + 0.1 * rng.normal(size=(20, 5))
SVM = UniversumSVC(kernel="linear").fit(X, Y)


def by_definition(svm, X, y, U) -> dict[str, float]:
    """The measures, point by point, from decision values of three or more classes."""
    F, FU = svm.decision_function(X), svm.decision_function(U)
    own = [f[k] - max(np.delete(f, k)) for f, k in zip(F, y, strict=True)]
    inside = [all(-1 < f[k] - max(np.delete(f, k)) < 1 for k in range(len(f))) for f in FU]
    counts = [sum(f.argmax() == k for f in FU) for k in range(FU.shape[1])]
    shares = [count / len(FU) for count in counts if count]
    return {
        "separability": sum(p >= 1 - EPSILON for p in own) / len(own),
        "piling": sum(1 - EPSILON <= p <= 1 + EPSILON for p in own) / len(own),
        "spread": sum(max(f) - min(f) for f in FU) / len(FU),
        "inside": sum(inside) / len(FU),
        "label_entropy": -sum(s * math.log(s) for s in shares) / math.log(FU.shape[1]),
    }


@pytest.mark.parametrize("U", [WIDE, NARROW, ONE_CLASS])
def test_measures_follow_their_definitions(U):
    (diagnosis,) = diagnose(SVM, X, Y, U)
    expected = by_definition(SVM, X, Y, U)
    for name, value in expected.items():
        assert getattr(diagnosis.measures, name) == pytest.approx(value, abs=1e-12), name
    labels = SVM.predict(U).tolist()
    assert diagnosis.majority == max(set(labels), key=labels.count)
    assert diagnosis.majority_share == labels.count(diagnosis.majority) / len(U)
    assert diagnosis.n_points == len(U)
    assert diagnosis.name == "universum"


def test_binary_measures():
    two = Y < 2
    svm = UniversumSVC().fit(X[two], Y[two])
    (diagnosis,) = diagnose(svm, X[two], Y[two], WIDE)
    f = svm.decision_function(WIDE)
    assert diagnosis.measures.spread == pytest.approx(np.abs(f).mean())
    assert diagnosis.measures.inside == np.mean(np.abs(f) < 1)
    share = np.mean(f > 0)
    expected = -(share * math.log2(share) + (1 - share) * math.log2(1 - share))
    assert diagnosis.measures.label_entropy == pytest.approx(expected)


def test_several_universa_by_name_are_ranked():
    diagnosis = diagnose(SVM, X, Y, {"wide": WIDE, "narrow": NARROW, "ones": ONE_CLASS})
    assert len(diagnosis) == 3
    *others, last = diagnosis
    assert last.name == "ones", "points of a class come last, whatever their nuisance"
    ranked = [universum.measures.nuisance for universum in others]
    assert ranked == sorted(ranked, reverse=True)
    assert diagnosis["narrow"].measures.spread < diagnosis["wide"].measures.spread
    with pytest.raises(KeyError, match="absent"):
        diagnosis["absent"]


def test_universa_that_look_like_one_class_come_last_the_surest_of_them_at_the_end():
    mostly = np.vstack([ONE_CLASS, NARROW[: len(ONE_CLASS) // 6]])
    found = diagnose(SVM, X, Y, {"all": ONE_CLASS, "mostly": mostly, "narrow": NARROW})
    assert [u.name for u in found] == ["narrow", "mostly", "all"]
    assert [u.looks_like_a_class for u in found] == [False, True, True]
    assert found["mostly"].majority_share < found["all"].majority_share == 1.0
    assert found["all"].sentence.endswith(
        f"is taken for class {found['all'].majority}: it may consist of points of that class."
    )
    assert found["narrow"].sentence.endswith(f"is taken for class {found['narrow'].majority}.")
    assert found.as_frame()["looks_like_a_class"].tolist() == [False, True, True]


def test_a_universum_without_a_nuisance_shows_a_dash():
    found = diagnose(UniversumSVC(gamma=1.0).fit(X, Y), X, Y, WIDE + 1e6)
    (far,) = found
    assert math.isnan(far.measures.nuisance), "its kernel with all training points is 0"
    assert far.cells[-1] == "-"
    assert "nan" not in str(found)


def test_list_is_several_and_tuple_is_one():
    several = diagnose(SVM, X, Y, [WIDE, NARROW])
    assert {u.name for u in several} == {"universum 0", "universum 1"}
    assert several["universum 1"].measures == diagnose(SVM, X, Y, NARROW)["universum"].measures
    (one,) = diagnose(SVM, X, Y, (WIDE, NARROW))
    assert one.measures == diagnose(SVM, X, Y, np.vstack([WIDE, NARROW]))["universum"].measures
    (plain_lists,) = diagnose(SVM, X, Y, WIDE.tolist())
    assert plain_lists.measures == several["universum 0"].measures


def test_other_forms_of_model_and_data():
    pipe = make_pipeline(StandardScaler(), UniversumSVC()).fit(X, Y)
    scaler = pipe[0]
    (piped,) = diagnose(pipe, X, Y, WIDE)
    (by_hand,) = diagnose(pipe[-1], scaler.transform(X), Y, scaler.transform(WIDE))
    assert piped.measures == by_hand.measures
    search = UniversumSVCCV([0.1, 1.0], criterion=3).fit(X, Y)
    (searched,) = diagnose(search, X, Y, WIDE)
    assert searched.measures == diagnose(search.best_estimator_, X, Y, WIDE)["universum"].measures
    (sparse,) = diagnose(SVM, sp.csr_array(X), Y, sp.csr_array(WIDE))
    assert sparse.measures.spread == pytest.approx(
        diagnose(SVM, X, Y, WIDE).universa[0].measures.spread
    )


# ---------------------------------------------------------------------------------------------
# The measure that ranks


def nuisance_by_definition(X, y, U, feature_map=lambda A: A) -> float:
    """rho, pair by pair, in explicit features."""
    P, Q = feature_map(X), feature_map(U)

    def q(v):
        return np.var(Q @ v) / (v @ v)

    same = [q(P[i] - P[j]) for i in range(len(P)) for j in range(i) if y[i] == y[j]]
    means = [P[y == k].mean(axis=0) for k in np.unique(y)]
    between = [q(means[k] - means[j]) for k in range(len(means)) for j in range(k)]
    return math.log(np.mean(same)) - math.log(np.mean(between))


@pytest.mark.parametrize("U", [WIDE, NARROW, ONE_CLASS])
def test_nuisance_follows_its_definition(U):
    (linear,) = diagnose(SVM, X, Y, U)
    assert linear.measures.nuisance == pytest.approx(nuisance_by_definition(X, Y, U))
    squares = UniversumSVC(kernel="poly", degree=2, gamma=0.5).fit(X, Y)
    (kernel,) = diagnose(squares, X, Y, U)

    def products(A):  # of all pairs of features: the map of (x . z / 2)^2
        return (A[:, :, None] * A[:, None, :]).reshape(len(A), -1) / 2

    expected = nuisance_by_definition(X, Y, U, products)
    assert kernel.measures.nuisance == pytest.approx(expected)


def test_nuisance_ranks_universa_by_what_they_show():
    random = np.random.default_rng(1)
    y = np.arange(60) % 2
    points = np.column_stack([4.0 * y, random.normal(size=60)])
    svm = UniversumSVC(kernel="linear").fit(points, y)
    shared, telling = random.normal(size=(2, 100, 2)) * [[[0.1, 3.0]], [[3.0, 0.1]]]
    ranked = diagnose(svm, points, y, {"telling": telling, "shared": shared})
    assert [u.name for u in ranked] == ["shared", "telling"]
    assert ranked["shared"].measures.nuisance > 2 > -2 > ranked["telling"].measures.nuisance


def test_nuisance_looks_at_some_of_many_points(monkeypatch):
    monkeypatch.setattr(ranking, "MAX_POINTS", 30)
    (some,) = diagnose(SVM, X, Y, WIDE)
    chosen = np.concatenate([np.flatnonzero(k == Y)[_ten_of_twenty()] for k in range(3)])
    others = np.unique(np.linspace(0, 39, 30).round().astype(int))
    expected = nuisance_by_definition(X[chosen], Y[chosen], WIDE[others])
    assert some.measures.nuisance == pytest.approx(expected)


def _ten_of_twenty():
    return np.linspace(0, 19, 10).round().astype(int)


def test_nuisance_is_unknown_where_there_is_no_kernel_or_no_difference():
    (other,) = diagnose(SVC(decision_function_shape="ovr").fit(X, Y), X, Y, WIDE)
    assert math.isnan(other.measures.nuisance)
    one_each = [0, 1, 2]
    (single,) = diagnose(UniversumSVC().fit(X[one_each], Y[one_each]), X[one_each], [0, 1, 2], WIDE)
    assert math.isnan(single.measures.nuisance)


# ---------------------------------------------------------------------------------------------
# Output


def test_table_is_aligned_and_complete():
    names = {"a": NARROW, "a much longer name": WIDE, "ones": ONE_CLASS}
    diagnosis = diagnose(SVM, X, Y, names)
    text = str(diagnosis)
    first, _, header, *rest = text.split("\n")
    rows, (ranking_rule, *sentences) = rest[:3], rest[4:]
    assert ranking_rule == (
        "Ranked by nuisance, the largest first; after all others, those of which more than 70% is "
        "taken for one class."
    )
    assert "Ranked" not in str(diagnose(SVM, X, Y, NARROW)), "one universum has no rank"
    measures = diagnosis["a"].measures
    assert first == (
        f"Training points at the margin or outside: {measures.separability:.0%}, "
        f"at the margin: {measures.piling:.0%}"
    )
    for row, sentence, universum in zip(rows, sentences, diagnosis, strict=True):
        assert row.startswith(universum.name)
        cells = row[len(universum.name) :].split()
        m = universum.measures
        assert cells == [
            str(universum.n_points),
            f"{m.spread:.2f}",
            f"{m.inside:.0%}",
            f"{m.label_entropy:.2f}",
            f"{universum.majority_share:.0%}",
            str(universum.majority),
            f"{m.nuisance:+.2f}",
        ]
        assert len(row) == len(header)
        end = header.index("points") + len("points")
        assert row[end - 1].isdigit()
        assert row[end] == " "
        assert sentence == f"{universum.name}: {universum.sentence}"


def test_a_class_as_universum_is_said_to_look_like_one():
    svm = UniversumSVC(C=100.0).fit(X, Y)
    mistake = diagnose(svm, X, Y, X[Y == 0])["universum"]
    assert mistake.majority_share > 0.7
    assert mistake.looks_like_a_class
    assert mistake.sentence.endswith("class 0: it may consist of points of that class.")
    assert not diagnose(SVM, X, Y, WIDE)["universum"].looks_like_a_class
    assert "consist" not in diagnose(SVM, X, Y, WIDE)["universum"].sentence


def test_frame_has_the_same_numbers():
    diagnosis = diagnose(SVM, X, Y, {"wide": WIDE, "narrow": NARROW})
    frame = diagnosis.as_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.tolist() == [u.name for u in diagnosis]
    assert frame.loc["wide", "spread"] == diagnosis["wide"].measures.spread
    assert frame.loc["narrow", "nuisance"] == diagnosis["narrow"].measures.nuisance
    assert repr(diagnosis) == str(diagnosis)
    page = diagnosis._repr_html_()
    for universum in diagnosis:
        assert f"<th>{universum.name}</th><td>{universum.n_points}</td>" in page
        assert html.escape(universum.sentence) in page


def test_message_without_pandas(monkeypatch):
    diagnosis = diagnose(SVM, X, Y, WIDE)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        diagnosis.as_frame()


# ---------------------------------------------------------------------------------------------
# Mistakes


def test_model_that_knows_a_universum_already_is_refused():
    models = [
        UniversumSVC(kernel="linear").fit(X, Y, universum=WIDE),
        make_pipeline(StandardScaler(), UniversumSVC()).fit(X, Y, universumsvc__universum=WIDE),
        WithUniversum(UniversumSVC(), random_state=0).fit(X, Y),
    ]
    for model in models:
        with pytest.raises(ValueError, match="needs a plain SVM"):
            diagnose(model, X, Y, WIDE)


@pytest.mark.parametrize(
    ("universum", "message"),
    [
        ({}, "no universum"),
        ([], "no universum"),
        ({"none": np.empty((0, 5))}, "none has no points"),
        (WIDE[:, :2], "2 features"),
    ],
)
def test_mistakes_are_named(universum, message):
    with pytest.raises(ValueError, match=message):
        diagnose(SVM, X, Y, universum)


def test_a_diagnosis_can_be_put_together_from_others():
    parts = [*diagnose(SVM, X, Y, {"a": WIDE}), *diagnose(SVM, X, Y, {"b": NARROW})]
    together = Diagnosis(parts)
    assert {u.name for u in together} == {"a", "b"}
    assert str(together) == str(diagnose(SVM, X, Y, {"a": WIDE, "b": NARROW}))
