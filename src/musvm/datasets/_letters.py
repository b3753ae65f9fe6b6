"""Handwritten characters: ABCDETC, and a stand-in for it made of NIST material."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from musvm.datasets._files import PathLike
from musvm.datasets._source import open_source, refuse

FloatArray = NDArray[np.float64]
Numbering = Literal["auto", "1-78", "0-77"]

N_PIXELS = 100 * 100
SYMBOLS = ',.!?;:=-+/()$%"@'
CHARACTERS = {
    "1-78": ascii_lowercase + ascii_uppercase + digits + SYMBOLS,
    "0-77": ascii_uppercase + ascii_lowercase + digits + SYMBOLS,
}

ABCDETC_DESCR = """\
ABCDETC
-------
Handwritten letters, digits and 16 symbols: 78 classes, 19,646 images of 100 x 100 black or white
pixels, from 51 people who wrote each character five times.

Source: collected by F. Sinz, R. Collobert, J. Weston and S. Ertekin at NEC Laboratories America;
used in "Inference with the Universum" (ICML 2006). Ask the authors for the file.
Terms: the authors'.
"""
NIST_DESCR = """\
NIST digits and letters
-----------------------
1000 each of the handwritten characters 0-9, a e i o u and A E I O U. A stand-in for ABCDETC, with
the same kind of image, for those who do not have it. The digits and the letters come from two
packagers of the material, so they may differ in more than what they show.

