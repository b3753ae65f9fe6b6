r"""
What does the certificate tell me?
==================================

Every fit reports its duality gap. However early the solver stopped, the gap bounds how far the
differences between decision values can be from those of the exact optimum, at any point
:math:`x`:

.. math::

    \bigl| (f_k - f_l)(x) - (f_k - f_l)^*(x) \bigr|
    \;\le\; \sqrt{2 \, \mathrm{gap} \, K(x, x)} .

So a predicted class that leads the runner-up by more than that is the one that the optimum
predicts. The label is *certified*. :doc:`/mathematics/certificate` has the proof.
"""

import matplotlib.pyplot as plt
import numpy as np

from musvm import UniversumSVC
from musvm.datasets import load_digits_universum

digits = load_digits_universum(classes=range(8), n_per_class=20, m=150)
X, y, U, X_test = digits.data, digits.target, digits.universum, digits.data_test


def fit(tol):
    return UniversumSVC(C=10, gamma=1 / 32, delta=0.05, tol=tol).fit(X, y, universum=U)


# %%
# A model whose gap is almost zero stands for the optimum.

optimum = fit(tol=1e-12)
print(f"gap of the reference: {optimum.dual_gap_:.1e}, objective {optimum.objective_:.1f}")

# %%
# Now stop early. With the RBF kernel :math:`K(x, x) = 1`. The largest true deviation over the test
# images is always below the bound, and no certified label is wrong.


def differences(model):
    F = model.decision_function(X_test)
    return F[:, :, None] - F[:, None, :]


rows = []
for tol in np.logspace(0, -7, 12):
    model = fit(tol)
    ordered = np.sort(model.decision_function(X_test), axis=1)
    lead = ordered[:, -1] - ordered[:, -2]
    bound = np.sqrt(2 * model.dual_gap_)
    agrees = model.predict(X_test) == optimum.predict(X_test)
    deviation = np.abs(differences(model) - differences(optimum)).max()
    assert deviation <= bound
    assert agrees[lead > bound].all()
    rows.append(
        (
            model.model_.certificate.relative_gap,
            deviation,
            bound,
            100 * np.mean(lead > bound),
            100 * agrees.mean(),
        )
    )
relative_gap, deviation, bound, certified, agreeing = np.transpose(rows)

# %%
# The bound holds for every point and every problem with this gap, so it is far above the true
# deviation of this one: labels are right long before they are certified. At the default tolerance,
# ``tol=1e-4``, more than nine out of ten are.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.loglog(relative_gap, bound, "-", color="C3", label=r"bound, $\sqrt{2\,\mathrm{gap}}$")
left.loglog(relative_gap, deviation, "o-", color="C0", label="largest true deviation")
left.set(xlabel="relative duality gap", ylabel=r"difference of $f_k - f_l$ from the optimum")
right.semilogx(relative_gap, agreeing, "o-", color="0.4", label="equal to the optimum's")
right.semilogx(relative_gap, certified, "o-", color="C3", label="certified")
right.set(xlabel="relative duality gap", ylabel="share of the test labels (%)", ylim=(-3, 103))
for axes in (left, right):
    axes.axvline(1e-4, color="0.6", linestyle=":", label="default tol")
    axes.invert_xaxis()
    axes.legend(fontsize="small")
plt.show()

# %%
# What the certificate does not say: it is about the optimum of this problem, with these data and
# parameters. Whether that optimum predicts well is for a test set or for leave-one-out to tell.
