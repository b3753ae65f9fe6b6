"""PyTorch's forms of data: tensors of any kind, data sets and loaders, taken or refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("torch", reason="tensors are PyTorch's")

import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

from musvm import (
    RejectingClassifier,
    UniversumSVC,
    UniversumSVCCV,
    loo_error,
    make_universum_pipeline,
    verify,
)
from musvm.datasets import load_digits_universum
from musvm.universum import diagnose, random_average, random_noise, select_in_between

OPTIONS = {"C": 10.0, "gamma": 1 / 8, "delta": 0.1}


@pytest.fixture(scope="module")
def digits():
    found = load_digits_universum(classes=range(3), n_per_class=15, m=60, random_state=0)
    return found.data, found.target, found.universum


@pytest.fixture(scope="module")
def tensors(digits):
    return tuple(map(torch.as_tensor, digits))


@pytest.fixture(scope="module")
def from_arrays(digits):
    X, y, U = digits
    return UniversumSVC(**OPTIONS).fit(X, y, universum=U)


# ---------------------------------------------------------------------------------------------
# What is no array


@pytest.mark.parametrize("kind", ["TensorDataset", "Subset"])
def test_a_data_set_as_X_is_answered_with_its_tensors(tensors, kind):
    X, y, _ = tensors
    whole = TensorDataset(X, y)
    given = whole if kind == "TensorDataset" else Subset(whole, range(20))
    words = rf"got a {kind}: pass its points as X, such as dataset\.tensors\[0\] .* labels as y"
    fitted = UniversumSVC(**OPTIONS).fit(X, y)
    for call in (
        lambda: UniversumSVC().fit(given, y),
        lambda: UniversumSVCCV().fit(given, y),
        lambda: fitted.predict(given),
        lambda: fitted.certified(given),
    ):
        with pytest.raises(TypeError, match=words):
            call()


def test_a_data_set_as_universum_is_answered_with_its_tensor(tensors):
    X, y, U = tensors
    for points in (X, X.numpy()):
        with pytest.raises(ValueError, match=r"universum is a TensorDataset: pass its tensor of"):
            UniversumSVC().fit(points, y, universum=TensorDataset(U))


def test_a_loader_of_points_with_labels_is_no_universum(tensors):
    X, y, U = tensors
    loader = DataLoader(TensorDataset(U, torch.zeros(len(U))), batch_size=20)
    with pytest.raises(ValueError, match=r"a piece of 2 tensors: a universum has no labels"):
        UniversumSVC().fit(X, y, universum=loader)


def test_those_who_need_all_points_say_how_to_put_pieces_together(digits, tensors):
    X, y, _ = digits
    plain, loader = UniversumSVC(**OPTIONS).fit(X, y), DataLoader(tensors[2], batch_size=20)
    words = r"only UniversumSVC\.fit takes: put them together, by np\.concatenate or torch\.cat"
    for call in (
        lambda: UniversumSVCCV().fit(X, y, universum=loader),
        lambda: UniversumSVCCV(criterion=2).fit(*tensors[:2], universum=loader),
        lambda: verify(plain, X, y, universum=loader),
        lambda: loo_error(plain, X, y, universum=loader),
        lambda: diagnose(plain, X, y, loader),
    ):
        with pytest.raises(ValueError, match=words):
            call()


# ---------------------------------------------------------------------------------------------
# What is taken


LOADERS = {
    "of a tensor": lambda U: DataLoader(U, batch_size=17),
    "of a data set": lambda U: DataLoader(TensorDataset(U), batch_size=17),
    "of tensors that require a gradient": lambda U: [U[:20].clone().requires_grad_(), U[20:]],
    "of half floats": lambda U: DataLoader(U.bfloat16(), batch_size=17),
}


@pytest.mark.parametrize("form", LOADERS)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_loader_is_the_universum_of_its_points(digits, tensors, from_arrays, form, as_tensor):
    X, y, _ = tensors if as_tensor else digits
    made = LOADERS[form](tensors[2])
    given = (lambda: iter(made)) if isinstance(made, list) else made
    model = UniversumSVC(**OPTIONS).fit(X, y, universum=given)
    # Pixels are multiples of 1/16 here, which half floats hold.
    gaps = model.dual_gap_ + from_arrays.dual_gap_
    assert model.objective_ == pytest.approx(from_arrays.objective_, abs=gaps)


def test_pieces_next_to_points_on_a_device_are_refused(tensors, monkeypatch):
    X, y, U = tensors
    monkeypatch.setattr("musvm._input.tensors.is_on_host", lambda array: False)
    with pytest.raises(ValueError, match=r"pass X\.cpu\(\), or put .* by torch\.cat"):
        UniversumSVC().fit(X, y, universum=DataLoader(U))


@pytest.mark.parametrize("kind", ["gradient", "bfloat16", "float16"])
def test_makers_of_universa_take_any_tensor(digits, tensors, kind):
    X, y, U = tensors
    points, candidates = (
        tensor.clone().requires_grad_() if kind == "gradient" else tensor.to(getattr(torch, kind))
        for tensor in (X, U)
    )
    expected = random_average(digits[0], digits[1], m=5, random_state=0)
    made = random_average(points, y, m=5, random_state=0)
    np.testing.assert_allclose(made, expected, rtol=1e-6)
    np.testing.assert_allclose(
        random_noise(points, m=5, random_state=0), random_noise(digits[0], m=5, random_state=0)
    )
    chosen = select_in_between(points, y, candidates, m=5)
    np.testing.assert_allclose(chosen, select_in_between(*digits, m=5))


def test_a_report_of_tensors_that_require_a_gradient_is_that_of_arrays(digits, tensors, tmp_path):
    pytest.importorskip("plotly", reason="the report needs plotly")
    from musvm import report

    def page(X, y, U) -> str:
        model = UniversumSVC(**OPTIONS).fit(X, y, universum=U)
        path = report.write(model, X, y, U, tmp_path / "report.html", deltas=[], overwrite=True)
        return re.sub(r"\d\d \w+ 20\d\d", "today", path.read_text(encoding="utf-8"))

    learnt = [t.clone().requires_grad_() if t.is_floating_point() else t for t in tensors]
    assert page(*learnt) == page(*digits)


# ---------------------------------------------------------------------------------------------
# What comes back, as the page of the documentation says


def test_the_types_that_come_back(tensors):
    X, y, U = tensors
    model = UniversumSVC(**OPTIONS).fit(X, y, universum=U)
    for method in ("predict", "decision_function", "projections", "universum_score"):
        assert isinstance(getattr(model, method)(X), torch.Tensor), method
    rejecting = RejectingClassifier(model, reject_label=-1, cv=2).fit(X, y, universum=U)
    piped = make_universum_pipeline(UniversumSVC(**OPTIONS)).fit(X, y, universum=U)
    assert isinstance(piped.predict(X), torch.Tensor)
    for found in (
        model.certified(X),
        rejecting.predict(X),
        random_average(X, y, m=2),
        select_in_between(X, y, U, m=2),
        random_noise(X, m=2),
    ):
        assert isinstance(found, np.ndarray)
