"""Calls that are most likely not meant, and the sentence that says so."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.preprocessing import StandardScaler

import musvm
from musvm import (
    RejectingClassifier,
    UniversumPipeline,
    UniversumSVC,
    UniversumSVCCV,
    loo_error,
    make_universum_pipeline,
    report,
    save,
    verify,
)
from musvm.search import rule
from musvm.universum import WithUniversum

rng = np.random.default_rng(0)
Y = np.arange(30) % 3
X = rng.normal(size=(30, 4)) + 2 * rng.normal(size=(3, 4))[Y]
U = rng.normal(size=(30, 4))
MODELS = {"fit": UniversumSVC(), "search": UniversumSVCCV([1.0], criterion=3, deltas=[0])}


def told(recorded: pytest.WarningsRecorder) -> list[str]:
    """What users were warned of."""
    return [str(w.message) for w in recorded if issubclass(w.category, UserWarning)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("universum", "found"),
    [
        (X, "30 of 30"),
        (np.vstack([X, U, U + 9]), "30 of 90"),
        (np.vstack([X[:14], U[:11]]), "14 of 25"),
    ],
    ids=["X itself", "a table with all of X", "mostly rows of X"],
)
def test_training_points_as_universum(name, universum, found):
    with pytest.warns(UserWarning, match=f"{found} universum rows are rows of X: a universum"):
        MODELS[name].fit(X, Y, universum=universum)


def test_a_universum_that_shares_some_points_with_X_is_fine(recwarn):
    MODELS["fit"].fit(X, Y, universum=np.vstack([X[:10], U]))
    assert told(recwarn) == []


def pipeline():
    return make_universum_pipeline(StandardScaler(), UniversumSVC())


SPLITS = {
    "search": lambda model, U: GridSearchCV(model, {}, cv=3).fit(X, Y, universum=U),
    "predictions": lambda model, U: cross_val_predict(model, X, Y, cv=3, params={"universum": U}),
    "calibration": lambda model, U: CalibratedClassifierCV(model, cv=3).fit(X, Y, universum=U),
}


@pytest.mark.parametrize("make", [UniversumSVC, pipeline])
@pytest.mark.parametrize("name", SPLITS)
def test_a_universum_that_is_split_into_folds(name, make):
    with pytest.warns(UserWarning, match=r"splits it into folds with X. Pass universum=\(U,\)"):
        SPLITS[name](make(), U)
    SPLITS[name](make(), (U,))


def test_as_many_universum_points_as_training_points_are_fine_elsewhere(recwarn):
    UniversumSVC().fit(X, Y, universum=U)
    made = WithUniversum(UniversumSVC(), m=20, random_state=0)
    GridSearchCV(made, {}, cv=3).fit(X, Y)  # which trains on 20 points
    assert told(recwarn) == []


def test_calibration_as_the_last_step_of_a_pipeline():
    last = CalibratedClassifierCV(UniversumSVC(), ensemble=False)
    inside = make_universum_pipeline(StandardScaler(), last)
    with pytest.raises(ValueError, match="Put the pipeline into CalibratedClassifierCV instead"):
        inside.fit(X, Y, universum=U)
    outside = CalibratedClassifierCV(pipeline(), ensemble=False)
    assert outside.fit(X, Y, universum=(U,)).predict_proba(X).shape == (30, 3)


def test_rejection_without_its_label():
    with pytest.raises(ValueError, match="no class, such as reject_label=-1"):
        RejectingClassifier(UniversumSVC()).fit(X, Y)
    with pytest.raises(ValueError, match="such as reject_label='none'"):
        RejectingClassifier(UniversumSVC()).fit(X, Y.astype(str))
    with pytest.raises(ValueError, match="reject_label is NaN, which equals no label"):
        RejectingClassifier(UniversumSVC(), np.nan).fit(X, Y)


def test_a_class_of_a_single_point_is_hinted_at():
    points, labels = np.vstack([X, U[:1]]), np.r_[Y, 7]
    told = UniversumSVCCV([1.0], deltas=[0]).fit(points, labels).hints_
    assert "There is a single training point of class 7: left out, nothing can tell its label." in (
        told
    )
    assert not any("single" in hint for hint in UniversumSVCCV([1.0]).fit(X, Y).hints_)


LABELLED = r"Part 1 of universum has 1 dimension\(s\), and part 0 has 2: .* has no labels\.$"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("universum", "said"),
    [
        ((U, Y), LABELLED),
        ([U.tolist(), Y.tolist()], LABELLED),
        ([[1.0, 2.0, 3.0, 4.0], [1.0]], r"^universum has rows of different lengths\.$"),
        (([[1.0, 2.0], [1.0]],), r"^universum has rows of different lengths\.$"),
    ],
    ids=["labels", "labels in lists", "ragged", "ragged part"],
)
def test_a_universum_with_labels_or_rows_of_different_lengths(name, universum, said):
    with pytest.raises(ValueError, match=said):
        MODELS[name].fit(X, Y, universum=universum)


def test_a_step_without_its_parentheses():
    said = r"The step UniversumSVC is a class, not an estimator: pass UniversumSVC\(\)\."
    with pytest.raises(TypeError, match=said):
        make_universum_pipeline(StandardScaler(), UniversumSVC)
    with pytest.raises(TypeError, match=said):
        UniversumPipeline([("scale", StandardScaler()), ("svm", UniversumSVC)]).fit(X, Y)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GridSearchCV(UniversumSVC(), {}, cv=2), "got GridSearchCV. Pass its best_est"),
        (
            lambda: GridSearchCV(pipeline(), {}, cv=2),
            "got GridSearchCV. Pass its best_estimator_. For a pipeline pass its last step",
        ),
        (lambda: RejectingClassifier(UniversumSVC(), -1, target=0.5), "Pass its estimator_.$"),
        (pipeline, "For a pipeline pass its last step"),
    ],
)
def test_a_report_about_what_holds_a_model_says_what_to_pass(make, said, tmp_path):
    pytest.importorskip("plotly", reason="the report needs plotly")
    model = make().fit(X, Y)
    with pytest.raises(TypeError, match=said):
        report.write(model, X, Y, None, tmp_path / "report.html")


def test_rejection_is_not_verified_as_a_whole():
    model = RejectingClassifier(UniversumSVC(), -1, target=0.5).fit(X, Y)
    for ask in (verify, loo_error):
        with pytest.raises(TypeError, match=r"got RejectingClassifier\. Pass its estimator_\.$"):
            ask(model, X, Y)


@pytest.mark.parametrize("name", MODELS)
def test_a_universum_without_points_is_told(name):
    with pytest.warns(UserWarning, match="universum has no points") as caught:
        MODELS[name].fit(X, Y, universum=U[:0])
    assert caught[0].filename == __file__


def frame(points, names):
    return pd.DataFrame(points, columns=names)


@pytest.mark.parametrize("names", [[0, 1, 2, 3], ["a", "b", "c", "d"]], ids=["numbers", "texts"])
def test_columns_of_a_universum_in_another_order(names):
    with pytest.raises(ValueError, match=f"column 0 is {names[0]!r} in X, but {names[-1]!r} in"):
        UniversumSVC().fit(frame(X, names), Y, universum=frame(U, names)[names[::-1]])
    # Numbers that are other numbers are how tables are made of arrays.
    if names[0] == 0:
        UniversumSVC().fit(frame(X, names), Y, universum=frame(U, [7, 8, 9, 10]))


def test_a_table_as_universum_beside_an_array():
    table = frame(U, list("abcd"))
    with pytest.warns(UserWarning, match="universum has names of columns and X has none") as told:
        model = UniversumSVC().fit(X, Y, universum=table)
    assert len(told) == 1
    loo_error(model, X, Y, table)  # which asks about the fit, and was told
    UniversumSVC().fit(X, Y, universum=frame(U, range(4)))


@pytest.mark.parametrize("time", [pd.Timestamp("2024-05-01"), pd.Timestamp("2024-05-01", tz="UTC")])
def test_columns_of_times_are_named(time):
    names = list("abcd")
    good, bad = frame(X, names), frame(U, names).assign(c=time)
    said = r"^Column 'c' of {} holds times \(datetime64.*\), and numbers are needed"
    with pytest.raises(ValueError, match=said.format("universum")):
        UniversumSVC().fit(good, Y, universum=bad)
    with pytest.raises(ValueError, match=said.format("X")):
        UniversumSVC().fit(bad, Y, universum=good)


def test_a_model_that_cannot_be_saved_for_want_of_a_folder(tmp_path):
    pytest.importorskip("skops", reason="model files need skops")
    model = UniversumSVC().fit(X, Y)
    with pytest.raises(FileNotFoundError, match=r"there is no such folder: '.*absent'$"):
        save(model, tmp_path / "absent" / "model.skops")


def test_a_fitted_model_is_shown_without_its_numbers():
    model = UniversumSVC().fit(X, Y, universum=U)
    n, m = len(model.support_), len(model.universum_support_)
    assert repr(model.model_).endswith(
        f"3 classes, {n} support vectors of the training points and {m} of the universum)"
    )
    assert "array" not in repr(model.model_)


def test_the_package_lists_what_users_import():
    public = {name for name in dir(musvm) if not name.startswith("_")}
    assert public == {*musvm.__all__, "datasets", "report", "torch", "universum"}


@pytest.mark.parametrize("method", ["span", "span-2016", "loo-estimate", "loo"])
def test_a_bound_is_not_shown_as_an_error(method):
    found = loo_error(UniversumSVC().fit(X, Y), X, Y, method=method)
    is_bound = method.startswith("span")
    assert found.is_error != is_bound
    assert ("a bound and no error" in repr(found)) == is_bound
    assert f"{found.error:.4g}" in repr(found)


def test_columns_of_other_names_are_told_apart_in_a_line():
    frame = pd.DataFrame(np.zeros((30, 64)), columns=[f"pixel {k}" for k in range(64)])
    other = frame.rename(columns={"pixel 40": "Pixel 40"})
    with pytest.raises(ValueError, match=r"column 40 is 'pixel 40' in X, but 'Pixel 40'") as error:
        UniversumSVC().fit(frame, Y, universum=other)
    assert len(str(error.value)) < 200


def changed(points: np.ndarray, row: int) -> np.ndarray:
    points = points.copy()
    points[row] += 1
    return points


DIFFERENCES = {
    "its classes are 0, 1, 2, these are 1, 2, 3": (X, Y + 1, U),
    "its X had 30 rows, this one has 29": (X[:-1], Y[:-1], U),
    "its universum had 30 rows, this one has 0": (X, Y, None),
    "its universum had 30 rows, this one has 12": (X, Y, U[:12]),
    "row 1 of y is another": (X, np.r_[Y[0], 2, Y[2:]], U),
    "row 2 of X has other values": (changed(X, 2), Y, U),
    "row 3 of universum has other values": (X, Y, changed(U, 3)),
    "the rows are in another order": (X, Y, U[::-1]),
}


@pytest.mark.parametrize("ask", [verify, loo_error])
@pytest.mark.parametrize("difference", DIFFERENCES)
def test_other_data_than_those_of_the_fit(difference, ask):
    # With a small C all points are support vectors, which the model remembers.
    model = UniversumSVC(C=0.01).fit(X, Y, universum=U)
    points, labels, universum = DIFFERENCES[difference]
    with pytest.raises(ValueError, match=difference):
        ask(model, points, labels, universum=universum)


def test_a_row_that_the_model_does_not_remember():
    far = np.vstack([X, 50 + np.zeros((1, 4)), 50.1 + np.zeros((1, 4))])
    labels = np.r_[Y, 0, 0]
    model = UniversumSVC(kernel="linear", C=100).fit(far, labels)
    forgotten = np.setdiff1d(np.arange(32), model.support_)
    assert len(forgotten)
    with pytest.raises(ValueError, match="no support vector, or its label, is another"):
        verify(model, changed(far, forgotten[0]), labels)


def test_a_universum_that_was_not_used_need_not_be_there():
    model = UniversumSVC(universum_weight=0).fit(X, Y, universum=U)
    plain = UniversumSVC().fit(X, Y)
    assert verify(model, X, Y) == verify(model, X, Y, universum=U) == verify(plain, X, Y)
    without, with_it, expected = (
        loo_error(fitted, X, Y, universum=universum, method="loo")
        for fitted, universum in ((model, None), (model, U), (plain, None))
    )
    for found in (without, with_it):
        np.testing.assert_array_equal(found.decision_values, expected.decision_values)
        np.testing.assert_array_equal(found.types, expected.types)


def test_a_search_certifies_the_labels_of_its_model():
    search = UniversumSVCCV([1.0, 10.0], criterion=3, tol=1e-2).fit(X, Y, universum=U)
    found = search.certified(X)
    np.testing.assert_array_equal(found, search.best_estimator_.certified(X))
    assert 0 < found.mean() < 1


def test_comparison_and_verification_are_printed_as_tables():
    search = UniversumSVCCV([1.0], criterion=3, deltas=[0]).fit(X, Y, universum=U)
    found = search.comparison_
    head, plain, universum, *words = repr(found).splitlines()
    assert head.split() == ["error", "soft", "error", "parameters"]
    assert plain.split()[2:4] == [f"{found.plain.error:.2%}", f"{found.plain.soft_error:.2%}"]
    assert "universum_weight" not in plain
    assert universum.split()[2] == f"{found.universum.error:.2%}"
    assert f"universum_weight={found.universum.params['universum_weight']:.4g}" in universum
    assert words[0] == f"Errors are the {found.criterion}."
    assert words[1] == rule.IN_WORDS
    assert words[2].lower() == f"{found.change}."
    assert words[3:] == [found.decision]
    checked = verify(search, X, Y, universum=U)
    _, objective, gap, relative, infeasibility, verdict = repr(checked).splitlines()
    assert objective.split()[1:] == [f"{checked.primal:.6g}", f"{checked.claimed_primal:.6g}"]
    assert gap.split()[-1] == f"{checked.claimed_gap:.2e}"
    assert relative.split()[-2] == f"{checked.relative_gap:.2e}"
    assert infeasibility.split()[1] == f"{checked.infeasibility:.1e}"
    assert verdict.endswith("The certificate holds.")
    page = checked._repr_html_()
    assert f"<td>{checked.primal:.6g}</td><td>{checked.claimed_primal:.6g}</td>" in page
    assert verdict in page


@pytest.mark.parametrize("universum", [None, U], ids=["plain", "with universum"])
def test_a_notebook_shows_the_figures_of_the_printed_comparison(universum):
    found = UniversumSVCCV([1.0], criterion=3, deltas=[0]).fit(X, Y, universum=universum)
    page = found.comparison_._repr_html_().replace("<br>", "\n")
    table = ElementTree.fromstring(f"<div>{page}</div>")
    rows = [[cell.text or "" for cell in row] for row in table.iter("tr")]
    lines = str(found.comparison_).splitlines()
    printed = [re.split(r"\s{2,}", line.strip()) for line in lines[: len(rows)]]
    assert rows == [["", *printed[0]], *printed[1:]]
    assert table.find("p").text.splitlines() == lines[len(rows) :]


def test_these_calls_are_silent_where_nothing_is_wrong(recwarn):
    for model in MODELS.values():
        model.fit(X, Y, universum=U)
    assert told(recwarn) == []


class Loader:
    """Gives batches of points and labels one after the other, as PyTorch's DataLoader does."""

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([(np.zeros((2, 4)), np.zeros(2))] * 3)


@pytest.mark.parametrize("points", [Loader(), iter([[0.0], [1.0]])], ids=["loader", "iterator"])
def test_points_that_come_one_after_the_other_are_refused(points):
    said = f"^X must be an array or a tensor .* got a {type(points).__name__}: put its pieces"
    rows, labels = np.eye(6, 4), np.arange(6) % 2
    for model in (UniversumSVC(), UniversumSVCCV([1.0], criterion=2)):
        with pytest.raises(TypeError, match=said):
            model.fit(points, labels)
        with pytest.raises(TypeError, match=said):
            model.fit(rows, labels).predict(points)
