"""Newton steps on a device: right, downhill, worth their while, and harmless where impossible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from musvm.dual import problem as statement
from musvm.dual.faces import find_face, gradient, move
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers.gram import solve
from musvm.solvers.working_set import solve_by_working_sets
from strategies import problems

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from devices import DEVICES  # noqa: E402
from musvm.solvers.backends import torch as backend_module  # noqa: E402
from musvm.solvers.backends import torch_newton as newton  # noqa: E402
from musvm.solvers.backends.torch import NEWTON_EVERY, DeviceRows  # noqa: E402

RBF = Kernel("rbf", 0.2)


def digits(n: int = 300, m: int = 300, loss: str = "sum") -> tuple[np.ndarray, DualRows]:
    """Digits 0-6 as classes, 7-9 as universum, whose points nearly all are support vectors."""
    X, target = load_digits(return_X_y=True)
    inside, outside = np.flatnonzero(target < 7)[:n], np.flatnonzero(target >= 7)[:m]
    caps = np.r_[np.full(n, 10.0), np.full(m, 10.0 * n / (m * 7))]
    y = target[inside].astype(np.intp)
    return X[np.r_[inside, outside]] / 16.0, DualRows(y, 7, caps, 0.1, loss)


def backend_of(
    X: np.ndarray, kernel: Kernel = RBF, *, every: int, device: str = "cpu"
) -> DeviceRows:
    """Kernel rows with small working sets, and a Newton step after so many rounds."""
    backend = DeviceRows(kernel, torch.as_tensor(X, device=device), 7, 1e9)
    backend.newton_every, backend.size = every, 60
    return backend


def on_device(rows: DualRows, device: str = "cpu") -> DualRows:
    y, caps = (torch.as_tensor(part, device=device) for part in (rows.y, rows.caps))
    return replace(rows, y=y, caps=caps)


def at_a_start(problem, shrink: float = 0.9) -> np.ndarray:
    """A feasible alpha with free variables, class-major."""
    return np.ascontiguousarray(solve(problem, max_iter=1).alpha.T) * shrink


def exact_step(K: np.ndarray, face, slopes: np.ndarray, ridge: float) -> np.ndarray:
    """The minimiser of the quadratic over all directions that keep the sum of every group."""
    same_label = face.label[:, None] == face.label
    H = K[np.ix_(face.row, face.row)] * same_label + ridge * np.eye(len(slopes))
    sums = (face.group == np.arange(face.group.max() + 1)[:, None]).astype(float)
    Z = scipy.linalg.null_space(sums)
    return -Z @ np.linalg.solve(Z.T @ H @ Z, Z.T @ slopes)


def groups_of(face, shape: tuple[int, int], device: str) -> tuple:
    codes = torch.as_tensor(face.codes(*shape).T.copy(), device=device)
    return codes == 1, codes == 2


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=100)
@given(problem=problems(), shrink=st.sampled_from([0.0, 0.9, 1.0]))
def test_faces_are_those_of_the_host(device, problem, shrink):
    alpha = at_a_start(problem, shrink)
    expected = find_face(problem.rows, alpha)
    there = torch.as_tensor(alpha.T.copy(), device=device)
    found = newton.face_of(on_device(problem.rows, device), there)
    codes = sum((k + 1) * mask.int() for k, mask in enumerate(found.groups)).cpu().numpy()
    # The only group of a row is called its first there.
    codes = np.where((codes == 1).any(axis=1, keepdims=True), codes, np.minimum(codes, 1))
    np.testing.assert_array_equal(codes.T, expected.codes(*alpha.shape))
    for bound in ("lower", "upper"):
        values = getattr(found, bound).cpu().numpy()[expected.row, expected.label]
        np.testing.assert_array_equal(values, getattr(expected, bound))


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=100)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_projections_are_those_of_the_host(device, problem, seed, size):
    alpha = at_a_start(problem)
    face = find_face(problem.rows, alpha)
    step = size * np.random.default_rng(seed).normal(size=len(face.row))
    expected = move(problem.rows, face, alpha, step)
    rows, here = on_device(problem.rows, device), torch.as_tensor(alpha.T.copy(), device=device)
    matrix = np.zeros(alpha.T.shape)
    matrix[face.row, face.label] = step
    target = here + torch.as_tensor(matrix, device=device)
    found = newton.project(rows, newton.face_of(rows, here), here, target).cpu().numpy()
    scale = size + problem.rows.caps.max()
    np.testing.assert_allclose(found.T, expected, atol=1e-13 * scale)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60)
@given(problem=problems())
def test_the_step_is_that_of_the_dense_system(device, problem):
    alpha = at_a_start(problem)
    face = find_face(problem.rows, alpha)
    assume(not face.is_empty)
    slopes = face.centre(face.values(gradient(problem.rows, alpha, alpha @ problem.gram)))
    ridge = 0.1 + float(np.abs(slopes).max())
    matrix = np.zeros(alpha.T.shape)
    matrix[face.row, face.label] = slopes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton, "TOL", 1e-10)
        patch.setattr(newton, "MAX_ITER", 1000)
        K = torch.as_tensor(problem.gram, device=device)
        step = newton.SupportMatrix(K, quick=False).newton_step(
            groups_of(face, alpha.shape, device), torch.as_tensor(matrix, device=device), ridge
        )
    step = step.cpu().numpy()[face.row, face.label]
    ridge += newton.RIDGE * problem.gram.diagonal().mean()
    expected = exact_step(problem.gram, face, slopes, ridge)
    np.testing.assert_allclose(step, expected, atol=1e-6 * (1e-3 + np.abs(expected).max()))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_products_in_half_floats_have_three_digits(scale):
    X, _ = digits(60, 40)
    K = scale * torch.as_tensor(RBF.matrix(X, X), dtype=torch.float32)
    v = 1e-5 * torch.as_tensor(np.random.default_rng(0).normal(size=(100, 7))).float()
    quick = newton._Quick(K)
    found, expected = quick(v), K.double() @ v.double()
    assert found.dtype == torch.float32
    size = (K.double().abs() @ v.double().abs()).max()
    assert float((found - expected).abs().max() / size) < 1e-3
    assert not quick(torch.zeros_like(v)).any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("quick", [False, True])
def test_a_singular_matrix_of_floats_gives_a_step(device, quick):
    """With every point twice, eigenvalues are zero, or below by rounding."""
    X, rows = digits(100, 60)
    alpha = np.array(solve_by_working_sets(rows, backend_of(X, every=0), tol=0.1).alpha.T)
    twice, y = np.r_[np.arange(100), np.arange(100)], np.tile(rows.y, 2)
    doubled = DualRows(y, 7, np.full(200, 10.0), 0.1)
    alpha, K = np.ascontiguousarray(alpha[:, twice]) / 2, RBF.matrix(X, X)[np.ix_(twice, twice)]
    face = find_face(doubled, alpha)
    slopes = 1e-9 * face.centre(face.values(gradient(doubled, alpha, alpha @ K)))
    matrix = np.zeros(alpha.T.shape)
    matrix[face.row, face.label] = slopes
    single = torch.as_tensor(K, dtype=torch.float32, device=device)
    step = newton.SupportMatrix(single, quick=quick).newton_step(
        groups_of(face, alpha.shape, device), torch.as_tensor(matrix, device=device), ridge=1e-3
    )
    step = step.cpu().numpy()[face.row, face.label]
    same_label = face.label[:, None] == face.label
    slope_and_curvature = slopes @ step, step @ (K[np.ix_(face.row, face.row)] * same_label) @ step
    assert slope_and_curvature[0] + 0.5 * slope_and_curvature[1] < 0.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("quick", [False, True])
def test_support_vectors_may_stay_where_they_are_in_the_matrix(device, quick):
    X, rows = digits(100, 60)
    alpha = solve_by_working_sets(rows, backend_of(X, every=0), tol=0.1).alpha
    S = np.flatnonzero(alpha.any(axis=1))
    K = torch.as_tensor(RBF.matrix(X, X), dtype=torch.float32, device=device)
    places = torch.as_tensor(S, device=device)
    there, some = torch.as_tensor(alpha[S], device=device), on_device(rows.at(S), device)
    F = torch.as_tensor((RBF.matrix(X, X) @ alpha)[S], device=device)
    moved = [
        newton.after_newton_step(some, there, F, newton.SupportMatrix(*among, quick=quick))
        for among in ((K[places][:, places].contiguous(),), (K, places))
    ]
    largest = float((moved[0] - there).abs().max())
    assert largest > 1e-3
    assert float((moved[0] - moved[1]).abs().max()) < 0.05 * largest


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_no_step_leads_up(loss, monkeypatch):
    X, rows = digits(loss=loss)
    K, drops = RBF.matrix(X, X), []
    taken = DeviceRows.newton_step

    def measured(self, rows):
        values = []
        for step in (lambda: None, lambda: taken(self, rows)):
            step()
            alpha, _ = self.solution()
            values.append(statement.dual_objective(rows, alpha, K @ alpha))
        drops.append(values[0] - values[1])

    monkeypatch.setattr(DeviceRows, "newton_step", measured)
    solution = solve_by_working_sets(rows, backend_of(X, every=3), tol=1e-4)
    assert solution.converged
    assert statement.infeasibility(rows, solution.alpha) < 1e-12
    assert min(drops) >= -1e-9 * abs(solution.dual)
    assert max(drops) > 1e-3 * abs(solution.dual)


@pytest.mark.parametrize("device", DEVICES)
def test_steps_save_most_rounds_where_most_points_are_support_vectors(device):
    X, rows = digits()
    with_steps, without = (
        solve_by_working_sets(rows, backend_of(X, every=every, device=device), tol=1e-4)
        for every in (5, 0)
    )
    assert with_steps.converged
    assert without.converged
    assert abs(with_steps.primal - without.primal) <= with_steps.gap + without.gap
    assert with_steps.n_rounds < 0.5 * without.n_rounds


@pytest.mark.parametrize("device", DEVICES)
def test_an_indefinite_kernel_ends_steps_early_and_not_the_fit(device, monkeypatch):
    X, rows = digits()
    kernel = Kernel("sigmoid", 1.0, coef0=-3.0)
    assert np.linalg.eigvalsh(kernel.matrix(X, X)).min() < -0.1
    steps, proper = [], newton.SupportMatrix.newton_step

    def recorded(self, *arguments):
        step = proper(self, *arguments)
        steps.append(bool(torch.isfinite(step).all() and step.any()))
        return step

    monkeypatch.setattr(newton.SupportMatrix, "newton_step", recorded)
    backend = backend_of(X, kernel, every=1, device=device)
    solution = solve_by_working_sets(rows, backend, tol=1e-3, max_iter=100)
    assert len(steps) > 10
    assert all(steps)
    F = kernel.matrix(X, X) @ solution.alpha
    np.testing.assert_allclose(solution.decision, F, atol=1e-8)


@pytest.mark.parametrize("fails", ["no room", "no memory"])
def test_without_room_for_the_matrix_there_is_no_step(fails, monkeypatch):
    X, rows = digits()
    backend = backend_of(X, every=1)
    taken = []
    if fails == "no room":
        backend._spare = 2.0 * 20**2
        monkeypatch.setattr(backend_module, "after_newton_step", lambda *_: taken.append(1))
    else:

        def too_much(*_, **__):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(backend_module, "SupportMatrix", too_much)
    assert solve_by_working_sets(rows, backend, tol=1e-3).converged
    assert not taken


@pytest.mark.parametrize("device", DEVICES)
def test_only_a_gpu_that_holds_the_whole_matrix_takes_steps(device):
    X = torch.as_tensor(digits()[0], device=device)
    whole, cached = (DeviceRows(RBF, X, 7, budget) for budget in (1e9, 4 * 600 * 100))
    assert whole.newton_every == (0 if device == "cpu" else NEWTON_EVERY)
    assert cached.newton_every == 0
