"""The German Traffic Sign Recognition Benchmark (GTSRB), final training set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import Bunch

from musvm._progress import Progress
from musvm.datasets import _signs
from musvm.datasets._download import Remote, Wanted, locate
from musvm.datasets._files import PathLike, cached_array, get_data_home
from musvm.datasets._hog import SIDE, Hog
from musvm.datasets._signs import FloatArray, Roi, Sign
from musvm.datasets._source import Source, open_source, refuse

Features = Literal["hog", "hog-simplified", "images", "official-hog"]
HogSet = Literal["HOG_01", "HOG_02", "HOG_03"]

BASE_URL = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"
# The publisher states no checksums. This MD5 is the one that several independent public loaders
# of the same file agree on; no agreed one was found for the other archive.
IMAGES = Remote(
    "GTSRB_Final_Training_Images.zip", BASE_URL, "gtsrb", "md5:f33fd80ac59bff73c82d25ab499e03a3"
)
OFFICIAL_HOG = Remote("GTSRB_Final_Training_HOG.zip", BASE_URL, "gtsrb")
HOG_LENGTHS = {"HOG_01": 1568, "HOG_02": 1568, "HOG_03": 2916}
N_CLASSES, N_IMAGES = 43, 39209
MAX_MEMBER = 16 * 2**20
MAX_TOTAL = 8 * 2**30  # The images are 0.3 GiB unpacked; three sets of text files a few GiB.
CACHE_FORMAT = 1  # Part of the key of cached features: to be raised when their meaning changes.
CHUNK = 64  # Images per unit of parallel work, 0.1 s or less.

SIGN_NAMES = (
    *(f"speed limit {limit}" for limit in (20, 30, 50, 60, 70, 80)),
    *("end of speed limit 80", "speed limit 100", "speed limit 120", "no overtaking"),
    *("no overtaking by lorries", "priority at next crossing", "priority road", "give way"),
    *("stop", "no vehicles", "no lorries", "no entry", "danger", "bend to the left"),
    *("bend to the right", "double bend", "uneven road", "slippery road", "road narrows"),
    *("road work", "traffic lights", "pedestrians", "children", "bicycles", "ice or snow"),
    *("wild animals", "end of all restrictions", "turn right", "turn left", "straight on"),
    *("straight on or right", "straight on or left", "keep right", "keep left", "roundabout"),
    *("end of no overtaking", "end of no overtaking by lorries"),
)

DESCR = """\
German Traffic Sign Recognition Benchmark, final training set
-------------------------------------------------------------
Photographs of German traffic signs, cut out with a margin: 39,209 images of 43 classes in the
complete archive. Each physical sign was filmed while approaching it; its images, 30 as a rule,
are one track and resemble each other closely. A random split into training and test images puts
frames of one sign on both sides; `tracks` makes a split that does not.

