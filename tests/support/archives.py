"""Small archives in the official layouts of the data sets, and a local server to fetch them from.

Contents are dictionaries from member name to bytes, so that a test can spoil one member before
it writes the archive.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

Members = dict[str, bytes]
IMAGES = "GTSRB/Final_Training/Images"
HOG = "GTSRB/Final_Training/HOG"
CSV_HEADER = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n"


def ppm(image: np.ndarray) -> bytes:
    height, width, _ = image.shape
    return f"P6\n{width} {height}\n255\n".encode() + image.astype(np.uint8).tobytes()


def gtsrb_images(classes=(1, 17), n_tracks=2, n_frames=3, seed=0) -> Members:
    """Random images between 15 and 40 pixels wide and high, with a margin of 5 around the ROI."""
    rng = np.random.default_rng(seed)
    members = {"GTSRB/Readme-Images.txt": b"what this is\n"}
    for class_id in classes:
        lines = [CSV_HEADER]
        for track in range(n_tracks):
            for frame in range(n_frames):
                name = f"{track:05d}_{frame:05d}.ppm"
                height, width = rng.integers(15, 41, size=2)
                image = rng.integers(0, 256, size=(height, width, 3))
                members[f"{IMAGES}/{class_id:05d}/{name}"] = ppm(image)
                roi = f"5;5;{width - 5};{height - 5}"
                lines.append(f"{name};{width};{height};{roi};{class_id}\n")
        members[f"{IMAGES}/{class_id:05d}/GT-{class_id:05d}.csv"] = "".join(lines).encode()
    return members


def gtsrb_hog(classes=(1, 17), n_tracks=2, n_frames=2, sets=("HOG_01",), seed=0) -> Members:
    rng = np.random.default_rng(seed)
    members = {f"{HOG}/Feature_description.txt": b"what this is\n"}
    lengths = {"HOG_01": 1568, "HOG_02": 1568, "HOG_03": 2916}
    for hog_set in sets:
        for class_id in classes:
            for track in range(n_tracks):
                for frame in range(n_frames):
                    name = f"{HOG}/{hog_set}/{class_id:05d}/{track:05d}_{frame:05d}.txt"
                    numbers = rng.random(lengths[hog_set])
                    members[name] = "".join(f"{number:.6f}\n" for number in numbers).encode()
    return members


def isolet_table(n_rows: int, seed=0) -> tuple[np.ndarray, bytes]:
    """Rows of 617 numbers and a class, and the same as the repository writes them."""
    rng = np.random.default_rng(seed)
    features = np.round(rng.uniform(-1, 1, size=(n_rows, 617)), 4)
    classes = np.arange(n_rows) % 26 + 1
    lines = [
        ", ".join(f"{value:.4f}" for value in row) + f", {label}.\n"
        for row, label in zip(features, classes, strict=True)
    ]
    return np.column_stack([features, classes]), "".join(lines).encode()


def write_zip(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_folder(path: Path, members: Members) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, content in members.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return path


def compress_z(data: bytes, *, max_width=16, can_clear=True, clear_every=None) -> bytes:
    """Pack bytes as the Unix program compress does; empty the table every so many codes."""
    first_free = 257 if can_clear else 256
    groups: list[tuple[int, list[int]]] = [(9, [])]
    table = {bytes([byte]): byte for byte in range(256)}
    n_codes = 0  # since the table was last empty

    def put(code: int) -> None:
        nonlocal n_codes
        width = min(max((first_free - 1 + n_codes).bit_length(), 9), max_width)
        if width != groups[-1][0]:
            groups.append((width, []))
        groups[-1][1].append(code)
        n_codes += 1

    string = b""
    for byte in data:
        longer = string + bytes([byte])
        if longer in table:
            string = longer
            continue
        put(table[string])
        if clear_every and n_codes % clear_every == 0:
            put(256)
            table = {bytes([byte]): byte for byte in range(256)}
            groups.append((9, []))
            n_codes = 0
        elif len(table) + first_free - 256 < 1 << max_width:
            table[longer] = len(table) + first_free - 256
        string = bytes([byte])
    if string:
        put(table[string])
    header = bytes([0x1F, 0x9D, max_width | (0x80 if can_clear else 0)])
    return header + b"".join(
        _pack(width, codes, pad=index < len(groups) - 1)
        for index, (width, codes) in enumerate(groups)
    )


def _pack(width: int, codes: list[int], pad: bool) -> bytes:
    """Codes, least significant bit first, filled up to a multiple of eight codes."""
    if pad:
        codes = codes + [0] * (-len(codes) % 8)
    number = sum(code << (width * index) for index, code in enumerate(codes))
    return number.to_bytes(-(-width * len(codes) // 8), "little")


@dataclass
class LocalServer:
    """What the server is asked, and how it misbehaves.

    `n_failures` requests are answered with 503 first; with `cut`, a file ends after so many
    bytes, though all are announced.
    """

    url: str = ""
    n_failures: int = 0
    cut: int | None = None
    requests: list[str] = field(default_factory=list)


@contextmanager
def serve(folder: Path) -> Iterator[LocalServer]:
    """Serve the files of a folder on this machine."""
    state = LocalServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            file = folder / self.path.lstrip("/")
            if len(state.requests) <= state.n_failures:
                self.send_error(503)
            elif not file.is_file():
                self.send_error(404)
            else:
                content = file.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: state.cut])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        state.url = f"http://127.0.0.1:{server.server_port}/"
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
