"""Estimators on tensors: NumPy's model and predictions, in the caller's library."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from musvm import UniversumSVC, UniversumSVCCV
from musvm._input import tensors
from musvm._input.tensors import to_host
from musvm.kernels import Kernel
from musvm.search import cv
from musvm.solvers import choose as paths

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import fake_cupy  # noqa: E402
from devices import DEVICES  # noqa: E402
from musvm._input import on_device  # noqa: E402
from musvm.solvers.backends import torch as torch_backend  # noqa: E402

MODELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.1},
    "scale": {"kernel": "rbf", "gamma": "scale"},
    "max": {"kernel": "rbf", "gamma": 0.1, "universum_loss": "max"},
    "poly": {"kernel": "poly", "gamma": 0.1, "degree": 2, "coef0": 1.0},
    "linear": {"kernel": "linear", "C": 0.1},
}


def digits():
    """Training points of four classes, their labels, universum points, and others."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    classes = np.flatnonzero(y < 4)
    train, test = classes[:300], classes[300:400]
    return X[train], y[train], X[y >= 7][:150], X[test]


def make(name: str, **changes) -> UniversumSVC:
    settings = {"C": 5.0, "delta": 0.1, "tol": 1e-5, "solver": "working-set"}
    return UniversumSVC(**{**settings, **MODELS[name], **changes})


def tensor(array, device="cpu", dtype=None):
    return torch.as_tensor(array, device=device, dtype=dtype)


def reach(model: UniversumSVC, X: np.ndarray) -> np.ndarray:
    """How far a decision value can be from the optimum's: |w - w*|^2 <= 2 gap."""
    diagonal = np.array([model.model_.kernel.matrix(x[None], x[None])[0, 0] for x in X])
    return np.sqrt(2.0 * model.dual_gap_ * diagonal)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(7, 11), (40, 4), (3, 1)])
def test_a_large_tensor_comes_to_the_host_in_pieces(device, shape, monkeypatch):
    monkeypatch.setattr(tensors, "LARGE", 8)
    monkeypatch.setattr(on_device, "ENTRIES_A_PIECE", 20)
    for dtype in (np.float64, np.float32, np.int64):
        values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        found = to_host(tensor(values, device).T)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, values.T)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_that_of_numpy_within_the_certificate(name, device):
    X, y, U, test = digits()
    host = make(name).fit(X, y, universum=U)
    there = make(name).fit(tensor(X, device), tensor(y, device), universum=tensor(U, device))
    assert there.converged_
    assert there.model_.kernel.gamma == pytest.approx(host.model_.kernel.gamma, rel=1e-12)
    assert abs(there.objective_ - host.objective_) <= max(there.dual_gap_, host.dual_gap_)

    F, expected = there.decision_function(tensor(test, device)), host.decision_function(test)
    distance = np.abs(to_host(F) - expected).max(axis=1)
    room = reach(there, test) + reach(host, test)
    assert np.all(distance <= room)
    certain = host.projections(test).max(axis=1) > 2.0 * room
    assert certain.mean() > 0.25
    same = to_host(there.predict(tensor(test, device))) == host.predict(test)
    assert same[certain].all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_says_the_same_of_a_tensor_as_of_an_array(name, device):
    X, y, U, test = digits()
    model = make(name).fit(X, y, universum=U)
    for method in ("decision_function", "predict", "projections", "universum_score"):
        expected, found = getattr(model, method)(test), getattr(model, method)(tensor(test, device))
        assert isinstance(found, torch.Tensor), method
        assert found.device.type == device, method
        np.testing.assert_allclose(to_host(found), expected, atol=1e-9, err_msg=method)
        assert to_host(found).dtype == expected.dtype, method
    labels = model.predict(test)
    assert model.score(tensor(test, device), tensor(labels, device)) == 1.0


def test_small_problems_are_solved_on_the_host_bit_by_bit():
    X, y, U, _ = digits()
    host = make("rbf", solver="auto").fit(X, y, universum=U)
    there = make("rbf", solver="auto").fit(tensor(X), tensor(y), universum=(tensor(U),))
    np.testing.assert_array_equal(there.dual_coef_, host.dual_coef_)
    assert there.model_.fingerprint == host.model_.fingerprint


