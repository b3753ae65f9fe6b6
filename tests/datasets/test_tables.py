"""The loaders of digits, ISOLET, ABCDETC, the NIST stand-in and MNIST."""

from __future__ import annotations

import gzip
import struct
import zipfile
from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from archives import compress_z, isolet_table, write_folder, write_zip
from musvm.datasets import (
    ArchiveError,
    fetch_isolet,
    load_abcdetc,
    load_digits_universum,
    load_mnist,
    load_nist,
)
from musvm.datasets import _isolet as isolet_module

# Digits ------------------------------------------------------------------------------------------


def rows_as_set(X):
    return {row.tobytes() for row in X}


@settings(max_examples=40)
@given(
    classes=st.sets(st.integers(0, 9), min_size=2, max_size=9),
    n_per_class=st.integers(1, 170),
    m=st.integers(0, 170),
    seed=st.integers(0, 1000),
)
def test_digits_are_partitioned(classes, n_per_class, m, seed):
    bunch = load_digits_universum(classes, None, n_per_class, m, seed)
    X, y = load_digits(return_X_y=True)
    L = len(classes)
    assert np.bincount(bunch.target, minlength=10).tolist() == [
        n_per_class * (digit in classes) for digit in range(10)
    ]
    assert bunch.target_names == sorted(classes)
    assert len(bunch.data_test) == np.isin(y, list(classes)).sum() - n_per_class * L
    assert bunch.universum.shape == (m, 64)
    assert not set(bunch.universum_target) & classes
    # Together the parts are the images of scikit-learn, each once.
    parts = np.concatenate([bunch.data, bunch.data_test])
    labels = np.concatenate([bunch.target, bunch.target_test])
    mine = sorted(zip(map(bytes, (16 * parts).astype(np.uint8)), labels, strict=True))
    chosen = np.isin(y, list(classes))
    theirs = sorted(zip(map(bytes, X[chosen].astype(np.uint8)), y[chosen], strict=True))
    assert mine == theirs
    assert rows_as_set(bunch.universum) <= rows_as_set(X / 16)
    assert len(rows_as_set(bunch.universum)) == m, "an image is drawn twice"


def test_digits_are_reproducible_and_vary():
    first, same, other = (load_digits_universum(random_state=seed) for seed in (1, 1, 2))
    for part in ("data", "data_test", "universum"):
        np.testing.assert_array_equal(first[part], same[part])
        assert not np.array_equal(first[part], other[part])


def test_digits_defaults_and_return_X_y():
    bunch = load_digits_universum()
    X, y = load_digits_universum(return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)
    assert 0 <= X.min() < X.max() == 1.0
    assert "UCI" in bunch.DESCR


def test_digits_universum_is_drawn_from_the_digits_asked_for():
    bunch = load_digits_universum([0, 1], universum=[7, 9], m=300)
    assert set(bunch.universum_target) == {7, 9}


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"classes": [1]}, "at least two classes"),
        ({"classes": 4}, r"a list of digits, such as range\(4\), not a number"),
        ({"classes": [1, 10]}, "must be digits"),
        ({"classes": [1, 2], "universum": [2, 3]}, r"digits \[2\] are both"),
        ({"n_per_class": 0}, "n_per_class must be from 1"),
        ({"n_per_class": 174}, "n_per_class must be from 1 to 173 for digit 8"),
        ({"universum": [0], "m": 179}, "m must be from 0 to 178"),
    ],
)
def test_digits_that_cannot_be_drawn(parameters, match):
    with pytest.raises(ValueError, match=match):
        load_digits_universum(**parameters)


# ISOLET ------------------------------------------------------------------------------------------

TRAIN, TEST = "isolet1+2+3+4.data", "isolet5.data"


def isolet_members(packed):
    train, test = isolet_table(52)[1], isolet_table(26, seed=1)[1]
    if packed:
        return {TRAIN + ".Z": compress_z(train), TEST + ".Z": compress_z(test)}
    return {TRAIN: train, TEST: test}


