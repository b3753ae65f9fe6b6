"""The whole of MNIST on a GPU, next to the same machine's processor.

    python benchmarks/gpu.py [--quick] [--only PART] [--processor] [--sample FILE]

times    What does a fit cost on tensors that lie on the GPU, to relative gaps of 1e-3 and 1e-5,
         with a universum, and on twice the points? Beside it the bare kernel matrix and, with
         --processor, our own path there and scikit-learn's SVC, which take minutes.
phases   Where does the time go, by device events and the host's clock, and what share of the
         measured matrix rate and bandwidth do kernel and update achieve?
search   What does a search of the paper's size cost on tensors, and on arrays?
scale    How do time, rounds and memory grow, to half a million points (shifted images)?
repeats  Do ten large fits in a row in one process, and two processes at once, get their memory?
million  A universum of a million points (blends of two images of different classes).
linear   A linear kernel of very many points and few columns (`tall.py`), and of MNIST: interior
         points on the GPU next to the same method, or descent, on the processor's cores.

The last four are run when asked for, and have pages of their own.

It needs PyTorch, a GPU, and MNIST's four files in `mnist` in the data folder. Fits start from
floats on the GPU and end with a model; a small fit before them starts PyTorch and its libraries.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.svm import SVC

import tall
from _shared import Report, Table, data_file, timed, traffic_signs
from musvm import UniversumSVC, UniversumSVCCV
from musvm.datasets import load_mnist
from musvm.kernels import Kernel
from musvm.solvers import working_set
from musvm.solvers.backends.torch import DeviceRows, _Cache

C, GAMMA, DELTA = 10.0, 0.02, 0.1
# Points that a linear kernel's processor column is made for: more take minutes.
MOST_ON_PROCESSOR = 200_000
DEVICE = "cuda"


class Task:
    """Points on the host and on the device, with labels and universum."""

    def __init__(self, name: str, X: np.ndarray, y: np.ndarray, U: np.ndarray | None) -> None:
        self.name, self.y = name, y
        self.X, self.U = X, U
        self.there = [None if part is None else on_device(part, np.float32) for part in (X, U)]
        self.y_there = on_device(y, np.int64)

    @property
    def size(self) -> int:
        return len(self.X) + (0 if self.U is None else len(self.U))

    def fit(self, tol: float, *, on_gpu: bool) -> UniversumSVC:
        model = UniversumSVC(C, gamma=GAMMA, delta=DELTA, tol=tol)
        if not on_gpu:
            return model.fit(self.X, self.y, universum=self.U)
        X, U = self.there
        return model.fit(X, self.y_there, universum=U)


def on_device(array: np.ndarray, dtype: type) -> torch.Tensor:
    return torch.as_tensor(array.astype(dtype), device=DEVICE)


def tasks(quick: bool) -> list[Task]:
    X, y = load_mnist(data_file("mnist"), return_X_y=True)
    if quick:
        X, y = X[:6000], y[:6000]
    known = y < 7
    shifted = np.roll(X.reshape(-1, 28, 28), 1, axis=2).reshape(X.shape)
    return [
        Task("ten classes", X, y, None),
        Task("seven classes, universum", X[known], y[known], X[~known]),
        Task("with shifted copies", np.vstack([X, shifted]), np.tile(y, 2), None),
    ]


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Wall-clock time of one call, the device's work included."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def kernel_matrix(task: Task) -> float:
    """Time of the bare kernel matrix in floats, as the fit computes it."""
    parts = [part for part in task.there if part is not None]
    points = torch.cat(parts).double()
    took, rows = seconds(lambda: DeviceRows(Kernel("rbf", GAMMA), points, 2))
    del rows
    torch.cuda.empty_cache()
    return took


# ---------------------------------------------------------------------------------------------
# Times


def measure_times(report: Report, all_tasks: list[Task], *, processor: bool) -> None:
    table = Table(
        "Fits on a GPU",
        ("task", "points", "tol", "GPU s", "kernel s", "rounds", "gap", "CPU s", "SVC s"),
        f"RBF, C = {C:g}, gamma = {GAMMA:g}, Delta = {DELTA:g}; GPU: a fit on tensors, the faster "
        "of two; kernel: the bare kernel matrix there; CPU: the same fit on arrays; SVC: "
        "scikit-learn's, to its own tolerance of 1e-3, where it solves about the same task in "
        "minutes. One run each on the processor, which is left alone unless asked for.",
    )
    for task in all_tasks:
        for tol in (1e-3, 1e-5) if task is all_tasks[0] else (1e-3,):
            took, model = min((seconds(lambda t=task, e=tol: t.fit(e, on_gpu=True))
                               for _ in range(2)), key=lambda pair: pair[0])  # fmt: skip
            peers: list[Any] = [""] * 2
            if processor:
                peers[0], host = seconds(lambda t=task, e=tol: t.fit(e, on_gpu=False))
                agree(task, model, host)
            if processor and task is all_tasks[0] and tol == 1e-3:
                svc = SVC(C=C, gamma=GAMMA, cache_size=8000)
                peers[1], _ = seconds(lambda s=svc, t=task: s.fit(t.X, t.y))
            gap = model.dual_gap_ / model.objective_
            table.add(
                task.name, task.size, f"{tol:g}", took, kernel_matrix(task), model.n_iter_,
                f"{gap:.1e}", *peers,
            )  # fmt: skip
            print(table.rows[-1], flush=True)
    first, universum = table.rows[0][3], table.rows[2][3]
    table.goal("60,000 points in under 2 s", first < 2.0, f"{first:.2f} s")
    table.goal("with universum under 4 s", universum < 4.0, f"{universum:.2f} s")
    report.add(table)


def agree(task: Task, there: UniversumSVC, host: UniversumSVC) -> None:
    """Refuse to report times of two different models."""
    apart = abs(there.objective_ - host.objective_)
    certified = max(there.dual_gap_, host.dual_gap_)
    differ = int(np.sum(there.predict(task.X[:5000]) != host.predict(task.X[:5000])))
    print(f"{task.name}: objectives {apart:.2g} apart, certified {certified:.2g}; "
          f"{differ} of 5000 predictions differ")  # fmt: skip
    if apart > certified:
        raise AssertionError(f"{task.name}: the objectives differ by more than their gaps")


# ---------------------------------------------------------------------------------------------
# Phases


PHASES = ("kernel", "update", "descent", "Newton steps", "survey and choice", "certificate")


@contextmanager
def recorded(phases: dict[str, list]) -> Iterator[None]:
    """Collect device events around the pieces of a fit, and seconds of what the host does."""
    pieces = [(_Cache, "__init__", "kernel"), (DeviceRows, "change", "update"),
              (DeviceRows, "survey", "survey and choice"), (DeviceRows, "restart", "certificate"),
              (DeviceRows, "newton_step", "Newton steps")]  # fmt: skip
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in pieces]
    for owner, name, label in pieces:
        setattr(owner, name, _with_events(getattr(owner, name), phases[label]))
    DeviceRows.change = _with_count(DeviceRows.change, phases["rows"])
    descend = working_set.descend
    working_set.descend = _with_clock(descend, phases["descent"])
    try:
        yield
    finally:
        working_set.descend = descend
        for owner, name, function in kept:
            setattr(owner, name, function)


def _with_events(function: Callable, pairs: list) -> Callable:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        result = function(*arguments, **named)
        last.record()
        pairs.append((first, last))
        return result

    return wrapped


def _with_count(function: Callable, counts: list) -> Callable:
    def wrapped(rows: DeviceRows, points: np.ndarray, alpha: np.ndarray) -> None:
        counts.append(len(points))
        function(rows, points, alpha)

    return wrapped


def _with_clock(function: Callable, spent: list) -> Callable:
    def wrapped(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = function(*arguments)
        spent.append(time.perf_counter() - start)
        return result

    return wrapped


def ceilings() -> tuple[float, float]:
    """Measured: operations per second of a product of floats, bytes per second of a copy."""
    A = torch.rand((8192, 8192), device=DEVICE)
    B = torch.empty((2**30,), device=DEVICE)
    B.uniform_()
    A @ A, B.clone()
    product = min(seconds(lambda: A @ A)[0] for _ in range(5))
    copy = min(seconds(B.clone)[0] for _ in range(5))
    return 2.0 * 8192**3 / product, 8.0 * 2**30 / copy


def measure_phases(report: Report, all_tasks: list[Task]) -> None:
    rate, bandwidth = ceilings()
    table = Table(
        "Where the time of a fit goes, in seconds",
        ("task", "tol", "whole", *PHASES, "rest", "kernel % of rate", "update % of bandwidth"),
        "Device events, and the host's clock for the descent; the rest is the host's: reading the "
        "points, equal rows, support vectors. Survey and choice: with the working set's kernel on "
        "its way to the host. Measured ceilings: "
        f"{rate / 1e12:.1f} Tflop/s for products of floats, {bandwidth / 1e12:.2f} TB/s for a "
        "copy. Update: the bytes of the kernel rows used, once.",
    )  # fmt: skip
    for task, tol in [(all_tasks[0], 1e-3), (all_tasks[0], 1e-5),
                      (all_tasks[1], 1e-3), (all_tasks[2], 1e-3)]:  # fmt: skip
        phases: dict[str, list] = defaultdict(list)
        with recorded(phases):
            whole, _ = seconds(lambda t=task, e=tol: t.fit(e, on_gpu=True))
        spent = {label: _total(phases[label]) for label in PHASES}
        work = 2.0 * task.size**2 * (task.X.shape[1] + 2)
        moved = 4.0 * task.size * sum(phases["rows"])
        table.add(
            task.name, f"{tol:g}", whole, *spent.values(), whole - sum(spent.values()),
            100.0 * work / spent["kernel"] / rate, 100.0 * moved / spent["update"] / bandwidth,
        )  # fmt: skip
        largest = max(spent, key=lambda label: spent[label])
        table.goal(
            f"{task.name}, {tol:g}: descent is not the largest part",
            largest != "descent",
            f"{100 * spent['descent'] / whole:.0f} % of the fit; the largest part is {largest}",
        )
    report.add(table)


def _total(pairs: list) -> float:
    return sum(p if isinstance(p, float) else 1e-3 * p[0].elapsed_time(p[1]) for p in pairs)


# ---------------------------------------------------------------------------------------------
# A search


def measure_search(report: Report, file: str | None) -> None:
    if file is None:
        sample = traffic_signs()
        X, y, U = sample.X, sample.y, sample.universum
    else:
        stored = np.load(file)
        X, y, U = stored["X"], stored["y"], stored["universum"]
    there = [on_device(X, np.float64), on_device(y, np.int64), on_device(U, np.float64)]

    def search(*data: Any) -> UniversumSVCCV:
        return UniversumSVCCV(kernel="linear").fit(data[0], data[1], universum=data[2])

    host_time, host = timed(lambda: search(X, y, U), repeats=3)
    gpu_time, gpu = timed(lambda: search(*there), repeats=3)
    if gpu.best_params_ != host.best_params_:
        raise AssertionError("the searches choose different models")
    table = Table(
        f"A two-step search on the traffic signs: n = {len(X)}, m = {len(U)}",
        ("input", "s"),
        "Medians; both run on the processor, and choose the same model.",
    )
    table.add("arrays", host_time)
    table.add("tensors on the GPU", gpu_time)
    table.goal("tensors are not slower", gpu_time < 1.1 * host_time, f"{gpu_time / host_time:.2f}x")
    report.add(table)


# ---------------------------------------------------------------------------------------------
# Half a million points, a million of the universum, and memory


SHIFTS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
COLUMNS = ("task", "points", "delta", "tol", "s", "rounds", "gap", "support vectors", "GiB")
CONDITIONS = (
    f"RBF, C = {C:g}, gamma = {GAMMA:g}; one run each on tensors of floats. GiB: the peak of what "
    "PyTorch's allocator held, the data included."
)


def images(quick: bool) -> tuple[torch.Tensor, torch.Tensor]:
    X, y = load_mnist(data_file("mnist"), return_X_y=True)
    n = 3000 if quick else len(X)
    return on_device(X[:n], np.float32), on_device(y[:n], np.int64)


def shifted(X: torch.Tensor, y: torch.Tensor, n_shifts: int) -> tuple[torch.Tensor, torch.Tensor]:
    square = X.view(-1, 28, 28)
    copies = [torch.roll(square, shift, (1, 2)).reshape(len(X), -1) for shift in SHIFTS[:n_shifts]]
    return torch.cat(copies), y.repeat(n_shifts)


def add_fit(
    table: Table, task: str, X: torch.Tensor, y: torch.Tensor, U: torch.Tensor | None = None,
    *, tol: float = 1e-3, delta: float = 0.0,
) -> tuple[float, int]:  # fmt: skip
    """One row of a table: seconds and rounds are returned."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = UniversumSVC(C, gamma=GAMMA, delta=delta, tol=tol)
    took, _ = seconds(lambda: model.fit(X, y, universum=U))
    n_support = len(model.support_) + len(model.universum_support_)
    table.add(
        task, len(X) + (0 if U is None else len(U)), "" if U is None else delta, f"{tol:g}", took,
        model.n_iter_, f"{model.dual_gap_ / model.objective_:.1e}", n_support,
        torch.cuda.max_memory_reserved() / 2**30,
    )  # fmt: skip
    print(table.rows[-1], flush=True)
    return took, model.n_iter_


