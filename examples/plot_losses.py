r"""
What do the two losses look like?
=================================

A training point of class :math:`k` wants its own decision value to lead all others by 1. A
universum point belongs to no class and wants all decision values to lie within :math:`\Delta` of
each other. Both losses are drawn against the projection
:math:`f_k(x) - \max_{l \neq k} f_l(x)`, for three classes of which the two others are level.

The values come from ``musvm.dual.problem.losses``, the function that the solver's duality gap
is made of. Run this file with a path to save the picture there.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from musvm.dual.problem import DualProblem, DualRows, losses

DELTA = 0.4

projection = np.linspace(-2, 2, 401)
decision_values = np.zeros((len(projection), 3))
decision_values[:, 0] = projection


def loss(n_training, universum_loss="sum"):
    """The loss of each row, the first `n_training` as training points of class 0."""
    M = len(projection)
    labels = np.zeros(n_training, dtype=np.intp)
    problem = DualProblem(np.eye(M), DualRows(labels, 3, np.ones(M), DELTA, universum_loss))
    return losses(problem.rows, decision_values)


# %%
# Left: the hinge loss of eq. (1). Right: the universum loss, where the paper has two. Eq. (2)
# charges a point once, for the largest difference between two classes. Eq. (4), the one its
# algorithm solves and our default, charges it once per class that falls behind. With two classes
# they are the same; with three, the charge doubles where class k leads both others.

figure, (training, universum) = plt.subplots(
    1, 2, figsize=(9, 3.4), sharey=True, layout="constrained"
)
training.plot(projection, loss(len(projection)), color="C0", linewidth=2, label="hinge loss")
training.axvline(1, color="0.4", linestyle=":", label="margin, +1")
training.axvline(0, color="0.4", linewidth=1, label="decision boundary")
training.set(title="Training point of class $k$, $L = 3$", ylabel="loss (units of $f$)")

universum.plot(
    projection, loss(0, "sum"), color="black", linewidth=2, label='"sum", eq. (4), default'
)
universum.plot(
    projection, loss(0, "max"), color="C1", linewidth=2, linestyle="--", label='"max", eq. (2)'
)
universum.axvspan(-DELTA, DELTA, color="0.9", label=r"insensitive zone, $\pm\Delta$")
universum.axvline(0, color="0.4", linewidth=1)
universum.set(title=rf"Universum point, $L = 3$, $\Delta = {DELTA}$")
for axes in (training, universum):
    axes.set_xlabel(r"projection $f_k(x) - \max_{l \neq k} f_l(x)$ (units of $f$)")
    axes.set_ylim(-0.1, 3.2)
    axes.legend(loc="upper right" if axes is training else "upper left", fontsize="small")

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=120, bbox_inches="tight")
else:
    plt.show()
