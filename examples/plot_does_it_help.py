r"""
Does my universum help?
=======================

Three ways to find out, from the cheapest to the surest: look at what the plain SVM makes of it, let
the search decide on the training data, or measure on test data over several partitions.
"""

import matplotlib.pyplot as plt
import numpy as np

from musvm import ProjectionHistogramDisplay, UniversumSVC, UniversumSVCCV
from musvm.datasets import load_digits_universum

CLASSES = (0, 1, 2, 3)
digits = load_digits_universum(CLASSES, n_per_class=10, m=150, random_state=0)
X, y, U = digits.data, digits.target, digits.universum

# %%
# Look
# ----
#
# Fit the plain SVM and project the universum onto it. If the training points pile up at +1 the data
# are easy to separate, and many models would do. If the universum is spread widely over the margin,
# or gets one label more often than others, the chosen model has opinions about points of no class.
# Then there is something to repair. A universum that is already narrow and evenly labelled has
# nothing to give.

plain = UniversumSVC(C=10, gamma=1 / 8).fit(X, y)
ProjectionHistogramDisplay.from_estimator(plain, X, y, universum=U, name="plain SVM", density=True)
plt.show()

# %%
# Search
# ------
#
# :class:`~musvm.UniversumSVCCV` judges both kinds of models by the same criterion, on the training
# points alone, each of them left out. ``comparison_`` has the best of either kind side by side.
# With forty training points one of them is 2.5 % of error; so what decides is the soft error, in
# which every point counts by how clearly it is classified.

grid = {"Cs": [1, 10, 100], "gammas": [1 / 32, 1 / 8, 1 / 2], "deltas": [0, 0.05, 0.1, 0.2]}
search = UniversumSVCCV(**grid).fit(X, y, universum=U)
comparison = search.comparison_
print(f"difference     {100 * comparison.difference:+.1f} points")
print(f"standard error {100 * comparison.standard_error:.1f} points")
print(comparison.decision)

# %%
# The margins of the points when left out, of both models. Where a curve crosses 0 it shows the
# error; the lower curve is the better one.

figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
comparison.plot(axes)
plt.show()

# %%
# Measure
# -------
#
# With test data, compare the best model without and the best model with universum over several
# partitions. Both have their parameters chosen on the training data, by the same search.

predicted, measured = [], []
for seed in range(12):
    data = load_digits_universum(CLASSES, n_per_class=10, m=150, random_state=seed)
    search = UniversumSVCCV(**grid).fit(data.data, data.target, universum=data.universum)
    scores = [
        UniversumSVC(**finalist.params)
        .fit(data.data, data.target, universum=data.universum)
        .score(data.data_test, data.target_test)
        for finalist in (search.comparison_.plain, search.comparison_.universum)
    ]
    predicted.append(-100 * search.comparison_.difference)
    measured.append(100 * (scores[1] - scores[0]))
error = np.std(measured, ddof=1) / np.sqrt(len(measured))
print(f"mean gain on test data: {np.mean(measured):.2f} points, standard error {error:.2f}")

# %%
# A single search sees little of what a universum changes on average: with data as few as these the
# difference is a training point or two. Measure over several partitions, or decide by what you know
# about the universum.

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.axhline(0, color="0.6", linewidth=1)
axes.axvline(0, color="0.6", linewidth=1)
jitter = np.random.RandomState(0).uniform(-0.25, 0.25, len(predicted))
axes.plot(np.array(predicted) + jitter, measured, "o", color="C0", label="one partition")
axes.axhline(np.mean(measured), color="C3", linestyle="--", label="mean gain on test data")
axes.set_xlabel("gain by leave-one-out on 40 images (points, jittered)")
axes.set_ylabel("gain on test data (points)")
axes.legend()
plt.show()
