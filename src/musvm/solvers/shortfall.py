"""Why a fit fell short of its tolerance, in a sentence that says what to do about it.

There are three reasons. Rounding hides gaps of the size asked for (`hidden_gap`): more rounds would
not help, other features would. All rounds that were allowed are over. Or a path came to its end
before: what it computes with, a factor of the kernel matrix for one, has no more digits to give.
"""

from __future__ import annotations

import math
from typing import Any

from musvm.dual.solution import DualSolution

BY_ROUNDING = "rounding errors"
"""Words of every message that names rounding as the reason, and of no other."""

OF_GAIN = ", of what the model gains over zero weights"
"""What the gap is relative to, where that is not the objective."""


def shortfall(
    solution: DualSolution,
    *,
    tol: float,
    max_iter: int,
    largest: float | None,
    kernel: Any = None,
) -> str:
    """The sentence for a solution that is not known to be within `tol`.

    `largest` is the largest k(x, x), where that is known, and `kernel` what the kernel is called.
    """
    relative, hidden, rounds = solution.relative_gap, solution.hidden_gap, solution.n_rounds
    of_gain = OF_GAIN if solution.gap < 0.99 * relative * abs(solution.primal) else ""
    reached = f"at a relative duality gap of {relative:.1e}{of_gain}, above tol={tol:g}"
    more_remedies = ", scale the features, or loosen tol"
    if math.isinf(relative):
        reached = "with an objective that is not below that of zero weights"
        more_remedies = " or scale the features"
    stopped = f"The solver stopped after {rounds} round{'s' * (rounds != 1)} {reached}"
    if relative > tol >= hidden:
        remedy = "raise max_iter" if rounds >= max_iter else "try another solver"
        return f"{stopped}: {remedy}{more_remedies}."
    found = f"{stopped}; more rounds would not help, since"
    if relative <= tol:
        found = (
            f"The relative duality gap of {relative:.1e}{of_gain} seems to meet tol={tol:g}, but"
        )
        hidden += relative
    remedy = {"precomputed": "scale the matrix, ", "rbf": ""}.get(
        kernel if isinstance(kernel, str) else "", "centre and scale the features, "
    )
    values = "kernel values" if largest is None else f"kernel values of up to {largest:.0e}"
    return (
        f"{found} {values} leave {BY_ROUNDING} that may hide a gap of {hidden:.1e}: {remedy}"
        f"lower C{',' * bool(remedy)} or loosen tol."
    )
