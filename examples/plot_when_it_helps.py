r"""
When does a universum help, and when not?
=========================================

The digits 0-3 of scikit-learn, with the parameters held fixed at :math:`C = 10`,
:math:`\gamma = 1/8`, :math:`\Delta = 0.1` unless stated otherwise, over 20 random partitions.
Each line changes one thing. The standard errors printed are those of the paired change over the
partitions.

Run this file with a path to save the picture there.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from musvm import UniversumSVC

PARTITIONS = 20
X, digit = load_digits(return_X_y=True)
X = X / 16


def draw(rng, pool, size):
    return X[rng.choice(pool, size, replace=False)]


def other_digits(rng, test):
    return draw(rng, np.flatnonzero(digit >= 4), 300)


def only_sevens(rng, test):
    return draw(rng, np.flatnonzero(digit == 7), 150)


def noise(rng, test):
    return rng.random((300, X.shape[1]))


def images_of_a_class(rng, test):
    return draw(rng, test[digit[test] == 1], 80)


def errors(partition, make_universum, per_class=10, C=10.0, gamma=1 / 8):
    """Test errors in per cent, without and with the universum, on the same images."""
    rng = np.random.default_rng(partition)
    train = np.concatenate(
        [rng.choice(np.flatnonzero(digit == k), per_class, replace=False) for k in range(4)]
    )
    test = np.setdiff1d(np.flatnonzero(digit < 4), train)
    model = UniversumSVC(C, gamma=gamma, delta=0.1)
    return [
        100
        * (1 - model.fit(X[train], digit[train], universum=universum).score(X[test], digit[test]))
        for universum in (None, make_universum(rng, test))
    ]


# %%
# The last setting is a mistake on purpose: test images of the digit 1, a class, serve as universum.

settings = {
    "the digits 4-9": (other_digits, {}),
    "the digits 4-9, 90 training images a class": (other_digits, {"per_class": 90}),
    "the digits 4-9, narrow kernel (γ = 2)": (other_digits, {"gamma": 2.0}),
    "the digits 4-9, strong regularisation (C = 0.01)": (other_digits, {"C": 0.01}),
    "only sevens": (only_sevens, {}),
    "uniform noise": (noise, {}),
    "images of the class 1": (images_of_a_class, {}),
}
means = []
for name, (make_universum, options) in settings.items():
    table = np.array([errors(p, make_universum, **options) for p in range(PARTITIONS)])
    change = table[:, 1] - table[:, 0]
    standard_error = change.std(ddof=1) / np.sqrt(PARTITIONS)
    means.append(table.mean(axis=0))
    print(
        f"{name:48s} {means[-1][0]:5.2f} % -> {means[-1][1]:5.2f} %, "
        f"change {change.mean():+.2f}, standard error {standard_error:.2f}"
    )

# %%
figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
without, with_universum = np.transpose(means)
axes.hlines(list(settings), without, with_universum, color="0.6")
axes.plot(without, list(settings), "o", color="C0", markerfacecolor="white", label="plain SVM")
axes.plot(with_universum, list(settings), "o", color="C0", label="MU-SVM")
axes.invert_yaxis()
axes.set_xlim(left=0)
axes.set_xlabel(f"test error (%), mean of {PARTITIONS} partitions")
axes.set_ylabel("universum")
axes.legend()

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=120, bbox_inches="tight")
else:
    plt.show()
