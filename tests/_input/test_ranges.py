"""A universum on another scale than X is told, and universa that are merely unlike X are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import real_data
from musvm import UniversumSVC, UniversumSVCCV
from musvm._input.ranges import warn_if_on_another_scale
from musvm._input.reading import UNIVERSUM, FitData
from musvm.universum import random_average, random_noise

FAR = "universum lies far outside the range of X"
LESS = "universum varies far less than X, and lies apart from it"


WRONG = {
    "divided by 16": (lambda U: U / 16, LESS),
    "divided by 255": (lambda U: U / 255, LESS),
    "moved": (lambda U: U + 16, FAR),
    "sparse": (lambda U: sp.csr_array(U / 16), LESS),
}


@pytest.mark.parametrize("model", [UniversumSVC(), UniversumSVCCV([1.0], deltas=[0.0], cv=2)])
@pytest.mark.parametrize("mistake", WRONG)
def test_a_universum_on_another_scale_than_unscaled_points_is_told(mistake, model):
    digits, labels = load_digits(return_X_y=True)
    known, foreign = digits[labels < 3][:60], digits[labels > 5][:100]
    spoil, said = WRONG[mistake]
    given = sp.csr_array(known) if mistake == "sparse" else known
    with pytest.warns(UserWarning, match=said) as caught:
        clone(model).fit(given, labels[labels < 3][:60], universum=spoil(foreign))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", real_data.NAMES)
def test_sensible_universa_of_real_data_are_not_said_to_be_on_another_scale(name, data_folder):
    """Other classes, one of them alone, averages and noise; as they are, and scaled with X."""
    found = real_data.load(name, data_folder, 2000)
    if found is None:
        pytest.skip(f"the file of {name} is not there")
    X, y = found
    kept = np.unique(y)[: max(2, len(np.unique(y)) // 2)]
    is_known = np.isin(y, kept)
    for n in (10, 100):
        rows = np.concatenate([np.flatnonzero(y == c)[: n // len(kept) + 1] for c in kept])
        # What is constant in X is not scaled, and may lie anywhere in a universum.
        varies = np.ptp(X[rows], axis=0) > 0
        points, labels = X[rows][:, varies], y[rows]
        universa = [random_average(points, labels, 100), random_noise(points, 100)]
        others = [~is_known, *(y == c for c in np.unique(y[~is_known]))]
        universa += [X[members][:, varies] for members in others if members.any()]
        for universum in universa:
            for scaler in (None, StandardScaler(), MinMaxScaler()):
                both = points, universum
                if scaler is not None:
                    both = tuple(scaler.fit(points).transform(part) for part in both)
                codes = np.repeat([0, UNIVERSUM], [len(part) for part in both])
                data = FitData(np.vstack(both), codes, None, None, len(points), 0.0)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warn_if_on_another_scale(data)
