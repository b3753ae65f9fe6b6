"""Finished tasks of an experiment: small JSON files named after a hash of what they depend on.

A file appears whole or not at all, so an experiment that was killed goes on where it was. What a
task depends on is stored with it and compared when it is read. The code is part of that: it is
known by a hash of the package's sources, since two states of the code may have one version.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import musvm
from musvm._files import replacing

Record = dict[str, Any]
SOURCES = (".py", ".pyx", ".pxd")


class Store:
    """Outcomes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, conditions: Record) -> Record | None:
        """The outcome under these conditions; None if there is none that can be trusted."""
        path = self._path(conditions)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            outcome: Record = content["outcome"]
            known = content["conditions"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # not there, or not what `save` wrote
        return outcome if known == _plain(conditions) else None

    def save(self, conditions: Record, outcome: Record) -> None:
        with replacing(self._path(conditions)) as file:
            file.write(
                json.dumps({"conditions": conditions, "outcome": outcome}, indent=1).encode()
            )

    def _path(self, conditions: Record) -> Path:
        text = json.dumps(conditions, sort_keys=True)
        return self.folder / f"{blake2b(text.encode(), digest_size=16).hexdigest()}.json"


@cache
def code_digest() -> str:
    """A hash of the names and contents of all source files of the package."""
    folder = Path(musvm.__file__).parent
    total = blake2b(digest_size=8)
    for path in sorted(folder.rglob("*")):
        if path.suffix in SOURCES:
            total.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            total.update(blake2b(path.read_bytes()).digest())
    return total.hexdigest()


def _plain(record: Record) -> Record:
    """As JSON gives it back: tuples are lists."""
    plain: Record = json.loads(json.dumps(record))
    return plain
