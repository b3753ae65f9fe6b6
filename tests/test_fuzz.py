"""A short run over malformed files; `benchmarks/fuzz.py` is the long one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables need pandas")
pytest.importorskip("skops", reason="model files need skops")
pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")

import malformed


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield malformed.Workplace.make(folder)


@pytest.mark.parametrize("kind", malformed.KINDS)
def test_malformed_files_are_refused_in_one_line(workplace, kind):
    outcomes = []

    @settings(max_examples=75, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def every_case(data):
        outcomes.append(workplace.outcome(kind, data.draw)[0])

    every_case()
    assert "refused" in outcomes, "the files were not malformed"
