"""The transcript in the documentation: two CSV files to model, report and predictions.

`docs/transcript.md` is what this test writes when it is told to:

    MUSVM_WRITE_TRANSCRIPT=1 python -m pytest tests/cli/test_transcript.py

Otherwise it runs the commands again and compares. Words must be the same; numbers may differ by
what another processor or another version of a library makes of the last digits.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables need pandas")
pytest.importorskip("skops", reason="model files need skops")
pytest.importorskip("plotly", reason="the report needs plotly")

import pandas

TRANSCRIPT = Path(__file__).parents[2] / "docs" / "transcript.md"

INTRODUCTION = """\
# From two CSV files to a model

`digits.csv` holds ten handwritten images, of 8 x 8 pixels, of each of the digits 3, 5, 8 and 9,
and 300 images of other digits, whose label is `other`: the universum. `new.csv` holds images that
no model has seen, of the four digits and of others. No Python is needed for what follows.

This page is written by a test that runs these commands. The images were drawn at random.
"""

STEPS = [
    ("The tables:", "musvm example-tables"),
    (
        "What is the universum like? A plain SVM is fitted, and asked what it makes of it.\n"
        "Several universa would be ranked. Whether one helps, the next command finds out.",
        "musvm diagnose digits.csv --target digit --universum-label other --no-scale",
    ),
    (
        "Choose the parameters, fit, and write a report to open in a browser. Pixels have one\n"
        "scale already, so the columns are left as they are.",
        "musvm fit digits.csv --target digit --universum-label other --no-scale "
        "--report report.html",
    ),
    (
        "How often would the model be wrong on an image that it was trained on, had it been\n"
        "trained without it? This is the exact leave-one-out error.",
        "musvm loo model.skops digits.csv --method loo",
    ),
    (
        "Predict, with the answer `none` for images that look like none of the four digits. The\n"
        "file has labels, so the share of correct predictions is told as well.",
        "musvm predict model.skops new.csv --scores --reject --out predictions.csv",
    ),
]


def run(command: str, folder: Path) -> str:
    """What a user sees of a command: both streams, in the order in which they are written."""
    result = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def make_transcript(folder: Path) -> str:
    parts = [INTRODUCTION]
    for explanation, command in STEPS:
        parts.append(f"{explanation}\n\n```console\n$ {command}\n{run(command, folder)}```\n")
    lines = (folder / "predictions.csv").read_text().splitlines()
    shown = "\n".join(re.sub(r"(\.\d{4})\d+", r"\1", line) for line in lines[:4])
    parts.append(
        "The folder now has `model.skops`, `report.html` and `predictions.csv`, which begins\n\n"
        f"```text\n{shown}\n```\n"
        "\nhere with four digits of each score.\n"
    )
    return "\n".join(parts)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder in which the commands were run, and what they printed."""
    folder = tmp_path_factory.mktemp("transcript")
    return folder, make_transcript(folder)


def test_the_transcript_is_what_the_commands_print(made):
    _, printed = made
    if os.environ.get("MUSVM_WRITE_TRANSCRIPT"):
        TRANSCRIPT.write_text(printed, encoding="utf-8")
    written = TRANSCRIPT.read_text(encoding="utf-8")
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", written), "docs/transcript.md is out of date"
    for line, other in zip(printed.splitlines(), written.splitlines(), strict=True):
        if "duality gap" in line:
            continue  # Any gap below tol is as good.
        found, stored = (np.array(NUMBER.findall(text), dtype=float) for text in (line, other))
        np.testing.assert_allclose(found, stored, rtol=0.02, atol=0.02, err_msg=line)


def test_the_files_are_there_and_right(made):
    folder, _ = made
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    answers = pandas.read_csv(folder / "predictions.csv")
    new = pandas.read_csv(folder / "new.csv")
    assert len(answers) == len(new) == 300
    assert set(answers["prediction"]) <= {"3", "5", "8", "9", "none"}
    scores = answers.filter(like="score").to_numpy()
    best = np.array(["3", "5", "8", "9"])[scores.argmax(axis=1)]
    accepted = answers["prediction"] != "none"
    assert (answers["prediction"][accepted] == best[accepted]).all()
