"""The span of a support vector (Theorem 1, Corollary 1) and the bounds built on it.

Theorem 1 defines, for t in SV_1, the points of type 1,

    S_t^2 = min_beta sum_ij <beta_i, beta_j> K_ij,   beta_t = alpha_t,  sum_l beta_il = 0,

i and j running over SV_1, universum points included. The minimum separates over an orthonormal
basis of the zero-sum vectors, with the same matrix K for each, so

    S_t^2 = |alpha_t|^2 d_t^2,   d_t the distance of x_t from the span of the others in SV_1,

which is |alpha_t|^2 / (K_SV1^-1)_tt where K_SV1 is regular and 0 where x_t depends on the others.
For t of type 2 the same program has SV_1 for "the others", and
d_t^2 = K_tt - k_t' K_SV1^-1 k_t. Non-support vectors have S_t = 0.

Theorem 1 and its proof give, if only two entries of alpha_t are active and no type changes,

    alpha_t' f(x_t) - S_t^2 = alpha_{t,y} (f_y - f_k)(x_t) of the model without x_t,

so that point t counts as an error where S_t^2 >= alpha_t' f(x_t), and the quotient
(alpha_t' f(x_t) - S_t^2) / alpha_{t,y} is its margin when left out. In eq. (8), "span-2016",
every t of type 2 counts as an error; in the sequel of 2019, "span", it is judged like the others.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from musvm._input.tensors import FloatArray, IntArray
from musvm.dual.decisions import own_margins
from musvm.dual.problem import DualProblem

# Squared sine of the angle with the span below which a point belongs to it. Rounding makes about
# 1e-14 of an exact 0; a point that is this close has no influence of its own either way.
RANK_TOL = 1e-12


def squared_spans(problem: DualProblem, alpha: FloatArray, types: IntArray) -> FloatArray:
    """S_t^2 for every training point, (n,)."""
    n = problem.rows.n_train
    inside, at_bound = np.flatnonzero(types == 1), np.flatnonzero(types[:n] == 2)
    distances = np.zeros(problem.n_points)
    distances[inside], distances[at_bound] = squared_distances(problem.gram, inside, at_bound)
    masses: FloatArray = np.square(alpha[:n]).sum(axis=1)
    return masses * distances[:n]


def squared_distances(
    gram: FloatArray, inside: IntArray, outside: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Squared distances of `inside` points from the span of each other, of `outside` from theirs.

    All vectors are scaled to length 1, so that the rank does not depend on units, and a pivoted
    Cholesky factorisation chooses independent ones, the *pivots*.
    """
    norms = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    scale = np.where(norms > 0, norms, 1.0)
    K = gram[np.ix_(inside, inside)]
    K /= scale[inside]
    K /= scale[inside, None]
    pivots, inverse, coefficients = _independent(K)

    among = np.zeros(len(inside))
    among[pivots] = _pivot_distances(inverse, coefficients)
    basis = inside[pivots]
    cross = gram[np.ix_(basis, outside)] / np.outer(scale[basis], scale[outside])
    away = (norms[outside] > 0) - np.square(inverse @ cross).sum(axis=0)
    away[away < RANK_TOL] = 0.0
    return among * norms[inside] ** 2, away * norms[outside] ** 2


def _independent(K: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Pivots P of a Gram matrix; L^-1 with L L' = K_PP; and W, the others as W times pivots."""
    if not len(K):
        return np.empty(0, dtype=np.intp), K, K
    factor, order, rank, _ = lapack.dpstrf(K.T, tol=RANK_TOL, lower=1, overwrite_a=1)
    inverse = np.tril(factor[:rank, :rank])
    if rank:
        inverse, _ = lapack.dtrtri(inverse, lower=1, overwrite_c=1)
    return order[:rank] - 1, inverse, factor[rank:, :rank] @ inverse


def _pivot_distances(inverse: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Squared distances of the pivots from the span of all other points.

    1 / (K_PP^-1)_bb is that from the other pivots. Without pivot b, another point at W_rb times
    that distance from them would take its place if the factorisation found it independent; then
    b depends on the others.
    """
    from_pivots = 1.0 / np.square(inverse).sum(axis=0)
    stand_in = np.square(coefficients).max(axis=0, initial=0.0) * from_pivots
    return np.where(stand_in > RANK_TOL, 0.0, from_pivots)


def span_margins(
    problem: DualProblem,
    alpha: FloatArray,
    decision: FloatArray,
    types: IntArray,
    spans: FloatArray,
) -> FloatArray:
    """(alpha_t' f(x_t) - S_t^2) / alpha_{t,y}, (n,); of a non-support vector its own margin."""
    n = problem.rows.n_train
    own = alpha[np.arange(n), problem.rows.y]
    agreement = np.einsum("il,il->i", alpha[:n], decision[:n])
    excess = agreement - spans
    # An isolated point has margin 0, not a rounding error of either sign.
    excess[np.abs(excess) <= RANK_TOL * (np.abs(agreement) + spans)] = 0.0
    as_fitted = own_margins(decision[:n], problem.rows.y)
    np.divide(excess, own, out=as_fitted, where=types[:n] > 0)
    return as_fitted


def counts_as_error(
    types: IntArray, margins: FloatArray, *, type_2_always: bool
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which training points count as errors; `type_2_always` is eq. (8)."""
    types = types[: len(margins)]
    errors = (types > 0) & (margins <= 0.0)
    return errors | (types == 2) if type_2_always else errors
