"""What every `Backend` owes its solver (`contract.py`), and kernels to show it with."""

from __future__ import annotations

import numpy as np

from musvm.kernels import Kernel

KERNELS = {
    "linear": Kernel("linear"),
    "rbf": Kernel("rbf", 0.3),
    "poly": Kernel("poly", 0.5, 3, 1.0),
    "sigmoid": Kernel("sigmoid", 0.1, coef0=0.2),
}


def points(seed: int = 0, n: int = 60, d: int = 5) -> np.ndarray:
    # Far from the origin: distances must survive it.
    return np.random.default_rng(seed).normal(loc=20.0, size=(n, d)) / 10.0


def assert_computes_with(backend, K: np.ndarray) -> None:
    """Rows and updates are those of the matrix, to floats, and a restart to doubles; L = 3."""
    scale = np.abs(K).max()
    np.testing.assert_allclose(backend.diagonal, K.diagonal(), rtol=1e-12)
    chosen = np.array([3, 17, 18, 40])
    between = backend.kernel_between(chosen)
    np.testing.assert_allclose(between, K[np.ix_(chosen, chosen)], atol=2e-6 * scale)

    alpha = np.random.default_rng(1).normal(size=(4, 3))
    backend.change(chosen, alpha)
    taken, F_taken = backend.state_of(chosen)
    np.testing.assert_array_equal(taken, alpha)
    _, F = backend.solution()
    np.testing.assert_array_equal(F_taken, F[chosen])
    np.testing.assert_allclose(F, K[:, chosen] @ alpha, atol=1e-5 * scale)
    whole = np.zeros((len(K), 3))
    whole[chosen] = alpha
    backend.restart(whole)
    _, F = backend.solution()
    np.testing.assert_allclose(F, K @ whole, atol=1e-12 * scale)


def assert_hands_out_right_rows(backend, K: np.ndarray, requests: list[list[int]]) -> None:
    """Whatever a cache of 16 rows was asked for before."""
    assert backend.size == 16
    for request in requests:
        chosen = np.array(sorted(request))
        between = backend.kernel_between(chosen)
        np.testing.assert_allclose(between, K[np.ix_(chosen, chosen)], atol=2e-6)
