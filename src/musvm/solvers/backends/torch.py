"""Kernel rows on a device, in PyTorch tensors.

The kernel matrix is held in floats: all of it where it fits the memory that is free, computed once,
in row blocks; otherwise a cache of rows (`cache.py`). alpha and F are held in doubles, and
violations and gap are computed there. A round sends violations, K_WW and F_W to the host, which
descends, and changes of alpha_W back. Descent takes one row after another: a core of the host does
that faster than a block of threads of a GPU. Every few rounds a GPU takes a Newton step
(`torch_newton.py`) of all support vectors with free labels, where it holds the whole matrix and has
room for that between them.

Products are rounded to floats. Decision values for the certificate are computed in doubles from
the points themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from musvm._input.tensors import FloatArray, IntArray
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers.backends.cache import Slots
from musvm.solvers.backends.contract import LOOSENESS, MIN_ROWS, SIZE, Survey
from musvm.solvers.backends.torch_kernel import CHUNK, DeviceKernel
from musvm.solvers.backends.torch_newton import SupportMatrix

# On a GPU a Newton step is worth so many rounds, and working sets are smaller than the host's:
# Newton steps see to what they miss, and rounds are short.
NEWTON_EVERY = 20
GPU_SIZE = 1000
# Its rounds are short: descent on the host is what takes the time.
GPU_LOOSENESS = 0.3
# Of the memory that is free, this much is left to products, sorting and other people.
SPARED = 0.15


class DeviceRows:
    """alpha, F and kernel rows on a device: a `Backend` of `contract.py`.

    Parameters
    ----------
    kernel : with its parameters settled
    points : (M, d) doubles
    n_classes : L
    budget : bytes that kernel rows may take; on a GPU what is free there, if None
    """

    def __init__(
        self, kernel: Kernel, points: Tensor, n_classes: int, budget: float | None = None
    ) -> None:
        M = len(points)
        self._device = points.device
        self._kernel = DeviceKernel(kernel, points)
        self._alpha = points.new_zeros((M, n_classes))
        self._F = points.new_zeros((M, n_classes))
        self.diagonal: FloatArray = self._kernel.diagonal().cpu().numpy()
        budget = _free_bytes(self._device) if budget is None else budget
        self._cache = _Cache(self._kernel, M, _rows_that_fit(M, budget, self._device))
        on_gpu = self._device.type == "cuda"
        self.size = min(self._cache.n_slots, GPU_SIZE if on_gpu else SIZE)
        self.looseness = GPU_LOOSENESS if on_gpu else LOOSENESS
        self.newton_every = NEWTON_EVERY if on_gpu and self._cache.is_whole else 0
        # What K between support vectors may take.
        self._spare = 0.5 * _free_bytes(self._device) if on_gpu else budget
        self._pinned: Tensor | None = None
        self._problem: tuple[DualRows, DualRows] | None = None

    # What the solver asks for

    def survey(self, rows: DualRows) -> Survey:
        problem = self._on_device(rows)
        found = statement.kkt_violations(problem, self._alpha, self._F)
        gap, primal = statement.gap_and_primal(problem, self._alpha, self._F)
        return Survey(found.cpu().numpy(), gap, primal)

    def state_of(self, points: IntArray) -> tuple[FloatArray, FloatArray]:
        W = self._indices(points)
        return self._alpha[W].cpu().numpy(), self._F[W].cpu().numpy()

    def kernel_between(self, points: IntArray) -> Any:
        block = self._cache.between(self._indices(points))
        if self._device.type == "cpu":
            return block.numpy()
        if self._pinned is None:
            # Twice as fast as memory that the system may move.
            self._pinned = torch.empty(self.size**2, dtype=torch.float32, pin_memory=True)
        on_host = self._pinned[: block.numel()].view(block.shape)
        return on_host.copy_(block).numpy()

    def change(self, points: IntArray, alpha: FloatArray) -> None:
        self._set(self._indices(points), torch.as_tensor(alpha, device=self._device))

    def support(self, points: IntArray) -> SupportMatrix | None:
        S = self._indices(points)
        if 4.0 * len(S) ** 2 > self._spare:
            return None
        return SupportMatrix(self._cache.between(S))

    def restart(self, alpha: FloatArray) -> None:
        self._alpha = torch.as_tensor(alpha, dtype=torch.float64, device=self._device).clone()
        support = self._alpha.ne(0.0).any(1).nonzero()[:, 0]
        self._F = self._kernel.weighted(support, self._alpha[support])

    def solution(self) -> tuple[FloatArray, FloatArray]:
        return self._alpha.cpu().numpy(), self._F.cpu().numpy()

    # Pieces

    def _on_device(self, rows: DualRows) -> DualRows:
        """The rows with labels and caps on the device, sent there once."""
        if self._problem is None or self._problem[0] is not rows:
            y, caps = (torch.as_tensor(part, device=self._device) for part in (rows.y, rows.caps))
            self._problem = rows, replace(rows, y=y, caps=caps)
        return self._problem[1]

    def _indices(self, points: IntArray) -> Tensor:
        return torch.as_tensor(points, device=self._device)

    def _set(self, W: Tensor, alpha: Tensor) -> None:
        step = (alpha - self._alpha[W]).float()
        self._alpha[W] = alpha
        # In pieces: the rows are copied.
        for rows, part in zip(W.split(SIZE), step.split(SIZE), strict=True):
            self._F += self._cache.rows(rows).T @ part


class _Cache:
    """Kernel rows in slots; with a slot for every point, all of them from the start."""

    def __init__(self, kernel: DeviceKernel, n_points: int, n_slots: int) -> None:
        self._kernel = kernel
        self.n_slots = n_slots
        device = kernel.device
        self._rows = torch.empty((n_slots, n_points), dtype=torch.float32, device=device)
        self.is_whole = n_slots == n_points
        if self.is_whole:
            piece = max(CHUNK // n_points, 1)
            for start in range(0, n_points, piece):
                part = slice(start, min(start + piece, n_points))
                kernel.singles(part, out=self._rows[part])
        else:
            self._slots = Slots(n_points, n_slots, self._rows)

    def rows(self, W: Tensor) -> Tensor:
        return self._rows[self._places(W)]

    def between(self, W: Tensor) -> Tensor:
        return self._rows[self._places(W)[:, None], W]

    def _places(self, W: Tensor) -> Tensor:
        """Where the rows of these points are, once they are there."""
        if self.is_whole:
            return W
        missing, slots = self._slots.reserve(W)
        if len(missing):
            self._rows[slots] = self._kernel.singles(missing)
            self._slots.fill(missing, slots)
        return self._slots.of(W)


def _free_bytes(device: torch.device) -> float:
    """What kernel rows may take of the device's memory."""
    if device.type != "cuda":
        raise ValueError("the memory for kernel rows must be given on this device")
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float((1.0 - SPARED) * (free + unused))


def _rows_that_fit(n_points: int, budget: float, device: torch.device) -> int:
    n_slots = min(int(budget // (4 * n_points)), n_points)
    if n_slots >= min(MIN_ROWS, n_points):
        return n_slots
    raise MemoryError(
        f"{MIN_ROWS} kernel rows of {n_points} points take {4e-6 * n_points * MIN_ROWS:.3g} MB, "
        f"and {1e-6 * budget:.3g} MB are free for them on {device}: free memory there, use fewer "
        "points, or pass NumPy arrays."
    )
