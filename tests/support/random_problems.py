"""Random problems, one for every seed, with the numbers that solvers stumble over.

Two to six classes, both losses, three kernels, weights, Delta, C from 1e-6 to 1e6, and points with
duplicates, zero rows, collinear columns, offsets, scales from 1e-8 to 1e8, a single column or more
columns than rows. A seed means the same problem for good: tests name some.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def points(rng: np.random.Generator, n: int, d: int, centres: np.ndarray, y: Any) -> np.ndarray:
    """Classes around their centres, made difficult in some of the ways that tables are."""
    X = centres[y] + rng.normal(size=(n, d))
    if rng.random() < 0.2:
        X[rng.integers(0, n, size=n // 3)] = X[rng.integers(0, n)]
    if rng.random() < 0.2:
        X[rng.integers(0, n, size=max(n // 5, 1))] = 0.0
    if rng.random() < 0.2 and d > 1:
        X[:, -1] = X[:, 0] * rng.normal()
    return X


def problem(seed: int) -> tuple[dict[str, Any], np.ndarray, np.ndarray, Any, Any]:
    """Parameters, X, y, universum and sample weights of a seed."""
    rng = np.random.default_rng(seed)
    L = int(rng.integers(2, 7))
    n, m = int(rng.integers(2 * L, 40)), int(rng.choice([0, 4, 12]))
    d = int(rng.choice([1, 2, 5, 15, 50]))
    y = np.r_[np.arange(L), rng.integers(0, L, size=n - L)]
    centres = rng.uniform(0, 3) * rng.normal(size=(L, d))
    everything = points(rng, n + m, d, centres, np.r_[y, rng.integers(0, L, size=m)])
    if rng.random() < 0.3:
        everything = everything + 10.0 ** rng.uniform(0, 9)
    spread = everything.std() or 1.0
    if rng.random() < 0.4:
        everything = everything * 10.0 ** rng.uniform(-8, 8)
        spread = everything.std() or 1.0
    kernel = str(rng.choice(["linear", "rbf", "rbf", "poly"]))
    parameters = {
        "C": 10.0 ** rng.uniform(-6, 6),
        "kernel": kernel,
        "gamma": 10.0 ** rng.uniform(-2, 1) / (d * spread**2),
        "degree": int(rng.integers(2, 4)),
        "coef0": 1.0,
        "delta": float(rng.choice([0.0, 0.0, 0.05, 1.0])),
        "universum_loss": str(rng.choice(["sum", "max"])),
    }
    weight = rng.choice([0.5, 1.0, 10.0], size=n) if rng.random() < 0.3 else None
    return parameters, everything[:n], y, everything[n:] if m else None, weight
