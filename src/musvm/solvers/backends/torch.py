"""Kernel rows on a device, in PyTorch tensors.

The kernel matrix is held in floats: all of it where it fits the memory that is free, computed once,
in row blocks; otherwise a cache of rows (`cache.py`). alpha and F are held in doubles; violations
and gap are computed and working sets are chosen there. A round waits for the device once, for gap,
W, alpha_W, F_W and, where all of K is there, K_WW; the host descends, and sends alpha_W back.
Descent takes one row after another: a core of the host does that faster than a block of threads of
a GPU. Every few rounds a GPU takes a Newton step (`torch_newton.py`) of all support vectors with
free labels, where it holds the whole matrix and has room for that between them.

Memory: what the allocator keeps of earlier work is released where rows need it, part of what
is free is left to others, and where an allocation fails all the same, because another process was
quicker, the cache gives up half of its rows and the fit goes on.

Products are rounded to floats. Decision values for the certificate are computed in doubles from
the points themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from musvm._input.tensors import FloatArray, IntArray, to_host
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.kernels import Kernel
from musvm.solvers.backends.cache import Slots
from musvm.solvers.backends.choosing import LastSet, first_set
from musvm.solvers.backends.contract import LOOSENESS, MIN_ROWS, SIZE, SmallProblem, Survey
from musvm.solvers.backends.torch_kernel import CHUNK, DeviceKernel, like
from musvm.solvers.backends.torch_newton import SupportMatrix, after_newton_step
from musvm.solvers.backends.torch_replay import Replayed

# On a GPU a Newton step is worth so many rounds; it sees to what working sets of this size miss.
NEWTON_EVERY = 8
GPU_SIZE = 1500
# Its rounds are short: descent on the host is what takes the time. With 0.3 fits of MNIST take up
# to a tenth longer, with 0.6 a fifth.
GPU_LOOSENESS = 0.45
# Of the memory that is free, this much is left to products, sorting and other people.
SPARED = 0.4
# Rows that are copied at a time; changes of more than one in so many rows copy none.
ROWS_A_PIECE, MANY = 2048, 4
# Where more than one of so many points are support vectors, a Newton step copies nothing of K in
# floats, and judges its length with all of it.
MOST = 2
# Bytes that it takes for every pair of support vectors: half floats, and floats where it copies.
BYTES_IN_PLACE, BYTES_OF_A_COPY = 2.0, 6.0
# From this size on the memory of a Newton step is given back to the device, not kept for later.
KEPT_BYTES = 6e9
# Points of which a look copies the features at a time.
POINTS_A_LOOK = 2**16

T = TypeVar("T")


class DeviceRows:
    """alpha, F and kernel rows on a device: a `Backend` of `contract.py`.

    Parameters
    ----------
    kernel : with its parameters settled
    points : (M, d) doubles
    n_classes : L
    budget : bytes that kernel rows may take; on a GPU what is free there, if None
    kept : matrices of other solves, and the name of that of this kernel and these points
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Tensor,
        n_classes: int,
        budget: float | None = None,
        kept: tuple[KeptMatrices, Hashable] | None = None,
    ) -> None:
        M = len(points)
        self._device = points.device
        matrices, name = (KeptMatrices(), None) if kept is None else kept
        self._cache = matrices.cache(name, kernel, points, budget)
        self._kernel = self._cache.kernel
        self._alpha = points.new_zeros((M, n_classes))
        self._F = points.new_zeros((M, n_classes))
        self.diagonal: FloatArray = self._kernel.diagonal().cpu().numpy()
        on_gpu = self._device.type == "cuda"
        self.size = min(self._cache.n_slots, GPU_SIZE if on_gpu else SIZE)
        self.looseness = GPU_LOOSENESS if on_gpu else LOOSENESS
        self.newton_every = NEWTON_EVERY if on_gpu and self._cache.is_whole else 0
        # What K between support vectors may take.
        self._spare = _unused_bytes(self._device) if budget is None else budget
        self._staging = _Staging(self._device)
        self._problem: tuple[DualRows, DualRows] | None = None
        # The last working set, and what makes a survey and chooses the one after it.
        self._last: LastSet | None = None
        self._next: Replayed | None = None
        self._found: _Found | None = None

    # What the solver asks for

    def survey(self, rows: DualRows) -> Survey:
        self._found = self._with_room(lambda: self._surveyed(rows))
        worst, gap, primal = self._found.values[: len(_NUMBERS) - 1].tolist()
        return Survey(worst, gap, primal)

    def small_problem(self, random_state: np.random.RandomState) -> SmallProblem:
        found, (M, L) = self._found, self._alpha.shape
        if found is None:
            raise ValueError("a working set follows from a survey")
        if self._last is None or found.chosen is None:
            ties = like(self._alpha, random_state.random_sample(M))
            points = first_set(found.violations, min(self.size, M), ties)
            self._last = LastSet.first(points)
            W, worst = points.cpu().numpy(), found.violations[points].max()
            return SmallProblem(W, *self.state_of(W), self.kernel_between(W), float(worst))
        _follow(self._last, *found.chosen)
        numbers, points, alpha, F = _unpacked(found.values, L)
        W = points.astype(np.intp)
        gram = self.kernel_between(W) if found.gram is None else found.gram
        return SmallProblem(W, alpha, F, gram, float(numbers[_NUMBERS.index("worst of the set")]))

    def state_of(self, points: IntArray) -> tuple[FloatArray, FloatArray]:
        W = self._indices(points)
        return self._alpha[W].cpu().numpy(), self._F[W].cpu().numpy()

    def kernel_between(self, points: IntArray) -> Any:
        W = self._indices(points)
        (block,) = self._staging.on_host(self._with_room(lambda: self._cache.between(W)))
        return block

    def change(self, points: IntArray, alpha: FloatArray) -> None:
        self._set(self._indices(points), torch.as_tensor(alpha, device=self._device))

    def newton_step(self, rows: DualRows) -> None:
        S = self._alpha.ne(0.0).any(1).nonzero()[:, 0]
        in_place = MOST * len(S) > len(self._alpha)
        needed = (BYTES_IN_PLACE if in_place else BYTES_OF_A_COPY) * len(S) ** 2
        if not len(S) or needed > self._spare or not self._cache.is_whole:
            return
        problem = self._on_device(rows)
        is_training = S.lt(rows.n_train)
        some = replace(problem, y=problem.y[S[is_training]], caps=problem.caps[S])
        try:
            among = (self._cache.matrix, S) if in_place else (self._cache.between(S),)
            support = SupportMatrix(*among, quick=self._device.type == "cuda")
            moved = after_newton_step(some, self._alpha[S], self._F[S], support)
        except torch.cuda.OutOfMemoryError:
            # No step; the rounds go on, and the next try is a smaller one.
            self._spare = 0.5 * needed
            release(self._device)
            return
        del support, among
        if needed > KEPT_BYTES:
            release(self._device)
        self._set(S, moved)

    def start(self, alpha: FloatArray, decision: FloatArray) -> None:
        self._alpha.copy_(torch.as_tensor(alpha))
        self._F.copy_(torch.as_tensor(decision))

    def restart(self, alpha: FloatArray | None = None) -> None:
        # In place: surveys read these tensors.
        if alpha is not None:
            self._alpha.copy_(torch.as_tensor(alpha))
        support = self._alpha.ne(0.0).any(1).nonzero()[:, 0]
        weights = self._alpha[support]
        self._F.copy_(self._with_room(lambda: self._kernel.weighted(support, weights)))

    def solution(self) -> tuple[FloatArray, FloatArray]:
        return self._alpha.cpu().numpy(), self._F.cpu().numpy()

    # Pieces

    def _with_room(self, compute: Callable[[], T]) -> T:
        """What a function without side effects computes, with fewer cached rows if need be."""
        while True:
            try:
                return compute()
            except torch.cuda.OutOfMemoryError as error:
                if self._cache.n_slots < 2 * self.size:
                    raise _out_of_memory(len(self._alpha), self._device) from error
            self._next = None
            self._cache.halve()

    def _surveyed(self, rows: DualRows) -> _Found:
        problem = self._on_device(rows)
        if self._last is None:
            violations, numbers = _survey_of(problem, self._alpha, self._F)
            (values,) = self._staging.on_host(numbers)
            return _Found(values, violations)
        if self._next is None:
            # It must not know this object, which would then wait for Python to collect cycles.
            cache = self._cache if self._cache.is_whole else None
            choose = partial(_survey_and_choose, problem, self._alpha, self._F, self._last, cache)
            self._next = Replayed(choose, self._device)
        violations, chosen, *parts = self._next()
        values, *gram = self._staging.on_host(*parts)
        return _Found(values, violations, chosen, *gram)

    def _on_device(self, rows: DualRows) -> DualRows:
        """The rows with labels and caps on the device, sent there once."""
        if self._problem is None or self._problem[0] is not rows:
            self._problem, self._next = (rows, rows.beside(self._alpha)), None
        return self._problem[1]

    def _indices(self, points: IntArray) -> Tensor:
        return torch.as_tensor(points, device=self._device)

    def _set(self, W: Tensor, alpha: Tensor) -> None:
        step = (alpha - self._alpha[W]).float()
        self._alpha[W] = alpha
        if len(W) > len(self._alpha) // MANY and self._cache.is_whole:
            # All rows where they are cost less than copies of these.
            whole = step.new_zeros(self._alpha.shape).index_copy_(0, W, step)
            self._F += self._cache.matrix @ whole
            return
        # In pieces: the rows are copied.
        for rows, part in zip(W.split(self.size), step.split(self.size), strict=True):
            self._F += self._with_room(partial(self._times, rows, part))

    def _times(self, rows: Tensor, step: Tensor) -> Tensor:
        return self._cache.rows(rows).T @ step


