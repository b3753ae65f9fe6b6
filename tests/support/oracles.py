"""Independent oracles: the paper's own programs, transcribed and solved by other means.

Nothing here uses the package. Two programs are solved by an interior-point solver (Clarabel):

    eq. (5)   the dual with its n + mL artificial samples       `solve_eq5`, loss "sum"
    eq. (2)   the primal with one slack per universum point     `solve_eq2`, loss "max"

both with explicit features Z, Z Z^T = K, which keeps them well posed where K is singular. Each
returns *certified* bounds on the optimum: whatever the interior-point solver reports, its dual
variables are made feasible and give a lower bound, its weights are put into the losses and give
an upper one. A test can therefore tell a wrong answer of ours from an inaccurate oracle.

`exact_block` and `exact_projection` minimise one block of the dual in rational arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp

# The interior-point solver is run on rescaled versions of a problem until the certified
# interval is this narrow; it is far below every tolerance the tests ask for.
SHARP = 1e-9
# Asked for more digits than it has, an interior-point solver may end with fewer.
TOLERANCES = 1e-13, 1e-12


@dataclass(frozen=True)
class Certified:
    """lower <= optimum <= upper, and the (M, L) decision values of the upper bound."""

    lower: float
    upper: float
    decision: np.ndarray

    @property
    def width(self) -> float:
        return (self.upper - self.lower) / abs(self.upper)

    def sharper(self, other: Certified) -> Certified:
        best = self if self.upper <= other.upper else other
        return Certified(max(self.lower, other.lower), best.upper, best.decision)


def optimum(problem) -> Certified:
    """The optimum of a `DualProblem`, from the program of the paper that defines it."""
    solver = {"sum": solve_eq5, "max": solve_eq2}[problem.rows.universum_loss]
    return solver(
        problem.gram, problem.rows.y, problem.rows.n_classes, problem.rows.caps, problem.rows.delta
    )


# ---------------------------------------------------------------------------------------------
# The paper's definitions


class Samples(NamedTuple):
    """Eq. (3): training samples, then every universum point once with each label."""

    point: np.ndarray  # (N,) which of the M points it is
    label: np.ndarray  # (N,) y_i
    e: np.ndarray  # (N, L) e_il
    cap: np.ndarray  # (N,) C_i


def artificial_samples(y, n_classes: int, caps, delta: float) -> Samples:
    n, L = len(y), n_classes
    m = len(caps) - n
    point = np.concatenate([np.arange(n), np.repeat(np.arange(n, n + m), L)])
    label = np.concatenate([y, np.tile(np.arange(L), m)])
    e = np.empty((n + m * L, L))
    for i in range(n + m * L):
        for l in range(L):
            kronecker = 1.0 if label[i] == l else 0.0
            e[i, l] = (1.0 if i < n else -delta) * (1.0 - kronecker)
    return Samples(point, label, e, np.asarray(caps)[point])


def samples_of(problem) -> Samples:
    """The artificial samples of a `DualProblem`."""
    rows = problem.rows
    return artificial_samples(rows.y, rows.n_classes, rows.caps, rows.delta)


def eq4_losses(samples: Samples, F: np.ndarray) -> np.ndarray:
    """The smallest slacks xi that eq. (4) allows for decision values F of the points, (N,)."""
    f = F[samples.point]
    own = f[np.arange(len(f)), samples.label]
    return (samples.e - own[:, None] + f).max(axis=1)


def eq2_losses(F: np.ndarray, y, delta: float) -> np.ndarray:
    """The smallest slacks xi, zeta that eq. (2) allows, (M,), pair by pair of labels."""
    L = F.shape[1]
    slacks = np.zeros(len(F))
    for i, f in enumerate(F):
        if i < len(y):
            slacks[i] = max(float(l != y[i]) - f[y[i]] + f[l] for l in range(L))
        else:
            pairs = [abs(f[k] - f[l]) - delta for k in range(L) for l in range(L)]
            slacks[i] = max(0.0, *pairs)
    return slacks


def features(gram: np.ndarray) -> np.ndarray:
    """Z with Z Z^T = K, without the directions that are rounding noise."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-14 * max(values[-1], np.finfo(float).tiny)
    return vectors[:, kept] * np.sqrt(values[kept])


