"""What is lost when a search is killed, a disk is full, Ctrl-C comes, or threads and forks meet?

    python benchmarks/faults.py [--quick] [--share 1.0] [--only faults]

Every fault is tried as often as the table says, at random moments of a fixed seed. What must come
out is known: the same bits as without the fault, or the estimator as it was before. `survived` are
trials with that outcome and `lost` all others. Moments and delays of Ctrl-C are in seconds of the
processor, which another load on the machine does not change. POSIX only.

The last table has the data sets of the tests with a million added to every feature.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from _shared import REPOSITORY, Report, Table
from musvm import UniversumSVC, UniversumSVCCV, loo_error

import real_data  # isort: skip  (found through _shared)

TIMEOUT = 300
"""Seconds after which a child hangs."""
Row = tuple[str, int, int, int, str]


def make(n: int, d: int, L: int, m: int = 0, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % L
    X = rng.normal(size=(L, d))[y] + rng.normal(size=(n, d))
    return X, y, rng.normal(size=(m, d)) if m else None


def digest(*arrays: Any) -> str:
    h = blake2b(digest_size=16)
    for array in arrays:
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()


# ---------------------------------------------------------------------------------------------
# Searches that are disturbed


def searched(memory: Any = None) -> str:
    """A small search, as a digest of all that must be the same."""
    X, y, U = make(45, 4, 3, 15)
    search = UniversumSVCCV(
        np.logspace(-1, 1, 3), gammas=(0.05, 0.3), deltas=(0.0, 0.1), criterion=3, memory=memory
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, universum=U)
    columns = {name: np.asarray(values) for name, values in search.results_.items()}
    figures = [v for name, v in columns.items() if v.dtype == float and name != "seconds"]
    return digest(*figures, search.left_out_margins_, search.best_estimator_.dual_coef_)


def in_child(function: Callable[[], str]) -> tuple[int, int]:
    """Start a function in a child; its process and a pipe that will hold what it returns."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        signal.alarm(TIMEOUT)
        os.write(writing, function().encode())
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def result_of(child: int, pipe: int) -> str | None:
    """What the child returned; None if it was killed, failed or hung."""
    with os.fdopen(pipe, "rb") as file:
        said = file.read().decode()
    _, status = os.waitpid(child, 0)
    return said if status == 0 else None


def kills(n: int, rng: np.random.Generator) -> Row:
    start = time.perf_counter()
    expected = searched()
    lasts = time.perf_counter() - start
    outcomes: Counter = Counter()
    for _ in range(n):
        with tempfile.TemporaryDirectory() as folder:
            child, pipe = in_child(lambda folder=folder: searched(folder))
            time.sleep(rng.uniform(0.0, lasts))
            os.kill(child, signal.SIGKILL)
            outcomes["killed"] += result_of(child, pipe) is None
            outcomes["cells"] += len(list(Path(folder).glob("*.cell")))
            outcomes["same"] += searched(folder) == expected
    note = f"{outcomes['killed']} were still at it; {outcomes['cells']} cells were there already"
    return "SIGKILL, then the same search again", n, outcomes["same"], n - outcomes["same"], note


def full_disk(n: int, rng: np.random.Generator) -> Row:
    """No file may be longer than so many bytes: what a write beyond them finds is a full disk."""
    expected, same, cells = searched(), 0, 0

    def limited(folder: str, most: int) -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        return searched(folder)

    for _ in range(n):
        with tempfile.TemporaryDirectory() as folder:
            most = int(rng.integers(0, 6000))
            found = result_of(*in_child(lambda f=folder, m=most: limited(f, m)))
            cells += len(list(Path(folder).glob("*.cell")))
            same += found == expected and searched(folder) == expected
    return "a full disk, then space again", n, same, n - same, f"{cells} cells fitted"


