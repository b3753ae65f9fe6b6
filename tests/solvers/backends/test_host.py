"""Kernel rows in floats and decision values in doubles, against the kernels themselves."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from musvm.solvers._descent import add_products
from sklearn.metrics.pairwise import laplacian_kernel

import backends
from backends import assert_computes_with, assert_hands_out_right_rows, points
from musvm._threads import Workers
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers.backends import host
from musvm.solvers.backends.host import HostField, KernelRows

KERNELS = {
    **backends.KERNELS,
    "callable": Kernel(laplacian_kernel),
    "precomputed": Kernel("precomputed"),
}


def case(name: str, sparse: bool):
    """A kernel, what the backend is given, and the matrix in doubles."""
    X, kernel = points(), KERNELS[name]
    if name == "precomputed":
        K = KERNELS["rbf"].matrix(X, X)
        return kernel, K, K
    K = kernel.matrix(X, X)
    return kernel, sp.csr_array(X) if sparse else X, K


@pytest.mark.parametrize(
    ("name", "sparse"),
    [(name, False) for name in KERNELS]
    + [(name, True) for name in ("linear", "rbf", "poly", "sigmoid")],
)
def test_rows_updates_and_restarts_are_those_of_the_matrix(name, sparse):
    kernel, X, K = case(name, sparse)
    backend = KernelRows(kernel, X, 3, 1e9, Workers())
    assert_computes_with(backend, K)


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=16, unique=True), max_size=12))
def test_the_cache_never_hands_out_a_wrong_row(requests):
    kernel, X, K = case("rbf", sparse=False)
    backend = KernelRows(kernel, X, 2, cache_bytes=4 * 60 * 16, workers=Workers())
    assert_hands_out_right_rows(backend, K, requests)


@pytest.mark.parametrize("scale", [1e15, 1e-15])
def test_values_that_floats_do_not_hold_stay_in_doubles(scale):
    X, kernel = points() * scale, Kernel("poly", 1.0, 3, 0.0)
    backend = KernelRows(kernel, X, 2, 1e9, Workers())
    K = kernel.matrix(X, X)
    np.testing.assert_allclose(backend.kernel_between(np.arange(60)), K, rtol=1e-12)
    change = np.linspace(-1.0, 1.0, 6).reshape(3, 2)
    backend.change(np.arange(3), change)
    np.testing.assert_allclose(backend.solution()[1], K[:, :3] @ change, rtol=1e-9)


def test_values_too_large_for_doubles_are_refused():
    with pytest.raises(ValueError, match="scale the features"):
        KernelRows(Kernel("poly", 1.0, 3, 0.0), points() * 1e110, 2, 1e9, Workers())


@pytest.mark.parametrize("far", [1e2, 1e4, 1e8])
def test_an_outlier_spoils_no_other_row(far):
    X = points()
    X[7, 2] = far
    kernel = KERNELS["rbf"]
    backend = KernelRows(kernel, X, 2, 1e9, Workers())
    np.testing.assert_allclose(
        backend.kernel_between(np.arange(60)), kernel.matrix(X, X), atol=2e-5
    )


def test_no_support_means_no_decision_values():
    backend = KernelRows(KERNELS["rbf"], points(), 2, 1e9, Workers())
    backend.change(np.array([1, 2]), np.array([[1.0, -1.0], [1.0, -1.0]]))
    backend.restart(np.zeros((60, 2)))
    alpha, F = backend.solution()
    assert not alpha.any()
    assert not F.any()


def test_a_load_that_failed_leaves_no_row_behind(monkeypatch):
    kernel, X, K = case("rbf", sparse=False)
    backend = KernelRows(kernel, X, 2, 1e9, Workers())
    with monkeypatch.context() as patch:
        patch.setattr("musvm.solvers.backends.host.require_finite", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            backend.kernel_between(np.arange(5))
    np.testing.assert_allclose(backend.kernel_between(np.arange(5)), K[:5, :5], atol=2e-6)


def _interrupt(_):
    raise KeyboardInterrupt


def test_a_callable_is_never_called_by_two_threads_at_once(monkeypatch):
    monkeypatch.setattr("musvm._threads.PIECE", 16)
    monkeypatch.setattr("musvm.solvers.backends.host.CHUNK", 64)
    inside, overlaps = [], []

    def kernel(A, B):
        inside.append(1)
        time.sleep(1e-3)
        overlaps.append(len(inside) > 1)
        inside.pop()
        return A @ B.T

    X = points()
    team = Workers(4)
    try:
        backend = KernelRows(Kernel(kernel), X, 2, 1e9, team)
        block = backend.kernel_between(np.arange(20))
        backend.restart(np.ones((60, 2)))
    finally:
        team.close()
    assert len(overlaps) > 20
    assert not any(overlaps)
    np.testing.assert_allclose(block, X[:20] @ X[:20].T, rtol=1e-6)


def test_a_second_restart_computes_only_what_changed(monkeypatch):
    kernel, X, K = case("rbf", sparse=False)
    backend, asked = KernelRows(kernel, X, 2, 1e9, Workers()), []
    doubles = host._doubles

    def recorded(kernel, points, columns):
        asked.append(columns.tolist())
        return doubles(kernel, points, columns)

    monkeypatch.setattr(host, "_doubles", recorded)
    alpha = np.random.default_rng(0).normal(size=(60, 2))
    backend.restart(alpha)
    backend.kernel_between(np.arange(10))
    # What happened in floats in between must leave no trace.
    backend.change(np.arange(10), np.ones((10, 2)))
    alpha[[7, 20]] = [[1.0, -1.0], [0.0, 0.0]]
    backend.restart(alpha)
    assert asked == [list(range(60)), [7, 20]]
    np.testing.assert_array_equal(backend.solution()[0], alpha)
    np.testing.assert_allclose(backend.solution()[1], K @ alpha, atol=1e-13)


@settings(max_examples=50)
@given(st.integers(1, 600), st.integers(1, 40), st.integers(0, 300), st.integers(0, 2**32 - 1))
def test_products_are_added_as_they_should_be(n_points, n_classes, n_rows, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows + 1, n_points)).astype(np.float32)
    chosen = rng.integers(0, n_rows + 1, size=n_rows)
    change = rng.normal(size=(n_rows, n_classes)).astype(np.float32)
    change[rng.random(change.shape) < 0.5] = 0.0
    F = rng.normal(size=(n_points, n_classes))
    first, last = np.sort(rng.integers(0, n_points + 1, size=2))
    expected = F.copy()
    expected[first:last] += rows[chosen, first:last].astype(float).T @ change.astype(float)
    add_products(rows, chosen, change, F, first, last)
    np.testing.assert_allclose(F, expected, atol=1e-5 * (1 + n_rows) ** 0.5)


def test_a_change_computes_the_rows_it_needs():
    kernel, X, K = case("rbf", sparse=False)
    backend, alpha = KernelRows(kernel, X, 2, 1e9, Workers()), np.array([[1.0, -1.0], [2.0, -2.0]])
    backend.change(np.array([1, 50]), alpha)
    np.testing.assert_allclose(backend.solution()[1], K[:, [1, 50]] @ alpha, atol=1e-6)


# ---------------------------------------------------------------------------------------------
# Decision values of many points


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sigmoid", "callable", "precomputed"])
def test_a_certificate_in_strips_is_that_of_the_matrix(name, n_threads, monkeypatch):
    """Pairs of points that changed meet once, in strips of a few rows, on any threads."""
    monkeypatch.setattr(host, "CHUNK", 200)
    monkeypatch.setattr(host, "STRIPS", 4)
    kernel, X, K = case(name, sparse=False)
    rng = np.random.default_rng(0)
    alpha = rng.normal(size=(len(K), 3))
    alpha[::4] = 0.0
    workers = Workers(n_threads)
    try:
        backend = KernelRows(kernel, X, 3, 1e9, workers)
        backend.restart(alpha)
        np.testing.assert_allclose(backend.solution()[1], K @ alpha, rtol=1e-11, atol=1e-11)
        # What did not change is not computed again, and what did is.
        alpha[10:30] = rng.normal(size=(20, 3))
        backend.restart(alpha)
        np.testing.assert_allclose(backend.solution()[1], K @ alpha, rtol=1e-11, atol=1e-11)
    finally:
        workers.close()


def test_values_that_were_handed_over_leave_no_trace_in_a_certificate():
    kernel, X, K = case("rbf", sparse=False)
    rng = np.random.default_rng(0)
    alpha, rounded = rng.normal(size=(2, len(K), 3))
    backend = KernelRows(kernel, X, 3, 1e9, Workers())
    backend.restart(rng.normal(size=(len(K), 3)))
    backend.start(alpha, rounded)
    np.testing.assert_array_equal(backend.solution(), [alpha, rounded])
    backend.change(np.array([5]), alpha[[5]] + 1.0)
    np.testing.assert_allclose(backend.solution()[1], rounded + K[:, [5]], atol=1e-5)
    alpha[5] += 1.0
    backend.restart(alpha)
    np.testing.assert_allclose(backend.solution()[1], K @ alpha, atol=1e-12)


def test_strips_of_a_certificate_are_not_kept(monkeypatch):
    """Few at a time: all of them would be as large as the kernel matrix, and larger."""
    n, L = 1500, 10
    X = np.random.default_rng(0).normal(size=(n, 4))
    alpha = np.random.default_rng(1).normal(size=(n, L))
    monkeypatch.setattr(host, "CHUNK", 8 * n)
    monkeypatch.setattr(host, "STRIPS", 4)
    backend = KernelRows(Kernel("rbf", gamma=0.3), X, L, 1e6, Workers())
    tracemalloc.start()
    try:
        backend.restart(alpha)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.2 * 8 * n * n


def test_threads_change_no_digit_of_a_certificate(monkeypatch):
    monkeypatch.setattr(host, "CHUNK", 200)
    kernel, X, K = case("rbf", sparse=False)
    alpha = np.random.default_rng(0).normal(size=(len(K), 3))
    found = []
    for n_threads in (1, 4):
        workers = Workers(n_threads)
        backend = KernelRows(kernel, X, 3, 1e9, workers)
        backend.restart(alpha)
        found.append(backend.solution()[1])
        workers.close()
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize(
    ("name", "sparse"),
    [("linear", False), ("rbf", False), ("poly", False), ("sigmoid", False), ("callable", False),
     ("rbf", True)],
)  # fmt: skip
def test_looks_exact_and_rough_are_products_with_the_matrix(name, sparse, constant, monkeypatch):
    monkeypatch.setattr(host, "CHUNK", 200)
    kernel = replace(KERNELS[name], constant=constant)
    X = points()
    K = kernel.matrix(X, X)
    rng = np.random.default_rng(0)
    support, others = np.arange(0, 60, 3), np.flatnonzero(np.arange(60) % 3)
    alpha = rng.normal(size=(len(support), 3))
    rows = DualRows(np.arange(10, dtype=np.intp) % 3, 3, np.ones(len(others)), 0.1)
    field = HostField(kernel, sp.csr_array(X) if sparse else X, 3, 1e9, Workers())
    F = K[np.ix_(others, support)] @ alpha
    for roughly, accuracy in ((False, 1e-11), (True, 1e-5)):
        losses, found = field.look(rows, others, support, alpha, roughly=roughly)
        np.testing.assert_allclose(found, F, atol=accuracy * np.abs(F).max())
        np.testing.assert_array_equal(losses, statement.losses(rows, found))
    # Where floats hold the kernel a rough look computes with them, or it would save nothing.
    in_floats = not (sparse or name == "callable")
    assert np.array_equal(found, field.look(rows, others, support, alpha)[1]) != in_floats


@pytest.mark.parametrize("far", [1e4, 1e8])
def test_a_rough_look_at_points_far_apart_is_in_doubles(far):
    X = points()
    X[1, 2] = far
    kernel, rows = KERNELS["rbf"], DualRows(np.empty(0, dtype=np.intp), 2, np.ones(30))
    field = HostField(kernel, X, 2, 1e9, Workers())
    alpha = np.random.default_rng(0).normal(size=(30, 2))
    for support in (np.arange(0, 60, 2), np.arange(1, 60, 2)):
        others = np.setdiff1d(np.arange(60), support)
        _, found = field.look(rows, others, support, alpha, roughly=True)
        F = kernel.matrix(X[others], X[support]) @ alpha
        np.testing.assert_allclose(found, F, atol=1e-4)
