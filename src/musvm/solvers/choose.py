"""From points and a kernel to a certified solution: which solver takes the problem.

    gram          the whole Gram matrix in doubles, Newton steps (`gram.py`)
    working-set   kernel rows on demand, small problems (`working_set.py`); what computes with the
                  kernel is a backend (`backends/`), and points in a tensor stay on their device
    linear        weights in place of kernels, one pass over a point per move (`linear.py`)

"auto" takes "gram" up to GRAM_LIMIT points, where its Newton steps win and its matrix is small;
beyond, "linear" for the linear kernel and "working-set" for all others. All of them stop at the
same relative duality gap, and all certify it with decision values computed in doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from musvm._input.tensors import IntArray, is_tensor, take, to_host
from musvm._threads import Workers, workers
from musvm.dual.problem import DualProblem, DualRows
from musvm.dual.solution import DualSolution
from musvm.kernels import Kernel, Submatrix, warn_if_indefinite
from musvm.solvers.backends.contract import Backend
from musvm.solvers.backends.host import KernelRows
from musvm.solvers.gram import solve
from musvm.solvers.linear import solve_linear
from musvm.solvers.working_set import solve_by_working_sets

Solver = Literal["auto", "gram", "working-set", "linear"]

GRAM_LIMIT = 3000
# Where the whole matrix is not there, so many points are examined for symmetry and definiteness.
N_EXAMINED = 1000


@dataclass(frozen=True)
class PointProblem:
    """The dual problem of points that have not met their kernel yet.

    Attributes
    ----------
    kernel : with its parameters settled
    X : all points, dense, CSR or a tensor; the kernel matrix if precomputed
    rows : (M,) those of X that take part, training points first
    dual : everything about them but K
    resolution : relative rounding error of the entries of the kernel matrix
    """

    kernel: Kernel
    X: Any
    rows: IntArray
    dual: DualRows
    resolution: float

    @property
    def points(self) -> Any:
        if self.kernel.is_precomputed:
            return Submatrix(self.X, self.rows)
        return take(self.X, self.rows)

    def with_gram(self) -> DualProblem:
        """The problem with its Gram matrix; warns where that is indefinite."""
        gram = self.kernel.gram(self.X, self.rows, resolution=self.resolution)
        warn_if_indefinite(self.kernel, gram, resolution=self.resolution)
        return DualProblem(gram, self.dual)


def choose(n_points: int, kernel: Any, solver: Solver) -> Solver:
    """The path for a problem of so many points with a kernel of this name."""
    linear = kernel == "linear"
    if solver == "linear" and not linear:
        raise ValueError(
            f"solver='linear' needs kernel='linear', got kernel={kernel!r}: use "
            "'working-set', 'gram' or 'auto'."
        )
    if solver != "auto":
        return solver
    if n_points <= GRAM_LIMIT:
        return "gram"
    return "linear" if linear else "working-set"


def stays_on_device(n_points: int, kernel: Any, solver: Solver) -> bool:
    """Whether a fit computes where its tensors are; a small one is faster on the host."""
    on_device = kernel in ("linear", "poly", "rbf", "sigmoid")
    return on_device and choose(n_points, kernel, solver) == "working-set"


def solve_points(
    problem: PointProblem,
    *,
    solver: Solver = "auto",
    cache_size: float = 4000.0,
    tol: float,
    max_iter: int,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution:
    """Solve on the chosen path; `cache_size` is in megabytes."""
    # Points that stayed on a device take the path that brought them here.
    on_device = is_tensor(problem.X)
    path = choose(len(problem.rows), problem.kernel.name, "working-set" if on_device else solver)
    options: dict[str, Any] = {
        "tol": tol, "max_iter": max_iter, "random_state": random_state, "callback": callback,
    }  # fmt: skip
    if path == "gram":
        return solve(problem.with_gram(), **options)
    dual = problem.dual
    with workers() as team:
        if path == "linear":
            return solve_linear(problem.X, problem.rows, dual, team, **options)
        _examine_sample(problem)
        backend = _backend(problem, 1e6 * cache_size, team)
        return solve_by_working_sets(dual, backend, **options)


def _backend(problem: PointProblem, cache_bytes: float, team: Workers) -> Backend:
    """What computes with the kernel, where the points are; a GPU's memory is its own limit."""
    kernel, points, L = problem.kernel, problem.points, problem.dual.n_classes
    if not is_tensor(points):
        return KernelRows(kernel, points, L, cache_bytes, team)
    from musvm.solvers.backends.torch import DeviceRows

    on_host = points.device.type == "cpu"
    return DeviceRows(kernel, points, L, cache_bytes if on_host else None)


def _examine_sample(problem: PointProblem) -> None:
    """Refuse or warn by the Gram matrix of some of the points, evenly spread."""
    kernel = problem.kernel
    if kernel.is_psd_by_construction:
        return
    if kernel.is_precomputed:
        problem.points.require_symmetric(problem.resolution)
    step = -(-len(problem.rows) // N_EXAMINED)
    sample = problem.rows[::step]
    if is_tensor(problem.X):
        points, chosen = to_host(take(problem.X, sample)), np.arange(len(sample))
    else:
        points, chosen = problem.X, sample
    gram = kernel.gram(points, chosen, resolution=problem.resolution)
    warn_if_indefinite(kernel, gram, resolution=problem.resolution)
