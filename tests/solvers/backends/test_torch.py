"""Tensors: the statement, the kernel rows and the descent on a device, against the host's."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import KERNELS, assert_computes_with, assert_hands_out_right_rows, points
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel, extended, other_side
from musvm.solvers.gram import solve
from musvm.solvers.working_set import solve_by_working_sets
from strategies import problems

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from devices import DEVICES  # noqa: E402
from musvm.solvers.backends import torch as torch_backend  # noqa: E402
from musvm.solvers.backends.torch import DeviceRows  # noqa: E402
from musvm.solvers.backends.torch_kernel import DeviceKernel, in_halves  # noqa: E402
from musvm.solvers.backends.torch_replay import Replayed  # noqa: E402


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=100)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1), start=st.sampled_from([0.0, 1.0]))
def test_the_statement_says_the_same_of_tensors_as_of_arrays(device, problem, seed, start):
    rng = np.random.default_rng(seed)
    alpha = start * solve(problem, max_iter=1).alpha
    # Some decision values are exact ties.
    F = rng.normal(size=alpha.shape).round(rng.integers(0, 3))
    rows = DualRows(
        problem.rows.y,
        problem.rows.n_classes,
        problem.rows.caps,
        problem.rows.delta,
        problem.rows.universum_loss,
    )
    y, caps, a, f = (torch.as_tensor(x, device=device) for x in (rows.y, rows.caps, alpha, F))
    there = replace(rows, y=y, caps=caps)
    found = statement.kkt_violations(there, a, f)
    assert found.device.type == device
    np.testing.assert_allclose(found.cpu(), statement.kkt_violations(rows, alpha, F))
    scale = 1e-12 * float(problem.rows.caps.sum())
    assert statement.gap_and_primal(there, a, f) == pytest.approx(
        statement.gap_and_primal(rows, alpha, F), rel=1e-12, abs=scale
    )
    for name in ("dual_objective", "primal_objective"):
        there_found, expected = (
            getattr(statement, name)(*arguments) for arguments in ((there, a, f), (rows, alpha, F))
        )
        assert there_found == pytest.approx(expected, rel=1e-12, abs=scale), name
    infeasible = statement.infeasibility(there, f), statement.infeasibility(rows, F)
    assert infeasible[0] == pytest.approx(infeasible[1], rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("budget", [1e9, 4 * 60 * 20], ids=["whole", "cached"])
@pytest.mark.parametrize("name", KERNELS)
def test_rows_updates_and_restarts_are_those_of_the_matrix(name, budget, device):
    X, kernel = points(), KERNELS[name]
    K = kernel.matrix(X, X)
    backend = DeviceRows(kernel, torch.as_tensor(X, device=device), 3, budget)
    assert_computes_with(backend, K)


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=16, unique=True), max_size=12))
def test_the_cache_never_hands_out_a_wrong_row(requests):
    X, kernel = points(), KERNELS["rbf"]
    K = kernel.matrix(X, X)
    backend = DeviceRows(kernel, torch.as_tensor(X), 2, budget=4 * 60 * 16)
    assert_hands_out_right_rows(backend, K, requests)


def test_values_too_large_for_floats_are_refused():
    kernel, X = Kernel("poly", 1.0, 3, 0.0), torch.as_tensor(points() * 1e15)
    with pytest.raises(ValueError, match="scale the features"):
        DeviceRows(kernel, X, 2, 1e9)


def test_too_little_memory_is_told_in_figures():
    with pytest.raises(
        MemoryError, match=r"16 kernel rows of 60 points take 0.00384 MB, and 0.001"
    ):
        DeviceRows(KERNELS["rbf"], torch.as_tensor(points()), 2, 1e3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("budget", [1e9, 4 * 300 * 40], ids=["whole", "cached"])
def test_working_sets_on_a_device_reach_the_optimum(device, loss, budget):
    X = np.random.default_rng(0).normal(size=(300, 6))
    y = np.argmax(X[:200, :4] + 0.3 * np.random.default_rng(1).normal(size=(200, 4)), axis=1)
    caps = np.where(np.arange(300) < 200, 3.0, 1.0)
    rows, kernel = DualRows(y, 4, caps, 0.1, loss), Kernel("rbf", 0.2)
    backend = DeviceRows(kernel, torch.as_tensor(X, device=device), 4, budget)
    solution = solve_by_working_sets(rows, backend, tol=1e-6)
    assert solution.converged
    K = kernel.matrix(X, X)
    # Judged on the host, in doubles.
    F = K @ solution.alpha
    assert statement.infeasibility(rows, solution.alpha) < 1e-12
    assert statement.row_gaps(rows, solution.alpha, F).sum() <= 1.01e-6 * solution.primal
    np.testing.assert_allclose(solution.decision, F, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shift", [[0.0, 1.7e9], [-1e9, 1e9]])
def test_rbf_of_tensors_keeps_its_digits(device, shift):
    X = np.random.default_rng(0).normal(size=(20, 3)) + np.repeat(shift, 10)[:, None]
    exact = np.exp(-0.3 * np.sum((X[:, None] - X) ** 2, axis=2))
    on_device = DeviceKernel(Kernel("rbf", gamma=0.3), torch.as_tensor(X, device=device))
    identity = torch.eye(20, dtype=torch.float64, device=device)
    found = on_device.weighted(slice(None), identity).cpu().numpy()
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    singles = on_device.singles(slice(None)).cpu().numpy()
    np.testing.assert_allclose(singles, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 0.1, 1.0])
def test_products_of_split_points_are_those_of_floats(scale):
    """Whatever unit multiplies the half floats, what they stand for is right to 22 bits."""
    X = torch.as_tensor(scale * np.random.default_rng(0).normal(size=(50, 7)))
    left = extended(X, 0.4)
    halves = in_halves(left), in_halves(other_side(left), swapped=True)
    assert [half.dtype for half in halves] == 2 * [torch.float16]
    assert [half.shape for half in halves] == 2 * [(50, 32)]
    found = halves[0].double() @ halves[1].double().T
    exact = -0.4 * torch.cdist(X, X).square()
    # Half floats are multiples of 2^-24: what is left of a norm is rounded to half of that.
    atol = 2.0**-24 + 7 * (2.0**-21 * scale**2 + 2.0**-24 * scale)
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=atol)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [0.05, 0.3, 1.1], ids=["near", "halves", "floats"])
def test_rbf_rows_in_floats_have_their_digits_for_near_and_far_points(device, size):
    X = size * np.random.default_rng(0).normal(size=(200, 60))
    exact = np.exp(-0.3 * np.sum((X[:, None] - X) ** 2, axis=2))
    kernel = DeviceKernel(Kernel("rbf", gamma=0.3), torch.as_tensor(X, device=device))
    rows = kernel.singles(torch.arange(0, 200, 2, device=device)).cpu().numpy()
    np.testing.assert_allclose(rows, exact[::2], rtol=0.0, atol=2e-5)
    weights = torch.ones((200, 3), dtype=torch.float64, device=device)
    rough = kernel.roughly_weighted(weights).cpu().numpy()
    np.testing.assert_allclose(rough, exact @ np.ones((200, 3)), rtol=2e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_replayed_is_done_again_on_what_is_there_now(device):
    """Ordinary at first, then recorded, then replayed."""
    total, step = (torch.full((3,), value, device=device) for value in (0.0, 1.0))

    def add():
        total.add_(step)
        return total * 2.0

    added = Replayed(add, total.device)
    for expected, change in ((1.0, 1.0), (2.0, 5.0), (7.0, -7.0), (0.0, 0.0)):
        assert added().tolist() == [2.0 * expected] * 3
        assert total.tolist() == [expected] * 3
        step.fill_(change)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", ["sum", "max"])
def test_rounds_on_a_gpu_are_recorded(device, loss, monkeypatch):
    """Whatever waits for the GPU cannot be, and everything would be launched piece by piece."""
    X = np.random.default_rng(0).normal(size=(300, 6))
    y, caps = np.argmax(X[:200, :4], axis=1), np.ones(300)
    backend = DeviceRows(Kernel("rbf", 0.2), torch.as_tensor(X, device=device), 4, 1e9)
    backend.size, backend.newton_every = 50, 3
    recorded, proper = [], Replayed.__call__

    def noted(self):
        result = proper(self)
        recorded.append(self.is_recorded)
        return result

    monkeypatch.setattr(Replayed, "__call__", noted)
    solve_by_working_sets(DualRows(y, 4, caps, 0.1, loss), backend, tol=1e-6, max_iter=20)
    assert backend._next.is_recorded == (device == "cuda")
    # All but the first call of each, an ordinary one.
    assert np.mean(recorded) > 0.8 if device == "cuda" else not any(recorded)


@pytest.mark.parametrize("device", DEVICES)
def test_a_backend_goes_as_soon_as_nobody_needs_it(device):
    """Kernel matrices are large: none may wait for Python to look for cycles."""
    backend = DeviceRows(KERNELS["rbf"], torch.as_tensor(points(), device=device), 3, 1e9)
    rows = DualRows(np.zeros(60, dtype=np.intp), 3, np.ones(60))
    for _ in range(3):
        backend.survey(rows)
    gone = weakref.ref(backend)
    gc.disable()
    try:
        del backend
        assert gone() is None
    finally:
        gc.enable()


def refuse_more_than(n_bytes: int, monkeypatch) -> None:
    """Let allocations of kernel rows fail as those of a GPU do."""
    proper = torch.empty

    def limited(shape, **options):
        if 4 * int(np.prod(shape)) > n_bytes:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return proper(shape, **options)

    monkeypatch.setattr(torch, "empty", limited)


def test_rows_that_cannot_be_had_shrink_the_cache(monkeypatch):
    X, kernel = points(), KERNELS["rbf"]
    refuse_more_than(4 * 60 * 20, monkeypatch)
    backend = DeviceRows(kernel, torch.as_tensor(X), 3, 1e9)
    # 60 rows, 30, then 16: what a cache has at least.
    assert backend.size == 16
    assert_computes_with(backend, kernel.matrix(X, X))


def test_too_little_memory_for_any_rows_is_told(monkeypatch):
    refuse_more_than(4 * 60 * 10, monkeypatch)
    with pytest.raises(MemoryError, match=r"16 kernel rows of 60 points take 0.00384 MB, and that"):
        DeviceRows(KERNELS["rbf"], torch.as_tensor(points()), 3, 1e9)


@pytest.mark.parametrize("name", ["rows", "between"])
def test_a_product_without_room_shrinks_the_cache_and_the_fit_goes_on(name, monkeypatch):
    """Another process took the memory after the cache was made."""
    X = np.random.default_rng(0).normal(size=(300, 6))
    y = np.argmax(X[:, :4], axis=1)
    rows, kernel = DualRows(y, 4, np.full(300, 3.0)), Kernel("rbf", 0.2)
    backend = DeviceRows(kernel, torch.as_tensor(X), 4, 1e9)
    # Fewer than a fourth of all: changes go row by row.
    backend.size = 60
    proper, calls = getattr(torch_backend._Cache, name), []

    def scarce(self, change):
        calls.append(self.n_slots)
        if len(calls) == 2 and self.is_whole:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return proper(self, change)

    monkeypatch.setattr(torch_backend._Cache, name, scarce)
    solution = solve_by_working_sets(rows, backend, tol=1e-5)
    assert calls[:2] == [300, 300]
    assert backend._cache.n_slots == 150
    assert solution.converged
    F = kernel.matrix(X, X) @ solution.alpha
    assert statement.row_gaps(rows, solution.alpha, F).sum() <= 1.01e-5 * solution.primal


def test_a_cache_that_cannot_shrink_says_so(monkeypatch):
    backend = DeviceRows(KERNELS["rbf"], torch.as_tensor(points()), 3, 1e9)

    def full(*_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch_backend._Cache, "between", full)
    with pytest.raises(MemoryError, match="use fewer points"):
        backend.kernel_between(np.arange(10))


def test_kept_matrices_are_no_obstacle_to_a_whole_one(monkeypatch):
    """What they take is free for the matrix of another problem, or is the one asked for."""
    free = 4.0 * 100**2
    monkeypatch.setattr(torch_backend, "_unused_bytes", lambda _: free)
    X, matrices = torch.as_tensor(points()), torch_backend.KeptMatrices()
    assert matrices.most_points(X.device) == 100
    matrices.cache("mine", KERNELS["rbf"], X, 1e9)
    kept = (1.0 - torch_backend.SPARED) * 4.0 * len(X) ** 2
    assert matrices.most_points(X.device) == int(((free + kept) / 4.0) ** 0.5) > 100
