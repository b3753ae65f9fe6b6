"""Mistakes at the shell, each answered by one sentence about what was wrong."""

from __future__ import annotations

import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables need pandas")

from typer.testing import CliRunner

import cli_tables
from musvm._progress import LOG_EVERY_S, FitProgress
from musvm.cli import app

LONG = "a" * 300 + ".csv"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cli_tables.write_tables(tmp_path)
    (tmp_path / "model.skops").write_text("here already")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "."], ".: is a folder, not a table"),
        (["fit", "nofile.csv"], "nofile.csv: cannot be read: No such file or directory"),
        (["fit", LONG], "cannot be read: File name too long"),
        (["fit", "train.csv", "--universum", "gone.csv"], "gone.csv: cannot be read: No such"),
        (["fit", "train.csv", "--out", LONG], "cannot be written: File name too long"),
        (
            ["fit", "train.csv", "--universum", "./train.csv", "--out", "new.skops"],
            "is the table of the classes, and a universum belongs to none of them",
        ),
        (["example-tables", "nowhere"], "no such folder: nowhere"),
    ],
)
def test_says_what_is_wrong(folder, arguments, said):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "2000"})
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit), result.exception
    assert said in " ".join(result.output.split())
    assert not (folder / "new.skops").exists()


def test_example_tables_are_not_replaced_without_being_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["example-tables"]).exit_code == 0
    first = (tmp_path / "digits.csv").read_bytes()
    (tmp_path / "digits.csv").write_text("mine")
    assert CliRunner().invoke(app, ["example-tables"]).exit_code == 2
    assert (tmp_path / "digits.csv").read_text() == "mine"
    assert CliRunner().invoke(app, ["example-tables", "--force"]).exit_code == 0
    assert (tmp_path / "digits.csv").read_bytes() == first


def test_progress_without_a_digit_of_the_gap_has_no_time_left(monkeypatch, capsys):
    times = iter([0.0, LOG_EVERY_S, 3 * LOG_EVERY_S])
    monkeypatch.setattr("musvm._progress.time.monotonic", lambda: next(times))
    with FitProgress(1e-4, verbose=1) as progress:
        progress.update(63, 2.0)
        progress.update(64, 1e-2)
    first, second = capsys.readouterr().err.splitlines()
    assert first.strip() == "Fit: round 63, gap 2.0e+00:   0%"
    assert second.strip() == "Fit: round 64, gap 1.0e-02:  50%, 30 s left"
