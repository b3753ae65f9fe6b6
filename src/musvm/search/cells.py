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

from musvm import _validation as validation
from musvm.dual import problem as statement
from musvm.dual.problem import DualProblem, FloatArray, IntArray, UniversumLoss
from musvm.dual.solve import DualSolution, solve
from musvm.loo.evaluate import evaluate
from musvm.loo.span import counts_as_error
from musvm.loo.types import own_margins, support_types


@dataclass(frozen=True)
class Part:
    """What to train on, at C = 1, and who judges it.

    Attributes
    ----------
    n_classes : L
    blocks : (B,) rows of the Gram matrix, training blocks first
    y : (B',) class codes of the training blocks
    unit_caps : (B,) caps of the blocks, to be multiplied by C
    judges : (J,) rows of the Gram matrix that are predicted; none in leave-one-out
    judges_y : (J,) their class codes
    weight : (J,) how much each judge counts; in leave-one-out the training blocks judge
    rows : (R,) rows of the data that are left out
    judge_of_row : (R,) the judge that stands for each of them
    """

    n_classes: int
    blocks: IntArray
    y: IntArray
    unit_caps: FloatArray
    judges: IntArray
    judges_y: IntArray
    weight: FloatArray
    rows: IntArray
    judge_of_row: IntArray


@dataclass(frozen=True)
class Options:
    """What all cells of a search share."""

    universum_loss: UniversumLoss
    tol: float
    max_iter: int
    seed: int | None


@dataclass(frozen=True)
class Judgement:
    """Left-out margins, whether the point was classified wrongly, and the time it took."""

    margins: FloatArray
    wrong: Any
    seconds: float


@dataclass(frozen=True)
class CellFit:
    """The solution of a cell on one part, in plain numbers and arrays.

    `n_type_1` and `n_type_2` count support vectors inside their bounds and at their bound, among
    training blocks and among universum blocks. `margins` and `wrong` are those of the judges.
    """

    alpha: FloatArray
    objective: float
    gap: float
    relative_gap: float
    n_iter: int
    converged: bool
    n_type_1: IntArray
    n_type_2: IntArray
    margins: FloatArray
    wrong: Any
    seconds: float

    @property
    def solution(self) -> DualSolution:
        """Without decision values: they can be computed again."""
        return DualSolution(
            alpha=self.alpha,
            decision=np.empty((0, self.alpha.shape[1])),
            primal=float(self.objective),
            dual=float(self.gap - self.objective),
            gap=float(self.gap),
            n_rounds=int(self.n_iter),
            converged=bool(self.converged),
            history=[float(self.relative_gap)],
        )


def make_part(
    data: validation.FitData,
    blocks: validation.Blocks,
    class_weight: Any,
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
    row_caps = validation.row_caps(replace(data, weight=weight), 1.0, class_weight, factor)
    caps = blocks.total(row_caps)
    used = np.flatnonzero(caps > 0)
    n = len(blocks.y)
    judges = rows[:0] if fold is None else rows
    return Part(
        n_classes=len(data.classes),
        blocks=used,
        y=blocks.y[used[used < n]],
        unit_caps=caps[used],
        judges=blocks.block_of_row[judges],
        judges_y=data.codes[judges],
        weight=blocks.total(data.weight)[:n] if fold is None else data.weight[rows],
        rows=rows,
        judge_of_row=blocks.block_of_row[rows] if fold is None else np.arange(len(rows)),
    )


def state_problem(
    gram: FloatArray, part: Part, options: Options, C: float, delta: float
) -> DualProblem:
    """The dual problem of a cell; `gram` belongs to all blocks."""
    gram = np.require(gram, requirements=["C", "A"])  # what a cluster sends need not be aligned
    whole = len(part.blocks) == len(gram)
    return DualProblem(
        gram=gram if whole else np.ascontiguousarray(gram[np.ix_(part.blocks, part.blocks)]),
        y=part.y,
        n_classes=part.n_classes,
        caps=C * part.unit_caps,
        delta=float(delta),
        universum_loss=options.universum_loss,
    )


def fit_cell(
    gram: FloatArray,
    part: Part,
    options: Options,
    C: float,
    delta: float,
    start: FloatArray | None,
) -> CellFit:
    """Solve a cell on one part from a warm start, and let the judges judge."""
    began = time.perf_counter()
    problem = state_problem(gram, part, options, C, delta)
    solution = solve(
        problem,
        tol=options.tol,
        max_iter=options.max_iter,
        alpha=start,
        random_state=None if options.seed is None else np.random.RandomState(options.seed),
    )
    types = support_types(problem, solution.alpha)
    n = problem.n_train
    F = gram[np.ix_(part.judges, part.blocks)] @ solution.alpha
    return CellFit(
        alpha=solution.alpha,
        objective=float(solution.primal),
        gap=float(solution.gap),
        relative_gap=float(solution.history[-1]),
        n_iter=int(solution.n_rounds),
        converged=bool(solution.converged),
        n_type_1=np.array([(types[:n] == 1).sum(), (types[n:] == 1).sum()]),
        n_type_2=np.array([(types[:n] == 2).sum(), (types[n:] == 2).sum()]),
        margins=own_margins(F, part.judges_y),
        wrong=F.argmax(axis=1) != part.judges_y,
        seconds=time.perf_counter() - began,
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
    problem = state_problem(gram, part, options, C, delta)
    F = statement.decision_values(problem, alpha)
    gap, primal = statement.gap_and_primal(problem, alpha, F)
    solution = DualSolution(alpha, F, primal, gap - primal, gap, 0, gap <= options.tol * primal)
    result = evaluate(problem, solution, method)
    if result.predictions is None:
        wrong = counts_as_error(result.types, result.margins, type_2_always=method == "span-2016")
    else:
        wrong = result.predictions != part.y
    return Judgement(result.margins, wrong, time.perf_counter() - began)
