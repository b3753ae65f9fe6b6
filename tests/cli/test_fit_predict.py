"""`musvm fit` and `musvm predict`: what a user gets, and what a mistake is answered with."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import sys

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables need pandas")
pytest.importorskip("skops", reason="model files need skops")

import pandas
from sklearn.model_selection import StratifiedKFold
from typer.testing import CliRunner

import cli_tables
import model_files
import musvm
from musvm import UniversumSVC, UniversumSVCCV
from musvm.cli import app
from musvm.cli.tables import Columns, preparation
from musvm.io.model_file import load_with_header

# One value each, so that a test fits a handful of models.
FIXED = ["--select", "2", "--C", "1,10", "--delta", "0.1"]


def run(*arguments, input=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=input)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cli_tables.write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder):
    result = run("fit", "train.csv", "--universum", "others.csv", *FIXED)
    assert result.exit_code == 0, result.output
    return folder / "model.skops"


def files(folder):
    return sorted(path.name for path in folder.iterdir())


TABLES = ["marked.csv", "new.csv", "others.csv", "train.csv"]


# ---------------------------------------------------------------------------------------------
# Fitting


def test_the_model_is_the_one_that_python_gives(model, folder):
    """The preparation fitted to training rows, the search, and the winner, by hand."""
    frame = pandas.read_csv("train.csv")
    y, X, U = frame["species"], frame.drop(columns="species"), pandas.read_csv("others.csv")
    ((_, prepare),) = preparation(Columns(5, tuple(X.columns), ("colour",)))
    made = prepare.fit_transform(X)
    search = UniversumSVCCV([1, 10], deltas=[0.1], criterion=2)
    search.fit(made, y.to_numpy(dtype=str), universum=(prepare.transform(U),))
    new = pandas.read_csv("new.csv").drop(columns="species")
    np.testing.assert_allclose(
        musvm.load(model).decision_function(new),
        search.decision_function(prepare.transform(new)),
        rtol=0,
        atol=1e-12,
    )


def test_a_universum_in_the_same_file_gives_the_same_model(model, folder):
    arguments = ["marked.csv", "--universum-label", "other", "--out", "marked.skops", *FIXED]
    assert run("fit", *arguments).exit_code == 0
    new = pandas.read_csv("new.csv").drop(columns="species")
    one, other = musvm.load(model), musvm.load("marked.skops")
    np.testing.assert_array_equal(one.decision_function(new), other.decision_function(new))
    assert one.classes_.tolist() == cli_tables.SPECIES.tolist()


def test_standard_input_gives_the_same_model(model, folder):
    text = (folder / "train.csv").read_bytes()
    result = run(
        "fit", "-", "--universum", "others.csv", "--out", "piped.skops", *FIXED, input=text
    )
    assert result.exit_code == 0, result.output
    new = pandas.read_csv("new.csv").drop(columns="species")
    np.testing.assert_array_equal(
        musvm.load(model).decision_function(new), musvm.load("piped.skops").decision_function(new)
    )


@pytest.mark.parametrize("format", ["parquet", "npz", "libsvm"])
def test_other_formats(folder, format):
    frame = cli_tables.flowers().drop(columns="colour").dropna()
    X, y = frame.iloc[:, :4].to_numpy(), frame["species"].to_numpy(dtype=str)
    name = f"table.{format}"
    if format == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        frame.to_parquet(name)
    elif format == "npz":
        np.savez(name, X=X, y=y)
    else:
        codes = np.unique(y, return_inverse=True)[1]
        lines = [
            f"{code} " + " ".join(f"{k + 1}:{v}" for k, v in enumerate(row))
            for code, row in zip(codes, X.tolist(), strict=True)
        ]
        (folder / name).write_text("\n".join(lines) + "\n")
    assert run("fit", name, *FIXED).exit_code == 0
    result = run("predict", "model.skops", name)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == len(X) + 1
    right = float(re.search(r"([\d.]+)% of the 149 labelled rows", result.stderr)[1])
    assert right > 90


def test_fit_tells_what_was_done(folder):
    result = run("fit", "train.csv", "--universum", "others.csv", *FIXED)
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines())
    assert facts["training"] == ("train.csv: 75 rows, 3 classes, 5 columns, 1 of them categorical")
    assert facts["classes"] == "setosa (25), versicolor (25), virginica (25)"
    assert facts["universum"] == "others.csv: 30 rows"
    assert facts["chosen by"] == "the 2-fold cross-validation error, 10 settings"
    assert re.fullmatch(r"relative duality gap \d\.\de-\d\d", facts["certificate"])
    assert facts["model"] == "model.skops"
    assert "labels are those of the last column, 'species'" in result.stderr
    assert "\x1b" not in result.output


def test_json_says_the_same_and_nothing_else(folder):
    result = run("fit", "train.csv", "--universum", "others.csv", "--json", *FIXED)
    document = json.loads(result.stdout)
    assert document["training"]["classes"] == {"setosa": 25, "versicolor": 25, "virginica": 25}
    assert document["input"]["categorical"] == ["colour"]
    assert document["written"] == {"model": "model.skops"}
    header = musvm.io.model_file.load_with_header("model.skops")[1]
    assert {**header.summary, **document} == {**header.summary, "written": document["written"]}


def test_the_report_is_written(folder):
    pytest.importorskip("plotly", reason="the report needs plotly")
    arguments = ["train.csv", "--universum", "others.csv", "--report", "report.html", *FIXED]
    result = run("fit", *arguments)
    assert result.exit_code == 0, result.output
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<html" in page
    assert "virginica" in page
    assert result.stdout.splitlines()[-1].split() == ["report", "report.html"]


def test_without_plotly_the_report_is_refused_before_any_work(folder, monkeypatch):
    monkeypatch.setattr("musvm.cli.fit.find_spec", lambda name: None)
    result = run("fit", "train.csv", "--report", "report.html")
    assert result.exit_code == 1
    assert (
        result.stderr == "Error: a report needs the package plotly: pip install 'musvm[report]'\n"
    )
    assert files(folder) == TABLES


def test_categories_of_the_universum_that_training_lacks_are_told(folder):
    others = pandas.read_csv("others.csv").assign(colour="green")
    others.to_csv("others.csv", index=False)
    result = run("fit", "train.csv", "--universum", "others.csv", *FIXED)
    assert result.exit_code == 0
    assert "column 'colour' has categories that training has not: 'green'" in result.stderr


def test_several_universa(folder):
    result = run(
        "fit", "train.csv", "--universum", "others.csv", "--universum", "others.csv", *FIXED
    )
    assert result.exit_code == 0, result.output
    assert "others.csv: 30 rows, others.csv: 30 rows" in result.stdout


# ---------------------------------------------------------------------------------------------
# Files are never lost


def test_existing_files_are_not_overwritten_without_force(folder):
    (folder / "model.skops").write_text("precious")
    result = run("fit", "train.csv", *FIXED)
    assert result.exit_code == 2
    assert "model.skops exists; pass --force" in result.stderr
    assert (folder / "model.skops").read_text() == "precious"
    assert run("fit", "train.csv", "--force", *FIXED).exit_code == 0
    musvm.load("model.skops")


def test_a_full_disk_leaves_the_old_file(folder, monkeypatch):
    (folder / "model.skops").write_text("precious")

    def full_disk(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("musvm._files.os.replace", full_disk)
    result = run("fit", "train.csv", "--force", *FIXED)
    assert result.exit_code == 1
    assert "model.skops: cannot be written: No space left on device" in result.stderr
    assert (folder / "model.skops").read_text() == "precious"
    assert files(folder) == sorted(["model.skops", *TABLES])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.csv"], 1, "absent.csv: cannot be read: No such file or directory"),
        (["train.csv", "--target", "kind"], 1, "train.csv: there is no column 'kind'"),
        (["train.csv", "--universum", "absent.csv"], 1, "absent.csv: cannot be read"),
        (["train.csv", "--universum-label", "x"], 1, "no row has the universum label 'x'"),
        (["train.csv", "--universum", "others.csv", "--universum-label", "x"], 2, "either"),
        (["train.csv", "--select", "1"], 2, "--select"),
        (["train.csv", "--select", "best"], 2, "loo-estimate"),
        (["train.csv", "--kernel", "magic"], 2, "--kernel"),
        (["train.csv", "--C", "1,x"], 2, "'x' cannot be used: give numbers above 0"),
        (["train.csv", "--C", "-1"], 2, "'-1' cannot be used: give numbers above 0"),
        (["train.csv", "--gamma", "wide"], 2, "or scale or auto"),
        (["train.csv", "--delta", "nan"], 2, "'nan' cannot be used: give numbers 0 or above"),
        (["train.csv", "--jobs", "0"], 2, "use -1 for all cores"),
        (["train.csv", "--out", "missing/model.skops"], 2, "no such folder: missing"),
        (["train.csv", "--out", "."], 2, "is a folder"),
        (["train.csv", "--format", "xls"], 2, "--format"),
        (["train.csv", "--target", "petal width"], 1, "different labels in 75 rows, such as"),
        (["train.csv", "--ignore", "nonsense"], 1, "no column 'nonsense'"),
        (["-", "--universum", "-"], 2, "standard input can be read only once"),
    ],
)
def test_a_mistake_is_one_message_and_no_file(folder, arguments, code, message):
    result = run("fit", *arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    assert files(folder) == TABLES


def test_a_class_too_small_for_the_folds_is_a_message(folder):
    frame = pandas.read_csv("train.csv").iloc[[*range(50), 51]]
    frame.to_csv("small.csv", index=False)
    result = run("fit", "small.csv", "--select", "5", "--C", "1")
    assert result.exit_code in (0, 1)
    assert "Traceback" not in result.output
    assert "virginica" in result.stderr or "class" in result.stderr


def test_one_class_only(folder):
    pandas.read_csv("train.csv").iloc[:20].to_csv("one.csv", index=False)
    result = run("fit", "one.csv")
    assert result.exit_code == 1
    assert "there must be at least two classes; all labels are 'setosa'" in result.stderr


# ---------------------------------------------------------------------------------------------
# Predicting


def test_predictions_are_csv_in_the_order_of_the_rows(model):
    result = run("predict", "model.skops", "new.csv", "--scores")
    assert result.exit_code == 0, result.output
    frame = pandas.read_csv(io.StringIO(result.stdout))
    loaded, new = musvm.load(model), pandas.read_csv("new.csv").drop(columns="species")
    assert frame["prediction"].tolist() == loaded.predict(new).tolist()
    scores = frame[[f"score: {name}" for name in cli_tables.SPECIES]].to_numpy()
    np.testing.assert_array_equal(scores, loaded.decision_function(new))


def test_the_share_of_correct_predictions_is_told(model):
    result = run("predict", "model.skops", "new.csv")
    new = pandas.read_csv("new.csv")
    predicted = result.stdout.splitlines()[1:]
    share = np.mean([p == t for p, t in zip(predicted, new["species"], strict=True)])
    assert f"{share:.2%} of the 75 labelled rows are predicted correctly" in result.stderr
    new.drop(columns="species").to_csv("bare.csv", index=False)
    assert "labelled" not in run("predict", "model.skops", "bare.csv").stderr


def test_standard_input_and_output_file_give_the_same(model, folder):
    plain = run("predict", "model.skops", "new.csv").stdout
    piped = run("predict", "model.skops", "-", input=(folder / "new.csv").read_bytes())
    assert piped.stdout == plain
    assert run("predict", "model.skops", "new.csv", "--out", "answer.csv").stdout == ""
    assert (folder / "answer.csv").read_text() == plain
    again = run("predict", "model.skops", "new.csv", "--out", "answer.csv")
    assert again.exit_code == 2
    assert "answer.csv exists" in again.stderr


def test_json_predictions(model):
    result = run("predict", "model.skops", "new.csv", "--scores", "--json")
    document = json.loads(result.stdout)
    assert document["classes"] == cli_tables.SPECIES.tolist()
    assert len(document["predictions"]) == len(document["scores"]) == 75


def test_two_classes_have_one_score(folder):
    frame = pandas.read_csv("train.csv")
    frame[frame["species"] != "setosa"].to_csv("two.csv", index=False)
    assert run("fit", "two.csv", *FIXED).exit_code == 0
    result = run("predict", "model.skops", "two.csv", "--scores")
    answers = pandas.read_csv(io.StringIO(result.stdout))
    assert answers.columns.tolist() == ["prediction", "score"]
    positive = answers["score"] > 0
    assert (answers["prediction"] == np.where(positive, "virginica", "versicolor")).all()


def test_integer_labels_stay_integers(folder):
    frame = pandas.read_csv("train.csv")
    frame["species"] = np.unique(frame["species"], return_inverse=True)[1] + 1
    frame.to_csv("numbered.csv", index=False)
    assert run("fit", "numbered.csv", *FIXED).exit_code == 0
    assert musvm.load("model.skops").classes_.tolist() == [1, 2, 3]
    document = json.loads(run("predict", "model.skops", "new.csv", "--json").stdout)
    assert set(document["predictions"]) <= {1, 2, 3}


def test_rejection_is_a_threshold_that_the_promised_share_passes(model):
    loaded, header = musvm.io.model_file.load_with_header(model)
    threshold = header.summary["rejection"]["threshold"]
    for name in ("train.csv", "others.csv"):
        result = run("predict", "model.skops", name, "--reject", "--reject-label", "?")
        assert result.exit_code == 0, result.output
        scores = np.ptp(loaded.decision_function(pandas.read_csv(name)), axis=1)
        rejected = [answer == "?" for answer in result.stdout.splitlines()[1:]]
        assert rejected == (scores < threshold).tolist()
        share = f"{np.mean(rejected):.1%}"
        if name == "others.csv":
            assert f"{share} of {len(scores)} rows were rejected" in result.stderr
        else:
            assert f"rejected were {share} of the rows of the classes\n" in result.stderr
            species = pandas.read_csv(name)["species"]
            right = np.mean(species == result.stdout.splitlines()[1:])
            assert f"{right:.2%} of the {len(species)} labelled rows" in result.stderr
            # 95 % pass when they are left out; here the model has seen them.
            assert np.mean(rejected) <= 0.05


def test_the_reject_label_must_not_be_a_class(model):
    result = run("predict", "model.skops", "new.csv", "--reject", "--reject-label", "setosa")
    assert result.exit_code == 2
    assert "'setosa' is one of the classes" in result.stderr


def test_a_model_without_threshold_says_so(folder):
    X = pandas.read_csv("train.csv").iloc[:, :4].fillna(0)
    musvm.save(UniversumSVC().fit(X, pandas.read_csv("train.csv")["species"]), "own.skops")
    result = run("predict", "own.skops", "new.csv", "--reject")
    assert result.exit_code == 1
    assert "own.skops: has no threshold for --reject" in result.stderr


def test_columns_in_another_order_are_refused_by_name(model):
    frame = pandas.read_csv("new.csv")
    plain = run("predict", "model.skops", "new.csv").stdout
    frame[frame.columns[::-1]].to_csv("turned.csv", index=False)
    result = run("predict", "model.skops", "turned.csv")
    assert result.exit_code == 1
    assert "'colour' stands where 'sepal length' was" in result.stderr
    assert result.stdout == ""
    assert run("predict", "model.skops", "turned.csv", "--reorder").stdout == plain


def test_missing_and_unknown_columns(model):
    frame = pandas.read_csv("new.csv")
    frame.drop(columns="colour").to_csv("lacking.csv", index=False)
    result = run("predict", "model.skops", "lacking.csv")
    assert result.exit_code == 1
    assert "lacking.csv: lacks the column 'colour'" in result.stderr
    frame.assign(id="x").to_csv("more.csv", index=False)
    result = run("predict", "model.skops", "more.csv")
    assert result.exit_code == 0
    assert "ignored 'id'" in result.stderr


def test_unknown_categories_and_gaps_are_predicted(model):
    frame = pandas.read_csv("new.csv").drop(columns="species")
    frame.loc[0, "colour"] = "green"
    frame.loc[1] = None
    frame.to_csv("odd.csv", index=False)
    result = run("predict", "model.skops", "odd.csv")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 76
    assert "'green'" in result.stderr


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and so on", b"\x80\x05pickle", b"text"])
def test_a_file_that_is_no_model_is_refused(folder, content):
    (folder / "bad.skops").write_bytes(content)
    for command in (["predict", "bad.skops", "new.csv"], ["inspect", "bad.skops"]):
        result = run(*command)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: bad.skops is not a model that musvm can read")
        assert result.stdout == ""


def test_a_model_whose_columns_are_in_disorder_is_one_line_of_error(model):
    """Types that are trusted, in a state that no fit leaves behind."""

    def change(schema):
        for node in model_files.nodes(schema):
            content = node.get("content")
            if isinstance(content, dict) and "transformers_" in content:
                content["transformers_"] = model_files.text([["categories", 5, [[1], [2]]]])

    path = model
    path.write_bytes(model_files.with_json(path.read_bytes(), "schema.json", change))
    result = run("predict", "model.skops", "new.csv")
    assert result.exit_code == 1
    assert "model.skops: cannot be applied to new.csv" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_made_in_python_is_as_good(folder):
    frame = pandas.read_csv("train.csv")
    X, y = frame.iloc[:, :4].fillna(0.0), frame["species"].to_numpy(dtype=str)
    fitted = UniversumSVC().fit(X, y)
    musvm.save(fitted, "own.skops")
    result = run("predict", "own.skops", "train.csv")
    assert result.exit_code == 1, (
        "the gap in the data is the model's business, and it has no answer"
    )
    assert "own.skops: cannot be applied to train.csv (ValueError" in result.stderr
    X.to_csv("full.csv", index=False)
    result = run("predict", "own.skops", "full.csv")
    assert result.stdout.splitlines()[1:] == fitted.predict(X).tolist()


# ---------------------------------------------------------------------------------------------
# Inspecting and exporting


def test_a_classifier_that_rejects_by_itself_answers_for_itself(folder):
    frame = pandas.read_csv("train.csv").drop(columns="colour").dropna()
    X, y = frame.iloc[:, :4], frame["species"]
    clf = musvm.RejectingClassifier(UniversumSVC(C=10), "none", target=0.8).fit(X, y)
    musvm.save(clf, folder / "rejecting.skops")
    X.to_csv("numbers.csv", index=False)
    result = run("predict", "rejecting.skops", "numbers.csv")
    assert result.exit_code == 0, result.output
    expected = clf.predict(X)
    assert {"none", "setosa"} < set(expected)
    # "none" is also what pandas takes for a missing value.
    found = pandas.read_csv(io.StringIO(result.stdout), keep_default_na=False)
    assert found["prediction"].tolist() == expected.tolist()
    for option in ("--scores", "--reject"):
        refused = run("predict", "rejecting.skops", "numbers.csv", option)
        assert refused.exit_code == 1
        assert f"leave out {option}" in refused.output


def test_inspect_shows_what_the_file_says(model):
    result = run("inspect", "model.skops")
    assert result.exit_code == 0
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines())
    assert facts["model"] == "ColumnTransformer > UniversumSVC"
    assert facts["classes"] == "setosa (25), versicolor (25), virginica (25)"
    assert f"musvm {musvm.__version__}" in facts["file"]
    document = json.loads(run("inspect", "model.skops", "--json").stdout)
    assert document["format_version"] == 1
    assert document["summary"]["target"] == "species"


def test_inspect_verifies_the_certificate(model):
    arguments = ["inspect", "model.skops", "--verify", "train.csv", "--universum", "others.csv"]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert re.search(r"certificate +holds", result.stdout)
    document = json.loads(run(*arguments, "--json").stdout)
    assert document["verified"]["holds"]
    claimed = document["summary"]["objective"]
    assert document["verified"]["primal"] == pytest.approx(claimed, rel=1e-9)
    refused = run("inspect", "model.skops", "--verify", "new.csv", "--universum", "others.csv")
    assert refused.exit_code == 1
    assert "new.csv: line 4 has other values than in the fit" in refused.stderr


def test_inspect_finds_a_wrong_certificate(model):
    pipeline = musvm.load("model.skops")
    classifier = pipeline[-1]
    fitted = classifier.model_
    classifier.model_ = dataclasses.replace(fitted, dual_coef=0.5 * fitted.dual_coef)
    _, header = load_with_header("model.skops")
    musvm.save(pipeline, "model.skops", summary=header.summary)
    result = run("inspect", "model.skops", "--verify", "train.csv", "--universum", "others.csv")
    assert result.exit_code == 1
    assert re.search(r"certificate +WRONG", result.stdout)


def test_export_runs_elsewhere(model, folder):
    pytest.importorskip("onnx", reason="the export needs onnx")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the graph needs a runtime")
    result = run("export", "model.skops", "model.onnx")
    assert result.exit_code == 0, result.output
    assert "numbers, categories" in result.stdout
    new = pandas.read_csv("new.csv").drop(columns="species")
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    decision, _ = session.run(
        None,
        {
            "numbers": new.iloc[:, :4].to_numpy(),
            "categories": new[["colour"]].fillna("").to_numpy(dtype=object),
        },
    )
    expected = musvm.load(model).decision_function(new)
    np.testing.assert_allclose(decision, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert run("export", "model.skops", "model.onnx").exit_code == 2
    assert run("export", "model.skops", "model.onnx", "--force").exit_code == 0


def test_export_without_onnx_names_the_extra(model, monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = run("export", "model.skops", "model.onnx")
    assert result.exit_code == 1
    assert "pip install 'musvm[onnx]'" in result.stderr
    assert "model.onnx" not in files(folder)


def test_the_search_as_a_whole_is_cross_validated_on_request(folder):
    result = run("fit", "train.csv", "--universum", "others.csv", "--nested", "3", "--json", *FIXED)
    found = json.loads(result.stdout)["nested"]
    frame = pandas.read_csv("train.csv")
    y, X = frame["species"].to_numpy(dtype=str), frame.drop(columns="species")
    ((_, prepare),) = preparation(Columns(5, tuple(X.columns), ("colour",)))
    made = prepare.fit_transform(X)
    U = prepare.transform(pandas.read_csv("others.csv"))
    wrong = []
    for train, test in StratifiedKFold(3).split(made, y):
        search = UniversumSVCCV([1, 10], deltas=[0.1], criterion=2).fit(made[train], y[train], U)
        wrong.append(1 - search.score(made[test], y[test]))
    assert found["folds"] == 3
    assert found["error"] == pytest.approx(np.mean(wrong), abs=1e-12)
    assert found["standard_error"] == pytest.approx(np.std(wrong, ddof=1) / np.sqrt(3), abs=1e-12)
    assert run("fit", "train.csv", "--nested", "1", "--force", *FIXED).exit_code == 2
    many = run("fit", "train.csv", "--nested", "26", "--force", *FIXED)
    assert many.exit_code == 1
    assert "the smallest class has 25 rows" in many.stderr


# ---------------------------------------------------------------------------------------------
# Searches that are interrupted


def interrupting_after(n_fits, monkeypatch):
    """Ctrl-C in the place of a fit, once so many are done."""
    from musvm.search import run as running

    original, done = running.fit_cell, []

    def fit_cell(*arguments):
        if len(done) == n_fits:
            raise KeyboardInterrupt
        done.append(1)
        return original(*arguments)

    monkeypatch.setattr(running, "fit_cell", fit_cell)
    return done


def test_an_interrupted_search_goes_on_where_it_was(folder, monkeypatch):
    command = ["fit", "train.csv", "--universum", "others.csv", *FIXED]
    assert run(*command, "--out", "whole.skops").exit_code == 0
    with monkeypatch.context() as patched:
        interrupting_after(3, patched)
        result = run(*command, "--memory", "kept")
    assert result.exit_code == 130
    assert re.search(r"interrupted; \d+ finished fits? kept in kept: the same", result.stderr)
    assert not (folder / "model.skops").exists()
    with monkeypatch.context() as patched:
        all_fits = interrupting_after(10**6, patched)
        assert run(*command, "--out", "again.skops").exit_code == 0
    with monkeypatch.context() as patched:
        fits_left = interrupting_after(10**6, patched)
        assert run(*command, "--memory", "kept").exit_code == 0
    assert 0 < len(fits_left) < len(all_fits)
    models = (musvm.load(name) for name in ("whole.skops", "model.skops"))
    first, second = (model[-1].dual_coef_ for model in models)
    np.testing.assert_array_equal(first, second)


def test_an_interrupted_search_without_memory_says_how_to_keep_it(folder, monkeypatch):
    interrupting_after(1, monkeypatch)
    result = run("fit", "train.csv", "--universum", "others.csv", *FIXED)
    assert result.exit_code == 130
    assert "nothing is kept; with --memory DIR" in result.stderr
    assert files(folder) == TABLES


def test_a_memory_that_is_a_file_is_refused_in_one_line(folder):
    result = run("fit", "train.csv", *FIXED, "--memory", "others.csv")
    assert result.exit_code == 1
    assert "--memory others.csv: cannot be used" in result.stderr


@pytest.fixture
def formulas(folder):
    """A model whose labels are formulas to a spreadsheet, one of them a mere number."""
    frame = cli_tables.flowers().dropna().drop(columns="colour")
    names = {"setosa": '=cmd("calc")', "versicolor": "@x", "virginica": "-1"}
    frame["species"] = frame["species"].map(names)
    frame.to_csv("formulas.csv", index=False)
    result = run("fit", "formulas.csv", *FIXED)
    assert result.exit_code == 0, result.output
    return frame["species"]


def test_labels_like_formulas_come_back_as_they_were_and_are_named(formulas):
    result = run("predict", "model.skops", "formulas.csv", "--out", "predictions.csv")
    assert result.exit_code == 0, result.output
    assert (
        "Note: spreadsheets take '=cmd(\"calc\")' for a formula, and 1 more label" in result.stderr
    )
    predicted = pandas.read_csv("predictions.csv", dtype=str)["prediction"]
    assert set(predicted) == set(formulas)
    assert np.mean(predicted.to_numpy() == formulas.to_numpy()) > 0.9


def test_formulas_are_not_named_in_json(formulas):
    result = run("predict", "model.skops", "formulas.csv", "--json")
    assert result.exit_code == 0
    assert set(json.loads(result.stdout)["predictions"]) == set(formulas)
    assert "spreadsheets" not in result.stderr


def test_a_negative_number_is_no_formula(formulas):
    frame = pandas.read_csv("formulas.csv", dtype=str)
    predicted = pandas.read_csv(io.StringIO(run("predict", "model.skops", "formulas.csv").stdout))
    frame[predicted["prediction"] == "-1"].to_csv("numbers.csv", index=False)
    result = run("predict", "model.skops", "numbers.csv")
    assert result.exit_code == 0
    assert set(result.stdout.split()) == {"prediction", "-1"}
    assert "spreadsheets" not in result.stderr


def test_few_rows_leave_no_threshold_but_a_model(folder):
    """With six rows no threshold keeps nine of ten: it is minus infinity, which JSON has not."""
    frame = cli_tables.flowers().dropna().drop(columns="colour").iloc[[0, 1, 2, 60, 61, 62]]
    frame.to_csv("few.csv", index=False)
    result = run("fit", "few.csv", *FIXED)
    assert result.exit_code == 0, result.output
    assert "Note: 6 rows are too few for a threshold for --reject" in result.stderr
    assert run("predict", "model.skops", "few.csv").exit_code == 0
    refused = run("predict", "model.skops", "few.csv", "--reject")
    assert refused.exit_code == 1
    assert "has no threshold for --reject" in refused.stderr


def test_letting_every_row_pass_takes_no_threshold(folder):
    result = run("fit", "train.csv", "--accept", "1", *FIXED)
    assert result.exit_code == 0, result.output
    (said,) = [line for line in result.stderr.splitlines() if "threshold" in line]
    assert said == "Note: --accept 1 lets every row pass, so there is no threshold for --reject"
