"""Gram matrices: what they hold, what they refuse, and how much memory they take."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from musvm.kernels import (
    Kernel,
    Submatrix,
    height_of_strips,
    is_positive_semidefinite,
    raise_to,
    resolve_gamma,
    symmetrise,
)

EPS = float(np.finfo(np.float64).eps)
FORMULAS = {
    "linear": lambda x, z: x @ z,
    "poly": lambda x, z: (0.3 * x @ z + 0.7) ** 2,
    "rbf": lambda x, z: np.exp(-0.3 * np.sum((x - z) ** 2)),
    "sigmoid": lambda x, z: np.tanh(0.3 * x @ z + 0.7),
}


def kernel(name) -> Kernel:
    return Kernel(name, gamma=0.3, degree=2, coef0=0.7)


def gram(name, X) -> np.ndarray:
    return kernel(name).gram(X, np.arange(X.shape[0]), resolution=EPS)


def random_points(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("name", FORMULAS)
def test_matrix_is_the_formula(name, container):
    X, Z = random_points(7, 3), random_points(5, 3, seed=1)
    expected = [[FORMULAS[name](x, z) for z in Z] for x in X]
    np.testing.assert_allclose(kernel(name).matrix(container(X), container(Z)), expected)


@pytest.mark.parametrize("name", [*FORMULAS, lambda X, Z: X @ Z.T])
def test_gram_is_exactly_symmetric_contiguous_and_of_the_rows_asked_for(name):
    X = random_points(40, 3)
    rows = np.array([3, 1, 30])
    K = kernel(name).gram(X, rows, resolution=EPS)
    assert np.array_equal(K, K.T)
    assert K.flags.c_contiguous
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, gram(name, X)[np.ix_(rows, rows)], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", FORMULAS)
def test_gram_in_strips_is_the_formula_on_any_number_of_threads(name, container, two_blas_threads):
    # Products of so many columns have other digits on two threads of BLAS.
    X = 0.1 * random_points(701, 300)
    assert height_of_strips(*X.shape) < len(X)
    K = gram(name, container(X))
    with threadpool_limits(1, user_api="blas"):
        assert np.array_equal(gram(name, container(X)), K)
    assert np.array_equal(K, K.T)
    rows, columns = np.random.default_rng(1).integers(len(X), size=(2, 500))
    some = [FORMULAS[name](X[i], X[j]) for i, j in zip(rows, columns, strict=True)]
    np.testing.assert_allclose(K[rows, columns], some, rtol=1e-12, atol=1e-13)


def test_gram_leaves_a_matrix_that_a_callable_keeps_alone():
    kept = np.array([[1.0, 0.5 + 1e-12], [0.5, 1.0]])
    before = kept.copy()
    K = gram(lambda X, Z: kept, np.zeros((2, 1)))
    assert np.array_equal(K, K.T)
    assert np.array_equal(kept, before)


def test_callable_of_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"must return a matrix of shape \(4, 4\), got \(4,\)"):
        gram(lambda X, Z: X[:, 0], random_points(4, 2))


def test_overflow_is_an_error_and_no_warning():
    with pytest.raises(ValueError, match="NaN or infinite values: scale the features"):
        gram("poly", np.full((2, 2), 1e200))


def test_asymmetric_kernel_is_refused_with_its_asymmetry():
    with pytest.raises(ValueError, match=r"not symmetric: .* differ by 0.5, .* largest entry is 2"):
        gram(lambda X, Z: np.array([[2.0, 0.5], [1.0, 2.0]]), np.zeros((2, 1)))


@given(st.integers(1, 600), st.integers(0, 1000))
def test_symmetrise_averages_in_place_and_returns_the_largest_asymmetry(M, seed):
    K = np.random.default_rng(seed).normal(size=(M, M))
    mean, worst = (K + K.T) / 2, np.abs(K - K.T).max()
    assert symmetrise(K) == worst
    np.testing.assert_allclose(K, mean, rtol=1e-15, atol=1e-15)
    assert np.array_equal(K, K.T)


@st.composite
def spectra(draw):
    """A symmetric matrix with a given smallest eigenvalue, the largest in magnitude being 1."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    M = draw(st.integers(2, 30))
    smallest = draw(st.sampled_from([0.0, 1e-8, -1e-6, -1.0]))
    scale = 10.0 ** draw(st.integers(-100, 100))
    basis = np.linalg.qr(rng.normal(size=(M, M)))[0]
    values = np.concatenate([[smallest, 1.0], rng.uniform(max(smallest, 0), 1, M - 2)])
    K = (basis * values) @ basis.T * scale
    return (K + K.T) / 2, smallest


@given(spectra())
def test_semidefinite_is_told_from_indefinite(case):
    K, smallest = case
    before = K.copy()
    assert is_positive_semidefinite(K, resolution=EPS) == (smallest >= 0)
    assert np.array_equal(K, before)


def test_zero_matrix_is_semidefinite_and_a_negative_diagonal_is_not():
    assert is_positive_semidefinite(np.zeros((3, 3)), resolution=EPS)
    assert not is_positive_semidefinite(np.diag([1.0, -1e-3]), resolution=EPS)


