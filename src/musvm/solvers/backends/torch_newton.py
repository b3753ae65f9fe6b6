"""Newton steps on a face (`musvm.dual.faces`) by conjugate gradients on a device.

All support vectors with free labels take part, so one step corrects what working sets, which see
a few of them at a time, correct slowly. K between them is held in floats: a step only proposes a
direction, and what D says of it is what counts.

Conjugate gradients need as many products as K has scales. A sample P of r support vectors knows
the large ones: with C = K[:, P], the preconditioner is the inverse of

    C K_PP^-1 C' + sigma I,   by Woodbury  (I - B B') / sigma,  B B' = C (sigma K_PP + C'C)^-1 C',

sigma the mean diagonal of what the sample does not explain. It is projected onto the groups of the
face, as in `musvm.dual.newton`. Where a direction has no positive curvature, by rounding or because
the kernel is indefinite, the step ends with what it has.

alpha and F are (w, L) here, one row per support vector, in doubles; nothing leaves the device but
single numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from musvm.dual import problem as statement
from musvm.dual.conjugate_gradients import conjugate_gradients
from musvm.dual.problem import DualRows, at_bound
from musvm.solvers.backends.torch_kernel import aligned
from musvm.solvers.backends.torch_replay import Replayed

TOL, MAX_ITER = 0.3, 80
# Iterations between looks at the residual.
LOOK_EVERY = 10
# Relative to the mean diagonal of K: what rounding to floats may take from its eigenvalues.
RIDGE = 1e-6
# The sample of the preconditioner: at most so many, and one of so many support vectors.
MAX_SAMPLE, ONE_OF = 512, 4
# Of the support vectors one in so many says how much the sample does not explain.
JUDGED = 8
# Lengths of the step that are tried at the same time, and the next ones where the last is best.
LENGTHS = ((1.0, 0.5, 0.25), (0.125, 0.0625, 0.03125, 0.015625))
# Rows that are rounded at a time.
ROWS_A_PIECE = 1024


class TensorFace(NamedTuple):
    """Masks of the free variables of each group of the rows, and bounds; (w, L) all of them."""

    groups: tuple[Tensor, ...]
    lower: Tensor
    upper: Tensor


def face_of(rows: DualRows, alpha: Tensor) -> TensorFace:
    """What `musvm.dual.faces.find_face` finds, of rows and an alpha on a device."""
    n, caps, L = rows.n_train, rows.caps[:, None], rows.n_classes
    tiny = at_bound(rows.caps, alpha)[:, None]
    lowest = (1 - L) * caps
    lower = torch.where(alpha < 0.0, lowest, 0.0)
    upper = torch.where(alpha > 0.0, caps, 0.0)
    free, below_cap = alpha.abs() > tiny, alpha < caps - tiny
    free[rows.own] &= below_cap[rows.own]

    U, second = alpha[n:], torch.zeros_like(free)
    inside = torch.ones_like(U[:, :1], dtype=torch.bool)
    if rows.is_max:
        inside = U.clamp(min=0.0).sum(1, keepdim=True) < (caps - tiny)[n:]
        second[n:] = ~inside & (U < 0.0)
    if rows.delta == 0:
        free[n:] |= inside
        lower[n:] = torch.where(inside, lowest[n:], lower[n:])
        upper[n:] = torch.where(inside, caps[n:], upper[n:])
    if not rows.is_max:
        free[n:] &= below_cap[n:]
    # A variable that is alone in its group cannot move.
    members = (free & ~second, free & second) if rows.is_max else (free,)
    groups = tuple(mask & (mask.sum(1, keepdim=True) >= 2) for mask in members)
    return TensorFace(groups, lower, upper)


class _Quick:
    """Products with a symmetric matrix whose entries are rounded to half floats.

    Half the bytes, and a GPU's units for small matrices. These want `aligned` rows, and take
    three times as long without. Directions of conjugate gradients can do with three digits.
    """

    def __init__(self, matrix: Tensor, places: Tensor | None = None) -> None:
        w = len(matrix) if places is None else len(places)
        extremes, size = torch.stack(matrix.aminmax()), aligned(w)
        self._scale = extremes.abs().max().clamp(min=torch.finfo(matrix.dtype).tiny)
        self._A = torch.zeros((size, size), dtype=torch.float16, device=matrix.device)
        self._wide: Tensor | None = None
        # In pieces: all rows, or a whole quotient, would be one more matrix of floats.
        for start in range(0, w, ROWS_A_PIECE):
            rows = slice(start, min(start + ROWS_A_PIECE, w))
            part = matrix[rows] if places is None else matrix[places[rows]].index_select(1, places)
            self._A[rows, :w] = part / self._scale

    def __call__(self, v: Tensor) -> Tensor:
        w, L = v.shape
        # Sums of a million products stay below the largest half float.
        size = 16.0 * torch.linalg.vector_norm(v, torch.inf) + torch.finfo(v.dtype).tiny
        if self._wide is None:
            self._wide = self._A.new_zeros((aligned(L), len(self._A)))
        torch.div(v.T, size, out=self._wide[:L, :w])
        image = (self._wide @ self._A)[:L, :w]
        return torch.empty_like(v).copy_(image.T).mul_(self._scale * size)


class SupportMatrix:
    """K between support vectors, (w, w), and how to divide by it.

    Parameters
    ----------
    matrix : K between points, floats
    support : (w,) which of them are support vectors, ascending; all of them if None. Where they are
        most of all, products with the whole matrix take less than a copy of their part
    quick : whether the products of conjugate gradients are rounded to half floats
    """

    def __init__(self, matrix: Tensor, support: Tensor | None = None, *, quick: bool) -> None:
        self._matrix, self._support = matrix, support
        places = torch.arange(len(matrix), device=matrix.device) if support is None else support
        self._quick = _Quick(matrix, support) if quick else None
        self._diagonal = matrix.diagonal()[places]
        # The sample of the preconditioner, and its columns.
        w = len(places)
        self._sample = torch.arange(0, w, max(ONE_OF, -(-w // MAX_SAMPLE)), device=matrix.device)
        self._columns = matrix.index_select(1, places[self._sample]).index_select(0, places)

    def products(self, changes: Tensor) -> Tensor:
        """K times every change of alpha of a stack, (T, w, L)."""
        T, w, L = changes.shape
        side_by_side = changes.to(self._matrix.dtype).movedim(0, 1).reshape(w, T * L)
        return self._product(side_by_side).view(w, T, L).movedim(1, 0).to(changes.dtype)

    def _product(self, values: Tensor) -> Tensor:
        if self._support is None:
            return self._matrix @ values
        whole = values.new_zeros((len(self._matrix), values.shape[1]))
        return (self._matrix @ whole.index_copy_(0, self._support, values))[self._support]

    def newton_step(self, groups: tuple[Tensor, ...], slopes: Tensor, ridge: float) -> Tensor:
        """About the step of `musvm.dual.newton`, by the slopes of the free variables, (w, L)."""
        rhs = -slopes.to(self._matrix.dtype)
        shift = ridge + RIDGE * float(self._diagonal.mean())
        B = _nystroem(self._columns, self._sample, self._diagonal, shift)
        free, shares = _free_and_shares(groups, rhs)
        multiply = self._quick or self._product

        def product(v: Tensor) -> Tensor:
            direction = v.view_as(rhs)
            image = _centred(multiply(direction), free, shares)
            return image.add_(direction, alpha=shift).view(1, -1)

        # Nothing depends on the size of the preconditioner: it is not divided by sigma.
        def precondition(v: Tensor) -> Tensor:
            residual = v.view_as(rhs)
            unexplained = torch.addmm(residual, B, B.T @ residual, alpha=-1.0)
            return _centred(unexplained, free, shares).view(1, -1)

        found = conjugate_gradients(
            product, precondition, rhs.view(1, -1),
            tol=TOL, max_iter=MAX_ITER, look_every=LOOK_EVERY,
            repeated=lambda iteration: Replayed(iteration, rhs.device),
        )  # fmt: skip
        return found.x.view_as(rhs).to(slopes.dtype)


def _nystroem(columns: Tensor, sample: Tensor, diagonal: Tensor, shift: float) -> Tensor:
    """B above, by K[:, P] and P; without columns where K is not positive definite."""
    C, diagonal = columns.double(), diagonal.double()
    K_PP = C[sample]
    scale = float(diagonal.abs().mean())
    jitter = RIDGE * scale * torch.eye(len(sample), dtype=C.dtype, device=C.device)
    factor, failed = torch.linalg.cholesky_ex(K_PP + jitter)
    if bool(failed):
        return columns[:, :0]
    judged = C[::JUDGED].T
    explained = torch.linalg.solve_triangular(factor, judged, upper=False).square().sum(0)
    sigma = max(float((diagonal[::JUDGED] - explained).mean()), RIDGE * scale) + shift
    factor, failed = torch.linalg.cholesky_ex(sigma * (K_PP + jitter) + C.T @ C)
    if bool(failed):
        return columns[:, :0]
    B = torch.linalg.solve_triangular(factor, C.T, upper=False).T
    return B.to(columns.dtype).contiguous()


def after_newton_step(rows: DualRows, alpha: Tensor, F: Tensor, support: SupportMatrix) -> Tensor:
    """alpha after a step that leads down, or as it was."""
    face = face_of(rows, alpha)
    slopes = _centred(_gradient(rows, alpha, F), *_free_and_shares(face.groups, alpha))
    free = sum(mask.sum() for mask in face.groups)
    typical = (slopes.square().sum() / free.clamp(min=1)).sqrt()
    ridge = float(typical / torch.as_tensor(rows.caps).median())
    if not ridge > 0.0:
        return alpha
    step = support.newton_step(face.groups, slopes, ridge)
    return alpha + _descended(rows, face, alpha, F, step, support)


def _descended(
    rows: DualRows, face: TensorFace, alpha: Tensor, F: Tensor, step: Tensor, support: SupportMatrix
) -> Tensor:
    """The change of alpha by a part of the step that D falls furthest by; 0 if by none."""
    costs = statement.dual_costs(rows, alpha).sum()
    best, at_last = torch.zeros_like(alpha), torch.zeros_like(costs)
    for lengths in LENGTHS:
        scales = torch.tensor(lengths, dtype=step.dtype).to(step.device)[:, None, None]
        moved = project(rows, face, alpha, alpha + scales * step)
        changes = moved - alpha
        rises = (changes * (F + 0.5 * support.products(changes))).sum((1, 2))
        dearer = torch.stack([statement.dual_costs(rows, one).sum() for one in moved]) - costs
        drops = torch.cat([at_last[None], -(rises + dearer)]).nan_to_num(nan=-torch.inf)
        k = int(drops.argmax())
        if k > 0:
            best, at_last = changes[k - 1], drops[k]
        if 0 < k < len(lengths):
            break
    return best


def project(rows: DualRows, face: TensorFace, alpha: Tensor, target: Tensor) -> Tensor:
    """The point of the closure of the face nearest to the target, as `musvm.dual.faces.move`.

    Targets may be a stack of them, (T, w, L).
    """
    moved = alpha
    for mask in face.groups:
        moved = torch.where(mask, _in_box(face, alpha, target, mask), moved)
    if rows.is_max:
        # The set of the "max" loss is no box: shrink the rows that left it towards 0.
        n = rows.n_train
        mass, caps = moved[..., n:, :].clamp(min=0.0).sum(-1), rows.caps[n:]
        moved[..., n:, :] *= (caps / torch.maximum(mass, caps))[..., None]
    return moved


def _in_box(face: TensorFace, alpha: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """clip(target + lambda) of every group, with the sum that alpha has there.

    The sum is piecewise linear in lambda, its slope the number of variables inside their bounds:
    it is added up from one breakpoint to the next.
    """
    lower, upper = torch.where(mask, face.lower, 0.0), torch.where(mask, face.upper, 0.0)
    target, totals = torch.where(mask, target, 0.0), (alpha * mask).sum(1, keepdim=True)
    breaks, order = torch.cat([lower - target, upper - target], -1).sort(-1)
    L = alpha.shape[1]
    slopes = torch.where(order < L, 1.0, -1.0).to(alpha.dtype).cumsum(-1)[..., :-1]
    pieces = slopes * breaks.diff(dim=-1)
    sums = torch.cat([pieces[..., :1] * 0.0, pieces.cumsum(-1)], -1) + lower.sum(1, keepdim=True)
    # The last breakpoint whose sum is not above; the next piece leads to the sum.
    at = ((sums <= totals).sum(-1, keepdim=True) - 1).clamp(0, 2 * L - 2)
    slope = slopes.gather(-1, at).clamp(min=1.0)
    multiplier = breaks.gather(-1, at) + (totals - sums.gather(-1, at)) / slope
    values = (target + multiplier).clamp(lower, upper)
    inside = (values > lower) & (values < upper)
    missing = totals - values.sum(-1, keepdim=True)
    share = missing / inside.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(inside, values + share, values).clamp(lower, upper)


def _gradient(rows: DualRows, alpha: Tensor, F: Tensor) -> Tensor:
    """g of `musvm.dual.faces`."""
    n, g = rows.n_train, F.clone()
    g[rows.own] -= 1.0
    g[n:] += rows.delta * (alpha[n:] > 0.0)
    return g


def _free_and_shares(groups: Sequence[Tensor], like: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Masks of groups as numbers, and these divided by how many are free in a row."""
    free = [mask.to(like.dtype) for mask in groups]
    return free, [mask / mask.sum(1, keepdim=True).clamp(min=1.0) for mask in free]


def _centred(values: Tensor, free: Sequence[Tensor], shares: Sequence[Tensor]) -> Tensor:
    """The values of the free variables less the mean of their group; 0 for all others."""
    parts = [
        (values - (values * share).sum(1, keepdim=True)) * mask
        for mask, share in zip(free, shares, strict=True)
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
