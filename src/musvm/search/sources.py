"""Where the kernel values of a search come from.

Gram matrices, each entry computed once as long as memory allows: step (a) needs the training blocks
only, for every kernel; the others all blocks, for the kernel chosen. So the training part is
computed first and extended when the universum joins.

Beyond `GRAM_LIMIT` points, folds are fitted on whatever path a fit takes, from points. On a device
the cells of one part and one kernel share their kernel matrix.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from musvm._input.blocks import Blocks
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray, is_tensor
from musvm.kernels import Kernel, make_symmetric, warn_if_indefinite
from musvm.search.cells import Points, Source
from musvm.solvers.choose import shared_matrices

# Matrices that are no longer in use are kept up to this many bytes.
KEPT_BYTES = 2**28


class Sources(Protocol):
    """The kernel values of the training blocks, and of all blocks, by kernel."""

    @property
    def n_kept(self) -> int:
        """How many of them may be kept."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether no two cells are solved side by side, whatever the number of workers."""

    def training(self, kernel: Kernel) -> Source:
        """Those of the training blocks."""

    def full(self, kernel: Kernel) -> Source:
        """Those of all blocks, training blocks first."""

    def forget(self) -> None:
        """Keep the latest only, as many as allowed."""


class PointSources:
    """The points themselves, which a solver takes in place of a matrix."""

    def __init__(self, data: FitData, blocks: Blocks, cache_size: float) -> None:
        self._data = data
        self._blocks = blocks
        self._cache_size = cache_size
        self._matrices = shared_matrices(data.X)

    @property
    def n_kept(self) -> int:
        return 1

    @property
    def one_at_a_time(self) -> bool:
        return is_tensor(self._data.X)

    def training(self, kernel: Kernel) -> Points:
        return self.full(kernel)

    def full(self, kernel: Kernel) -> Points:
        data = self._data
        rows, matrices = self._blocks.rows, self._matrices
        return Points(kernel, data.X, rows, data.resolution, self._cache_size, matrices)

    def forget(self) -> None:
        """There is nothing to forget."""


class Grams:
    """Gram matrices of the blocks of a fit, by kernel."""

    one_at_a_time = False

    def __init__(self, data: FitData, blocks: Blocks) -> None:
        self._data = data
        self._blocks = blocks
        self._n = len(blocks.y)
        self._training: dict[Kernel, FloatArray] = {}
        self._warned = False
        self._latest: tuple[Kernel, FloatArray] | None = None

    @property
    def n_kept(self) -> int:
        """How many training matrices may be kept."""
        return max(1, KEPT_BYTES // (8 * self._n**2))

    def training(self, kernel: Kernel) -> FloatArray:
        """The matrix of the training blocks."""
        if kernel not in self._training:
            rows = self._blocks.rows[: self._n]
            gram = kernel.gram(self._data.X, rows, resolution=self._data.resolution)
            self._examine(kernel, gram)
            self._training[kernel] = gram
        return self._training[kernel]

    def forget(self) -> None:
        """Keep the latest matrices only, as many as allowed."""
        for kernel in list(self._training)[: -self.n_kept]:
            del self._training[kernel]

    def full(self, kernel: Kernel) -> FloatArray:
        """The matrix of all blocks, training blocks first; only the latest is kept."""
        if self._latest is None or self._latest[0] != kernel:
            self._latest = None
            self._latest = kernel, self._extended(kernel)
        return self._latest[1]

    def _extended(self, kernel: Kernel) -> FloatArray:
        X, rows, n = self._data.X, self._blocks.rows, self._n
        if kernel.is_precomputed:
            gram = kernel.gram(X, rows, resolution=self._data.resolution)
            self._examine(kernel, gram)
            return gram
        gram = np.empty((len(rows), len(rows)))
        gram[:n, :n] = self.training(kernel)
        gram[n:] = kernel.matrix(X[rows[n:]], X[rows])
        # A user's function need not be symmetric: both images are computed, and compared.
        across = (
            kernel.matrix(X[rows[:n]], X[rows[n:]]) if callable(kernel.name) else gram[n:, :n].T
        )
        gram[:n, n:] = across
        make_symmetric(gram, resolution=self._data.resolution)
        self._examine(kernel, gram)
        return gram

    def _examine(self, kernel: Kernel, gram: FloatArray) -> None:
        """Warn of indefinite matrices, once in a search."""
        self._warned = self._warned or warn_if_indefinite(
            kernel, gram, resolution=self._data.resolution
        )
