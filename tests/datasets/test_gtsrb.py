"""fetch_gtsrb on small archives in the official layout, and on real ones where they are."""

from __future__ import annotations

import io
import sys
from collections import Counter
from contextlib import closing

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupShuffleSplit

from archives import CSV_HEADER, HOG, IMAGES, gtsrb_hog, gtsrb_images, write_folder, write_zip
from musvm.datasets import ArchiveError, _gtsrb, _signs, fetch_gtsrb
from musvm.datasets._hog import Hog, resize
from musvm.datasets._source import open_source

pytest.importorskip("skimage", reason="scikit-image computes the features")

SUBSET = "GTSRB_Final_Training_Images.subset.zip"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def fetch(archive, home, **parameters):
    return fetch_gtsrb(archive=archive, data_home=home, verbose=0, **parameters)


def test_hog_and_its_labels(tmp_path, home):
    signs = fetch(write_zip(tmp_path / "a.zip", gtsrb_images()), home)
    assert signs.data.shape == (12, 1568)
    assert signs.data.dtype == np.float64
    assert np.isfinite(signs.data).all()
    assert signs.target.tolist() == [1] * 6 + [17] * 6
    assert signs.tracks.tolist() == [100000] * 3 + [100001] * 3 + [1700000] * 3 + [1700001] * 3
    assert signs.frames.tolist() == [0, 1, 2] * 4
    assert signs.filenames[0] == f"{IMAGES}/00001/00000_00000.ppm"
    assert len(signs.target_names) == 43
    assert (signs.target_names[1], signs.target_names[17]) == ("speed limit 30", "no entry")
    assert "Stallkamp" in signs.DESCR


def oracle_features(content, roi, color, features):
    """The features as the documentation describes them, the image decoded by Pillow."""
    from PIL import Image
    from skimage.feature import hog
    from skimage.transform import resize

    image = Image.open(io.BytesIO(content))
    pixels = np.asarray(image.crop(roi) if roi else image) / 255.0
    if not color:
        pixels = pixels @ [0.2125, 0.7154, 0.0721]  # luminance, ITU-R BT.709
    pixels = resize(pixels, (40, 40), anti_aliasing=True)
    if features == "images":
        return pixels.ravel()
    return hog(pixels, 8, (5, 5), (2, 2), channel_axis=-1 if color else None)


@pytest.mark.parametrize("roi", [False, True])
@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("features", ["hog-simplified", "images"])
def test_features_are_as_documented(tmp_path, home, features, color, roi):
    members = gtsrb_images(classes=(1,), n_tracks=1)
    archive = write_zip(tmp_path / "a.zip", members)
    signs = fetch(archive, home, features=features, color=color, roi=roi)
    for name, row in zip(signs.filenames, signs.data, strict=True):
        height, width, _ = _signs.read_ppm(members[name]).shape
        box = (5, 5, width - 5, height - 5) if roi else None
        expected = oracle_features(members[name], box, color, features)
        # Features are kept in single precision.
        np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("roi", [False, True])
def test_hog_is_that_of_the_whole_image_or_of_the_sign(tmp_path, home, roi):
    members = gtsrb_images(classes=(1,), n_tracks=1)
    signs = fetch(write_zip(tmp_path / "a.zip", members), home, roi=roi)
    images = [_signs.read_ppm(members[name]) for name in signs.filenames]
    images = [image[5:-5, 5:-5] if roi else image for image in images]
    expected = Hog()(np.stack([resize(image) for image in images]))
    np.testing.assert_allclose(signs.data, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "hog"),
    [
        ({"color": False}, Hog(color=False)),
        ({"color": True}, Hog()),
        ({"gamma_correction": True}, Hog(gamma=True)),
        ({"block_window": False}, Hog(window=False)),
        ({"interpolation": False}, Hog(interpolation=False)),
    ],
    ids=str,
)
def test_parts_of_the_descriptor_have_names(tmp_path, home, change, hog):
    members = gtsrb_images(classes=(1,), n_tracks=1)
    signs = fetch(write_zip(tmp_path / "a.zip", members), home, **change)
    images = np.stack([resize(_signs.read_ppm(members[name])) for name in signs.filenames])
    np.testing.assert_allclose(signs.data, hog(images), rtol=1e-6, atol=1e-7)


