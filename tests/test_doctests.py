"""The examples in the docstrings of the package run and give what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import musvm

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(musvm.__path__, "musvm.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name.startswith("musvm.solvers.backends.torch") or name == "musvm._input.on_device":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    module = importlib.import_module(name)
    failures, _ = doctest.testmod(module, optionflags=OPTIONS)
    assert failures == 0


def test_the_estimator_has_an_example():
    finder = doctest.DocTestFinder(recurse=False)
    assert any(test.examples for test in finder.find(musvm.UniversumSVC))