def measure_scale(quick: bool) -> None:
    report = gpu_report("gpu-scale", "Half a million points on a GPU", quick)
    table = Table("Growth with the number of points", COLUMNS, CONDITIONS)
    X, y = images(quick)
    # A fit before those that count starts PyTorch's libraries.
    add_fit(Table("", COLUMNS, ""), "warm-up", X, y)
    known = y < 7
    found = []
    for n_shifts in (1, 2, 4, 9):
        task = "shifted images" if n_shifts > 1 else "ten classes"
        found.append(add_fit(table, task, *shifted(X, y, n_shifts)))
    add_fit(table, "ten classes", X, y, tol=1e-5)
    for delta in (0.1, 0.0):
        add_fit(table, "seven classes, universum", X[known], y[known], X[~known], delta=delta)
    sizes = np.log(len(X) * np.array([1, 2, 4, 9]))
    growth = [np.polyfit(sizes, np.log(column), 1)[0] for column in zip(*found, strict=True)]
    limits = {"60,000 to 1e-3": (0, 0.5), "240,000": (2, 4.0), "540,000": (3, 30.0),
              "60,000 to 1e-5": (4, 1.0), "universum, Delta = 0.1": (5, 2.0),
              "universum, Delta = 0": (6, 3.0)}  # fmt: skip
    for name, (row, limit) in limits.items():
        took = table.rows[row][4]
        table.goal(f"{name} within {limit:g} s", took <= limit, f"{took:.2f} s")
    memory = table.rows[3][-1]
    table.goal("540,000 points within 80 GiB", memory <= 80.0, f"{memory:.1f} GiB")
    table.goal("rounds do not grow with n", growth[1] < 0.1,
               f"as n^{growth[1]:.2f}; time as n^{growth[0]:.2f}")  # fmt: skip
    report.add(table)
    report.store()