def test_images_have_their_shape(tmp_path, home):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images())
    grey = fetch(archive, home, features="images")
    assert grey.images.shape == (12, 40, 40)
    rgb = fetch(archive, home, features="images", color=True)
    assert rgb.images.shape == (12, 40, 40, 3)
    np.testing.assert_array_equal(rgb.images.reshape(12, -1), rgb.data)
    assert 0 <= rgb.data.min() < rgb.data.max() <= 1


def test_zip_and_folders_at_any_depth_agree(tmp_path, home):
    members = gtsrb_images()
    expected = fetch(write_zip(tmp_path / "a.zip", members), home)
    top = write_folder(tmp_path / "unpacked", members)
    for folder in (top, top / "GTSRB", top / IMAGES):
        signs = fetch(folder, home)
        np.testing.assert_array_equal(signs.data, expected.data)
        np.testing.assert_array_equal(signs.tracks, expected.tracks)


def test_return_X_y_and_feature_scale(tmp_path, home):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images())
    signs = fetch(archive, home)
    X, y = fetch(archive, home, return_X_y=True, feature_scale=3.0)
    np.testing.assert_array_equal(X, 3.0 * signs.data)
    np.testing.assert_array_equal(y, signs.target)


def test_classes_are_selected(tmp_path, home):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1, 4, 17)))
    everything = fetch(archive, home)
    some = fetch(archive, home, classes=[17, 1])
    assert sorted(set(some.target)) == [1, 17]
    np.testing.assert_array_equal(some.data, everything.data[everything.target != 4])
    with pytest.raises(ValueError, match=r"classes \[2\] are not in .*which holds \[1, 4, 17\]"):
        fetch(archive, home, classes=[1, 2])


def test_tracks_make_a_partition_that_keeps_signs_together(tmp_path, home):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1, 4, 17), n_tracks=4))
    signs = fetch(archive, home)
    assert len(set(signs.tracks)) == 12, "tracks of different classes are different signs"
    splitter = GroupShuffleSplit(n_splits=3, test_size=0.5, random_state=0)
    for train, test in splitter.split(signs.data, signs.target, groups=signs.tracks):
        assert not set(signs.tracks[train]) & set(signs.tracks[test])


def test_official_hog_is_read_as_written(tmp_path, home):
    members = gtsrb_hog(sets=("HOG_01", "HOG_03"))
    archive = write_zip(tmp_path / "a.zip", members)
    for hog_set, length in (("HOG_01", 1568), ("HOG_03", 2916)):
        signs = fetch(archive, home, features="official-hog", hog_set=hog_set)
        assert signs.data.shape == (8, length)
        assert signs.target.tolist() == [1] * 4 + [17] * 4
        for name, row in zip(signs.filenames, signs.data, strict=True):
            assert f"/{hog_set}/" in name
            written = [float(number) for number in members[name].decode().splitlines()]
            np.testing.assert_allclose(row, written, rtol=1e-6)
    with pytest.raises(ArchiveError, match=r"no files in the benchmark's layout, HOG_02"):
        fetch(archive, home, features="official-hog", hog_set="HOG_02")


