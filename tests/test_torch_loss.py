"""`musvm.torch`: value and gradient of the losses, and a network that ends in an exact SVM."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from musvm import UniversumSVC
from musvm.dual.problem import DualRows, losses

torch = pytest.importorskip("torch")
UniversumHingeLoss = pytest.importorskip("musvm.torch").UniversumHingeLoss

ROOT = Path(__file__).parents[1]
L = 4
CASES = pytest.mark.parametrize(
    ("delta", "universum_loss"), [(0.0, "sum"), (0.3, "sum"), (0.0, "max"), (0.3, "max")]
)


def batch(seed: int, n: int = 12):
    """Decision values with no ties, and targets of which some are universum points."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(-1, L, size=n)
    targets[:2] = 0, -3
    return rng.normal(size=(n, L)), targets


def by_definition(F, targets, delta, universum_loss, weight):
    """Every row's loss, one label at a time."""
    found = []
    for f, y in zip(F, targets, strict=True):
        if y >= 0:
            found.append(max(f[l] + (l != y) for l in range(L)) - f[y])
            continue
        excess = [max(max(f) - f[k] - delta, 0.0) for k in range(L)]
        found.append(weight * (sum(excess) if universum_loss == "sum" else max(excess)))
    return np.array(found)


@CASES
@pytest.mark.parametrize("seed", range(3))
def test_values(seed, delta, universum_loss):
    F, targets = batch(seed)
    expected = by_definition(F, targets, delta, universum_loss, 0.7)
    for reduction, value in (
        ("none", expected), ("sum", expected.sum()), ("mean", expected.mean()),
    ):  # fmt: skip
        loss = UniversumHingeLoss(delta, 0.7, universum_loss, reduction=reduction)
        found = loss(torch.as_tensor(F), torch.as_tensor(targets))
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-12)


@CASES
def test_values_are_those_of_the_dual_problem(delta, universum_loss):
    F, targets = batch(7)
    order = np.argsort(targets < 0, kind="stable")
    y = targets[order][targets[order] >= 0]
    rows = DualRows(y, L, np.ones(len(F)), delta, universum_loss)
    loss = UniversumHingeLoss(delta, universum_loss=universum_loss, reduction="none")
    found = loss(torch.as_tensor(F[order]), torch.as_tensor(targets[order]))
    np.testing.assert_allclose(found.numpy(), losses(rows, F[order]), rtol=1e-12)


@CASES
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_finite_differences(seed, delta, universum_loss):
    F, targets = batch(seed)
    point = torch.tensor(F, requires_grad=True)
    UniversumHingeLoss(delta, 0.7, universum_loss)(point, torch.as_tensor(targets)).backward()
    step, expected = 1e-6, np.empty_like(F)
    for index in np.ndindex(*F.shape):
        there, back = F.copy(), F.copy()
        there[index] += step
        back[index] -= step
        values = [
            by_definition(G, targets, delta, universum_loss, 0.7).mean() for G in (there, back)
        ]
        expected[index] = (values[0] - values[1]) / (2 * step)
    np.testing.assert_allclose(point.grad.numpy(), expected, atol=1e-8)


@CASES
def test_an_exact_svm_minimises_it(delta, universum_loss):
    """The objective of `UniversumSVC` is C n times this loss plus the weight decay."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % L
    X, U = rng.normal(size=(L, 3))[y] + rng.normal(size=(40, 3)), rng.normal(size=(15, 3))
    clf = UniversumSVC(
        0.5, kernel="linear", delta=delta, universum_loss=universum_loss, universum_weight=0.3,
        tol=1e-9,
    ).fit(X, y, universum=U)  # fmt: skip
    points = torch.as_tensor(np.vstack([X, U]))
    targets = torch.as_tensor(np.r_[y, np.full(15, -1)])
    loss = UniversumHingeLoss(delta, 0.3, universum_loss, reduction="sum")

    def objective(W):
        return float(0.5 * (W**2).sum() + 0.5 * loss(points @ W.T, targets))

    W = torch.as_tensor(clf.coef_)
    assert objective(W) == pytest.approx(clf.objective_, rel=1e-9)
    for _ in range(10):
        assert objective(W + 1e-2 * torch.as_tensor(rng.normal(size=W.shape))) > clf.objective_


def test_wrong_calls_say_so():
    loss, F = UniversumHingeLoss(), torch.zeros(3, L)
    with pytest.raises(ValueError, match=r"targets \(n,\), got \(3, 4\) and \(2,\)"):
        loss(F, torch.zeros(2, dtype=torch.long))
    with pytest.raises(TypeError, match="targets must be integers"):
        loss(F, torch.zeros(3))
    with pytest.raises(ValueError, match="must not be negative"):
        UniversumHingeLoss(delta=-1)
    with pytest.raises(ValueError, match="'sum' or 'max', got 'mean'"):
        UniversumHingeLoss(universum_loss="mean")
    with pytest.raises(ValueError, match="reduction must be one of"):
        UniversumHingeLoss(reduction="max")
    assert "delta=0.0" in repr(loss)


def test_missing_pytorch_is_told_in_one_line():
    code = "import sys, musvm; sys.modules['torch'] = None\nimport musvm.torch"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "musvm.torch needs PyTorch: pip install torch" in result.stderr.splitlines()[-1]


def test_the_example_ends_in_a_certified_svm():
    names = runpy.run_path(str(ROOT / "examples" / "network_with_universum.py"))
    last = names["svm"]
    assert last.converged_
    assert last.dual_gap_ <= last.tol * last.objective_
    network, exact = names["network_accuracy"], names["svm_accuracy"]
    # Guessing gives a quarter.
    assert network > 0.8
    assert exact > 0.8


@pytest.mark.parametrize(
    ("values", "targets", "said"),
    [
        (torch.zeros(2, 3), torch.tensor([0, 3]), "targets must be below 3"),
        (torch.zeros(2, 1), torch.tensor([0, 0]), "needs a row and two classes"),
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), "needs a row and two classes"),
        (np.zeros((2, 3)), torch.tensor([0, 1]), "must be tensors"),
    ],
)
def test_batches_that_cannot_be_meant_are_refused(values, targets, said):
    with pytest.raises((TypeError, ValueError), match=said):
        UniversumHingeLoss()(values, targets)


def test_a_weight_in_words_is_refused_with_the_number_to_give():
    with pytest.raises(ValueError, match=r"n / \(m L\)"):
        UniversumHingeLoss(universum_weight="balanced")