def measure_million(quick: bool) -> None:
    report = gpu_report("gpu-million", "A universum of a million points on a GPU", quick)
    table = Table("Blends of two images of different classes", COLUMNS, CONDITIONS)
    X, y = images(quick)
    generator = torch.Generator(device=DEVICE).manual_seed(0)
    m = 20_000 if quick else 1_000_000
    first, second = torch.randint(len(X), (2, 2 * m), generator=generator, device=DEVICE)
    differ = (y[first] != y[second]).nonzero()[:m, 0]
    U = 0.5 * (X[first[differ]] + X[second[differ]])
    for delta in (1.0, 0.5):
        add_fit(table, "ten classes, blends", X, y, U, delta=delta)
    report.add(table)
    report.store()


def measure_linear(quick: bool) -> None:
    report = gpu_report("gpu-linear", "A linear kernel on a GPU", quick)
    table = Table(
        f"Ten classes, Delta = {DELTA:g}, otherwise default settings",
        ("points", "universum", "C", "GPU s", "steps", "gap", "processor s", "times as fast",
         "objectives apart"),
        "Tensors of doubles on the GPU, and the same arrays on all cores of the processor beside "
        "it, but for a million points; one fit each, after one that starts PyTorch's libraries. "
        "Objectives apart: relative; both gaps are below 1e-4.",
    )  # fmt: skip
    X, y = load_mnist(data_file("mnist"), return_X_y=True)
    problems = [(X, y, None, (1e-2, 1.0))]
    for n, d in ((20_000, 20),) if quick else tall.SIZES:
        points, labels, universum = tall.sample(n, d)
        problems += [(points, labels, None, tall.COSTS), (points, labels, universum, tall.COSTS)]
    linear_fit(*(torch.as_tensor(part, device=DEVICE) for part in tall.sample(5000, 10)), 1.0)
    for points, labels, universum, costs in problems:
        there = [None if part is None else torch.as_tensor(part, device=DEVICE)
                 for part in (points, labels, universum)]  # fmt: skip
        for cost in costs:
            took, model = seconds(lambda t=there, c=cost: linear_fit(*t, c))
            beside = ("", "", "")
            if len(points) <= MOST_ON_PROCESSOR:
                beside = _on_processor(points, labels, universum, cost, took, model)
            table.add(
                f"{len(points):,} x {points.shape[1]}", 0 if universum is None else len(universum),
                cost, took, model.n_iter_, f"{model.dual_gap_ / model.objective_:.1e}", *beside,
            )  # fmt: skip
            print(table.rows[-1], flush=True)
            if not model.converged_:
                raise AssertionError("a fit did not converge")
    report.add(table)
    report.store()


