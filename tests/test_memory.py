"""A fit holds no more than three M x M arrays of doubles, its Gram matrix among them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from musvm import UniversumSVC

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
    tracemalloc.start()
    try:
        model.fit(X, y, universum=universum)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.converged_
    assert peak <= 3 * 8 * M**2, f"{peak / (8 * M**2):.2f} arrays"