def fetch(archive, home, **parameters):
    return fetch_isolet(archive=archive, data_home=home, verbose=0, **parameters)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_isolet_is_read_as_written(tmp_path, write, packed):
    archive = write(tmp_path / "isolet.zip", isolet_members(packed))
    train, test = isolet_table(52)[0], isolet_table(26, seed=1)[0]
    for subset, table in (("train", train), ("test", test), ("all", np.vstack([train, test]))):
        bunch = fetch(archive, tmp_path / "home", subset=subset)
        np.testing.assert_array_equal(bunch.data, table[:, :617])
        assert bunch.target.tolist() == [ascii_uppercase[int(k) - 1] for k in table[:, 617]]
        assert bunch.target_names == list(ascii_uppercase)
        assert "UCI" in bunch.DESCR


def test_isolet_is_parsed_once(tmp_path, monkeypatch):
    folder, home = write_folder(tmp_path / "f", isolet_members(True)), tmp_path / "home"
    X, y = fetch(folder, home, return_X_y=True)

    def no_unpacking(data, max_size):
        raise AssertionError("the table was parsed again although it is in the cache")

    monkeypatch.setattr(isolet_module, "unpack_z", no_unpacking)
    again = fetch(folder, home)
    np.testing.assert_array_equal(again.data, X)
    np.testing.assert_array_equal(again.target, y)


def spoil_last_line(change):
    content = isolet_table(26, seed=1)[1]
    lines = content.decode().splitlines(keepends=True)
    return "".join([*lines[:-1], change(lines[-1])]).encode()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (spoil_last_line(lambda line: line[:300]), "not a complete table"),
        (spoil_last_line(lambda line: line[:-3]), "ends in the middle of a line"),
        (spoil_last_line(lambda line: line.replace("26.", "27.")), "a class from 1 to 26"),
        (spoil_last_line(lambda line: line.replace("26.", "2.5")), "a class from 1 to 26"),
        (spoil_last_line(lambda line: "nan" + line[line.index(",") :]), "not rows of 617"),
        (spoil_last_line(lambda line: "x" + line[line.index(",") :]), "could not convert"),
        (b"1, 2, 3\n", "not rows of 617 numbers"),
        (b"\xff\xfe", "not a complete table"),
    ],
)
def test_isolet_spoilt_tables_are_refused(tmp_path, content, match):
    folder = write_folder(tmp_path / "f", {TEST: content})
    with pytest.raises(ArchiveError, match=match) as caught:
        fetch(folder, tmp_path / "home", subset="test")
    assert TEST in str(caught.value)
    assert not (tmp_path / "home").exists(), "a refused table must leave nothing"


