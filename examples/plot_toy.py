r"""
What does a universum do?
=========================

Three classes in the plane, three labelled points each, and points that are known to belong to none
of them. The plain SVM puts its boundaries half way between the few labelled points. With the
universum, the boundaries also pass through the points of no class: there, no class may lead the
others by more than :math:`\Delta`.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from musvm import UniversumSVC

# %%
# The classes are copies of each other, turned by a third of a circle. So the best boundaries are
# three rays from the origin. The universum is scattered around these rays.

angles = np.deg2rad([90, 210, 330])
centres = 2 * np.column_stack([np.cos(angles), np.sin(angles)])
rays = -0.5 * centres
y = np.repeat([0, 1, 2], 3)


def draw(seed):
    """Nine labelled points and sixty of no class."""
    rng = np.random.RandomState(seed)
    X = centres[y] + rng.normal(scale=0.9, size=(len(y), 2))
    U = rng.uniform(0, 3.5, size=(60, 1)) * rays[rng.randint(3, size=60)]
    return X, U + rng.normal(scale=0.25, size=U.shape)


def fit_both(X, U):
    return {
        "plain SVM": UniversumSVC(C=10, kernel="linear").fit(X, y),
        "MU-SVM": UniversumSVC(C=10, kernel="linear", delta=0.1).fit(X, y, universum=U),
    }


# %%
# How much of the plane goes to the right class, over thirty draws?

many = np.random.RandomState(0).uniform(-4, 4, size=(5000, 2))
best = (many @ centres.T).argmax(axis=1)
agreement = [
    [100 * model.score(many, best) for model in fit_both(*draw(seed)).values()]
    for seed in range(30)
]
for name, values in zip(("plain SVM", "MU-SVM"), np.transpose(agreement), strict=True):
    error = values.std(ddof=1) / np.sqrt(len(values))
    print(f"{name:9s} {values.mean():.1f} % right, standard error {error:.1f}")

# %%
# One of these draws, with the best boundaries dashed.

X, U = draw(6)
models = fit_both(X, U)

colours = ["tab:blue", "tab:orange", "tab:green"]
grid = np.linspace(-4, 4, 300)
plane = np.column_stack([axis.ravel() for axis in np.meshgrid(grid, grid)])
figure, panels = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True, layout="constrained")
for axes, (name, model) in zip(panels, models.items(), strict=True):
    regions = model.predict(plane).reshape(len(grid), len(grid))
    axes.pcolormesh(grid, grid, regions, cmap=ListedColormap(colours), alpha=0.25, shading="auto")
    for ray in rays:
        axes.plot(*np.outer(ray, [0, 6]), color="0.3", linestyle="--", linewidth=1)
    for k, colour in enumerate(colours):
        axes.plot(*X[y == k].T, "o", color=colour, markeredgecolor="black", label=f"class {k}")
    if name == "MU-SVM":
        axes.plot(*U.T, "x", color="black", markersize=4, label="universum")
    axes.set(xlim=(-4, 4), ylim=(-4, 4), aspect="equal", title=name, xlabel="first feature")
panels[0].set_ylabel("second feature")
panels[1].legend(loc="lower right", fontsize="small", framealpha=0.9)
plt.show()
