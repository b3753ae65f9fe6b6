"""Settings and fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

# Processes that run tests side by side share the cores. With a thread for every core in each of
# them, BLAS, OpenMP and PyTorch spend most of the time waiting for threads that do not run. Read
# when these libraries are loaded, which is after this file, and by what the tests start. Tests of
# several threads ask for them.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, share)))

# The same examples in every run, so that a failure is the change under test and nothing else.
# HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    max_examples=100,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "search",
    settings.get_profile("default"),
    derandomize=False,
    max_examples=2000,
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

REPOSITORY = Path(__file__).parents[1]

# The files that take longest, the longest first. A process that runs tests takes a file at a time;
# were these among the last, the others would have nothing left to do beside them.
LONG_FILES = (
    "test_docs.py",
    "search/test_cv.py",
    "cli/test_transcript.py",
    "report/test_in_browser.py",
    "report/test_report.py",
    "search/test_cluster.py",
    "solvers/test_in_play.py",
    "experiments/test_demo.py",
    "test_fuzz.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, the others as they were collected."""
    rank = {REPOSITORY / "tests" / name: number for number, name in enumerate(LONG_FILES)}
    assert all(path.is_file() for path in rank), "LONG_FILES names a file that is not there"
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Where the data sets lie: MUSVM_DATA, or shared/data beside the repository."""
    default = REPOSITORY.parent / "shared" / "data"
    folder = Path(os.environ.get("MUSVM_DATA", default))
    if not folder.is_dir():
        pytest.skip("no data sets: set MUSVM_DATA to the folder that holds them")
    return folder


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    """For a test that compares processes: others have one thread, and must not need to."""
    with threadpool_limits(2, user_api="blas"):
        yield
