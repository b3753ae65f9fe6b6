"""The parts under the loaders: atomic files, caches, suspicious archives, .Z files, progress."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import get_data_home as sklearn_data_home

from archives import compress_z, write_folder, write_zip
from musvm import _progress
from musvm._progress import Progress
from musvm.datasets import ArchiveError, get_data_home
from musvm.datasets._files import cached_array, file_hash, hash_matches, replacing
from musvm.datasets._lzw import unpack_z
from musvm.datasets._source import open_source

LIMITS = {"max_member": 1000, "max_total": 2000}


def test_data_home_is_argument_then_environment_then_scikit_learns(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "sklearn"))
    monkeypatch.delenv("MUSVM_DATA_HOME", raising=False)
    assert get_data_home() == Path(sklearn_data_home()) / "musvm"
    monkeypatch.setenv("MUSVM_DATA_HOME", str(tmp_path / "env"))
    assert get_data_home() == tmp_path / "env"
    assert get_data_home(tmp_path / "argument") == tmp_path / "argument"
    assert not (tmp_path / "env").exists(), "asking for the folder must not create it"


def test_hash_matches_known_values(tmp_path):
    file = tmp_path / "abc"
    file.write_bytes(b"abc")
    # The test vectors of the two standards, RFC 1321 and FIPS 180.
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_hash(file) == sha256
    assert hash_matches(file, sha256.upper())
    assert hash_matches(file, "md5:900150983cd24fb0d6963f7d28e17f72")
    assert not hash_matches(file, "md5:900150983cd24fb0d6963f7d28e17f73")


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
def test_replacing_keeps_the_old_file_when_interrupted(tmp_path, interruption):
    path = tmp_path / "new" / "file"
    with replacing(path) as file:
        file.write(b"old")

    def write_half():
        with replacing(path) as file:
            file.write(b"ne")
            raise interruption

    with pytest.raises(interruption):
        write_half()
    assert path.read_bytes() == b"old"
    assert [child.name for child in path.parent.iterdir()] == ["file"], "a partial file is left"


class Counted:
    """A computation that counts how often it runs."""

    def __init__(self):
        self.runs = 0

    def __call__(self):
        self.runs += 1
        return np.arange(1000.0)


def test_cached_array_is_computed_once(tmp_path):
    compute = Counted()
    for _ in range(3):
        array = cached_array(tmp_path / "a.npz", compute, lambda array: True)
        np.testing.assert_array_equal(array, np.arange(1000.0))
    assert compute.runs == 1


def spoil_middle(content):
    return content[:4000] + bytes([content[4000] ^ 1]) + content[4001:]


@pytest.mark.parametrize(
    "spoil",
    [lambda c: c[: len(c) // 2], lambda c: b"", lambda c: b"text", spoil_middle],
    ids=["truncated", "empty", "not-npz", "one-bit"],
)
def test_damaged_cache_is_computed_again(tmp_path, spoil):
    path, compute = tmp_path / "a.npz", Counted()
    cached_array(path, compute, lambda array: True)
    path.write_bytes(spoil(path.read_bytes()))
    array = cached_array(path, compute, lambda array: True)
    np.testing.assert_array_equal(array, np.arange(1000.0))
    assert compute.runs == 2
    cached_array(path, compute, lambda array: True)
    assert compute.runs == 2, "the repaired cache must be used"


def test_cache_of_other_shape_is_computed_again(tmp_path):
    compute = Counted()
    np.savez(tmp_path / "a.npz", values=np.zeros(3))
    array = cached_array(tmp_path / "a.npz", compute, lambda array: len(array) == 1000)
    assert len(array) == 1000
    assert compute.runs == 1


def test_interrupted_caching_leaves_nothing(tmp_path, monkeypatch):
    def savez_interrupted(file, **arrays):
        file.write(b"PK half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", savez_interrupted)
    with pytest.raises(KeyboardInterrupt):
        cached_array(tmp_path / "a.npz", Counted(), lambda array: True)
    assert list(tmp_path.iterdir()) == []


def test_zip_and_folder_read_the_same(tmp_path):
    members = {"top/a/1.txt": b"one", "top/a/2.txt": b"two", "top/3.txt": b""}
    archive = write_zip(tmp_path / "a.zip", members)
    folder = write_folder(tmp_path, members) / "top"
    for path in (archive, folder):
        assert read_all(path) == members


def test_digest_follows_the_content(tmp_path):
    folder = write_folder(tmp_path / "f", {"a": b"1", "b": b"2"})
    source = open_source(folder, **LIMITS)
    before_a, before_b = source.digest(["f/a"]), source.digest(["f/b"])
    (folder / "a").write_bytes(b"3")
    source = open_source(folder, **LIMITS)
    assert source.digest(["f/a"]) != before_a
    assert source.digest(["f/b"]) == before_b


def read_all(path):
    with closing(open_source(path, **LIMITS)) as source:
        return {name: source.read(name) for name in source.names}


def refusal(path) -> str:
    """What is wrong with the archive `path`, of a message that names it and a remedy besides."""
    try:
        read_all(path)
    except ArchiveError as error:
        message = str(error)
        assert path.name in message
        assert "fresh copy" in message
        return message
    return "It is not refused."


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/etc/evil", "C:/evil", "C:evil", "\\evil", "a\\..\\..\\evil"],
)
def test_names_that_leave_the_archive_are_refused(tmp_path, name):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("x")
        info.filename = name
        archive.writestr(info, b"")
    assert "points outside the archive" in refusal(path)


def test_links_in_archives_are_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, b"/etc/passwd")
    assert "symbolic link" in refusal(path)


def test_links_out_of_folders_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(b"")
    folder = write_folder(tmp_path / "f", {"a": b"inside"})
    (folder / "b").symlink_to(folder / "a")
    source = open_source(folder, **LIMITS)
    assert source.read("f/b") == b"inside", "a link within the folder does no harm"
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ArchiveError, match="outside"):
        open_source(folder, **LIMITS).read("f/link")


def test_bombs_are_refused(tmp_path):
    assert "declares 1,001 bytes" in refusal(write_zip(tmp_path / "a.zip", {"big": bytes(1001)}))
    many = {f"{index}": bytes(1000) for index in range(3)}
    assert "declares 3,000 bytes unpacked" in refusal(write_zip(tmp_path / "b.zip", many))
    with pytest.raises(ArchiveError, match="larger than 1,000 bytes"):
        open_source(write_folder(tmp_path / "f", {"big": bytes(1001)}), **LIMITS).read("f/big")


def test_a_bomb_that_lies_about_its_size_is_refused(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"big": bytes(100_000)})
    content = path.read_bytes()
    size = (100_000).to_bytes(4, "little")
    assert content.count(size) == 2, "the size stands in the member's header and the directory"
    path.write_bytes(content.replace(size, (10).to_bytes(4, "little")))
    assert "corrupted" in refusal(path)


def test_encrypted_members_are_refused(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"a": b"text"})
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    path.write_bytes(content)
    assert "encrypted" in refusal(path)


def test_members_of_the_same_name_are_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    assert "the same name" in refusal(path)


def test_truncated_archives_are_refused(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"a": bytes(range(256)), "b": b"b"})
    content = path.read_bytes()
    for size in (0, 1, 30, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert "not a complete zip archive" in refusal(path)


@settings(max_examples=60)
@given(st.data())
def test_no_single_damaged_byte_goes_unnoticed(tmp_path_factory, data):
    """Whatever byte changes: the archive is refused, or every member is read as it was."""
    members = {"a": bytes(range(200)), "b/c": b"text" * 30}
    path = write_zip(tmp_path_factory.mktemp("zip") / "a.zip", members)
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        read = read_all(path)
    except ArchiveError:
        return
    # A changed name is not noticed here: no checksum covers it, the layouts are checked elsewhere.
    assert list(read.values()) == list(members.values())[: len(read)]


def test_absent_archive_is_an_oserror(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.zip"):
        open_source(tmp_path / "nowhere.zip", **LIMITS)


packings = {
    "max_width": st.integers(9, 16),
    "can_clear": st.booleans(),
    "clear_every": st.one_of(st.none(), st.integers(1, 600)),
}


def compressible(n_bytes, seed):
    """Bytes of which some strings repeat, enough of them to use codes of every width."""
    rng = np.random.default_rng(seed)
    return rng.choice(np.arange(12, dtype=np.uint8), size=n_bytes).tobytes()


@settings(max_examples=60)
@given(
    content=st.one_of(
        st.binary(max_size=2000),
        st.builds(compressible, st.integers(0, 20_000), st.integers(0, 99)),
    ),
    **packings,
)
@example(content=compressible(400_000, 0), max_width=16, can_clear=True, clear_every=None)
@example(content=compressible(400_000, 1), max_width=16, can_clear=True, clear_every=50_001)
@example(content=b"a" * 5000, max_width=9, can_clear=False, clear_every=None)
def test_unpack_z_inverts_compress(content, max_width, can_clear, clear_every):
    every = clear_every if can_clear else None
    packed = compress_z(content, max_width=max_width, can_clear=can_clear, clear_every=every)
    assert unpack_z(packed, max_size=len(content)) == content


@pytest.mark.skipif(shutil.which("gzip") is None, reason="gzip is not installed")
@pytest.mark.parametrize("clear_every", [None, 7, 3001])
@pytest.mark.parametrize("max_width", [12, 16])
def test_compress_is_what_gzip_reads(max_width, clear_every):
    """The writer that the tests use is itself right: gzip reads .Z files."""
    content = compressible(200_000 if clear_every != 7 else 5_000, 2)
    packed = compress_z(content, max_width=max_width, clear_every=clear_every)
    unpacked = subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True)
    assert unpacked.stdout == content


@pytest.mark.parametrize(
    ("packed", "match"),
    [
        (b"", "not a compress"),
        (b"\x1f\x8b\x08\x00", "not a compress"),
        (b"\x1f\x9d\x9f", "31 bits is not possible"),
        (b"\x1f\x9d\x90" + b"\xff" * 9, "corrupted"),
    ],
)
def test_unpack_z_refuses_what_is_not_z(packed, match):
    with pytest.raises(ValueError, match=match):
        unpack_z(packed, max_size=1000)


def test_unpack_z_refuses_bombs():
    with pytest.raises(ValueError, match="more than 9,999 bytes"):
        unpack_z(compress_z(bytes(10_000)), max_size=9999)


class Clock:
    """Time that passes only when told to."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_progress, "time", clock)
    return clock


