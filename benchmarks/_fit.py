"""One fit of one estimator on one data set, in a process of its own: prints one JSON object.

A process of its own, because the peak of the resident size is part of the answer, and because
one library's threads and caches must not disturb the next one's.

    python benchmarks/_fit.py '{"method": "musvm", "data": "mnist", "n": 10000, "tol": 1e-3}'
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_svmlight_file

from _memory import forget_peak, resident_bytes
from _shared import data_file


@dataclass(frozen=True)
class Split:
    """Training points, a universum, and test points; the settings that go with them."""

    X: np.ndarray
    y: np.ndarray
    universum: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    gamma: float


def mnist(n: int, m: int = 0, n_classes: int = 10) -> Split:
    """The first n images of the first classes, and the first m of the others; pixels in 0..1."""
    X, y = idx_images("train"), idx_labels("train")
    X_test, y_test = idx_images("t10k"), idx_labels("t10k")
    inside, outside = np.flatnonzero(y < n_classes)[:n], np.flatnonzero(y >= n_classes)[:m]
    judged = y_test < n_classes
    return Split(X[inside], y[inside], X[outside], X_test[judged], y_test[judged], 0.02)


def idx_images(part: str) -> np.ndarray:
    return _idx(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255.0


def idx_labels(part: str) -> np.ndarray:
    return _idx(f"{part}-labels-idx1-ubyte.gz", 8).astype(np.intp)


def _idx(name: str, header: int) -> np.ndarray:
    with gzip.open(data_file(f"mnist/{name}")) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def libsvm(name: str, n: int | None = None) -> Split:
    """A LIBSVM set of which the last tenth, after shuffling, is for testing.

    The data folder has no separate test files. `n` takes that many of the others.
    """
    with gzip.open(data_file(f"libsvm/{name}.scale.gz")) as file:
        X, y = load_svmlight_file(file)
    order = np.random.RandomState(0).permutation(len(y))
    train, test = np.split(order, [9 * len(y) // 10])
    X, train = X.toarray(), train[:n]
    return Split(X[train], y[train], X[:0], X[test], y[test], 1.0)


def split_of(data: str, n: int | None, m: int) -> Split:
    """ "mnist" is all ten digits, "mnist7" the digits 0-6 with a universum of 7-9."""
    if data.startswith("mnist"):
        return mnist(n or 60000, m, n_classes=7 if data == "mnist7" else 10)
    return libsvm(data, n)


def estimator(method: str, C: float, gamma: float, **settings: object):
    if method == "SVC":
        from sklearn.svm import SVC
    elif method == "SVC (intelex)":
        from sklearnex.svm import SVC
    else:
        from musvm import UniversumSVC

        return UniversumSVC(C=C, gamma=gamma, **settings)
    return SVC(C=C, gamma=gamma, cache_size=4000.0)


def measure(
    method: str,
    data: str,
    n: int | None = None,
    m: int = 0,
    C: float = 10.0,
    predict: bool = True,
    **settings: object,
) -> dict[str, float]:
    """Seconds of `fit` and `predict`, peak memory of `fit` above the data, test error."""
    split = split_of(data, n, m)
    model = estimator(method, C, split.gamma, **settings)
    few = np.r_[0:200]
    warnings.simplefilter("ignore")
    warm = estimator(method, C, split.gamma)
    if method == "musvm":
        warm.set_params(solver="working-set")
    warm.fit(split.X[few], split.y[few])
    arguments = (split.X, split.y, split.universum) if m else (split.X, split.y)
    forget_peak()
    before = resident_bytes("VmRSS")
    start = time.perf_counter()
    model.fit(*arguments)
    fitted = time.perf_counter()
    found = {"seconds": fitted - start, "GB": (resident_bytes("VmHWM") - before) / 1e9}
    if predict:
        found["error %"] = 100.0 * (1.0 - model.score(split.X_test, split.y_test))
        found["predict s"] = time.perf_counter() - fitted
    if method == "musvm":
        n_support = len(model.support_) + len(model.universum_support_)
        found |= {"gap": model.dual_gap_ / model.objective_, "rounds": model.n_iter_}
        found |= {"objective": model.objective_, "support vectors": n_support}
    return found


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
