"""The sentence about a fit that fell short of its tolerance."""

from __future__ import annotations

import numpy as np
import pytest

from musvm.dual.solution import DualSolution
from musvm.solvers.shortfall import shortfall


def stopped(
    relative_gap: float, n_rounds: int, hidden_gap: float = 0.0, gap: float = 1.0, **more: object
) -> str:
    """What is said of a solution with an objective of 1 that stopped with this gap."""
    nothing = np.zeros((1, 2))
    solution = DualSolution(
        primal=1.0, gap=gap, relative_gap=relative_gap, n_rounds=n_rounds, converged=False,
        alpha=nothing, decision=nothing, hidden_gap=hidden_gap,
    )  # fmt: skip
    return shortfall(solution, tol=1e-4, max_iter=n_rounds, largest=None, **more)


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


@pytest.mark.parametrize(("gap", "is_of_gain"), [(0.5, False), (0.1, True)])
def test_what_a_gap_is_relative_to_is_said_where_it_is_not_the_objective(gap, is_of_gain):
    """Who divides `dual_gap_` by `objective_` finds another number there."""
    sentence = stopped(0.5, 3, gap=gap)
    assert ("gap of 5.0e-01, of what the model gains over zero weights, above" in sentence) == (
        is_of_gain
    )


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        ("linear", "centre and scale the features, lower C, or loosen tol."),
        ("precomputed", "scale the matrix, lower C, or loosen tol."),
        ("rbf", "lower C or loosen tol."),  # it does not see offsets, and k(x, x) is always 1
        (np.dot, "centre and scale the features, lower C, or loosen tol."),
    ],
)
def test_advice_against_rounding_fits_the_kernel(kernel, advice):
    sentence = stopped(0.5, 3, hidden_gap=2.34e-4, kernel=kernel)
    assert sentence.endswith(f"may hide a gap of 2.3e-04: {advice}")