def test_official_hog_from_the_folder_of_the_set(tmp_path, home):
    folder = write_folder(tmp_path / "unpacked", gtsrb_hog())
    signs = fetch(folder / HOG / "HOG_01", home, features="official-hog")
    assert signs.data.shape == (8, 1568)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"features": "sift"}, "features must be"),
        ({"hog_set": "HOG_04"}, "hog_set must be"),
        ({"features": "official-hog", "roi": True}, "color and roi have no effect"),
        ({"features": "official-hog", "color": True}, "color and roi have no effect"),
        ({"features": "images", "gamma_correction": True}, "have an effect on 'hog' only"),
        ({"features": "hog-simplified", "block_window": False}, "have an effect on 'hog' only"),
    ],
)
def test_wrong_parameters_are_refused(parameters, match):
    with pytest.raises(ValueError, match=match):
        fetch_gtsrb(download_if_missing=False, **parameters)


def no_images(content, roi):
    raise AssertionError("features were computed although they are in the cache")


def test_features_are_cached_class_by_class(tmp_path, home, monkeypatch):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1, 4, 17)))
    some = fetch(archive, home, classes=[1, 17])
    assert len(list(home.rglob("*.npz"))) == 2
    fetch(archive, home)
    assert len(list(home.rglob("*.npz"))) == 3, "class 4 is added, the others are reused"
    monkeypatch.setattr(_signs, "small_image", no_images)
    again = fetch(archive, home, classes=[1, 17], feature_scale=2.0)
    np.testing.assert_array_equal(again.data, 2.0 * some.data)


@pytest.mark.parametrize(
    "change",
    [
        {"color": False},
        {"roi": True},
        {"gamma_correction": True},
        {"block_window": False},
        {"interpolation": False},
        {"features": "hog-simplified"},
        {"features": "images"},
    ],
    ids=str,
)
def test_cache_depends_on_the_parameters(tmp_path, home, change):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1,)))
    before = fetch(archive, home)
    after = fetch(archive, home, **change)
    assert len(list(home.rglob("*.npz"))) == 2
    assert not np.array_equal(before.data, after.data)


def test_cache_depends_on_the_archive(tmp_path, home):
    for seed in (0, 1):
        archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1,), seed=seed))
        fresh = fetch(archive, tmp_path / f"other{seed}")
        np.testing.assert_array_equal(fetch(archive, home).data, fresh.data)


def test_damaged_cache_is_computed_again(tmp_path, home):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1,)))
    expected = fetch(archive, home)
    (cache,) = home.rglob("*.npz")
    cache.write_bytes(cache.read_bytes()[:1000])
    np.testing.assert_array_equal(fetch(archive, home).data, expected.data)
    assert cache.stat().st_size > 1000, "the damaged file is replaced"


def test_finished_classes_survive_an_interruption(tmp_path, home, monkeypatch):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1, 17)))
    save = np.savez
    n_saved = 0

    def save_once(file, **arrays):
        nonlocal n_saved
        if n_saved:
            raise KeyboardInterrupt
        n_saved += 1
        save(file, **arrays)

    monkeypatch.setattr(np, "savez", save_once)
    with pytest.raises(KeyboardInterrupt):
        fetch(archive, home)
    monkeypatch.undo()
    assert len([path for path in home.rglob("*") if path.is_file()]) == 1
    resumed = fetch(archive, home)
    np.testing.assert_array_equal(resumed.data, fetch(archive, tmp_path / "other").data)


def test_jobs_do_not_change_the_result(tmp_path, monkeypatch):
    monkeypatch.setattr(_gtsrb, "CHUNK", 2)
    archive = write_zip(tmp_path / "a.zip", gtsrb_images(classes=(1, 17)))
    one = fetch(archive, tmp_path / "one", n_jobs=1)
    two = fetch(archive, tmp_path / "two", n_jobs=2)
    np.testing.assert_array_equal(one.data, two.data)


def test_a_bad_image_is_named_whatever_the_number_of_jobs(tmp_path, home):
    members = gtsrb_images()
    bad = f"{IMAGES}/00017/00001_00002.ppm"
    members[bad] = b"P6\n20 20\n255\nshort"
    archive = write_zip(tmp_path / "a.zip", members)
    for n_jobs in (1, 2):
        with joblib.parallel_config("threading"), pytest.raises(ArchiveError, match=bad):
            fetch(archive, home, n_jobs=n_jobs)


