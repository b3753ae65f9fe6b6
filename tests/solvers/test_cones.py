"""Where interior points begin: strictly inside, between the middle of every row and an alpha."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from musvm.dual._faces import project_rows

from musvm.dual.problem import DualRows, infeasibility
from musvm.solvers.cones import Balanced, Capped, Cone, Simplex

L, n, m, DELTA = 4, 7, 5, 0.1
MIDDLE = st.sampled_from([0.03, 0.1234, 0.3, 1.0])
# Some roundings of caps up to 2.
ROUNDED = 1e-14


def drawn(seed: int, loss: str = "sum") -> tuple[DualRows, np.ndarray, np.ndarray]:
    """Rows of both kinds, a class-major alpha with much at its bounds, and decision values."""
    rng = np.random.default_rng(seed)
    rows = DualRows(rng.integers(0, L, n), L, rng.uniform(0.5, 2.0, n + m), DELTA, loss)
    alpha = rng.normal(scale=4.0, size=(L, n + m))
    project_rows(alpha, rows.y, rows.caps, rows.is_max)
    return rows, alpha, rng.normal(size=alpha.shape)


def simplex(rows: DualRows, alpha: np.ndarray, F: np.ndarray, middle: float) -> Simplex:
    """Of the training rows, with what is at its bound held where two labels remain."""
    bound = np.zeros((L, n))
    bound[rows.y, np.arange(n)] = rows.caps[:n]
    live = alpha[:, :n] < bound
    live |= live.sum(axis=0) < 2
    return Simplex(bound, bound / rows.caps[:n] - F[:, :n], live, alpha[:, :n], middle)


def capped(rows: DualRows, alpha: np.ndarray, F: np.ndarray, middle: float) -> Capped:
    """Of the universum rows, with every p that is at a bound held, and every q that is zero.

    The decision values of labels at c are far behind, as they would be at an optimum.
    """
    a, caps = alpha[:, n:], rows.caps[n:]
    F = np.where(a == caps, F[:, n:] - 10.0, F[:, n:])
    live = (a > 0.0) & (a < caps), a < 0.0
    return Capped(caps, F, rows.delta, live, a, middle)


def balanced(rows: DualRows, alpha: np.ndarray, F: np.ndarray, middle: float) -> Balanced:
    """Of the universum rows, with every p and every q that is zero held where some are not."""
    a = alpha[:, n:]
    is_zero = (a == 0.0).all(axis=0)
    return Balanced(
        rows.caps[n:], F[:, n:], rows.delta, (is_zero | (a > 0.0), is_zero | (a < 0.0)), a, middle
    )


KINDS = {"sum": capped, "max": balanced}
LOSS = st.sampled_from(["sum", "max"])


@given(st.integers(0, 10**6), MIDDLE, LOSS)
def test_the_first_point_is_inside_and_feasible(seed, middle, loss):
    rows, alpha, F = drawn(seed, loss)
    cones: list[Cone] = [kind(rows, alpha, F, middle) for kind in (simplex, KINDS[loss])]
    for cone in cones:
        assert all((values > 0.0).all() for values in [*cone.x, *cone.z])
    first = np.hstack([cone.alpha for cone in cones])
    assert infeasibility(rows, first.T) <= ROUNDED


@given(st.integers(0, 10**6), MIDDLE)
def test_what_is_held_stays_where_it_is(seed, middle):
    """Also when steps end there and variables are put at their bounds."""
    rows, alpha, F = drawn(seed)
    cone, a = capped(rows, alpha, F, middle), alpha[:, n:]
    at_c = a == rows.caps[n:]
    np.testing.assert_array_equal(cone.alpha[at_c], a[at_c])
    cone.linearise()
    snapped, *_ = cone.snapped(np.ones(m))
    rests = at_c & ((a > 0.0) & ~at_c | (a < 0.0)).any(axis=0)
    np.testing.assert_array_equal(snapped[rests], a[rests])


@given(st.integers(0, 10**6), MIDDLE, LOSS)
def test_the_first_point_is_between_alpha_and_the_middle(seed, middle, loss):
    """In the middle of a simplex all x are the same; in that of a universum row alpha is zero."""
    rows, alpha, F = drawn(seed)
    bound = np.zeros((L, n))
    bound[rows.y, np.arange(n)] = rows.caps[:n]
    first = Simplex(bound, bound - F[:, :n], None, alpha[:, :n], middle)
    equal = bound - rows.caps[:n] / L
    expected = middle * equal + (1.0 - middle) * alpha[:, :n]
    np.testing.assert_allclose(first.alpha, expected, atol=ROUNDED)
    rows, alpha, F = drawn(seed, loss)
    kind = Balanced if loss == "max" else Capped
    other = kind(rows.caps[n:], F[:, n:], DELTA, None, alpha[:, n:], middle)
    np.testing.assert_allclose(other.alpha, (1.0 - middle) * alpha[:, n:], atol=ROUNDED)


@given(st.integers(0, 10**6), MIDDLE)
def test_rows_of_the_max_loss_keep_both_sums(seed, middle):
    """Sum p + u and sum q + u are c before and after a step, in floats up to rounding."""
    rows, alpha, F = drawn(seed, "max")
    cone = balanced(rows, alpha, F, middle)
    cone.linearise()
    cone.aim(0.1, corrected=False)
    cone.respond(np.random.default_rng(seed + 1).normal(size=(L, m)))
    cone.advance(min(1.0, 0.9 / max(cone.steepest(), 0.1)))
    p, q, u = cone.x
    caps = rows.caps[n:]
    np.testing.assert_allclose(p.sum(axis=0) + u[0], caps, rtol=1e-9)
    np.testing.assert_allclose(q.sum(axis=0) + u[0], caps, rtol=1e-9)
    np.testing.assert_allclose(cone.alpha, p - q, atol=1e-9)


@given(st.integers(0, 10**6), MIDDLE, LOSS)
def test_following_the_known_change_of_alpha_is_responding_to_that_of_F(seed, middle, loss):
    """And what is held does not move by the last digit of anything."""
    rows, alpha, F = drawn(seed, loss)
    dF = np.random.default_rng(seed + 1).normal(size=(L, n + m))
    cones = [cone(rows, alpha, F, middle) for cone in (simplex, KINDS[loss]) for _ in range(2)]
    for responds, follows, of in ((*cones[:2], dF[:, :n]), (*cones[2:], dF[:, n:])):
        for cone in (responds, follows):
            cone.linearise()
            cone.aim(0.1, corrected=False)
        tension = -responds.dz[-1][0]
        responds.respond(of)
        # That of u is what both sums share.
        tension += responds.dz[-1][0]
        follows.follow(of, responds.d_alpha.copy(), tension)
        pairs = zip(
            [*responds.dx, *responds.dz, responds.d_alpha],
            [*follows.dx, *follows.dz, follows.d_alpha],
            strict=True,
        )
        for expected, found in pairs:
            np.testing.assert_allclose(found, expected, atol=1e-12 * (1.0 + np.abs(expected).max()))
        for change, live in zip([*follows.dx, *follows.dz], 2 * follows.live, strict=True):
            assert (change[live == 0.0] == 0.0).all()
