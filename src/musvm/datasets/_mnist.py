"""MNIST from its original files.

The idx format: two zero bytes, a type (8: unsigned bytes), the number of dimensions, each
dimension as a big-endian 32-bit number, then the values.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from musvm.datasets._files import PathLike
from musvm.datasets._source import refuse

FloatArray = NDArray[np.float64]

PREFIXES = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}
MAX_BYTES = 2**28  # The largest of the four files is about 2**26 bytes unpacked.

DESCR = """\
MNIST
-----
Handwritten digits, 28 x 28 grey pixels, here between 0 and 1: 60,000 training images and 10,000
test images, from different writers.

Source: Y. LeCun, C. Cortes and C. J. C. Burges, from NIST Special Databases 1 and 3.
Terms: Creative Commons Attribution-ShareAlike 3.0, as commonly stated for it.
"""


def load_mnist(
    path: PathLike,
    *,
    subset: Literal["train", "test", "all"] = "train",
    classes: Iterable[int] | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, NDArray[np.intp]]:
    """Load MNIST from a folder with its original files.

    Parameters
    ----------
    path : str or path-like
        Folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the two ``t10k``
        files, as they are or compressed (``.gz``).
    subset : {"train", "test", "all"}, default="train"
        Which images to load; "all" puts the test images last.
    classes : iterable of int, default=None
        The digits to load. None loads all.
    return_X_y : bool, default=False
        Return `(data, target)` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of shape (n_samples, 784)
            Pixels between 0 and 1.
        target : ndarray of shape (n_samples,)
            Digits.
        target_names : list of int
            The digits that occur.
        images : ndarray of shape (n_samples, 28, 28)
            A view of `data`.
        DESCR : str
            A description of the data.

    Raises
    ------
    ArchiveError
        If a file is truncated, corrupted or not in the format.

    Examples
    --------
    >>> import struct
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from musvm.datasets import load_mnist
    >>> with TemporaryDirectory() as folder:
    ...     images = Path(folder, "t10k-images-idx3-ubyte")
    ...     _ = images.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 1, 28, 28) + bytes(784))
    ...     labels = Path(folder, "t10k-labels-idx1-ubyte")
    ...     _ = labels.write_bytes(struct.pack(">4BIB", 0, 0, 8, 1, 1, 7))
    ...     X, y = load_mnist(folder, subset="test", return_X_y=True)
    >>> X.shape, y.tolist()
    ((1, 784), [7])
    """
    if subset not in PREFIXES:
        raise ValueError(f'subset must be "train", "test" or "all", not {subset!r}')
    parts = [_read_part(Path(path).expanduser(), prefix) for prefix in PREFIXES[subset]]
    pixels = np.concatenate([images for images, _ in parts])
    target = np.concatenate([labels for _, labels in parts]).astype(np.intp)
    if classes is not None:
        wanted = set(classes)
        if absent := wanted - set(target.tolist()):
            raise ValueError(f"classes {sorted(absent)} are not in the data")
        rows = np.isin(target, sorted(wanted))
        pixels, target = pixels[rows], target[rows]
    data = pixels.reshape(len(pixels), -1) / 255.0
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=np.unique(target).tolist(),
        images=data.reshape(-1, 28, 28),
        DESCR=DESCR,
    )


def _read_part(folder: Path, prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images = read_idx(_existing(folder, f"{prefix}-images-idx3-ubyte"))
    labels = read_idx(_existing(folder, f"{prefix}-labels-idx1-ubyte"))
    if images.shape != (*labels.shape, 28, 28):
        raise refuse(
            folder / prefix, f"images {images.shape} and labels {labels.shape} do not match"
        )
    return images, labels


def _existing(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise FileNotFoundError(f"{folder}: neither {name} nor {name}.gz is there")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file, plain or compressed."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise refuse(path, f"truncated or corrupted ({error})") from error
    if len(content) > MAX_BYTES:
        raise refuse(path, f"unpacks to more than {MAX_BYTES:,} bytes")
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise refuse(path, "not an idx file of unsigned bytes")
    n_dimensions = content[3]
    start = 4 + 4 * n_dimensions
    shape = struct.unpack(f">{n_dimensions}I", content[4:start].ljust(start - 4, b"\0"))
    if len(content) - start != math.prod(shape):
        raise refuse(path, f"its {len(content)} bytes are not an array of shape {shape}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
