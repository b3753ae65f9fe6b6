"""The points that partitions are drawn from, and the drawing.

A *partition* is a random choice of training points, test points and universum points. Universa
of different sizes are nested: the first m points of one random order.

The split "random" draws images at random, as the paper did. Frames of one physical sign then lie
on both sides. The split "tracks" deals the signs of each class out first, half of them to the
training side, and draws the images of each side from its own signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from musvm.datasets import fetch_gtsrb, fetch_isolet, load_abcdetc, load_mnist, load_nist
from musvm.experiments.settings import Setting, Universum
from musvm.universum import random_average

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# How traffic signs are turned into numbers: parameters of `fetch_gtsrb`.
FEATURES: dict[str, dict[str, Any]] = {
    "hog": {},
    "gamma": {"gamma_correction": True},
    "grey": {"color": False},
    "no-window": {"block_window": False},
    "no-interpolation": {"interpolation": False},
    "neither": {"block_window": False, "interpolation": False},
    "roi": {"roi": True},
    "simplified": {"features": "hog-simplified"},
}
# Data set: the name of its file, or of one of its files, and where it comes from.
ARCHIVES = {
    "gtsrb": (
        "GTSRB_Final_Training_Images*.zip",
        "GTSRB_Final_Training_Images.zip from "
        "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/",
    ),
    "nist": ("nist*.npz", "nist_digits_letters.npz (see musvm.datasets.load_nist)"),
    "abcdetc": ("*.svl", "final.svl, which the authors of ABCDETC hand out on request"),
    "isolet": ("isolet*.zip", "isolet.zip from https://archive.ics.uci.edu/static/public/54/"),
    "mnist": ("mnist/train-images*", "the four original files of MNIST, in a folder mnist"),
}


class MissingDataError(FileNotFoundError):
    """A data set is not where it was looked for; the message says where to get it."""


@dataclass(frozen=True)
class Data:
    """All points of a data set that an experiment may draw; `tracks` None if there are none."""

    X: FloatArray
    y: Any
    tracks: IntArray | None = None

    @property
    def digest(self) -> str:
        h = blake2b(np.ascontiguousarray(self.X).data, digest_size=16)
        h.update("\0".join(map(str, self.y)).encode())
        return h.hexdigest()


@dataclass(frozen=True)
class Partition:
    """One random choice; `groups` are the tracks of the training points, if they matter."""

    X: FloatArray
    y: Any
    X_test: FloatArray
    y_test: Any
    universum: FloatArray
    groups: IntArray | None


def load_data(
    setting: Setting, path: Path | None = None, features: str = "hog", n_jobs: int | None = None
) -> Data:
    """The points of a setting, read from a file or from the files of a folder.

    Raises
    ------
    MissingDataError
        If there is no such file.
    """
    labels = list(chain(setting.classes, *(universum.labels for universum in setting.universa)))
    return load_points(setting.dataset, path, labels, features, n_jobs)


def load_points(
    dataset: str,
    path: Path | None,
    labels: Iterable[Any],
    features: str = "hog",
    n_jobs: int | None = None,
) -> Data:
    """The points of a data set that have these labels."""
    wanted = list(labels)
    if dataset == "digits":
        images, digits = load_digits(return_X_y=True)
        return _only(Data(images / 16.0, digits), wanted)
    files = _find(dataset, path)
    if dataset == "gtsrb":
        return _load_signs(files, wanted, features, n_jobs)
    if dataset == "isolet":
        letters: Any = fetch_isolet(archive=files[0])
        return _only(Data(letters.data, letters.target), wanted)
    if dataset == "mnist":
        mnist: Any = load_mnist(files[0].parent, classes=wanted)
        return Data(mnist.data, mnist.target)
    characters: Any
    if dataset == "abcdetc":
        characters = load_abcdetc(files[0], classes=wanted)
    else:
        # 28 x 28 pixels, like MNIST's images, or the 100 x 100 of ABCDETC.
        size: Any = "images28" if features == "images28" else "bits100"
        characters = load_nist(files[0], features=size, classes=wanted)
    return Data(characters.data, characters.target)


def _find(dataset: str, path: Path | None) -> list[Path]:
    """The files of a data set: the one given, or those of a folder that have its name."""
    pattern, source = ARCHIVES[dataset]
    if path is not None and not path.is_dir():
        return [path]
    found = sorted(path.glob(pattern)) if path is not None else []
    # Loaders that read unpacked archives are given the folder.
    unpacked = {"gtsrb": "**/GT-*.csv", "isolet": "isolet*.data"}.get(dataset)
    if path is not None and unpacked and not found and any(path.glob(unpacked)):
        return [path]
    if not found:
        place = "" if path is None else f" in {path}"
        raise MissingDataError(
            f"the data set {dataset} is not there{place}: get {source}, and give the file or its "
            "folder as --data"
        )
    return found


def _load_signs(archives: list[Path], labels: list[int], features: str, n_jobs: int | None) -> Data:
    """Signs from the archives that have them; the official archive has all."""
    parts = []
    missing = set(labels)
    for archive in archives:
        here = missing if len(archives) == 1 else missing & _classes_in(archive)
        if here:
            parts.append(
                fetch_gtsrb(
                    classes=sorted(here), archive=archive, n_jobs=n_jobs, **FEATURES[features]
                )
            )
            missing = missing - here
    if missing:
        raise ValueError(f"classes {sorted(missing)} are not in {', '.join(map(str, archives))}")
    X, y, tracks = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("data", "target", "tracks")
    )
    return Data(X, y, tracks)


def _classes_in(archive: Path) -> set[int]:
    try:
        with ZipFile(archive) as file:
            names = file.namelist()
    except BadZipFile as error:
        raise ValueError(f"{archive}: not a complete zip archive ({error})") from error
    return {int(match[1]) for name in names if (match := re.search(r"/GT-(\d{5})\.csv$", name))}


def _only(data: Data, labels: list[Any]) -> Data:
    rows = _rows(data, labels)
    return Data(data.X[rows], data.y[rows])


def draw_partition(
    data: Data, setting: Setting, split: str, seed: int, number: int, universum: str, m: int
) -> Partition:
    """Partition `number` with m points of a universum.

    Training and test points do not depend on the universum.
    """
    rng = np.random.default_rng([seed, number])
    sides = [_sides_of_class(data, label, setting, split, rng) for label in setting.classes]
    train = rng.permutation(np.concatenate([side[0] for side in sides]))
    test = np.concatenate([side[1] for side in sides])
    chosen = setting.universum(universum)
    position = setting.universa.index(chosen)
    if chosen.labels:
        own_rng = np.random.default_rng([seed, number, position])
        points = data.X[_universum_rows(data, chosen, m, own_rng)]
    else:
        points = random_average(data.X[train], data.y[train], m, random_state=number)
    return Partition(
        data.X[train],
        data.y[train],
        data.X[test],
        data.y[test],
        points,
        data.tracks[train] if split == "tracks" and data.tracks is not None else None,
    )


def _universum_rows(data: Data, universum: Universum, m: int, rng: np.random.Generator) -> IntArray:
    if universum.even:
        each = m // len(universum.labels)
        pools = [rng.permutation(_rows(data, [label])) for label in universum.labels]
        rows = np.concatenate([pool[:each] for pool in pools])
    else:
        rows = rng.permutation(_rows(data, universum.labels))[:m]
    if len(rows) < m:
        raise ValueError(f"universum {universum.name} has {len(rows)} points, fewer than {m}")
    return rows


def _sides_of_class(
    data: Data, label: Any, setting: Setting, split: str, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Training rows and test rows of one class."""
    rows = rng.permutation(_rows(data, [label]))
    sides = rows, rows[setting.n_train :]
    if split == "tracks":
        if data.tracks is None:
            raise ValueError("only the traffic signs have tracks to split by")
        tracks = rng.permutation(np.unique(data.tracks[rows]))
        in_training = np.isin(data.tracks[rows], tracks[: len(tracks) // 2])
        sides = rows[in_training], rows[~in_training]
    train, test = sides[0][: setting.n_train], sides[1][: setting.n_test]
    if len(train) < setting.n_train or len(test) < setting.n_test:
        raise ValueError(
            f"class {label} has too few points for {setting.n_train} to train on and "
            f"{setting.n_test} to test on"
        )
    return train, test


def _rows(data: Data, labels: Iterable[Any]) -> IntArray:
    return np.flatnonzero(np.isin(data.y, list(labels)))
