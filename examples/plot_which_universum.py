"""
Which universum should I use?
=============================

Several universa are at hand. Fit the plain SVM once and ask :func:`musvm.universum.diagnose` what
it makes of each: how far its decision values spread there, how evenly it hands out its labels, and
how much the universum varies in ways that the classes share, its *nuisance*, by which universa are
ranked. Nothing is fitted for the diagnosis. Here it is set beside what happens when the universum
is used.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from musvm import UniversumSVC
from musvm.datasets import load_digits_universum
from musvm.universum import diagnose, random_average, random_noise, select_in_between

CLASSES, M = (0, 1, 2, 3), 100
images, labels = load_digits(return_X_y=True)


def universa(data, seed):
    """Six universa of equal size; the last is a mistake, test images of a class."""
    X, y = data.data, data.target
    rng = np.random.RandomState(seed)
    return {
        "other digits": data.universum[:M],
        "between the classes": select_in_between(X, y, data.universum, M),
        "only sevens": images[rng.choice(np.flatnonzero(labels == 7), M, replace=False)] / 16,
        "averages": random_average(X, y, M, random_state=rng),
        "noise": random_noise(X, M, random_state=rng),
        "images of a class": data.data_test[data.target_test == 1][:M],
    }


def draw(seed):
    return load_digits_universum(CLASSES, n_per_class=10, m=600, random_state=seed)


# %%
# The diagnosis, on one draw of the images. ``diagnosis.as_frame()`` gives the same as a table.

data = draw(seed=0)
plain = UniversumSVC(C=10, gamma=1 / 8).fit(data.data, data.target)
diagnosis = diagnose(plain, data.data, data.target, universa(data, seed=0))
print(diagnosis)

# %%
# The truth, over ten draws: the change of the test error against the plain SVM on the same images.


def error_on_test_data(data, U):
    model = UniversumSVC(C=10, gamma=1 / 8, delta=0.05).fit(data.data, data.target, universum=U)
    return 100 * (1 - model.score(data.data_test, data.target_test))


changes = {}
for seed in range(10):
    data = draw(seed)
    without = error_on_test_data(data, None)
    for name, U in universa(data, seed).items():
        changes.setdefault(name, []).append(error_on_test_data(data, U) - without)

# %%
# Every universum by its nuisance and by what it does. The bars are standard errors of the paired
# changes.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, values in changes.items():
    axes.errorbar(
        diagnosis[name].measures.nuisance,
        np.mean(values),
        yerr=np.std(values, ddof=1) / np.sqrt(len(values)),
        fmt="o",
        capsize=4,
        label=name,
    )
axes.axhline(0, color="0.4", linestyle="--", linewidth=1)
axes.set_yscale("symlog", linthresh=1)
axes.set_yticks([-1, 0, 1, 2, 5, 10], ["−1", "0", "1", "2", "5", "10"])
axes.set_xlabel("nuisance")
axes.set_ylabel("change of the test error (percentage points)")
axes.legend()
plt.show()

# %%
# The measures rank universa and do not promise a gain. What decides is a search that lets the plain
# SVM compete: :ref:`sphx_glr_gallery_plot_does_it_help.py`.
