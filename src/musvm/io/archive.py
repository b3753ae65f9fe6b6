"""Zip archives of arrays that cannot grow while they are read.

Entries are stored, not compressed, and an array is only read once its header is known to ask for
exactly the bytes that are there.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from typing import IO

import numpy as np
import scipy.sparse as sp


def read_zip(content: bytes) -> dict[str, bytes]:
    """What is in a zip archive, by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def stored(entries: Mapping[str, bytes]) -> bytes:
    """A zip archive, not compressed and without dates."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def is_sound(entry: str, data: bytes) -> bool:
    """Whether an entry, if it is an array, is as large as it says and safe to compute with."""
    if entry.endswith(".npy"):
        return array_size(io.BytesIO(data)) == len(data)
    if not entry.endswith(".npz"):
        return True
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            true_sizes = (
                all(info.compress_type == zipfile.ZIP_STORED for info in infos)
                and sum(info.file_size for info in infos) <= len(data)
                and all(array_size(io.BytesIO(archive.read(i))) == i.file_size for i in infos)
            )
        # Compiled code follows the indices of a sparse matrix without looking where they lead.
        if true_sizes:
            sp.load_npz(io.BytesIO(data)).check_format(full_check=True)
    # What NumPy and SciPy raise on bytes that are no sparse matrix has no common base.
    except Exception:
        return False
    return true_sizes


def array_size(file: IO[bytes]) -> int | None:
    """Bytes that a .npy file must have by its own header, which is read; None if it is no such.

    NumPy allocates what a header asks for before it looks at what follows. Arrays of objects
    have no size: they would be pickled.
    """
    try:
        major, minor = np.lib.format.read_magic(file)
        if (major, minor) not in ((1, 0), (2, 0)):
            return None
        read = (
            np.lib.format.read_array_header_1_0
            if major == 1
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    except (ValueError, OSError, EOFError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    if dtype.hasobject or any(length < 0 for length in shape):
        return None
    return file.tell() + math.prod(shape) * dtype.itemsize
