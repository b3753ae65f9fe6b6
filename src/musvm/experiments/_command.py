"""What the experiments that write a page share: their options, and finding and writing files."""

from __future__ import annotations

import argparse
from pathlib import Path

from musvm._files import replacing


def read_options(description: str, partitions: int) -> argparse.Namespace:
    """`data` and `out`, existing folders, and `partitions`, from the command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the page to")
    parser.add_argument("--partitions", type=int, default=partitions, help="default: %(default)s")
    options = parser.parse_args()
    if options.partitions < 2:
        parser.error("--partitions must be at least 2: the page gives standard errors")
    if not options.data.is_dir():
        parser.error(f"--data: {options.data} is not a folder")
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def find(folder: Path, pattern: str) -> Path:
    """The first file or folder that matches."""
    found = sorted(folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"{folder}: there is no {pattern}")
    return found[0]


def write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
