"""A fit holds no more than three M x M arrays of doubles, its Gram matrix among them."""

from __future__ import annotations

import numpy as np
import pytest

from musvm import UniversumSVC
from peaks import peak_memory

M = 1200


@pytest.mark.parametrize(
    ("kernel", "n_classes", "C", "delta", "loss"),
    [
        ("linear", 3, 10.0, 0.1, "sum"),  # ill-conditioned: rank 20
        ("rbf", 3, 1.0, 0.0, "sum"),  # nearly every universum row is free in all labels
        ("rbf", 3, 100.0, 0.1, "max"),
        ("rbf", 10, 1.0, 0.1, "sum"),
        ("sigmoid", 3, 1.0, 0.1, "sum"),  # its definiteness is examined first
    ],
)
@pytest.mark.filterwarnings("ignore:The kernel matrix is not positive semi-definite")
def test_a_fit_holds_three_gram_matrices_at_most(kernel, n_classes, C, delta, loss):
    rng = np.random.default_rng(0)
    n = M // 2
    y = np.arange(n) % n_classes
    X, universum = rng.standard_normal((n, 20)), rng.standard_normal((M - n, 20))
    X[np.arange(n), y] += 2.0
    gamma = 0.01 if kernel == "sigmoid" else 0.05
    model = UniversumSVC(C, kernel=kernel, gamma=gamma, delta=delta, universum_loss=loss)
    with peak_memory() as peak:
        model.fit(X, y, universum=universum)
    assert model.converged_
    assert peak() <= 3 * 8 * M**2, f"{peak() / (8 * M**2):.2f} arrays"


def test_working_sets_make_no_second_matrix_of_a_precomputed_kernel(monkeypatch):
    """The caller's matrix and 0.3 more: 0.1 for the cached rows, and pieces."""
    # Pieces as small next to this matrix as they are next to a large one.
    monkeypatch.setattr("musvm.solvers.choose.N_EXAMINED", 100)
    monkeypatch.setattr("musvm.solvers.backends.host.CHUNK", 2**15)
    monkeypatch.setattr("musvm._threads.PIECE", 128)
    monkeypatch.setattr("musvm.kernels._STRIP", 32)
    rng = np.random.default_rng(0)
    # Labels in no order, and a row of no weight: not all rows take part, nor in their order.
    y = rng.permutation(np.arange(M) % 3)
    X = rng.standard_normal((M, 20))
    X[np.arange(M), y] += 2.0
    weight = np.where(np.arange(M) == 7, 0.0, 1.0)
    with peak_memory() as peak:
        K = X @ X.T
        model = UniversumSVC(
            0.1, kernel="precomputed", solver="working-set", cache_size=0.8e-6 * M**2, tol=1e-2
        ).fit(K, y, sample_weight=weight)
    assert model.converged_
    assert peak() <= 1.3 * 8 * M**2, f"{peak() / (8 * M**2):.2f} arrays"
