"""Where files live and how they are written: the data folder, checksums, atomic writes, caches.

A file appears under its final name only when it is complete. It is written beside that name
under a temporary one and renamed with `os.replace`, which is atomic, so an interrupted download
or computation leaves nothing that a later call could mistake for the whole.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import get_data_home as sklearn_data_home

from musvm import _files as files

PathLike = str | os.PathLike[str]


class ArchiveError(ValueError):
    """A data file was refused: it is truncated, corrupted, hostile or not what it should be."""


def get_data_home(data_home: PathLike | None = None) -> Path:
    """Return the folder that downloads and computed features are kept in.

    Parameters
    ----------
    data_home : str or path-like, default=None
        The folder itself. If None, the environment variable ``MUSVM_DATA_HOME``; if that is not
        set, the folder ``musvm`` in scikit-learn's own data home.

    Returns
    -------
    data_home : pathlib.Path
        The folder. It is created when something is first written to it.

    Examples
    --------
    >>> from musvm.datasets import get_data_home
    >>> get_data_home("somewhere").name
    'somewhere'
    """
    if data_home is None:
        data_home = os.environ.get("MUSVM_DATA_HOME") or Path(sklearn_data_home(), "musvm")
    return Path(data_home).expanduser()


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        # MD5 is only ever compared with a published value here; it guards against accidents.
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()


def hash_matches(path: Path, known_hash: str) -> bool:
    """Whether a file has a checksum written as `hexdigits` (SHA-256) or `algorithm:hexdigits`."""
    algorithm, _, digits = known_hash.rpartition(":")
    return file_hash(path, algorithm or "sha256") == digits.lower()


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """`musvm._files.replacing`, in a folder that need not exist yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as file:
        yield file


def cached_array(
    path: Path, compute: Callable[[], NDArray[Any]], is_valid: Callable[[NDArray[Any]], bool]
) -> NDArray[Any]:
    """The array kept in `path`; computed, and kept there, if it is absent, broken or not valid.

    The file is an .npz with one array: unlike .npy it carries a checksum of its content.
    """
    try:
        # Opened here because np.load leaves a file open that it finds to be broken.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            array: NDArray[Any] = arrays["values"]
        if is_valid(array):
            return array
    except FileNotFoundError:
        pass
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
        pass  # A damaged cache is worth no more than an absent one.
    array = compute()
    with replacing(path) as output:
        np.savez(output, values=array)
    return array
