"""One fit with a universum in a memory map, in a process of its own: prints one JSON object.

Classes are the digits 0-6 of MNIST. The universum is made of the others: two images of 7-9, each
shifted by up to four pixels, blended with a random weight. `write` stores it, block by block;
`measure` maps it, fits, and predicts all of it. The peak of the resident size has the pages of the
map in it that the system kept in memory.

    python benchmarks/_streamed.py \\
        '{"path": "universum.npy", "n": 10000, "delta": 1.0, "tol": 1e-3, "cache_size": 1500}'
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from _fit import idx_images, idx_labels, mnist
from _memory import forget_peak, resident_bytes

ROWS_A_BLOCK = 10_000
SHIFT = 4


def write(path: Path, m: int) -> None:
    """m points of single precision, as a .npy file."""
    images = idx_images("train")[idx_labels("train") >= 7].astype(np.float32).reshape(-1, 28, 28)
    rng = np.random.default_rng(0)
    written = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(m, 784))
    for start in range(0, m, ROWS_A_BLOCK):
        size = min(ROWS_A_BLOCK, m - start)
        share = rng.uniform(0.5, 1.0, size=(size, 1, 1)).astype(np.float32)
        blend = share * _shifted(images, size, rng) + (1 - share) * _shifted(images, size, rng)
        written[start : start + size] = blend.reshape(size, 784)
    written.flush()


def _shifted(images: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Random images, moved by up to SHIFT pixels each way; what leaves is lost."""
    chosen = images[rng.integers(len(images), size=size)]
    wide = np.pad(chosen, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    down, right = rng.integers(2 * SHIFT + 1, size=(2, size, 1, 1))
    steps = np.arange(28)
    return wide[np.arange(size)[:, None, None], steps[:, None] + down, steps + right]


def measure(path: str, n: int, delta: float, tol: float, cache_size: float) -> dict[str, float]:
    from musvm import UniversumSVC

    split = mnist(n, 0, 7)
    U = np.load(path, mmap_mode="r")
    warnings.simplefilter("ignore")
    settings = {"C": 10.0, "gamma": split.gamma, "delta": delta, "tol": tol}
    UniversumSVC(**settings).fit(split.X[:200], split.y[:200])
    model = UniversumSVC(cache_size=cache_size, **settings)
    forget_peak()
    start, busy = time.perf_counter(), time.process_time()
    model.fit(split.X, split.y, universum=U)
    fitted, worked = time.perf_counter(), time.process_time()
    inside = float(np.mean(model.universum_score(U) <= delta))
    return {
        "seconds": fitted - start,
        "processor s": worked - busy,
        "GB": resident_bytes("VmHWM") / 1e9,
        "gap": model.dual_gap_ / model.objective_,
        "converged": model.converged_,
        "rounds": model.n_iter_,
        "training support vectors": len(model.support_),
        "universum support vectors": len(model.universum_support_),
        "within delta %": 100.0 * inside,
        "error %": 100.0 * (1.0 - model.score(split.X_test, split.y_test)),
        "predict s": time.perf_counter() - fitted,
    }


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
