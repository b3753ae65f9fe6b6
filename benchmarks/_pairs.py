"""Pairs of a classification problem and a universum, to be drawn again and again.

A pair names its data, its classes, where its universum comes from, and how many examples of each
there are. `draw` makes one random partition of it: kernel matrices of training points followed by
universum points, and of test points to all of them.

**Two halves.** Of the pairs of each data set, in the order in which they are listed here, every
second one, from the second on, is for reporting; the others are for inventing. Rules are made up
with the partitions 1000 to 1009 of the inventing pairs, and judged once with the partitions 0 to 9
of the reporting pairs.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.preprocessing import StandardScaler

from _shared import data_file
from musvm.universum import random_average, select_in_between

UNIVERSUM = -1
AVERAGES, BETWEEN = "random averages", "in between"
N_TEST = 1500
N_PARTITIONS, FIRST_INVENTING_SEED = 10, 1000
Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Pair:
    """Classes of a data set with a universum, and their numbers.

    `universum` is a tuple of labels, or the name of a way to make or select one: random averages
    of the training points, or what lies between the classes among all other labels.
    """

    data: str
    classes: tuple[Any, ...]
    universum: tuple[Any, ...] | str
    n_per_class: int
    kernel: str
    m: int = 200
    label: str = ""

    @property
    def name(self) -> str:
        classes = "/".join(map(str, self.classes))
        sizes = f"{self.n_per_class} a class, {self.kernel}"
        return f"{self.data} {classes}, {self.universum_name}, {sizes}"

    @property
    def universum_name(self) -> str:
        if self.label or isinstance(self.universum, str):
            return self.label or str(self.universum)
        return "/".join(map(str, self.universum))


@dataclass(frozen=True)
class Partition:
    """Kernel matrices: of training points, then universum points; and of test points to them."""

    gram: np.ndarray
    y: np.ndarray
    test: np.ndarray
    y_test: np.ndarray

    @property
    def n(self) -> int:
        return int(np.sum(self.y != UNIVERSUM))

    @property
    def scale(self) -> float:
        """Mean squared distance of a training point from their mean, in the kernel's space."""
        training = self.gram[: self.n, : self.n]
        return float(training.diagonal().mean() - training.mean())


# ---------------------------------------------------------------------------------------------
# The pairs

SIGNS = (1, 4, 5)
OTHER_SIGNS = (9, 10, 11, 13, 14, 15, 16, 18, 20, 22, 23, 26, 28, 30, 31, 33, 34, 35, 38, 40)


def _signs(n_per_class: int) -> list[Pair]:
    def pair(universum: tuple[Any, ...] | str, label: str = "") -> Pair:
        return Pair("signs", SIGNS, universum, n_per_class, "linear", 500, label)

    return [
        pair((17, 25), "no entry and road work"),
        pair((17,), "no entry"),
        pair((12,), "priority road"),
        pair((25,), "road work"),
        pair(AVERAGES),
        pair(OTHER_SIGNS, "other signs"),
        pair(BETWEEN),
    ]


def _rest(classes: tuple[Any, ...], labels: Any) -> tuple[Any, ...]:
    return tuple(label for label in labels if label not in classes)


def _left_out(
    data: str, labels: Any, *settings: tuple[tuple[Any, ...], int, str], label: str = "the rest"
) -> list[Pair]:
    """Some classes of a data set, the others as universum."""
    return [
        Pair(data, classes, _rest(classes, labels), n, kernel, label=label)
        for classes, n, kernel in settings
    ]


def all_pairs() -> list[Pair]:
    digits, vowels = tuple("0123456789"), tuple("aeiou")
    return [
        *(pair for n in (20, 10, 100) for pair in _signs(n)),
        Pair("nist", tuple("0123"), ("a",), 20, "rbf"),
        Pair("nist", tuple("0123"), ("i",), 20, "linear"),
        Pair("nist", digits, vowels, 5, "rbf"),
        Pair("nist", digits, vowels, 5, "linear"),
        Pair("nist", vowels, digits, 10, "linear", label="digits"),
        Pair("nist", tuple("AEIOU"), digits, 5, "rbf", label="digits"),
        Pair("nist", tuple("358"), vowels, 10, "linear"),
        Pair("nist", tuple("358"), AVERAGES, 10, "rbf"),
        *_left_out(
            "mnist", range(10),
            ((5, 8), 20, "linear"), ((5, 8), 20, "rbf"), ((3, 5, 8), 10, "linear"),
            ((3, 5, 8), 30, "rbf"), ((4, 7, 9), 10, "rbf"), ((4, 7, 9), 20, "linear"),
            (tuple(range(5)), 5, "linear"), (tuple(range(5)), 10, "rbf"),
        ),
        Pair("mnist", (3, 8), AVERAGES, 50, "linear"),
        Pair("mnist", (3, 8), AVERAGES, 20, "rbf"),
        *_left_out(
            "letter", range(1, 27),
            ((1, 2, 3, 4, 5), 10, "linear"), ((1, 2, 3, 4, 5), 20, "rbf"),
            ((3, 7, 15, 17), 10, "rbf"), ((3, 7, 15, 17), 30, "linear"),
        ),
        *_left_out(
            "satimage", range(1, 7),
            ((3, 4, 6), 20, "linear"), ((3, 4, 6), 10, "rbf"), ((1, 2, 5), 20, "rbf"),
            ((1, 5), 5, "linear"),
        ),
        *_left_out(
            "segment", range(1, 8),
            ((1, 4, 5), 10, "linear"), ((1, 4, 5), 20, "rbf"), ((3, 5), 5, "rbf"),
            ((3, 4, 5), 20, "linear"),
        ),
        *_left_out(
            "vehicle", range(1, 5),
            ((1, 2), 20, "linear"), ((1, 2), 50, "rbf"), ((1, 2), 10, "rbf"),
            ((1, 2), 100, "linear"),
        ),
        *_left_out("vowel", range(11), (tuple(range(5)), 10, "linear"), ((5, 6, 7, 8), 10, "rbf")),
        *_left_out(
            "digits", range(10),
            ((3, 5, 8, 9), 5, "rbf"), ((3, 5, 8, 9), 5, "linear"), ((1, 7), 2, "linear"),
            ((1, 4, 7), 3, "rbf"),
        ),
        *_left_out("wine", range(3), ((0, 1), 5, "linear"), ((1, 2), 10, "rbf")),
        *_left_out("iris", range(3), ((1, 2), 5, "rbf"), ((1, 2), 10, "linear")),
        Pair("breast cancer", (0, 1), AVERAGES, 20, "rbf"),
        Pair("breast cancer", (0, 1), AVERAGES, 10, "linear"),
    ]  # fmt: skip


