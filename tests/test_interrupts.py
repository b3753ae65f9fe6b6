"""Ctrl-C: heard on every path before the work is done, the model as it was, no thread left."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from musvm import UniversumSVC, UniversumSVCCV, _pieces, loo_error
from musvm._threads import Workers
from musvm.kernels import Kernel, height_of_strips

needs_timers = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="no timer signals on this system"
)


@pytest.fixture
def interrupt_after(monkeypatch):
    """A function that interrupts whatever runs once it has computed for so many seconds.

    Where Python itself drops the exception (a callback of the collector, a finalizer) the key is
    pressed again.
    """

    def handler(*_):
        raise KeyboardInterrupt

    def press_again(dropped):
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_PROF, 0.001)
        else:
            hooks[0](dropped)

    def arm(seconds):
        # Not before the test itself runs: pytest has a hook of its own for every phase.
        hooks.append(sys.unraisablehook)
        monkeypatch.setattr(sys, "unraisablehook", press_again)
        signal.setitimer(signal.ITIMER_PROF, seconds)

    hooks = []
    before = signal.signal(signal.SIGPROF, handler)
    yield arm
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    signal.signal(signal.SIGPROF, before)


def make(n: int, d: int, L: int, m: int = 0):
    rng = np.random.default_rng(0)
    y = np.arange(n) % L
    X = rng.normal(size=(L, d))[y] + rng.normal(size=(n, d))
    return X, y, rng.normal(size=(m, d)) if m else None


# No rounds end these before the interrupt does: the tolerance is below rounding.
ENDLESS = {"C": 1e3, "tol": 1e-15, "max_iter": 10**9}
PATHS = {
    "gram": ({"solver": "gram", "gamma": 0.01}, make(300, 5, 3, 100)),
    "working-set": ({"solver": "working-set", "gamma": 0.01}, make(1500, 5, 3)),
    "linear": ({"solver": "linear", "kernel": "linear"}, make(2000, 20, 5)),
    "auto": ({"gamma": 0.01}, make(1500, 5, 3)),
}


@needs_timers
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("seconds", [0.05, 0.3])
def test_an_interrupt_ends_a_fit_and_leaves_everything_as_it_was(
    path, seconds, interrupt_after, monkeypatch
):
    settings, (X, y, U) = PATHS[path]
    clf = UniversumSVC(**settings, tol=1e-1, C=0.1).fit(X[:100], y[:100])
    before, values, threads = dict(vars(clf)), clf.decision_function(X), threading.active_count()
    clf.set_params(**ENDLESS)
    monkeypatch.setattr("musvm.solvers.rounds.HOPELESS", 10**9)
    interrupt_after(seconds)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y, universum=U)
    clf.set_params(**{name: before[name] for name in ENDLESS})
    assert vars(clf) == before
    assert np.array_equal(clf.decision_function(X), values)
    assert threading.active_count() == threads


@needs_timers
def test_an_interrupt_ends_leave_one_out_and_searches(interrupt_after):
    X, y, U = make(400, 5, 4, 100)
    model = UniversumSVC(C=10, gamma=0.05).fit(X, y, universum=U)
    threads = threading.active_count()
    interrupt_after(0.05)
    with pytest.raises(KeyboardInterrupt):
        loo_error(model, X, y, universum=U, method="loo")
    search = UniversumSVCCV(np.logspace(-2, 4, 30), gammas=(0.01, 0.1), criterion=5)
    interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y, universum=U)
    assert not hasattr(search, "best_estimator_")
    assert threading.active_count() == threads


@needs_timers
def test_an_interrupt_that_a_callback_of_the_collector_drops_comes_again(interrupt_after):
    # One collection calls back twice.
    drops = iter(range(2))

    def interrupted_inside(*_):
        if next(drops, None) is not None:
            raise KeyboardInterrupt

    def collect_and_wait():
        gc.collect()
        ends = time.process_time() + 10.0
        while time.process_time() < ends:
            pass

    interrupt_after(0.0)
    gc.callbacks.append(interrupted_inside)
    try:
        with pytest.raises(KeyboardInterrupt):
            collect_and_wait()
    finally:
        gc.callbacks.remove(interrupted_inside)


# ---------------------------------------------------------------------------------------------
# Calls of LAPACK that are cut up are no longer than they may be, and find the same


@pytest.fixture
def short_pieces(monkeypatch):
    """Pieces as if a few thousand operations took long; what every call of BLAS would cost."""
    monkeypatch.setattr(_pieces, "OPERATIONS", 2e4)
    monkeypatch.setattr(_pieces, "WHOLE", 32)
    costs = []

    def counted(function, cost):
        def call(*args, **kwargs):
            costs.append(cost(*args))
            return function(*args, **kwargs)

        return call

    for name, cost in (
        ("factor_whole", lambda A: len(A) ** 3 / 3),
        ("divide_part", lambda B, L: len(L) * B.size),
        ("subtract_part", lambda C, V: 2.0 * C.shape[1] * V.size),
    ):
        monkeypatch.setattr(_pieces, name, counted(getattr(_pieces, name), cost))
    # A product with its own transpose takes half of it.
    matmul = counted(
        np.matmul, lambda A, B: A.size * B.shape[1] * (1 if np.may_share_memory(A, B) else 2)
    )
    monkeypatch.setattr(np, "matmul", matmul)
    return costs


def test_a_factor_in_pieces_is_the_factor(short_pieces):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(130, 150))
    A = np.asfortranarray(Z @ Z.T)
    expected = scipy.linalg.cholesky(A, lower=True)
    assert _pieces.lower_factor(A)
    np.testing.assert_allclose(np.tril(A), expected, atol=1e-11)
    assert len(short_pieces) > 9
    assert max(short_pieces) <= 2e4


def test_a_factor_has_the_same_digits_on_every_number_of_threads(monkeypatch):
    for name in ("WHOLE", "ROWS", "SQUARED"):
        monkeypatch.setattr(_pieces, name, 16)
    Z = np.random.default_rng(0).normal(size=(130, 150))
    alone, shared = (np.asfortranarray(Z @ Z.T) for _ in range(2))
    team = Workers(3)
    try:
        assert _pieces.lower_factor(shared, team)
    finally:
        team.close()
    assert _pieces.lower_factor(alone)
    assert np.array_equal(np.tril(alone), np.tril(shared))


@pytest.mark.parametrize("place", [0, 60, 129])
def test_a_matrix_without_a_factor_is_told_in_any_piece(place, short_pieces):
    A = np.asfortranarray(np.eye(130))
    A[place, place] = -1.0
    assert not _pieces.lower_factor(A)


def test_products_and_divisions_in_pieces_are_those_of_one_call(short_pieces):
    rng = np.random.default_rng(1)
    V, B = rng.normal(size=(20, 300)), np.asfortranarray(rng.normal(size=(200, 20)))
    L = np.asfortranarray(np.tril(rng.normal(size=(20, 20))) + 10 * np.eye(20))
    weights = rng.uniform(size=300)
    expected = (V * weights**2) @ V.T
    np.testing.assert_allclose(_pieces.square(V, weights), expected, atol=1e-12)
    C = np.asfortranarray(np.eye(20))
    _pieces.subtract_square(C, np.asfortranarray(V))
    np.testing.assert_allclose(np.tril(C), np.tril(np.eye(20) - V @ V.T), atol=1e-12)
    divided = B.copy(order="F")
    _pieces.divide_rows(divided, L)
    np.testing.assert_allclose(divided @ L.T, B, atol=1e-12)
    assert len(short_pieces) >= 6 + 12 + 4
    assert max(short_pieces) <= 2e4


def test_matrices_in_another_order_are_refused():
    """Their columns would be taken for rows."""
    V, B = np.zeros((3, 4)), np.zeros((4, 3))
    L = np.asfortranarray(np.eye(3))
    for call in (
        lambda: _pieces.lower_factor(np.ascontiguousarray(V @ B)),
        lambda: _pieces.divide_rows(B, L),
        lambda: _pieces.divide_rows(np.asfortranarray(B), np.ascontiguousarray(L)),
        lambda: _pieces.subtract_square(L, V),
    ):
        with pytest.raises(ValueError, match="not Fortran-ordered"):
            call()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["rbf", "poly", "linear", "sigmoid"])
def test_a_gram_matrix_in_strips_is_the_gram_matrix(name, container, monkeypatch):
    X = make(100, 7, 3)[0] + (100.0 if name == "rbf" else 0.0)
    kernel = Kernel(name, gamma=0.1, degree=2, coef0=0.5, constant=1.0)
    rows = np.arange(90)
    whole = kernel.gram(container(X), rows, resolution=1e-15)
    monkeypatch.setattr(_pieces, "OPERATIONS", 5e3)
    monkeypatch.setattr("musvm.kernels.ONE_STRIP", 5e3)
    assert height_of_strips(90, 7) == 5000 // (90 * 7)
    strips = kernel.gram(container(X), rows, resolution=1e-15)
    np.testing.assert_allclose(strips, whole, rtol=1e-12, atol=1e-12)
    assert np.array_equal(strips, strips.T)
    if name == "rbf":
        assert np.all(strips.diagonal() == 2.0)


@needs_timers
def test_one_sweep_over_many_points_hears_an_interrupt(interrupt_after):
    """The sweep itself raises: nothing but compiled code runs between the start and the end."""
    from musvm.solvers._linear import sweep, zero_weights

    n, d, L = 2_000_000, 50, 3
    data, columns = np.ones(d), np.arange(d, dtype=np.intc)
    starts = np.zeros(n, dtype=np.intp)
    stops = starts + d
    alpha, V = np.zeros((n, L)), zero_weights(d, L, np.float64)
    y, order = np.arange(n) % L, np.arange(n)
    caps, squares = np.ones(n), np.full(n, 50.0)
    # Long after the sweep has begun, long before it would end.
    interrupt_after(0.05)
    with pytest.raises(KeyboardInterrupt):
        sweep(data, columns, starts, stops, True, V, alpha, y, caps, squares, 0.0, False, order)
    assert np.any(alpha[0] != 0.0)
    assert not np.any(alpha[-1] != 0.0), "the sweep came to its end"
