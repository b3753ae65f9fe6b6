"""Newton equations label by label, against the same equations in directions and as a whole."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from musvm.dual._label_blocks import invert

from musvm._pieces import Workspace
from musvm._threads import Workers
from musvm.dual import newton
from musvm.dual.faces import Directions
from musvm.dual.label_blocks import LabelBlocks, Ties, work_of_blocks, work_of_directions

# Of numbers of about one, with condition numbers up to a thousand.
ATOL = 1e-9


def some_groups(seed: int, L: int, two_a_row: bool, n_rows: int | None = None):
    """A Gram matrix, variables in groups of two or more, and weights of the diagonal."""
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(2, 12)) if n_rows is None else n_rows
    A = rng.normal(size=(n_rows, n_rows))
    row, label, sizes = [], [], []
    for i in range(n_rows):
        labels = rng.permutation(L)[: rng.integers(2, L + 1)]
        split = two_a_row and len(labels) >= 4
        for group in np.split(labels, [2]) if split else [labels]:
            row += len(group) * [i]
            label += list(group)
            sizes.append(len(group))
    weights = rng.uniform(0.1, 2.0, len(row))
    return A @ A.T, np.array(row), np.array(label), np.array(sizes), weights


def saddle_point(K, row, label, sizes, weights, values, ties=None):
    """delta by the equations with a multiplier for every group, as one dense system."""
    n, G = len(row), len(sizes)
    H = K[np.ix_(row, row)] * (label[:, None] == label) + np.diag(weights)
    if ties is not None:
        group = np.repeat(np.arange(G), sizes)
        a = np.where(np.isfinite(ties.give[group]), ties.coefficient, 0.0)
        H += np.outer(a, a / ties.give[group]) * (group[:, None] == group)
    sums = np.zeros((G, n))
    sums[np.repeat(np.arange(G), sizes), np.arange(n)] = 1.0
    system = np.block([[H, sums.T], [sums, np.zeros((G, G))]])
    return np.linalg.solve(system, np.concatenate([values, np.zeros(G)]))[:n]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 7), st.booleans(), st.sampled_from([1, 2]))
def test_step_is_that_of_the_whole_system(seed, L, two_a_row, n_threads):
    K, row, label, sizes, weights = some_groups(seed, L, two_a_row)
    values = np.random.default_rng(seed).normal(size=len(row))
    team = Workers(n_threads)
    # Only the upper triangle may be read.
    blocks = LabelBlocks(np.triu(K), row, label, sizes, weights, team)
    team.close()
    assert blocks.is_definite
    delta = blocks.solve(values)
    expected = saddle_point(K, row, label, sizes, weights, values)
    np.testing.assert_allclose(delta, expected, atol=ATOL)
    starts = np.cumsum(sizes) - sizes
    np.testing.assert_allclose(np.add.reduceat(delta, starts), 0.0, atol=ATOL)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 7), st.booleans(), st.sampled_from([0.0, 0.5, 1.0]))
def test_tied_sums_are_those_of_the_whole_system(seed, L, two_a_row, share):
    """Some groups, none or all; stiff ties and loose ones."""
    K, row, label, sizes, weights = some_groups(seed, L, two_a_row)
    rng = np.random.default_rng(seed + 1)
    give = np.where(rng.random(len(sizes)) < share, 10.0 ** rng.uniform(-3, 2, len(sizes)), np.inf)
    ties, values = Ties(rng.normal(size=len(row)), give), rng.normal(size=len(row))
    blocks = LabelBlocks(np.triu(K), row, label, sizes, weights, Workers(), ties=ties)
    assert blocks.is_definite
    expected = saddle_point(K, row, label, sizes, weights, values, ties)
    np.testing.assert_allclose(blocks.solve(values), expected, atol=ATOL)


@pytest.mark.parametrize("n", [1, 2, 48, 49, 97, 200])
def test_an_inverse_by_halves_is_the_inverse(n):
    """Of some rows of K, of which only the upper triangle may be read."""
    rng = np.random.default_rng(n)
    Z, weights = rng.normal(size=(2 * n, 2 * n + 5)), rng.uniform(0.1, 2.0, n)
    K, row = Z @ Z.T / n, np.sort(rng.permutation(2 * n)[:n])
    readable = np.where(np.triu(np.ones(K.shape)) > 0, K, np.nan)
    scale, inverse = np.empty(n), np.full((n, n), np.nan, order="F")
    assert invert(readable, row, weights, 0.0, scale, inverse)
    A = K[np.ix_(row, row)] + np.diag(weights)
    lower = np.tril(inverse * scale * scale[:, None])
    np.testing.assert_allclose(lower, np.tril(np.linalg.inv(A)), rtol=1e-9, atol=ATOL)


def test_the_step_of_many_rows_is_that_of_the_whole_system():
    """Blocks of more rows than one call of LAPACK takes."""
    K, row, label, sizes, weights = some_groups(0, 4, False, n_rows=130)
    K = K / 130
    values = np.random.default_rng(1).normal(size=len(row))
    blocks = LabelBlocks(np.triu(K), row, label, sizes, weights, Workers())
    expected = saddle_point(K, row, label, sizes, weights, values)
    np.testing.assert_allclose(blocks.solve(values), expected, atol=ATOL)


def test_memory_that_was_used_before_does_not_change_a_digit():
    workspace = Workspace()
    workspace.empty_for([100])
    workspace.square(100).fill(np.nan)
    for seed, n_rows in ((0, 20), (1, 5), (2, 30), (3, 20)):
        problem = some_groups(seed, 5, False, n_rows)
        values = np.random.default_rng(seed).normal(size=len(problem[1]))
        again = LabelBlocks(*problem, Workers(), workspace=workspace)
        fresh = LabelBlocks(*problem, Workers())
        np.testing.assert_array_equal(again.solve(values), fresh.solve(values))


def test_threads_do_not_change_a_digit():
    rng = np.random.default_rng(3)
    n, L = 300, 6
    X = rng.normal(size=(n, 5))
    K, row, label = X @ X.T, np.repeat(np.arange(n), L), np.tile(np.arange(L), n)
    sizes, weights = np.full(n, L), rng.uniform(0.1, 2.0, n * L)
    found = []
    for n_threads in (1, 2):
        team = Workers(n_threads)
        blocks = LabelBlocks(K, row, label, sizes, weights, team)
        found.append(blocks.solve(np.linspace(-1.0, 1.0, len(row))))
        team.close()
    np.testing.assert_array_equal(*found)


def test_a_matrix_without_a_factor_is_told():
    K, row, label, sizes, weights = some_groups(4, 3, False)
    K = K - 10.0 * np.trace(K) * np.eye(len(K))
    assert not LabelBlocks(K, row, label, sizes, weights, Workers()).is_definite


def test_a_ridge_helps_where_rounding_leaves_no_factor():
    """Equal points and no weights: K is singular."""
    row, label, sizes = np.repeat([0, 1], 2), np.tile([0, 1], 2), np.array([2, 2])
    K, weights = np.array([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]]), np.zeros(4)
    assert not LabelBlocks(K, row, label, sizes, weights, Workers()).is_definite
    blocks = LabelBlocks(K, row, label, sizes, weights, Workers(), most_ridge=1.0)
    assert blocks.is_definite
    delta = blocks.solve(np.array([1.0, -1.0, 1.0, -1.0]))
    # Any step with this image is one of the singular system.
    np.testing.assert_allclose([delta[0] + delta[2], delta[1] + delta[3]], [1.0, -1.0], atol=1e-6)


@pytest.mark.parametrize("L", [2, 8])
@pytest.mark.parametrize("two_a_row", [False, True])
def test_newton_steps_of_groups_are_those_of_the_whole_system(L, two_a_row, monkeypatch):
    made = []
    monkeypatch.setattr(
        newton, "LabelBlocks", lambda *args: made.append(args) or LabelBlocks(*args)
    )
    for seed in range(10):
        K, row, label, sizes, _ = some_groups(seed, L, two_a_row)
        g = np.random.default_rng(seed).normal(size=len(row))
        K += 0.1 * np.eye(len(K))
        step = newton._zero_sum_step(np.triu(K), row, label, sizes, g, 0.0)
        expected = saddle_point(K, row, label, sizes, np.zeros(len(row)), -g)
        np.testing.assert_allclose(step, expected, atol=1e-7)
    assert bool(made) == (L == 8)


@pytest.mark.parametrize(("L", "blocks_win"), [(2, False), (10, True)])
def test_labels_cost_less_than_directions_only_with_many_classes(L, blocks_win):
    """All labels of all rows: L n^3 + n^3 / 3 against (L - 1)^3 n^3 / 3."""
    n = 50
    label, sizes = np.tile(np.arange(L), n), np.full(n, L)
    assert work_of_blocks(label, n) == pytest.approx(L * n**3 + n**3 / 3)
    directions = Directions.of(np.repeat(np.arange(n), L), label, sizes)
    assert work_of_directions(sizes) == pytest.approx(len(directions) ** 3 / 3)
    assert (work_of_blocks(label, n) < work_of_directions(sizes)) == blocks_win


def in_time(function) -> None:
    """Run a function on a thread that must not wait for ever."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(30.0)
    assert not thread.is_alive()


