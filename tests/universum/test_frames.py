"""DataFrame in, DataFrame out, with the numbers that arrays give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from musvm import UniversumSVC
from musvm.universum import random_average, random_noise, select_in_between

rng = np.random.default_rng(0)
Y = np.arange(30) % 3
X = rng.normal(size=(3, 4))[Y] + rng.normal(size=(30, 4))
NAMES = ["length", "width", "height", "weight"]


def make(library: str, points):
    if library == "pandas":
        return pd.DataFrame(points, columns=NAMES)
    return pytest.importorskip("polars").DataFrame(points, schema=NAMES)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    "function",
    [
        lambda X: random_average(X, Y, 7, random_state=0),
        lambda X: random_average(X, Y, 7, per_class=False, random_state=0),
        lambda X: random_noise(X, 7, random_state=0),
        lambda X: random_noise(X, 7, kind="uniform", random_state=0),
        lambda X: select_in_between(X, Y, X, 7),
    ],
    ids=["average", "average of two", "noise", "uniform noise", "selected"],
)
def test_a_frame_gives_a_frame(library, function):
    frame = make(library, X)
    made = function(frame)
    assert type(made) is type(frame)
    assert list(made.columns) == NAMES
    np.testing.assert_array_equal(made.to_numpy(), function(X))
    # It is what `fit` asks for: the columns of X.
    again = UniversumSVC().fit(X, Y, universum=function(X))
    assert UniversumSVC().fit(frame, Y, universum=made).objective_ == again.objective_


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_selected_rows_are_those_of_the_frame(library):
    frame = make(library, X)
    selected, indices = select_in_between(frame, Y, frame, 5, return_indices=True)
    np.testing.assert_array_equal(selected.to_numpy(), X[indices])
    if library == "pandas":
        assert selected.index.tolist() == indices.tolist()


def test_arrays_stay_arrays():
    assert type(random_average(X, Y, 3)) is np.ndarray
    assert type(random_noise(X.tolist(), 3)) is np.ndarray
