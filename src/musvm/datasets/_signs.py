"""The images of the traffic-sign benchmark: their index, and one image to numbers.

Layout of the official archives, where CCCCC is the class, TTTTT the track (one physical sign,
filmed while approaching it) and FFFFF the frame within the track:

    GTSRB/Final_Training/Images/CCCCC/TTTTT_FFFFF.ppm      and one GT-CCCCC.csv per class
    GTSRB/Final_Training/HOG/HOG_0S/CCCCC/TTTTT_FFFFF.txt  one number per line

The folders above the class (above HOG_0S) may be missing or named otherwise.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musvm.datasets._hog import BLOCK, CELL, ORIENTATIONS, SIDE, resize
from musvm.datasets._source import Source, refuse

FloatArray = NDArray[np.float64]
Roi = tuple[int, int, int, int]

MEMBER = re.compile(r"((?:.*/)?)(\d{5})/(\d{5})_(\d{5})\.(ppm|txt)")
COLUMNS = ("Filename", "Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2", "ClassId")


@dataclass(frozen=True)
class Sign:
    """One image: the file `member` of the source, and its region of interest where annotated."""

    class_id: int
    track: int
    frame: int
    member: str
    roi: Roi | None = None


def index_images(source: Source) -> list[Sign]:
    """The annotated images of a source, by class, track and frame."""
    signs = _index(source, ".ppm", required_folder="")
    names = set(source.names)
    folders = {sign.member.rpartition("/")[0]: sign.class_id for sign in signs}
    rois: dict[str, Roi] = {}
    for folder, class_id in folders.items():
        annotation = f"{folder}/GT-{class_id:05d}.csv"
        if annotation not in names:
            raise refuse(source.path, f"the annotation {annotation} is missing")
        rois |= _read_annotation(source, annotation, folder, class_id)
    for member in sorted(rois.keys() - names):
        raise refuse(source.path, f"image {member} is annotated but missing")
    for member in sorted({sign.member for sign in signs} - rois.keys()):
        raise refuse(source.path, f"image {member} has no line in its annotation")
    return [
        Sign(sign.class_id, sign.track, sign.frame, sign.member, rois[sign.member])
        for sign in signs
    ]


def index_hog(source: Source, hog_set: str) -> list[Sign]:
    """The feature files of one official HOG set, by class, track and frame."""
    return _index(source, ".txt", required_folder=f"{hog_set}/")


def _index(source: Source, suffix: str, required_folder: str) -> list[Sign]:
    signs, roots = [], set()
    for name in source.names:
        match = MEMBER.fullmatch(name)
        if match is None or not name.endswith(suffix) or not match[1].endswith(required_folder):
            continue
        roots.add(match[1])
        signs.append(Sign(int(match[2]), int(match[3]), int(match[4]), name))
    if not signs:
        layout = f"{required_folder}CCCCC/TTTTT_FFFFF{suffix}"
        raise refuse(source.path, f"holds no files in the benchmark's layout, {layout}")
    if len(roots) > 1:
        raise refuse(source.path, f"holds more than one set of signs: {', '.join(sorted(roots))}")
    return sorted(signs, key=lambda sign: (sign.class_id, sign.track, sign.frame))


def _read_annotation(source: Source, name: str, folder: str, class_id: int) -> dict[str, Roi]:
    try:
        rows = csv.DictReader(io.StringIO(source.read(name).decode("utf-8-sig")), delimiter=";")
        missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"lacks the column(s) {', '.join(missing)}")
        return dict(_annotated_roi(row, folder, class_id) for row in rows)
    except (ValueError, csv.Error) as error:  # UnicodeDecodeError is a ValueError
        raise refuse(source.path, f"annotation {name}: {error}") from error


def _annotated_roi(row: dict[str, Any], folder: str, class_id: int) -> tuple[str, Roi]:
    name = row["Filename"] or ""
    if not re.fullmatch(r"\d{5}_\d{5}\.ppm", name):
        raise ValueError(f"{name!r} is not the name of an image")
    try:
        x1, y1, x2, y2, declared = (int(row[column]) for column in COLUMNS[1:])
    except (TypeError, ValueError) as error:
        raise ValueError(f"the line of {name} is incomplete or not numeric") from error
    if declared != class_id:
        raise ValueError(f"{name} is of class {declared}, not {class_id} like its folder")
    return f"{folder}/{name}", (x1, y1, x2, y2)


def read_ppm(content: bytes) -> NDArray[np.uint8]:
    """The RGB image of a binary portable pixmap, (height, width, 3)."""
    header = re.match(rb"P6(?:\s+#[^\n]*)*\s+(\d+)\s+(\d+)\s+255\s", content)
    if header is None:
        raise ValueError("not an 8-bit binary PPM image (P6)")
    width, height = int(header[1]), int(header[2])
    pixels = np.frombuffer(content, dtype=np.uint8, offset=header.end())
    if width < 1 or height < 1 or len(pixels) != width * height * 3:
        raise ValueError(f"{len(pixels)} bytes of pixels do not make {width} x {height} in RGB")
    return pixels.reshape(height, width, 3)


def _cropped(content: bytes, roi: Roi | None) -> NDArray[np.uint8]:
    """The image, or its region of interest, in RGB."""
    image = read_ppm(content)
    if roi is None:
        return image
    x1, y1, x2, y2 = roi
    if not (0 <= x1 < x2 <= image.shape[1] and 0 <= y1 < y2 <= image.shape[0]):
        raise ValueError(f"the region of interest {roi} is not inside the image")
    return image[y1:y2, x1:x2]


def small_image(content: bytes, roi: Roi | None) -> NDArray[np.uint8]:
    """The image, or its region of interest, in RGB, SIDE x SIDE."""
    return resize(_cropped(content, roi))


def _smooth_image(content: bytes, roi: Roi | None, color: bool) -> FloatArray:
    """The image, or its region of interest, grey or RGB in [0, 1], SIDE x SIDE, by scikit-image.

    Unlike `small_image` it is blurred before it is made smaller.
    """
    from skimage.color import rgb2gray
    from skimage.transform import resize

    image = _cropped(content, roi)
    resized: FloatArray = resize(
        image / 255.0 if color else rgb2gray(image), (SIDE, SIDE), anti_aliasing=True
    )
    return resized


def pixels_of(content: bytes, roi: Roi | None, *, color: bool) -> FloatArray:
    """Pixels in [0, 1]: 1600 grey values, or 4800 with colour."""
    return _smooth_image(content, roi, color).ravel()


def simplified_hog_of(content: bytes, roi: Roi | None, *, color: bool) -> FloatArray:
    """1568 numbers by scikit-image, without window and interpolation, in the sizes of `Hog`."""
    from skimage.feature import hog

    histogram: FloatArray = hog(
        _smooth_image(content, roi, color),
        orientations=ORIENTATIONS,
        pixels_per_cell=(CELL, CELL),
        cells_per_block=(BLOCK // CELL, BLOCK // CELL),
        channel_axis=-1 if color else None,
    )
    return histogram


def numbers_of(content: bytes, roi: Roi | None, *, length: int) -> FloatArray:
    """The numbers of a text file, of which there must be `length`, all finite."""
    numbers = np.array(content.split(), dtype=np.bytes_).astype(np.float64)
    if len(numbers) != length:
        raise ValueError(f"holds {len(numbers)} numbers instead of {length}")
    if not np.isfinite(numbers).all():
        raise ValueError("holds a number that is not finite")
    return numbers


def only_classes(signs: list[Sign], classes: Iterable[int] | None, archive: Path) -> list[Sign]:
    """The signs of these classes, all of which must occur."""
    if classes is None:
        return signs
    wanted, present = set(classes), {sign.class_id for sign in signs}
    if absent := wanted - present:
        raise ValueError(
            f"classes {sorted(absent)} are not in {archive}, which holds {sorted(present)}"
        )
    return [sign for sign in signs if sign.class_id in wanted]
