"""Hypothesis strategies for problems of the dual: small, varied and often degenerate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from musvm.dual.problem import DualProblem, DualRows

LOSSES = st.sampled_from(["sum", "max"])
DELTAS = st.one_of(st.sampled_from([0.0, 0.1, 1.0, 2.0]), st.floats(0.0, 2.0))


@st.composite
def points(draw, n_points: int, n_features: int) -> np.ndarray:
    """Points in general position or on a coarse grid, some of them copies, some of them zero."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (n_points, n_features)
    on_grid = draw(st.booleans())
    X = rng.integers(-2, 3, size=shape).astype(float) if on_grid else rng.normal(size=shape)
    index = st.integers(0, n_points - 1)
    for target, source in draw(st.lists(st.tuples(index, index), max_size=4)):
        X[target] = X[source]
    for row in draw(st.lists(index, max_size=2)):
        X[row] = 0.0
    return X


@st.composite
def gram_matrices(draw, n_points: int) -> np.ndarray:
    """Linear (of low rank), polynomial or Gaussian kernels."""
    X = draw(points(n_points, draw(st.integers(1, 6))))
    kernel = draw(st.sampled_from(["linear", "poly", "rbf"]))
    inner = X @ X.T
    if kernel == "linear":
        gram = inner
    elif kernel == "poly":
        gram = (0.5 * inner + 1.0) ** draw(st.integers(2, 3))
        gram /= gram.diagonal().max()
    else:
        squares = inner.diagonal()
        distances = np.maximum(squares[:, None] + squares - 2.0 * inner, 0.0)
        gram = np.exp(-draw(st.sampled_from([0.05, 0.5, 5.0])) * distances)
    return np.ascontiguousarray(0.5 * (gram + gram.T))


@st.composite
def caps(draw, n_train: int, n_universum: int) -> np.ndarray:
    """C over eight orders of magnitude, C*/C over two, and a weight for every point.

    Rounding in a decision value costs its cap times 1e-16 or so of the objective, which is about
    1 / K for separable points. With kernels of about 1 and caps up to 1e5 that leaves a relative
    gap of 1e-8 within reach of double precision, and little more.
    """
    C, ratio = 10.0 ** draw(st.floats(-4.0, 4.0)), 10.0 ** draw(st.floats(-1.0, 1.0))
    values = np.concatenate([np.full(n_train, C), np.full(n_universum, C * ratio)])
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        values *= rng.choice([0.05, 0.2, 0.5, 0.8, 1.0], size=len(values))
    return values


@st.composite
def problems(draw, losses=LOSSES, max_train: int = 15, max_universum: int = 10) -> DualProblem:
    """Problems of every kind the solver has to take; the universum may be empty."""
    L = draw(st.integers(2, 6))
    n, m = draw(st.integers(1, max_train)), draw(st.integers(0, max_universum))
    labels = st.lists(st.integers(0, L - 1), min_size=n, max_size=n)
    return DualProblem(
        draw(gram_matrices(n + m)),
        DualRows(
            y=np.array(draw(labels), dtype=np.intp),
            n_classes=L,
            caps=draw(caps(n, m)),
            delta=draw(DELTAS),
            universum_loss=draw(losses),
        ),
    )


def changed(problem: DualProblem, *, gram=None, **rows) -> DualProblem:
    """The problem with another Gram matrix, or other fields of its rows."""
    gram = problem.gram if gram is None else gram
    return DualProblem(gram, replace(problem.rows, **rows))


@st.composite
def related_problems(draw) -> tuple[DualProblem, DualProblem]:
    """Two problems on the same points that differ in C, C*, weights, delta and the loss."""
    first = draw(problems())
    n = first.rows.n_train
    rows = replace(
        first.rows,
        caps=draw(caps(n, first.n_points - n)),
        delta=draw(DELTAS),
        universum_loss=draw(LOSSES),
    )
    return first, DualProblem(first.gram, rows)


@st.composite
def problems_with_feasible_alpha(draw) -> tuple[DualProblem, np.ndarray]:
    """A problem and a feasible alpha, entries often exactly 0 or exactly at a bound."""
    problem = draw(problems())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    alpha = np.array([_feasible_row(problem, i, rng) for i in range(problem.n_points)])
    return problem, alpha * problem.rows.caps[:, None] / 8.0


def _feasible_row(problem: DualProblem, i: int, rng: np.random.Generator) -> np.ndarray:
    """Row i in eighths of its cap, which keep sums and bounds exact."""
    L, training = problem.rows.n_classes, i < problem.rows.n_train
    order = rng.permutation(L)
    n_up = 1 if training else rng.integers(1, L)
    if training:
        order = np.array([problem.rows.y[i], *(l for l in order if l != problem.rows.y[i])])
    if training or problem.rows.is_max:
        up = rng.multinomial(rng.integers(0, 9), np.full(n_up, 1.0 / n_up))
    else:
        up = rng.integers(0, 9, size=n_up)
    down = rng.multinomial(up.sum(), np.full(L - n_up, 1.0 / (L - n_up)))
    row = np.empty(L)
    row[order] = np.concatenate([up, -down])
    return row


@st.composite
def linear_problems(draw):
    """Points of few columns, some of them copies, some of them zero, of any length; and rows."""
    L = draw(st.integers(2, 6))
    n, m = draw(st.integers(1, 15)), draw(st.integers(0, 10))
    X = draw(points(n + m, draw(st.integers(1, 5))))
    if draw(st.booleans()):
        X = X * 10.0 ** np.linspace(-1.5, 1.5, X.shape[1])
    y = np.array(draw(st.lists(st.integers(0, L - 1), min_size=n, max_size=n)), dtype=np.intp)
    return X, DualRows(y, L, draw(caps(n, m)), draw(DELTAS), draw(LOSSES))
