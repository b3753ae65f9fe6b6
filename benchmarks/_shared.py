"""What every benchmark needs: data, times, tables, and where the results go.

A benchmark collects its tables in a `Report`. It prints each one as soon as it is filled and
stores all of them as Markdown and JSON under `benchmarks/results/`, headed by the machine, the
versions, the digest of the sources and the number of threads they were measured with.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
PACKAGES = ("musvm", "numpy", "scipy", "scikit-learn", "clarabel")

# The literal programs that our solver is compared with are the tests' own.
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))


# ---------------------------------------------------------------------------------------------
# Data


def data_file(name: str) -> Path:
    """A file of the data folder: MUSVM_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("MUSVM_DATA", REPOSITORY.parent / "shared" / "data"))
    path = folder / name
    if not path.exists():
        sys.exit(f"{name} is not in the data folder: set MUSVM_DATA to the folder that holds it")
    return path


@dataclass(frozen=True)
class Sample:
    """Training points, their labels 0..L-1, and universum points."""

    X: np.ndarray
    y: np.ndarray
    universum: np.ndarray

    @property
    def points(self) -> np.ndarray:
        return np.vstack([self.X, self.universum])

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def caps(self, C: float) -> np.ndarray:
        """C for training points and C* = C n / (m L), the paper's balance, for the universum."""
        n, m = len(self.X), len(self.universum)
        balanced = C * n / (m * self.n_classes) if m else C
        return np.concatenate([np.full(n, C), np.full(m, balanced)])


def traffic_signs(n_per_class: int = 100, m: int = 500, seed: int = 0) -> Sample:
    """HOG features of the signs '30', '70', '80', with 'no entry' as universum."""
    from musvm.datasets import fetch_gtsrb

    archive = data_file("GTSRB_Final_Training_Images.subset.zip")
    X, target = fetch_gtsrb(features="hog", classes=[1, 4, 5, 17], archive=archive, return_X_y=True)
    rng = np.random.RandomState(seed)
    wanted = [(1, n_per_class), (4, n_per_class), (5, n_per_class), (17, m)]
    parts = [X[rng.permutation(np.flatnonzero(target == c))[:count]] for c, count in wanted]
    return Sample(np.vstack(parts[:3]), np.repeat(np.arange(3), n_per_class), parts[3])


CHARACTERS = "0123456789aeiouAEIOU"


def characters(n_classes: int, n_per_class: int = 30, m: int = 400, seed: int = 0) -> Sample:
    """Handwritten characters in 100 x 100 black and white pixels, scaled to a mean |x|^2 of 1.

    The first `n_classes` of `CHARACTERS` are the classes; the universum is drawn evenly from the
    others, or, where none remain, made of averages of two training images of different classes.
    """
    rng = np.random.RandomState(seed)
    rest = CHARACTERS[n_classes:]
    shares = np.array([len(part) for part in np.array_split(np.arange(m), max(len(rest), 1))])
    X = np.vstack([_draw(c, n_per_class, rng) for c in CHARACTERS[:n_classes]])
    y = np.repeat(np.arange(n_classes), n_per_class)
    if rest:
        universum = np.vstack([_draw(c, k, rng) for c, k in zip(rest, shares, strict=True)])
    else:
        first = rng.randint(len(y), size=m)
        second = np.array([rng.choice(np.flatnonzero(y != y[i])) for i in first])
        universum = 0.5 * (X[first] + X[second])
    scale = np.sqrt(np.square(X).sum(axis=1).mean())
    return Sample(X / scale, y, universum / scale)


def _draw(character: str, count: int, rng: np.random.RandomState) -> np.ndarray:
    from musvm.datasets import load_nist

    X, _ = load_nist(data_file("nist_digits_letters.npz"), classes=character, return_X_y=True)
    return X[rng.permutation(len(X))[:count]]


def many_digits(n: int, m: int) -> Sample:
    """Some of MNIST, and letters of NIST as its universum."""
    from musvm.datasets import load_mnist

    X, y = load_mnist(data_file("mnist"), return_X_y=True)
    rows = np.random.RandomState(0).permutation(len(X))[:n]
    with np.load(data_file("nist_digits_letters.npz")) as archive:
        is_letter = np.char.isalpha(archive["labels"].astype(str))
        letters = archive["images28"][is_letter].reshape(-1, 784) / 255.0
    U = letters[np.random.RandomState(1).permutation(len(letters))[:m]]
    return Sample(X[rows], y[rows], U)


