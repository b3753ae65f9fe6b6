"""The data sets of the experiments, their sizes (the paper's Table 1), and the papers' figures.

`gtsrb` and `abcdetc` are those of the paper of 2016; `sequel` are the traffic signs as the sequel
of 2019 uses them. `nist` is a stand-in for `abcdetc`, which its authors hand out on request only;
`isolet` and `digits` are ours, the latter because it needs no download.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

C_GRID = tuple(10.0**k for k in range(-4, 4))
C_GRID_2019 = tuple(2.0**k for k in range(-3, 4))
DELTA_GRID = (0.0, 0.01, 0.05, 0.1)
FOLDS = 5
PARTITIONS = 10

# Mean and standard deviation of the test error in per cent.
Published = tuple[float, float]


@dataclass(frozen=True)
class Universum:
    """A universum: its name in tables, and the labels it is drawn from.

    Without labels it is made: averages of training points, one of each class. With `even`, all
    labels give the same number of points.
    """

    name: str
    labels: tuple[Any, ...] = ()
    even: bool = False


@dataclass(frozen=True)
class Setting:
    """How a data set is used.

    Attributes
    ----------
    dataset : which data, see `musvm.experiments.data`
    classes : the labels to tell apart
    n_train, n_test : training and test points per class
    m : universum points in Tables 2 and 3
    sizes : universum points in Table 4
    kernel, gamma : of all models
    universa : what is compared
    what : one line on the data, for the tables
    published : the data set whose figures in the paper stand beside ours; "" for none
    Cs : the grid of C
    """

    dataset: str
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
    Cs: tuple[float, ...] = C_GRID

    def universum(self, name: str) -> Universum:
        return next(universum for universum in self.universa if universum.name == name)


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
_SIGNS: dict[str, Any] = {
    "dataset": "gtsrb",
    "classes": (1, 4, 5),
    "n_train": 100,
    "n_test": 500,
    "m": 500,
    "sizes": (250, 500, 750, 1000),
    "kernel": "linear",
    "gamma": 1.0,
    "what": "traffic signs '30', '70' and '80', 1568 HOG features",
}
OTHER_SIGNS = (9, 10, 11, 13, 14, 15, 16, 18, 20, 22, 23, 26, 28, 30, 31, 33, 34, 35, 38, 40)

SETTINGS = {
    "gtsrb": Setting(
        **_SIGNS,
        universa=(Universum("no-entry", (17,)), Universum("road-work", (25,))),
        published="gtsrb",
    ),
    "sequel": Setting(
        **_SIGNS,
        universa=(
            Universum("priority-road", (12,)),
            Universum("others", OTHER_SIGNS, even=True),
            Universum("random-average"),
        ),
        Cs=C_GRID_2019,
    ),
    "abcdetc": Setting(
        dataset="abcdetc",
        **_CHARACTERS,
        sizes=(50, 100, 150, 250),
        what="handwritten digits 0-3 of ABCDETC, 100 x 100 black or white pixels",
    ),
    "nist": Setting(
        dataset="nist",
        **_CHARACTERS,
        sizes=(250, 500, 750, 1000),
        what="handwritten digits 0-3 of NIST, 100 x 100 black or white pixels",
    ),
    "isolet": Setting(
        dataset="isolet",
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
        dataset="digits",
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
