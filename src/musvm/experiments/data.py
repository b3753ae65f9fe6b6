"""The points that partitions are drawn from, and the drawing.

A *partition* is a random choice of training points, test points and universum points. Universa
of different sizes are nested: the first m points of one random order.

The split "random" draws images at random, as the paper did. Frames of one physical sign then lie
on both sides. The split "tracks" deals the signs of each class out first, half of them to the
training side, and draws the images of each side from its own signs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from musvm._input.tensors import FloatArray, IntArray
from musvm.datasets import fetch_gtsrb, fetch_isolet, load_abcdetc, load_nist
from musvm.experiments.settings import SETTINGS, Setting


@dataclass(frozen=True)
class Features:
    """How the traffic signs are turned into numbers; no other data set has a choice."""

    color: bool = False
    roi: bool = False
    scale: float = 1.0


DEFAULT_FEATURES = Features()


@dataclass(frozen=True)
class Data:
    """All points of a data set that an experiment may draw; `tracks` None if there are none."""

    X: FloatArray
    y: Any
    tracks: IntArray | None

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
    dataset: str,
    path: Path | None = None,
    features: Features = DEFAULT_FEATURES,
    n_jobs: int | None = None,
) -> Data:
    """Read a data set from a file or folder, or get it where that is possible.

    Raises
    ------
    ValueError
        If a path is missing, or given to a data set that comes with scikit-learn.
    """
    setting = SETTINGS[dataset]
    wanted = list(chain(setting.classes, *(universum.labels for universum in setting.universa)))
    if dataset == "gtsrb":
        signs: Any = fetch_gtsrb(
            classes=wanted,
            color=features.color,
            roi=features.roi,
            feature_scale=features.scale,
            archive=path,
            n_jobs=n_jobs,
        )
        return Data(signs.data, signs.target, signs.tracks)
    if dataset == "isolet":
        letters: Any = fetch_isolet(archive=path)
        return Data(letters.data, letters.target, None)
    if dataset == "digits":
        if path is not None:
            raise ValueError("the digits come with scikit-learn and are not read from a file")
        images, digits = load_digits(return_X_y=True)
        return Data(images / 16.0, digits, None)
    if path is None:
        raise ValueError(f"the data set {dataset} cannot be downloaded: give its file")
    characters: Any = (load_nist if dataset == "nist" else load_abcdetc)(path, classes=wanted)
    return Data(characters.data, characters.target, None)


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
    names = [candidate.name for candidate in setting.universa]
    position = names.index(universum)
    pool = _rows(data, setting.universa[position].labels)
    if m > len(pool):
        raise ValueError(f"universum {universum} has {len(pool)} points, fewer than {m}")
    chosen = np.random.default_rng([seed, number, position]).permutation(pool)[:m]
    return Partition(
        data.X[train],
        data.y[train],
        data.X[test],
        data.y[test],
        data.X[chosen],
        data.tracks[train] if split == "tracks" and data.tracks is not None else None,
    )


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