# What a survey says of all rows, and of the next working set.
_NUMBERS = ("worst", "gap", "primal", "worst of the set")


class _Found(NamedTuple):
    """What a survey found: numbers on the host, violations on the device.

    After the first working set, `values` also hold what there is to know of the next one, which is
    `chosen`; its K is there where the device has all of K.
    """

    values: FloatArray
    violations: Tensor
    chosen: tuple[Tensor, Tensor] | None = None
    gram: Any = None


def _follow(last: LastSet, points: Tensor, is_new: Tensor) -> None:
    """Make the last working set the next one, in tensors that stay where they are."""
    last.points.copy_(points)
    last.is_new.copy_(is_new)
    last.is_odd.logical_not_()


def _survey_of(problem: DualRows, alpha: Tensor, F: Tensor) -> tuple[Tensor, Tensor]:
    """(M,) violations, and the worst of them, gap and primal."""
    violations = statement.kkt_violations(problem, alpha, F)
    gap_and_primal = statement.stacked_gap_and_primal(problem, alpha, F)
    return violations, torch.cat([violations.max()[None], gap_and_primal])


def _survey_and_choose(
    problem: DualRows, alpha: Tensor, F: Tensor, last: LastSet, cache: _Cache | None
) -> tuple[Any, ...]:
    """Violations, the next working set, what `_unpacked` takes apart and, with all of K, K_WW."""
    violations, numbers = _survey_of(problem, alpha, F)
    W, is_new = last.next(violations, len(last.points))
    parts = numbers, violations[W].max()[None], W.double(), alpha[W].view(-1), F[W].view(-1)
    gram = () if cache is None else (cache.between(W),)
    return violations, (W, is_new), torch.cat(parts), *gram


