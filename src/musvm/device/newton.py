"""Newton steps on a face (`dual/newton.py`) by conjugate gradients on a device.

All support vectors with free labels take part, so one step corrects what working sets, which see
a few of them at a time, correct slowly. K between them is held in floats: a step only proposes a
direction, and what D says of it is what counts. A product takes a fraction of a millisecond on a
GPU, so there is no preconditioner but the diagonal, and nothing is read back but the residual,
now and then. Where a direction has no positive curvature, by rounding or because the kernel is
indefinite, the step ends with what it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from musvm.dual.faces import Face
from musvm.dual.problem import FloatArray

TOL, MAX_ITER = 0.1, 100
# Iterations between looks at the residual.
LOOK_EVERY = 10
# Relative to the mean diagonal of K: what rounding to floats may take from its eigenvalues.
RIDGE = 1e-6


class SupportMatrix:
    """K between support vectors, (w, w) floats; see `Support` in `dual/working_set.py`."""

    def __init__(self, K: Tensor) -> None:
        self._K = K

    def product(self, change: FloatArray) -> FloatArray:
        return _on_host(self._K @ self._here(change.T)).T

    def newton_step(self, face: Face, slopes: FloatArray, ridge: float) -> FloatArray:
        groups = [self._here(mask) for mask in _groups(face, self._K.shape[0])]
        matrix = np.zeros(groups[0].shape)
        matrix[face.row, face.label] = slopes
        step = self._conjugate_gradients(self._here(matrix), groups, ridge)
        return _on_host(step)[face.row, face.label]

    def _conjugate_gradients(self, slopes: Tensor, groups: list[Tensor], ridge: float) -> Tensor:
        shift = ridge + RIDGE * self._K.diagonal().mean()
        diagonal = self._K.diagonal()[:, None] + shift
        diagonal = torch.where(diagonal > 0.0, diagonal, 1.0)
        step, residual = torch.zeros_like(slopes), -slopes
        direction = z = residual / diagonal
        rz, goes_on = (residual * z).sum(), torch.tensor(True, device=slopes.device)
        target = TOL**2 * (residual * residual).sum()
        for iteration in range(1, MAX_ITER + 1):
            H_direction = _centred(self._K @ direction, groups) + shift * direction
            curvature = (direction * H_direction).sum()
            goes_on = goes_on & (rz > 0.0) & (curvature > 0.0)
            length = torch.where(goes_on, rz / curvature, 0.0)
            step += length * direction
            residual -= length * H_direction
            if iteration % LOOK_EVERY == 0:
                left = (residual * residual).sum()
                if not bool(goes_on & (left > target)):
                    break
            z = residual / diagonal
            rz, previous = (residual * z).sum(), rz
            direction = z + torch.where(goes_on, rz / previous, 0.0) * direction
        return step

    def _here(self, values: Any) -> Tensor:
        return torch.as_tensor(values, dtype=self._K.dtype, device=self._K.device)


def _groups(face: Face, n_rows: int) -> list[Any]:
    """The free variables as (w, L) masks in which no row has two groups."""
    n_classes = int(face.label.max()) + 1
    row_of_group = face.row[face.starts[:-1]]
    second = np.r_[False, row_of_group[1:] == row_of_group[:-1]][face.group]
    masks = []
    for chosen in (~second, second):
        if chosen.any():
            mask = np.zeros((n_rows, n_classes))
            mask[face.row[chosen], face.label[chosen]] = 1.0
            masks.append(mask)
    return masks


def _centred(values: Tensor, groups: list[Tensor]) -> Tensor:
    """The values of the free variables less the mean of their group; 0 for all others."""
    parts = []
    for mask in groups:
        means = (values * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1.0)
        parts.append((values - means) * mask)
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _on_host(values: Tensor) -> FloatArray:
    return values.double().cpu().numpy()
