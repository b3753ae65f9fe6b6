"""From points and a kernel to a certified solution: which solver takes the problem.

    gram          the whole Gram matrix in doubles, Newton steps (`gram.py`)
    working-set   kernel rows on demand, small problems (`working_set.py`); what computes with the
                  kernel is a backend (`backends/`), and points in a tensor stay on their device;
                  of very many points only some, the candidates (`growing.py`)
    linear        weights in place of kernels, one pass over a point per move (`linear.py`)
    interior      few columns Z with K = Z Z', any C (`interior.py`)
    proximal      the same for many more points than that has equations (`proximal.py`); no name of
                  `solver`, since it is not for everything

"auto" weighs costs. With r columns, L classes and E = r (L - 1) equations the interior-point method
costs what `by_turns.interior_work` says, whatever C is. All other paths take the more rounds the
larger C k(x, x) is: they are tried where that is small, for as many rounds as cost less than the
interior-point method and as long as their rate says that these are enough, and where E is large.
Of the other paths, "gram" is taken up to GRAM_LIMIT points, where its Newton steps win and its
matrix is small; beyond, "linear" for the linear kernel and "working-set" for all others. All of
them stop at the same relative duality gap, and all certify it with decision values computed in
doubles. Of very many points next to none are free at the optimum: before interior points, which
begin anew where these do not get there, proximal points weigh those alone. Points that are read
piece by piece go by candidates, whose problem is solved on the path of its size. Points of a linear
kernel that are on a GPU, and too many for the Gram matrix, meet interior points there
(`backends/torch_interior.py`): a step of 7,000 equations of 60,000 points takes a tenth of a
second.

A path that does not get there hands its alpha on. Working sets try first from TRIAL_POINTS points
on, for TRIAL_ROUNDS or until their rate says that these are too few, and what goes on from there
has the whole Gram matrix: interior points and Newton steps, by turns (`by_turns.py`). All of this
together takes no more than `max_iter` rounds. A gap that is within the tolerance, but not with what
rounding may hide, is made smaller once or twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from musvm._input.streams import StreamedRows, row_values
from musvm._input.tensors import (
    FloatArray,
    IntArray,
    is_on_host,
    is_tensor,
    namespace,
    take,
    to_host,
)
from musvm._lazy import lazy
from musvm._threads import Workers, own_or, workers
from musvm.dual._faces import project_rows
from musvm.dual.problem import DualProblem, DualRows, relative_gap
from musvm.dual.solution import DualSolution, hidden_gap, rounding_of_gap
from musvm.kernels import Kernel, Submatrix, require_finite, warn_if_indefinite
from musvm.solvers.attempts import FUTILE, Attempts, counted_from, joined
from musvm.solvers.backends.contract import Backend, Field
from musvm.solvers.backends.host import HostField, KernelRows
from musvm.solvers.by_turns import (
    add_interior_and_finish,
    finish,
    is_easy,
    most_columns,
    size_of,
    solve_with_gram,
)
from musvm.solvers.factors import pivoted_cholesky, principal_factor
from musvm.solvers.gram import solve
from musvm.solvers.growing import Start, by_working_sets, solve_growing
from musvm.solvers.interior import solve_interior
from musvm.solvers.linear import Points, solve_linear
from musvm.solvers.proximal import solve_proximal
from musvm.solvers.rounds import RATED
from musvm.solvers.working_set import solve_by_working_sets

Solver = Literal["auto", "gram", "working-set", "linear", "interior"]

GRAM_LIMIT = 3000
# Interior points hardly ever take more steps than this.
MOST_STEPS = 60
# Where descent is quick it gets so many rounds to prove it.
EASY_ROUNDS = 40
# Without a universum it is quick up to this, and gets one round for so many equations where there
# are many of them: a tenth of what interior points would cost.
LESS_EASY, EQUATIONS_PER_ROUND, MANY_EQUATIONS = 300.0, 4, 350
# Working sets are quicker than the whole Gram matrix from so many points on, unless the problem is
# ill-conditioned or the tolerance tight: they get so many rounds to prove it.
TRIAL_POINTS, TRIAL_ROUNDS, TRIAL_TOL = 1200, 20, 1e-5
# Or fewer, where the rate of so many says that these are too few.
TRIAL_RATED = 4
# An RBF kernel so narrow that some of the points, in the mean, are strangers to each other makes
# support vectors of all of them: nothing is left for working sets to gain.
N_NEIGHBOURS, STRANGERS = 200, 0.005
# Where so many points, and so many for an equation of interior points, are given, proximal points
# are several times as fast; they get so many steps to prove it.
TALL, TALL_PER_EQUATION, PROXIMAL_STEPS = 4000, 20, 150
# On a GPU interior points take a linear kernel of up to so many columns.
MOST_COLUMNS_THERE = 2000
# From so many points on, few of them at a time meet their kernel.
GROWING = 100_000
# What fits aim at, as a share of the gain over the model that knows nothing. Where descent is quick
# weights are small and leads are too: less costs some thousandths of a second. At AIM two of 450
# fits missed 0.12 % of labels, at 0.03 one did.
AIM, EASY_AIM, FURTHER = 0.1, 0.01, 0.1
# What rounding may hide, as a share of the tolerance, where a smaller gap ends all doubt; how often
# an ever smaller one is tried for.
SURE, MOST_DOUBTS = 0.5, 2
# Where the whole matrix is not there, so many points are examined for symmetry and definiteness.
N_EXAMINED = 1000


@dataclass(frozen=True)
class PointProblem:
    """The dual problem of points that have not met their kernel yet.

    Attributes
    ----------
    kernel : with its parameters settled
    X : all points, dense, CSR, a tensor or `StreamedRows`; the kernel matrix if precomputed
    rows : (M,) those of X that take part, training points first
    dual : everything about them but K
    resolution : relative rounding error of the entries of the kernel matrix
    matrices : what `shared_matrices` made for these X, if other problems have the same points
    """

    kernel: Kernel
    X: Any
    rows: IntArray
    dual: DualRows
    resolution: float
    matrices: Any = None

    @property
    def points(self) -> Any:
        if self.kernel.is_precomputed:
            return Submatrix(self.X, self.rows)
        if isinstance(self.X, StreamedRows):
            return self.X.at(self.rows)
        return take(self.X, self.rows)

    @lazy
    def diagonal(self) -> FloatArray | None:
        """k(x, x) of the rows; None where only a device or a function knows the kernel."""
        kernel = self.kernel
        if callable(kernel.name) or (is_tensor(self.X) and kernel.name != "linear"):
            return None
        if is_tensor(self.X):
            squares: FloatArray = to_host(self.points.square().sum(1)) + kernel.constant
            return squares
        if kernel.is_precomputed:
            return np.asarray(self.points.diagonal())
        all_in_memory = len(self.rows) == self.X.shape[0] and not isinstance(self.X, StreamedRows)
        if kernel.name == "rbf" or all_in_memory:
            # No pass over streamed points for a constant, no copy of all points in another order.
            return kernel.diagonal(self.X)[self.rows]
        return row_values(self.points, kernel.diagonal)

    def judged(self, solution: DualSolution, tol: float) -> DualSolution:
        """A solution by the measure of these rows, whatever measure the solver went by.

        It is only converged if what rounding may hide is within `tol` as well.
        """
        solution = solution.measured_by(self.dual, tol)
        if self.diagonal is None:
            return solution
        rows, alpha, gap, primal = self.dual, solution.alpha, solution.gap, solution.primal
        rounding = rounding_of_gap(rows, alpha, self.diagonal)
        sure = relative_gap(rows, gap, primal, rounding) <= tol
        hidden = hidden_gap(rows, alpha, self.diagonal, gap, primal)
        return replace(solution, converged=bool(sure), hidden_gap=max(solution.hidden_gap, hidden))

    def with_gram(self, team: Workers | None = None) -> DualProblem:
        """The problem with its Gram matrix; warns where that is indefinite."""
        gram = self.kernel.gram(self.X, self.rows, resolution=self.resolution, team=team)
        warn_if_indefinite(self.kernel, gram, resolution=self.resolution)
        return DualProblem(gram, self.dual)


def choose(
    n_points: int,
    kernel: Any,
    solver: Solver,
    *,
    n_columns: int | None = None,
    n_classes: int = 2,
) -> Solver:
    """The path for a problem of this size with a kernel of this name."""
    linear = kernel == "linear"
    if solver == "linear" and not linear:
        raise ValueError(
            f"solver='linear' needs kernel='linear', got kernel={kernel!r}: use "
            "'working-set', 'gram', 'interior' or 'auto'."
        )
    if solver != "auto":
        return solver
    if linear and n_columns is not None and n_columns <= most_columns(n_points, n_classes):
        return "interior"
    if n_points <= GRAM_LIMIT:
        return "gram"
    return "linear" if linear else "working-set"


def stays_on_device(
    X: Any, n_points: int, kernel: Any, solver: Solver, *, fit_intercept: bool = False
) -> bool:
    """Whether a fit computes where its tensors are; a small one is faster on the host."""
    if kernel == "linear" and solver in ("auto", "interior"):
        is_worth_it = solver == "interior" or n_points > GRAM_LIMIT
        is_narrow = X.ndim == 2 and X.shape[1] <= MOST_COLUMNS_THERE
        return is_worth_it and is_narrow and not is_on_host(X)
    on_device = kernel in ("linear", "poly", "rbf", "sigmoid") and not fit_intercept
    return on_device and choose(n_points, kernel, solver) == "working-set"


def solve_points(
    problem: PointProblem,
    *,
    solver: Solver = "auto",
    cache_size: float = 4000.0,
    tol: float,
    max_iter: int,
    alpha: FloatArray | None = None,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> DualSolution:
    """Solve on the chosen path; `cache_size` is in megabytes.

    Working sets start from `alpha`, once it is feasible; other paths start where they always do.
    """
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "callback": callback}
    order: dict[str, Any] = {"random_state": random_state}
    start = None if alpha is None else _feasible(alpha, problem.dual)
    if isinstance(problem.X, StreamedRows):
        with workers() as team:
            return _solve_streamed(problem, solver, cache_size, team, start, options | order)
    return _solve_in_memory(problem, solver, cache_size, None, start, options, order)


def solve_beyond_doubt(problem: PointProblem, *, tol: float, **options: Any) -> DualSolution:
    """`solve_points` for the labels of the optimum, and once more where that is in doubt.

    It is converged if its gap is within `tol` together with all that rounding may hide. But it aims
    at a share of the gain where that is less: a gap of 1e-4 of the whole leaves weights within 1 %
    of the optimum's, which misses some labels in a thousand. What falls short of the aim alone is
    good enough: rounding was in the way.
    """
    share = _share_to_aim_at(problem)
    keen = replace(problem, dual=replace(problem.dual, share_of_gain=share))
    aimed = solve_points(keen, tol=tol, **options)
    # What rounding hides of a share of the gain is at least so much of the whole.
    solution = problem.judged(replace(aimed, hidden_gap=share * aimed.hidden_gap), tol)
    if solution.relative_gap > tol and solution.hidden_gap < FUTILE:
        solution = _once_more(problem, solution, tol, tol, options)
    aim = tol
    for _ in range(MOST_DOUBTS):
        in_doubt = solution.relative_gap <= tol and not solution.converged
        if not in_doubt or solution.hidden_gap > SURE * tol:
            break
        aim *= 1.0 - SURE
        solution = _once_more(problem, solution, aim, tol, options)
    return solution


def _share_to_aim_at(problem: PointProblem) -> float:
    is_linear = problem.kernel.name == "linear"
    # Of fewer points no fit of the convergence sample missed so many labels at AIM.
    if problem.diagonal is None or not (is_linear or len(problem.rows) >= TRIAL_POINTS):
        return AIM
    return EASY_AIM if is_easy(problem.dual, problem.diagonal) else AIM


def _once_more(
    problem: PointProblem, solution: DualSolution, aim: float, tol: float, options: dict[str, Any]
) -> DualSolution:
    """The solution, or a better one with a relative gap of `aim`, within the rounds that are left.

    Solvers that can go on from an alpha go on from that of the solution.
    """
    left = options["max_iter"] - solution.n_rounds
    if left < 1:
        return solution
    told = counted_from(solution.n_rounds, options.get("callback"))
    other = options | {"max_iter": left, "callback": told, "alpha": solution.alpha}
    return joined(solution, problem.judged(solve_points(problem, tol=aim, **other), tol))


def _solve_in_memory(
    problem: PointProblem,
    solver: Solver,
    cache_size: float,
    team: Workers | None,
    alpha: FloatArray | None,
    options: dict[str, Any],
    order: dict[str, Any],
) -> DualSolution:
    """On the chosen path, points of which all are in memory, or on a device.

    A team of its own if it is given none.
    """
    if is_tensor(problem.X) and problem.kernel.name == "linear" and solver != "working-set":
        there = _solve_interior_there(problem, solver == "auto", options)
        if there is not None and (there.converged or len(problem.rows) > GRAM_LIMIT):
            return there
        problem = replace(problem, X=to_host(problem.X))
    # Points that stayed on a device take the path that brought them here.
    on_device = is_tensor(problem.X)
    dual = problem.dual
    path = choose(
        len(problem.rows), problem.kernel.name, "working-set" if on_device else solver,
        n_columns=problem.X.shape[1], n_classes=dual.n_classes,
    )  # fmt: skip
    if path == "gram" and solver == "gram":
        return solve(problem.with_gram(), **options, **order)
    if path == "gram":
        return _solve_small(problem, cache_size, team, options, order)
    problem = _with_constant_column(problem) if path != "working-set" else problem
    with own_or(team) as team:
        if path == "interior":
            return _solve_interior(problem, cache_size, team, solver == "auto", options, order)
        if path == "linear":
            return solve_linear(problem.X, problem.rows, dual, team, **options, **order)
        _examine_sample(problem)
        if _grows(problem):
            field = _field(problem, 1e6 * cache_size, team)
            return solve_growing(dual, field, alpha=alpha, **options, **order)
        backend = _backend(problem, 1e6 * cache_size, team)
        if alpha is not None:
            backend.restart(alpha)
        return solve_by_working_sets(dual, backend, warm=alpha is not None, **options, **order)


def _solve_streamed(
    problem: PointProblem,
    solver: Solver,
    cache_size: float,
    team: Workers,
    alpha: FloatArray | None,
    options: dict[str, Any],
) -> DualSolution:
    """By candidates, whose problem is solved as if it were all: others are only looked at."""
    kernel, L = problem.kernel, problem.dual.n_classes
    all_points = problem.points
    field = HostField(kernel, all_points, L, 1e6 * cache_size, team)
    many = by_working_sets(field)
    _examine_sample(problem)

    def solve_candidates(
        points: IntArray, rows: DualRows, start: Start, *, random_state: Any, **options: Any
    ) -> DualSolution:
        path = choose(len(points), kernel.name, solver, n_columns=all_points.shape[1], n_classes=L)
        if path == "working-set":
            return many(points, rows, start, random_state=random_state, **options)
        few = replace(problem, X=all_points[points], rows=np.arange(len(points)), dual=rows)
        order = {"random_state": random_state}
        return _solve_in_memory(few, solver, cache_size, team, start.alpha, options, order)

    return solve_growing(
        problem.dual, field, solve_candidates=solve_candidates, alpha=alpha, **options
    )


def _feasible(alpha: FloatArray, rows: DualRows) -> FloatArray:
    """The nearest alpha within the constraints, (M, L): bounds move from one C to the next."""
    nearest = np.array(alpha.T, dtype=np.float64, order="C")
    project_rows(nearest, rows.y, rows.caps, rows.is_max)
    return nearest.T


def _solve_small(
    problem: PointProblem,
    cache_size: float,
    team: Workers | None,
    options: dict[str, Any],
    order: dict[str, Any],
) -> DualSolution:
    """With the whole Gram matrix; working sets may try first, and hand their alpha on."""
    attempts = Attempts(**options)
    if options["tol"] >= TRIAL_TOL and _is_worth_a_trial(problem, team):
        with own_or(team) as some:
            backend = _backend(problem, 1e6 * cache_size, some)
            attempts.add_anew(
                solve_by_working_sets, problem.dual, backend, at_most=TRIAL_ROUNDS,
                rated=TRIAL_RATED, **order,
            )  # fmt: skip
    if not attempts.is_over:
        gap = attempts.best.relative_gap if attempts.has_begun else None
        attempts.add(solve_with_gram, problem.with_gram(team), team=team, gap_of_trial=gap, **order)
    return attempts.best


def _is_worth_a_trial(problem: PointProblem, team: Workers | None) -> bool:
    """Whether working sets may be quicker than the whole Gram matrix."""
    kernel, n_points = problem.kernel, len(problem.rows)
    if n_points < TRIAL_POINTS or kernel.name == "linear" or not kernel.is_psd_by_construction:
        return False
    if kernel.name != "rbf":
        return True
    n_some = min(N_NEIGHBOURS, n_points)
    some = problem.rows[np.linspace(0, n_points - 1, n_some).astype(np.intp)]
    between = kernel.gram(problem.X, some, resolution=problem.resolution, team=team)
    total = between.sum() - np.trace(between)
    return bool(total / (n_some * (n_some - 1.0)) - kernel.constant > STRANGERS)


def _solve_interior(
    problem: PointProblem,
    cache_size: float,
    team: Workers,
    may_try: bool,
    options: dict[str, Any],
    order: dict[str, Any],
) -> DualSolution:
    """By interior points, before which others may try; Newton steps finish what rounding left."""
    dual, L = problem.dual, problem.dual.n_classes
    if problem.kernel.name != "linear":
        with_gram = problem.with_gram(team)
        Z = pivoted_cholesky(with_gram.gram)
        if Z is None:
            raise ValueError(
                "solver='interior' needs a kernel matrix that is positive semi-definite: use "
                "'gram' or 'auto'."
            )
        _require_room(Z.shape[1], dual.n_classes, cache_size)
        attempts = Attempts(**options)
        add_interior_and_finish(attempts, with_gram, Z, team, order)
        return attempts.best
    if not may_try:
        _require_room(min(problem.X.shape[1], len(problem.rows)), dual.n_classes, cache_size)
    points = Points(problem.X, problem.rows, team)
    squares = points.squared_norms()
    require_finite(squares)
    attempts = Attempts(**options)
    # Interior points begin from nothing: they must be left with enough rounds, or half of them.
    left = attempts.rounds_left
    wanted = easy_rounds(dual, squares, problem.X.shape[1])
    trial = min(wanted, max(left // 2, left - MOST_STEPS))
    if may_try and trial > 0:
        attempts.add_anew(
            solve_linear, problem.X, problem.rows, dual, team, at_most=trial, rated=RATED,
            further=FURTHER if is_easy(dual, squares) else 1.0, **order,
        )  # fmt: skip
    if not attempts.is_over:
        Z = principal_factor(problem.X, problem.rows)
        given = Z, dual, lambda alpha: points.decision_values(points.weights(alpha), L), team
        may_try = may_try and options["tol"] >= TRIAL_TOL and is_tall(len(Z), Z.shape[1], L)
        # Both have as many steps as they usually need, or it is not worth a try.
        trial = min(PROXIMAL_STEPS, attempts.rounds_left - MOST_STEPS)
        if may_try and trial >= MOST_STEPS:
            attempts.add_anew(solve_proximal, *given, at_most=trial)
        attempts.add_anew(solve_interior, *given)
    if not attempts.is_over and len(problem.rows) <= GRAM_LIMIT:
        finish(attempts, problem.with_gram(team), order)
    return attempts.best


def _solve_interior_there(
    problem: PointProblem, may_choose: bool, options: dict[str, Any]
) -> DualSolution | None:
    """By interior points on the device of the points.

    None where its memory is too small, or descent on the host is quick and may be chosen.
    """
    import torch

    from musvm.solvers.backends import torch_interior

    problem = _with_constant_column(problem)
    dual, points = problem.dual, problem.points
    squares = to_host(points.square().sum(1))
    require_finite(squares)
    if may_choose and is_easy(dual, squares):
        return None
    try:
        if torch_interior.has_room(points.shape[1], dual.n_classes, points.device):
            return torch_interior.solve_on_device(points, dual, **options)
    except torch.cuda.OutOfMemoryError:
        pass
    return None


def _require_room(n_columns: int, n_classes: int, cache_size: float) -> None:
    """Refuse interior points whose equations and their factor take more than `cache_size` MB."""
    megabytes = 1e-6 * 16.0 * (n_columns * (n_classes - 1.0)) ** 2
    if megabytes > cache_size:
        raise MemoryError(
            f"solver='interior' needs {megabytes:.3g} MB for {n_columns} columns of the kernel and "
            f"{n_classes} classes, more than cache_size={cache_size:g}: use 'auto'."
        )


def easy_rounds(rows: DualRows, squares: FloatArray, n_columns: int) -> int:
    """For how many rounds descent is worth a try, by C k(x, x) and what else there is."""
    size = size_of(rows, squares)
    if is_easy(rows, squares):
        return EASY_ROUNDS
    equations = n_columns * (rows.n_classes - 1)
    is_less_easy = size <= LESS_EASY and rows.n_train == rows.n_points
    is_wide = not is_tall(rows.n_points, n_columns, rows.n_classes)
    if is_less_easy and is_wide and equations >= MANY_EQUATIONS:
        return equations // EQUATIONS_PER_ROUND
    return 0


def is_tall(n_points: int, n_columns: int, n_classes: int) -> bool:
    """Whether points are so many that few of them are free at the optimum."""
    equations = n_columns * (n_classes - 1)
    return n_points >= max(TALL, TALL_PER_EQUATION * equations)


def _with_constant_column(problem: PointProblem) -> PointProblem:
    """The same problem of a linear kernel with its constant as one more column of the points."""
    X, kernel = problem.X, problem.kernel
    if kernel.name != "linear" or not kernel.constant:
        return problem
    wider = _with_column(X, kernel.constant**0.5)
    return replace(problem, X=wider, kernel=replace(kernel, constant=0.0))


def _with_column(X: Any, value: float) -> Any:
    """Points with one more feature, the same for all of them."""
    if is_tensor(X):
        xp = namespace(X)
        return xp.concat([X, xp.full_like(X[:, :1], value)], axis=1)
    column = np.full((X.shape[0], 1), value)
    return sp.hstack([X, column], format="csr") if sp.issparse(X) else np.hstack([X, column])


def _backend(problem: PointProblem, cache_bytes: float, team: Workers) -> Backend:
    """What computes with the kernel, where the points are; a GPU's memory is its own limit."""
    kernel, points, L = problem.kernel, problem.points, problem.dual.n_classes
    if not is_tensor(points):
        return KernelRows(kernel, points, L, cache_bytes, team)
    from musvm.solvers.backends.torch import DeviceRows

    on_host = points.device.type == "cpu"
    name = kernel, problem.rows.tobytes()
    kept = None if problem.matrices is None else (problem.matrices, name)
    return DeviceRows(kernel, points, L, cache_bytes if on_host else None, kept)