def test_progress_of_quick_work_is_silent(clock, capsys):
    progress = Progress("Quick", 10)
    for _ in range(10):
        clock.now += 0.1
        progress.update(1)
    progress.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("counts", "shown"), [(True, "4 of 10"), (False, "40%")])
def test_progress_shows_what_is_done_and_the_time_left(clock, capsys, counts, shown):
    progress = Progress("Slow", 10, counts=counts)
    clock.now += 4.0
    progress.update(4)
    assert " ".join(capsys.readouterr().err.split()) == f"Slow: {shown}, 6 s left"


@pytest.mark.parametrize("is_notebook", [False, True])
def test_progress_ends_with_what_was_done(clock, capsys, monkeypatch, is_notebook):
    monkeypatch.setattr(_progress, "_is_notebook", lambda: is_notebook)
    with Progress("Slow", 100, unit="tasks") as progress:
        clock.now += 3.0
        progress.update(1)
        clock.now += 3.0
        progress.update(98)  # a log waits for ten seconds, a notebook does not
        clock.now += 0.1
        progress.update(1)
    first, *others = (
        line.strip() for line in capsys.readouterr().err.replace("\r", "\n").splitlines()
    )
    assert first == "Slow: 1 of 100 tasks"  # one of so many says nothing about the time left
    rewritten = ["Slow: 99 of 100 tasks, 0 s left"] if is_notebook else []
    assert others == [*rewritten, "Slow: 100 of 100 tasks, 6 s"]


def test_the_standard_error_of_a_notebook_is_known(monkeypatch):
    assert not _progress._is_notebook()
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stream)
    assert _progress._is_notebook()


@pytest.mark.parametrize("counts", [True, False])
def test_the_bar_of_a_terminal_counts_too(clock, monkeypatch, counts):
    rich = pytest.importorskip("rich.progress", reason="the bar is Rich's")
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("Slow", 10, counts=counts) as progress:
        clock.now += 4.0
        progress.update(4)
        columns = progress._bar.columns
        assert any(isinstance(c, rich.MofNCompleteColumn) for c in columns) == counts
        assert progress._bar.tasks[0].completed == 4


def test_progress_without_total_counts(clock, capsys):
    progress = Progress("Slow")
    clock.now += 4.0
    progress.update(4)
    assert capsys.readouterr().err.split() == ["Slow:", "4"]


def test_progress_can_be_silenced(clock, capsys):
    progress = Progress("Slow", 10, verbose=0)
    clock.now += 100.0
    progress.update(5)
    progress.close()
    assert capsys.readouterr().err == ""
