"""Tables: the statistics against SciPy's, and every figure in the place it belongs to."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_rel

from musvm.experiments import (
    components,
    curves,
    figures,
    open_set,
    paper,
    tables,
    thresholds,
    universa,
)
from musvm.experiments.experiment import read_results
from musvm.experiments.protocol import Study
from musvm.experiments.settings import SETTINGS, TABLE_2, TABLE_3, TABLE_4
from musvm.experiments.statistics import paired
from musvm.experiments.tables import describe, groups_of, section, table_of

STUDY = Study(SETTINGS["gtsrb"])


def outcome(cell):
    """Errors that can be recognised."""
    return {
        **cell,
        "svm": {"error": 0.10 + 0.001 * cell["partition"]},
        "mu_svm": {"error": 0.08 + 0.002 * cell["partition"]},
        "either": {"error": 0.09},
        "times": {"seconds": 9.0, "cpu_seconds": 4.0 if cell["criterion"] == "cv" else 1.0},
    }


def made_up(table, study=STUDY, partitions=3, criterion="cv"):
    """Results of a table."""
    experiment = tables.experiment(table, study, partitions, criterion)
    return {
        "experiment": experiment.name,
        "versions": {"musvm": "0"},
        "conditions": {**experiment.conditions, "code": "0"},
        "cells": [outcome(task) for task in experiment.tasks],
    }


def markdown(results):
    conditions = results["conditions"]
    return table_of(conditions["table"], conditions["setting"], results["cells"])


def rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


errors = arrays(float, st.just(8), elements=st.integers(0, 50).map(float))


@given(ours=errors, reference=errors)
def test_paired_statistics_are_scipys(ours, reference):
    pair = paired(ours, reference)
    assert pair.mean == pytest.approx(np.mean(ours) - np.mean(reference))
    if np.ptp(ours - reference) == 0:
        assert pair.p is None
        return
    expected = ttest_rel(ours, reference)
    assert pair.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    if pair.mean:
        assert abs(pair.mean / pair.standard_error) == pytest.approx(abs(expected.statistic))


def test_table_2_sets_the_papers_errors_beside_ours():
    text = rows(markdown(made_up("table2")))
    assert text[2] == ["plain SVM", "10.10 (0.10)", "7.47 (0.92)", "–", "–", "–"]
    assert text[3][:4] == ["MU-SVM, no-entry", "8.20 (0.20)", "6.57 (0.59)", "−1.90 ± 0.06"]
    assert text[3][5] == "−0.90"
    assert text[5][:3] == ["MU-SVM, road-work", "8.20 (0.20)", "6.88 (0.87)"]


def test_table_3_has_a_line_for_every_criterion_and_universum():
    text = rows(markdown(made_up("table3")))[2:]
    assert [line[0] for line in text] == ["no-entry"] * 4 + ["road-work"] * 4
    paper = {(line[0], line[1]): line[4] for line in text}
    assert paper["no-entry", "5-fold cross-validation"] == "6.57 (0.59)"
    assert paper["no-entry", "bound, eq. (8)"] == "6.47 (0.57)"
    assert paper["road-work", "bound, eq. (8)"] == "6.90 (0.75)"
    assert paper["road-work", "leave-one-out, estimated"] == "–"


def test_table_4_has_the_papers_sizes():
    text = rows(markdown(made_up("table4")))[2:]
    assert [line[1] for line in text] == ["–", *["250", "500", "750", "1000"] * 2]
    assert [line[3] for line in text[1:5]] == [
        *("6.93 (0.98)", "6.48 (0.52)", "6.43 (0.59)", "6.41 (0.60)")
    ]


def test_timing_gives_the_papers_ratio_for_its_own_data_only():
    text = rows(markdown(made_up("timing")))[2:]
    assert text[0][1:6] == ["9.00 (0.00)", "4.00 (0.00)", "1.00", "4413", "1.00"]
    assert text[1][1:6] == ["9.00 (0.00)", "1.00 (0.00)", "0.25", "1583", "0.36"]
    assert text[-1][0] == "leave-one-out, exact"
    assert {line[4] for line in rows(markdown(made_up("timing", Study())))[2:]} == {"–"}


def test_the_stand_in_shows_the_figures_of_what_it_stands_for():
    assert rows(markdown(made_up("table2", Study(SETTINGS["nist"]))))[2][2] == "26.15 (2.08)"
    assert rows(markdown(made_up("table2", Study())))[2][2] == "–"


@pytest.mark.parametrize("published", [TABLE_2, TABLE_3])
def test_published_universa_are_those_of_the_settings(published):
    for dataset, values in published.items():
        assert set(values) - {""} == {u.name for u in SETTINGS[dataset].universa}


def test_published_sizes_are_those_of_the_setting():
    setting = SETTINGS["gtsrb"]
    expected = {(u.name, m) for u in setting.universa for m in setting.sizes}
    assert set(TABLE_4["gtsrb"]) - {("", 0)} == expected


def test_partitions_may_come_in_any_order():
    results = made_up("table2")
    shuffled = copy.deepcopy(results)
    shuffled["cells"].reverse()
    for group in groups_of(shuffled["cells"]):
        assert [cell["partition"] for cell in group.cells] == [0, 1, 2]


@pytest.mark.parametrize(
    ("departure", "said"),
    [
        ({"split": "tracks"}, "physical sign"),
        ({"loss": "max"}, "eq. (2)"),
        ({"model": "one-vs-rest"}, "per class against the rest"),
        ({"model": "one-vs-one"}, "per pair of classes"),
        ({"features": "roi"}, "Features: roi"),
    ],
)
def test_the_description_says_what_departs_from_the_paper(departure, said):
    usual, other = made_up("table2"), made_up("table2", replace(STUDY, **departure))
    assert said in describe(other["conditions"], other["cells"])
    assert said not in describe(usual["conditions"], usual["cells"])
    bound = made_up("table2", criterion="span")
    assert "span of every support vector" in describe(bound["conditions"], bound["cells"])


def test_the_verdict_is_told_from_the_figures():
    text = section(made_up("table2", partitions=10))
    assert "no-entry: the MU-SVM makes 1.55 points fewer errors" in text
    assert "In the paper it made 0.90 points fewer." in text
    even = made_up("table2", partitions=4)
    for cell in even["cells"]:
        cell["mu_svm"]["error"] = cell["svm"]["error"] + (-1) ** cell["partition"] * 0.01
    assert "neither clearly more nor clearly fewer errors" in section(even)


def made_up_paper(with_nist, tmp_path):
    if with_nist:
        (tmp_path / "nist.npz").write_bytes(b"")
    experiment = paper.experiment(tmp_path, 3, 0)
    return experiment, {
        "experiment": experiment.name,
        "versions": {"musvm": "0"},
        "conditions": {**experiment.conditions, "code": "abc"},
        "cells": [outcome(task) for task in experiment.tasks],
    }


@pytest.mark.parametrize("with_nist", [False, True])
def test_the_page_of_both_papers_has_every_table(with_nist, tmp_path):
    experiment, results = made_up_paper(with_nist, tmp_path)
    page = experiment.page(results)
    lines = rows(page)
    assert ["MU-SVM, no-entry", "1000", "8.20 (0.20)", "6.41 (0.60)"] in [x[:4] for x in lines]
    assert ["others", "one-vs-one", "8.20 (0.20)"] in [x[:3] for x in lines]
    assert ("NIST" in page) == with_nist
    assert "sources `abc`" in page
    tasks = [tuple(task.items()) for task in experiment.tasks]
    assert len(set(tasks)) == len(tasks), "a task is done twice"


def test_curves_pair_errors_of_the_same_partition():
    experiment = curves.experiment(3, 0)
    cells = [
        {**task, "svm": 0.2 + 0.1 * task["partition"], "mu_svm": 0.1 + 0.1 * task["partition"]}
        for task in experiment.tasks
    ]
    results = {
        "experiment": "curves",
        "versions": {"musvm": "0"},
        "conditions": {**experiment.conditions, "code": "abc"},
        "cells": cells[::-1],
    }
    line = next(line for line in rows(experiment.page(results)) if line[0] == "20")
    assert line[1:4] == ["30.00 (10.00)", "20.00 (10.00)", "−10.00 ± 0.00"]


PAGES = {
    "tables": paper.page,
    "curves": curves.page,
    "components": components.page,
    "universa": universa.page,
    "open_set": open_set.page,
    "figures": figures.page,
    "thresholds": thresholds.page,
    "timing_gtsrb": tables.page,
}


RESULTS = Path(__file__).parents[2] / "docs" / "results"
FILES = sorted(path for path in RESULTS.glob("*.json") if path.stem in PAGES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_committed_page_is_what_its_results_file_makes(path):
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert page == PAGES[path.stem](read_results(path))
    for figure in re.findall(r"\]\((\w[^)]*\.png)\)", page):
        assert 0 < (RESULTS / figure).stat().st_size < 300_000


def test_every_study_has_its_page():
    assert {path.stem for path in FILES} == set(PAGES)
