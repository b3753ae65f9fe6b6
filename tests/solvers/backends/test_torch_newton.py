"""Newton steps on a device: right, downhill, worth their while, and harmless where impossible."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import assume, given, settings
from sklearn.datasets import load_digits

from musvm.dual import problem as statement
from musvm.dual.faces import find_face, gradient
from musvm.dual.newton import damping
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers import working_set
from musvm.solvers.gram import solve
from musvm.solvers.working_set import solve_by_working_sets
from strategies import problems

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from devices import DEVICES  # noqa: E402
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


@pytest.fixture
def n_steps(monkeypatch) -> list[bool]:
    """Grows by an entry with every step: whether it is finite, and not zero."""
    steps, proper = [], newton.SupportMatrix.newton_step

    def recorded(self, *arguments):
        step = proper(self, *arguments)
        steps.append(bool(np.isfinite(step).all() and step.any()))
        return step

    monkeypatch.setattr(newton.SupportMatrix, "newton_step", recorded)
    return steps


def exact_step(K: np.ndarray, face, slopes: np.ndarray, ridge: float) -> np.ndarray:
    """The minimiser of the quadratic over all directions that keep the sum of every group."""
    same_label = face.label[:, None] == face.label
    H = K[np.ix_(face.row, face.row)] * same_label + ridge * np.eye(len(slopes))
    sums = (face.group == np.arange(face.group.max() + 1)[:, None]).astype(float)
    Z = scipy.linalg.null_space(sums)
    return -Z @ np.linalg.solve(Z.T @ H @ Z, Z.T @ slopes)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60)
@given(problem=problems())
def test_the_step_is_that_of_the_dense_system(device, problem):
    alpha = np.ascontiguousarray(solve(problem, max_iter=1).alpha.T) * 0.9
    face = find_face(problem.rows, alpha)
    assume(not face.is_empty)
    slopes = face.centre(face.values(gradient(problem.rows, alpha, alpha @ problem.gram)))
    ridge = damping(problem.rows, slopes) + 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton, "TOL", 1e-10)
        patch.setattr(newton, "MAX_ITER", 1000)
        support = newton.SupportMatrix(torch.as_tensor(problem.gram, device=device))
        step = support.newton_step(face, slopes, ridge)
    ridge += newton.RIDGE * problem.gram.diagonal().mean()
    expected = exact_step(problem.gram, face, slopes, ridge)
    np.testing.assert_allclose(step, expected, atol=1e-6 * (1e-3 + np.abs(expected).max()))


@pytest.mark.parametrize("device", DEVICES)
def test_a_singular_matrix_of_floats_gives_a_step(device):
    """With every point twice, eigenvalues are zero, or below by rounding."""
    X, rows = digits()
    alpha = np.array(solve_by_working_sets(rows, backend_of(X, every=0), tol=0.1).alpha.T)
    twice, y = np.r_[np.arange(300), np.arange(300)], np.tile(rows.y, 2)
    doubled = DualRows(y, 7, np.full(600, 10.0), 0.1)
    alpha, K = np.ascontiguousarray(alpha[:, twice]) / 2, RBF.matrix(X, X)[np.ix_(twice, twice)]
    face = find_face(doubled, alpha)
    slopes = 1e-9 * face.centre(face.values(gradient(doubled, alpha, alpha @ K)))
    support = newton.SupportMatrix(torch.as_tensor(K, dtype=torch.float32, device=device))
    step = support.newton_step(face, slopes, ridge=0.0)
    same_label = face.label[:, None] == face.label
    slope_and_curvature = slopes @ step, step @ (K[np.ix_(face.row, face.row)] * same_label) @ step
    assert slope_and_curvature[0] + 0.5 * slope_and_curvature[1] < 0.0


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_no_step_leads_up(loss, monkeypatch):
    X, rows = digits(loss=loss)
    K, drops = RBF.matrix(X, X), []
    taken = working_set._Rounds.newton_step

    def measured(self):
        values = []
        for step in (lambda: None, lambda: taken(self)):
            step()
            alpha, _ = self.backend.solution()
            values.append(statement.dual_objective(rows, alpha, K @ alpha))
        drops.append(values[0] - values[1])

    monkeypatch.setattr(working_set._Rounds, "newton_step", measured)
    solution = solve_by_working_sets(rows, backend_of(X, every=3), tol=1e-4)
    assert solution.converged
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
def test_an_indefinite_kernel_ends_steps_early_and_not_the_fit(device, n_steps):
    X, rows = digits()
    kernel = Kernel("sigmoid", 1.0, coef0=-3.0)
    assert np.linalg.eigvalsh(kernel.matrix(X, X)).min() < -0.1
    backend = backend_of(X, kernel, every=1, device=device)
    solution = solve_by_working_sets(rows, backend, tol=1e-3, max_iter=200)
    assert len(n_steps) > 10
    assert all(n_steps)
    F = kernel.matrix(X, X) @ solution.alpha
    np.testing.assert_allclose(solution.decision, F, atol=1e-8)


def test_without_room_for_the_matrix_there_is_no_step():
    X, rows = digits()
    backend = backend_of(X, every=1)
    backend._spare = 4.0 * 100**2
    assert backend.support(np.arange(100)) is not None
    assert backend.support(np.arange(101)) is None
    assert solve_by_working_sets(rows, backend, tol=1e-3).converged


@pytest.mark.parametrize("device", DEVICES)
def test_only_a_gpu_that_holds_the_whole_matrix_takes_steps(device):
    X = torch.as_tensor(digits()[0], device=device)
    whole, cached = (DeviceRows(RBF, X, 7, budget) for budget in (1e9, 4 * 600 * 100))
    assert whole.newton_every == (0 if device == "cpu" else NEWTON_EVERY)
    assert cached.newton_every == 0
