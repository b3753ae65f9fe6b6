"""
A network that ends in an exact SVM
===================================

A small network is trained on few digits of four classes, each batch with images of the other digits
as its universum. Its last layer is then thrown away and replaced by a
:class:`~musvm.UniversumSVC` on the features in front of it, solved to a certified duality gap.

This example needs PyTorch (``pip install torch``) and is not run with these pages.
"""

# %%
# Forty images of the digits 0-3, and 300 images of the others, which are none of these.
import torch
from torch import nn

from musvm import UniversumSVC
from musvm.datasets import load_digits_universum
from musvm.torch import UniversumHingeLoss

torch.manual_seed(0)
torch.set_num_threads(1)
digits = load_digits_universum(
    classes=range(4), universum=range(4, 10), n_per_class=10, m=300, random_state=0
)
X, y = torch.as_tensor(digits.data), torch.as_tensor(digits.target)
U = torch.as_tensor(digits.universum)
X_test, y_test = torch.as_tensor(digits.data_test), torch.as_tensor(digits.target_test)

# %%
# The universum takes part in every step: its targets are negative. Weight decay on the last layer
# stands for the term ½ Σ‖w‖² of the SVM.
features = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).double()
last_layer = nn.Linear(32, 4, bias=False).double()
loss = UniversumHingeLoss(delta=0.1, universum_weight=40 / (300 * 4))
optimiser = torch.optim.Adam(
    [*features.parameters(), *last_layer.parameters()], lr=1e-2, weight_decay=1e-4
)
points, targets = torch.cat([X, U]), torch.cat([y, torch.full((len(U),), -1)])
for _ in range(200):
    optimiser.zero_grad()
    loss(last_layer(features(points)), targets).backward()
    optimiser.step()

# %%
# The exact last layer on the same features.
with torch.no_grad():
    svm = UniversumSVC(C=1.0, kernel="linear", delta=0.1)
    svm.fit(features(X), y, universum=features(U))
    network_accuracy = float((last_layer(features(X_test)).argmax(1) == y_test).double().mean())
    svm_accuracy = svm.score(features(X_test), y_test)

print(f"network {network_accuracy:.3f}, exact last layer {svm_accuracy:.3f}")
print(f"relative duality gap {svm.dual_gap_ / svm.objective_:.1e}")
