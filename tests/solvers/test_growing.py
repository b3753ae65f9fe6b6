"""Candidates that grow: the optimum of all points, certified for all, from the kernel of few."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from musvm import UniversumSVC
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualProblem, DualRows
from musvm.kernels import Kernel
from musvm.solvers import choose, growing
from musvm.solvers.backends.host import HostField
from musvm.solvers.gram import solve
from musvm.solvers.growing import solve_growing

RBF = Kernel("rbf", 0.1)


def digits(n: int = 500, m: int = 300, delta: float = 0.1, loss: str = "sum"):
    """Digits 0-6 as classes, 7-9 as universum."""
    X, target = load_digits(return_X_y=True)
    inside, outside = np.flatnonzero(target < 7)[:n], np.flatnonzero(target >= 7)[:m]
    caps = np.r_[np.full(n, 10.0), np.full(m, 10.0 * n / (max(m, 1) * 7))]
    rows = DualRows(target[inside].astype(np.intp), 7, caps, delta, loss)
    return X[np.r_[inside, outside]] / 16.0, rows


class Recorded:
    """A field that remembers which points were candidates, pass by pass."""

    def __init__(self, field) -> None:
        self._field = field
        self.looks_roughly, self.room = field.looks_roughly, field.room
        self.one_of, self.first_tol = field.one_of, field.first_tol
        self.candidates: list[np.ndarray] = []
        self.roughly: list[bool] = []

    def backend(self, points):
        self.candidates.append(points)
        return self._field.backend(points)

    def look(self, *arguments, roughly):
        self.roughly.append(roughly)
        return self._field.look(*arguments, roughly=roughly)


def host_field(X: np.ndarray, L: int) -> HostField:
    return HostField(RBF, X, L, 1e9, Workers())


def device_field(X: np.ndarray, L: int):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from musvm.solvers.backends.torch import DeviceField

    return DeviceField(RBF, torch.as_tensor(X), L, 1e9)


FIELDS = {"host": host_field, "device": device_field}


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    """Far fewer at the start than support vectors at the end."""
    monkeypatch.setattr(growing, "FIRST", 40)


@pytest.mark.parametrize("where", FIELDS)
@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_the_solution_is_that_of_the_gram_matrix_certified_for_all_points(where, loss, delta):
    X, rows = digits(delta=delta, loss=loss)
    field = Recorded(FIELDS[where](X, 7))
    found = solve_growing(rows, field, tol=1e-4)
    K = RBF.matrix(X, X)
    exact = solve(DualProblem(K, rows), tol=1e-8)
    assert found.converged
    assert len(field.candidates) > 2
    # Looks at a gap that is large are rough.
    assert any(field.roughly)
    assert not field.roughly[-1]
    assert statement.infeasibility(rows, found.alpha) < 1e-12
    F = K @ found.alpha
    np.testing.assert_allclose(found.decision, F, atol=1e-10)
    gap, primal = statement.gap_and_primal(rows, found.alpha, F)
    assert found.gap == pytest.approx(gap, rel=1e-6)
    assert found.primal == pytest.approx(primal, rel=1e-10)
    assert -exact.gap <= found.primal - exact.primal <= found.gap


@pytest.mark.parametrize("where", FIELDS)
def test_the_gap_of_a_run_that_was_cut_short_covers_points_that_were_no_candidates(where):
    X, rows = digits()
    field = Recorded(FIELDS[where](X, 7))
    found = solve_growing(rows, field, tol=1e-4, max_iter=2)
    assert not found.converged
    assert found.n_rounds == 2
    assert len(field.candidates[-1]) < 200
    K = RBF.matrix(X, X)
    # In doubles, though the gap is large.
    np.testing.assert_allclose(found.decision, K @ found.alpha, atol=1e-10)
    exact = solve(DualProblem(K, rows), tol=1e-8)
    # Nearly all of the loss is outside.
    assert found.primal - exact.primal > 0.5 * exact.primal
    assert found.primal - exact.primal <= found.gap


def test_points_that_cost_nothing_are_no_candidates_but_for_the_sample():
    """A universum that lies far from all classes: with an RBF kernel its decision values vanish."""
    X, rows = digits(300, 0)
    far = 50.0 + np.random.default_rng(0).normal(size=(2000, X.shape[1]))
    caps = np.r_[rows.caps, np.ones(len(far))]
    field = Recorded(host_field(np.vstack([X, far]), 7))
    found = solve_growing(DualRows(rows.y, 7, caps, 0.1), field, tol=1e-4)
    assert found.converged
    assert not found.alpha[300:].any()
    ever = np.unique(np.concatenate(field.candidates))
    assert np.sum(ever >= 300) == 20
    assert np.sum(field.candidates[-1] >= 300) == 0
    alone = solve(DualProblem(RBF.matrix(X, X), rows), tol=1e-8)
    assert found.primal == pytest.approx(alone.primal, abs=found.gap)


@pytest.mark.parametrize("room", [150, 1])
def test_candidates_keep_to_the_room_that_there_is_but_grow_where_they_must(room):
    X, rows = digits(delta=0.0)
    field = Recorded(host_field(X, 7))
    field.room = room
    found = solve_growing(rows, field, tol=1e-4)
    assert found.converged
    sizes = np.array([len(points) for points in field.candidates])
    # Most points are support vectors: there is no room for them in the end.
    assert sizes[-1] > room
    beyond = sizes[1:] > room
    assert np.all(sizes[1:][beyond] <= 1.1 * sizes[:-1][beyond] + 1)


def test_no_candidate_leaves_twice():
    X, rows = digits(delta=0.0)
    field = Recorded(host_field(X, 7))
    solve_growing(rows, field, tol=1e-6)
    times_left = np.zeros(len(X), dtype=int)
    for before, after in zip(field.candidates, field.candidates[1:], strict=False):
        times_left[np.setdiff1d(before, after)] += 1
    assert times_left.max() == 1


def test_a_start_at_the_optimum_stays_there():
    X, rows = digits()
    optimum = solve(DualProblem(RBF.matrix(X, X), rows), tol=1e-7)
    field = Recorded(host_field(X, 7))
    found = solve_growing(rows, field, tol=1e-4, alpha=optimum.alpha)
    assert len(field.candidates) == 1
    # A run makes one round at least.
    assert found.n_rounds == 1
    assert found.primal == pytest.approx(optimum.primal, abs=found.gap + optimum.gap)


def test_progress_is_told_of_all_points():
    """A gap that is small for the candidates alone is not reported before the others were seen."""
    X, rows = digits()
    told: list[tuple[int, float]] = []
    found = solve_growing(
        rows, host_field(X, 7), tol=1e-4, callback=lambda *pair: told.append(pair)
    )
    assert [number for number, _ in told] == list(range(1, found.n_rounds + 1))
    assert len(found.history) == found.n_rounds
    # After the first look the gap is that of nearly all points without any model.
    assert sum(gap > 0.5 for _, gap in told) > 4


def test_an_estimator_takes_this_way_for_very_many_points(monkeypatch):
    X, rows = digits()
    X, U = X[:500], X[500:]
    settings = {"C": 10.0, "gamma": 0.1, "delta": 0.1, "solver": "working-set", "tol": 1e-4}
    plain = UniversumSVC(**settings).fit(X, rows.y, universum=U)
    monkeypatch.setattr(choose, "GROWING", 600)
    calls = []

    def noted(*arguments, **named):
        calls.append(named["tol"])
        return solve_growing(*arguments, **named)

    monkeypatch.setattr(choose, "solve_growing", noted)
    grown = UniversumSVC(**settings).fit(X, rows.y, universum=U)
    assert calls == [1e-4]
    assert grown.converged_
    assert abs(grown.objective_ - plain.objective_) <= max(grown.dual_gap_, plain.dual_gap_)


def test_a_loose_tolerance_is_met_in_doubles():
    """However loose: no gap that floats found ends a run."""
    X, rows = digits()
    field = Recorded(host_field(X, 7))
    found = solve_growing(rows, field, tol=0.3)
    assert found.converged
    assert any(field.roughly)
    assert not field.roughly[-1]
    np.testing.assert_allclose(found.decision, RBF.matrix(X, X) @ found.alpha, atol=1e-11)