def test_isolet_spoilt_packing_is_refused(tmp_path):
    packed = compress_z(isolet_table(26)[1])
    for content, match in ((b"", "not a compress"), (packed[: len(packed) // 2], "not a complete")):
        folder = write_folder(tmp_path / "f", {TEST + ".Z": content})
        with pytest.raises(ArchiveError, match=match):
            fetch(folder, tmp_path / "home", subset="test")


def test_isolet_missing_file_and_wrong_subset(tmp_path):
    folder = write_folder(tmp_path / "f", {TEST: isolet_table(26)[1]})
    assert fetch(folder, tmp_path / "home", subset="test").data.shape == (26, 617)
    with pytest.raises(ArchiveError, match=r"isolet1\+2\+3\+4.data.Z are missing"):
        fetch(folder, tmp_path / "home")
    with pytest.raises(ValueError, match="subset must be"):
        fetch(folder, tmp_path / "home", subset="validation")


# ABCDETC -----------------------------------------------------------------------------------------

LABELLED = ascii_lowercase + ascii_uppercase + digits


def write_svl(path, labels, pixels, first=1, writers=None):
    """One line per image: the label, then the black pixels, numbered from `first`."""
    lines = []
    for index, (label, row) in enumerate(zip(labels, pixels, strict=True)):
        entries = [f"{pixel + first}:1" for pixel in np.flatnonzero(row)]
        if writers is not None:
            entries.append(f"{10000 + first}:{writers[index]}")
        lines.append(" ".join([str(label), *entries]) + "\n")
    path.write_text("".join(lines))
    return path


def some_pixels(n, seed=0):
    return np.random.default_rng(seed).random((n, 10000)) < 0.01


def test_abcdetc_classes_are_characters(tmp_path):
    pixels = some_pixels(78)
    path = write_svl(tmp_path / "final.svl", range(1, 79), pixels)
    bunch = load_abcdetc(path)
    np.testing.assert_array_equal(bunch.data, pixels)
    assert bunch.data.dtype == np.float64
    assert "".join(bunch.target[:62]) == LABELLED
    assert len(set(bunch.target)) == 78
    assert not any(character.isalnum() for character in bunch.target[62:])
    assert bunch.target_names == bunch.target.tolist()
    assert bunch.subjects is None
    assert "NEC" in bunch.DESCR


def test_abcdetc_authors_own_numbering(tmp_path):
    pixels = some_pixels(78)
    writers = np.arange(78) % 51
    path = write_svl(tmp_path / "final.svl", range(78), pixels, first=0, writers=writers)
    bunch = load_abcdetc(path)
    np.testing.assert_array_equal(bunch.data, pixels)
    np.testing.assert_array_equal(bunch.subjects, writers)
    assert "".join(bunch.target[:62]) == ascii_uppercase + ascii_lowercase + digits
    some = load_abcdetc(path, classes="0A")
    assert some.subjects.tolist() == [0, 52 % 51]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("with_writers", [False, True])
def test_abcdetc_pixels_numbered_from_zero_or_one(tmp_path, first, corners, with_writers):
    pixels = some_pixels(4)
    # Without a first pixel or writers nothing tells numbers from 0 apart from numbers from 1.
    pixels[0, [0, -1]] = corners or not with_writers
    writers = [0, 7, 50, 3] if with_writers else None
    path = write_svl(tmp_path / "final.svl", [1, 2, 3, 4], pixels, first, writers)
    bunch = load_abcdetc(path)
    np.testing.assert_array_equal(bunch.data, pixels)
    if with_writers:
        assert bunch.subjects.tolist() == writers
    else:
        assert bunch.subjects is None


def test_abcdetc_numbering_can_be_forced(tmp_path):
    path = write_svl(tmp_path / "final.svl", [1, 27], some_pixels(2))
    assert load_abcdetc(path).target.tolist() == ["a", "A"]
    assert load_abcdetc(path, numbering="0-77").target.tolist() == ["B", "b"]
    with pytest.raises(ValueError, match="numbering must be"):
        load_abcdetc(path, numbering="2-79")


def test_abcdetc_selection_and_compression(tmp_path):
    labels, pixels = [53, 54, 1, 53, 9], some_pixels(5)
    path = write_svl(tmp_path / "final.svl", labels, pixels)
    (tmp_path / "final.svl.gz").write_bytes(gzip.compress(path.read_bytes()))
    X, y = load_abcdetc(tmp_path / "final.svl.gz", classes=["a", "0"], return_X_y=True)
    assert y.tolist() == ["0", "a", "0"]
    np.testing.assert_array_equal(X, pixels[[0, 2, 3]])
    with pytest.raises(ValueError, match=r"classes \['Z'\] are not in the data, which has ai01"):
        load_abcdetc(path, classes="0Z")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "it is empty"),
        ("a page of text\n", "ABCDETC"),
        ("79 1:1\n", "labels are not whole numbers in 1-78"),
        ("1.5 1:1\n", "labels are not whole numbers"),
        ("1 1:0.5\n1 2:1\n", "not black or white"),
        ("1 1:nan\n", "not black or white"),
        ("1 10002:1\n", "has a feature 10002"),
        ("1 5:", "ABCDETC"),
    ],
)
def test_abcdetc_spoilt_files_are_refused(tmp_path, text, match):
    path = tmp_path / "final.svl"
    path.write_text(text)
    with pytest.raises(ArchiveError, match=match) as caught:
        load_abcdetc(path)
    assert "final.svl" in str(caught.value)


def test_abcdetc_truncated_gzip_is_refused(tmp_path):
    path = write_svl(tmp_path / "final.svl", [1, 2], some_pixels(2))
    packed = tmp_path / "final.svl.gz"
    for content in (gzip.compress(path.read_bytes())[:-20], b"not gzip"):
        packed.write_bytes(content)
        with pytest.raises(ArchiveError, match=r"final\.svl\.gz"):
            load_abcdetc(packed)


# NIST --------------------------------------------------------------------------------------------


