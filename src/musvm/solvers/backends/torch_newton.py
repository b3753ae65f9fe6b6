"""Newton steps on a face (`musvm.dual.newton`) by conjugate gradients on a device.

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

from musvm._input.tensors import FloatArray
from musvm.dual.conjugate_gradients import conjugate_gradients
from musvm.dual.faces import Face

TOL, MAX_ITER = 0.1, 100
# Iterations between looks at the residual.
LOOK_EVERY = 10
# Relative to the mean diagonal of K: what rounding to floats may take from its eigenvalues.
RIDGE = 1e-6


class SupportMatrix:
    """K between support vectors, (w, w) floats: a `Support` of `contract.py`."""

    def __init__(self, K: Tensor) -> None:
        self._K = K

    def product(self, change: FloatArray) -> FloatArray:
        return _on_host(self._K @ self._here(change.T)).T

    def newton_step(self, face: Face, slopes: FloatArray, ridge: float) -> FloatArray:
        w, n_labels = len(self._K), int(face.label.max()) + 1
        codes = face.codes(n_labels, w).T
        groups = [self._here(codes == code) for code in (1, 2) if (codes == code).any()]
        matrix = np.zeros((w, n_labels))
        matrix[face.row, face.label] = slopes
        step = self._conjugate_gradients(self._here(matrix), groups, ridge)
        return _on_host(step)[face.row, face.label]

    def _conjugate_gradients(self, slopes: Tensor, groups: list[Tensor], ridge: float) -> Tensor:
        """One system, whose vectors are (w, L) matrices."""
        shift = ridge + RIDGE * self._K.diagonal().mean()
        diagonal = self._K.diagonal()[:, None] + shift
        diagonal = torch.where(diagonal > 0.0, diagonal, 1.0)

        def product(v: Tensor) -> Tensor:
            direction = v.view_as(slopes)
            image = _centred(self._K @ direction, groups) + shift * direction
            return image.view(1, -1)

        def precondition(v: Tensor) -> Tensor:
            return (v.view_as(slopes) / diagonal).view(1, -1)

        found = conjugate_gradients(
            product,
            precondition,
            -slopes.view(1, -1),
            tol=TOL,
            max_iter=MAX_ITER,
            look_every=LOOK_EVERY,
        )
        return found.x.view_as(slopes)

    def _here(self, values: Any) -> Tensor:
        return torch.as_tensor(values, dtype=self._K.dtype, device=self._K.device)


def _centred(values: Tensor, groups: list[Tensor]) -> Tensor:
    """The values of the free variables less the mean of their group; 0 for all others."""
    parts = []
    for mask in groups:
        means = (values * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1.0)
        parts.append((values - means) * mask)
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _on_host(values: Tensor) -> FloatArray:
    on_host: FloatArray = values.double().cpu().numpy()
    return on_host