def replaced(members, name, content):
    assert name in members
    return members | {name: content}


def without(members, name):
    assert name in members
    return {key: value for key, value in members.items() if key != name}


CSV, IMAGE = f"{IMAGES}/00017/GT-00017.csv", f"{IMAGES}/00017/00001_00002.ppm"
LINE = "00000_00000.ppm;20;20;5;5;15;15;17\n"
SPOILT = {
    "empty": ({}, "no files in the benchmark's layout"),
    "other": ({"readme.txt": b""}, "no files in the benchmark's layout"),
    "no-csv": (without(gtsrb_images(), CSV), "GT-00017.csv is missing"),
    "no-image": (without(gtsrb_images(), IMAGE), "00001_00002.ppm is annotated but missing"),
    "no-line": (
        replaced(gtsrb_images(), CSV, (CSV_HEADER + LINE).encode()),
        "00000_00001.ppm has no line in its annotation",
    ),
    "no-column": (
        replaced(gtsrb_images(), CSV, b"Filename;Width;Height;Roi.X1;Roi.Y1;ClassId\n"),
        r"lacks the column\(s\) Roi.X2, Roi.Y2",
    ),
    "commas": (replaced(gtsrb_images(), CSV, b"Filename,ClassId\n"), "lacks the column"),
    "short-line": (
        replaced(gtsrb_images(), CSV, (CSV_HEADER + "00000_00000.ppm;20;20;5\n").encode()),
        "00000_00000.ppm is incomplete",
    ),
    "not-a-number": (
        replaced(gtsrb_images(), CSV, (CSV_HEADER + LINE.replace("15", "x")).encode()),
        "00000_00000.ppm is incomplete or not numeric",
    ),
    "other-class": (
        replaced(gtsrb_images(), CSV, (CSV_HEADER + LINE.replace(";17", ";16")).encode()),
        "is of class 16, not 17",
    ),
    "traversal": (
        replaced(gtsrb_images(), CSV, (CSV_HEADER + "../" + LINE).encode()),
        "is not the name of an image",
    ),
    "not-text": (replaced(gtsrb_images(), CSV, b"\xff\xfe\x00"), "GT-00017.csv"),
    "two-sets": (gtsrb_images() | {"b/00001/00000_00000.ppm": b""}, "more than one set of signs"),
    "empty-image": (replaced(gtsrb_images(), IMAGE, b""), "00001_00002.ppm: not an 8-bit"),
    "png": (replaced(gtsrb_images(), IMAGE, b"\x89PNG\r\n"), "00001_00002.ppm: not an 8-bit"),
    "cut-image": (
        replaced(gtsrb_images(), IMAGE, gtsrb_images()[IMAGE][:-1]),
        "00001_00002.ppm: .* bytes of pixels do not make",
    ),
    "huge-image": (
        replaced(gtsrb_images(), IMAGE, b"P6\n999999999 999999999\n255\n"),
        "00001_00002.ppm: .* bytes of pixels do not make",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_spoilt_image_archives_are_refused(tmp_path, home, write, case):
    members, match = SPOILT[case]
    path = write(tmp_path / "spoilt.zip", members)
    with pytest.raises(ArchiveError, match=match) as caught:
        fetch(path, home)
    assert "spoilt.zip" in str(caught.value)
    leftovers = [file for file in home.rglob("*") if file.is_file() and file.suffix != ".npz"]
    assert leftovers == [], "a refused archive must leave nothing half-written"


def test_region_outside_the_image_is_refused_when_used(tmp_path, home):
    members = gtsrb_images(classes=(17,), n_tracks=1, n_frames=1)
    line = LINE.replace("15;15", "15;999")
    archive = write_zip(tmp_path / "a.zip", replaced(members, CSV, (CSV_HEADER + line).encode()))
    with pytest.raises(ArchiveError, match="not inside the image"):
        fetch(archive, home, roi=True)


TEXT = f"{HOG}/HOG_01/00017/00001_00001.txt"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "holds 0 numbers instead of 1568"),
        (b"0.5\n" * 1567, "holds 1567 numbers instead of 1568"),
        (b"0.5\n" * 1569, "holds 1569 numbers instead of 1568"),
        (b"0.5\n" * 1567 + b"nan\n", "not finite"),
        (b"0.5\n" * 1567 + b"inf\n", "not finite"),
        (b"0.5\n" * 1567 + b"five\n", "could not convert"),
    ],
)
def test_spoilt_hog_files_are_refused(tmp_path, home, content, match):
    archive = write_zip(tmp_path / "a.zip", replaced(gtsrb_hog(), TEXT, content))
    with pytest.raises(ArchiveError, match=match) as caught:
        fetch(archive, home, features="official-hog")
    assert TEXT in str(caught.value)
    assert "a.zip" in str(caught.value)


