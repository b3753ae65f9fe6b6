"""Single calls of the compiled mathematics, through the loops that use it."""

from __future__ import annotations

import numpy as np
from musvm.dual._faces import project_groups
from musvm.solvers._descent import descend


def solve_block(b, q: float, cap: float, y: int = -1, delta: float = 0.0, is_max: bool = False):
    """The minimiser of one row, training if y >= 0: one move of descent from alpha = 0, F = b."""
    alpha = np.zeros((len(b), 1))
    labels = np.array([y] if y >= 0 else [], dtype=np.intp)
    moves = descend(
        np.array([[q]]), alpha, np.array(b, dtype=np.float64)[:, None].copy(), labels,
        np.array([cap]), delta, is_max, np.array([q]), np.zeros(1, dtype=np.intp), -1.0, 1,
    )  # fmt: skip
    assert moves == 1
    return alpha[:, 0]


def project_box(target, lower, upper, total: float):
    """The projection onto {sum = total, lower <= a <= upper}: a face with one group."""
    values = np.array(target, dtype=np.float64)
    starts = np.array([0, len(values)], dtype=np.intp)
    project_groups(values, lower, upper, np.array([total]), starts)
    return values
