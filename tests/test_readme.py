"""The README keeps its word: its example runs, its commands are those that are checked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from importlib.metadata import metadata
from pathlib import Path

import numpy as np
import pytest

from musvm.experiments import curves
from musvm.experiments.experiment import read_results

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def test_python_example_wins_what_the_readme_says(capsys):
    (example,) = blocks("python")
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    printed = re.findall(r"(\d+) errors on (\d+) new images", capsys.readouterr().out)
    (plain, n), (model, again) = [tuple(map(int, line)) for line in printed]
    digits = names["digits"]
    assert n == again == len(digits.target_test)
    for errors, clf in ((plain, names["plain"]), (model, names["model"])):
        assert errors == np.sum(clf.predict(digits.data_test) != digits.target_test)
    assert model < plain < 0.1 * n, "guessing makes three errors in four"
    assert f"prints {plain} errors for the plain SVM and {model} with the universum" in README


def test_example_fits_on_ten_lines():
    (example,) = blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


def test_each_command_is_one_line_that_installs_existing_extras():
    commands = blocks("sh")
    assert len(commands) == 2
    for command in commands:
        assert len(command.splitlines()) == 1
        (extras,) = re.findall(r"'\.\[([\w,]+)\]'", command)
        assert set(extras.split(",")) <= set(metadata("musvm").get_all("Provides-Extra"))


def test_ci_runs_the_test_command_of_the_readme(tmp_path):
    """Run .ci/run with every program of the command replaced by one that says its name."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    script = tmp_path / ".ci" / "run"
    script.write_bytes((ROOT / ".ci" / "run").read_bytes())
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    for program in ("bin/python3", *(f".venv/bin/{p}" for p in ("pip", "ruff", "mypy", "python"))):
        stub = tmp_path / program
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f'#!/bin/sh\necho "ran {program} $*"\n')
        stub.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", str(script)], capture_output=True, text=True, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr
    lines = [line.strip() for line in result.stdout.splitlines()]
    ran = [line.removeprefix("ran ") for line in lines if line.startswith("ran ")]
    written = [" ".join(shlex.split(part)) for part in blocks("sh")[1].split("&&")]
    assert ran == [part.replace("python3", "bin/python3", 1) for part in written]
    assert any("pytest" in part for part in ran)


def test_ci_fails_where_a_step_fails_or_the_readme_has_no_command(tmp_path):
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "run"
    script.write_bytes((ROOT / ".ci" / "run").read_bytes())
    readme = tmp_path / "README.md"

    readme.write_text("<!-- test-command -->\n```sh\ntrue && false && true\n```\n")
    assert subprocess.run(["bash", str(script)], capture_output=True, check=False).returncode != 0
    readme.write_text("# No command here\n")
    result = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "test-command" in result.stderr


@pytest.mark.parametrize("target", re.findall(r"\]\((?!https?:)([^)#]+)\)", README))
def test_relative_links_lead_somewhere(target):
    assert (ROOT / target).exists()


def test_table_of_results_is_that_of_the_results_file():
    results = read_results(ROOT / "docs" / "results" / "curves.json")
    (table,) = re.findall(r"<!-- results: curves -->\n(.*?)<!-- /results -->", README, re.DOTALL)
    assert table == curves.summary(results)
