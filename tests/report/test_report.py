"""The HTML report, read back without a browser; `browser/test_report.py` opens it in one."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import sys
import unicodedata
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from musvm import UniversumSVC, UniversumSVCCV, loo_error, report
from musvm.report import content, page, text
from musvm.universum import diagnose
from report_page import Page, assert_counts

pytest.importorskip("plotly", reason="the report needs plotly")
pytest.importorskip("jinja2", reason="the report needs jinja2")

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><b>bold</b>",
    "{{ 7 * 7 }} <!-- ${x} %{x} -->",
]
# Points pile up at these values, so they must not be edges of bins.
DELTAS = [0.0, 0.1, 0.45]


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch):
    """Plotly's five megabytes would be parsed by every test; the browser's tests have them."""
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "/* Plotly */")


@pytest.fixture(scope="module")
def points():
    """Three overlapping classes in five dimensions, and a universum around them."""
    X, y = make_blobs([14, 11, 9], n_features=5, cluster_std=3.0, random_state=1)
    U = np.random.default_rng(0).normal(X.mean(axis=0), 5.0, size=(25, 5))
    return X / 5, y, U / 5


def model_of(points, **parameters):
    X, y, U = points
    settings = {"C": 2.0, "kernel": "linear", "delta": 0.1, "tol": 1e-8} | parameters
    return UniversumSVC(**settings).fit(X, y, universum=U)


@pytest.fixture(scope="module")
def model(points):
    return model_of(points)


@pytest.fixture
def written(tmp_path):
    """Write a report and read it back."""

    def write(model, X, y, universum=None, **options):
        options = {"deltas": DELTAS} | options
        return Page(report.write(model, X, y, universum, tmp_path / "report.html", **options))

    return write


def minus(shown: str) -> str:
    return shown.replace(text.MINUS, "-")


# ---------------------------------------------------------------------------------------------
# What is shown is what was computed


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_histograms_are_those_of_models_fitted_afresh(points, written, kernel):
    X, y, U = points
    figures = written(model_of(points, kernel=kernel), *points).figures
    assert [entry["delta"] for entry in figures["path"]] == DELTAS
    fresh = {None: UniversumSVC(2.0, kernel=kernel, tol=1e-10).fit(X, y)}
    for delta in DELTAS:
        fresh[delta] = UniversumSVC(2.0, kernel=kernel, delta=delta, tol=1e-10)
        fresh[delta].fit(X, y, universum=U)
    edges = np.array(figures["edges"])
    for delta, shown in zip(fresh, [figures["plain"], *figures["path"]], strict=True):
        own, foreign = fresh[delta].projections(X), fresh[delta].projections(U)
        # A relative gap of 1e-8 leaves this much room for the projections.
        for k in range(3):
            assert_counts(shown["training"][k], own[y == k, k], edges, 1e-2)
            assert sum(shown["training"][k]) == np.sum(y == k)
            assert_counts(shown["universum"][k], foreign[:, k], edges, 1e-2)
            assert sum(shown["universum"][k]) == len(U)
        assert sum(shown["labels"]) == len(U)
        clear = np.sort(foreign, axis=1)[:, -1] > 1e-2
        surely = np.bincount(foreign[clear].argmax(axis=1), minlength=3)
        assert np.all(surely <= shown["labels"])


def test_the_models_compared_are_those_of_the_fit(points, model, written):
    X, y, U = points
    plain = UniversumSVC(2.0, kernel="linear", tol=1e-8).fit(X, y)
    shown = written(model, *points)
    assert shown.table("models")[0] == ["quantity", "plain SVM", "MU-SVM, Δ = 0.1"]
    rows = shown.quantities("models")
    errors = [100 * (1 - m.score(X, y)) for m in (plain, model)]
    assert rows["training error"] == [f"{error:.1f}\xa0%" for error in errors]
    left_out = [
        loo_error(plain, X, y, method="loo"),
        loo_error(model, X, y, U, method="loo"),
    ]
    assert rows["left-out error"] == [f"{100 * found.error:.1f}\xa0%" for found in left_out]
    said = shown.section("summary").text
    assert f"the leave-one-out error is {rows['left-out error'][0]} for the plain SVM, " in said
    for cell, fitted in zip(rows["objective"], (plain, model), strict=True):
        assert float(cell) == pytest.approx(fitted.objective_, rel=1e-3)
    assert rows["training support vectors"] == [str(len(m.support_)) for m in (plain, model)]
    assert rows["universum support vectors"] == ["0", str(len(model.universum_support_))]
    spreads = [m.universum_score(U).mean() for m in (plain, model)]
    assert rows["mean spread"] == [f"{spread:.3f}" for spread in spreads]


def test_left_out_points_by_class_and_label(points, model, written):
    X, y, U = points
    plain = UniversumSVC(2.0, kernel="linear", tol=1e-8).fit(X, y)
    shown = written(model, *points)
    left_out = [
        loo_error(plain, X, y, method="loo").predictions,
        loo_error(model, X, y, U, method="loo").predictions,
    ]
    by_class, confusion = (
        [[cell.text for cell in row.all("td")] for row in table.all("tr")[1:]]
        for table in shown.section("left-out").all("table")
    )
    for label, row, given_labels in zip(np.unique(y), by_class, confusion, strict=True):
        rows = y == label
        wrong = [100 * np.mean(labels[rows] != label) for labels in left_out]
        assert row == [str(label), str(rows.sum()), *(f"{error:.1f}\xa0%" for error in wrong)]
        counts = [np.sum(left_out[1][rows] == other) for other in np.unique(y)]
        assert given_labels == [str(label), *map(str, counts)]
    n_wrong = np.sum(left_out[1] != y)
    assert f": {n_wrong} error" in shown.section("left-out").text


def test_left_out_errors_follow_the_slider(points, model, written):
    X, y, U = points
    shown = written(model, *points)
    for entry in shown.figures["path"]:
        other = UniversumSVC(2.0, kernel="linear", delta=entry["delta"], tol=1e-8)
        other.fit(X, y, universum=U)
        error = loo_error(other, X, y, U, method="loo").error
        training = f"{100 * (1 - other.score(X, y)):.1f}\xa0%"
        assert entry["errors"] == [training, f"{100 * error:.1f}\xa0%"]


def test_the_curve_of_rejection(points, model, written):
    X, y, U = points
    figures = written(model, *points).figures
    left_out = loo_error(model, X, y, U, method="loo", max_radius=1e-4)
    own = np.ptp(left_out.decision_values, axis=1)
    foreign = model.universum_score(U)
    found = figures["path"][figures["shown"]]["accepted"]
    assert figures["shares"][0] == 0
    assert figures["shares"][-1] == 100
    for share, accepted in zip(figures["shares"], found, strict=True):
        # The largest threshold that so many of the left-out points reach.
        reached = (t for t in own if 100 * np.mean(own >= t) >= share - 1e-9)
        threshold = max(reached) if share else np.inf
        slack = 0.02  # left-out values are known within 0.01
        low, high = (100 * np.mean(foreign >= threshold + s) for s in (slack, -slack))
        assert low - 0.01 <= accepted <= high + 0.01


def test_the_certificate_is_that_of_the_model(points, model, written):
    rows = written(model, *points).quantities("certificate")
    assert float(minus(rows["duality gap"][1])) == pytest.approx(model.dual_gap_, rel=0.05)
    relative = model.model_.certificate.relative_gap
    assert float(minus(rows["relative gap"][1])) == pytest.approx(relative, rel=0.05)
    assert rows["relative gap asked for"] == [f"1.0e{text.MINUS}08"] * 2
    assert rows["reached"] == ["yes", "yes"]


@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
def test_certified_labels_are_those_of_the_optimum(points, tol):
    from musvm.report.models import Family, Fit

    X, y, U = points
    coarse, exact = model_of(points, kernel="rbf", tol=tol), model_of(points, kernel="rbf")
    family = Family(Fit(coarse, X, y, U, None))
    (described,) = family.path([coarse.delta])
    K = np.ones(len(X) + len(U))  # K(x, x) of the RBF kernel
    lead = coarse.projections(np.vstack([X, U])).max(axis=1)
    certified = lead > np.sqrt(2 * coarse.dual_gap_ * K)
    numbers = described.certified_training, described.certified_universum
    assert numbers == (certified[: len(X)].sum(), certified[len(X) :].sum())
    labels = [fitted.predict(np.vstack([X, U])) for fitted in (coarse, exact)]
    assert np.array_equal(labels[0][certified], labels[1][certified])
    assert tol > 1e-3 or certified.any(), "nothing was certified, so nothing was tested"


def test_the_diagnosis_is_that_of_the_plain_model(points, model, written):
    X, y, U = points
    plain = UniversumSVC(2.0, kernel="linear", tol=1e-8).fit(X, y)
    (expected,) = diagnose(plain, X, y, U)
    shown = written(model, *points)
    assert expected.sentence in shown.section("diagnosis").text
    rows = shown.quantities("diagnosis")
    measures = expected.measures
    assert rows["nuisance"] == [f"{measures.nuisance:+.2f}"]
    assert rows["points"] == ["25"]
    assert rows["mean spread"] == [f"{measures.spread:.3f}"]
    assert rows["label evenness"] == [f"{measures.label_entropy:.3f}"]
    assert rows["beyond the margin"] == [f"{100 * measures.separability:.1f}\xa0%"]
    assert rows["at the margin"] == [f"{100 * measures.piling:.1f}\xa0%"]
    assert rows["inside margins"] == [f"{100 * measures.inside:.1f}\xa0%"]


def test_the_parts_of_a_universum_are_ranked(points, written):
    X, y, U = points
    plain = UniversumSVC(2.0, kernel="linear", tol=1e-8).fit(X, y)
    own = X[y == 0] + 0.01  # taken for class 0
    universum = (own, U)
    shown = written(model_of((X, y, universum)), X, y, universum, deltas=[])
    ranked = list(diagnose(plain, X, y, {"part 1": own, "part 2": U}))
    names = [part.name for part in ranked]
    assert shown.table("diagnosis")[0] == ["quantity", "universum", *names]
    assert shown.quantities("diagnosis")["nuisance"][1:] == [
        f"{part.measures.nuisance:+.2f}" for part in ranked
    ]
    said = shown.section("diagnosis").text
    first, second = (said.index(f"{part.name}: {part.sentence}") for part in ranked)
    assert first < second


def test_the_data_in_numbers(points, model, written):
    U = points[2]
    rows = {name: cells for name, *cells in written(model, *points).table("data")[1:]}
    assert [rows[name][0] for name in ("0", "1", "2", "universum")] == ["14", "11", "9", "25"]
    low, mean, high = (float(minus(cell)) for cell in rows["universum"][1:4])
    assert (low, mean, high) == pytest.approx((U.min(), U.mean(), U.max()), abs=1e-3)


def test_repeated_points_are_mentioned(points, written):
    X, y, U = points
    X, y = np.vstack([X, X[:2]]), np.concatenate([y, y[:2]])
    U = np.vstack([U, X[5]])
    notes = written(model_of((X, y, U)), X, y, U).section("data").text
    assert "2 training points repeat an earlier one." in notes
    assert "1 universum point is also a training point." in notes


def test_the_slider_holds_the_model_itself(points, written):
    U = points[2]
    model = model_of(points, delta=0.37)
    shown = written(model, *points)
    (slider,) = shown.root.all("input", id="delta")
    assert shown.figures["deltas"] == ["0", "0.1", "0.37", "0.45"]
    assert slider.attributes["value"] == "2"
    assert slider.attributes["max"] == "3"
    counts = np.bincount(model.projections(U).argmax(axis=1), minlength=3)
    assert shown.figures["path"][2]["labels"] == counts.tolist()


# ---------------------------------------------------------------------------------------------
# Forms of the data


# At Delta = 0 all decision values of a universum point are equal, and rounding picks its label.
POSITIVE = DELTAS[1:]


def test_all_forms_of_the_universum_give_the_same_report(points, model, written):
    X, y, U = points
    reference = written(model, X, y, U, deltas=POSITIVE)
    in_two = (U[:10], U[10:])
    together, labels = np.vstack([X, U]), np.concatenate([y, np.full(len(U), -1)])
    marked = UniversumSVC(**model.get_params() | {"universum_label": -1}).fit(together, labels)
    sparse = model_of((sp.csr_array(X), y, sp.csr_array(U)))
    settings = {"kernel": "precomputed", "universum_label": -1}
    gram = together @ together.T
    precomputed = UniversumSVC(**model.get_params() | settings).fit(gram, labels)
    forms = {
        "tuple": (model_of((X, y, in_two)), X, y, in_two),
        "label": (marked, together, labels, None),
        "sparse": (sparse, sp.csr_array(X), y, sp.csr_array(U)),
        "precomputed": (precomputed, gram, labels, None),
    }
    for name, form in forms.items():
        again = written(*form, deltas=POSITIVE, overwrite=True)
        assert reference.figures == again.figures, name
        assert (
            again.quantities("models")["objective"] == (reference.quantities("models")["objective"])
        ), name


def test_a_plain_model_is_compared_with_one_that_has_the_universum(points, model, written):
    X, y, U = points
    reference = written(model, X, y, U, deltas=POSITIVE)
    plain = UniversumSVC(2.0, kernel="linear", delta=0.1, tol=1e-8).fit(X, y)
    ignoring = model_of(points, universum_weight=0.0)
    for other in (plain, ignoring):
        again = written(other, X, y, U, deltas=POSITIVE, overwrite=True)
        assert reference.figures == again.figures
        assert "The plain SVM is the model that the report is about" in again.section("models").text


def test_sample_weights_count(points, written):
    X, y, U = points
    weight = np.where(np.arange(len(X)) % 4, 1.0, 3.0)
    weight[5] = 0.0
    model = UniversumSVC(2.0, kernel="linear", delta=0.1, tol=1e-8)
    model.fit(X, y, universum=U, sample_weight=weight)
    plain = UniversumSVC(2.0, kernel="linear", tol=1e-8).fit(X, y, sample_weight=weight)
    shown = written(model, X, y, U, sample_weight=weight).quantities("models")["objective"]
    assert [float(cell) for cell in shown] == pytest.approx(
        [plain.objective_, model.objective_], rel=1e-3
    )
    with pytest.raises(ValueError, match="other sample weights"):
        written(model, X, y, U, overwrite=True)


def test_without_a_universum(points, written):
    X, y, _ = points
    shown = written(UniversumSVC(kernel="linear").fit(X, y), X, y)
    assert shown.root.all("input") == []
    assert shown.figures["n_universum"] == 0
    assert shown.figures["path"] == []
    for section in ("summary", "models", "projections", "diagnosis"):
        assert "No universum was given" in shown.section(section).text, section


def test_two_classes(points, written):
    X, y, U = points
    labels = np.where(y == 0, "yes", "no")
    shown = written(model_of((X, labels, U)), X, labels, U)
    assert shown.figures["classes"] == ["no", "yes"]
    assert [sum(counts) for counts in shown.figures["plain"]["training"]] == [20, 14]


def test_thirty_classes(written):
    X, y = make_blobs(90, n_features=4, centers=30, random_state=0)
    X, U = X / 10, np.random.default_rng(0).normal(size=(12, 4))
    model = UniversumSVC(tol=1e-2).fit(X, y, universum=U)
    shown = written(model, X, y, U)
    assert len(shown.section("projections").all("figure")) == 32
    # A matrix of thirty columns fits no page.
    assert len(shown.section("left-out").all("table")) == 1
    assert len(shown.figures["plain"]["training"]) == 30


def test_functions_and_dictionaries_as_parameters(points, written):
    X, y, U = points

    def half_product(A, B):
        return 0.5 * A @ B.T

    settings = {"class_weight": {0: 2.0, 1: 1.0, 2: 0.5}, "universum_weight": 0.3}
    reference = written(model_of((np.sqrt(0.5) * X, y, np.sqrt(0.5) * U), **settings),
                        np.sqrt(0.5) * X, y, np.sqrt(0.5) * U, deltas=POSITIVE)  # fmt: skip
    model = model_of(points, kernel=half_product, **settings)
    shown = written(model, *points, deltas=POSITIVE, overwrite=True)
    assert shown.quantities("models")["objective"] == reference.quantities("models")["objective"]
    parameters = dict(shown.table("models", 1)[1:])
    assert parameters["kernel"] == "half_product"
    assert parameters["class_weight"] == "{0: 2.0, 1: 1.0, 2: 0.5}"


def test_an_indefinite_kernel_certifies_no_labels(points, written):
    X, y, U = points
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = UniversumSVC(kernel="sigmoid", coef0=-1.0).fit(X, y, universum=U)
    shown = written(model, X, y, U, deltas=[])
    assert "not positive semi-definite" in shown.section("certificate").text
    assert "training labels certified" not in shown.quantities("certificate")


def test_a_model_that_did_not_converge_is_pointed_out(points, written):
    X, y, U = points
    with pytest.warns(match="stopped after 1 round (at|with)"):
        model = model_of(points, kernel="rbf", tol=1e-15, max_iter=1)
    shown = written(model, X, y, U, deltas=[])
    assert shown.quantities("certificate")["reached"][1] == "no"
    assert "The solver stopped before the MU-SVM" in shown.section("certificate").text


# ---------------------------------------------------------------------------------------------
# Searches


@pytest.fixture(scope="module")
def search(points):
    X, y, U = points
    search = UniversumSVCCV(
        [0.1, 1.0, 10.0], kernel="linear", deltas=[0.0, 0.3], universum_weights=["balanced"],
        criterion=3, n_steps=2,
    )  # fmt: skip
    return search.fit(X, y, universum=U)


def test_the_table_of_the_search(points, search, written):
    shown = written(search, *points, deltas=None)
    header, *rows = shown.table("search", 1)
    assert len(rows) == len(search.results_["error"]) == 5
    order = np.argsort(search.results_["soft_error"], kind="stable")
    assert order.tolist() != sorted(order), "a table in its own order would show nothing"
    steps = np.array(["a", "a", "a", "b", "b"])
    assert [row[header.index("step")] for row in rows] == steps[order].tolist()
    assert [row[header.index("error")] for row in rows] == [
        f"{100 * error:.1f}\xa0%" for error in search.results_["error"][order]
    ]
    assert [float(row[header.index("C")]) for row in rows] == search.results_["C"][order].tolist()
    deltas = np.array(["–", "–", "–", "0", "0.3"])
    assert [row[header.index("Δ")] for row in rows] == deltas[order].tolist()
    assert "γ" not in header, "a linear kernel has no gamma"
    body = shown.section("search").all("tbody")[1].all("tr")
    assert [k for k, row in enumerate(body) if row.attributes] == [
        order.tolist().index(search.best_index_)
    ]
    said = shown.section("search").text
    assert "judged by the 3-fold cross-validation error and listed by their soft error" in said


def test_a_search_by_scores_lists_the_highest_first(points, written):
    X, y, U = points
    search = UniversumSVCCV([0.01, 0.1, 1.0], kernel="linear", cv=3, scoring="balanced_accuracy")
    shown = written(search.fit(X, y, universum=U), X, y, U)
    header, *rows = shown.table("search", 1)
    scores = [float(row[header.index("score")]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    assert "listed by their mean score of the folds, the best" in shown.section("search").text


def test_the_summary_of_a_search(points, search, written):
    shown = written(search, *points)
    said = shown.section("summary").text
    comparison = search.comparison_
    assert f"{100 * comparison.plain.error:.1f}\xa0% for the best plain SVM" in said
    assert f"{100 * comparison.universum.error:.1f}\xa0% for the best MU-SVM" in said
    assert "The 3-fold cross-validation error is" in said
    chosen = "MU-SVM" if search.universum_helps_ else "plain SVM"
    assert f"The search chose the {chosen}" in said


def test_the_finalists_are_those_of_the_comparison(points, search, written):
    shown = written(search, *points)
    header, *rows = shown.table("search")
    assert header == ["quantity", "plain SVM", "MU-SVM"]
    cells = {row[0].partition("3-fold")[0]: row[1:] for row in rows}
    found = search.comparison_
    finalists = (found.plain, found.universum)
    assert cells["C"] == [text.compact(f.params["C"]) for f in finalists]
    assert cells["error"] == [text.percent(f.error) for f in finalists]
    (soft,) = (cells[name] for name in cells if name.startswith("soft error"))
    assert soft == [text.percent(f.soft_error) for f in finalists]
    assert cells["right where the other is wrong"] == [
        str(len(found.lost)), str(len(found.gained)),
    ]  # fmt: skip
    said = shown.section("search").text
    assert found.decision in said
    assert all(hint in said for hint in search.hints_)


def test_a_search_that_never_used_the_universum(points, written):
    X, y, U = points
    search = UniversumSVCCV([1.0, 10.0], kernel="linear", universum_weights=[0], criterion="span")
    shown = written(search.fit(X, y, universum=U), X, y, U)
    error = text.percent(search.comparison_.plain.error)
    assert f"The estimated leave-one-out error is {error}." in shown.section("summary").text
    assert errors_of_the_models(shown, search)
    said = shown.section("search").text
    assert "judged by the span bound on the leave-one-out error and listed by their bound" in said
    header, *rows = shown.table("search", 1)
    assert [row[header.index("bound")] for row in rows] == [
        text.percent(bound) for bound in sorted(search.results_["criterion"])
    ]
    assert sum(row[header.index("error")] != text.MISSING for row in rows) == 1


@pytest.mark.parametrize("n_steps", [1, 2])
def test_a_search_in_label_form(points, written, n_steps):
    X, y, U = points
    together = np.vstack([X, U])
    labels = np.concatenate([np.array(["a", "b", "c"])[y], np.full(len(U), "none")])
    search = UniversumSVCCV(
        [1.0, 10.0],
        gammas=[0.1, "scale"],
        deltas=[0.2],
        universum_label="none",
        criterion=[(np.arange(0, 34, 2), np.arange(1, 34, 2))],
        universum_weights=["balanced"],
        n_steps=n_steps,
    ).fit(together, labels)
    shown = written(search, together, labels, deltas=[])
    assert "cross-validation error" in shown.section("search").text
    assert len(shown.table("search", 1)) == 1 + (8 if n_steps == 1 else 5)
    assert errors_of_the_models(shown, search)
    comparison, model = search.comparison_, search.best_estimator_
    said = shown.section("models").text
    for name, finalist in (("plain SVM", comparison.plain), ("MU-SVM", comparison.universum)):
        C, gamma = finalist.params["C"], finalist.params["gamma"]
        is_elsewhere = (C, gamma) != (model.C, model.gamma)
        assert (f"The best {name} of the search is another model" in said) == is_elsewhere
        if is_elsewhere:
            assert f"{name} from here on: it has C = {C:g} and γ = {gamma}." in said


def errors_of_the_models(shown: Page, search: UniversumSVCCV) -> list[str]:
    """The left-out errors of the two models, the same wherever the page shows them."""
    errors = shown.quantities("models")["left-out error"]
    figures = shown.figures
    assert errors == [figures["plain"]["errors"][1], figures["path"][figures["shown"]]["errors"][1]]
    slider = shown.section("projections").text.replace("\n    ", " ")
    assert f"plain SVM with the same C: {figures['plain']['errors'][0]} and {errors[0]}" in slider
    own, name = list(zip(errors, ("plain SVM", "MU-SVM"), strict=True))[search.universum_helps_]
    assert f", {own}, for the {name}" in shown.section("left-out").text
    return errors


def test_every_error_is_named_where_it_stands(points, search, written):
    """Those of the search are of its finalists, all others of the models of the report."""
    shown = written(search, *points)
    assert errors_of_the_models(shown, search)
    said = shown.section("models").text
    assert (
        "Errors from here on are the leave-one-out error of these models; those of the search "
        "above are the 3-fold cross-validation error of its finalists."
    ) in said
    assert "Left-out error of each class, the leave-one-out error" in shown.section("left-out").text
    assert "leave-one-out error" in shown.section("projections").text
    assert "as the model is given them, after any scaling" in shown.section("data").text
    alone = written(search.best_estimator_, *points, overwrite=True).section("models").text
    assert "Errors from here on are the leave-one-out error of these models." in alone


def test_a_search_shows_its_own_deltas(points, search, written):
    deltas = [entry["delta"] for entry in written(search, *points, deltas=None).figures["path"]]
    assert set(search.deltas) < set(deltas)
    assert deltas == sorted(deltas)


# ---------------------------------------------------------------------------------------------
# Untrusted text


def assert_same_structure(hostile: Page, harmless: Page) -> None:
    assert hostile.root.outline() == harmless.root.outline()


def test_names_are_text_wherever_they_appear(points, written):
    pandas = pytest.importorskip("pandas", reason="feature names need pandas")
    X, y, U = points
    pages = []
    for names in (HOSTILE, ["a", "b", "c", "d"]):
        columns = [f"{name} {k}" for k, name in zip(range(5), [*names, "e"], strict=True)]
        labels = np.array(names[:3], dtype=object)[y]
        X_named, U_named = (pandas.DataFrame(rows, columns=columns) for rows in (X, U))
        model = model_of((X_named, labels, U_named))
        pages.append(
            written(model, X_named, labels, U_named, title=names[0] + ".csv", overwrite=True)
        )
    hostile, harmless = pages
    assert_same_structure(hostile, harmless)
    assert hostile.root.all("h1")[0].text == HOSTILE[0] + ".csv"
    assert hostile.root.all("title")[0].text == HOSTILE[0] + ".csv"
    captions = [figure.all("figcaption")[0].text for figure in hostile.root.all("figure")]
    assert captions[:3] == [f"class {name}" for name in sorted(HOSTILE[:3])]
    assert [row[0] for row in hostile.table("data")[1:]] == [*sorted(HOSTILE[:3]), "universum"]
    listed = [item.text for item in hostile.section("data").all("li")]
    assert listed == [f"{name} {k}" for k, name in enumerate([*HOSTILE, "e"])]


names = st.text(st.characters(exclude_categories=()), max_size=200)


@settings(max_examples=40)
@given(st.lists(names, min_size=2, max_size=2, unique=True), names)
def test_no_name_changes_the_structure_of_the_page(tmp_path_factory, labels, title):
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    U = np.array([[1.0, 1.0]])
    pages = []
    for classes, heading in ((labels, title), (["a", "b"], "t")):
        y = np.array([*classes, *classes], dtype=object)
        model = UniversumSVC(kernel="linear").fit(X, y, universum=U)
        path = tmp_path_factory.mktemp("report") / "report.html"
        pages.append(Page(report.write(model, X, y, U, path, deltas=[], title=heading)))
    assert_same_structure(*pages)
    shown = [row[0] for row in pages[0].table("data")[1:3]]
    # A parser may read "\r" as "\n"; names are shown without either.
    assert shown == [text.as_text(name).strip() for name in sorted(labels)]


@given(names)
def test_text_can_be_seen_and_encoded(name):
    shown = text.as_text(name)
    assert shown.encode()
    assert 0 < len(shown) <= text.MAX_LENGTH + 2
    assert shown.strip()
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    plain = name.isprintable() and name.strip() and len(name) <= text.MAX_LENGTH
    assert not plain or shown == name


@given(names)
def test_labels_of_figures_hold_no_tags(name):
    label = text.as_plotly_text(name)
    assert not set("<>$") & set(label)
    assert html.unescape(label) == text.as_text(name, text.MAX_TICK_LENGTH)


def test_directions_cannot_be_turned():
    assert text.as_text("abc\u202egpj.exe") == "abc\\u202egpj.exe"


# ---------------------------------------------------------------------------------------------
# Numbers


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1, 20, 3000, None, math.nan], ["1", "20", "3,000", "–", "–"]),
        ([1.23456, 23.4567, 0.5], ["1.2346", "23.4567", "0.5000"]),
        ([12.3456, 2345.67], ["12.35", "2,345.67"]),
        ([-1.5, 2.0, 138.4], ["−1.5", "2.0", "138.4"]),
        ([1.23456e-7, 1.2e-4], ["1.23e−07", "1.20e−04"]),
        ([2.5e7, 1.0], ["2.50e+07", "1.00e+00"]),
        ([], []),
    ],
)
def test_the_numbers_of_a_column_share_a_format(values, shown):
    assert [text.number_format(values)(value) for value in values] == shown


def test_numbers_of_a_grid_are_shown_as_they_were_typed():
    grid = [1e-4, 0.05, 1.0, 1000.0, 1 / 3]
    assert [text.compact(value) for value in grid] == ["0.0001", "0.05", "1", "1000", "0.3333"]


def test_a_column_with_words_is_text():
    mixed = content.column("weight", ["balanced", 0.5, None, True, max])
    assert mixed.cells == ["balanced", "0.5", "–", "yes", "max"]
    assert not mixed.is_numeric


# ---------------------------------------------------------------------------------------------
# The file


def test_only_the_scripts_of_the_page_may_run_and_nothing_is_loaded(points, model, written):
    shown = written(model, *points)
    (policy,) = (
        meta.attributes["content"]
        for meta in shown.root.all("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in shown.scripts
    }
    assert set(rules["script-src"].split()) == hashes
    for tag in ("link", "img", "iframe", "object", "embed", "base", "form"):
        assert shown.root.all(tag) == [], tag
    sources = [e for tag in ("script", "a") for e in shown.root.all(tag)]
    assert all("src" not in e.attributes for e in sources)
    assert all((e.attributes.get("href") or "#").startswith("#") for e in sources)


def test_an_existing_file_is_kept_unless_asked(points, model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report.write(model, *points, path)
    assert path.read_text() == "precious"
    assert report.write(model, *points, str(path), deltas=[], overwrite=True) == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_appears_meanwhile_is_kept(points, model, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    render = page.render

    def slow_render(content):
        path.write_text("precious")
        return render(content)

    monkeypatch.setattr(page, "render", slow_render)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report.write(model, *points, path, deltas=[])
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_bad_paths_are_refused_before_any_work(points, model, tmp_path, monkeypatch):
    monkeypatch.setattr("musvm.report.document.Document", None)
    with pytest.raises(IsADirectoryError, match="is a directory"):
        report.write(model, *points, tmp_path)
    with pytest.raises(FileNotFoundError, match="no directory"):
        report.write(model, *points, tmp_path / "nowhere" / "report.html")


def test_what_cannot_be_reported_on_is_refused(points, model, tmp_path):
    X, y, U = points
    path = tmp_path / "report.html"
    with pytest.raises(NotFittedError):
        report.write(UniversumSVC(), X, y, U, path)
    with pytest.raises(TypeError, match="got LogisticRegression"):
        report.write(LogisticRegression().fit(X, y), X, y, U, path)
    for other in ((X[::-1], y, U), (X, y, U[:-1]), (X, np.roll(y, 1), U), (X, y, None)):
        with pytest.raises(ValueError, match="data that the model was fitted on"):
            report.write(model, *other, path)
    with pytest.raises(ValueError, match="finite and not negative"):
        report.write(model, X, y, U, path, deltas=[-0.1])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_missing_package_is_named(points, model, tmp_path, monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"musvm\[report\]"):
        report.write(model, *points, tmp_path / "report.html", deltas=[])