def nist_arrays(labels="01aiA", seed=0):
    rng = np.random.default_rng(seed)
    n = len(labels)
    return {
        "bits100": np.packbits(rng.random((n, 10000)) < 0.1, axis=1),
        "images28": rng.integers(0, 256, (n, 28, 28)).astype(np.uint8),
        "labels": np.array(list(labels)),
    }


def test_nist_is_unpacked(tmp_path):
    arrays = nist_arrays()
    np.savez_compressed(tmp_path / "nist.npz", **arrays)
    bits = load_nist(tmp_path / "nist.npz")
    assert bits.data.shape == (5, 10000)
    for row, image, packed in zip(bits.data, bits.images, arrays["bits100"], strict=True):
        np.testing.assert_array_equal(row, np.unpackbits(packed)[:10000])
        np.testing.assert_array_equal(image, row.reshape(100, 100))
    assert bits.target.tolist() == list("01aiA")
    assert bits.target_names == list("01aiA")
    assert "NIST" in bits.DESCR
    grey = load_nist(tmp_path / "nist.npz", features="images28", classes="Ai")
    np.testing.assert_allclose(grey.images * 255, arrays["images28"][3:])
    assert grey.target_names == ["i", "A"]
    X, y = load_nist(tmp_path / "nist.npz", classes=["0"], return_X_y=True)
    assert X.shape == (1, 10000)
    assert y.tolist() == ["0"]


def test_nist_wrong_parameters(tmp_path):
    np.savez(tmp_path / "nist.npz", **nist_arrays())
    with pytest.raises(ValueError, match="features must be"):
        load_nist(tmp_path / "nist.npz", features="bits10")
    with pytest.raises(ValueError, match=r"classes \['z'\] are not in the data"):
        load_nist(tmp_path / "nist.npz", classes="z")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_nist(tmp_path / "nowhere.npz")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"labels": None}, "lacks the array labels"),
        ({"bits100": None}, "lacks the array bits100"),
        ({"bits100": np.zeros((5, 1249), np.uint8)}, "not arrays of bytes"),
        ({"bits100": np.zeros((4, 1250), np.uint8)}, "not arrays of bytes"),
        ({"bits100": np.zeros((5, 1250))}, "not arrays of bytes"),
        ({"labels": np.arange(5)}, "not arrays of bytes"),
        ({"labels": np.array([{}] * 5, dtype=object)}, "labels is not readable.*allow_pickle"),
    ],
)
def test_nist_spoilt_arrays_are_refused(tmp_path, change, match):
    arrays = {k: v for k, v in (nist_arrays() | change).items() if v is not None}
    np.savez(tmp_path / "nist.npz", **arrays)
    with pytest.raises(ArchiveError, match=match) as caught:
        load_nist(tmp_path / "nist.npz")
    assert "nist.npz" in str(caught.value)


