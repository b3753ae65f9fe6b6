"""Finished cells in a directory, so that a search that was killed goes on where it was.

A cell is a file named after its key, a hash of everything that its contents depend on. It holds
a hash of the key and of the payload, then the payload, an `.npz` archive of plain arrays. Nothing
in it is executed. A file that does not match its hash is recomputed.

Files appear under their name only when they are complete. Whatever a power failure may leave of
one is told by its hash.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from musvm._files import replacing
from musvm._messages import warn_user

DIGEST_SIZE = 20
Arrays = dict[str, Any]


def digest(*parts: Any) -> str:
    """A hash of arrays, strings, numbers and None, in this order."""
    h = blake2b(digest_size=DIGEST_SIZE)
    for part in parts:
        if isinstance(part, np.ndarray):
            h.update(f"{part.dtype.str}{part.shape}".encode())
            h.update(np.ascontiguousarray(part).data)
        else:
            h.update(f"{type(part).__name__}:{part!r};".encode())
    return h.hexdigest()


class CellStore:
    """Cells by their keys; without a directory it forgets everything."""

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        self.directory = None if directory is None else Path(directory)
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def is_kept(self) -> bool:
        return self.directory is not None

    def load(self, key: str) -> Arrays | None:
        """The arrays under a key; None if there are none that can be trusted."""
        if self.directory is None:
            return None
        path = _file(self.directory, key)
        if not path.exists():
            return None
        content = path.read_bytes()
        seal, payload = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
        try:
            if seal != _seal(key, payload):
                raise ValueError("its checksum does not match")
            with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
                return {name: archive[name][()] for name in archive.files}
        except (ValueError, OSError, EOFError, BadZipFile) as error:
            warn_user(f"The finished cell {path} cannot be used ({error}) and is computed again.")
            return None

    def save(self, key: str, arrays: Mapping[str, Any]) -> None:
        """Keep arrays under a key."""
        if self.directory is None:
            return
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        payload = buffer.getvalue()
        try:
            with replacing(_file(self.directory, key)) as file:
                file.write(_seal(key, payload) + payload)
        except OSError as error:
            # The search itself needs no disk.
            warn_user(
                f"A finished cell cannot be kept in {self.directory} ({error.strerror or error}): "
                "the search goes on, but would compute it again."
            )


def _file(directory: Path, key: str) -> Path:
    return directory / f"{key}.cell"


def _seal(key: str, payload: bytes) -> bytes:
    return blake2b(key.encode() + payload, digest_size=DIGEST_SIZE).digest()
