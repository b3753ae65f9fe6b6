"""What `musvm fit` tells of a search is what `comparison_` holds, wherever it is told.

The images are those of the transcript. There the span says 5 % without universum and 0 % with it
where leave-one-out, estimated, says 15 % and 7.5 %: a figure that is made up of both would be seen.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables need pandas")
pytest.importorskip("skops", reason="model files need skops")
pytest.importorskip("plotly", reason="the report needs plotly")

import pandas
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from musvm import UniversumSVCCV
from musvm.cli import app
from musvm.io.model_file import load_with_header
from report_page import Page

GRID = {"Cs": [10.0], "deltas": [0.1], "universum_weights": ["balanced"]}
OPTIONS = ["--C", "10", "--delta", "0.1", "--weight", "balanced"]
CRITERIA = ["span", "span-2016", "loo-estimate", "loo", 5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    X, digit = load_digits(return_X_y=True)
    order = np.random.RandomState(1).permutation(len(X))
    X, digit = X[order], digit[order]
    classes = np.isin(digit, [3, 5, 8, 9])
    training = np.concatenate([np.flatnonzero(digit == k)[:10] for k in (3, 5, 8, 9)])
    frame = pandas.DataFrame(X.astype(int), columns=[f"pixel_{k}" for k in range(64)])
    frame.iloc[training].assign(digit=digit[training]).to_csv(folder / "train.csv", index=False)
    frame.iloc[np.flatnonzero(~classes)[:300]].to_csv(folder / "others.csv", index=False)
    return folder


def fit(folder, criterion, *arguments):
    command = [
        "fit", folder / "train.csv", "--universum", folder / "others.csv", "--no-scale",
        "--select", criterion, *OPTIONS, "--out", folder / "model.skops", "--force", *arguments,
    ]  # fmt: skip
    result = CliRunner().invoke(app, [str(argument) for argument in command])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module", params=CRITERIA, ids=str)
def told(request, folder):
    """The comparison in Python, on the terminal, as JSON, in the model file and in the report."""
    frame, others = (pandas.read_csv(folder / name) for name in ("train.csv", "others.csv"))
    search = UniversumSVCCV(**GRID, criterion=request.param)
    X = frame.drop(columns="digit").to_numpy(dtype=float)
    search.fit(X, frame["digit"].astype(str), universum=others.to_numpy(dtype=float))
    text = fit(folder, request.param, "--report", folder / "report.html")
    document = json.loads(fit(folder, request.param, "--json"))
    header = load_with_header(folder / "model.skops")[1]
    return search, text, document, header.summary, Page(folder / "report.html")


def test_json_and_model_file_hold_the_comparison(told):
    search, _, document, summary, _ = told
    expected = json.loads(json.dumps(search.comparison_.as_dict()))
    assert document["comparison"] == summary["comparison"] == expected
    assert document["hints"] == search.hints_


def test_the_terminal_prints_the_comparison(told):
    search, text, *_ = told
    found = search.comparison_
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert lines["error"] == (
        f"{found.plain.error:.2%} without universum, {found.universum.error:.2%} with it, the "
        f"{found.criterion}"
    )
    assert lines["change"] == found.change
    assert lines["decision"] == found.decision
    assert ("universum not used" in lines["parameters"]) == (not found.uses_universum)


def test_the_report_prints_the_comparison(told):
    search, *_, page = told
    found = search.comparison_
    shown = page.quantities("search")
    assert shown["error"] == [f"{100 * f.error:.1f}\xa0%" for f in (found.plain, found.universum)]
    said = page.section("summary").text
    assert f"The {found.criterion} is {shown['error'][0]} for the best plain SVM" in said
    assert found.change in said
    assert found.decision in said


def test_what_is_told_is_an_error_and_no_bound(told):
    search, *_ = told
    found, model = search.comparison_, search.best_estimator_
    assert "bound" not in found.criterion
    assert (model.universum_weight != 0) == found.uses_universum


def test_here_span_and_estimate_disagree(folder):
    frame, others = (pandas.read_csv(folder / name) for name in ("train.csv", "others.csv"))
    X, U = frame.drop(columns="digit").to_numpy(dtype=float), others.to_numpy(dtype=float)
    span, estimate = (
        UniversumSVCCV(**GRID, criterion=criterion).fit(X, frame["digit"], universum=U)
        for criterion in ("span", "loo-estimate")
    )
    assert np.all(span.results_["criterion"] < estimate.results_["criterion"])
    assert span.comparison_.plain.error == estimate.comparison_.plain.error
    assert span.comparison_.universum.error == estimate.comparison_.universum.error