def test_corrupted_member_is_refused(tmp_path, home):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images())
    content = bytearray(archive.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(ArchiveError, match="corrupted"):
        fetch(archive, home)


def test_checksum_of_the_users_archive_is_verified(tmp_path, home):
    archive = write_zip(tmp_path / "a.zip", gtsrb_images())
    with pytest.raises(ArchiveError, match=r"its SHA-256 is .*, not 00"):
        fetch(archive, home, sha256="00" * 32)
    with pytest.raises(ValueError, match="is a folder"):
        fetch(tmp_path, home, sha256="00" * 32)


def test_missing_scikit_image_is_explained(tmp_path, home, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.feature", None)
    archive = write_zip(tmp_path / "a.zip", gtsrb_images())
    for features in ("hog-simplified", "images"):
        with pytest.raises(ImportError, match=r"needs scikit-image: pip install .musvm\[data\]"):
            fetch(archive, home, features=features)
    assert fetch(archive, home).data.shape == (12, 1568), "the descriptor needs no scikit-image"
    hog = write_zip(tmp_path / "hog.zip", gtsrb_hog())
    assert fetch(hog, home, features="official-hog").data.shape == (8, 1568)


@given(st.binary(max_size=40))
def test_read_ppm_reads_or_refuses(content):
    """No content makes the reader fail in any other way than by refusing it."""
    for header in (b"", b"P6\n", b"P6 # note\n2 2\n255\n", b"P6\n1 1\n255\n"):
        try:
            image = _signs.read_ppm(header + content)
        except ValueError:
            continue
        assert image.ndim == 3
        assert image.shape[2] == 3


def test_real_subset_has_the_stated_classes(data_folder):
    path = data_folder / SUBSET
    if not path.exists():
        pytest.skip(f"{SUBSET} is not among the data sets")
    source = open_source(path, max_member=_gtsrb.MAX_MEMBER, max_total=_gtsrb.MAX_TOTAL)
    with closing(source):
        signs = _signs.index_images(source)
    counts = Counter(sign.class_id for sign in signs)
    assert counts == {1: 2220, 4: 1980, 5: 1860, 17: 1110, 25: 1500}
    frames = Counter((sign.class_id, sign.track) for sign in signs)
    assert set(frames.values()) == {30}


def test_real_signs_are_read(data_folder, home):
    path = data_folder / SUBSET
    if not path.exists():
        pytest.skip(f"{SUBSET} is not among the data sets")
    signs = fetch(path, home, classes=[17])
    assert signs.data.shape == (1110, 1568)
    assert len(set(signs.tracks)) == 37
    assert np.isfinite(signs.data).all()
    # Frames of one sign resemble each other more than those of different signs do.
    one, other = signs.data[signs.tracks == 1700000], signs.data[signs.tracks == 1700001]
    within = np.linalg.norm(one - one.mean(axis=0), axis=1).mean()
    between = np.linalg.norm(one - other.mean(axis=0), axis=1).mean()
    assert within < between
