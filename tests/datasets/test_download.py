"""Downloads, from a server on this machine: checksums, retries, offline, nothing half-written."""

from __future__ import annotations

import logging
import socket
import sys

import numpy as np
import pytest

from archives import (
    compress_z,
    gtsrb_hog,
    gtsrb_images,
    isolet_table,
    serve,
    write_zip,
)
from musvm.datasets import ArchiveError, _gtsrb, _isolet, fetch_gtsrb, fetch_isolet
from musvm.datasets._files import file_hash

pooch = pytest.importorskip("pooch", reason="pooch downloads")
pytest.importorskip("skimage", reason="scikit-image computes the features")

IMAGES, HOG = "GTSRB_Final_Training_Images.zip", "GTSRB_Final_Training_HOG.zip"


@pytest.fixture(autouse=True)
def quiet_and_quick(monkeypatch):
    """No proxy for this machine, no waiting between attempts, no log on the terminal."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    pooch.get_logger().setLevel(logging.WARNING)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    write_zip(folder / IMAGES, gtsrb_images())
    write_zip(folder / HOG, gtsrb_hog())
    with serve(folder) as server:
        yield server


@pytest.fixture
def sha256(tmp_path, server):
    return file_hash(tmp_path / "served" / IMAGES)


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def fetch(server, home, **parameters):
    return fetch_gtsrb(base_url=server.url, data_home=home, verbose=0, **parameters)


def test_download_then_no_second_download(server, home, tmp_path, sha256):
    signs = fetch(server, home, sha256=sha256)
    assert server.requests == [f"/{IMAGES}"]
    assert signs.data.shape == (12, 1568)
    again = fetch(server, home, sha256=sha256)
    assert server.requests == [f"/{IMAGES}"], "the archive was downloaded twice"
    np.testing.assert_array_equal(again.data, signs.data)
    local = fetch_gtsrb(archive=tmp_path / "served" / IMAGES, data_home=home, verbose=0)
    np.testing.assert_array_equal(local.data, signs.data)


def test_base_url_needs_no_slash(server, home, sha256):
    signs = fetch_gtsrb(base_url=server.url.rstrip("/"), data_home=home, sha256=sha256, verbose=0)
    assert signs.data.shape == (12, 1568)


def test_retries_until_the_server_answers(server, home, sha256):
    server.n_failures = 2
    fetch(server, home, sha256=sha256, n_retries=2)
    assert server.requests == [f"/{IMAGES}"] * 3


def test_too_few_retries(server, home, sha256):
    server.n_failures = 2
    with pytest.raises(ConnectionError, match="503"):
        fetch(server, home, sha256=sha256, n_retries=1)
    assert len(server.requests) == 2
    assert files_in(home) == []


def test_offline_is_explained(home):
    with socket.socket() as unused:  # bound and never listening: a connection is refused
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        with pytest.raises(ConnectionError) as caught:
            fetch_gtsrb(base_url=url, data_home=home, n_retries=0, verbose=0)
    message = str(caught.value)
    assert url + IMAGES in message
    assert "Are you offline?" in message
    assert f"yourself from {_gtsrb.BASE_URL}{IMAGES}" in message
    assert "archive=" in message
    assert str(home / "gtsrb" / IMAGES) in message
    assert files_in(home) == []


def test_absent_on_the_server(server, home):
    with pytest.raises(ConnectionError, match="404"):
        fetch_isolet(base_url=server.url, data_home=home, n_retries=0, verbose=0)
    assert files_in(home) == []


def test_connection_lost_half_way(server, home, sha256):
    server.cut = 2000
    with pytest.raises(ConnectionError, match="Could not download"):
        fetch(server, home, sha256=sha256, n_retries=1)
    assert len(server.requests) == 2
    assert files_in(home) == [], "a partial download is left"


def test_wrong_checksum_is_refused(server, home):
    with pytest.raises(ArchiveError, match=f"{IMAGES}: the download was refused.*does not match"):
        fetch(server, home, sha256="00" * 32, n_retries=0)
    assert files_in(home) == []


def test_known_checksum_is_verified(server, home):
    """The small archive is not the official one, so it is refused under its name."""
    with pytest.raises(ArchiveError, match="f33fd80ac59bff73c82d25ab499e03a3"):
        fetch(server, home, n_retries=0)
    assert files_in(home) == []


def test_archive_damaged_after_the_download_is_fetched_again(server, home, sha256):
    expected = fetch(server, home, sha256=sha256)
    archive = home / "gtsrb" / IMAGES
    archive.write_bytes(archive.read_bytes()[:500])
    again = fetch(server, home, sha256=sha256)
    assert len(server.requests) == 2
    np.testing.assert_array_equal(again.data, expected.data)


def test_download_if_missing_false(server, home, sha256):
    with pytest.raises(OSError, match=r"is not there, and download_if_missing is False.*archive="):
        fetch(server, home, sha256=sha256, download_if_missing=False)
    assert server.requests == []
    fetch(server, home, sha256=sha256)
    assert fetch(server, home, sha256=sha256, download_if_missing=False).data.shape == (12, 1568)
    with pytest.raises(OSError, match="has another checksum than expected"):
        fetch(server, home, sha256="00" * 32, download_if_missing=False)


def test_missing_pooch_is_explained(server, home, monkeypatch, sha256):
    fetch(server, home, sha256=sha256)
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert fetch(server, home, sha256=sha256).data.shape == (12, 1568), "no download was needed"
    with pytest.raises(ImportError, match=r"needs the package pooch: pip install 'musvm\[data\]'"):
        fetch(server, home, features="official-hog")


def fetch_hog(server, home):
    return fetch(server, home, features="official-hog", n_retries=0)


def test_without_checksum_the_counts_are_verified(server, home, monkeypatch):
    with pytest.raises(ArchiveError, match="8 signs of 2 classes instead of 39209 of 43") as caught:
        fetch_hog(server, home)
    assert server.url + HOG in str(caught.value)
    assert files_in(home) == []
    monkeypatch.setattr(_gtsrb, "N_CLASSES", 2)
    monkeypatch.setattr(_gtsrb, "N_IMAGES", 8)
    assert fetch_hog(server, home).data.shape == (8, 1568)
    assert fetch_hog(server, home).data.shape == (8, 1568)
    assert len(server.requests) == 2, "the archive was downloaded twice"


def test_without_checksum_a_web_page_is_refused(server, home, tmp_path):
    (tmp_path / "served" / HOG).write_bytes(b"<html>Please log in</html>")
    with pytest.raises(ArchiveError, match="not a complete zip archive"):
        fetch_hog(server, home)
    assert files_in(home) == []


def test_without_checksum_every_member_is_verified(server, home, tmp_path, monkeypatch):
    monkeypatch.setattr(_gtsrb, "N_CLASSES", 2)
    monkeypatch.setattr(_gtsrb, "N_IMAGES", 8)
    served = tmp_path / "served" / HOG
    content = bytearray(served.read_bytes())
    content[len(content) // 2] ^= 0xFF
    served.write_bytes(content)
    with pytest.raises(ArchiveError, match="corrupted"):
        fetch_hog(server, home)
    assert files_in(home) == []


@pytest.fixture
def isolet_server(tmp_path):
    folder = tmp_path / "isolet"
    folder.mkdir()
    write_zip(
        folder / "isolet.zip",
        {
            "isolet1+2+3+4.data.Z": compress_z(isolet_table(30)[1]),
            "isolet5.data.Z": compress_z(isolet_table(10, seed=1)[1]),
            "isolet.names": b"what this is",
        },
    )
    with serve(folder) as server:
        yield server


def test_isolet_is_downloaded_and_counted(isolet_server, home, monkeypatch):
    parameters = {"base_url": isolet_server.url, "data_home": home, "n_retries": 0, "verbose": 0}
    with pytest.raises(ArchiveError, match=r"isolet1\+2\+3\+4.data has 30 rows instead of 6238"):
        fetch_isolet(**parameters)
    assert files_in(home) == []
    monkeypatch.setattr(_isolet, "N_ROWS", {"train": 30, "test": 10})
    isolet = fetch_isolet(**parameters)
    expected = np.concatenate([isolet_table(30)[0], isolet_table(10, seed=1)[0]])
    np.testing.assert_array_equal(isolet.data, expected[:, :-1])
    fetch_isolet(**parameters)
    assert len(isolet_server.requests) == 2, "the archive was downloaded twice"
