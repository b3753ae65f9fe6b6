"""The memory of one fit, in a process of its own: prints one JSON object.

`tracemalloc` sees what Python and NumPy allocate. The peak of the resident size, which Linux keeps
and resets on request, sees compiled code as well. A tiny fit comes first, to load libraries and
their buffers.

    python benchmarks/_memory.py '{"M": 2000, "L": 3, "kernel": "rbf", "C": 1, "delta": 0.1}'
"""

from __future__ import annotations

import json
import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np

from musvm import UniversumSVC


def data(M: int, L: int, d: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Overlapping classes around L corners, and as many universum points between them."""
    rng = np.random.default_rng(0)
    n = M // 2
    y = np.arange(n) % L
    X, U = rng.standard_normal((n, d)), rng.standard_normal((M - n, d))
    X[np.arange(n), y] += 2.0
    return X, y, U


def resident_bytes(field: str) -> float:
    """VmRSS, the resident size now, or VmHWM, its peak since `forget_peak`; NaN if not kept."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return 1024.0 * int(re.search(rf"{field}:\s+(\d+) kB", status.read_text())[1])


def forget_peak() -> None:
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def measure(M: int, L: int, kernel: str, C: float, delta: float) -> dict[str, float]:
    model = UniversumSVC(C=C, kernel=kernel, delta=delta, tol=1e-6)
    model.fit(*data(40, 2))
    X, y, U = data(M, L)
    unit = 8.0 * M * M
    forget_peak()
    before = resident_bytes("VmRSS")
    model.fit(X, y, universum=U)
    resident = (resident_bytes("VmHWM") - before) / unit
    tracemalloc.start()
    model.fit(X, y, universum=U)
    _, traced = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"traced": traced / unit, "resident": resident, "rounds": model.n_iter_}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