@pytest.mark.parametrize("device", DEVICES)
def test_a_search_by_folds_of_many_points_stays_on_the_device(device, monkeypatch):
    """It finds what it finds on arrays, and cells of one part and kernel share a matrix."""
    X, y, U, _ = digits()
    for room in (paths, cv):
        monkeypatch.setattr(room, "GRAM_LIMIT", 100)
    made, proper = [], torch_backend._Cache.__init__

    def noted(self, kernel, n_points, n_slots):
        made.append(n_points)
        proper(self, kernel, n_points, n_slots)

    monkeypatch.setattr(torch_backend._Cache, "__init__", noted)
    grid = {"gammas": (0.05, 0.1), "deltas": (0.0, 0.1), "universum_weights": ("balanced",)}
    options = {"Cs": (0.5, 5.0), "criterion": 3, "n_steps": 1, "tol": 1e-6, **grid}
    options["scoring"] = "balanced_accuracy"
    host = UniversumSVCCV(**options).fit(X, y, universum=U)
    assert not made
    there = UniversumSVCCV(**options, n_jobs=2).fit(
        tensor(X, device), tensor(y, device), universum=tensor(U, device)
    )
    # For each gamma three folds without and with universum, and the final fit.
    assert sorted(made[:-1]) == 2 * 3 * [200] + 2 * 3 * [350]
    assert made[-1] in (300, 450)
    assert there.best_params_ == host.best_params_
    for column in ("criterion", "score"):
        np.testing.assert_allclose(there.results_[column], host.results_[column])
    np.testing.assert_allclose(there.left_out_margins_, host.left_out_margins_, atol=0.02)
    assert there.results_["converged"].all()


@pytest.mark.parametrize("device", DEVICES)
def test_kept_matrices_make_way_for_others(device):
    X = torch.as_tensor(digits()[0], device=device)
    kernel, matrices = Kernel("rbf", 0.1), torch_backend.KeptMatrices()
    budget = 4.0 * 2.5 * 100**2

    def cache(start):
        return matrices.cache(start, kernel, X[start : start + 100], budget)

    first, second = cache(0), cache(100)
    assert cache(0) is first
    cache(200)
    # The second was not used for longest.
    assert cache(0) is first
    assert cache(100) is not second
    assert first.is_whole


def test_large_problems_stay_on_the_device(monkeypatch):
    X, y, U, _ = digits()
    monkeypatch.setattr(paths, "GRAM_LIMIT", 400)
    seen = []

    def backend(problem, *others):
        seen.append(problem.X)
        return original(problem, *others)

    original = paths._backend
    monkeypatch.setattr(paths, "_backend", backend)
    make("rbf", solver="auto").fit(tensor(X), tensor(y), universum=tensor(U))
    assert len(seen) == 1
    assert isinstance(seen[0], torch.Tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_other_types_are_the_numbers_they_hold(dtype):
    X, y, U, test = digits()
    # Sixteenths are exact in all of the types, and whole numbers in the last.
    scale = 16.0 if dtype == torch.int64 else 1.0
    settings = {"gamma": 0.1 / scale**2}
    there = make("rbf", **settings).fit(
        tensor(scale * X, dtype=dtype), tensor(y), universum=tensor(scale * U, dtype=dtype)
    )
    host = make("rbf", **settings).fit(scale * X, y, universum=scale * U)
    assert abs(there.objective_ - host.objective_) <= max(there.dual_gap_, host.dual_gap_)
    F = there.decision_function(tensor(scale * test, dtype=dtype))
    assert F.dtype == torch.float64
    np.testing.assert_allclose(F, there.decision_function(scale * test), atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.bool])
def test_labels_of_any_integer_type_stay_what_they_are(dtype):
    X, y, U, test = digits()
    chosen = y < 2
    X, y = X[chosen], tensor(y[chosen], dtype=dtype)
    host = make("rbf").fit(X, y.numpy(), universum=U)
    there = make("rbf").fit(tensor(X), y, universum=tensor(U))
    assert there.classes_.dtype == host.classes_.dtype == y.numpy().dtype
    assert there.predict(tensor(test)).dtype == dtype
    np.testing.assert_array_equal(there.classes_, host.classes_)


def test_marked_universum_weights_and_equal_rows():
    X, y, U, _ = digits()
    points = np.vstack([X, U, X[:20]])
    labels = np.concatenate([y, np.full(len(U), -1), y[:20]])
    weight = np.where(np.arange(len(points)) % 7 == 0, 2.0, 1.0)
    weight[5] = 0.0
    settings = {"universum_label": -1, "class_weight": "balanced"}
    host = make("rbf", **settings).fit(points, labels, sample_weight=weight)
    there = make("rbf", **settings).fit(
        tensor(points), tensor(labels), sample_weight=tensor(weight)
    )
    assert abs(there.objective_ - host.objective_) <= max(there.dual_gap_, host.dual_gap_)
    assert there.score(tensor(points), tensor(labels)) == host.score(points, labels)


def test_classes_that_are_strings_come_back_in_numpy():
    X, y, _, test = digits()
    names = np.array(["zero", "one", "two", "three"])[y]
    model = make("rbf").fit(tensor(X), names)
    assert isinstance(model.predict(tensor(test)), np.ndarray)
    np.testing.assert_array_equal(model.predict(tensor(test)), model.predict(test))


