"""Interior points on tensors, against the paper's own program and the same method on arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.datasets import load_digits, load_wine

from devices import DEVICES
from musvm import UniversumSVC
from musvm._threads import Workers
from musvm.dual.problem import DualProblem, DualRows
from musvm.kernels import Kernel
from musvm.solvers import choose
from musvm.solvers.backends import torch_interior
from musvm.solvers.factors import principal_factor
from musvm.solvers.interior import Equations, Interior
from optimality import assert_optimal
from oracles import optimum
from strategies import linear_problems

TOL = 1e-6


def solve(X, rows, device="cpu", tol=TOL):
    points = torch.as_tensor(X, dtype=torch.float64, device=device)
    return torch_interior.solve_on_device(points, rows, tol=tol, max_iter=200)


@settings(max_examples=40)
@given(linear_problems())
def test_objective_is_that_of_the_literal_program(case):
    X, rows = case
    assert_optimal(solve(X, rows), DualProblem(X @ X.T, rows), TOL)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_raw_features_and_large_C(device, loss, delta):
    """Columns of wine differ by four orders of magnitude."""
    X, y = load_wine(return_X_y=True)
    inside = y < 2
    points = np.vstack([X[inside], X[~inside]])
    rows = DualRows(y[inside].astype(np.intp), 2, np.full(len(y), 1e3), delta, loss)
    there = solve(points, rows, device)
    oracle = optimum(DualProblem(points @ points.T, rows))
    assert there.converged
    assert there.primal == pytest.approx(oracle.upper, rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_equations_are_those_of_arrays(device):
    """Two pieces, training points and universum."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 40)
    rows = DualRows(y, 3, rng.uniform(0.5, 2.0, 60), 0.1)
    Z = principal_factor(X, np.arange(60))
    there = torch.as_tensor(Z, device=device)
    rhs, found = rng.normal(size=(3, 4)), []
    rhs -= rhs.mean(axis=0)
    for z, equations in (
        (Z, Equations(4, 3, Workers())),
        (there, torch_interior.DeviceEquations(there, 3)),
    ):
        interior = Interior(z, rows, Workers(), equations=equations)
        for _ in range(3):
            interior.step()
        equations.factorise(interior.pieces)
        solved = equations.solve(torch.as_tensor(rhs, device=device) if z is there else rhs)
        found.append(np.asarray(torch.as_tensor(solved).cpu()))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n_rows", [3, 2 * torch_interior.ROWS_A_PIECE, 10_001])
def test_products_of_long_rows_in_pieces(device, n_rows):
    rng = np.random.default_rng(n_rows)
    A, B = rng.normal(size=(2, 5, n_rows))
    found = torch_interior._product(
        torch.as_tensor(A, device=device), torch.as_tensor(B, device=device)
    )
    np.testing.assert_allclose(found.cpu().numpy(), A @ B.T, rtol=1e-10, atol=1e-10)


@pytest.fixture
def treated_as_device(monkeypatch):
    """Tensors of the processor take the way of a GPU's."""
    monkeypatch.setattr(choose, "is_on_host", lambda _: False)


@pytest.fixture
def solved(monkeypatch):
    """What interior points have solved on the device, a list that grows."""
    found, on_device = [], torch_interior.solve_on_device

    def recorded(*arguments, **options):
        found.append(arguments)
        return on_device(*arguments, **options)

    monkeypatch.setattr(torch_interior, "solve_on_device", recorded)
    return found


def digits():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    return X[y < 7], y[y < 7], X[y >= 7]


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_fit_of_tensors_is_that_of_arrays(treated_as_device, solved, fit_intercept):
    X, y, U = digits()
    model = UniversumSVC(
        1.0, kernel="linear", delta=0.1, solver="interior", fit_intercept=fit_intercept
    )
    of_arrays = model.fit(X, y, universum=U).objective_
    assert not solved
    model.fit(torch.as_tensor(X), torch.as_tensor(y), universum=torch.as_tensor(U))
    assert len(solved) == 1
    assert model.converged_
    assert model.objective_ == pytest.approx(of_arrays, rel=2e-4)
    of_tensors = model.decision_function(torch.as_tensor(X))
    np.testing.assert_allclose(of_tensors, model.decision_function(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("C", "stays"), [(1e-3, False), (10.0, True)])
def test_descent_on_the_host_takes_what_is_easy(treated_as_device, solved, monkeypatch, C, stays):
    X, y, _ = digits()
    monkeypatch.setattr(choose, "GRAM_LIMIT", 100)
    model = UniversumSVC(C, kernel="linear").fit(torch.as_tensor(X), torch.as_tensor(y))
    assert model.converged_
    assert bool(solved) == stays


@pytest.mark.parametrize("trouble", ["no room", "out of memory"])
def test_without_memory_there_the_host_takes_over(treated_as_device, monkeypatch, trouble):
    X, y, U = digits()

    tried = []

    def fail(*_, **__):
        tried.append(True)
        raise torch.cuda.OutOfMemoryError("no more")

    if trouble == "no room":
        monkeypatch.setattr(torch_interior, "has_room", lambda *_: False)
    monkeypatch.setattr(torch_interior, "solve_on_device", fail)
    model = UniversumSVC(1.0, kernel="linear", delta=0.1, solver="interior")
    model.fit(torch.as_tensor(X), torch.as_tensor(y), universum=torch.as_tensor(U))
    assert model.converged_
    assert bool(tried) == (trouble == "out of memory")


@pytest.mark.parametrize(
    ("n_points", "n_columns", "solver", "stays"),
    [
        (choose.GRAM_LIMIT, 20, "auto", False),
        (choose.GRAM_LIMIT + 1, 20, "auto", True),
        (choose.GRAM_LIMIT + 1, choose.MOST_COLUMNS_THERE + 1, "auto", False),
        (100, 20, "interior", True),
        (10_000, 20, "linear", False),
        (10_000, 20, "gram", False),
    ],
)
def test_which_linear_fits_stay(treated_as_device, n_points, n_columns, solver, stays):
    X = torch.zeros((1, n_columns))
    assert choose.stays_on_device(X, n_points, "linear", solver) == stays


def test_tensors_of_the_processor_are_solved_as_arrays():
    assert not choose.stays_on_device(torch.zeros((1, 20)), 10**5, "linear", "auto")


def test_numbers_that_overflow_are_refused(treated_as_device):
    X, y, _ = digits()
    model = UniversumSVC(1.0, kernel="linear", solver="interior")
    with pytest.raises(ValueError, match="NaN or infinite"):
        model.fit(torch.as_tensor(1e160 * X), torch.as_tensor(y))


def test_what_rounding_may_hide_is_doubted_as_on_the_host():
    """By k(x, x), which the linear kernel of tensors has as well."""
    X, y, _ = digits()
    rows = np.arange(0, len(X), 2)
    dual = DualRows(y[rows], 7, np.ones(len(rows)))
    kernel = Kernel("linear", constant=2.0)
    diagonals = [
        choose.PointProblem(kernel, points, rows, dual, 1e-16).diagonal
        for points in (X, torch.as_tensor(X))
    ]
    np.testing.assert_allclose(*diagonals, rtol=1e-12)