def test_rounding_to_single_precision_is_forgiven_only_where_it_is_stated():
    X = random_points(60, 4)
    K = (X @ X.T).astype(np.float32).astype(np.float64)
    assert np.linalg.eigvalsh(K)[0] < -1e-7
    assert not is_positive_semidefinite(K, resolution=EPS)
    assert is_positive_semidefinite(K, resolution=float(np.finfo(np.float32).eps))


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("coef0", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("name", FORMULAS)
def test_kernels_called_semidefinite_by_construction_are(name, coef0, degree):
    chosen = Kernel(name, gamma=0.3, degree=degree, coef0=coef0)
    if chosen.is_psd_by_construction:
        X = random_points(30, 3)
        K = chosen.gram(X, np.arange(30), resolution=EPS)
        values = np.linalg.eigvalsh(K)
        assert values[0] >= -1e-12 * values[-1]
    else:
        assert name == "sigmoid" or (name == "poly" and coef0 < 0)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", [*FORMULAS, lambda X, Z: np.asarray((X @ Z.T).todense())])
def test_gram_keeps_to_its_memory(name, container):
    if callable(name) and container is np.asarray:
        name = "rbf"
    M = 1200
    X = container(random_points(M, 4))
    tracemalloc.start()
    K = gram(name, X)
    is_positive_semidefinite(K, resolution=EPS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / K.nbytes < 3, f"{peak / K.nbytes:.1f} M x M arrays at once"


# ---------------------------------------------------------------------------------------------
# gamma


def test_gamma_as_scikit_learn_defines_it():
    X, ones = random_points(20, 3) + 5.0, np.ones(20)
    for setting in ("scale", "auto", 0.25):
        reference = SVC(gamma=setting).fit(X, np.arange(20) % 2)._gamma
        assert resolve_gamma(setting, X, ones) == pytest.approx(reference, rel=1e-13)
        assert resolve_gamma(setting, sp.csr_array(X), ones) == pytest.approx(reference, rel=1e-13)


@given(st.lists(st.integers(0, 4), min_size=6, max_size=6).filter(any), st.integers(0, 100))
def test_gamma_scale_takes_weights_for_repetitions(counts, seed):
    X = np.random.default_rng(seed).integers(0, 3, size=(6, 2)).astype(float)
    repeated = X.repeat(counts, axis=0)
    weight = np.array(counts, dtype=float)
    expected = 1.0 / (2 * repeated.var()) if repeated.var() > 0 else 1.0
    assert resolve_gamma("scale", X, weight) == pytest.approx(expected, rel=1e-12)
    assert resolve_gamma("scale", sp.csr_array(X), weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-30, 1 / 3])
def test_gamma_scale_of_constant_features_is_one(value):
    X = np.full((7, 3), value)
    assert resolve_gamma("scale", X, np.ones(7)) == 1.0
    assert resolve_gamma("scale", sp.csr_array(X), np.ones(7)) == 1.0


@pytest.mark.parametrize("magnitude", [1e-160, 1e200])
def test_gamma_scale_out_of_range_is_an_error_and_no_warning(magnitude):
    with pytest.raises(ValueError, match="scale the features or pass gamma as a number"):
        resolve_gamma("scale", random_points(5, 2) * magnitude, np.ones(5))


@given(st.permutations(range(8)), st.integers(1, 8), st.data())
def test_a_submatrix_is_what_it_would_be_if_it_were_made(order, size, data):
    X, chosen = random_points(8, 8), np.array(order[:size])
    made, lazy = X[np.ix_(chosen, chosen)], Submatrix(X, chosen)
    some = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=4)), dtype=np.intp)
    part = data.draw(st.slices(size))
    assert lazy.shape == made.shape
    np.testing.assert_array_equal(lazy.diagonal(), made.diagonal())
    np.testing.assert_array_equal(lazy[some, part], made[some, part])
    np.testing.assert_array_equal(lazy[part, some], made[part, some])


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1.7e9, 1e12])
def test_rbf_keeps_its_digits_whatever_the_offset(offset, container):
    """|x|^2 - 2 <x, z> + |z|^2 has none of them left at 1.7e9, a time stamp."""
    X, Z = random_points(9, 3) + offset, random_points(6, 3, seed=1) + offset
    exact = np.exp(-0.3 * np.sum((X[:, None] - Z) ** 2, axis=2))
    found = kernel("rbf").matrix(container(X), container(Z))
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    single = np.vstack([kernel("rbf").matrix(container(x[None]), container(Z)) for x in X])
    np.testing.assert_allclose(single, found, rtol=1e-13)


@pytest.mark.parametrize("shift", [[-1e9, 1e9], [0.0, 1.7e9]])
@pytest.mark.parametrize("width", [3, 3000])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("one_strip", [0.0, np.inf])
def test_rbf_keeps_its_digits_in_clusters_far_apart(
    one_strip, container, width, shift, monkeypatch
):
    """No one centre is near all points; sparse points are not moved at all if they are wide."""
    limits = {"CHUNK": 1000, "PIECE_ENTRIES": 1000, "ONE_STRIP": one_strip}
    for name, limit in limits.items():
        monkeypatch.setattr(f"musvm.kernels.{name}", limit)
    X = np.zeros((20, width))
    X[:, :3] = random_points(20, 3) + np.repeat(shift, 10)[:, None]
    exact = np.exp(-0.3 * np.sum((X[:, None, :3] - X[:, :3]) ** 2, axis=2))
    np.testing.assert_allclose(gram("rbf", container(X)), exact, rtol=1e-12)


@given(st.integers(0, 12), st.integers(0, 10**6))
def test_powers_are_those_of_numpy(degree, seed):
    values = np.random.default_rng(seed).normal(size=20)
    expected = values**degree
    raise_to(values, degree)
    np.testing.assert_allclose(values, expected, rtol=1e-14)
