"""Malformed files against the command line, by the ten thousand.

    python benchmarks/fuzz.py [--cases 60000] [--seed 0] [--jobs 4]

Does every malformed CSV, LIBSVM, NPZ, Parquet and model file end in success or in one line of
error, with no traceback, no partial output and no code run from the file? Is every damaged cell of
a search told from a whole one? What is checked is in
`tests/support/malformed.py`. Cases are drawn by hypothesis; a failure is shrunk and printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from _shared import Report, Table

import malformed  # isort: skip  (found through _shared)


PIECE = 1000
"""Cases of one kind that a process runs at a time, with a seed of their own."""


def fuzz(
    workplace: malformed.Workplace, kind: str, n_cases: int, first_seed: int
) -> tuple[Counter, set[int]]:
    """Run cases of one kind; count outcomes, and keep what tells contents apart."""
    outcomes: Counter = Counter()
    contents: set[int] = set()

    @seed(first_seed)
    @settings(
        max_examples=n_cases,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def every_case(data: st.DataObject) -> None:
        outcome, content = workplace.outcome(kind, data.draw)
        outcomes[outcome] += 1
        contents.add(content)

    every_case()
    return outcomes, contents


def piece_of(task: tuple[str, int, int]) -> tuple[str, Counter, set[int], float]:
    """What became of cases (kind, number, seed) in a folder of their own, and the seconds."""
    kind, n_cases, first_seed = task
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        workplace = malformed.Workplace.make(Path(name))
        start = time.perf_counter()
        outcomes, contents = fuzz(workplace, kind, n_cases, first_seed)
        seconds = time.perf_counter() - start
        os.chdir(Path(__file__).parent)
    print(f"{kind}, seed {first_seed}: {dict(outcomes)}", file=sys.stderr, flush=True)
    return kind, outcomes, contents, seconds


def rows_of(pieces: Iterable[tuple[str, Counter, set[int], float]]) -> Iterator[tuple]:
    """The table's rows, one for every kind."""
    for kind, of_kind in groupby(pieces, key=lambda piece: piece[0]):
        _, outcomes, contents, seconds = zip(*of_kind, strict=True)
        found = sum(outcomes, Counter())
        different = len(set().union(*contents))
        n = found["accepted"] + found["refused"]
        yield kind, n, different, found["accepted"], found["refused"], round(sum(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=60_000, help="number of cases, of all kinds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="200 cases")
    parser.add_argument("--only", choices=malformed.KINDS)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    total = 200 if options.quick else options.cases
    kinds = [options.only] if options.only else malformed.KINDS
    report = Report("fuzz", "Malformed files", quick=options.quick)
    table = Table(
        "What became of them",
        ("file", "cases", "different", "accepted", "refused", "seconds"),
        "Accepted are those whose damage left a readable file, or hit what does not matter. All "
        "others ended in one line of error, cells in a warning that they are computed "
        "again. No case left a traceback, a file that was not asked "
        "for or control characters on the terminal, and none started a process or opened a pickle, "
        "by Python's audit events; the run stops at the first that does.",
    )
    each = total // len(kinds)
    tasks = [
        (kind, min(PIECE, each - start), options.seed + start // PIECE)
        for kind in kinds
        for start in range(0, each, PIECE)
    ]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for row in rows_of(pool.map(piece_of, tasks)):
            table.add(*row)
    n_cases = sum(row[1] for row in table.rows)
    fewest = min(row[1] for row in table.rows)
    table.goal("10,000 of a kind without a fault", fewest >= 10_000, f"{n_cases:,}, 0 faults")
    report.add(table)
    report.store()


if __name__ == "__main__":
    main()
