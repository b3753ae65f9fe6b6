"""What the solver by working sets asks of whoever computes with the kernel.

A backend holds alpha and F = K alpha of M points, row by row, (M, L), and everything that has to do
with K. It lives for one solve and belongs to one thread, though it may use others itself. Points
are given as ascending row numbers, on the host. What is handed over belongs to the caller, unless
it is said how long it lasts; a backend keeps no reference to what it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from musvm._input.tensors import FloatArray, IntArray
from musvm.dual.problem import DualRows

# Rows of a working set, and what it may keep of the worst violation, on a processor.
SIZE = 1500
LOOSENESS = 0.1
# A cache of kernel rows has room for this many whatever its size in bytes.
MIN_ROWS = 16


@dataclass(frozen=True)
class Survey:
    """The state of all rows: the worst violation, and the gap P + D with the primal P."""

    worst: float
    gap: float
    primal: float


@dataclass(frozen=True)
class SmallProblem:
    """A working set: what there is to know of it.

    Attributes
    ----------
    points : (w,) its rows, ascending
    alpha, F : (w, L); until the next survey
    gram : (w, w) K between them, floats or doubles; until the next survey
    worst : the worst of their violations
    """

    points: IntArray
    alpha: FloatArray
    F: FloatArray
    gram: Any
    worst: float


# Kernels in this range, by k(x, x), and products with them are numbers in floats.
FLOAT_RANGE = (1e-30, 1e30)


def floats_hold(diagonal: FloatArray) -> bool:
    """Whether kernel rows may be rounded to floats; they stay in doubles otherwise."""
    largest = float(np.abs(diagonal).max(initial=0.0))
    return largest == 0.0 or FLOAT_RANGE[0] <= largest <= FLOAT_RANGE[1]


class Backend(Protocol):
    """alpha, F and K; starts at alpha = 0.

    Attributes
    ----------
    diagonal : (M,) that of K, in doubles
    size : the largest working set that it has room for
    looseness : how much of the worst violation a working set may keep: more where rounds cost
        little
    newton_every : the number of rounds that a Newton step is worth; 0 for none
    """

    diagonal: FloatArray
    size: int
    looseness: float
    newton_every: int

    def survey(self, rows: DualRows) -> Survey:
        """The worst violation, gap and primal at the current alpha and F.

        `rows` are the same object in every call of a solve: they may be sent to a device once.
        """

    def small_problem(self, random_state: np.random.RandomState) -> SmallProblem:
        """The next working set by the last survey (`choosing.py`), of `size` rows at most.

        `random_state` breaks ties of the first one.
        """

    def change(self, points: IntArray, alpha: FloatArray) -> None:
        """Set alpha of some points and add what follows to F, rounded to floats or better.

        The points are rows of the last working set, those that moved.
        """

    def newton_step(self, rows: DualRows) -> None:
        """Move all support vectors with free labels at once (`musvm.dual.newton`).

        Only as far as that lowers D, and not at all if there is no room for it.
        """

    def start(self, alpha: FloatArray, decision: FloatArray) -> None:
        """Set all of alpha and F = K alpha, where that is known: from rough looks, if these are."""

    def restart(self, alpha: FloatArray | None = None) -> None:
        """Set all of alpha, or leave it as it is, and compute F = K alpha in doubles.

        What has not changed since the last time may be kept; nothing that was rounded to floats
        may remain.
        """

    def solution(self) -> tuple[FloatArray, FloatArray]:
        """alpha and F of all points, (M, L) each, on the host; until the next change."""


class Field(Protocol):
    """All points of a problem and their kernel, for a solver that holds few of them at a time.

    Attributes
    ----------
    looks_roughly : whether a rough look takes less time than an exact one
    one_of : of very many training points, one of so many is held from the start
    first_tol : the relative gap that these are solved to
    """

    looks_roughly: bool
    one_of: int
    first_tol: float

    @property
    def room(self) -> int | None:
        """Of how many points a backend had better be; None if it does not matter."""

    def backend(self, points: IntArray) -> Backend:
        """A backend of some points alone; those before it are of no more use."""

    def look(
        self,
        rows: DualRows,
        points: IntArray,
        support: IntArray,
        alpha: FloatArray,
        *,
        roughly: bool = False,
    ) -> tuple[FloatArray, FloatArray]:
        """Losses, (w,), and decision values, (w, L), of some points, in doubles.

        `rows` are those of the points. The decision values are sums over other points, the
        `support`, whose rows of alpha are given, (s, L). A rough look may round them to floats.
        """
