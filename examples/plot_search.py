r"""
How do I choose the parameters?
===============================

With :class:`~musvm.UniversumSVCCV`. It first chooses C and the kernel for the plain SVM, then
:math:`\Delta` for the SVM with universum, and keeps the plain SVM unless the universum lowers the
soft error of points left out. Settings are judged without resampling by default. Cross-validation
and exact leave-one-out are one argument away.
"""

import matplotlib.pyplot as plt
import numpy as np

from musvm import UniversumSVCCV
from musvm.datasets import load_digits_universum

digits = load_digits_universum(classes=(1, 3, 5, 8, 9), n_per_class=20, m=150, random_state=0)
X, y, U = digits.data, digits.target, digits.universum
grid = {"Cs": [1, 10, 100], "gammas": [1 / 32, 1 / 8, 1 / 2], "deltas": [0, 0.05, 0.1, 0.2]}
two_steps = {**grid, "universum_weights": ["balanced"], "n_steps": 2}

search = UniversumSVCCV(**two_steps).fit(X, y, universum=U)
print("chosen:", {name: search.best_params_[name] for name in ("C", "gamma", "delta")})
print("leave-one-out error, estimated:", round(search.best_score_, 4))
print(search.comparison_.decision)
for hint in search.hints_:
    print(hint)

# %%
# ``results_`` has one row for each cell. ``pandas.DataFrame(search.results_)`` makes a table of it.

results = search.results_
step_a = results["step"] == "a"
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
table = 100 * results["error"][step_a].reshape(len(grid["gammas"]), len(grid["Cs"]))
image = left.imshow(table, cmap="viridis_r", aspect="auto")
for (row, column), value in np.ndenumerate(table):
    colour = "white" if value > table.mean() else "black"
    left.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour)
left.set_xticks(range(len(grid["Cs"])), [f"{C:g}" for C in grid["Cs"]])
left.set_yticks(range(len(grid["gammas"])), ["1/32", "1/8", "1/2"])
left.set(title="step (a): plain SVM", xlabel="C", ylabel=r"$\gamma$")
figure.colorbar(image, ax=left, label="estimated error (%)")

right.plot(100 * results["error"][~step_a], "o-", color="black", label="with universum")
right.axhline(table.min(), color="C0", linestyle="--", label="plain SVM, best of step (a)")
right.set_xticks(range(len(grid["deltas"])), [f"{delta:g}" for delta in grid["deltas"]])
right.set(title="step (b)", xlabel=r"$\Delta$", ylabel="estimated error (%)")
right.set_ylim(0, 2 * table.min() + 1)
right.legend()
plt.show()

# %%
# The criteria
# ------------
#
# "span" and "span-2016" are bounds computed from the solution. "loo-estimate" follows each removal
# of a point linearly. "loo" is the exact leave-one-out error, 5 five-fold cross-validation. All
# judge the cells of the search above.

print(f"{'criterion':13s} {'C':>5s} {'gamma':>6s} {'delta':>6s} {'score':>6s} {'test error':>11s}")
for criterion in ("span-2016", "span", "loo-estimate", "loo", 5):
    model = UniversumSVCCV(**two_steps, criterion=criterion).fit(X, y, universum=U)
    chosen = model.best_params_
    delta = f"{chosen['delta']:.2f}" if model.universum_helps_ else "none"
    test_error = 1 - model.score(digits.data_test, digits.target_test)
    print(
        f"{criterion!s:13s} {chosen['C']:5g} {chosen['gamma']:6.3f} {delta:>6s} "
        f"{model.best_score_:6.3f} {100 * test_error:9.2f} %"
    )

# %%
# One draw of a hundred images proves nothing about the criteria; :doc:`/results/index` compares
# them over many. :doc:`/user_guide/selection` says which to take when.
#
# For large grids use ``n_jobs``. The result does not depend on it. With ``memory="folder"`` a
# search that was interrupted continues where it was.
