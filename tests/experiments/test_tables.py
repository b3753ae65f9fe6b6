"""Tables: the statistics against SciPy's, and every figure in the place it belongs to."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_rel

from musvm.experiments.page import make_page, section, variants
from musvm.experiments.protocol import Study
from musvm.experiments.run import _conditions, cells_of, write_results
from musvm.experiments.settings import SETTINGS, TABLE_2, TABLE_3, TABLE_4
from musvm.experiments.tables import describe, groups_of, markdown, paired


def made_up(table, dataset="gtsrb", partitions=3, criterion="cv", **departures):
    """Results whose errors can be recognised: 10 % plus the position of the cell."""
    study = Study(dataset, **departures)
    cells = [
        {
            **vars(cell),
            "svm": {"error": 0.10 + 0.001 * cell.partition},
            "mu_svm": {"error": 0.08 + 0.002 * cell.partition},
            "either": {"error": 0.09},
            "times": {"seconds": 9.0, "cpu_seconds": 4.0 if cell.criterion == "cv" else 1.0},
        }
        for cell in cells_of(table, study, partitions, criterion)
    ]
    return {
        "table": table,
        "partitions": partitions,
        "conditions": {"musvm": "0", **_conditions(study)},
        "cells": cells,
    }


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
    assert text[2] == ["plain SVM", "10.10 (0.10)", "7.47 (0.92)", "–", "–"]
    assert text[3][:4] == ["MU-SVM, no-entry", "8.20 (0.20)", "6.57 (0.59)", "-1.90 ± 0.06"]
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
    assert {line[4] for line in rows(markdown(made_up("timing", "digits")))[2:]} == {"–"}


def test_the_stand_in_shows_the_figures_of_what_it_stands_for():
    assert rows(markdown(made_up("table2", "nist")))[2][2] == "26.15 (2.08)"
    assert rows(markdown(made_up("table2", "digits")))[2][2] == "–"


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
    for group in groups_of(shuffled):
        assert [cell["partition"] for cell in group.cells] == [0, 1, 2]


@pytest.mark.parametrize(
    ("departure", "said"),
    [
        ({"split": "tracks"}, "physical sign"),
        ({"loss": "max"}, "eq. (2)"),
        ({"weight": "searched"}, "C*/C is searched"),
        ({"universum": "random-average"}, "averages"),
        ({"model": "one-vs-rest"}, "binary"),
        ({"ties": "hinge"}, "hinge"),
        ({"criterion": "span"}, "span of every support vector"),
    ],
)
def test_the_description_says_what_departs_from_the_paper(departure, said):
    assert said in describe(made_up("table2", **departure))
    assert said not in describe(made_up("table2"))


def test_the_verdict_is_told_from_the_figures():
    text = section(made_up("table2", partitions=10))
    assert "no-entry: the MU-SVM makes 1.55 points fewer errors" in text
    assert "In the paper it made 0.90 points fewer." in text
    even = made_up("table2", partitions=4)
    for cell in even["cells"]:
        cell["mu_svm"]["error"] = cell["svm"]["error"] + (-1) ** cell["partition"] * 0.01
    assert "neither clearly more nor clearly fewer errors" in section(even)


def test_averages_are_not_taken_for_the_universum_whose_place_they_take():
    text = section(made_up("table2", partitions=10, universum="random-average"))
    assert "- random-average: the MU-SVM makes 1.55 points fewer errors" in text
    assert "no-entry" not in text
    assert "In the paper" not in text


def test_variants_are_named_by_what_they_change():
    departures = [{}, {"loss": "max"}, {"ties": "hinge"}, {"criterion": "span"}, {"partitions": 5}]
    files = [made_up("table2", **{"partitions": 10, **changes}) for changes in departures]
    names = [line[0] for line in rows(variants(files))[2:]]
    assert names == [
        *("the paper's protocol", "loss max", "ties hinge", "criterion span", "5 partitions")
    ]


def test_the_page_replaces_every_marker(tmp_path):
    write_results(made_up("table2"), tmp_path / "table2_gtsrb.json")
    (tmp_path / "tables.md.in").write_text(
        "before\n\n<!-- results: table2_gtsrb -->\n\n<!-- variants: table2_gtsrb -->\nafter\n"
    )
    page = make_page(tmp_path)
    assert page.startswith("before\n\nTraffic signs")
    assert page.endswith("after\n")
    assert "<!--" not in page


def test_the_committed_page_is_what_its_results_files_make(request):
    folder = request.config.rootpath / "docs" / "results"
    page = (folder / "tables.md").read_text(encoding="utf-8")
    assert page == make_page(folder), "write it again: python -m musvm.experiments.page"
    cited = re.findall(r"<!-- \w+: ([^>]+?) -->", (folder / "tables.md.in").read_text())
    present = {path.stem for path in folder.glob("*.json")}
    assert {name for names in cited for name in names.split()} <= present
