"""Warnings point to the line of the user's code, and appear once."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

from musvm import UniversumSVC, UniversumSVCCV
from musvm._messages import aligned

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
U = rng.normal(size=(10, 3))
INDEFINITE = {"kernel": "sigmoid", "coef0": -1.0}


def test_warnings_of_a_fit_point_to_it():
    model = UniversumSVC(10.0, tol=1e-12, max_iter=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, universum=U); line = inspect.currentframe().f_lineno  # noqa: E702  # fmt: skip
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, line)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_warnings_of_a_search_point_to_it_and_appear_once(n_jobs):
    search = UniversumSVCCV(
        [0.01, 1.0], gammas=[1.0, 2.0], criterion=2, tol=0.5, n_jobs=n_jobs, **INDEFINITE
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y, universum=U); line = inspect.currentframe().f_lineno  # noqa: E702  # fmt: skip
    found = [w for w in caught if "not positive semi-definite" in str(w.message)]
    assert len(found) == 1
    assert (found[0].filename, found[0].lineno) == (__file__, line)


def asymmetric(A, B):
    """A kernel that is symmetric among training points, and not between them and the universum."""
    return A @ B.T + 0.5 * np.outer(A[:, 0] > 50, B[:, 0] <= 50)


@pytest.mark.parametrize(
    "model", [UniversumSVC(kernel=asymmetric), UniversumSVCCV([1.0], kernel=asymmetric)]
)
@pytest.mark.filterwarnings("ignore:The universum lies far outside")
def test_a_kernel_that_is_asymmetric_with_the_universum_is_refused(model):
    far = U + np.array([100.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="not symmetric"):
        model.fit(X, y, universum=far)


@pytest.mark.parametrize("make", [UniversumSVC, lambda: UniversumSVCCV([1.0], criterion=2)])
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(make):
    model = make().fit(X, y, universum=U)
    before, attributes = model.predict(X), dict(vars(model))
    with pytest.raises(ValueError, match="features"):
        model.fit(np.c_[X, X], y, universum=U)
    assert vars(model) == attributes
    assert model.n_features_in_ == 3
    assert np.array_equal(model.predict(X), before)


def test_columns_of_text_are_aligned_to_the_left():
    rows = [["", "error", "words"], ["a", "1.00%", "C=1"], ["bcd", "12.00%", "C=10, delta=0"]]
    assert aligned(rows, (0, -1)).splitlines() == [
        "      error  words",
        "a     1.00%  C=1",
        "bcd  12.00%  C=10, delta=0",
    ]
    assert aligned(rows).splitlines()[1] == "a     1.00%            C=1"
