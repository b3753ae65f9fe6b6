"""
Can the model say "none of these"?
==================================

A classifier gives every input one of its classes, also an input that belongs to none. A
:class:`~musvm.RejectingClassifier` compares a score with a threshold first. With a universum the
score has been trained for this: the decision values of the universum are held together, those of
the classes apart.

The classes are the digits 0-4, the universum 5-7. The inputs to be rejected are 8s and 9s, which no
model has seen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.svm import SVC

from musvm import RejectingClassifier, UniversumSVC
from musvm.datasets import load_digits_universum

images, labels = load_digits(return_X_y=True)
foreign = images[labels >= 8] / 16

models = {
    "UniversumSVC with universum": UniversumSVC(C=10, gamma=1 / 8, delta=0.05),
    "UniversumSVC without": UniversumSVC(C=10, gamma=1 / 8, universum_weight=0),
    "SVC of scikit-learn": SVC(C=10, gamma=1 / 8, decision_function_shape="ovr"),
}


def draw(seed):
    return load_digits_universum(
        classes=range(5), universum=(5, 6, 7), n_per_class=20, m=200, random_state=seed
    )


# %%
# The threshold is set for a wanted share of accepted inputs of the classes, by cross-validation on
# the training images. :class:`~musvm.RejectingClassifier` works with any classifier that has a
# suitable score. It passes the universum on to those that can use it.

data = draw(seed=0)
fitted = {}
print("of the digits 0-4        of the digits 8 and 9")
print("accepted   right if so   accepted")
for name, model in models.items():
    rejecting = RejectingClassifier(model, reject_label=-1, target=0.95)
    fitted[name] = rejecting.fit(data.data, data.target, universum=data.universum)
    own, other = rejecting.predict(data.data_test), rejecting.predict(foreign)
    accepted = own != -1
    right = np.mean(own[accepted] == data.target_test[accepted])
    shares = 100 * accepted.mean(), 100 * right, 100 * np.mean(other != -1)
    print("{:6.1f} %   {:9.1f} %   {:6.1f} %   ".format(*shares) + name)

# %%
# Every threshold at once: how many foreign inputs are let in, for how many accepted ones of the
# classes.

figure, (curves, histogram) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
truth = np.r_[np.ones(len(data.data_test)), np.zeros(len(foreign))]
for (name, rejecting), style in zip(fitted.items(), ("-", "--", ":"), strict=True):
    scores = rejecting.score_samples(np.vstack([data.data_test, foreign]))
    let_in, accepted, _ = roc_curve(truth, scores)
    curves.plot(100 * let_in, 100 * accepted, style, linewidth=2, label=name)
curves.axhline(95, color="0.6", linewidth=1)
curves.set(xlabel="foreign inputs let in (%)", ylabel="inputs of the classes accepted (%)")
curves.set(xlim=(0, 60), ylim=(60, 101))
curves.legend(fontsize="small", loc="lower right")

rejecting = fitted["UniversumSVC with universum"]
groups = {"digits 0-4": data.data_test, "universum, 5-7": data.universum, "digits 8, 9": foreign}
colours = ("tab:blue", "black", "tab:red")
for (name, points), colour in zip(groups.items(), colours, strict=True):
    histogram.hist(
        rejecting.score_samples(points),
        np.linspace(0, 2.5, 51),
        density=True,
        histtype="step",
        linewidth=1.5,
        color=colour,
        label=name,
    )
histogram.axvline(rejecting.threshold_, color="0.5", linestyle="--", label="threshold")
histogram.set(xlabel="universum score", ylabel="density", yscale="log")
histogram.legend(fontsize="small")
plt.show()

# %%
# Over ten draws: the area under these curves, 1 for a perfect score and 0.5 for a useless one.

areas = {name: [] for name in models}
for seed in range(10):
    data = draw(seed)
    for name, model in models.items():
        options = {} if isinstance(model, SVC) else {"universum": data.universum}
        model.fit(data.data, data.target, **options)
        spreads = [np.ptp(model.decision_function(X), axis=1) for X in (data.data_test, foreign)]
        truth = np.repeat([1, 0], [len(part) for part in spreads])
        areas[name].append(roc_auc_score(truth, np.concatenate(spreads)))
for name, values in areas.items():
    difference = np.array(values) - areas["UniversumSVC without"]
    error = difference.std(ddof=1) / np.sqrt(len(values))
    print(
        f"{name:28s} area {np.mean(values):.3f}, "
        f"minus that without universum {difference.mean():+.3f} ± {error:.3f}"
    )
