"""ISOLET: spoken names of the letters of the alphabet."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from musvm.datasets._download import Remote, Wanted, locate
from musvm.datasets._files import PathLike, cached_array, get_data_home
from musvm.datasets._lzw import unpack_z
from musvm.datasets._source import Source, open_source, refuse

FloatArray = NDArray[np.float64]
Subset = Literal["train", "test", "all"]

# The repository states no checksum for its archive, and packs it itself.
ARCHIVE = Remote("isolet.zip", "https://archive.ics.uci.edu/static/public/54/", "isolet")
FILES = {"train": "isolet1+2+3+4.data", "test": "isolet5.data"}
N_ROWS = {"train": 6238, "test": 1559}
N_FEATURES = 617
MAX_MEMBER, MAX_TOTAL = 2**27, 2**28  # The larger of the two tables is about 2**25 bytes.

DESCR = """\
ISOLET
------
Each of 150 people spoke the name of every letter of the alphabet twice. 617 numbers between -1
and 1 describe each recording; the letter is to be recognised. The first four groups of 30 people
are the training part (6238 recordings), the fifth is the test part (1559).

Source: R. Cole and M. Fanty (1991), UCI Machine Learning Repository,
https://doi.org/10.24432/C51G69.
Terms: Creative Commons Attribution 4.0.
Checksums: the repository states none. A download is read from end to end and its numbers of rows
and columns are checked, which does not prove who made it.
"""


def fetch_isolet(
    *,
    subset: Subset = "all",
    archive: PathLike | None = None,
    sha256: str | None = None,
    data_home: PathLike | None = None,
    download_if_missing: bool = True,
    base_url: str | None = None,
    n_retries: int = 3,
    verbose: int = 1,
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, NDArray[np.str_]]:
    """Load ISOLET, the spoken letters, downloading it if necessary.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Recordings of the first 120 people, of the other 30, or of all.
    archive : str or path-like, default=None
        The repository's zip archive, or a folder, with the files ``isolet1+2+3+4.data`` and
        ``isolet5.data`` (only those that `subset` asks for), as they are or compressed
        (``.Z``). If None, the archive in `data_home`.
    sha256 : str, default=None
        The checksum the archive must have.
    data_home : str or path-like, default=None
        Folder for the download and the parsed tables, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise an OSError instead of downloading.
    base_url : str, default=None
        Address of another folder that holds ``isolet.zip``: a mirror.
    n_retries : int, default=3
        How often a failed download is repeated.
    verbose : int, default=1
        With 1, show progress if the download takes more than a few seconds.
    return_X_y : bool, default=False
        Return `(data, target)` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of shape (n_samples, 617)
            Features of the recordings.
        target : ndarray of shape (n_samples,)
            Letters, "A" to "Z".
        target_names : list of str
            The 26 letters.
        DESCR : str
            A description of the data.

    Raises
    ------
    ArchiveError
        If a file is truncated, corrupted, hostile or not a table of ISOLET.
    ConnectionError
        If the download fails. The message says how to do it by hand.

    Examples
    --------
    A folder with one recording of the third letter in the place of the test part:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from musvm.datasets import fetch_isolet
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "isolet5.data").write_text("0.5, " * 617 + "3.\\n")
    ...     X, y = fetch_isolet(
    ...         subset="test", archive=folder, data_home=folder, return_X_y=True
    ...     )
    >>> X.shape, str(y[0])
    ((1, 617), 'C')
    """
    if subset not in ("train", "test", "all"):
        raise ValueError(f'subset must be "train", "test" or "all", not {subset!r}')
    home = get_data_home(data_home)
    wanted = Wanted(archive, sha256, home, download_if_missing, base_url, n_retries, verbose)
    path = locate(ARCHIVE, wanted, _check_complete)
    parts = ("train", "test") if subset == "all" else (subset,)
    with closing(open_source(path, max_member=MAX_MEMBER, max_total=MAX_TOTAL)) as source:
        table = np.concatenate([_cached_table(source, part, home / "isolet") for part in parts])
    letters = np.array(list(ascii_uppercase))
    data, target = table[:, :-1], letters[table[:, -1].astype(np.intp) - 1]
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, target_names=letters.tolist(), DESCR=DESCR)


def _check_complete(path: Path) -> None:
    with closing(open_source(path, max_member=MAX_MEMBER, max_total=MAX_TOTAL)) as source:
        for part, n_rows in N_ROWS.items():
            found = len(_read_table(source, _member(source, part)))
            if found != n_rows:
                raise refuse(path, f"{FILES[part]} has {found} rows instead of {n_rows}")


def _member(source: Source, part: str) -> str:
    """The name of a part's file in the source, the plain one rather than the compressed."""
    by_file = {name.rpartition("/")[2]: name for name in source.names}
    for file in (FILES[part], FILES[part] + ".Z"):
        if file in by_file:
            return by_file[file]
    raise refuse(source.path, f"{FILES[part]} and {FILES[part]}.Z are missing")


def _cached_table(source: Source, part: str, folder: Path) -> FloatArray:
    member = _member(source, part)
    key = hashlib.sha256(f"{source.digest([member])} {member}".encode()).hexdigest()[:32]
    compute: Callable[[], FloatArray] = partial(_read_table, source, member)
    return cached_array(folder / f"{key}.npz", compute, _is_table)


def _is_table(table: FloatArray) -> bool:
    """Rows of 617 finite numbers and a class from 1 to 26."""
    return (
        table.ndim == 2
        and table.shape[1] == N_FEATURES + 1
        and bool(np.isfinite(table).all())
        and bool(np.isin(table[:, -1], np.arange(1, 27)).all())
    )


def _read_table(source: Source, member: str) -> FloatArray:
    content = source.read(member)
    try:
        if member.endswith(".Z"):
            content = unpack_z(content, max_size=MAX_MEMBER)
        if not content.strip():
            raise ValueError("it is empty")
        lines = io.StringIO(content.decode("ascii"))
        table: FloatArray = np.loadtxt(lines, delimiter=",", ndmin=2)
        # A cut in the middle of the last number leaves a table that looks complete.
        if not content.endswith(b"\n") and len(table) not in N_ROWS.values():
            raise ValueError("it ends in the middle of a line")
    except ValueError as error:
        raise refuse(source.path, f"{member}: not a complete table ({error})") from error
    if not _is_table(table):
        raise refuse(
            source.path, f"{member}: not rows of {N_FEATURES} numbers and a class from 1 to 26"
        )
    return table
