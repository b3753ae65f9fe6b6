"""The HOG descriptor against OpenCV's, by values stored here and where OpenCV 4 is installed."""

from __future__ import annotations

import zlib
from zipfile import ZipFile

import numpy as np
import pytest

from musvm.datasets._hog import Hog, grey, resize
from musvm.datasets._signs import read_ppm

SUBSET = "GTSRB_Final_Training_Images.subset.zip"
VARIANTS = {
    "default": Hog(),
    "grey": Hog(color=False),
    "gamma": Hog(gamma=True),
    "no window": Hog(window=False),
}
# Every 101st number of cv2.HOGDescriptor((40, 40), (10, 10), (5, 5), (5, 5), 8, 1, sigma, 0, 0.2,
# gamma), sigma = -1 or, for "no window", 1e6, of the images made by `synthetic` (OpenCV 4.14).
STORED = {
    ("default", "wedge"): "0.003131 0 0.302482 0 0.101962 0.337855 0 0.05896 0 0 0.290081 0 "
    "0.208535 0.298873 0 0.068022",
    ("default", "noise"): "0.181801 0.073397 0.268824 0.200302 0.083536 0.244388 0.251903 0.077671 "
    "0.167683 0.193563 0.072339 0.095353 0.179973 0.093524 0.113181 0.228489",
    ("grey", "noise"): "0.118268 0.072508 0.223661 0.113998 0.044302 0.192993 0.195796 0.094612 "
    "0.115232 0.224913 0.035989 0.078377 0.2321 0.165783 0.10039 0.140143",
    ("gamma", "noise"): "0.126653 0.059822 0.188348 0.238927 0.117848 0.179996 0.222035 0.127573 "
    "0.168201 0.101756 0.033455 0.116971 0.227217 0.123698 0.141091 0.244927",
    ("no window", "noise"): "0.208663 0.171769 0.248532 0.194937 0.078356 0.178782 0.227582 "
    "0.161816 0.187605 0.182166 0.038333 0.115812 0.151208 0.074777 0.134469 0.212215",
}
# CRC-32 of the bytes of cv2.resize(synthetic(height, width, "noise"), (40, 40)).
RESIZED = {
    (15, 17): 895071722,
    (33, 32): 588583306,
    (80, 80): 487091301,
    (97, 40): 2258543463,
    (120, 201): 3646898718,
}


def synthetic(height, width, kind):
    """An RGB image: slanting stripes, or a pattern as irregular as noise."""
    y, x, c = np.indices((height, width, 3))
    stripes = 255 * ((3 * x + (5 + c) * y) % 37 < 18)
    noise = (x * x * 7 + y * y * 13 + x * y * 5 + c * 91) % 256
    return (stripes if kind == "wedge" else noise).astype(np.uint8)


@pytest.mark.parametrize(("variant", "kind"), STORED)
def test_values_of_opencv(variant, kind):
    features = VARIANTS[variant](synthetic(40, 40, kind)[np.newaxis])
    assert features.shape == (1, 1568)
    stored = np.array(STORED[variant, kind].split(), dtype=float)
    np.testing.assert_allclose(features[0, ::101], stored, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", RESIZED)
def test_resizing_of_opencv(shape):
    assert zlib.crc32(resize(synthetic(*shape, "noise")).tobytes()) == RESIZED[shape]


def test_grey_of_opencv():
    # CRC-32 of the bytes of cv2.cvtColor(synthetic(40, 40, "noise"), cv2.COLOR_RGB2GRAY).
    assert zlib.crc32(grey(synthetic(40, 40, "noise")).tobytes()) == 3438138975


def test_images_do_not_influence_each_other():
    images = np.stack([synthetic(40, 40, "wedge"), synthetic(40, 40, "noise")])
    for variant in VARIANTS.values():
        alone = np.concatenate([variant(image[np.newaxis]) for image in images])
        np.testing.assert_allclose(variant(images), alone, rtol=0, atol=1e-12)


def literal_simple_hog(image):
    """Votes of whole pixels for one cell and one orientation, block by block, from the definition.

    Diagonals lie between two orientations. The polynomial for the arc tangent draws them a
    hundredth of a degree towards the horizontal, and so does this.
    """
    g = image.astype(float) @ [0.299, 0.587, 0.114]
    g = np.pad(np.rint(g), 1, mode="reflect")
    features = []
    for column in range(7):
        for row in range(7):
            block = np.zeros((2, 2, 8))
            for y in range(10):
                for x in range(10):
                    py, px = 5 * row + y + 1, 5 * column + x + 1
                    dx, dy = g[py, px + 1] - g[py, px - 1], g[py + 1, px] - g[py - 1, px]
                    angle = np.degrees(np.arctan2(dy, dx)) % 180
                    if abs(dx) == abs(dy) > 0:
                        angle += 0.01 * np.sign(angle - 90)
                    block[x // 5, y // 5, int(angle / 22.5) % 8] += np.hypot(dx, dy)
            h = block.ravel()
            h = np.minimum(h / (np.sqrt(h @ h) + 3.2), 0.2)
            features.append(h / (np.sqrt(h @ h) + 1e-3))
    return np.concatenate(features)


def test_without_window_and_interpolation():
    image = synthetic(40, 40, "noise")
    simple = Hog(color=False, window=False, interpolation=False)
    np.testing.assert_allclose(simple(image[np.newaxis])[0], literal_simple_hog(image), atol=1e-12)


def test_hundred_signs_as_opencv_computes_them(data_folder):
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    if not hasattr(cv2, "HOGDescriptor"):
        pytest.skip("OpenCV 5 and later have no HOGDescriptor")
    path = data_folder / SUBSET
    if not path.exists():
        pytest.skip(f"{SUBSET} is not among the data sets")
    with ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".ppm"))
        files = [archive.read(name) for name in names[:: len(names) // 100][:100]]
    small = np.stack([resize(read_ppm(file)) for file in files])
    theirs = [cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR) for file in files]
    theirs = np.stack([cv2.resize(image, (40, 40)) for image in theirs])
    np.testing.assert_array_equal(small[..., ::-1], theirs)
    sizes = (40, 40), (10, 10), (5, 5), (5, 5), 8
    plain = cv2.HOGDescriptor(*sizes)
    expected = np.stack([plain.compute(image).ravel() for image in theirs])
    np.testing.assert_allclose(Hog()(small), expected, rtol=0, atol=1e-5)
    for variant in VARIANTS.values():
        sigma = -1.0 if variant.window else 1e6
        descriptor = cv2.HOGDescriptor(*sizes, 1, sigma, 0, 0.2, variant.gamma)
        seen = theirs
        if not variant.color:
            seen = [cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) for image in theirs]
        expected = np.stack([descriptor.compute(image).ravel() for image in seen])
        np.testing.assert_allclose(variant(small), expected, rtol=0, atol=1e-5)