Source: NIST Special Database 19, https://www.nist.gov/srd/nist-special-database-19.
Terms: a work of the United States government; see there.
"""


def load_abcdetc(
    path: PathLike,
    *,
    classes: Iterable[str] | None = None,
    numbering: Numbering = "auto",
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, NDArray[np.str_]]:
    """Load ABCDETC from the file that its authors hand out.

    Parameters
    ----------
    path : str or path-like
        The file ``final.svl``, in LIBSVM's text format; may be compressed (``.gz``, ``.bz2``).
    classes : iterable of str, default=None
        The characters to load, such as ``"0123"`` or ``["a", "i"]``. None loads all, which takes
        1.6 GB.
    numbering : {"auto", "1-78", "0-77"}, default="auto"
        What the labels of the file stand for. "1-78" is the one that experiments with multiclass
        universum SVMs have assumed: a-z, A-Z, 0-9, symbols. "0-77" is the one that the authors
        of the data describe: A-Z, a-z, 0-9, symbols. The two disagree on which case comes first,
        not on the digits, so look at a few images before you rely on the case of a letter.
        "auto" takes "0-77" if the label 0 occurs.
    return_X_y : bool, default=False
        Return `(data, target)` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of shape (n_samples, 10000)
            Pixels, 0 or 1.
        target : ndarray of shape (n_samples,)
            Characters.
        target_names : list of str
            The characters that occur, in the order of the file's numbering.
        subjects : ndarray of shape (n_samples,) or None
            Numbers of the writers, where the file has them as an additional feature.
        DESCR : str
            A description of the data.

    Raises
    ------
    ArchiveError
        If the file is not in the format or its content is not that of ABCDETC.

    Examples
    --------
    Two images, a "0" and an "a", with one black pixel each:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from musvm.datasets import load_abcdetc
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "final.svl")
    ...     _ = file.write_text("53 5050:1\\n1 4950:1\\n")
    ...     letters = load_abcdetc(file)
    >>> letters.data.shape, letters.target.tolist()
    ((2, 10000), ['0', 'a'])
    """
    if numbering not in ("auto", "1-78", "0-77"):
        raise ValueError(f'numbering must be "auto", "1-78" or "0-77", not {numbering!r}')
    path = Path(path).expanduser()
    try:
        table, labels = load_svmlight_file(str(path), zero_based=True)
        if len(labels) == 0:
            raise ValueError("it is empty")
        pixels, subjects = _pixels_and_subjects(table.tocsc())
        if numbering == "auto":
            numbering = "0-77" if 0 in labels else "1-78"
        target = _characters(labels, numbering)
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise refuse(path, f"not the file of ABCDETC ({error})") from error
    rows, names = _rows_of(target, CHARACTERS[numbering], classes)
    data = pixels[rows].toarray()
    if return_X_y:
        return data, target[rows]
    return Bunch(
        data=data,
        target=target[rows],
        target_names=names,
        subjects=None if subjects is None else subjects[rows],
        DESCR=ABCDETC_DESCR,
    )


def _pixels_and_subjects(
    table: sparse.csc_matrix,
) -> tuple[sparse.csr_matrix, NDArray[np.intp] | None]:
    """Split raw columns, numbered as in the file, into 10,000 pixels and the writers if given.

    Pixels are numbered from 0 or from 1, and the writer has the number after the last pixel.
    The number 10000 is therefore a writer if it is not black or white, or if a pixel 0 occurs.
    """
    n_columns = table.shape[1]
    if n_columns > N_PIXELS + 2:
        raise ValueError(f"it has a feature {n_columns - 1}, beyond {N_PIXELS} pixels and a writer")
    table.resize(table.shape[0], N_PIXELS + 2)
    last = table[:, [N_PIXELS]].data
    from_zero = table[:, [0]].nnz > 0 or bool(np.any((last != 0) & (last != 1)))
    first = 0 if from_zero and n_columns <= N_PIXELS + 1 else 1
    pixels = table[:, first : first + N_PIXELS].tocsr()
    pixels.eliminate_zeros()
    if len(np.unique(pixels.data)) > 1 or not np.isfinite(pixels.data).all():
        raise ValueError("its pixels are not black or white")
    pixels.data[:] = 1.0
    writers = table[:, [first + N_PIXELS]].toarray().ravel()
    return pixels, writers.astype(np.intp) if writers.any() else None


def _characters(labels: FloatArray, numbering: str) -> NDArray[np.str_]:
    first, characters = int(numbering[0]), np.array(list(CHARACTERS[numbering]))
    if not np.isin(labels, np.arange(first, first + len(characters))).all():
        raise ValueError(f"its labels are not whole numbers in {numbering}")
    chosen: NDArray[np.str_] = characters[labels.astype(np.intp) - first]
    return chosen


def _rows_of(
    target: NDArray[np.str_], order: str, classes: Iterable[str] | None
) -> tuple[NDArray[np.intp], list[str]]:
    """The rows whose character is wanted, and the characters found, sorted as in `order`."""
    present = [character for character in order if character in target]
    wanted = present if classes is None else sorted(set(classes), key=order.find)
    if absent := [character for character in wanted if character not in present]:
        raise ValueError(f"classes {absent} are not in the data, which has {''.join(present)}")
    return np.flatnonzero(np.isin(target, wanted)), wanted


def load_nist(
    path: PathLike,
    *,
    features: Literal["bits100", "images28"] = "bits100",
    classes: Iterable[str] | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, NDArray[np.str_]]:
    """Load the NIST stand-in for ABCDETC.

    Parameters
    ----------
    path : str or path-like
        The file ``nist_digits_letters.npz``: `bits100`, rows of packed bits; `images28`, grey
        images; `labels`, one character each.
    features : {"bits100", "images28"}, default="bits100"
        100 x 100 pixels, 0 or 1, or 28 x 28 grey pixels between 0 and 1.
    classes : iterable of str, default=None
        The characters to load, such as ``"0123"`` or ``["a", "i"]``. None loads all, which takes
        1.6 GB as "bits100".
    return_X_y : bool, default=False
        Return `(data, target)` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of shape (n_samples, 10000) or (n_samples, 784)
            Pixels, between 0 and 1.
        target : ndarray of shape (n_samples,)
            Characters.
        target_names : list of str
            The characters that occur: digits, then lower case, then upper case.
        images : ndarray of shape (n_samples, 100, 100) or (n_samples, 28, 28)
            A view of `data`.
        DESCR : str
            A description of the data.

    Raises
    ------
    ArchiveError
        If the file is truncated, corrupted, hostile or lacks an array.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from musvm.datasets import load_nist
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "two.npz")
    ...     bits, grey = np.zeros((2, 1250), np.uint8), np.zeros((2, 28, 28), np.uint8)
    ...     np.savez(file, bits100=bits, images28=grey, labels=["7", "e"])
    ...     nist = load_nist(file, classes="e")
    >>> nist.data.shape, nist.images.shape, nist.target.tolist()
    ((1, 10000), (1, 100, 100), ['e'])
    """
    if features not in ("bits100", "images28"):
        raise ValueError(f'features must be "bits100" or "images28", not {features!r}')
    path = Path(path).expanduser()
    arrays = _read_npz(path, (features, "labels"))
    raw, target = arrays[features], arrays["labels"]
    shape = (len(target), 1250) if features == "bits100" else (len(target), 28, 28)
    if raw.shape != shape or raw.dtype != np.uint8 or target.dtype.kind != "U":
        raise refuse(path, f"{features} and labels are not arrays of bytes and characters")
    rows, names = _rows_of(target, digits + ascii_lowercase + ascii_uppercase, classes)
    if features == "bits100":
        data = np.unpackbits(raw[rows], axis=1, count=N_PIXELS).astype(np.float64)
    else:
        data = raw[rows].reshape(len(rows), -1) / 255.0
    if return_X_y:
        return data, target[rows]
    side = 100 if features == "bits100" else 28
    return Bunch(
        data=data,
        target=target[rows],
        target_names=names,
        images=data.reshape(-1, side, side),
        DESCR=NIST_DESCR,
    )


def _read_npz(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz file, which is a zip archive of .npy files; never unpickles."""
    with closing(open_source(path, max_member=2**30, max_total=2**31)) as source:
        arrays = {}
        for name in names:
            if f"{name}.npy" not in source.names:
                raise refuse(path, f"lacks the array {name}")
            try:
                content = io.BytesIO(source.read(f"{name}.npy"))
                arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
            except (ValueError, EOFError, SyntaxError) as error:
                raise refuse(path, f"array {name} is not readable ({error})") from error
    return arrays
