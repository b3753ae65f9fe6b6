"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the name `path` if and when the block succeeds.

    It is written beside that name and renamed with `os.replace`, which is atomic: whoever looks
    sees the old file or the new one, whole.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # Not tempfile: its files are for their owner only, and would stay so.
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        # Where it cannot be removed it could not be made either, and that is what went wrong.
        with suppress(OSError):
            temporary.unlink()
        raise