def _unpacked(values: FloatArray, n_classes: int) -> tuple[FloatArray, ...]:
    """Numbers, (w,) points, and alpha and F, (w, L), of a working set."""
    numbers, rest = np.split(values, [len(_NUMBERS)])
    points, alpha, F = np.split(
        rest, [(size := len(rest) // (1 + 2 * n_classes)), size * (1 + n_classes)]
    )
    return numbers, points, alpha.reshape(size, -1), F.reshape(size, -1)


class _Staging:
    """Memory of the host that a device writes to, twice as fast as to what the system may move."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._kept: dict[tuple[torch.dtype, int], Tensor] = {}

    def on_host(self, *tensors: Tensor) -> list[Any]:
        """Tensors of different types as arrays, until the next ones of these types."""
        if self._device.type == "cpu":
            return [tensor.numpy() for tensor in tensors]
        copies = [self._room(tensor).copy_(tensor, non_blocking=True) for tensor in tensors]
        torch.cuda.current_stream(self._device).synchronize()
        return [copy.numpy() for copy in copies]

    def _room(self, tensor: Tensor) -> Tensor:
        key = tensor.dtype, tensor.numel()
        if key not in self._kept:
            self._kept[key] = torch.empty(key[1], dtype=key[0], pin_memory=True)
        return self._kept[key].view(tensor.shape)


class DeviceField:
    """All points on a device: a `Field` of `contract.py`; parameters as `DeviceRows`."""

    looks_roughly = True
    # Rounds of more points take little longer, and passes are fewer.
    one_of, first_tol = 8, 0.3

    def __init__(
        self, kernel: Kernel, points: Tensor, n_classes: int, budget: float | None = None
    ) -> None:
        self._kernel = kernel
        self._points = points
        self._n_classes = n_classes
        self._budget = budget

    @property
    def room(self) -> int | None:
        """On a GPU those whose whole kernel matrix it holds: it takes no Newton steps otherwise."""
        device = self._points.device
        return KeptMatrices().most_points(device) if device.type == "cuda" else None

    def backend(self, points: IntArray) -> DeviceRows:
        return DeviceRows(self._kernel, self._taken(points), self._n_classes, self._budget)

    def look(
        self,
        rows: DualRows,
        points: IntArray,
        support: IntArray,
        alpha: FloatArray,
        *,
        roughly: bool = False,
    ) -> tuple[FloatArray, FloatArray]:
        vectors, weights = self._taken(support), like(self._points, alpha)
        F = [
            self._decision_values(part, vectors, weights, roughly) for part in self._indices(points)
        ]
        values = torch.cat(F) if F else self._points.new_zeros((0, self._n_classes))
        return to_host(statement.losses(rows.beside(values), values)), to_host(values)

    def _indices(self, points: IntArray) -> tuple[Tensor, ...]:
        pieces: tuple[Tensor, ...] = like(self._points, points).split(POINTS_A_LOOK)
        return pieces

    def _decision_values(
        self, points: Tensor, vectors: Tensor, alpha: Tensor, roughly: bool
    ) -> Tensor:
        if not len(vectors):
            return self._points.new_zeros((len(points), self._n_classes))
        kernel = DeviceKernel(self._kernel, self._points[points], vectors)
        if roughly:
            return kernel.roughly_weighted(alpha)
        return kernel.weighted(slice(None), alpha)

    def _taken(self, points: IntArray) -> Tensor:
        return self._points[like(self._points, points)]


class _Cache:
    """Kernel rows in slots; with a slot for every point, all of them from the start.

    There are fewer where memory for so many cannot be had.
    """

    def __init__(self, kernel: DeviceKernel, n_points: int, n_slots: int) -> None:
        self.kernel = kernel
        self._n_points = n_points
        self._allocate(n_slots)
        if self.is_whole:
            piece = max(CHUNK // n_points, 1)
            for start in range(0, n_points, piece):
                part = slice(start, min(start + piece, n_points))
                kernel.singles(part, out=self._rows[part])

    def _allocate(self, n_slots: int) -> None:
        """Have room for so many rows, or for half as many, and so on."""
        self._rows = _rows_on(self.kernel.device, n_slots, self._n_points)
        self.n_slots = len(self._rows)
        self.is_whole = self.n_slots == self._n_points
        if not self.is_whole:
            self._slots = Slots(self._n_points, self.n_slots, self._rows)

    def halve(self) -> None:
        """Give up half of the rows, and forget the others."""
        self._rows = self._rows[:0].clone()
        release(self.kernel.device)
        self._allocate(self.n_slots // 2)

    @property
    def matrix(self) -> Tensor:
        """K, where all of it is there."""
        return self._rows

    def rows(self, W: Tensor) -> Tensor:
        return self._rows[self._places(W)]

    def between(self, W: Tensor) -> Tensor:
        places = self._places(W)
        if len(W) <= ROWS_A_PIECE:
            return self._rows[places[:, None], W]
        # In pieces: whole rows are copied on the way, and pairs of indices would be twice K.
        found = self._rows.new_empty((len(W), len(W)))
        for rows, part in zip(places.split(ROWS_A_PIECE), found.split(ROWS_A_PIECE), strict=True):
            torch.index_select(self._rows.index_select(0, rows), 1, W, out=part)
        return found

    def _places(self, W: Tensor) -> Tensor:
        """Where the rows of these points are, once they are there."""
        if self.is_whole:
            return W
        missing, slots = self._slots.reserve(W)
        if len(missing):
            self._rows[slots] = self.kernel.singles(missing)
            self._slots.fill(missing, slots)
        return self._slots.of(W)


class KeptMatrices:
    """Whole kernel matrices that solves of the same points share, by name.

    Those that were used last are kept, as many as leave room for one more.
    """

    def __init__(self) -> None:
        self._caches: dict[Hashable, _Cache] = {}

    def cache(self, name: Hashable, kernel: Kernel, points: Tensor, budget: float | None) -> _Cache:
        """Kernel rows of points that go by this name; parameters as `DeviceRows`."""
        found = self._caches.pop(name, None)
        if found is None or not found.is_whole:
            # What is not whole must not be in the way of what is.
            found = None
            room = self._room(4.0 * len(points) ** 2, points.device, budget)
            n_slots = _rows_that_fit(len(points), room, points.device)
            found = _Cache(DeviceKernel(kernel, points), len(points), n_slots)
        if found.is_whole:
            self._caches[name] = found
        return found

    def most_points(self, device: torch.device) -> int:
        """Of how many points a GPU holds the whole matrix, once those kept make way."""
        kept = sum(4.0 * cache.n_slots**2 for cache in self._caches.values())
        return int(((_unused_bytes(device) + (1.0 - SPARED) * kept) / 4.0) ** 0.5)

    def _room(self, n_bytes: float, device: torch.device, budget: float | None) -> float:
        """Bytes for one more matrix; as few as need be of those kept make way for it."""
        while True:
            taken = sum(4.0 * cache.n_slots**2 for cache in self._caches.values())
            room = _free_bytes(device, n_bytes) if budget is None else budget - taken
            if room >= n_bytes or not self._caches:
                return room
            del self._caches[next(iter(self._caches))]


def release(device: torch.device) -> None:
    """Give back what the allocator keeps for later: in pieces of other sizes it is of no use."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _rows_on(device: torch.device, n_rows: int, n_points: int) -> Tensor:
    """An empty matrix of floats with so many rows, or as many as can be had by halving."""
    while True:
        try:
            return torch.empty((n_rows, n_points), dtype=torch.float32, device=device)
        except torch.cuda.OutOfMemoryError as error:
            if n_rows <= MIN_ROWS:
                raise _out_of_memory(n_points, device) from error
        release(device)
        n_rows = max(n_rows // 2, MIN_ROWS)


def _free_bytes(device: torch.device, wanted: float) -> float:
    """What kernel rows may take of the device's memory.

    Where that is less than is wanted, what the allocator keeps is released first: it takes as long
    as a small fit.
    """
    if device.type != "cuda":
        raise ValueError("the memory for kernel rows must be given on this device")
    free, _ = torch.cuda.mem_get_info(device)
    if (1.0 - SPARED) * free < wanted:
        release(device)
    return _unused_bytes(device)


def _unused_bytes(device: torch.device) -> float:
    """The same with what the allocator keeps, which takes less time to count than to release."""
    return (1.0 - SPARED) * unused_bytes(device)


def unused_bytes(device: torch.device) -> float:
    """All that is free on a GPU, and what the allocator keeps."""
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(free + kept)


def _rows_that_fit(n_points: int, budget: float, device: torch.device) -> int:
    n_slots = min(int(budget // (4 * n_points)), n_points)
    if n_slots >= min(MIN_ROWS, n_points):
        return n_slots
    raise _out_of_memory(n_points, device, budget)


def _out_of_memory(n_points: int, device: torch.device, budget: float = 0.0) -> MemoryError:
    there = f"{1e-6 * budget:.3g} MB are" if budget else "that much is not"
    return MemoryError(
        f"{MIN_ROWS} kernel rows of {n_points} points take {4e-6 * n_points * MIN_ROWS:.3g} MB, "
        f"and {there} free for them on {device}: free memory there, use fewer points, or pass "
        "NumPy arrays."
    )
