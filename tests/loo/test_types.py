"""Support-vector types follow definition 1, relative to the caps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loo_oracles import literal_types
from musvm.dual.decisions import own_margins
from musvm.dual.problem import DualProblem, DualRows
from musvm.loo.types import support_types, two_active_share
from oracles import copies_of
from strategies import changed, problems_with_feasible_alpha


def toy(n_train: int, n_universum: int, loss: str = "sum") -> DualProblem:
    M = n_train + n_universum
    y = np.zeros(n_train, dtype=np.intp)
    return DualProblem(np.eye(M), DualRows(y, 3, np.full(M, 2.0), 0.1, loss))


def test_training_points():
    alpha = np.array([[0.0, 0, 0], [1, -1, 0], [2, -1.5, -0.5], [1, -0.5, -0.5]])
    problem = toy(4, 0)
    types = support_types(problem.rows, alpha)
    assert types.tolist() == [0, 1, 2, 1]
    assert two_active_share(problem.rows, alpha, types) == 0.5


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # Copies (2, 0, 0), (2, 1, 0), (1, 0, 0), none, against a cap of 2 each.
        ("sum", [2, 1, 1, 0]),
        # One slack for a point, so 2, 3 (not feasible), 1 and 0 against a cap of 2.
        ("max", [2, 2, 1, 0]),
    ],
)
def test_universum_points(loss, expected):
    alpha = np.array([[2.0, -2, 0], [2, 1, -3], [1, -0.5, -0.5], [0, 0, 0]])
    assert support_types(toy(0, 4, loss).rows, alpha).tolist() == expected


def test_no_type_1_is_all_of_type_1():
    problem = toy(1, 0)
    assert two_active_share(problem.rows, np.zeros((1, 3)), np.array([0])) == 1.0


@given(problems_with_feasible_alpha())
def test_types_are_those_of_the_literal_samples(drawn):
    """A universum point is of type 1 if a copy is, else of type 2 if a copy is."""
    problem, alpha = drawn
    n = problem.rows.n_train
    types = support_types(problem.rows, alpha)
    own = alpha[np.arange(n), problem.rows.y]
    assert np.array_equal(types[:n], literal_types(own, problem.rows.caps[:n]))
    if problem.rows.universum_loss == "sum":
        for a, cap, found in zip(alpha[n:], problem.rows.caps[n:], types[n:], strict=True):
            copies = literal_types(np.diag(copies_of(a)), np.full(problem.rows.n_classes, cap))
            assert found == (1 if 1 in copies else copies.max())


@given(problems_with_feasible_alpha(), st.sampled_from([1e-12, 1e-5, 1e7]))
def test_types_do_not_depend_on_the_scale_of_c(drawn, factor):
    problem, alpha = drawn
    scaled = changed(problem, caps=problem.rows.caps * factor)
    assert np.array_equal(
        support_types(problem.rows, alpha), support_types(scaled.rows, alpha * factor)
    )


def test_stacks_of_alphas():
    alpha = np.array([[0.0, 0, 0], [1, -1, 0], [2, -2, 0]])
    stack = np.stack([alpha, alpha[::-1]])
    assert support_types(toy(2, 1).rows, stack).tolist() == [[0, 1, 2], [2, 1, 0]]


def test_own_margins():
    F = np.array([[1.0, 0.25, -1], [0, 2, 3]])
    assert own_margins(F, np.array([0, 1])).tolist() == [0.75, -1.0]
