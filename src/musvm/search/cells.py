"""One cell of a search: a dual problem, its solution, and what the points left out say of it.

A *part* is a set of blocks to train on, and the points that judge what was trained: the other
fold in cross-validation. Leave-one-out has one part, of all blocks, and `musvm.loo` judges it.

The left-out margin of a point (x, y) is f_y(x) - max_{l != y} f_l(x).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._input.blocks import Blocks
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray, IntArray, is_tensor, take, to_host
from musvm._input.weights import row_caps
from musvm.dual.decisions import own_margins
from musvm.dual.problem import DualProblem, DualRows, UniversumLoss
from musvm.dual.solution import Certificate, DualSolution, solution_of
from musvm.kernels import Kernel
from musvm.loo.evaluate import evaluate
from musvm.loo.span import counts_as_error
from musvm.loo.types import support_types
from musvm.model import dual_rows
from musvm.solvers.by_turns import solve_with_gram
from musvm.solvers.choose import AIM, PointProblem, decision_values_there, solve_points

# Kernel values between judges and support vectors that are held at a time: 32 MB.
STRIP_ENTRIES = 2**22
# What leave-one-out aims at, as a share of the gain: free variables must be those of the optimum.
# Folds aim at what fits do. Of 30 linear searches over 40 digits 3 % of the cells had another
# estimate than at a tolerance of 1e-8 with 1, and 2 searches another winner; 0.4 % with 0.01, and
# 0.1 % with this, for an eighth more time. No gap is aimed at below the last of these: rounding is
# in the way, and what others make of it has more free variables.
AIM_OF_FACES, SMALLEST_AIM = 1e-3, 1e-10


@dataclass(frozen=True)
class Part:
    """What to train on, at C = 1, and who judges it.

    Attributes
    ----------
    blocks : (B,) rows of the Gram matrix, training blocks first
    unit_rows : the dual of these blocks at C = 1 and Delta = 0
    judges : (J,) rows of the Gram matrix that are predicted; none in leave-one-out
    judges_y : (J,) their class codes
    weight : (J,) how much each judge counts; in leave-one-out the training blocks judge
    rows : (R,) rows of the data that are left out
    judge_of_row : (R,) the judge that stands for each of them
    """

    blocks: IntArray
    unit_rows: DualRows
    judges: IntArray
    judges_y: IntArray
    weight: FloatArray
    rows: IntArray
    judge_of_row: IntArray


@dataclass(frozen=True)
class Points:
    """All blocks as points and a kernel, where the Gram matrix is too large to be held.

    Attributes
    ----------
    kernel : with its parameters settled
    X : all points, dense, CSR or a tensor; the kernel matrix if precomputed
    rows : (M,) rows of X that stand for the blocks, training blocks first
    resolution : relative rounding error of the entries of the kernel matrix
    cache_size : of kernel rows, in megabytes
    matrices : kernel matrices that all cells of one part share, where X is on a device
    """

    kernel: Kernel
    X: Any
    rows: IntArray
    resolution: float
    cache_size: float
    matrices: Any = None

    @property
    def identity(self) -> list[Any]:
        """Arrays, numbers and names that tell it from others."""
        points = to_host(self.X)
        X = [points.data, points.indices, points.indptr] if sp.issparse(points) else [points]
        return [repr(self.kernel), *X, self.rows]

    def solved(
        self, part: Part, rows: DualRows, options: Options, start: FloatArray | None
    ) -> DualSolution:
        """The solution on a part, on whatever path a fit takes."""
        return solve_points(
            PointProblem(
                self.kernel, self.X, self.rows[part.blocks], rows, self.resolution, self.matrices
            ),
            cache_size=self.cache_size,
            tol=options.tol,
            max_iter=options.max_iter,
            alpha=start,
            random_state=options.random_state,
        )

    def decision_values(self, part: Part, alpha: FloatArray) -> FloatArray:
        """(J, L) those of the judges, a few of them at a time."""
        used = np.flatnonzero(np.any(alpha != 0.0, axis=1))
        judges, vectors = self.rows[part.judges], self.rows[part.blocks[used]]
        if is_tensor(self.X):
            points = take(self.X, judges), take(self.X, vectors)
            return decision_values_there(self.kernel, *points, alpha[used])
        F = np.zeros((len(judges), alpha.shape[1]))
        size = max(STRIP_ENTRIES // max(len(used), 1), 1)
        for first in range(0, len(judges), size):
            some = judges[first : first + size]
            if self.kernel.is_precomputed:
                values = np.asarray(self.X[np.ix_(some, vectors)], dtype=float)
            else:
                values = self.kernel.matrix(self.X[some], self.X[vectors])
            F[first : first + size] = values @ alpha[used]
        return F


Source = FloatArray | Points
"""The Gram matrix of all blocks, or of the training blocks; or points in its place."""


@dataclass(frozen=True)
class Options:
    """What all cells of a search share; scores may need the judges' decision values."""

    tol: float
    max_iter: int
    seed: int | None
    keeps_decisions: bool = False

    @property
    def random_state(self) -> np.random.RandomState | None:
        return None if self.seed is None else np.random.RandomState(self.seed)


@dataclass(frozen=True)
class Judgement:
    """Left-out margins, whether the point was classified wrongly, and the time it took."""

    margins: FloatArray
    wrong: Any
    seconds: float