def shared_matrices(X: Any) -> Any:
    """What problems of the same points on a device share; None where they are on the host."""
    if not is_tensor(X):
        return None
    from musvm.solvers.backends.torch import KeptMatrices

    return KeptMatrices()


def decision_values_there(
    kernel: Kernel, points: Any, vectors: Any, alpha: FloatArray
) -> FloatArray:
    """(a, L) sums over the vectors, computed on the device of the points, in doubles."""
    from musvm.solvers.backends.torch_kernel import DeviceKernel, like

    if not len(vectors):
        return np.zeros((len(points), alpha.shape[1]))
    values = DeviceKernel(kernel, points, vectors).weighted(slice(None), like(points, alpha))
    found: FloatArray = values.cpu().numpy()
    return found


def _grows(problem: PointProblem) -> bool:
    """Whether so many points are looked at block by block, and few of them taken in.

    It takes twice as many rounds as a GPU needs that holds the whole kernel matrix.
    """
    n_points = len(problem.rows)
    if n_points < GROWING or problem.kernel.is_precomputed:
        return False
    if not is_tensor(problem.X):
        return True
    device = problem.X.device
    if device.type != "cuda":
        return True
    matrices = shared_matrices(problem.X) if problem.matrices is None else problem.matrices
    return bool(n_points > matrices.most_points(device))


def _field(problem: PointProblem, cache_bytes: float, team: Workers) -> Field:
    """All points, where they are."""
    kernel, points, L = problem.kernel, problem.points, problem.dual.n_classes
    if not is_tensor(points):
        return HostField(kernel, points, L, cache_bytes, team)
    from musvm.solvers.backends.torch import DeviceField

    on_host = points.device.type == "cpu"
    return DeviceField(kernel, points, L, cache_bytes if on_host else None)


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
