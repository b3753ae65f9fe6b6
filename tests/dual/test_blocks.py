"""One block in closed form, against its minimiser in rational arithmetic.

The oracle proves itself: its duality gap is exactly zero. A block that is computed in doubles is
held to what rounding allows: every bound exactly, the sum to the last digits of the cap, the
duality gap to the last digits of cap times the size of the numbers that enter it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compiled import project_box, solve_block
from oracles import block_gap, exact_block, exact_projection

EPS = np.finfo(float).eps
KINDS = ["training", "sum", "max"]
MAGNITUDES = st.floats(-12.0, 12.0).map(lambda power: 10.0**power)


@st.composite
def blocks(draw, kinds=tuple(KINDS)):
    """b (often with ties), q, cap and the keyword arguments that say which set it is."""
    L = draw(st.integers(2, 7))
    ties = st.lists(st.integers(-2, 2).map(float), min_size=L, max_size=L)
    spread = st.lists(st.floats(-3.0, 3.0), min_size=L, max_size=L)
    b = np.array(draw(st.one_of(ties, spread))) * draw(st.sampled_from([1.0, 1e-6, 1e6]))
    kind = draw(st.sampled_from(kinds))
    if kind == "training":
        options = {"y": draw(st.integers(0, L - 1))}
    else:
        delta = draw(st.one_of(st.just(0.0), st.floats(0.0, 2.0)))
        options = {"delta": delta, "is_max": kind == "max"}
    return b, draw(MAGNITUDES), draw(MAGNITUDES), options


def in_doubles(b, q, cap, options) -> list[Fraction]:
    return [Fraction(float(v)) for v in solve_block(b, q, cap, **options)]


def magnitude(b, q, cap, options) -> Fraction:
    """The largest number that a multiplier is computed from."""
    return Fraction(np.abs(b).max() + q * cap + options.get("delta", 0.0) + 1.0)


@given(blocks())
def test_the_oracle_is_optimal_exactly(block):
    b, q, cap, options = block
    a = exact_block(b, q, cap, **options)
    assert sum(a) == 0
    assert block_gap(a, b, q, cap, **options) == 0


@given(blocks())
@example((np.zeros(3), 1e-12, 1.0, {"y": 0}))
@example((np.array([1.0, 0.0, 0.0]), 1e-12, 1.0, {"y": 0}))
@example((np.array([1.0, 0.0, 0.0, 2.0]), 1e-12, 1e6, {"delta": 0.0, "is_max": False}))
def test_bounds_hold_exactly_and_the_sum_to_rounding(block):
    b, q, cap, options = block
    a = in_doubles(b, q, cap, options)
    if "y" in options:
        assert all(v <= 0 for l, v in enumerate(a) if l != options["y"]), "a positive other label"
        assert a[options["y"]] <= Fraction(cap), "own label above its cap"
    elif options["is_max"]:
        positive = sum(max(v, Fraction(0)) for v in a)
        assert positive <= Fraction(cap) * (1 + 8 * Fraction(EPS)), "more mass than the cap"
    else:
        assert max(a) <= Fraction(cap), "a label above the cap"
    assert abs(sum(a)) <= 16 * Fraction(EPS) * Fraction(cap), "the row does not sum to zero"


@given(blocks())
def test_the_duality_gap_of_the_block_vanishes_to_rounding(block):
    b, q, cap, options = block
    a = in_doubles(b, q, cap, options)
    allowed = 64 * Fraction(EPS) * Fraction(cap) * magnitude(b, q, cap, options)
    assert abs(block_gap(a, b, q, cap, **options)) <= allowed


@given(blocks())
def test_the_minimiser_is_the_exact_one(block):
    b, q, cap, options = block
    a, exact = in_doubles(b, q, cap, options), exact_block(b, q, cap, **options)
    # a_l is a difference of numbers of that magnitude divided by q: no digits beyond it.
    allowed = 64 * Fraction(EPS) * magnitude(b, q, cap, options) / Fraction(q)
    assert max(abs(v - w) for v, w in zip(a, exact, strict=True)) <= allowed


@given(blocks(), st.randoms(use_true_random=False))
def test_no_exchange_of_mass_improves_on_the_oracle(block, random):
    """Brute force, so that the formula of the gap is not the only witness."""
    b, q, cap, options = block
    a = exact_block(b, q, cap, **options)
    for step in (Fraction(cap) / 7, Fraction(cap) / 1000):
        k, l = random.sample(range(len(b)), 2)
        moved = list(a)
        moved[k] += step
        moved[l] -= step
        if is_feasible(moved, cap, options):
            assert objective(moved, b, q, options) >= objective(a, b, q, options)


def objective(a, b, q, options) -> Fraction:
    pairs = zip(a, map(Fraction, map(float, b)), strict=True)
    smooth = sum(Fraction(q) * v * v / 2 + bl * v for v, bl in pairs)
    if "y" in options:
        return smooth - a[options["y"]]
    return smooth + Fraction(options["delta"]) * sum(max(v, Fraction(0)) for v in a)


def is_feasible(a, cap, options) -> bool:
    if "y" in options:
        return all(v <= (Fraction(cap) if l == options["y"] else 0) for l, v in enumerate(a))
    if options["is_max"]:
        return sum(max(v, Fraction(0)) for v in a) <= Fraction(cap)
    return max(a) <= Fraction(cap)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_at_rest_stays_exactly(kind):
    """b that is already balanced gives zeros, not rounding noise: shrinking relies on it."""
    if kind == "training":
        a = solve_block(np.array([5.0, 0.0, 1.0]), 2.0, 3.0, y=0)
    else:
        a = solve_block(np.array([0.2, 0.25, 0.3]), 2.0, 3.0, delta=0.1, is_max=kind == "max")
    assert np.array_equal(a, np.zeros(3))


@st.composite
def boxes(draw):
    """target, lower, upper and a total that the box can reach."""
    k = draw(st.integers(1, 7))
    scale = draw(st.sampled_from([1.0, 1e-9, 1e9]))
    numbers = st.one_of(st.integers(-2, 2).map(float), st.floats(-3.0, 3.0))
    rows = [draw(st.lists(numbers, min_size=k, max_size=k)) for _ in range(3)]
    target, one, other = scale * np.array(rows)
    lower, upper = np.minimum(one, other), np.maximum(one, other)
    share = draw(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)))
    total = min(max(lower.sum() + share * (upper - lower).sum(), lower.sum()), upper.sum())
    return target, lower, upper, total


@given(boxes())
def test_the_projection_onto_a_box_is_the_exact_one(box):
    target, lower, upper, total = box
    a = project_box(*box)
    assert np.all((lower <= a) & (a <= upper)), "outside the box"
    scale = max(np.abs(np.concatenate([target, lower, upper])).max(), np.finfo(float).tiny)
    assert abs(sum(map(Fraction, map(float, a))) - Fraction(total)) <= 64 * Fraction(EPS * scale)
    exact = np.array([float(v) for v in exact_projection(*box)])
    np.testing.assert_allclose(a, exact, rtol=0, atol=64 * EPS * scale)
