"""The estimate of leave-one-out depends on the solution, not on how it was found."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from musvm import UniversumSVC, loo_error


@pytest.mark.parametrize("weight", [0.1, 1.0])
def test_the_path_of_the_solver_does_not_change_the_estimate(weight):
    """Universum points within Delta are exactly zero on every path: none is taken for a free one.

    With next to nothing left of them, they would make up for every training point left out.
    """
    X, y = load_digits(return_X_y=True)
    rng = np.random.RandomState(0)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:5] for k in (3, 5, 8, 9)])
    others = rng.permutation(np.flatnonzero(np.isin(y, (0, 1, 2, 4, 6, 7))))[:200]
    X, y, U = X[train] / 16.0, y[train], X[others] / 16.0
    errors, inside = [], []
    for solver in ("gram", "interior"):
        model = UniversumSVC(
            1.0, kernel="linear", delta=0.3, universum_weight=weight, solver=solver, tol=1e-8
        ).fit(X, y, universum=U)
        result = loo_error(model, X, y, universum=U, method="loo-estimate")
        errors.append(result.error)
        inside.append(int((result.types[len(y) :] == 0).sum()))
    assert inside[0] == inside[1] > 50
    assert errors[0] == errors[1] > 0.1


@pytest.mark.parametrize("delta", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_tolerance_does_not_change_the_estimate(delta, seed):
    """Few columns and a universum: at a loose tolerance other variables are free."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)[np.random.RandomState(seed).permutation(len(y))]
    y = y[np.random.RandomState(seed).permutation(len(y))]
    X, y, U = X[y < 2][:60], y[y < 2][:60], X[y == 2]
    found = []
    for solver, tol in (("gram", 1e-3), ("interior", 1e-3), ("gram", 1e-11)):
        model = UniversumSVC(10.0, kernel="linear", delta=delta, solver=solver, tol=tol)
        model.fit(X, y, universum=U)
        result = loo_error(model, X, y, universum=U, method="loo-estimate")
        found.append((result.predictions.tolist(), result.types.tolist()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_labels_are_known_by_the_last_digits_of_the_solution(seed):
    """At a gap of 1e-4 other variables are free, and they said 12 %."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(100, 50)), random.permutation(np.arange(100) % 10)
    U = random.normal(size=(100, 50))
    model = UniversumSVC(100.0, kernel="linear").fit(X, y, universum=U)
    assert loo_error(model, X, y, U, method="loo-estimate").error > 0.8
