"""The study behind `musvm demo`, and the command from end to end."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp
from sklearn.datasets import load_digits

from musvm import UniversumSVC

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("matplotlib", reason="the demo's figure needs matplotlib")

from matplotlib.patches import Polygon
from typer.testing import CliRunner

from musvm.cli import app
from musvm.experiments import demo

N_PARTITIONS = 2


@pytest.fixture(scope="module")
def document() -> dict:
    """What `musvm demo --json` prints."""
    result = CliRunner().invoke(
        app, ["demo", "--partitions", str(N_PARTITIONS), "--jobs", "1", "--no-figure", "--json"]
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def outcomes(document: dict) -> list[demo.Outcome]:
    return [demo.Outcome(**partition) for partition in document["partitions"]]


def rows(X: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in np.ascontiguousarray(X)}


def test_a_partition_shares_no_image_between_training_test_and_universum():
    images, digit = load_digits(return_X_y=True)
    data = demo.draw_partition(3)
    assert len(data.X_train) + len(data.X_test) == np.sum(digit < 4)
    assert np.bincount(data.y_train).tolist() == [10, 10, 10, 10]
    assert rows(data.X_train) | rows(data.X_test) == rows(images[digit < 4] / 16)
    assert not rows(data.X_train) & rows(data.X_test)
    assert len(data.universum) == len(rows(data.universum)) == 300
    assert rows(data.universum) <= rows(images[digit >= 4] / 16)


def test_partitions_are_reproducible_and_differ():
    again, other, reseeded = (demo.draw_partition(*a) for a in [(1, 0), (2, 0), (1, 7)])
    first = demo.draw_partition(1, 0)
    assert rows(first.X_train) == rows(again.X_train)
    assert rows(first.universum) == rows(again.universum)
    assert rows(first.X_train) != rows(other.X_train)
    assert rows(first.X_train) != rows(reseeded.X_train)


def test_parameters_are_chosen_without_the_test_images(outcomes):
    outcome = outcomes[0]
    blind = dataclasses.replace(
        demo.draw_partition(outcome.partition), X_test=np.empty((0, 64)), y_test=np.empty(0, int)
    )
    chosen = demo.choose_parameters(blind, demo.Fitter())
    assert chosen == demo.Parameters(outcome.C, outcome.gamma, outcome.delta)


errors_and_hinge = st.tuples(st.integers(0, 4), st.floats(0, 2))


@given(
    plain=st.lists(errors_and_hinge, min_size=12, max_size=12),
    universum=st.lists(errors_and_hinge, min_size=4, max_size=4),
)
def test_choice_follows_the_documented_rule(plain, universum):
    candidates = [demo.Parameters(C, gamma) for C in demo.C_GRID for gamma in demo.GAMMA_GRID]
    scores = dict(zip(candidates, plain, strict=True))
    by_delta = dict(zip(demo.DELTA_GRID, universum, strict=True))

    def look_up(data, parameters, fitter):
        return scores[parameters] if parameters.delta is None else by_delta[parameters.delta]

    with patch.object(demo, "cross_validate", look_up):
        chosen = demo.choose_parameters(demo.draw_partition(0), demo.Fitter())
    errors, hinge = scores[demo.Parameters(chosen.C, chosen.gamma)]
    assert all(errors < e or (errors == e and hinge <= h) for e, h in plain)
    fewest = min(e for e, _ in universum)
    if chosen.delta is None:
        assert errors < fewest, "no universum must make fewer errors to be chosen"
    else:
        assert fewest <= errors
        assert chosen.delta == min(d for d, (e, _) in by_delta.items() if e == fewest)


def test_cross_validation_trains_with_the_whole_universum_and_predicts_what_it_left_out():
    data = demo.draw_partition(0)
    seen: list[tuple[set[bytes], set[bytes]]] = []

    class Watching(demo.Fitter):
        def fit(self, X, y, universum, chosen):
            seen.append((rows(X), rows(universum)))
            return super().fit(X, y, universum, chosen)

    fitter = Watching()
    errors, hinge = demo.cross_validate(data, demo.Parameters(10.0, 1 / 8, 0.1), fitter)
    assert len(seen) == len(fitter.gaps) == demo.FOLDS
    assert all(universum == rows(data.universum) for _, universum in seen)
    left_out = [rows(data.X_train) - kept for kept, _ in seen]
    assert set.union(*left_out) == rows(data.X_train)
    assert sum(map(len, left_out)) == len(data.X_train)
    # A misclassified point has a hinge loss above 1, every other one below.
    assert errors / len(data.X_train) <= hinge
    assert 0 <= errors <= len(data.X_train)


error_rate = st.integers(0, 680).map(lambda wrong: wrong / 680)


@given(st.lists(st.tuples(error_rate, error_rate), min_size=2, max_size=30))
def test_summary_agrees_with_textbook_formulas(pairs):
    outcomes = [
        demo.Outcome(i, svm, mu, 1.0, 1.0, None if i % 3 else 0.1, 82, 1e-5 * (i + 1))
        for i, (svm, mu) in enumerate(pairs)
    ]
    summary = demo.summarise(outcomes)
    svm, musvm = zip(*pairs, strict=True)
    differences = [mu - plain for plain, mu in pairs]
    assert summary.svm_mean == pytest.approx(statistics.fmean(svm), abs=1e-12)
    assert summary.musvm_mean == pytest.approx(statistics.fmean(musvm), abs=1e-12)
    assert summary.svm_std == pytest.approx(statistics.stdev(svm), abs=1e-12)
    assert summary.musvm_std == pytest.approx(statistics.stdev(musvm), abs=1e-12)
    assert summary.difference == pytest.approx(statistics.fmean(differences), abs=1e-12)
    standard_error = statistics.stdev(differences) / math.sqrt(len(pairs))
    assert summary.difference_standard_error == pytest.approx(standard_error, abs=1e-12)
    assert summary.n_better + summary.n_equal + summary.n_worse == len(pairs)
    assert summary.n_better == sum(mu < plain for plain, mu in pairs)
    assert summary.n_worse == sum(mu > plain for plain, mu in pairs)
    assert summary.n_universum_chosen == len(range(0, len(pairs), 3))
    assert summary.n_fits == 82 * len(pairs)
    assert summary.worst_relative_gap == pytest.approx(1e-5 * len(pairs))


def test_p_value_is_that_of_the_paired_t_test_and_none_without_variation():
    def summary_of(pairs):
        return demo.summarise(
            [demo.Outcome(i, a, b, 1.0, 1.0, 0.0, 1, 0.0) for i, (a, b) in enumerate(pairs)]
        )

    pairs = [(0.04, 0.03), (0.02, 0.025), (0.05, 0.03), (0.03, 0.03)]
    expected = ttest_1samp([b - a for a, b in pairs], 0.0).pvalue
    assert summary_of(pairs).p_value == pytest.approx(expected)
    assert summary_of([(0.25, 0.25), (0.5, 0.5)]).p_value is None
    assert summary_of([(0.5, 0.25), (0.75, 0.5)]).p_value is None


def test_json_errors_are_those_of_models_fitted_here(outcomes):
    for outcome in outcomes:
        data = demo.draw_partition(outcome.partition)
        plain = UniversumSVC(outcome.C, gamma=outcome.gamma).fit(data.X_train, data.y_train)
        assert outcome.svm_error == pytest.approx(1 - plain.score(data.X_test, data.y_test))
        used = None if outcome.delta is None else data.universum
        universum = UniversumSVC(outcome.C, gamma=outcome.gamma, delta=outcome.delta or 0.0)
        universum.fit(data.X_train, data.y_train, universum=used)
        assert outcome.musvm_error == pytest.approx(1 - universum.score(data.X_test, data.y_test))


def test_json_summary_is_that_of_its_partitions(document, outcomes):
    assert [outcome.partition for outcome in outcomes] == list(range(N_PARTITIONS))
    assert document["summary"] == dataclasses.asdict(demo.summarise(outcomes))
    fits_per_partition = demo.FOLDS * (12 + 4) + 2
    assert document["summary"]["n_fits"] == N_PARTITIONS * fits_per_partition
    assert 0 <= document["summary"]["worst_relative_gap"] <= UniversumSVC().tol


def test_table_of_a_real_process_shows_the_numbers_of_the_json(document, tmp_path: Path):
    figure = tmp_path / "demo.png"
    command = [sys.executable, "-m", "musvm", "demo", "--partitions", str(N_PARTITIONS)]
    result = subprocess.run(
        [*command, "--jobs", "2", "--figure", str(figure)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    summary, table = document["summary"], result.stdout

    def numbers(pattern: str) -> list[str]:
        found = re.search(pattern, table)
        assert found, f"{pattern!r} not in:\n{table}"
        return list(found.groups())

    def percent(*names: str) -> list[str]:
        return [f"{100 * summary[name]:.2f}" for name in names]

    assert numbers(r"plain SVM +([\d.]+) +([\d.]+)") == percent("svm_mean", "svm_std")
    assert numbers(r"MU-SVM +([\d.]+) +([\d.]+)\n") == percent("musvm_mean", "musvm_std")
    assert numbers(r"([+-][\d.]+) points") == [f"{100 * summary['difference']:+.2f}"]
    assert numbers(r"standard error ([\d.]+)") == percent("difference_standard_error")
    assert numbers(r"p = (\S+)") == [f"{summary['p_value']:.2g}"]
    counts = numbers(r"better in (\d+), equal in (\d+),\s+worse in (\d+)")
    assert counts == [str(summary[name]) for name in ("n_better", "n_equal", "n_worse")]
    assert numbers(r"gap of (\d+) fits: (\S+)") == [
        str(summary["n_fits"]),
        f"{summary['worst_relative_gap']:.1e}",
    ]
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_figure_has_labelled_axes_with_units(outcomes):
    paired, *histograms = demo.draw_figure(outcomes).axes
    assert "(%)" in paired.get_xlabel()
    assert "(%)" in paired.get_ylabel()
    assert len(histograms) == 2
    for axes in histograms:
        assert "projection" in axes.get_xlabel()
        assert "% per 0.05" in axes.get_ylabel()
    assert [axes.get_title() for axes in histograms] == [
        "plain SVM, partition 0",
        "MU-SVM, partition 0",
    ]
    for axes in (paired, histograms[0]):
        assert axes.get_legend() is not None, "a panel with several kinds of marks has a legend"


def test_figure_shows_every_partition_and_every_point(outcomes):
    paired, *histograms = demo.draw_figure(outcomes).axes
    points = next(line for line in paired.lines if line.get_label() == "one partition")
    expected = [[100 * o.svm_error, 100 * o.musvm_error] for o in outcomes]
    np.testing.assert_allclose(points.get_xydata(), expected)
    for axes in histograms:
        (bars,) = axes.containers
        # Percentages that add up to 100: no point lies outside the bins.
        assert sum(bar.get_height() for bar in bars) == pytest.approx(100)
        (outline,) = [patch for patch in axes.patches if isinstance(patch, Polygon)]
        heights = outline.get_xy()[1 : 2 * len(bars) + 1 : 2, 1]
        assert heights.sum() == pytest.approx(100)


def test_a_study_that_never_chose_a_universum_has_a_figure_too(outcomes):
    without = [dataclasses.replace(outcome, delta=None) for outcome in outcomes]
    titles = [axes.get_title() for axes in demo.draw_figure(without).axes]
    assert titles[2] == "MU-SVM, partition 0"