# ---------------------------------------------------------------------------------------------
# The interior-point solver


def interior_point(P, q, A, b, n_equalities: int, *, tol: float, max_iter: int = 200):
    """min 1/2 x'Px + q'x, A x = b in the first rows and A x <= b in the others: x, multipliers."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = max_iter
    settings.tol_gap_abs = 0.0
    settings.tol_gap_rel = settings.tol_feas = tol
    cones = [clarabel.ZeroConeT(n_equalities), clarabel.NonnegativeConeT(len(b) - n_equalities)]
    P, A = sp.triu(P).tocsc(), A.tocsc()
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    return np.array(solution.x), np.array(solution.z)


def _sharpest(attempt: Callable[[float, float], Certified], scales: Iterable[float]) -> Certified:
    """The union of what `attempt` certifies over tolerances and scales, until it is sharp."""
    best = None
    for tol, scale in product(TOLERANCES, scales):
        found = attempt(scale, tol)
        best = found if best is None else best.sharper(found)
        if best.width <= SHARP:
            break
    return best


def _unit_scales(caps) -> list[float]:
    """Units for alpha. Its size lies between that of the caps and, separable data, 1 / K."""
    typical = float(np.exp(np.log(caps).mean()))
    return [typical, typical**0.5, 1.0, typical**0.75, typical**0.25, 10 * typical]


def solve_eq5(gram, y, n_classes: int, caps, delta: float) -> Certified:
    """The optimum of eq. (5), and so of eq. (4)."""
    Z = features(gram)
    samples = artificial_samples(y, n_classes, caps, delta)

    def attempt(unit: float, tol: float) -> Certified:
        alpha, weights = eq5_program(Z, samples, unit, tol=tol)
        alpha = make_feasible(samples, alpha)
        own_weights = Z[samples.point].T @ alpha
        lower = -0.5 * np.sum(own_weights**2) - np.sum(alpha * samples.e)
        candidates = [_eq4_value(Z, samples, w) for w in (weights, own_weights)]
        upper, decision = min(candidates, key=lambda pair: pair[0])
        return Certified(float(lower), upper, decision)

    return _sharpest(attempt, _unit_scales(caps))


def eq5_program(Z, samples: Samples, unit: float, *, tol: float):
    """Eq. (5) by interior points: alpha (N, L) and the weights (r, L) of its multipliers.

    The variables are alpha / unit and v = Z^T alpha / unit, so that K enters as v^T v.
    """
    N, L, r = len(samples.label), samples.e.shape[1], Z.shape[1]
    own = np.arange(L) == samples.label[:, None]
    P = sp.block_diag([sp.csc_matrix((N * L, N * L)), unit**2 * sp.eye(r * L)])
    q = np.concatenate([unit * samples.e.ravel(), np.zeros(r * L)])
    weights_of_alpha = sp.hstack([sp.kron(Z[samples.point].T, sp.eye(L)), -sp.eye(r * L)])
    row_sums = sp.hstack([sp.kron(sp.eye(N), np.ones((1, L))), sp.csc_matrix((N, r * L))])
    bounds = sp.hstack([sp.eye(N * L), sp.csc_matrix((N * L, r * L))])
    A = sp.vstack([weights_of_alpha, row_sums, bounds])
    b = np.concatenate([np.zeros(r * L + N), (samples.cap[:, None] * own).ravel() / unit])
    x, multipliers = interior_point(P, q, A, b, r * L + N, tol=tol)
    return unit * x[: N * L].reshape(N, L), multipliers[: r * L].reshape(r, L) / unit


def make_feasible(samples: Samples, alpha: np.ndarray) -> np.ndarray:
    """The nearest thing to alpha that satisfies eq. (5)'s constraints to rounding."""
    rows = np.arange(len(alpha))
    alpha = np.minimum(alpha, 0.0)
    alpha[rows, samples.label] = 0.0
    alpha *= _shrink(-alpha.sum(axis=1), samples.cap)[:, None]
    alpha[rows, samples.label] = -alpha.sum(axis=1)
    return alpha


