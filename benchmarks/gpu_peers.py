"""Other kernel machines on the same GPU, by time, objective and test error.

    python benchmarks/gpu_peers.py [--quick]

binary   3 against 8 of MNIST: TorchKM, a GPU library of binary kernel machines (where it is
         installed), scikit-learn's SVC on the processor, and ours on tensors.
all      All ten classes, and the literature's figures with their conditions.

With two classes our objective at C / 2 is half of the usual one, 1/2 |w|^2 + C sum hinge, without
an intercept; the others have one that costs nothing. cuML's SVC is measured where it is installed.

It needs PyTorch, a GPU, and MNIST's four files in `mnist` in the data folder.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.svm import SVC

from _shared import Table, data_file
from gpu import DEVICE, GAMMA, C, asked_for, on_device, seconds
from musvm import UniversumSVC
from musvm.datasets import load_mnist

# EigenPro 2 (Ma and Belkin, 2019), squared loss.
LITERATURE = (
    ("EigenPro 2, squared loss, a GPU of 12 GB, as published", "1.7 + 2.8 (SVD)", "", 1.53),
)


def binary_task(n: int) -> tuple[np.ndarray, ...]:
    """Training points, labels -1 and 1, and the same of the test set."""
    parts = []
    for subset, size in (("train", n), ("test", None)):
        X, y = load_mnist(data_file("mnist"), subset=subset, classes=(3, 8), return_X_y=True)
        parts += [X[:size], np.where(y[:size] == 8, 1, -1)]
    return tuple(parts)


def hinge_objective(K: np.ndarray, y: np.ndarray, coefficients: np.ndarray, b: float) -> float:
    """1/2 |w|^2 + C sum hinge of f = K a + b."""
    f = K @ coefficients
    return float(0.5 * coefficients @ f + C * np.maximum(1.0 - y * (f + b), 0.0).sum())


def torchkm(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray, float]:
    """With one value of C and the two folds that it takes at least."""
    from torchkm.estimators import TorchKMSVC

    model = TorchKMSVC(kernel="rbf", Cs=[C], nC=1, cv=2, rbf_sigma=GAMMA / 2.0, device=DEVICE)
    model.fit(X, y)
    return model, np.ravel(model.alpha_), float(model.intercept_)


def cuml(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray, float]:
    from cuml import svm

    return _of_libsvm(svm.SVC(C=C, gamma=GAMMA).fit(X, y), len(y))


def libsvm(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray, float]:
    return _of_libsvm(SVC(C=C, gamma=GAMMA, cache_size=4000).fit(X, y), len(y))


def _of_libsvm(model: Any, n: int) -> tuple[Any, np.ndarray, float]:
    coefficients = np.zeros(n)
    coefficients[np.asarray(model.support_)] = np.ravel(model.dual_coef_)
    return model, coefficients, float(np.ravel(model.intercept_)[0])


def ours(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray, float]:
    model = UniversumSVC(0.5 * C, gamma=GAMMA, tol=1e-4, solver="working-set")
    model.fit(on_device(X, np.float32), on_device(y, np.int64))
    coefficients = np.zeros(len(y))
    coefficients[model.support_] = model.dual_coef_[1] - model.dual_coef_[0]
    return model, coefficients, 0.0


def measure_binary(table: Table, n: int) -> None:
    X, y, X_test, y_test = binary_task(n)
    peers: dict[str, Callable] = {"musvm, tensors, tol = 1e-4": ours, "SVC, processor": libsvm}
    for name, label, peer in (("torchkm", "TorchKM", torchkm), ("cuml", "cuML SVC", cuml)):
        if importlib.util.find_spec(name) is not None:
            peers[label] = peer
    ours(X[:1000], y[:1000])
    K = np.exp(-GAMMA * _squared_distances(X))
    for name, peer in peers.items():
        took, (model, coefficients, b) = seconds(lambda p=peer: p(X, y))
        error = 100.0 * float(np.mean(np.asarray(model.predict(X_test)) != y_test))
        table.add(f"3 against 8, {len(y):,}", name, f"{took:.2f}",
                  hinge_objective(K, y, coefficients, b), error)  # fmt: skip
        print(table.rows[-1], flush=True)


def _squared_distances(X: np.ndarray) -> np.ndarray:
    squares = np.einsum("ij,ij->i", X, X)
    return np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0)


def measure_all(table: Table, n: int | None) -> None:
    X, y = load_mnist(data_file("mnist"), return_X_y=True)
    X_test, y_test = load_mnist(data_file("mnist"), subset="test", return_X_y=True)
    there, labels = on_device(X[:n], np.float32), on_device(y[:n], np.int64)
    model = UniversumSVC(C, gamma=GAMMA, tol=1e-3)
    took, _ = seconds(lambda: model.fit(there, labels))
    error = 100.0 * float(np.mean(model.predict(X_test) != y_test))
    task = f"ten classes, {len(labels):,}"
    table.add(task, "musvm, tensors, tol = 1e-3", f"{took:.2f}", model.objective_, error)
    for row in LITERATURE:
        table.add("ten classes, 60,000", *row)


def main() -> None:
    report, quick = asked_for(
        "gpu-peers", "Kernel machines on a GPU", __doc__, "2,000 and 6,000 points"
    )
    table = Table(
        "Time, objective and test error",
        ("task", "who", "s", "objective", "test error %"),
        f"RBF, gamma = {GAMMA:g}, C = {C:g}; one run each, from data on the host for peers. "
        "Objective: 1/2 |w|^2 + C sum hinge, computed here in doubles; with ten classes our own. "
        "TorchKM takes two folds at least, whose fits are in its time. cuML is not installed "
        "unless it has a row.",
    )
    measure_binary(table, 2_000 if quick else 6_000)
    measure_all(table, 6_000 if quick else None)
    report.add(table)
    report.store()


if __name__ == "__main__":
    main()
