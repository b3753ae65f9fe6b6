"""Public names are documented as numpydoc has it, and say how they are used."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

import pytest

validation = pytest.importorskip("numpydoc.validate", reason="needs the extra 'docs'")

PUBLIC_MODULES = ("musvm", "musvm.datasets", "musvm.report", "musvm.universum")
# What scikit-learn leaves out too: an extended summary, "See Also", verbs first, and Returns
# sections without a name. Types that a parameter shares with another function stand there.
LEFT_OUT = {"ES01", "SA01", "SS05", "RT02", "PR04"}
NOT_OF_METHODS = {"EX01"}
# Returned by functions and not made by hand: their fields are documented as attributes.
RESULTS = {
    "musvm.ApproximationCost",
    "musvm.Verification",
    "musvm.universum.Diagnosis",
    "musvm.universum.UniversumDiagnosis",
}
NOT_OF_RESULTS = {"PR01", "EX01"}
NOT_OF_EXCEPTIONS = {"EX01"}
ELSEWHERE = {"musvm.load": {"EX01"}}  # the example of `save` reads what it wrote


def public_names() -> Iterator[str]:
    for module in PUBLIC_MODULES:
        for name in importlib.import_module(module).__all__:
            yield f"{module}.{name}"


def methods_of(name: str) -> list[str]:
    thing = validation.Validator._load_obj(name)
    if not inspect.isclass(thing):
        return []
    return [
        f"{name}.{method}"
        for method, value in vars(thing).items()
        if not method.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, (property, classmethod)))
    ]


def faults(name: str, excused: set[str]) -> list[str]:
    found = validation.validate(name)["errors"]
    return [f"{name}: {code} {text}" for code, text in found if code not in LEFT_OUT | excused]


@pytest.mark.parametrize("name", sorted(public_names()))
def test_a_public_name_is_documented(name):
    thing = validation.Validator._load_obj(name)
    excused = NOT_OF_RESULTS if name in RESULTS else ELSEWHERE.get(name, set())
    if inspect.isclass(thing) and issubclass(thing, Exception):
        excused = NOT_OF_EXCEPTIONS
    found = faults(name, excused)
    for method in methods_of(name):
        found += faults(method, NOT_OF_METHODS | excused)
    assert not found


def test_a_parameter_without_a_word_is_found(monkeypatch):
    monkeypatch.setattr("musvm.loo_error.__doc__", "Find the error.")
    assert any("PR01" in fault for fault in faults("musvm.loo_error", set()))