def halves() -> tuple[list[Pair], list[Pair]]:
    """The pairs for inventing and those for reporting."""
    inventing: list[Pair] = []
    reporting: list[Pair] = []
    for _, group in groupby(all_pairs(), key=lambda pair: (pair.data, _size_group(pair))):
        pairs = list(group)
        inventing += pairs[::2]
        reporting += pairs[1::2]
    return inventing, reporting


def _size_group(pair: Pair) -> int:
    """Signs are split anew at every size, so that all universa are judged on both sides of it."""
    return pair.n_per_class if pair.data == "signs" else 0


# ---------------------------------------------------------------------------------------------
# Data


@cache
def load(data: str, cache_folder: Path) -> Arrays:
    """All points of a data set and their labels."""
    if data == "signs":
        return _signs_by_opencv(cache_folder)
    if data == "nist":
        with np.load(data_file("nist_digits_letters.npz")) as archive:
            return archive["images28"].reshape(-1, 784) / 255.0, archive["labels"]
    if data == "mnist":
        from musvm.datasets import load_mnist

        return load_mnist(data_file("mnist"), return_X_y=True)
    if data in ("letter", "satimage", "segment", "vehicle", "vowel"):
        content = gzip.decompress(data_file(f"libsvm/{data}.scale.gz").read_bytes())
        X, y = datasets.load_svmlight_file(io.BytesIO(content))
        return X.toarray(), y.astype(int)
    loaders: dict[str, Callable[..., Any]] = {
        "digits": datasets.load_digits,
        "wine": datasets.load_wine,
        "iris": datasets.load_iris,
        "breast cancer": datasets.load_breast_cancer,
    }
    X, y = loaders[data](return_X_y=True)
    return (X / 16 if data == "digits" else StandardScaler().fit_transform(X)), y


def _signs_by_opencv(cache_folder: Path) -> Arrays:
    """Colour images as Dalal and Triggs describe them, 1568 numbers each."""
    file = cache_folder / "signs.npz"
    if not file.exists():
        import cv2

        hog = cv2.HOGDescriptor((40, 40), (10, 10), (5, 5), (5, 5), 8)
        X, y = [], []
        for part in ("subset", "others"):
            with zipfile.ZipFile(data_file(f"GTSRB_Final_Training_Images.{part}.zip")) as archive:
                for name in sorted(n for n in archive.namelist() if n.endswith(".ppm")):
                    image = cv2.imdecode(np.frombuffer(archive.read(name), np.uint8), 1)
                    X.append(hog.compute(cv2.resize(image, (40, 40))).ravel())
                    y.append(int(name.split("/")[-2]))
        np.savez(file, X=np.array(X, np.float32), y=np.array(y))
    with np.load(file) as archive:
        return archive["X"].astype(float), archive["y"]


def draw(pair: Pair, seed: int, cache_folder: Path) -> Partition:
    """One random partition of a pair."""
    X, target = load(pair.data, cache_folder)
    rng = np.random.RandomState(seed)
    train, test = [], []
    for label in pair.classes:
        rows = rng.permutation(np.flatnonzero(target == label))
        train.append(rows[: pair.n_per_class])
        test.append(rows[pair.n_per_class :][: N_TEST // len(pair.classes)])
    codes = np.arange(len(pair.classes))
    y = np.repeat(codes, pair.n_per_class)
    training = X[np.concatenate(train)]
    universum = _universum(pair, training, y, X, target, rng)
    points, test_points = np.vstack([training, universum]), X[np.concatenate(test)]
    kernel = linear_kernel
    if pair.kernel == "rbf":
        gamma = 1 / (X.shape[1] * training.var())
        kernel = lambda A, B: rbf_kernel(A, B, gamma=gamma)  # noqa: E731
    return Partition(
        gram=kernel(points, points),
        y=np.concatenate([y, np.full(len(universum), UNIVERSUM)]),
        test=kernel(test_points, points),
        y_test=np.repeat(codes, [len(rows) for rows in test]),
    )


def _universum(
    pair: Pair,
    training: np.ndarray,
    y: np.ndarray,
    X: np.ndarray,
    target: np.ndarray,
    rng: np.random.RandomState,
) -> np.ndarray:
    if pair.universum == AVERAGES:
        return random_average(training, y, pair.m, random_state=rng)
    if pair.universum == BETWEEN:
        return select_in_between(training, y, X[~np.isin(target, pair.classes)], pair.m)
    rows = rng.permutation(np.flatnonzero(np.isin(target, pair.universum)))
    return X[rows[: pair.m]]
