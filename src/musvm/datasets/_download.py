"""Finding a data set's archive: the user's own copy, an earlier download, or a new one.

A download is checked before it gets its final name: against a checksum where one is known or the
caller gives one, otherwise by reading it from end to end and checking its layout and its counts
(`Remote.known_hash` is None where the publisher states no checksum and none is agreed upon).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musvm._progress import Progress
from musvm.datasets._files import ArchiveError, PathLike, file_hash, get_data_home, hash_matches
from musvm.datasets._source import refuse


@dataclass(frozen=True)
class Remote:
    """An archive as its publisher offers it.

    Attributes
    ----------
    name : file name, the last part of its address
    base_url : the rest of its address, ending in a slash
    folder : the data set's folder in the data home
    known_hash : `sha256hex` or `algorithm:hex`, None if not known
    """

    name: str
    base_url: str
    folder: str
    known_hash: str | None = None


@dataclass(frozen=True)
class Wanted:
    """What the caller of a fetcher said about where the archive is to come from.

    The fields are the fetchers' parameters of the same names.
    """

    archive: PathLike | None
    sha256: str | None
    data_home: PathLike | None
    download_if_missing: bool
    base_url: str | None
    n_retries: int
    verbose: int


def locate(remote: Remote, wanted: Wanted, check: Callable[[Path], None]) -> Path:
    """The path of the archive, downloaded if need be.

    `check(path)` must raise `ArchiveError` if a download of which no checksum is known is not
    the complete archive.
    """
    if wanted.archive is not None:
        return _own_copy(Path(wanted.archive).expanduser(), wanted.sha256)
    path = get_data_home(wanted.data_home) / remote.folder / remote.name
    known_hash = wanted.sha256 or remote.known_hash
    if path.exists() and (known_hash is None or hash_matches(path, known_hash)):
        return path
    if not wanted.download_if_missing:
        state = "has another checksum than expected" if path.exists() else "is not there"
        raise FileNotFoundError(
            f"{path} {state}, and download_if_missing is False. {_by_hand(remote, path)}"
        )
    _download(remote, wanted, path, known_hash, check)
    return path


def _own_copy(path: Path, sha256: str | None) -> Path:
    if sha256 is not None:
        if path.is_dir():
            raise ValueError(f"{path} is a folder: sha256 is the checksum of an archive")
        if not hash_matches(path, sha256):
            problem = f"its SHA-256 is {file_hash(path)}, not {sha256} as asked for"
            raise refuse(path, problem)
    return path


def _by_hand(remote: Remote, path: Path) -> str:
    return (
        f"You can get it yourself from {remote.base_url}{remote.name} and pass the file "
        f"as archive=..., or put it at {path}."
    )


def _check_as(url: str, temporary: Path, check: Callable[[Path], None]) -> None:
    """Check a temporary file, which will be gone by the time anyone reads its name."""
    try:
        check(temporary)
    except ArchiveError as error:
        raise ArchiveError(str(error).replace(str(temporary), url)) from error


def _download(
    remote: Remote,
    wanted: Wanted,
    path: Path,
    known_hash: str | None,
    check: Callable[[Path], None],
) -> None:
    try:
        import pooch
        import requests
    except ImportError as error:
        raise ImportError(
            "Downloading needs the package pooch: pip install 'musvm[data]'. "
            + _by_hand(remote, path)
        ) from error

    def transfer(url: str, temporary: Any, registry: Any) -> None:
        progress = Progress(f"Downloading {remote.name}", verbose=wanted.verbose, counts=False)
        pooch.HTTPDownloader(progressbar=progress)(url, temporary, registry)
        if known_hash is None:
            _check_as(url, Path(temporary), check)

    base_url = (wanted.base_url or remote.base_url).rstrip("/") + "/"
    # pooch writes to a temporary file in the same folder and renames it after the checks.
    registry = pooch.create(
        path=path.parent,
        base_url=base_url,
        registry={remote.name: known_hash},
        retry_if_failed=wanted.n_retries,
    )
    try:
        registry.fetch(remote.name, downloader=transfer)
    except requests.exceptions.RequestException as error:
        raise ConnectionError(
            f"Could not download {base_url}{remote.name} ({error}). Are you offline? "
            + _by_hand(remote, path)
        ) from error
    except ArchiveError:
        raise
    except ValueError as error:  # pooch's word for a checksum that does not match
        raise refuse(base_url + remote.name, f"the download was refused ({error})") from error
