"""Runs can be killed at any time and continue; the results file is then the same, byte for byte."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from threadpoolctl import threadpool_limits

from musvm.experiments import store as storage
from musvm.experiments import tables
from musvm.experiments.experiment import run, write_results
from musvm.experiments.protocol import Study
from musvm.experiments.settings import SETTINGS
from musvm.experiments.store import Store, code_digest
from musvm.experiments.tables import cells_of, slug

STUDY = Study(SETTINGS["digits"])
EXPERIMENT = tables.experiment("table2", STUDY, 2)


def table2(folder, experiment=EXPERIMENT, **options):
    results = run(experiment, None, folder, verbose=0, **options)
    write_results(results, folder / "table2.json")
    return (folder / "table2.json").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    with threadpool_limits(2, user_api="blas"):  # other processes have one
        return table2(tmp_path_factory.mktemp("uninterrupted"))


def test_a_run_that_failed_half_way_continues(uninterrupted, tmp_path):
    computed = []

    def failing(data, task):
        if len(computed) == 2:
            raise KeyboardInterrupt
        computed.append(task)
        return EXPERIMENT.work(data, task)

    with pytest.raises(KeyboardInterrupt):
        table2(tmp_path, replace(EXPERIMENT, work=failing))
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert len(kept) == 2
    assert table2(tmp_path) == uninterrupted
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "finished tasks were redone"


def test_a_run_that_was_killed_continues(uninterrupted, tmp_path):
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
    assert table2(tmp_path) == uninterrupted


def test_processes_do_not_change_the_results(uninterrupted, tmp_path):
    assert table2(tmp_path, n_jobs=2) == uninterrupted


def never(*arguments):
    raise AssertionError("a finished task was done again")


def test_a_second_run_computes_nothing(uninterrupted, tmp_path):
    table2(tmp_path)
    assert table2(tmp_path, replace(EXPERIMENT, work=never)) == uninterrupted


def test_other_code_does_everything_again(tmp_path, monkeypatch):
    table2(tmp_path)
    monkeypatch.setattr("musvm.experiments.experiment.code_digest", lambda: "other")
    with pytest.raises(AssertionError, match="done again"):
        table2(tmp_path, replace(EXPERIMENT, work=never))


def test_the_code_is_known_by_its_sources(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "room").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "room" / "solver.pyx").write_text("cdef int x")
    monkeypatch.setattr(storage.musvm, "__file__", str(package / "__init__.py"))
    digests = []
    for change in (
        lambda: None,
        lambda: (package / "room" / "solver.pyx").write_text("cdef int y"),
        lambda: (package / "room" / "solver.pyx").rename(package / "room" / "other.pyx"),
        lambda: (package / "notes.txt").write_text("no source"),
    ):
        change()
        digests.append(code_digest.__wrapped__())
    assert len(set(digests)) == 3
    assert digests[2] == digests[3]


def test_tables_share_cells():
    shared = set(cells_of("table2", STUDY.setting, 3))
    assert shared <= set(cells_of("table3", STUDY.setting, 3))
    assert shared <= set(cells_of("table4", STUDY.setting, 3))
    assert {cell.criterion for cell in cells_of("timing", STUDY.setting, 1)} == {
        *("cv", "span-2016", "span", "loo-estimate", "loo")
    }


def test_times_are_taken_alone(tmp_path):
    timing = tables.experiment("timing", STUDY, 2)
    assert timing.times
    few = replace(timing, tasks=timing.tasks[:1])
    [cell] = run(few, None, tmp_path, verbose=0)["cells"]
    assert cell["times"]["cpu_seconds"] > 0
    with pytest.raises(AssertionError, match="done again"):
        run(replace(few, times=False, work=never), None, tmp_path, verbose=0)


def test_the_results_file_holds_conditions_versions_code_and_every_error(uninterrupted):
    results = json.loads(uninterrupted)
    assert results["conditions"]["seed"] == 0
    assert results["conditions"]["code"] == code_digest()
    assert results["conditions"]["setting"]["n_train"] == 20
    assert set(results["versions"]) == {"musvm", "numpy", "scipy", "scikit-learn"}
    assert [cell["partition"] for cell in results["cells"]] == [0, 0, 1, 1]
    assert all(0 <= cell["mu_svm"]["error"] <= 1 for cell in results["cells"])
    assert not any("times" in cell for cell in results["cells"])


def test_names_of_results_files_tell_variants_apart():
    assert slug("table2", STUDY) == "table2_digits"
    signs = Study(SETTINGS["gtsrb"], split="tracks")
    assert slug("table2", signs) == "table2_gtsrb_split-tracks"
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
