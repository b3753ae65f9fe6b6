"""Where finished cells cannot be kept, the search goes on and says so."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from musvm._files import replacing
from musvm.search.memory import CellStore


class FullDisk:
    """A file that cannot be written to."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def write(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_the_cell_and_not_the_search(tmp_path, monkeypatch):
    store = CellStore(tmp_path)
    monkeypatch.setattr("pathlib.Path.open", lambda *args, **kwargs: FullDisk())
    with pytest.warns(UserWarning, match="No space left on device"):
        store.save("key", {"values": np.arange(3)})
    assert store.load("key") is None


def test_the_cause_is_reported_and_not_what_cleaning_up_ran_into(tmp_path, monkeypatch):
    def read_only(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", read_only)
    monkeypatch.setattr("pathlib.Path.unlink", denied)
    with pytest.raises(OSError, match="Read-only"), replacing(tmp_path / "file"):
        pass
