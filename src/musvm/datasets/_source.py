"""Reading the files of an archive, or of the folder it was unpacked to, with suspicion.

A source has `names`, `read(name)`, `digest(names)` and `close()`. Nothing is ever extracted to
disk: members are read into memory one at a time. An archive is still refused as a whole if any of
its members could do harm to someone who unpacks it (names that leave the folder, links) or is
beyond the size that the data set can have, because such an archive is not the publisher's.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol

from musvm._lazy import lazy
from musvm.datasets._files import ArchiveError, PathLike, file_hash

REMEDY = "Get a fresh copy from its publisher and try again."


def refuse(path: PathLike, problem: str) -> ArchiveError:
    """The error that names a refused file, what is wrong with it and what to do."""
    return ArchiveError(f"{os.fspath(path)}: {problem}. {REMEDY}")


class Source(Protocol):
    """The files of a data set, by name, with forward slashes."""

    path: Path
    names: list[str]

    def read(self, name: str) -> bytes:
        """The content of one file."""

    def digest(self, names: Iterable[str]) -> str:
        """A checksum that changes if the content of any of these files does."""

    def close(self) -> None:
        """Release what is open."""


def open_source(path: PathLike, *, max_member: int, max_total: int) -> Source:
    """Open a zip archive or a folder.

    No file in it may exceed `max_member` bytes unpacked, nor an archive `max_total`.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return FolderSource(path, max_member=max_member)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such archive or folder")
    return ZipSource(path, max_member=max_member, max_total=max_total)


def check_name(archive: Path, name: str) -> None:
    """Refuse a member name that is absolute or climbs out of the folder it is unpacked to."""
    windows = PureWindowsPath(name)
    climbs = ".." in PurePosixPath(name).parts or ".." in windows.parts
    if climbs or name.startswith(("/", "\\")) or windows.drive or "\\" in name:
        raise refuse(archive, f"member name {name!r} points outside the archive")


class ZipSource:
    """A zip archive. Every member is checked when it is opened, its CRC when it is read."""

    def __init__(self, path: Path, *, max_member: int, max_total: int) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
            problem = f"not a complete zip archive, it may be truncated ({error})"
            raise refuse(path, problem) from error
        try:
            self._check_members(max_member, max_total)
        except ArchiveError:
            self._zip.close()
            raise
        self.names = [info.filename for info in self._zip.infolist() if not info.is_dir()]

    def _check_members(self, max_member: int, max_total: int) -> None:
        infos = self._zip.infolist()
        for info in infos:
            check_name(self.path, info.filename)
            if stat.S_ISLNK(info.external_attr >> 16):
                raise refuse(self.path, f"member {info.filename!r} is a symbolic link")
            if info.flag_bits & 1:
                raise refuse(self.path, f"member {info.filename!r} is encrypted")
            if info.file_size > max_member:
                size = f"{info.file_size:,} bytes, more than {max_member:,}"
                raise refuse(self.path, f"member {info.filename!r} declares {size}")
        total = sum(info.file_size for info in infos)
        if total > max_total:
            raise refuse(self.path, f"declares {total:,} bytes unpacked, more than {max_total:,}")
        if len({info.filename for info in infos}) < len(infos):
            raise refuse(self.path, "two of its members have the same name")

    def read(self, name: str) -> bytes:
        try:
            return self._zip.read(name)  # never yields more than the declared size
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            ValueError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise refuse(self.path, f"member {name!r} is corrupted ({error})") from error

    @lazy
    def _digest(self) -> str:
        return file_hash(self.path)

    def digest(self, names: Iterable[str]) -> str:
        return self._digest  # of the whole archive, whatever the names

    def close(self) -> None:
        self._zip.close()


class FolderSource:
    """A folder.

    Names begin with the folder's own, so that a layout is recognised whether the path given is the
    top of it or some folder further down.
    """

    def __init__(self, path: Path, *, max_member: int) -> None:
        self.path = path.resolve()
        self._max_member = max_member
        self.names = [
            Path(folder, file).relative_to(self.path.parent).as_posix()
            for folder, _, files in os.walk(self.path)
            for file in files
        ]

    def read(self, name: str) -> bytes:
        file = self.path.parent.joinpath(name)
        # A link that leaves the folder would pass some other file off as part of the data.
        if not file.resolve().is_relative_to(self.path):
            raise refuse(file, f"a link to a file outside {self.path}")
        if file.stat().st_size > self._max_member:
            raise refuse(file, f"larger than {self._max_member:,} bytes")
        return file.read_bytes()

    def digest(self, names: Iterable[str]) -> str:
        total = hashlib.sha256()
        for name in sorted(names):
            total.update(f"{name}\0{hashlib.sha256(self.read(name)).hexdigest()}\0".encode())
        return total.hexdigest()

    def close(self) -> None:
        """A folder holds nothing open."""
