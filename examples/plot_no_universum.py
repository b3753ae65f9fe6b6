"""
I have no universum: what now?
==============================

A universum can be made from the training points. The average of one image of each class looks like
none of them, and lies between them by construction. Noise keeps the values of each pixel and
nothing of how they go together. Both cost nothing. Do they help as images of other digits do?

On these data they do not, and averages of two classes hurt. So make a universum if you have none,
but let it compete with the plain SVM before you use it.
"""

import matplotlib.pyplot as plt
import numpy as np

from musvm import UniversumSVC
from musvm.datasets import load_digits_universum
from musvm.universum import random_average, random_noise

CLASSES, M = (0, 1, 2, 3), 200


def universa(data, seed):
    X, y = data.data, data.target
    return {
        "other digits": data.universum,
        "averages, all classes": random_average(X, y, M, random_state=seed),
        "averages, two classes": random_average(X, y, M, per_class=False, random_state=seed),
        "shuffled pixels": random_noise(X, M, random_state=seed),
    }


# %%
# What they look like.

data = load_digits_universum(CLASSES, n_per_class=10, m=M, random_state=0)
made = universa(data, seed=0)
figure, grid = plt.subplots(len(made), 8, figsize=(8, 4.4), layout="constrained")
for row, (name, U) in zip(grid, made.items(), strict=True):
    for axes, image in zip(row, U, strict=False):
        axes.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()

# %%
# Test error with each of them, minus that of the plain SVM on the same images: twelve draws,
# parameters held fixed, standard errors of the paired differences.


def error_on_test_data(data, U):
    model = UniversumSVC(C=10, gamma=1 / 8, delta=0.05).fit(data.data, data.target, universum=U)
    return 100 * (1 - model.score(data.data_test, data.target_test))


changes, plain = {}, []
for seed in range(12):
    data = load_digits_universum(CLASSES, n_per_class=10, m=M, random_state=seed)
    plain.append(error_on_test_data(data, None))
    for name, U in universa(data, seed).items():
        changes.setdefault(name, []).append(error_on_test_data(data, U) - plain[-1])

means = {name: np.mean(values) for name, values in changes.items()}
errors = {name: np.std(values, ddof=1) / np.sqrt(12) for name, values in changes.items()}
print(f"plain SVM: test error {np.mean(plain):.2f} %")
for name in changes:
    print(f"{name:22s} {means[name]:+.2f} points, standard error {errors[name]:.2f}")

# %%

figure, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
names = list(changes)
axes.errorbar(
    list(means.values()), names, xerr=list(errors.values()), fmt="o", color="C0", capsize=4
)
axes.axvline(0, color="0.4", linestyle="--", label="plain SVM")
axes.invert_yaxis()
axes.set_xlabel("change of the test error (percentage points)")
axes.set_ylabel("universum")
axes.margins(y=0.15)
axes.legend()
plt.show()

# %%
# Other kernels and other digits give much the same picture: what is made changes little, in either
# direction. In a pipeline or a search, :class:`~musvm.universum.WithUniversum` makes the universum
# from the training part of each fold, so that no held-out point takes part.

# sphinx_gallery_thumbnail_number = 2