def _on_processor(
    X: np.ndarray, y: np.ndarray, U: np.ndarray | None, cost: float, took: float, there: Any
) -> tuple[float, float, str]:
    """Its seconds, how many times as long that is, and how far its objective is."""
    took_here, here = seconds(lambda: linear_fit(X, y, U, cost))
    apart = abs(there.objective_ - here.objective_) / here.objective_
    return took_here, took_here / took, f"{apart:.1e}"


def linear_fit(X: Any, y: Any, U: Any, cost: float) -> UniversumSVC:
    return UniversumSVC(cost, kernel="linear", delta=DELTA).fit(X, y, universum=U)


def fit_some(n_fits: int, quick: bool) -> list[float]:
    """Seconds of large fits in a row, whose kernel matrices differ in size."""
    X, y = images(quick)
    found = []
    for k in range(n_fits):
        n = len(X) - 2000 * (n_fits - k) // n_fits
        some, labels = shifted(X[:n], y[:n], 2)
        some, labels = (some[:90_000], labels[:90_000]) if k % 2 else (some, labels)
        model = UniversumSVC(C, gamma=GAMMA, tol=1e-2)
        found.append(seconds(lambda m=model, a=some, b=labels: m.fit(a, b))[0])
        if not model.converged_:
            raise AssertionError(f"fit {k} did not converge")
    return found


