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


class _Systems:
    """The state of all systems; its arrays stay where they are, and change in place."""

    def __init__(
        self,
        product: Callable[[Array], Array],
        precondition: Callable[[Array], Array],
        rhs: Array,
        tol: float,
    ) -> None:
        xp = namespace(rhs)
        self._product, self._precondition = product, precondition
        self.x, self._direction = xp.zeros_like(rhs), xp.zeros_like(rhs)
        self._residual = xp.asarray(rhs, copy=True)
        squares = xp.vecdot(rhs, rhs)
        self._target, self._rz = tol**2 * squares, xp.zeros_like(squares)
        self.definite = squares == squares
        self.goes_on = xp.ones_like(self.definite)

    def advance(self) -> None:
        """One iteration. Nothing here waits for a device, to which every operation is a launch."""
        xp = namespace(self.x)
        z = self._precondition(self._residual)
        rz = xp.vecdot(self._residual, z)
        # In the first iteration there is nothing to divide by, and no direction to keep.
        self._direction *= _ratio(rz, self._rz, self.goes_on)
        self._direction += z
        self._rz[...] = rz
        image = self._product(self._direction)
        curvature = xp.vecdot(self._direction, image)
        is_positive = curvature > 0.0
        # What is not a number is not below 0 either.
        self.definite &= is_positive | (rz <= 0.0) | ~self.goes_on
        self.goes_on &= is_positive & (rz > 0.0)
        length = _ratio(rz, curvature, self.goes_on)
        _add_multiple(self.x, length, self._direction)
        _add_multiple(self._residual, -length, image)
        self.goes_on &= xp.vecdot(self._residual, self._residual) > self._target


def conjugate_gradients(
    product: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    rhs: Array,
    *,
    tol: float,
    max_iter: int,
    look_every: int = 1,
    repeated: Callable[[Callable[[], None]], Callable[[], None]] | None = None,
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
    repeated : makes of an iteration a function that does the same in less time
    """
    systems = _Systems(product, precondition, rhs, tol)
    advance = systems.advance if repeated is None else repeated(systems.advance)
    for iteration in range(1, max_iter + 1):
        advance()
        if iteration % look_every == 0 and not bool(systems.goes_on.any()):
            break
    return Outcome(systems.x, iteration, bool(systems.definite.all()))


def _ratio(above: Array, below: Array, where: Array) -> Array:
    """(T, 1) above / below, 0 where it does not count, or where nothing is left to divide by."""
    xp = namespace(above)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = above / below
    return xp.where(where & (xp.abs(ratio) < xp.inf), ratio, xp.zeros_like(above))[:, None]


def _add_multiple(total: Array, factor: Array, values: Array) -> None:
    """Add factor * values to the total, in place; in one operation on a device."""
    if type(total) is np.ndarray:
        total += factor * values
    else:
        total.addcmul_(factor, values)
