"""Histograms of oriented gradients (HOG) of small images, as Dalal and Triggs (2005) define them.

With g the image, or its square root with `gamma`, each pixel has a gradient by central differences,
dx = g(x + 1, y) - g(x - 1, y) and dy alike, mirrored at the border. In colour it is that of the
channel with the largest magnitude. A pixel votes with its magnitude for its orientation, of which
there are 8 in 180 degrees, and each block of 2 x 2 cells collects the votes of its 10 x 10 pixels:

    interpolation   a vote is shared between the two nearest orientations and the four nearest cells
                    of the block, linearly in each of the three; otherwise all of it goes to the
                    nearest
    window          a vote counts exp(-d^2 / (2 s^2)), where d is the distance of the pixel from the
                    middle of the block and s = 2.5 is a quarter of the block's side

The 32 numbers h of a block are normalised by "L2-Hys": h / (|h| + 3.2), cut off at 0.2, and again
h / (|h| + 0.001). Blocks overlap by half, 7 x 7 of them, which makes 1568 numbers.

Where the definition leaves a choice, this is OpenCV's: `cv2.HOGDescriptor((40, 40), (10, 10),
(5, 5), (5, 5), 8)` gives the same numbers to single precision, in the same order. That holds for
the two constants of the normalisation, the middle of a block (pixel 5 of 0..9), the channel of
several with the same magnitude (the first of blue, green, red), and the arc tangent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

FloatArray = NDArray[np.float64]
Images = NDArray[np.uint8]

SIDE, CELL, BLOCK = 40, 5, 10  # pixels
N_BLOCKS = (SIDE - BLOCK) // CELL + 1  # in each direction
ORIENTATIONS = 8
LENGTH = N_BLOCKS**2 * (BLOCK // CELL) ** 2 * ORIENTATIONS
CUT = 0.2

# arctan t for 0 <= t <= 1, highest power first. OpenCV computes angles by this polynomial, which is
# right to 0.01 degrees: with the exact ones, features would differ by some 1e-4.
ARC_TANGENT = (-0.04432655554792128, 0.1555786518463281, -0.3258083974640975, 0.9997878412794807)
# Shares of red, green and blue in grey (ITU-R BT.601), in units of 2^-15.
GREY = (9798, 19235, 3735)


@dataclass(frozen=True)
class Hog:
    """Which parts of the definition are in use; the default is OpenCV's descriptor."""

    color: bool = True
    gamma: bool = False
    window: bool = True
    interpolation: bool = True

    def __call__(self, images: Images) -> FloatArray:
        """Features of RGB images, (n, 40, 40, 3) bytes; (n, 1568) numbers."""
        channels = images[..., ::-1] if self.color else grey(images)[..., np.newaxis]
        votes = self._votes(*_gradients(channels, self.gamma))
        cells = _cell_weights(self.window, self.interpolation) @ votes.reshape(SIDE * SIDE, -1)
        blocks = cells.reshape(N_BLOCKS**2, -1, len(images), ORIENTATIONS).transpose(2, 0, 1, 3)
        return _normalised(blocks.reshape(len(images), N_BLOCKS**2, -1)).reshape(-1, LENGTH)

    def _votes(self, dx: FloatArray, dy: FloatArray) -> FloatArray:
        """Votes of the pixels, (pixels, images, orientations)."""
        magnitude = np.hypot(dx, dy).reshape(len(dx), -1).T
        # Orientation k stands for angles from k to k + 1, in units of 180 / 8 degrees.
        angle = _angle(dy, dx).reshape(len(dx), -1).T * (ORIENTATIONS / np.pi)
        if not self.interpolation:
            return _to_bins(angle.astype(np.intp), magnitude)
        below = np.floor(angle - 0.5)
        share = angle - 0.5 - below
        nearest = below.astype(np.intp)
        lower = _to_bins(nearest, magnitude * (1 - share))
        return lower + _to_bins(nearest + 1, magnitude * share)


def grey(images: Images) -> Images:
    """Luminance of RGB images, as OpenCV rounds it."""
    total = images.astype(np.intp) @ np.array(GREY)
    return ((total + 2**14) >> 15).astype(np.uint8)


