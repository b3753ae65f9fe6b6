"""
How do I use it in a Pipeline and a GridSearchCV?
=================================================

A universum is an extra argument of ``fit``, and scikit-learn's tools do not know what it is. Two
things can go wrong, and each has a remedy of one line.

- A search splits an array that has as many rows as ``X``. Pass ``universum=(U,)``: a tuple is never
  split.
- A pipeline scales ``X`` and hands the universum on as it is. Make it with
  :func:`~musvm.make_universum_pipeline`, which sends the universum through every step.

Or let the universum travel inside ``X``, marked by a label. Then there is nothing to route.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from musvm import UniversumPipeline, UniversumSplit, UniversumSVC
from musvm.datasets import load_digits_universum

digits = load_digits_universum(classes=(0, 1, 2, 3), n_per_class=40, m=160, random_state=0)
X, y, U = digits.data, digits.target, digits.universum
print(f"{len(X)} training images, {len(U)} universum images: as many, which is the trap")

# %%
# The trap
# --------
#
# A classifier that tells how many universum rows it was given. Splitting the universum is warned
# of, once.


class Telling(UniversumSVC):
    def fit(self, X, y, universum=None, sample_weight=None):
        rows = universum[0] if isinstance(universum, tuple) else universum
        print(f"  fold of {len(X)} rows, universum of {len(rows)}")
        return super().fit(X, y, universum, sample_weight)


print("universum=U, split like X:")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    split = cross_val_score(Telling(gamma=1 / 8), X, y, cv=2, params={"universum": U})
print(*(f"  UserWarning: {warning.message}" for warning in told), sep="\n")
print("universum=(U,), passed whole:")
whole = cross_val_score(Telling(gamma=1 / 8), X, y, cv=2, params={"universum": (U,)})
print(f"mean accuracy: {split.mean():.3f} split, {whole.mean():.3f} whole")

# %%
# A pipeline inside a search
# --------------------------
#
# :class:`~musvm.UniversumPipeline` takes steps with names of your own. The scaler is fitted to the
# training part of each fold, and transforms the universum as well.
# scikit-learn's own ``Pipeline(..., transform_input=["universum"])`` does the same where metadata
# routing is enabled.

grid = {"svc__C": [0.1, 1, 10], "svc__delta": [0, 0.05, 0.2]}
folds = StratifiedKFold(4, shuffle=True, random_state=0)
pipeline = UniversumPipeline([("scale", StandardScaler()), ("svc", UniversumSVC(gamma=0.002))])
search = GridSearchCV(pipeline, grid, cv=folds).fit(X, y, universum=(U,))
print(search.best_params_)
print(f"test accuracy {search.score(digits.data_test, digits.target_test):.3f}")

# %%
# The label form
# --------------
#
# Universum rows are part of ``X`` and carry a label of their own. An ordinary splitter would test
# on some of them and train without them. :class:`~musvm.UniversumSplit` keeps all of them in every
# training part and tests on the others only.

Z, labels = np.vstack([X, U]), np.r_[y, np.full(len(U), -1)]
pipeline = Pipeline(
    [("scale", StandardScaler()), ("svc", UniversumSVC(gamma=0.002, universum_label=-1))]
)
labelled = GridSearchCV(pipeline, grid, cv=UniversumSplit(folds, universum_label=-1))
labelled.fit(Z, labels)
print(labelled.best_params_)
print(f"test accuracy {labelled.score(digits.data_test, digits.target_test):.3f}")

# %%
# The two searches differ in one respect: here the scaler is fitted to the universum too. Accuracies
# are means over the folds.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axes, result, title in zip(
    panels, (search, labelled), ("universum=(U,)", "label form"), strict=True
):
    table = result.cv_results_["mean_test_score"].reshape(3, 3)
    for C, row in zip(grid["svc__C"], table, strict=True):
        axes.plot(range(3), 100 * row, "o-", label=f"C = {C:g}")
    axes.set_xticks(range(3), [f"{delta:g}" for delta in grid["svc__delta"]])
    axes.set(title=title, xlabel=r"$\Delta$ (not to scale)")
panels[0].set_ylabel("accuracy in cross-validation (%)")
panels[0].legend()
plt.show()
