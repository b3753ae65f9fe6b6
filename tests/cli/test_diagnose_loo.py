"""`musvm diagnose` and `musvm loo` say what the functions behind them say."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables need pandas")
pytest.importorskip("skops", reason="model files need skops")

import pandas
from typer.testing import CliRunner

import cli_tables
import musvm
from musvm import UniversumSVCCV
from musvm.cli import app
from musvm.cli.tables import Columns, preparation
from musvm.io.model_file import load_with_header
from musvm.universum import diagnose

FIXED = ["--select", "2", "--C", "1", "--delta", "0.1"]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cli_tables.write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_diagnose_is_the_diagnosis_of_a_plain_svm(folder):
    frame, others = pandas.read_csv("train.csv"), pandas.read_csv("others.csv")
    X, y = frame.drop(columns="species"), frame["species"].to_numpy(dtype=str)
    ((_, prepare),) = preparation(Columns(5, tuple(X.columns), ("colour",)))
    made = prepare.fit_transform(X)
    svm = UniversumSVCCV().fit(made, y).best_estimator_
    (expected,) = diagnose(svm, made, y, prepare.transform(others))
    (found,) = json.loads(run("diagnose", "train.csv", "others.csv", "--json").stdout)
    assert found["universum"] == "others.csv"
    assert found["rows"] == 30
    assert found["majority"] == expected.majority
    assert found["nuisance"] == pytest.approx(expected.measures.nuisance, rel=1e-9)
    assert found["spread"] == pytest.approx(expected.measures.spread, rel=1e-9)
    assert found["label_entropy"] == pytest.approx(expected.measures.label_entropy, rel=1e-9)


def test_diagnose_ranks_several_universa_in_an_aligned_table(folder):
    setosa = pandas.read_csv("train.csv").iloc[:10].drop(columns="species")
    setosa.to_csv("setosa.csv", index=False)
    result = run("diagnose", "train.csv", "others.csv", "setosa.csv", "others.csv")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("universum "))
    table = lines[start : start + 4]
    assert len({len(line.rstrip()) for line in table}) == 1, "columns are aligned"
    assert sorted(line.split("  ")[0] for line in table[1:]) == [
        "others.csv",
        "others.csv (2)",
        "setosa.csv",
    ]
    document = json.loads(run("diagnose", "train.csv", "others.csv", "setosa.csv", "--json").stdout)
    ranked = [one["nuisance"] for one in document]
    assert ranked == sorted(ranked, reverse=True)
    taken = {one["universum"]: (one["majority"], one["majority_share"]) for one in document}
    assert taken["setosa.csv"] == ("setosa", 1.0), "one of the classes is no universum"


def numbered(path: str) -> None:
    """The tables of the classes with numbers for labels, and a universum in other units."""
    frame = pandas.read_csv("train.csv")
    frame["species"] = frame["species"].astype("category").cat.codes
    frame.to_csv(path, index=False)
    others = pandas.read_csv("others.csv")
    numbers = others.select_dtypes("number").columns
    others[numbers] *= 1000
    others.to_csv("millimetres.csv", index=False)


def test_diagnose_prints_json_of_numbered_classes_and_of_measures_without_a_value(folder):
    numbered("numbers.csv")
    result = run("diagnose", "numbers.csv", "others.csv", "millimetres.csv", "--json")
    assert result.exit_code == 0, result.output
    here, far = json.loads(result.stdout)
    assert (here["universum"], far["universum"]) == ("others.csv", "millimetres.csv")
    assert here["majority"] in (0, 1, 2)
    assert far["nuisance"] is None
    assert far["looks_like_a_class"] is True


def test_diagnose_says_what_ranks_and_what_looks_like_a_class(folder):
    setosa = pandas.read_csv("train.csv").iloc[:10].drop(columns="species")
    setosa.to_csv("setosa.csv", index=False)
    result = run("diagnose", "train.csv", "setosa.csv", "others.csv")
    assert "those of which more than 70% is taken for one class" in result.stdout
    assert re.search(r"^setosa\.csv .* 100% setosa ", result.stdout, flags=re.MULTILINE)
    said = "100% of it is taken for class setosa: it may consist of points of that class"
    assert f"Warning: setosa.csv: {said}" in result.stderr.splitlines()
    assert said in result.stdout


@pytest.mark.parametrize("command", ["diagnose", "fit"])
def test_a_universum_in_other_units_is_told_once_and_by_its_name(folder, command):
    numbered("numbers.csv")
    universa = ["--universum", "others.csv", "--universum", "millimetres.csv"]
    options = [*FIXED, "--nested", "2", "--report", "report.html"] if command == "fit" else []
    result = run(command, "numbers.csv", *universa, *options)
    assert result.exit_code == 0, result.output
    told = [line for line in result.stderr.splitlines() if "far outside" in line]
    assert told == [
        "Warning: millimetres.csv: the universum lies far outside the range of the training rows; "
        "are its columns in the same units?"
    ]
    assert "nan" not in result.stdout


def test_diagnose_takes_a_label_too(folder):
    apart = json.loads(run("diagnose", "train.csv", "others.csv", "--json").stdout)
    marked = json.loads(
        run("diagnose", "marked.csv", "--universum-label", "other", "--json").stdout
    )
    assert marked[0]["spread"] == pytest.approx(apart[0]["spread"], rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train.csv"], 2, "give a table, or --universum-label"),
        (["train.csv", "absent.csv"], 1, "absent.csv: cannot be read"),
        (["train.csv", "others.csv", "--select", "x"], 2, "--select"),
    ],
)
def test_diagnose_mistakes(folder, arguments, code, message):
    result = run("diagnose", *arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == ""


@pytest.fixture
def model(folder):
    result = run("fit", "train.csv", "--universum", "others.csv", *FIXED)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("method", ["span", "span-2016", "loo-estimate", "loo"])
def test_loo_is_the_leave_one_out_error_of_the_model(folder, model, method):
    frame, others = pandas.read_csv("train.csv"), pandas.read_csv("others.csv")
    pipeline = musvm.load("model.skops")
    X = pipeline[:-1].transform(frame.drop(columns="species"))
    U = pipeline[:-1].transform(others)
    y = frame["species"].to_numpy(dtype=str)
    expected = musvm.loo_error(pipeline[-1], X, y, universum=(U,), method=method)
    arguments = ["model.skops", "train.csv", "--universum", "others.csv", "--method", method]
    result = run("loo", *arguments)
    assert result.exit_code == 0, result.output
    assert f"{expected.error:.2%} of 75 rows" in result.stdout
    document = json.loads(run("loo", *arguments, "--json").stdout)
    assert document["error"] == expected.error
    if expected.predictions is None:
        assert document["predictions"] is None
    else:
        assert document["predictions"] == np.asarray(expected.predictions).tolist()


def test_loo_finds_the_universum_in_the_table(folder):
    assert run("fit", "marked.csv", "--universum-label", "other", *FIXED).exit_code == 0
    result = run("loo", "model.skops", "marked.csv")
    assert result.exit_code == 0, result.output
    assert re.search(r"error +\d+\.\d\d% of 75 rows", result.stdout)


def test_loo_refuses_other_data(folder, model):
    # A model that uses its universum, which the search has not chosen here.
    pipeline, header = load_with_header("model.skops")
    pipeline[-1].universum_weight = 0.5
    musvm.save(pipeline, "using.skops", summary=header.summary)
    result = run("loo", "using.skops", "train.csv")
    assert result.exit_code == 1
    assert "using.skops: was fitted with a universum; pass --universum others.csv" in result.stderr
    result = run("loo", "model.skops", "new.csv", "--universum", "others.csv")
    assert result.exit_code == 1
    assert result.stderr == "Error: new.csv: line 4 has other values than in the fit\n"
    pandas.read_csv("train.csv").drop(columns="species").to_csv("bare.csv", index=False)
    result = run("loo", "model.skops", "bare.csv", "--universum", "others.csv")
    assert result.exit_code == 1
    assert "no column 'species' with the labels" in result.stderr