def resize(image: Images, side: int = SIDE) -> Images:
    """An image of any size, (height, width, channels), brought to side x side by interpolation.

    Bilinear, pixels being squares with their values in the middle, in the integer arithmetic of
    OpenCV's `resize`, which this equals byte for byte.
    """
    left, right, share = _neighbours(image.shape[1], side)
    # Beyond the outermost columns nothing is mixed; beyond the outermost rows a row is mixed with
    # itself, which rounds otherwise.
    share = np.where(left == right, 0, share)
    wide = image.astype(np.intp)
    wide = wide[:, left] * (2048 - share)[:, np.newaxis] + wide[:, right] * share[:, np.newaxis]
    wide >>= 4
    above, below, share = _neighbours(image.shape[0], side)
    weights = share[:, np.newaxis, np.newaxis]
    upper, lower = wide[above] * (2048 - weights) >> 16, wide[below] * weights >> 16
    return ((upper + lower + 2) >> 2).astype(np.uint8)


def _neighbours(n: int, side: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """For each of `side` pixels, its two neighbours among n and the share of the second / 2048."""
    position = ((np.arange(side) + 0.5) * (1 / (side / n)) - 0.5).astype(np.float32)
    first = np.floor(position).astype(np.intp)
    share = np.rint((position - first.astype(np.float32)) * np.float32(2048)).astype(np.intp)
    return first.clip(0, n - 1), (first + 1).clip(0, n - 1), share


def _gradients(channels: Images, gamma: bool) -> tuple[FloatArray, FloatArray]:
    """dx and dy of the strongest channel, (images, rows, columns) each.

    In single precision, like OpenCV, because rounding decides between channels that differ by it.
    """
    g = channels.astype(np.float32)
    if gamma:
        g = np.sqrt(g)
    g = np.pad(g, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    dx, dy = g[:, 1:-1, 2:] - g[:, 1:-1, :-2], g[:, 2:, 1:-1] - g[:, :-2, 1:-1]
    strongest = (dx**2 + dy**2).argmax(axis=-1)[..., np.newaxis]
    dx, dy = (np.take_along_axis(d, strongest, axis=-1)[..., 0] for d in (dx, dy))
    return dx.astype(np.float64), dy.astype(np.float64)


def _angle(dy: FloatArray, dx: FloatArray) -> FloatArray:
    """The angle of a gradient from 0 up to 180 degrees, in radians; opposite ones are the same."""
    x, y = np.abs(dx), np.abs(dy)
    t = np.minimum(x, y) / np.maximum(np.maximum(x, y), np.finfo(np.float64).tiny)
    arc = t * np.polyval(ARC_TANGENT, t * t)
    arc = np.where(x >= y, arc, np.pi / 2 - arc)
    falling = np.where(dx < 0, dy > 0, dy < 0)
    return np.where(falling & (arc > 0), np.pi - arc, arc)


def _to_bins(orientation: NDArray[np.intp], votes: FloatArray) -> FloatArray:
    """Votes spread over one more axis, in the place of their orientation, counted in a circle."""
    bins = np.zeros((*votes.shape, ORIENTATIONS))
    place = (orientation % ORIENTATIONS)[..., np.newaxis]
    np.put_along_axis(bins, place, votes[..., np.newaxis], axis=-1)
    return bins


@cache
def _cell_weights(window: bool, interpolation: bool) -> Any:
    """How much each pixel counts in each cell of each block, (cells of blocks, pixels).

    The matrix is a Kronecker product, since rows and columns of pixels contribute separately.
    Blocks, and cells in a block, are counted down the columns.
    """
    pixel = np.arange(BLOCK)
    centre = (pixel + 0.5) / CELL - 0.5  # in cells
    cells = np.arange(BLOCK // CELL)[:, np.newaxis]
    share = np.maximum(0, 1 - np.abs(centre - cells)) if interpolation else pixel // CELL == cells
    height = np.exp(-((pixel - BLOCK / 2) ** 2) / (2 * (BLOCK / 4) ** 2)) if window else 1.0
    along = np.zeros((N_BLOCKS, len(cells), SIDE))  # block, cell, pixel
    for block in range(N_BLOCKS):
        along[block, :, block * CELL : block * CELL + BLOCK] = share * height
    both = np.einsum("acx,bdy->abcdyx", along, along)
    return sparse.csr_array(both.reshape(-1, SIDE * SIDE))


def _normalised(h: FloatArray) -> FloatArray:
    """L2-Hys of each block, the last axis."""
    h = h / (np.linalg.norm(h, axis=-1, keepdims=True) + 0.1 * h.shape[-1])
    h = np.minimum(h, CUT)
    return np.asarray(h / (np.linalg.norm(h, axis=-1, keepdims=True) + 1e-3))