def all_labels_of(n: int, L: int):
    """K, rows, labels and sizes of n rows with all labels."""
    return np.eye(n), np.repeat(np.arange(n), L), np.tile(np.arange(L), n), np.full(n, L)


def test_threads_that_wait_for_a_block_without_a_factor_are_let_go():
    """The first block has none; the others take their turns all the same."""
    K, row, label, sizes = all_labels_of(40, 6)
    found = []

    def factorise():
        team = Workers(3)
        blocks = LabelBlocks(K, row, label, sizes, np.where(label == 0, -2.0, 1.0), team)
        team.close()
        found.append(blocks.is_definite)

    in_time(factorise)
    assert found == [False]


def test_threads_that_wait_for_an_interrupted_one_are_let_go(monkeypatch):
    """The first number never comes: its thread was interrupted before it began."""
    K, row, label, sizes = all_labels_of(10, 4)
    has_waited = []

    def factorise():
        team = Workers(2)

        def interrupted(n, compute, piece):
            late = team._pool.submit(compute, slice(1, 2))
            has_waited.append(not late.done())
            raise KeyboardInterrupt

        monkeypatch.setattr(team, "each", interrupted)
        with pytest.raises(KeyboardInterrupt):
            LabelBlocks(K, row, label, sizes, np.ones(len(row)), team)
        team.close()

    in_time(factorise)
    assert len(has_waited) == 1