Source: the benchmark's public archive, https://benchmark.ini.rub.de/gtsrb_dataset.html.
Terms: the publisher's, stated there. The authors ask to be cited: J. Stallkamp, M. Schlipsing,
J. Salmen and C. Igel, "Man vs. computer", Neural Networks 32 (2012), 323-332.
Checksums: the publisher states none. That of the image archive is one on which several public
loaders agree. None is known for the archive of HOG features: a download of it is read from end
to end and its layout and number of files are checked, which does not prove who made it.
"""


def fetch_gtsrb(
    *,
    features: Features = "hog",
    classes: Iterable[int] | None = None,
    color: bool | None = None,
    roi: bool = False,
    gamma_correction: bool = False,
    block_window: bool = True,
    interpolation: bool = True,
    hog_set: HogSet = "HOG_01",
    feature_scale: float = 1.0,
    archive: PathLike | None = None,
    sha256: str | None = None,
    data_home: PathLike | None = None,
    download_if_missing: bool = True,
    base_url: str | None = None,
    n_retries: int = 3,
    n_jobs: int | None = None,
    verbose: int = 1,
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, NDArray[np.intp]]:
    """Load the traffic signs of GTSRB, downloading them if necessary.

    Computed features are kept in `data_home`, class by class, under a key made of the archive's
    checksum and the parameters.

    Parameters
    ----------
    features : {"hog", "hog-simplified", "images", "official-hog"}, default="hog"
        What `data` holds.

        - "hog": histograms of oriented gradients as Dalal and Triggs define them, 1568 numbers.
          The image is resized to 40 x 40 pixels; 8 orientations, cells of 5 x 5 pixels, blocks of
          2 x 2 cells. They equal those of OpenCV 4, where
          ``cv2.HOGDescriptor((40, 40), (10, 10), (5, 5), (5, 5), 8)`` computes them from
          ``cv2.resize(image, (40, 40))``.
        - "hog-simplified": as many numbers of the same sizes by `skimage.feature.hog`, which has
          neither the window over a block nor the interpolation. What a universum of other signs
          gains depends on both.
        - "images": the pixels of the image resized to 40 x 40, between 0 and 1.
        - "official-hog": the numbers that the benchmark's authors computed, from their own
          archive of text files.
    classes : iterable of int, default=None
        Official class numbers, 0 to 42, to load. None loads all that the archive has.
    color : bool, default=None
        Use colour: for both kinds of HOG the gradient of the strongest channel, for "images" RGB.
        Otherwise grey. None uses colour for "hog" and grey for the others.
    roi : bool, default=False
        Crop to the annotated region of interest, without the margin around the sign.
    gamma_correction : bool, default=False
        For "hog": gradients of the square roots of the pixels.
    block_window : bool, default=True
        For "hog": pixels count less the further they are from the middle of their block.
    interpolation : bool, default=True
        For "hog": a pixel counts for the orientations and cells nearest to it in shares. Otherwise
        it counts for one of them.
    hog_set : {"HOG_01", "HOG_02", "HOG_03"}, default="HOG_01"
        Which of the three official sets "official-hog" reads; 1568, 1568 and 2916 numbers.
    feature_scale : float, default=1.0
        Factor applied to `data`. With a linear kernel, a factor s acts like C times s squared.
    archive : str or path-like, default=None
        The official zip archive, or a part of it in the same layout, or the folder it was
        unpacked to. If None, the archive in `data_home`.
    sha256 : str, default=None
        The checksum the archive must have, instead of the one known to this function if any.
    data_home : str or path-like, default=None
        Folder for downloads and computed features, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise an OSError instead of downloading.
    base_url : str, default=None
        Address of a folder that holds the official archives: a mirror.
    n_retries : int, default=3
        How often a failed download is repeated.
    n_jobs : int, default=None
        Number of parallel jobs that compute features, as in scikit-learn.
    verbose : int, default=1
        With 1, show progress if the work takes more than a few seconds.
    return_X_y : bool, default=False
        Return `(data, target)` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of shape (n_samples, n_features)
            Features of the images.
        target : ndarray of shape (n_samples,)
            Official class numbers.
        target_names : list of str
            The names of all 43 classes: ``target_names[17]`` is "no entry".
        tracks : ndarray of shape (n_samples,)
            One number per physical sign, the same for all its images and different from that of
            any other sign, also of another class (class * 100000 + track). Pass it as `groups`
            to scikit-learn's splitters for a partition that keeps signs together.
        frames : ndarray of shape (n_samples,)
            The position of the image in its track.
        filenames : list of str
            Names of the files in the archive.
        images : ndarray of shape (n_samples, 40, 40) or (n_samples, 40, 40, 3)
            Only for `features="images"`.
        DESCR : str
            A description of the data.

    Raises
    ------
    ArchiveError
        If the archive is truncated, corrupted, hostile or not in the official layout.
    ConnectionError
        If the download fails. The message says how to do it by hand.

    Examples
    --------
    A folder with one official feature file, of track 3, frame 29 of the sign "no entry":

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from musvm.datasets import fetch_gtsrb
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "HOG_01", "00017", "00003_00029.txt")
    ...     file.parent.mkdir(parents=True)
    ...     _ = file.write_text("0.25 " * 1568)
    ...     signs = fetch_gtsrb(features="official-hog", archive=folder, data_home=folder)
    >>> signs.data.shape, signs.target_names[signs.target[0]]
    ((1, 1568), 'no entry')
    >>> int(signs.tracks[0]), int(signs.frames[0])
    (1700003, 29)
    """
    _check_parameters(features, color, roi, hog_set)
    hog = Hog(color is not False, gamma_correction, block_window, interpolation)
    if features != "hog" and hog != Hog(hog.color):
        raise ValueError(
            "gamma_correction, block_window and interpolation have an effect on 'hog' only"
        )
    home = get_data_home(data_home)
    wanted = Wanted(archive, sha256, home, download_if_missing, base_url, n_retries, verbose)
    is_official = features == "official-hog"

    def index(source: Source) -> list[Sign]:
        return _signs.index_hog(source, hog_set) if is_official else _signs.index_images(source)

    def check(path: Path) -> None:
        _check_complete(path, index, verbose)

    path = locate(OFFICIAL_HOG if is_official else IMAGES, wanted, check)
    recipe = _recipe(features, bool(color), hog, hog_set)
    with closing(open_source(path, max_member=MAX_MEMBER, max_total=MAX_TOTAL)) as source:
        signs = _signs.only_classes(index(source), classes, path)
        data = _all_features(
            source,
            signs if roi else [_without_roi(sign) for sign in signs],
            recipe,
            folder=home / "gtsrb" / "features",
            n_jobs=n_jobs,
            verbose=verbose,
        )
    data *= feature_scale
    target = np.array([sign.class_id for sign in signs], dtype=np.intp)
    return (data, target) if return_X_y else _bunch(data, target, signs, features, bool(color))


def _check_parameters(features: str, color: bool | None, roi: bool, hog_set: str) -> None:
    if features not in get_args(Features):
        raise ValueError(f"features must be one of {get_args(Features)}, not {features!r}")
    if hog_set not in HOG_LENGTHS:
        raise ValueError(f"hog_set must be one of {', '.join(HOG_LENGTHS)}, not {hog_set!r}")
    if features == "official-hog" and (color or roi):
        raise ValueError("color and roi have no effect on the official HOG features")


def _check_complete(path: Path, index: Callable[[Source], list[Sign]], verbose: int) -> None:
    """Read an archive from end to end and compare it with what is known of the official one."""
    with closing(open_source(path, max_member=MAX_MEMBER, max_total=MAX_TOTAL)) as source:
        signs = index(source)
        n_classes = len({sign.class_id for sign in signs})
        if (n_classes, len(signs)) != (N_CLASSES, N_IMAGES):
            found = f"{len(signs)} signs of {n_classes} classes"
            raise refuse(path, f"holds {found} instead of {N_IMAGES} of {N_CLASSES}")
        with closing(Progress("Checking", len(source.names), verbose=verbose)) as progress:
            for name in source.names:
                source.read(name)  # verifies its CRC
                progress.update(1)


@dataclass(frozen=True)
class Recipe:
    """From files to numbers: one file to an array, a stack of such arrays to a row each.

    `key` identifies what they compute, in the key of the cache.
    """

    read: Callable[[bytes, Roi | None], NDArray[Any]]
    describe: Callable[[NDArray[Any]], NDArray[Any]]
    key: list[Any]


def _recipe(features: Features, color: bool, hog: Hog, hog_set: HogSet) -> Recipe:
    if features == "official-hog":
        read = partial(_signs.numbers_of, length=HOG_LENGTHS[hog_set])
        return Recipe(read, np.asarray, [features, hog_set])
    if features == "hog":
        return Recipe(_signs.small_image, hog, [features, asdict(hog)])
    try:
        import_module("skimage.feature")
    except ImportError as error:
        raise ImportError(
            f'features="{features}" needs scikit-image: pip install "musvm[data]"'
        ) from error
    function = _signs.simplified_hog_of if features == "hog-simplified" else _signs.pixels_of
    key = [features, color, version("scikit-image")]
    return Recipe(partial(function, color=color), np.asarray, key)


def _without_roi(sign: Sign) -> Sign:
    return Sign(sign.class_id, sign.track, sign.frame, sign.member)


def _all_features(
    source: Source,
    signs: Sequence[Sign],
    recipe: Recipe,
    *,
    folder: Path,
    n_jobs: int | None,
    verbose: int,
) -> FloatArray:
    """The features of all signs, a row each, computed or from the cache, one file per class."""
    parts = []
    with (
        closing(Progress("Features of the signs", len(signs), verbose=verbose)) as progress,
        Parallel(n_jobs=n_jobs, return_as="generator") as parallel,
    ):
        for _, group in groupby(signs, key=lambda sign: sign.class_id):
            members = list(group)
            rows = cached_array(
                folder / f"{_cache_key(source, members, recipe.key)}.npz",
                partial(_compute, source, members, recipe, parallel, progress),
                partial(_has_rows, n_rows=len(members)),
            )
            parts.append(rows.astype(np.float64))
            progress.done = sum(map(len, parts))  # cached classes count as done
    return np.concatenate(parts)


def _has_rows(array: NDArray[Any], n_rows: int) -> bool:
    return array.ndim == 2 and len(array) == n_rows


def _cache_key(source: Source, signs: Sequence[Sign], key: list[Any]) -> str:
    content = source.digest(sign.member for sign in signs)
    which = [(sign.member, sign.roi) for sign in signs]
    text = json.dumps([CACHE_FORMAT, key, content, which])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _compute(
    source: Source,
    signs: Sequence[Sign],
    recipe: Recipe,
    parallel: Parallel,
    progress: Progress,
) -> NDArray[np.float32]:
    jobs = [(sign.member, source.read(sign.member), sign.roi) for sign in signs]
    chunks = [jobs[start : start + CHUNK] for start in range(0, len(jobs), CHUNK)]
    parts = []
    for part in parallel(delayed(_compute_chunk)(chunk, recipe, source.path) for chunk in chunks):
        parts.append(part)
        progress.update(len(part))
    return np.concatenate(parts)


def _compute_chunk(
    jobs: Sequence[tuple[str, bytes, Roi | None]], recipe: Recipe, archive: Path
) -> NDArray[np.float32]:
    arrays = []
    for member, content, roi in jobs:
        try:
            arrays.append(recipe.read(content, roi))
        except ValueError as error:
            raise refuse(archive, f"{member}: {error}") from error
    # Single precision halves the cache; its rounding is far below the noise of any image.
    return recipe.describe(np.stack(arrays)).astype(np.float32)


def _bunch(
    data: FloatArray,
    target: NDArray[np.intp],
    signs: Sequence[Sign],
    features: Features,
    color: bool,
) -> Bunch:
    bunch = Bunch(
        data=data,
        target=target,
        target_names=list(SIGN_NAMES),
        tracks=np.array([sign.class_id * 100_000 + sign.track for sign in signs], dtype=np.intp),
        frames=np.array([sign.frame for sign in signs], dtype=np.intp),
        filenames=[sign.member for sign in signs],
        DESCR=DESCR,
    )
    if features == "images":
        side = SIDE
        bunch.images = data.reshape((-1, side, side, 3) if color else (-1, side, side))
    return bunch