def test_nist_truncated_file_is_refused(tmp_path):
    path = tmp_path / "nist.npz"
    np.savez(path, **nist_arrays())
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ArchiveError, match="not a complete zip archive"):
        load_nist(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("labels.npy", b"\x93NUMPY")
        archive.writestr("bits100.npy", b"")
    with pytest.raises(ArchiveError, match="bits100 is not readable"):
        load_nist(path)


def test_real_nist(data_folder):
    path = data_folder / "nist_digits_letters.npz"
    if not path.exists():
        pytest.skip("nist_digits_letters.npz is not among the data sets")
    grey = load_nist(path, features="images28")
    names, counts = np.unique(grey.target, return_counts=True)
    assert "".join(names) == digits + "AEIOU" + "aeiou"
    assert set(counts) == {1000}
    bits = load_nist(path, classes="i")
    assert bits.data.shape == (1000, 10000)
    assert set(np.unique(bits.data)) == {0.0, 1.0}
    # Ink is a small part of the patch, and lies nearer to its middle than to its margin.
    assert 0.005 < bits.data.mean() < 0.5
    assert bits.images[:, 25:75, 25:75].mean() > 2 * bits.images[:, :10].mean()


# MNIST -------------------------------------------------------------------------------------------


def idx(array):
    header = struct.pack(">4B", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def mnist_files(n_train=6, n_test=4, seed=0):
    rng = np.random.default_rng(seed)
    files = {}
    for prefix, n in (("train", n_train), ("t10k", n_test)):
        files[f"{prefix}-images-idx3-ubyte"] = idx(rng.integers(0, 256, (n, 28, 28)))
        files[f"{prefix}-labels-idx1-ubyte"] = idx(np.arange(n))
    return files


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_read_as_written(tmp_path, packed):
    files = mnist_files()
    if packed:
        write_folder(tmp_path, {f"{k}.gz": gzip.compress(v) for k, v in files.items()})
    else:
        write_folder(tmp_path, files)
    pixels = np.frombuffer(files["train-images-idx3-ubyte"][16:], np.uint8).reshape(6, 784)
    train = load_mnist(tmp_path)
    np.testing.assert_allclose(train.data * 255, pixels)
    assert train.images.shape == (6, 28, 28)
    assert train.target.tolist() == [0, 1, 2, 3, 4, 5]
    X, y = load_mnist(tmp_path, subset="all", classes=[1, 5], return_X_y=True)
    assert y.tolist() == [1, 5, 1]
    assert X.shape == (3, 784)
    assert load_mnist(tmp_path, subset="test").target_names == [0, 1, 2, 3]


LABELS, IMAGES = "train-labels-idx1-ubyte", "train-images-idx3-ubyte"


@pytest.mark.parametrize(
    ("spoilt", "match"),
    [
        ({LABELS: b""}, "not an idx file"),
        ({LABELS: idx(np.arange(6))[:7]}, "are not an array of shape"),
        ({LABELS: idx(np.arange(6))[:-1]}, "are not an array of shape"),
        ({LABELS: idx(np.arange(5))}, "do not match"),
        ({LABELS: b"\0\0\x0d" + idx(np.arange(6))[3:]}, "not an idx file of unsigned bytes"),
        ({IMAGES: idx(np.zeros((6, 27, 28)))}, "do not match"),
        ({IMAGES: struct.pack(">4B3I", 0, 0, 8, 3, *[2**31] * 3)}, "are not an array of shape"),
    ],
)
def test_mnist_spoilt_files_are_refused(tmp_path, spoilt, match):
    write_folder(tmp_path, mnist_files() | spoilt)
    with pytest.raises(ArchiveError, match=match) as caught:
        load_mnist(tmp_path)
    assert "train" in str(caught.value)


@pytest.mark.parametrize(
    "spoil",
    [lambda c: c[:-9], lambda c: b"text", lambda c: c[:20] + b"\xff\xff\xff" + c[23:]],
    ids=["truncated", "not-gzip", "corrupted"],
)
def test_mnist_spoilt_compression_is_refused(tmp_path, spoil):
    packed = {f"{k}.gz": gzip.compress(v) for k, v in mnist_files().items()}
    write_folder(tmp_path, packed | {f"{IMAGES}.gz": spoil(packed[f"{IMAGES}.gz"])})
    with pytest.raises(ArchiveError, match=f"{IMAGES}.gz: truncated or corrupted"):
        load_mnist(tmp_path)


def test_mnist_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("musvm.datasets._mnist.MAX_BYTES", 4000)
    write_folder(tmp_path, {f"{k}.gz": gzip.compress(v) for k, v in mnist_files().items()})
    with pytest.raises(ArchiveError, match="unpacks to more than 4,000 bytes"):
        load_mnist(tmp_path)


def test_mnist_absent_files_and_wrong_parameters(tmp_path):
    with pytest.raises(FileNotFoundError, match="neither train-images-idx3-ubyte nor"):
        load_mnist(tmp_path)
    write_folder(tmp_path, mnist_files())
    with pytest.raises(ValueError, match="subset must be"):
        load_mnist(tmp_path, subset="validation")
    with pytest.raises(ValueError, match=r"classes \[9\] are not in the data"):
        load_mnist(tmp_path, classes=[1, 9])


def test_real_mnist(data_folder):
    folder = data_folder / "mnist"
    if not folder.is_dir():
        pytest.skip("mnist is not among the data sets")
    mnist = load_mnist(folder, subset="test")
    assert mnist.data.shape == (10000, 784)
    assert mnist.target[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(mnist.target).tolist() == [
        *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
    ]
    assert (mnist.data.min(), mnist.data.max()) == (0.0, 1.0)
