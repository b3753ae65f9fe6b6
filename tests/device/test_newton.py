"""Newton steps on a device: right, downhill, worth their while, and harmless where impossible."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import assume, given, settings
from sklearn.datasets import load_digits

from musvm.dual import problem as statement
from musvm.dual import working_set
from musvm.dual.faces import find_face, gradient
from musvm.dual.newton import damping
from musvm.dual.problem import DualRows
from musvm.dual.solve import solve
from musvm.dual.working_set import solve_by_working_sets
from musvm.kernels import Kernel
from strategies import problems

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from musvm.device import newton  # noqa: E402
from musvm.device.rows import DeviceRows  # noqa: E402

RBF = Kernel("rbf", 0.2)


def digits(n: int = 300, m: int = 300, loss: str = "sum") -> tuple[np.ndarray, DualRows]:
    """Digits 0-6 as classes, 7-9 as universum, whose points nearly all are support vectors."""
    X, target = load_digits(return_X_y=True)
    inside, outside = np.flatnonzero(target < 7)[:n], np.flatnonzero(target >= 7)[:m]
    caps = np.r_[np.full(n, 10.0), np.full(m, 10.0 * n / (m * 7))]
    y = target[inside].astype(np.intp)
    return X[np.r_[inside, outside]] / 16.0, DualRows(y, 7, caps, 0.1, loss)


def backend_of(X: np.ndarray, kernel: Kernel = RBF, *, every: int, size: int = 60) -> DeviceRows:
    backend = DeviceRows(kernel, torch.as_tensor(X), 7, 1e9)
    backend.newton_every, backend.size = every, size
    return backend


def exact_step(K: np.ndarray, face, slopes: np.ndarray, ridge: float) -> np.ndarray:
    """The minimiser of the quadratic over all directions that keep the sum of every group."""
    same_label = face.label[:, None] == face.label
    H = K[np.ix_(face.row, face.row)] * same_label + ridge * np.eye(len(slopes))
    sums = (face.group == np.arange(face.group.max() + 1)[:, None]).astype(float)
    Z = scipy.linalg.null_space(sums)
    return -Z @ np.linalg.solve(Z.T @ H @ Z, Z.T @ slopes)


@settings(max_examples=60)
@given(problem=problems())
def test_the_step_is_that_of_the_dense_system(problem):
    alpha = np.ascontiguousarray(solve(problem, max_iter=1).alpha.T) * 0.9
    face = find_face(problem, alpha)
    assume(not face.is_empty)
    slopes = face.centre(face.values(gradient(problem, alpha, alpha @ problem.gram)))
    ridge = damping(problem, slopes) + 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton, "TOL", 1e-10)
        patch.setattr(newton, "MAX_ITER", 1000)
        support = newton.SupportMatrix(torch.as_tensor(problem.gram))
        step = support.newton_step(face, slopes, ridge)
    expected = exact_step(problem.gram, face, slopes, ridge)
    np.testing.assert_allclose(step, expected, atol=1e-6 * (1e-3 + np.abs(expected).max()))


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


def test_steps_save_most_rounds_where_most_points_are_support_vectors():
    X, rows = digits()
    with_steps, without = (
        solve_by_working_sets(rows, backend_of(X, every=every), tol=1e-4) for every in (5, 0)
    )
    assert with_steps.converged
    assert without.converged
    assert abs(with_steps.primal - without.primal) <= with_steps.gap + without.gap
    assert with_steps.n_rounds < 0.5 * without.n_rounds


def test_an_indefinite_kernel_ends_the_steps_and_not_the_fit():
    X, rows = digits()
    kernel = Kernel("sigmoid", 1.0, coef0=-3.0)
    assert np.linalg.eigvalsh(kernel.matrix(X, X)).min() < -0.1
    solution = solve_by_working_sets(rows, backend_of(X, kernel, every=1), tol=1e-3, max_iter=200)
    F = kernel.matrix(X, X) @ solution.alpha
    np.testing.assert_allclose(solution.decision, F, atol=1e-8)


def test_without_room_for_the_matrix_there_is_no_step():
    X, rows = digits()
    backend = backend_of(X, every=1)
    backend._spare = 4.0 * 100**2
    assert backend.support(np.arange(100)) is not None
    assert backend.support(np.arange(101)) is None
    assert solve_by_working_sets(rows, backend, tol=1e-3).converged
