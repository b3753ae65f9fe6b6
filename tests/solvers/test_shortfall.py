"""The sentence about a fit that fell short of its tolerance."""

from __future__ import annotations

import numpy as np
import pytest

from musvm.dual.solution import DualSolution
from musvm.solvers.shortfall import shortfall


def stopped(relative_gap: float, n_rounds: int) -> str:
    """What is said of a solution that stopped with this gap."""
    nothing = np.zeros((1, 2))
    solution = DualSolution(
        primal=1.0, gap=1.0, relative_gap=relative_gap, n_rounds=n_rounds, converged=False,
        alpha=nothing, decision=nothing,
    )  # fmt: skip
    return shortfall(solution, tol=1e-4, max_iter=n_rounds, largest=None)


@pytest.mark.parametrize(("n_rounds", "words"), [(1, "after 1 round at"), (2, "after 2 rounds at")])
def test_rounds_are_counted_in_words(n_rounds, words):
    assert words in stopped(0.5, n_rounds)


def test_a_model_that_gains_nothing_has_no_relative_gap():
    """Its gap is compared with nothing: "inf" would be no help."""
    sentence = stopped(np.inf, 3)
    assert "inf" not in sentence
    assert "loosen tol" not in sentence
    assert sentence.endswith(
        "not below that of zero weights: raise max_iter or scale the features."
    )
