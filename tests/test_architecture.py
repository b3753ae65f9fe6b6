"""The architecture page keeps its word: its files exist, and calls take the ways that it lists."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import musvm
from musvm import UniversumSVC, UniversumSVCCV, loo_error
from musvm.solvers import choose

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "musvm"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# Text in backticks that is a path in the package or in the project.
PATH = re.compile(r"`((?:[\w.]+/)*[\w.]*\.(?:py|pyx|toml|md)|(?:[\w.]+/)+)`")


@pytest.mark.parametrize("name", sorted(set(PATH.findall(PAGE))))
def test_a_file_that_is_named_exists(name):
    assert (PACKAGE / name).exists() or (ROOT / name).exists()


def listed(title: str) -> list[str]:
    """The files of a way, in their order; what follows a semicolon or a comma are remarks."""
    entry = re.search(rf"^- \*\*{re.escape(title)}\*\*: (.*?)(?=^- \*\*|^## )", PAGE, re.S | re.M)
    way = re.split("[;,]", entry.group(1))[0]
    return [name for part in way.split("→") for name in PATH.findall(part)[:1]]


def entered(call: Callable[[], object]) -> list[str]:
    """Files of the package in the order in which functions of theirs are first called."""
    home = str(Path(musvm.__file__).parent) + "/"
    found: dict[str, None] = {}

    def note(frame, event, _):
        file = frame.f_code.co_filename.replace("\\", "/")
        if event == "call" and file.startswith(home) and frame.f_code.co_name != "<module>":
            found.setdefault(file.removeprefix(home))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(found)


def data():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), np.arange(90) % 3
    X[np.arange(90), y] += 2.0
    return X, y, rng.normal(size=(20, 4))


def small_fit():
    X, y, U = data()
    return lambda: UniversumSVC().fit(X, y, universum=U)


def sparse_fit():
    X, y, U = data()
    model = UniversumSVC(0.1, kernel="linear", solver="linear", tol=1e-2)
    return lambda: model.fit(sp.csr_array(X), y, universum=sp.csr_array(U))


def search():
    X, y, U = data()
    return lambda: UniversumSVCCV([0.1, 1.0], criterion="span").fit(X, y, universum=U)


def leave_one_out():
    X, y, U = data()
    model = UniversumSVC().fit(X, y, universum=U)
    return lambda: loo_error(model, X, y, universum=U, method="loo")


WAYS = {
    "A small fit with an RBF kernel": small_fit,
    "60,000 points": small_fit,
    "A sparse linear fit with many columns": sparse_fit,
    "A search by span": search,
    "Exact leave-one-out": leave_one_out,
}


@pytest.mark.parametrize("title", WAYS)
def test_a_call_takes_the_way_that_is_listed(title, monkeypatch):
    if title == "60,000 points":
        monkeypatch.setattr(choose, "GRAM_LIMIT", 10)
    way, found = listed(title), entered(WAYS[title]())
    assert len(way) > 9
    assert [name for name in found if name in way] == way


def test_a_way_that_is_not_taken_is_noticed():
    assert entered(small_fit()) != listed("60,000 points")
    assert "solvers/working_set.py" not in entered(small_fit())
