"""Runs can be killed at any time and continue; the results file is then the same, byte for byte."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from musvm.experiments import run
from musvm.experiments.data import load_data
from musvm.experiments.protocol import Study
from musvm.experiments.run import cells_of, run_table, slug, write_results
from musvm.experiments.store import Store

STUDY = Study("digits")


@pytest.fixture(scope="module")
def data():
    return load_data("digits")


def table2(data, folder, **options):
    results = run_table("table2", data, STUDY, partitions=2, folder=folder, verbose=0, **options)
    write_results(results, folder / "table2.json")
    return (folder / "table2.json").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory):
    return table2(data, tmp_path_factory.mktemp("uninterrupted"))


def test_a_run_that_failed_half_way_continues(data, uninterrupted, tmp_path, monkeypatch):
    computed = []

    def failing(data, study, cell, compute=run.run_cell):
        if len(computed) == 2:
            raise KeyboardInterrupt
        computed.append(cell)
        return compute(data, study, cell)

    with monkeypatch.context() as patch:
        patch.setattr(run, "run_cell", failing)
        with pytest.raises(KeyboardInterrupt):
            table2(data, tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert len(kept) == 2
    assert table2(data, tmp_path) == uninterrupted
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "finished cells were redone"


def test_a_run_that_was_killed_continues(data, uninterrupted, tmp_path):
    command = [sys.executable, "-m", "musvm", "reproduce", "table2"]
    options = ["--partitions", "2", "--jobs", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    cells = tmp_path / "cells"
    while process.poll() is None and not (cells.is_dir() and any(cells.glob("*.json"))):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any(cells.glob("*.json"))
    assert not (tmp_path / "table2_digits.json").exists()
    assert table2(data, tmp_path) == uninterrupted


def test_processes_do_not_change_the_results(data, uninterrupted, tmp_path):
    assert table2(data, tmp_path, n_jobs=2) == uninterrupted


def test_a_second_run_computes_nothing(data, uninterrupted, tmp_path, monkeypatch):
    table2(data, tmp_path)

    def never(*arguments):
        raise AssertionError("a finished cell was computed again")

    monkeypatch.setattr(run, "run_cell", never)
    assert table2(data, tmp_path) == uninterrupted


def test_tables_share_cells_but_timing_does_not(data):
    shared = set(cells_of("table2", STUDY, 3, "cv"))
    assert shared <= set(cells_of("table3", STUDY, 3, "cv"))
    assert shared <= set(cells_of("table4", STUDY, 3, "cv"))
    assert {cell.criterion for cell in cells_of("timing", STUDY, 1, "cv")} == {
        *("cv", "span-2016", "span", "loo-estimate", "loo")
    }


def test_the_results_file_holds_conditions_versions_seeds_and_every_error(uninterrupted):
    results = json.loads(uninterrupted)
    assert results["conditions"]["seed"] == 0
    assert results["conditions"]["setting"]["n_train"] == 20
    assert set(results["versions"]) == {"musvm", "numpy", "scipy", "scikit-learn"}
    assert [cell["partition"] for cell in results["cells"]] == [0, 0, 1, 1]
    assert all(0 <= cell["mu_svm"]["error"] <= 1 for cell in results["cells"])
    assert not any("times" in cell for cell in results["cells"])


def test_names_of_results_files_tell_variants_apart():
    assert slug("table2", STUDY) == "table2_digits"
    assert slug("table2", Study("gtsrb", split="tracks")) == "table2_gtsrb_split-tracks"
    assert slug("table4", STUDY, "span") == "table4_digits_criterion-span"


CONDITIONS = {"cell": 1, "grid": [0.1, 1.0]}


def test_a_stored_outcome_comes_back(tmp_path):
    Store(tmp_path).save(CONDITIONS, {"error": 0.1})
    assert Store(tmp_path).load(CONDITIONS) == {"error": 0.1}
    assert Store(tmp_path).load({**CONDITIONS, "cell": 2}) is None


@pytest.mark.parametrize("content", ["", '{"outcome": {', "[]", '{"outcome": 1}', "\0\0"])
def test_a_damaged_cell_is_computed_again(tmp_path, content):
    store = Store(tmp_path)
    store.save(CONDITIONS, {"error": 0.1})
    [path] = tmp_path.iterdir()
    path.write_text(content)
    assert store.load(CONDITIONS) is None


def test_a_cell_of_other_conditions_under_the_same_name_is_not_believed(tmp_path):
    store = Store(tmp_path)
    store.save(CONDITIONS, {"error": 0.1})
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text().replace('"cell": 1', '"cell": 7'))
    assert store.load(CONDITIONS) is None
