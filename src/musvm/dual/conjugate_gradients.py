"""Conjugate gradients for a stack of systems, on arrays or tensors.

Each row of `rhs` is a system of its own, A x = b with a positive semi-definite A, and all of them
advance together. A system stops where its residual is small enough, or where a direction has no
positive curvature, by rounding or because A is indefinite; it keeps what it has by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from musvm._input.tensors import Array, namespace


class Outcome(NamedTuple):
    """`x` as `rhs`; the iterations made; and whether every curvature seen was positive."""

    x: Array
    n_iterations: int
    is_definite: bool


def conjugate_gradients(
    product: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    rhs: Array,
    *,
    tol: float,
    max_iter: int,
    look_every: int = 1,
) -> Outcome:
    """Solve A x = b for every row of `rhs`, (T, f).

    Parameters
    ----------
    product : A times every row of a stack
    precondition : about the inverse of A times every row
    rhs : the right-hand sides
    tol : of the residual, relative to the norm of its right-hand side
    max_iter : the most iterations
    look_every : iterations between looks at the residuals; each look waits for a device
    """
    xp = namespace(rhs)
    x, residual = xp.zeros_like(rhs), xp.asarray(rhs, copy=True)
    target = tol**2 * xp.vecdot(rhs, rhs)
    direction = z = precondition(residual)
    rz = xp.vecdot(residual, z)
    goes_on, definite = rz > 0.0, rz == rz
    for iteration in range(1, max_iter + 1):
        image = product(direction)
        curvature = xp.vecdot(direction, image)
        definite = definite & ((curvature > 0.0) | ~goes_on)
        goes_on = goes_on & (curvature > 0.0) & (rz > 0.0)
        length = _ratio(rz, curvature, goes_on)
        x += length * direction
        residual -= length * image
        if iteration % look_every == 0:
            goes_on = goes_on & (xp.vecdot(residual, residual) > target)
            if not bool(goes_on.any()):
                break
        z = precondition(residual)
        rz, previous = xp.vecdot(residual, z), rz
        direction = z + _ratio(rz, previous, goes_on) * direction
    return Outcome(x, iteration, bool(definite.all()))


def _ratio(above: Array, below: Array, where: Array) -> Array:
    """(T, 1) above / below, 0 where it does not count, or where nothing is left to divide by."""
    xp = namespace(above)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = above / below
    return xp.where(where & xp.isfinite(ratio), ratio, xp.zeros_like(above))[:, None]