def test_two_classes_have_one_decision_value():
    X, y, U, test = digits()
    two = y < 2
    model = make("rbf").fit(tensor(X[two]), tensor(y[two]), universum=tensor(U))
    F = model.decision_function(tensor(test))
    assert F.shape == (len(test),)
    np.testing.assert_allclose(F, model.decision_function(test), atol=1e-9)


def test_a_search_takes_tensors_and_answers_with_them():
    X, y, U, test = digits()
    grid = {"Cs": (1.0, 10.0), "deltas": (0.0, 0.1), "gammas": (0.1,)}
    host = UniversumSVCCV(**grid).fit(X, y, universum=U)
    there = UniversumSVCCV(**grid).fit(tensor(X), tensor(y), universum=tensor(U))
    assert there.best_params_ == host.best_params_
    predicted = there.predict(tensor(test))
    assert isinstance(predicted, torch.Tensor)
    np.testing.assert_array_equal(predicted, host.predict(test))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, U: (X[:, 0], U), "Expected 2D"),
        (lambda X, U: (torch.where(X.eq(X[0, 3]), torch.nan, X), U), "NaN"),
        (lambda X, U: (X, U[:, :3]), "universum has 3 features, but X has 64"),
        (lambda X, U: (X[:10], U), "inconsistent numbers of samples"),
        (lambda X, U: (X[:0], U), "0 sample"),
    ],
    ids=["one-dimensional", "nan", "narrow universum", "short", "empty"],
)
def test_malformed_tensors_are_refused(change, message):
    X, y, U, _ = digits()
    X, U = change(tensor(X), tensor(U))
    with pytest.raises(ValueError, match=message):
        make("rbf").fit(X, tensor(y), universum=U)


def test_sparse_tensors_are_refused():
    X, y, _, _ = digits()
    for solver in ("gram", "working-set"):
        with pytest.raises(TypeError, match="dense"):
            make("rbf", solver=solver).fit(tensor(X).to_sparse(), tensor(y))


def test_a_model_fitted_on_tensors_refuses_other_widths():
    X, y, _, test = digits()
    model = make("rbf").fit(tensor(X), tensor(y))
    with pytest.raises(ValueError, match="features"):
        model.predict(tensor(test[:, :5]))


def test_arrays_never_import_pytorch():
    program = (
        "import sys, numpy as np; from musvm import UniversumSVC; "
        "X = np.random.RandomState(0).normal(size=(30, 3)); y = X[:, 0] > 0; "
        "UniversumSVC(solver='working-set').fit(X, y).predict(X); "
        "print('torch' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("solver", ["gram", "working-set"])
def test_cupy_arrays_are_answered_with_cupy_arrays(monkeypatch, solver):
    cupy = fake_cupy.install(monkeypatch)
    X, y, U, test = digits()
    host = make("rbf", solver=solver).fit(X, y, universum=U)
    there = make("rbf", solver=solver).fit(
        cupy.asarray(X), cupy.asarray(y), universum=(cupy.asarray(U),)
    )
    assert abs(there.objective_ - host.objective_) <= max(there.dual_gap_, host.dual_gap_)
    for method in ("decision_function", "predict", "projections", "universum_score"):
        found = getattr(there, method)(cupy.asarray(test))
        assert type(found) is cupy.ndarray, method
        expected = getattr(there, method)(test)
        np.testing.assert_allclose(found.get(), expected, atol=1e-9, err_msg=method)
    labels = there.predict(test)
    assert there.score(cupy.asarray(test), cupy.asarray(labels)) == 1.0


def test_a_large_problem_of_cupy_arrays_stays_on_the_device(monkeypatch):
    cupy = fake_cupy.install(monkeypatch)
    X, y, U, _ = digits()

    def copied():
        raise AssertionError("the points were copied to the host")

    X, U = cupy.asarray(X), cupy.asarray(U)
    X.get = U.get = copied
    model = make("rbf").fit(X, cupy.asarray(y), universum=U)
    assert model.converged_


def test_classes_that_are_strings_come_back_in_numpy_for_cupy_too(monkeypatch):
    cupy = fake_cupy.install(monkeypatch)
    X, y, _, test = digits()
    names = np.array(["zero", "one", "two", "three"])[y]
    model = make("rbf").fit(cupy.asarray(X), names)
    found = model.predict(cupy.asarray(test))
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, model.predict(test))


def test_a_search_takes_cupy_arrays_and_answers_with_them(monkeypatch):
    cupy = fake_cupy.install(monkeypatch)
    X, y, U, test = digits()
    grid = {"Cs": (1.0, 10.0), "deltas": (0.0,), "gammas": (0.1,)}
    search = UniversumSVCCV(**grid).fit(cupy.asarray(X), cupy.asarray(y), universum=cupy.asarray(U))
    found = search.predict(cupy.asarray(test))
    assert type(found) is cupy.ndarray
    np.testing.assert_array_equal(found.get(), search.predict(test))