def _shrink(mass: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """The factors that take masses above their caps down to them."""
    return np.where(mass > cap, cap / np.maximum(mass, cap), 1.0)


def _eq4_value(Z, samples: Samples, weights: np.ndarray) -> tuple[float, np.ndarray]:
    F = Z @ weights
    return float(0.5 * np.sum(weights**2) + samples.cap @ eq4_losses(samples, F)), F


def solve_eq2(gram, y, n_classes: int, caps, delta: float) -> Certified:
    """The optimum of eq. (2), one slack per point."""
    Z = features(gram)
    point, plus, minus, e = _eq2_constraints(y, n_classes, len(caps), delta)

    def attempt(unit: float, tol: float) -> Certified:
        weights, beta = _eq2_program(Z, (point, plus, minus, e), n_classes, caps, unit, tol)
        F = Z @ weights
        upper = 0.5 * np.sum(weights**2) + caps @ eq2_losses(F, y, delta)
        # Feasible multipliers: nonnegative, and those of one slack add up to its cap at most.
        beta = np.maximum(beta, 0.0)
        beta *= _shrink(np.bincount(point, beta, minlength=len(caps)), caps)[point]
        alpha = np.zeros((len(caps), n_classes))
        np.add.at(alpha, (point, plus), beta)
        np.add.at(alpha, (point, minus), -beta)
        lower = beta @ e - 0.5 * np.sum((Z.T @ alpha) ** 2)
        return Certified(float(lower), float(upper), F)

    return _sharpest(attempt, _unit_scales(caps))


def _eq2_constraints(y, n_classes: int, n_points: int, delta: float):
    """f_plus(x) - f_minus(x) >= e - slack, one row each for eq. (2): point, plus, minus, e."""
    rows = []
    for i in range(n_points):
        for k in range(n_classes):
            for l in range(n_classes):
                if k != l and (i >= len(y) or k == y[i]):
                    rows.append((i, k, l, 1.0 if i < len(y) else -delta))
    point, plus, minus = np.array([row[:3] for row in rows], dtype=int).T
    return point, plus, minus, np.array([row[3] for row in rows])


def _eq2_program(Z, constraints, n_classes: int, caps, unit: float, tol: float):
    """Eq. (2) by interior points: weights (r, L) and one multiplier per constraint.

    The objective is divided by the unit of the multipliers; slacks are nonnegative.
    """
    point, plus, minus, e = constraints
    L, r, M, R = n_classes, Z.shape[1], len(caps), len(point)
    P = sp.block_diag([sp.eye(r * L) / unit, sp.csc_matrix((M, M))])
    q = np.concatenate([np.zeros(r * L), caps / unit])
    labels = sp.csr_matrix(
        (np.repeat([-1.0, 1.0], R), (np.tile(np.arange(R), 2), np.concatenate([plus, minus]))),
        shape=(R, L),
    )
    rows = sp.csr_matrix((Z[point][:, :, None] * labels.toarray()[:, None, :]).reshape(R, r * L))
    slack = sp.csr_matrix((-np.ones(R), (np.arange(R), point)), shape=(R, M))
    A = sp.vstack([sp.hstack([rows, slack]), sp.hstack([sp.csr_matrix((M, r * L)), -sp.eye(M)])])
    x, multipliers = interior_point(P, q, A, np.concatenate([-e, np.zeros(M)]), 0, tol=tol)
    return x[: r * L].reshape(r, L), unit * multipliers[:R]


# ---------------------------------------------------------------------------------------------
# Feasibility and Karush-Kuhn-Tucker conditions of the literal programs at a reduced alpha


def transport(a: np.ndarray) -> np.ndarray:
    """T >= 0, (L, L), with row sums max(a, 0) and column sums max(-a, 0), for sum(a) = 0."""
    positive, negative = np.maximum(a, 0.0), np.maximum(-a, 0.0)
    mass = positive.sum()
    return np.outer(positive, negative) / mass if mass > 0 else np.zeros((len(a), len(a)))


def copies_of(a: np.ndarray) -> np.ndarray:
    """The L copies' dual rows of eq. (5) that add up to the universum row a, (copy, label)."""
    return np.diag(np.maximum(a, 0.0)) - transport(a)


def literal_alpha(alpha: np.ndarray, n_train: int) -> np.ndarray:
    """Eq. (5)'s alpha, (n + mL, L), for a reduced one, (n + m, L)."""
    return np.vstack([alpha[:n_train], *(copies_of(a) for a in alpha[n_train:])])


def constraint_violation(problem, alpha: np.ndarray) -> float:
    """The largest violation of a constraint of the literal dual, relative to its C_i."""
    n, L = len(problem.rows.y), problem.rows.n_classes
    worst = np.abs(alpha.sum(axis=1) / problem.rows.caps).max()
    for i, a in enumerate(alpha):
        cap = problem.rows.caps[i]
        if i < n:
            bounds = [cap if l == problem.rows.y[i] else 0.0 for l in range(L)]
            worst = max(worst, *((a - bounds) / cap))
        elif problem.rows.is_max:
            worst = max(worst, transport(a).sum() / cap - 1.0)
        else:
            copies = copies_of(a)
            off_diagonal = copies - np.diag(np.diag(copies))
            worst = max(worst, np.diag(copies).max() / cap - 1.0, off_diagonal.max() / cap)
    return float(worst)


def complementarity(problem, alpha: np.ndarray) -> np.ndarray:
    """Multiplier times slack, for every constraint of the literal primal at w = sum_i alpha_i x_i.

    With w built from a feasible alpha and the slacks from w, the Karush-Kuhn-Tucker conditions
    of eq. (4) or eq. (2) hold but for complementarity; these products are what is left of them.
    """
    products = []
    for i, (a, f) in enumerate(zip(alpha, problem.gram @ alpha, strict=True)):
        training = i < len(problem.rows.y)
        labels = np.array([problem.rows.y[i]]) if training else np.arange(problem.rows.n_classes)
        off = labels[:, None] != np.arange(problem.rows.n_classes)
        excess = np.where(
            off, (1.0 if training else -problem.rows.delta) - f[labels, None] + f, 0.0
        )
        multipliers = np.where(off, -a if training else transport(a), 0.0)
        if not training and problem.rows.is_max:
            excess, multipliers = excess.reshape(1, -1), multipliers.reshape(1, -1)
        slack = excess.max(axis=1, keepdims=True)
        products.append((multipliers * (slack - excess)).ravel())
        products.append((problem.rows.caps[i] - multipliers.sum(axis=1)) * slack[:, 0])
    return np.concatenate(products)


# ---------------------------------------------------------------------------------------------
# One block of the dual, in rational arithmetic


def as_fractions(values) -> list[Fraction]:
    return [Fraction(float(v)) for v in values]


def exact_block(b, q, cap, *, y=None, delta=0, is_max=False) -> list[Fraction]:
    """argmin q/2 |a|^2 + <b, a> + (dual cost) over the set of a training or universum row.

    Every argument is a float or Fraction and is taken exactly. `block_gap` of the result is 0,
    which proves it optimal.
    """
    b, q, cap, delta = as_fractions(b), Fraction(q), Fraction(cap), Fraction(delta)
    if y is not None:
        own = [Fraction(l == y) for l in range(len(b))]
        pieces = [_Clipped(bl - o, q, None, cap * o) for bl, o in zip(b, own, strict=True)]
        return _balance(pieces, Fraction(0))
    pieces = [_Kinked(bl, q, delta, None if is_max else cap) for bl in b]
    a = _balance(pieces, Fraction(0))
    if not is_max or sum(max(v, 0) for v in a) <= cap:
        return a
    up = _balance([_Clipped(bl, q, Fraction(0), None) for bl in b], cap)
    down = _balance([_Clipped(-bl, q, Fraction(0), None) for bl in b], cap)
    return [u - d for u, d in zip(up, down, strict=True)]


def exact_projection(target, lower, upper, total) -> list[Fraction]:
    """The Euclidean projection onto {sum = total, lower <= a <= upper}."""
    bounds = zip(*map(as_fractions, (target, lower, upper)), strict=True)
    pieces = [_Clipped(-t, Fraction(1), low, high) for t, low, high in bounds]
    return _balance(pieces, Fraction(total))


class _Clipped(NamedTuple):
    """a(lambda) = clip((lambda - b) / q, low, high)."""

    b: Fraction
    q: Fraction
    low: Fraction | None
    high: Fraction | None

    def breakpoints(self) -> list[Fraction]:
        return [self.b + self.q * v for v in (self.low, self.high) if v is not None]

    def at(self, multiplier: Fraction) -> Fraction:
        a = (multiplier - self.b) / self.q
        a = a if self.low is None else max(a, self.low)
        return a if self.high is None else min(a, self.high)


class _Kinked(NamedTuple):
    """a(lambda) with z = lambda - b: z / q below 0, 0 up to delta, then (z - delta) / q to cap."""

    b: Fraction
    q: Fraction
    delta: Fraction
    cap: Fraction | None

    def breakpoints(self) -> list[Fraction]:
        kinks = [self.b, self.b + self.delta]
        return kinks if self.cap is None else [*kinks, kinks[1] + self.q * self.cap]

    def at(self, multiplier: Fraction) -> Fraction:
        z = multiplier - self.b
        a = min(z, Fraction(0)) / self.q + max(z - self.delta, Fraction(0)) / self.q
        return a if self.cap is None else min(a, self.cap)


def _balance(pieces, total: Fraction) -> list[Fraction]:
    """The values at the multiplier where they add up to `total`: the sum is linear between
    breakpoints and nondecreasing, so a straight line through two of its points finds it."""
    points = sorted({point for piece in pieces for point in piece.breakpoints()})
    points = [points[0] - 1, *points, points[-1] + 1]
    sums = [sum(piece.at(p) for piece in pieces) for p in points]
    right = next((k for k in range(1, len(points) - 1) if sums[k] >= total), len(points) - 1)
    left = right - 1
    if sums[right] == sums[left]:
        multiplier = points[right]
    else:
        slope = (points[right] - points[left]) / (sums[right] - sums[left])
        multiplier = points[left] + slope * (total - sums[left])
    return [piece.at(multiplier) for piece in pieces]


def block_gap(a, b, q, cap, *, y=None, delta=0, is_max=False) -> Fraction:
    """cap * loss(g) + <a, g> + dual cost with g = q a + b: 0 if and only if a, feasible, is
    optimal (Fenchel), and at least q |a - argmin|^2 otherwise."""
    a, b, delta = [Fraction(v) for v in a], as_fractions(b), Fraction(delta)
    g = [Fraction(q) * v + bl for v, bl in zip(a, b, strict=True)]
    inner = sum(v * gl for v, gl in zip(a, g, strict=True))
    if y is not None:
        loss = max(gl + (l != y) for l, gl in enumerate(g)) - g[y]
        return Fraction(cap) * loss + inner - a[y]
    excess = [max(max(g) - gl - delta, Fraction(0)) for gl in g]
    loss = max(excess) if is_max else sum(excess)
    return Fraction(cap) * loss + inner + delta * sum(max(v, Fraction(0)) for v in a)
