r"""
Sum or max: which universum loss?
=================================

The paper states two losses for a universum point. ``universum_loss="max"``, its eq. (2), charges
the largest difference between two classes beyond :math:`\Delta`. ``"sum"``, its eq. (4) and our
default, charges every class that lies more than :math:`\Delta` below the highest. With two classes
they are the same. With L classes, "sum" is between 1 and L - 1 times "max".

Much of the difference is one of weight, then: at the same :math:`C^*`, "sum" pulls harder. This
example separates the two.
"""

import matplotlib.pyplot as plt
import numpy as np

from musvm import UniversumSVC
from musvm.datasets import load_digits_universum

CLASSES = (0, 1, 2, 3)
WEIGHTS = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3])


def measure(seed, loss, weight):
    """Mean spread on the universum, and test error in per cent."""
    data = load_digits_universum(CLASSES, n_per_class=10, m=150, random_state=seed)
    model = UniversumSVC(
        C=10, gamma=1 / 8, delta=0.05, universum_weight=weight, universum_loss=loss
    )
    model.fit(data.data, data.target, universum=data.universum)
    error = 100 * (1 - model.score(data.data_test, data.target_test))
    return model.universum_score(data.universum).mean(), error


# %%
# Both losses over a range of :math:`C^*/C`, eight draws each.

results = {
    loss: np.array([[measure(seed, loss, weight) for weight in WEIGHTS] for seed in range(8)])
    for loss in ("sum", "max")
}

# %%
# On the left, "max" needs a larger weight for the same spread. On the right, where both are drawn
# against the spread they achieve, the weight is out of the picture, and so is most of the
# difference.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
styles = {"sum": ("black", "o-"), "max": ("C1", "s--")}
for loss, values in results.items():
    colour, style = styles[loss]
    spread, error = values.mean(axis=0).T
    band = values[..., 1].std(axis=0, ddof=1) / np.sqrt(len(values))
    left.loglog(WEIGHTS, spread, style, color=colour, label=f'"{loss}"')
    right.semilogx(spread, error, style, color=colour, label=f'"{loss}"')
    right.fill_between(spread, error - band, error + band, color=colour, alpha=0.12)
balanced = 40 / (150 * len(CLASSES))  # n / (m L)
left.axvline(balanced, color="0.5", linestyle=":", label='"balanced"')
left.set(xlabel="$C^*/C$", ylabel="mean spread of $f$ on the universum")
right.set(xlabel="mean spread of $f$ on the universum", ylabel="test error (%)")
left.set_xticks(WEIGHTS, [f"{weight:g}" for weight in WEIGHTS])
ticks = [0.05, 0.1, 0.2, 0.5]
left.set_yticks(ticks, ticks)
right.set_xticks(ticks, ticks)
for axes in (left, right):
    axes.minorticks_off()
    axes.legend()
plt.show()

# %%
# So: keep "sum" if you want the paper's algorithm, and tune :math:`C^*/C` rather than the loss. Use
# "max" if the loss should not grow with the number of classes.