def read_only(n: int, rng: np.random.Generator) -> Row:
    expected, same = searched(), 0

    def unprivileged(folder: str) -> str:
        if os.getuid() == 0:
            os.setuid(65534)
        return searched(folder)

    for _ in range(n):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o555)
            found = result_of(*in_child(lambda f=folder: unprivileged(f)))
            same += found == expected and not list(Path(folder).iterdir())
            os.chmod(folder, 0o755)
    return "a folder that is read-only", n, same, n - same, ""


def two_processes(n: int, rng: np.random.Generator) -> Row:
    expected, same = searched(), 0
    for _ in range(n):
        with tempfile.TemporaryDirectory() as folder:
            children = [in_child(lambda f=folder: searched(f)) for _ in range(2)]
            found = [result_of(*child) for child in children]
            same += found == [expected] * 2 and searched(folder) == expected
    return "two processes on one folder", n, same, n - same, ""


def flipped_bytes(n: int, rng: np.random.Generator) -> Row:
    same, told = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        expected = searched(folder)
        cells = sorted(Path(folder).glob("*.cell"))
        for _ in range(n):
            cell = cells[rng.integers(len(cells))]
            content = bytearray(cell.read_bytes())
            content[rng.integers(len(content))] ^= int(rng.integers(1, 256))
            cell.write_bytes(content)
            same += searched(folder) == expected
            told += cell.read_bytes() != bytes(content)
    note = f"{told} cells were computed and written again"
    return "a flipped byte in a cell", n, min(same, told), n - min(same, told), note


# ---------------------------------------------------------------------------------------------
# Ctrl-C


def _fit(size: tuple[int, ...], **settings: Any) -> tuple[Callable[[], Any], Any]:
    """A fit that no round ends, of an estimator that is fitted already."""
    X, y, U = make(*size)
    clf = UniversumSVC(**settings, C=0.1, tol=1e-1).fit(X[:200], y[:200])
    clf.set_params(C=100.0, tol=1e-14, max_iter=10**9)
    return lambda: clf.fit(X, y, universum=U), clf


def _loo(size: tuple[int, ...], method: str) -> tuple[Callable[[], Any], Any]:
    X, y, U = make(*size)
    clf = UniversumSVC(C=10, gamma=0.02).fit(X, y, universum=U)
    return lambda: loo_error(clf, X, y, universum=U, method=method), clf


def _search(size: tuple[int, ...], criterion: Any) -> tuple[Callable[[], Any], Any]:
    X, y, U = make(*size)
    search = UniversumSVCCV(np.logspace(-1, 3, 9), gammas=(0.01, 0.1), criterion=criterion)
    return lambda: search.fit(X, y, universum=U), search


INTERRUPTED: dict[str, Callable[[], tuple[Callable[[], Any], Any]]] = {
    "gram, 3,000 points": lambda: _fit((2000, 20, 3, 1000), solver="gram", gamma=0.01),
    "gram, 100 classes": lambda: _fit((2500, 20, 100), solver="gram", gamma=0.01),
    "gram, 6,000 points": lambda: _fit((4000, 20, 3, 2000), solver="gram", gamma=0.01),
    "gram, 1,500 columns": lambda: _fit((5000, 1500, 3), solver="gram", gamma=1e-4),
    "working sets, 100 classes": lambda: _fit((20000, 20, 100), solver="working-set", gamma=0.01),
    "linear, 100 classes": lambda: _fit((60000, 200, 100), solver="linear", kernel="linear"),
    "interior, linear": lambda: _fit((60000, 50, 20), solver="interior", kernel="linear"),
    "interior, 1,500 columns": lambda: _fit((10000, 1500, 3), solver="interior", kernel="linear"),
    "interior, rbf, 6,000 equations": lambda: _fit((1500, 20, 5), solver="interior", gamma=0.05),
    "exact leave-one-out": lambda: _loo((1500, 20, 5, 500), "loo"),
    "estimate of leave-one-out": lambda: _loo((2500, 20, 5, 500), "loo-estimate"),
    "span": lambda: _loo((2500, 20, 5, 500), "span"),
    "search by span": lambda: _search((1000, 20, 5, 300), "span"),
    "search by folds": lambda: _search((1000, 20, 5, 300), 5),
}


