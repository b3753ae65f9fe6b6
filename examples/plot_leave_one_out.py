"""
How good is my model, without a test set?
=========================================

By its leave-one-out error: how many training points are misclassified by a model trained without
them. :func:`musvm.loo_error` computes it for a fitted model in four ways. Two of them are bounds
that rest on strong assumptions, one is an estimate, and one is exact.
"""

import matplotlib.pyplot as plt
import numpy as np

from musvm import UniversumSVC, loo_error
from musvm.datasets import load_digits_universum

METHODS = ("span-2016", "span", "loo-estimate", "loo")
digits = load_digits_universum(classes=(3, 5, 8), n_per_class=25, m=150, random_state=0)
X, y, U = digits.data, digits.target, digits.universum

# %%
# The data are those of the fit. Other data would give a number without a meaning, so they are
# recognised and refused.

model = UniversumSVC(C=10, gamma=1 / 8, delta=0.05).fit(X, y, universum=U)
for method in METHODS:
    result = loo_error(model, X, y, universum=U, method=method)
    print(f"{method:13s} {100 * result.error:5.1f} %")
print(f"test error    {100 * (1 - model.score(digits.data_test, digits.target_test)):5.1f} %")

# %%
# The exact method also says which points are misclassified, and that is worth a look.

wrong = np.flatnonzero(result.predictions != y)
figure, panels = plt.subplots(1, 6, figsize=(7, 1.6), layout="constrained")
for axes in panels:
    axes.set_axis_off()
for axes, row in zip(panels, wrong, strict=False):
    axes.imshow(X[row].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"{y[row]}, taken for {result.predictions[row]}", fontsize="small")
plt.show()

# %%
# Along C, over three draws of the images. "span-2016" counts every support vector at its bound as
# an error. Where C is small these are all points, and it leaves the picture. "span" has not that
# defect, but is on the optimistic side where C is large. "loo-estimate" stays closest to the exact
# error.

Cs = np.logspace(-2, 2, 7)
errors = {method: np.zeros(len(Cs)) for method in METHODS}
test_errors = np.zeros(len(Cs))
SEEDS = range(3)
for seed in SEEDS:
    data = load_digits_universum(classes=(3, 5, 8), n_per_class=25, m=100, random_state=seed)
    for k, C in enumerate(Cs):
        model = UniversumSVC(C, gamma=1 / 8, delta=0.05)
        model.fit(data.data, data.target, universum=data.universum)
        for method in METHODS:
            result = loo_error(
                model, data.data, data.target, universum=data.universum, method=method
            )
            errors[method][k] += 100 * result.error / len(SEEDS)
        test_errors[k] += 100 * (1 - model.score(data.data_test, data.target_test)) / len(SEEDS)

# %%

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
styles = {"span-2016": "C1:", "span": "C2-.", "loo-estimate": "C0--", "loo": "k-"}
for method, style in styles.items():
    axes.semilogx(Cs, errors[method], style, linewidth=2, label=f'"{method}"')
axes.semilogx(Cs, test_errors, "o", color="C3", label="test error")
axes.set(xlabel="C", ylabel="error (%)", ylim=(0, 12))
axes.legend()
plt.show()

# sphinx_gallery_thumbnail_number = 2
