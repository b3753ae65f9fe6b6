"""
How do I save and share a model?
================================

With :func:`musvm.save` and :func:`musvm.load`. The file holds arrays, numbers and names, and no
code. A pickle can run anything when it is opened; this cannot. Loading builds objects of a closed
list of types and refuses everything else.
"""

import pickle
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import musvm
from musvm import UniversumSVC
from musvm.datasets import load_digits_universum

digits = load_digits_universum(classes=(0, 1, 2, 3), n_per_class=20, m=150, random_state=0)
X, y, U = digits.data, digits.target, digits.universum
folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "digits.skops")

# %%
# The model may be part of a pipeline. What comes back gives the same decision values, bit by bit.

scaler = StandardScaler().fit(X)
model = make_pipeline(scaler, UniversumSVC(C=10, gamma=0.002, delta=0.05))
model.fit(X, y, universumsvc__universum=scaler.transform(U))
musvm.save(model, path, summary={"data": "digits 0-3, twenty images each"})

same = musvm.load(path)
print("equal:", (same.decision_function(X) == model.decision_function(X)).all())
print("size: ", round(path.stat().st_size / 1000), "kB")

# %%
# What is not on the list is refused, before anything of it is built. Here a pickle by another name.

pretender = Path(folder.name, "pretender.skops")
pretender.write_bytes(pickle.dumps(model))
try:
    musvm.load(pretender)
except ValueError as refusal:
    print(refusal.args[0].replace(folder.name, "..."))

# %%
# A model that cannot be kept without code is not written either, such as one with a function for a
# kernel.

callable_kernel = UniversumSVC(kernel=lambda A, B: A @ B.T).fit(X, y)
try:
    musvm.save(callable_kernel, path)
except ValueError as refusal:
    print(refusal)

# %%
# The support vectors are part of the model, and so of the file: images of the training data and of
# the universum. Ask yourself whether you may share them. Here are eight of each, the heaviest.

svc = same[-1]
weights = abs(svc.dual_coef_).max(axis=0)
n_training = len(svc.support_)
heaviest = {
    "training": weights[:n_training].argsort()[::-1][:8],
    "universum": n_training + weights[n_training:].argsort()[::-1][:8],
}
figure, grid = plt.subplots(2, 8, figsize=(8, 2.2), layout="constrained")
for axes_row, (name, rows) in zip(grid, heaviest.items(), strict=True):
    pixels = same[0].inverse_transform(svc.support_vectors_[rows])
    for axes, image in zip(axes_row, pixels, strict=True):
        axes.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
    axes_row[0].set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()
folder.cleanup()
