r"""
What does Δ do?
===============

:math:`\Delta` is how far the decision values of a universum point may spread over the classes at no
cost. At 0 the model is asked to prefer no class at all there. As :math:`\Delta` grows, the
universum is heard less, and at last not at all.
"""

import matplotlib.pyplot as plt
import numpy as np

from musvm import ProjectionHistogramDisplay, UniversumSVC
from musvm.datasets import load_digits_universum

digits = load_digits_universum(classes=(3, 5, 8), n_per_class=15, m=300, random_state=0)
X, y, U = digits.data, digits.target, digits.universum

# %%
# The projection of a point onto class k is the lead of k over the best other class,
# :math:`f_k(x) - \max_{l \neq k} f_l(x)`. Without a universum the model has opinions on images of
# no class: their projections (black) spread over the whole margin, and most of them are called 8.
# A large :math:`\Delta` trims the ends of that distribution. A small one draws it together, and the
# labels come out even. The training points (blue) stay at the margin, +1.

models = {"no universum": UniversumSVC(C=10, gamma=1 / 8).fit(X, y)}
for delta in (0.5, 0.0):
    model = UniversumSVC(C=10, gamma=1 / 8, delta=delta)
    models[f"Δ = {delta:g}"] = model.fit(X, y, universum=U)
ProjectionHistogramDisplay.from_estimators(models, X, y, universum=U, density=True)
plt.show()

# %%
# Now along a finer path, for two sets of classes and ten draws of the images each. At the right end
# no universum point spreads by more than :math:`\Delta` and the model is the plain SVM.

deltas = [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]
settings = {"digits 0-3": (0, 1, 2, 3), "digits 3, 5, 8": (3, 5, 8)}


def measure(classes, seed):
    """Spread on the universum and test error in per cent at every delta."""
    data = load_digits_universum(classes=classes, n_per_class=10, m=150, random_state=seed)
    values = []
    for delta in deltas:
        model = UniversumSVC(C=10, gamma=1 / 8, delta=delta)
        model.fit(data.data, data.target, universum=data.universum)
        error = 100 * (1 - model.score(data.data_test, data.target_test))
        values.append((model.universum_score(data.universum).mean(), error))
    return values


paths = {
    name: np.array([measure(classes, seed) for seed in range(10)])
    for name, classes in settings.items()
}

# %%
# The spread follows :math:`\Delta` in both cases. The test error falls for one set of classes and
# not for the other: whether a universum helps is a question of its own, see
# :ref:`sphx_glr_gallery_plot_does_it_help.py`. The bands are standard errors of the mean change
# against the right end; the draws are the same along the path.

positions = np.arange(len(deltas))
figure, (spread, error) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for name, values in paths.items():
    spread.plot(positions, values[..., 0].mean(axis=0), "o-", label=name)
    change = values[..., 1] - values[:, -1:, 1]
    mean, band = change.mean(axis=0), change.std(axis=0, ddof=1) / np.sqrt(len(change))
    (line,) = error.plot(positions, mean, "o-", label=name)
    error.fill_between(positions, mean - band, mean + band, color=line.get_color(), alpha=0.2)
error.axhline(0, color="0.4", linewidth=1)
spread.set_ylabel("mean spread of $f$ on the universum")
error.set_ylabel("change of the test error (points)")
for axes in (spread, error):
    axes.set_xticks(positions, [f"{delta:g}" for delta in deltas])
    axes.set_xlabel(r"$\Delta$ (not to scale)")
    axes.legend()
plt.show()
