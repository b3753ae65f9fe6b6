"""The data sets of the experiments, their sizes (the paper's Table 1), and the paper's figures.

`gtsrb` and `abcdetc` are the paper's. `nist` is a stand-in for `abcdetc`, which its authors hand
out on request only; `isolet` and `digits` are ours, the latter because it needs no download.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

C_GRID = tuple(10.0**k for k in range(-4, 4))
DELTA_GRID = (0.0, 0.01, 0.05, 0.1)
FOLDS = 5
PARTITIONS = 10

# Mean and standard deviation of the test error in per cent.
Published = tuple[float, float]


@dataclass(frozen=True)
class Universum:
    """A universum: its name on the command line and in tables, and the labels it is drawn from."""

    name: str
    labels: tuple[Any, ...]


@dataclass(frozen=True)
class Setting:
    """How a data set is used.

    Attributes
    ----------
    classes : the labels to tell apart
    n_train, n_test : training and test points per class
    m : universum points in Tables 2 and 3
    sizes : universum points in Table 4
    kernel, gamma : of all models
    universa : the two universa
    what : one line on the data, for the tables
    published : the data set whose figures in the paper stand beside ours; "" for none
    """

    classes: tuple[Any, ...]
    n_train: int
    n_test: int
    m: int
    sizes: tuple[int, ...]
    kernel: str
    gamma: float
    universa: tuple[Universum, ...]
    what: str
    published: str = ""


_CHARACTERS: dict[str, Any] = {
    "classes": tuple("0123"),
    "n_train": 150,
    "n_test": 100,
    "m": 250,
    "kernel": "rbf",
    "gamma": 2.0**-7,
    "universa": (Universum("letter-a", ("a",)), Universum("letter-i", ("i",))),
    "published": "abcdetc",
}

SETTINGS = {
    "gtsrb": Setting(
        classes=(1, 4, 5),
        n_train=100,
        n_test=500,
        m=500,
        sizes=(250, 500, 750, 1000),
        kernel="linear",
        gamma=1.0,
        universa=(Universum("no-entry", (17,)), Universum("road-work", (25,))),
        what="traffic signs '30', '70' and '80', 1568 HOG features",
        published="gtsrb",
    ),
    "abcdetc": Setting(
        **_CHARACTERS,
        sizes=(50, 100, 150, 250),
        what="handwritten digits 0-3 of ABCDETC, 100 x 100 black or white pixels",
    ),
    "nist": Setting(
        **_CHARACTERS,
        sizes=(250, 500, 750, 1000),
        what="handwritten digits 0-3 of NIST, 100 x 100 black or white pixels",
    ),
    "isolet": Setting(
        classes=tuple("BDEGP"),
        n_train=50,
        n_test=150,
        m=250,
        sizes=(100, 200, 300, 500),
        kernel="linear",
        gamma=1.0,
        universa=(Universum("letters-CTVZ", tuple("CTVZ")), Universum("letters-AJK", tuple("AJK"))),
        what="spoken letters B, D, E, G and P, 617 features",
    ),
    "digits": Setting(
        classes=(3, 5, 8),
        n_train=20,
        n_test=150,
        m=250,
        sizes=(50, 100, 250, 500),
        kernel="rbf",
        gamma=0.25,
        universa=(Universum("digits-0269", (0, 2, 6, 9)), Universum("digits-147", (1, 4, 7))),
        what="handwritten digits 3, 5 and 8 that scikit-learn carries, 8 x 8 grey pixels",
    ),
}

# Table 2: {data set: {universum, or "" for the plain SVM: test error}}.
TABLE_2: dict[str, dict[str, Published]] = {
    "gtsrb": {"": (7.47, 0.92), "no-entry": (6.57, 0.59), "road-work": (6.88, 0.87)},
    "abcdetc": {"": (26.15, 2.08), "letter-a": (25.35, 2.13), "letter-i": (22.05, 2.07)},
}
# Table 3: test error of the MU-SVM chosen by the bound; its other column repeats Table 2.
TABLE_3: dict[str, dict[str, Published]] = {
    "gtsrb": {"no-entry": (6.47, 0.57), "road-work": (6.9, 0.75)},
    "abcdetc": {"letter-a": (25.25, 2.03), "letter-i": (22.40, 1.73)},
}
# Table 4: {data set: {(universum, m): test error}}.
TABLE_4: dict[str, dict[tuple[str, int], Published]] = {
    "gtsrb": {
        ("", 0): (7.23, 1.02),
        ("no-entry", 250): (6.93, 0.98),
        ("no-entry", 500): (6.48, 0.52),
        ("no-entry", 750): (6.43, 0.59),
        ("no-entry", 1000): (6.41, 0.6),
        ("road-work", 250): (6.83, 0.75),
        ("road-work", 500): (6.7, 0.68),
        ("road-work", 750): (6.72, 0.51),
        ("road-work", 1000): (6.68, 0.71),
    }
}
# Seconds to choose a model, GTSRB with "no entry": cross-validation, bound.
PAPER_SECONDS = {"cv": 4413.0, "span-2016": 1583.0}
