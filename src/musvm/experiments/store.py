"""Finished cells of an experiment: small JSON files named after a hash of what they depend on.

A file appears whole or not at all, so an experiment that was killed goes on where it was. What a
cell depends on is stored with it and compared when it is read.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

from musvm._files import replacing

Record = dict[str, Any]


class Store:
    """Cells in a folder."""

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


def _plain(record: Record) -> Record:
    """As JSON gives it back: tuples are lists."""
    plain: Record = json.loads(json.dumps(record))
    return plain