def interrupted(job: Callable[[], Any], after: float) -> float | None:
    """Seconds of the processor from the signal until control is back; None if it came too late."""

    def handler(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGPROF, handler)
    due = time.process_time() + after
    signal.setitimer(signal.ITIMER_PROF, after)
    try:
        job()
    except KeyboardInterrupt:
        return max(time.process_time() - due, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    return None


def interrupts(n: int, rng: np.random.Generator) -> Iterator[tuple[str, int, int, int, float]]:
    """For every path: moments tried, those that came before the end, lost ones, longest delay."""
    for name, prepare in INTERRUPTED.items():
        job, estimator = prepare()
        delays, lost, longest = [], 0, 4.0
        for _ in range(n):
            before, threads = dict(vars(estimator)), threading.active_count()
            moment = rng.uniform(0.02, longest)
            delay = interrupted(job, moment)
            if delay is None:
                longest = max(0.7 * longest, 0.1)
                continue
            delays.append(delay)
            same = vars(estimator) == before and threading.active_count() == threads
            lost += not same or delay > 1.0
        yield name, n, len(delays), lost, max(delays, default=0.0)


# ---------------------------------------------------------------------------------------------
# Threads and forks


def fitted_bits(seed: int = 0) -> str:
    X, y, U = make(150, 10, 4, 40, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = UniversumSVC(C=10, gamma=0.05).fit(X, y, universum=U)
    return digest(model.dual_coef_, model.decision_function(X))


def blas_limits() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def several_threads(n: int, rng: np.random.Generator) -> Row:
    with threadpool_limits(2, user_api="blas"):
        expected = [fitted_bits(seed) for seed in range(5)]
        found: list[bool] = []

        def work(k: int) -> None:
            found.extend(fitted_bits(s % 5) == expected[s % 5] for s in range(k, n, 4))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        restored = set(blas_limits()) == {2}
    note = "the limit of BLAS threads is what it was" if restored else "the limit was lost"
    survived = sum(found) if restored else 0
    return "fits in four threads at once", n, survived, n - survived, note


def forks(n: int, rng: np.random.Generator) -> Row:
    """Children that fit, forked at random moments of fits in a thread; none may hang."""
    outcomes: Counter = Counter()
    with threadpool_limits(2, user_api="blas"):
        expected, over = fitted_bits(), threading.Event()

        def child_work() -> str:
            with_limit = set(blas_limits()) == {2}
            return f"{fitted_bits()} {with_limit and set(blas_limits()) == {2}}"

        def keep_fitting() -> None:
            while not over.is_set():
                fitted_bits(1)

        thread = threading.Thread(target=keep_fitting)
        thread.start()
        for _ in range(n):
            time.sleep(rng.uniform(0.0, 0.05))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = in_child(child_work)
            found = result_of(*child)
            outcomes["hung or failed" if found is None else found] += 1
        over.set()
        thread.join()
    survived = outcomes[f"{expected} True"]
    note = f"{outcomes['hung or failed']} hung or failed"
    return "children forked while a thread fits", n, survived, n - survived, note


# ---------------------------------------------------------------------------------------------
# A million added


def offsets(n_rows: int) -> Iterator[tuple]:
    """Relative changes of the objective, and certified labels that changed, for every data set."""
    default = REPOSITORY.parent / "shared" / "data"
    folder = Path(os.environ.get("MUSVM_DATA", default))
    for name in real_data.NAMES:
        loaded = real_data.load(name, folder, n_rows)
        if loaded is None:
            continue
        X, y = loaded
        U = 0.5 * (X[:30] + X[-30:])
        for solver in ("gram", "working-set"):
            doubles = _changes(solver, (X, U), (X + 1e6, U + 1e6), y)
            single = [(part + 1e6).astype(np.float32) for part in (X, U)]
            held = [part.astype(np.float64) - 1e6 for part in single]
            yield (
                name,
                len(y),
                len(np.unique(y)),
                solver,
                *doubles,
                *_changes(solver, held, single, y),
            )


def _changes(solver: str, plain: Any, moved: Any, y: Any) -> tuple[float, int]:
    settings: dict[str, Any] = {"C": 10, "tol": 1e-7, "delta": 0.1, "solver": solver}
    first = UniversumSVC(**settings).fit(plain[0], y, universum=plain[1])
    second = UniversumSVC(**settings).fit(moved[0], y, universum=moved[1])
    both = first.certified(plain[0]) & second.certified(moved[0])
    differ = first.predict(plain[0])[both] != second.predict(moved[0])[both]
    return abs(second.objective_ / first.objective_ - 1.0), int(differ.sum())


# ---------------------------------------------------------------------------------------------
# The page

FAULTS: dict[str, tuple[Callable[[int, np.random.Generator], Row], int]] = {
    "kills": (kills, 100),
    "full-disk": (full_disk, 20),
    "read-only": (read_only, 5),
    "two-processes": (two_processes, 20),
    "flipped-bytes": (flipped_bytes, 100),
    "threads": (several_threads, 60),
    "forks": (forks, 150),
}


def ask_for_no_loss(table: Table, goal: str) -> None:
    lost = sum(row[table.columns.index("lost")] for row in table.rows)
    table.goal(goal, lost == 0, f"{lost} lost")


def faults_table(share: float) -> Table:
    table = Table("Faults", ("fault", "tried", "survived", "lost", "beside"))
    for function, n in FAULTS.values():
        table.add(*function(max(round(share * n), 3), np.random.default_rng(0)))
    ask_for_no_loss(table, "nothing lost, nothing wrong")
    return table


def interrupts_table(share: float) -> Table:
    table = Table(
        "Ctrl-C at random moments",
        ("path", "moments", "before the end", "lost", "longest delay, s"),
        "Lost: control was not back within a second of the processor, or the estimator or the "
        "number of threads was not what it was before.",
    )
    for row in interrupts(max(round(share * 8), 1), np.random.default_rng(0)):
        table.add(*row)
    ask_for_no_loss(table, "control back within a second, nothing lost")
    return table


def offsets_table(share: float) -> Table:
    table = Table(
        "A million added to every feature",
        ("data", "rows", "classes", "path", "doubles", "labels", "floats", "labels of floats"),
        "RBF, C = 10, Delta = 0.1, tol = 1e-7, averages as universum. Relative change of the "
        "objective, and certified labels that changed. Floats: next to doubles with the values "
        "that floats hold, to a sixteenth, less the million.",
    )
    for row in offsets(60 if share < 0.1 else 250):
        table.add(*row)
    worst = max(max(row[4], row[6]) for row in table.rows)
    labels = sum(row[5] + row[7] for row in table.rows)
    met = worst <= 1e-6 and not labels
    table.goal("1e-6, the same labels", met, f"{worst:.1e}, {labels} labels differ")
    return table


TABLES = {"faults": faults_table, "interrupts": interrupts_table, "offsets": offsets_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few trials of each")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of a full run")
    parser.add_argument("--only", choices=TABLES, help="one of the tables")
    options = parser.parse_args()
    # What is tried on purpose is not to converge.
    warnings.filterwarnings("ignore", message="The solver stopped")
    for name in [options.only] if options.only else TABLES:
        page = "faults" if name == "faults" else f"faults-{name}"
        report = Report(page, "Faults, and what is lost", quick=options.quick)
        report.add(TABLES[name](0.03 if options.quick else options.share))
        report.store()


if __name__ == "__main__":
    main()
