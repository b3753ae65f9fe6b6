"""`musvm reproduce`: works with nothing given, and tells a mistake in one line."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("matplotlib", reason="the figures need matplotlib")

from typer.testing import CliRunner

from musvm.cli import app
from musvm.experiments.tables import page

QUICK = ["--partitions", "2", "--jobs", "1"]


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_table_2_without_data_writes_results_table_and_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = reproduce("table2", *QUICK)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "results"
    results = json.loads((folder / "table2_digits.json").read_text())
    assert result.stdout == page(results)
    assert (folder / "table2_digits.md").read_text() == result.stdout
    assert (folder / "table2_digits.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_the_results_file_and_nothing_else(tmp_path):
    result = reproduce("table2", *QUICK, "--json", "--out", tmp_path)
    printed = json.loads(result.stdout)
    assert printed == json.loads((tmp_path / "table2_digits.json").read_text())


STUDIES = ["paper", "curves", "components", "universa", "open-set", "figures"]


@pytest.mark.parametrize("study", STUDIES)
def test_without_data_one_sentence_says_what_to_get_and_how_to_name_it(
    study, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = reproduce(study)
    assert result.exit_code == 1
    message = " ".join(result.stderr.split())
    assert re.search(r"is not there: get .+, and give the file or its folder as --data", message)
    assert "Traceback" not in result.output
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_folder_without_the_data_is_named(tmp_path):
    result = reproduce("curves", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert f"the data set gtsrb is not there in {tmp_path}" in " ".join(result.stderr.split())
    assert "GTSRB_Final_Training_Images.zip from https://" in " ".join(result.stderr.split())


def test_help_says_what_to_download():
    result = reproduce("--help")
    text = " ".join(result.stdout.split())
    assert "GTSRB_Final_Training_Images.zip" in text
    assert "--data" in text
    assert all(study in text for study in STUDIES)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["table2", "--dataset", "nist"], 1, "get nist_digits_letters.npz"),
        (["table2", "--dataset", "gtsrb"], 1, "get GTSRB_Final_Training_Images.zip from https"),
        (["table2", "--split", "tracks"], 2, "only the traffic signs have tracks"),
        (["table2", "--features", "roi"], 2, "only the traffic signs have a choice of features"),
        (["table3", "--criterion", "span"], 2, "compares them all"),
        (["table3", "--model", "one-vs-rest"], 2, "for cross-validation only"),
        (["table2", "--jobs", "0"], 2, "number of processes"),
        (["table9"], 2, "table9"),
        (["table2", "--data", "nowhere.zip"], 2, "does not exist"),
    ],
)
def test_a_mistake_ends_with_one_line_and_leaves_nothing(
    arguments, status, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = reproduce(*arguments)
    assert result.exit_code == status
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_file_that_is_not_the_data_set_is_named(tmp_path):
    wrong = tmp_path / "wrong.npz"
    wrong.write_bytes(b"not an archive")
    result = reproduce("table2", "--dataset", "nist", "--data", wrong, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "wrong.npz" in result.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    result = reproduce("table2", *QUICK, "--out", tmp_path / "taken" / "out")
    assert result.exit_code == 1
    assert "taken" in result.stderr
