"""Do universa that are mostly taken for one class belong behind all others?

    python benchmarks/one_class.py [--quick]

Points of a class vary as the classes do, and the measure that ranks universa takes that for a
merit. So `diagnose` puts what a model mostly takes for one class last. From which share on is
measured on the inventing pairs of `_pairs.py`. Their universum competes with unseen points of each
of their classes, which somebody might take for a universum by mistake. The model is the plain SVM
with C = 10 / s, in the middle of the default grid.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from _pairs import FIRST_INVENTING_SEED, Pair, draw, halves
from _shared import Report, Table
from musvm import UniversumSVC
from musvm.universum.nuisance import nuisance_of

# The last one puts nothing last.
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True)
class Candidate:
    """The largest share of one label, and the nuisance."""

    share: float
    nuisance: float

    def rank(self, threshold: float) -> tuple[bool, float]:
        """Smaller for what comes first."""
        return self.share > threshold, -self.nuisance


def candidates(pair: Pair, seed: int, folder: Path) -> tuple[Candidate, list[Candidate]]:
    """The universum of a partition, and the unseen points of each class."""
    part = draw(pair, seed, folder)
    n = part.n
    gram, y = part.gram[:n, :n], part.y[:n]
    model = UniversumSVC(10.0 / part.scale, kernel="precomputed").fit(gram, y)

    def candidate(features: np.ndarray) -> Candidate:
        _, counts = np.unique(model.predict(features), return_counts=True)
        return Candidate(float(counts.max() / counts.sum()), nuisance_of(gram, features, y))

    tests = [part.test[part.y_test == c][:, :n] for c in np.unique(y)]
    return candidate(part.gram[n:, :n]), [candidate(features) for features in tests]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few pairs: does it run?")
    arguments = parser.parse_args()
    report = Report("one-class", "Is it a universum or a class?", quick=arguments.quick)
    pairs = [pair for pair in halves()[0] if pair.data != "signs"]
    pairs, n_partitions = (pairs[-6:], 1) if arguments.quick else (pairs, 3)
    with TemporaryDirectory() as folder:
        found = [
            candidates(pair, FIRST_INVENTING_SEED + k, Path(folder))
            for pair in pairs
            for k in range(n_partitions)
        ]
    table = Table(
        f"{len(found)} universa, each with unseen points of its classes",
        ["share above which it comes last", "universa put last %", "classes put last %",
         "a class before the universum %", "universum first of all %"],
        f"{len(pairs)} inventing pairs, all but the signs, {n_partitions} partitions each. In the "
        "last row nothing is put last, and the nuisance alone ranks.",
    )  # fmt: skip
    for threshold in THRESHOLDS:
        table.add(threshold, *(100 * share for share in outcome(found, threshold)))
    report.add(table)
    report.store()


def outcome(
    found: list[tuple[Candidate, list[Candidate]]], threshold: float
) -> tuple[float, float, float, float]:
    """The shares that are the columns of the table."""
    universa = [universum for universum, _ in found]
    classes = [one for _, of_classes in found for one in of_classes]
    ahead = [
        [one.rank(threshold) < universum.rank(threshold) for one in of_classes]
        for universum, of_classes in found
    ]
    return (
        float(np.mean([one.share > threshold for one in universa])),
        float(np.mean([one.share > threshold for one in classes])),
        float(np.mean(np.concatenate(ahead))),
        float(np.mean([not any(before) for before in ahead])),
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
