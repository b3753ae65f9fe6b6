"""A universum on another scale than X is told, and universa that are merely unlike X are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

import real_data
from musvm import UniversumSVC, UniversumSVCCV
from musvm._input import ranges
from musvm._input.ranges import Excess, Moments, warn_if_on_another_scale
from musvm._input.reading import UNIVERSUM, FitData
from musvm._input.tensors import namespace
from musvm.universum import random_average, random_noise
from peaks import peak_memory

FAR = "universum lies far outside the range of X"
LESS = "universum varies far less than X and lies apart"
OWN = "universum has mean 0 and deviation 1 in every feature, unlike X"


WRONG = {
    "divided by 16": (lambda U: U / 16, LESS),
    "divided by 255": (lambda U: U / 255, LESS),
    "moved": (lambda U: U + 16, FAR),
    "by a scaler of its own": (StandardScaler().fit_transform, OWN),
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


def test_a_universum_of_normal_noise_is_not_said_to_have_a_scaler_of_its_own():
    random = np.random.default_rng(0)
    points, noise = random.normal(size=(2, 2000, 20))
    points[:, 0] += 5
    assert not told(points, noise)
    assert told(points, StandardScaler().fit_transform(noise))


def test_a_sparse_universum_standardised_by_itself_is_told():
    random = np.random.default_rng(0)
    points, noise = random.normal(5.0, 3.0, size=(100, 20)), random.normal(size=(3000, 20))
    own = StandardScaler().fit_transform(noise)
    assert told(sp.csr_array(points), sp.csr_array(own))
    assert not told(sp.csr_array(points), sp.csr_array(noise))


def test_tensors_standardised_by_a_scaler_of_their_own_are_told():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    points, noise = random.normal(5.0, 3.0, size=(100, 20)), random.normal(size=(3000, 20))
    own = StandardScaler().fit_transform(noise)
    assert told(torch.from_numpy(points), torch.from_numpy(own))
    assert not told(torch.from_numpy(points), torch.from_numpy(noise))


@pytest.mark.parametrize("moved", [0.0, 1e3])
def test_sparse_and_dense_points_have_the_same_moments(moved):
    random = np.random.default_rng(0)
    points = random.normal(moved, size=(200, 9)) * (random.random((200, 9)) < 0.3)
    dense, sparse = Moments.of(points), Moments.of(sp.csr_array(points))
    pieces = Moments.of_pieces(map(sp.csr_array, np.split(points, [10, 150])))
    for found in (sparse, pieces, Moments.of_pieces(np.split(points, [10, 150]))):
        np.testing.assert_allclose(found.mean, dense.mean, rtol=1e-12)
        np.testing.assert_allclose(found.variance, dense.variance, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_found_in_pieces_is_what_is_found_at_once(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    points, U = rng.normal(size=(30, 7)).astype(dtype), 2.0 * rng.normal(size=(41, 7)).astype(dtype)
    points[:, 3] = 0.0
    lo, hi = points.min(axis=0), points.max(axis=0)
    outside = U - np.clip(U, lo, hi)
    monkeypatch.setattr(ranges, "PIECE_ENTRIES", 16)
    found, of_sparse = Excess.of(points, U), Excess.of(sp.csr_array(points), sp.csr_array(U))
    rtol = 1e3 * np.finfo(dtype).eps
    for one in (found, of_sparse):
        np.testing.assert_allclose(one.distances, np.linalg.norm(outside, axis=1), rtol=rtol)
        np.testing.assert_array_equal(one.n_outside, (outside[:, hi > lo] != 0.0).sum(axis=1))
        assert one.n_varying == 6
    moments = Moments.of(U)
    np.testing.assert_allclose(moments.variance, U.var(axis=0, dtype=np.float64), rtol=rtol)


def test_sparse_points_are_never_made_dense():
    n, m, d = 30, 200, 50_000
    random = np.random.default_rng(0)
    points, universum = (sp.random_array((k, d), density=1e-3, rng=random) for k in (n, m))
    with peak_memory() as peak:
        assert not told(sp.csr_array(points), sp.csr_array(universum))
    # Some dozen vectors of d entries, of which the dense universum would be 200.
    assert peak() < 30 * 8 * d, f"{peak() / (8 * d):.0f} vectors"


@pytest.mark.parametrize("name", real_data.NAMES)
def test_sensible_universa_of_real_data_are_not_said_to_be_on_another_scale(name, data_folder):
    """Other classes, one of them alone, averages and noise; as they are, and scaled with X."""
    found = real_data.load(name, data_folder, 2000)
    if found is None:
        pytest.skip(f"the file of {name} is not there")
    alarms = [
        (n, scaling, which)
        for n in (10, 100)
        for which, points, universum in sensible(*found, n)
        for scaling, scaler in SCALINGS.items()
        if told(*(scaler(points).transform(part) for part in (points, universum)))
    ]
    assert alarms == []


SCALINGS = {
    "as it is": FunctionTransformer().fit,
    "standardised": StandardScaler().fit,
    "0..1": MinMaxScaler().fit,
}


def sensible(X, y, n: int):
    """Universa by name, with the n training points or so that they are for."""
    classes = np.unique(y)
    kept = classes[: max(2, len(classes) // 2)]
    rows = np.concatenate([np.flatnonzero(y == c)[: n // len(kept) + 1] for c in kept])
    # What is constant in X is not scaled, and may lie anywhere in a universum.
    varies = np.ptp(X[rows], axis=0) > 0
    points, labels = X[rows][:, varies], y[rows]
    yield "averages", points, random_average(points, labels, 100)
    yield "noise", points, random_noise(points, 100)
    others = classes[~np.isin(classes, kept)]
    if len(others):
        yield "all other classes", points, X[np.isin(y, others)][:, varies]
    for c in others:
        yield f"class {c}", points, X[y == c][:, varies]


def stacked(points, universum):
    if sp.issparse(points):
        return sp.vstack([points, universum], format="csr")
    return namespace(points).concat([points, universum])


def told(points, universum) -> bool:
    """Whether a universum is said to be on another scale."""
    n, m = points.shape[0], universum.shape[0]
    codes = np.repeat([0, UNIVERSUM], [n, m])
    data = FitData(stacked(points, universum), codes, None, None, n, 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_on_another_scale(data)
    return bool(caught)