@dataclass(frozen=True)
class CellFit(Certificate):
    """The solution of a cell on one part, in plain numbers and arrays.

    `n_type_1` and `n_type_2` count support vectors inside their bounds and at their bound, among
    training blocks and among universum blocks. `margins` and `wrong` are those of the judges, and
    so are the decision values F, (J, L), where they are kept. `seconds` are all of the time, and
    `judging` is what the judges took of it.
    """

    alpha: FloatArray
    n_type_1: IntArray
    n_type_2: IntArray
    margins: FloatArray
    wrong: Any
    F: FloatArray
    seconds: float
    judging: float


def make_part(
    data: FitData,
    blocks: Blocks,
    class_weight: Any,
    universum_loss: UniversumLoss,
    universum_weight: Any,
    fold: tuple[IntArray, IntArray] | None = None,
) -> Part:
    """The part that trains on all rows, or on those of a fold and all of the universum.

    `universum_weight` None leaves the universum out. The rows of a fold are rows of `data` of
    positive weight.
    """
    weight = data.weight.copy()
    rows = np.flatnonzero(data.is_training & (weight > 0))
    if fold is not None:
        train, rows = fold
        weight[data.is_training] = 0.0
        weight[train] = data.weight[train]
    factor = 0.0 if universum_weight is None else universum_weight
    caps = row_caps(replace(data, weight=weight), 1.0, class_weight, factor)
    rows_of_dual, used = dual_rows(blocks, len(data.classes), caps, universum_loss=universum_loss)
    n = len(blocks.y)
    judges = rows[:0] if fold is None else rows
    return Part(
        blocks=used,
        unit_rows=rows_of_dual,
        judges=blocks.block_of_row[judges],
        judges_y=data.codes[judges],
        weight=blocks.total(data.weight)[:n] if fold is None else data.weight[rows],
        rows=rows,
        judge_of_row=blocks.block_of_row[rows] if fold is None else np.arange(len(rows)),
    )


def state_rows(part: Part, C: float, delta: float) -> DualRows:
    """The dual of a cell without its Gram matrix."""
    return replace(part.unit_rows, caps=C * part.unit_rows.caps, delta=float(delta))


def state_problem(gram: FloatArray, part: Part, C: float, delta: float) -> DualProblem:
    """The dual problem of a cell; `gram` belongs to all blocks."""
    gram = np.require(gram, requirements=["C", "A"])  # what a cluster sends need not be aligned
    whole = len(part.blocks) == len(gram)
    return DualProblem(
        gram if whole else np.ascontiguousarray(gram[np.ix_(part.blocks, part.blocks)]),
        state_rows(part, C, delta),
    )


def fit_cell(
    source: Source,
    part: Part,
    options: Options,
    C: float,
    delta: float,
    start: FloatArray | None,
) -> CellFit:
    """Solve a cell on one part from a warm start, and let the judges judge."""
    began = time.perf_counter()
    rows = state_rows(part, C, delta)
    is_left_one_out = len(part.judges) == 0
    of_faces = min(max(AIM_OF_FACES, SMALLEST_AIM / options.tol), AIM)
    keen = replace(rows, share_of_gain=of_faces if is_left_one_out else AIM)
    if isinstance(source, Points):
        solution = source.solved(part, keen, options, start)
        solved = time.perf_counter()
        F = source.decision_values(part, solution.alpha)
    else:
        problem = state_problem(source, part, C, delta)
        solution = solve_with_gram(
            DualProblem(problem.gram, keen),
            tol=options.tol,
            max_iter=options.max_iter,
            alpha=start,
            random_state=options.random_state,
            # In leave-one-out the face of the solution is what judges.
            patient=is_left_one_out,
        )
        solved = time.perf_counter()
        F = source[np.ix_(part.judges, part.blocks)] @ solution.alpha
    # What is short of the aim alone is good enough: rounding was in the way.
    solution = solution.measured_by(rows, options.tol)
    types, n = support_types(rows, solution.alpha), rows.n_train
    return CellFit(
        primal=solution.primal,
        gap=solution.gap,
        relative_gap=solution.relative_gap,
        n_rounds=solution.n_rounds,
        converged=solution.converged,
        alpha=solution.alpha,
        n_type_1=np.array([(types[:n] == 1).sum(), (types[n:] == 1).sum()]),
        n_type_2=np.array([(types[:n] == 2).sum(), (types[n:] == 2).sum()]),
        margins=own_margins(F, part.judges_y),
        wrong=F.argmax(axis=1) != part.judges_y,
        F=F if options.keeps_decisions else F[:0],
        seconds=time.perf_counter() - began,
        judging=time.perf_counter() - solved,
    )


def judge_cell(
    gram: FloatArray,
    part: Part,
    options: Options,
    C: float,
    delta: float,
    alpha: FloatArray,
    method: str,
) -> Judgement:
    """Leave the training blocks of a solved cell out, one by one."""
    began = time.perf_counter()
    problem = state_problem(gram, part, C, delta)
    result = evaluate(problem, solution_of(problem, alpha, tol=options.tol), method)
    if result.predictions is None:
        wrong = counts_as_error(result.types, result.margins, type_2_always=method == "span-2016")
    else:
        wrong = result.predictions != problem.rows.y
    return Judgement(result.margins, wrong, time.perf_counter() - began)