# ---------------------------------------------------------------------------------------------
# Times


def timed(function: Callable[[], Any], *, repeats: int = 5, enough: float = 5.0) -> tuple:
    """Median time in seconds and the last result; stops early once `enough` seconds are spent."""
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < enough:
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


# ---------------------------------------------------------------------------------------------
# Tables


@dataclass
class Table:
    """Rows of numbers and words under a title, with a note on what was measured."""

    title: str
    columns: Sequence[str]
    note: str = ""
    rows: list[tuple] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    def add(self, *values: Any) -> None:
        if len(values) != len(self.columns):
            raise ValueError(f"{len(values)} values for the {len(self.columns)} columns")
        self.rows.append(values)

    def goal(self, text: str, met: bool, measured: str) -> None:
        self.verdicts.append(f"Goal: {text}. Measured: {measured}. {'Met' if met else 'NOT met'}.")

    def markdown(self) -> str:
        cells = [list(self.columns), *([_cell(v) for v in row] for row in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        lines = [_line(row, widths) for row in cells]
        lines.insert(1, "|" + "|".join("-" * (w + 1) + ":" for w in widths) + "|")
        parts = [f"## {self.title}", self.note, "\n".join(lines), *self.verdicts]
        return "\n\n".join(part for part in parts if part)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    return "| " + " | ".join(padded) + " |"


class Report:
    """The tables of one run, printed as they come and stored together."""

    def __init__(self, name: str, title: str, *, quick: bool = False) -> None:
        self.name, self.title, self.quick = name + "-quick" * quick, title, quick
        self.machine = machine()
        self.tables: list[Table] = []
        self.pictures: list[str] = []

    def add(self, table: Table) -> None:
        if self.quick:
            table.verdicts = ["A quick run on small problems: the goals are for the full sizes."]
        self.tables.append(table)
        print(f"\n{table.markdown()}", flush=True)

    def picture(self, figure: Any, suffix: str) -> None:
        RESULTS.mkdir(parents=True, exist_ok=True)
        file = f"{self.name}-{suffix}.png"
        figure.savefig(RESULTS / file, dpi=120)
        self.pictures.append(file)

    def store(self) -> None:
        RESULTS.mkdir(parents=True, exist_ok=True)
        facts = "\n".join(f"- {key}: {value}" for key, value in self.machine.items())
        pictures = [f"![{file}]({file})" for file in self.pictures]
        parts = [f"# {self.title}", facts, *(t.markdown() for t in self.tables), *pictures]
        path = RESULTS / f"{self.name}.md"
        path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        document = {
            "machine": self.machine,
            "tables": [
                {
                    "title": table.title,
                    "note": table.note,
                    "verdicts": table.verdicts,
                    "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
                }
                for table in self.tables
            ],
        }
        path.with_suffix(".json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        print(f"\nstored in {path.relative_to(REPOSITORY)} and .json", flush=True)


def run_parts(prefix: str, description: str, parts: dict[str, tuple]) -> None:
    """The command line of a script with several questions: all of them, or --only one."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small problems: does it run?")
    parser.add_argument("--only", choices=parts, help="one of the questions")
    arguments = parser.parse_args()
    # The gap that was reached is a column of the tables.
    warnings.filterwarnings("ignore", message="The solver stopped")
    for name in [arguments.only] if arguments.only else parts:
        run, title = parts[name]
        report = Report(f"{prefix}-{name}", title, quick=arguments.quick)
        run(report, arguments.quick)
        report.store()


def machine() -> dict[str, str]:
    """What the figures were measured on and with."""
    threads = [
        f"{pool['num_threads']} ({pool.get('internal_api')} {pool.get('architecture', '')})".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ""),
        "BLAS threads": ", ".join(dict.fromkeys(threads)),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "code": f"sources {source_digest()}",
    }


def source_digest() -> str:
    """A name for the code that is measured: twelve digits of the digest of all its sources.

    Commits are renamed when branches are joined; the same sources keep this name.
    """
    digest = hashlib.sha256()
    folder = REPOSITORY / "src" / "musvm"
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd", ".h", ".c"):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