def measure_repeats(quick: bool) -> None:
    report = gpu_report("gpu-repeats", "Several fits and processes on one GPU", quick)
    table = Table(
        "Fits of 90,000 to 120,000 points to a gap of 1e-2", ("where", "fits", "seconds"),
        f"RBF, C = {C:g}, gamma = {GAMMA:g}; kernel matrices of different sizes, one after the "
        "other, and in two processes at once. Every fit converged, none ran out of memory.",
    )  # fmt: skip
    torch.cuda.empty_cache()
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        both = pool.starmap(fit_some, [(3, quick)] * 2, chunksize=1)
    for name, found in (("one process", fit_some(10, quick)), ("first of two", both[0]),
                        ("second of two", both[1])):  # fmt: skip
        table.add(name, len(found), " ".join(f"{took:.2f}" for took in found))
        print(table.rows[-1], flush=True)
    report.add(table)
    report.store()


def gpu_report(name: str, title: str, quick: bool) -> Report:
    """A report that names the GPU."""
    report = Report(name, title, quick=quick)
    report.machine["GPU"] = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    return report


def asked_for(name: str, title: str, description: str, small: str) -> tuple[Report, bool]:
    """The report of a script with one question, and whether it is to be quick."""
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help=small)
    quick = parser.parse_args().quick
    return gpu_report(name, title, quick), quick


OWN_PAGES = {
    "scale": measure_scale,
    "repeats": measure_repeats,
    "million": measure_million,
    "linear": measure_linear,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="6,000 points")
    parser.add_argument("--only", choices=["times", "phases", "search", *OWN_PAGES])
    parser.add_argument("--processor", action="store_true", help="its times too: six minutes")
    parser.add_argument("--sample", help="an .npz of X, y and universum for the search")
    arguments = parser.parse_args()
    if arguments.only in OWN_PAGES:
        OWN_PAGES[arguments.only](arguments.quick)
        return
    report = gpu_report("gpu", "MNIST on a GPU", arguments.quick)
    if arguments.only != "search":
        all_tasks = tasks(arguments.quick)
        Task("", all_tasks[0].X[:4000], all_tasks[0].y[:4000], None).fit(1e-2, on_gpu=True)
        if arguments.only in (None, "phases"):
            measure_phases(report, all_tasks)
        if arguments.only in (None, "times"):
            measure_times(report, all_tasks, processor=arguments.processor)
    if arguments.only in (None, "search"):
        measure_search(report, arguments.sample)
    report.store()


if __name__ == "__main__":
    main()
