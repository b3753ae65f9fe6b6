"""Malformed files by the thousand, and what the command line must do with each of them.

A case is a command, and one file for it: a valid one that was damaged, rearranged or written by
somebody hostile. Whatever the file, the command must either succeed or end with one line that
begins with "Error:" and names the file. It leaves no traceback, no control characters on the
terminal, no file that was not asked for, no half-written one, and runs nothing that the file
brings along. A damaged cell of a search must be told from a whole one: whatever is not what was
stored is computed again, with a warning.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import cli_tables
import model_files
from musvm.cli import app
from musvm.search.memory import CellStore

SENTINEL = "sentinel-of-a-hostile-file"
QUICK = ["--select", "2", "--C", "1", "--kernel", "linear"]

KINDS = ("csv", "libsvm", "npz", "parquet", "model", "cell")

# Cells, and values of features, that programs have tripped over.
CELLS = [
    *("", " ", "NA", "?", "nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "1e999", "0x1F"),
    *(
        "1_0",
        "1,5",
        "١",
        "٣.٥",
        "+1",
        "--1",
        "1e",
        ".",
        "-",
        "true",
        "None",
        "=1+1",
        "[red]a[/red]",
    ),
    *(
        '"',
        '""',
        '"open',
        "'",
        "\\",
        "%s",
        "{0}",
        "\x1b[31mred",
        "\x00",
        "\r",
        "a\nb",
        "é",
        "日本",
        "\u202e",
    ),
    *(
        "9" * 400,
        "x" * 3000,
        "\ufeff",
        "../../etc/passwd",
        "<script>alert(1)</script>",
        "os.system",
    ),
]


@dataclass(frozen=True)
class Case:
    """A command whose last file is malformed; `makes` is the file that it writes if it succeeds."""

    arguments: tuple[str, ...]
    name: str
    content: bytes = field(repr=False)
    makes: str | None = None


# ---------------------------------------------------------------------------------------------
# Damage to bytes


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """Bytes with up to three wounds."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(len(content) - 1, 0)))
        length = draw(st.integers(1, 40))
        wound = draw(st.sampled_from(["cut", "flip", "insert", "remove", "repeat", "replace"]))
        piece = content[start : start + length]
        if wound == "cut":
            content = content[:start]
        elif wound == "flip":
            flipped = bytes(byte ^ draw(st.integers(1, 255)) for byte in piece[:4])
            content = content[:start] + flipped + content[start + len(flipped) :]
        elif wound == "insert":
            content = content[:start] + draw(st.binary(max_size=20)) + content[start:]
        elif wound == "remove":
            content = content[:start] + content[start + length :]
        elif wound == "repeat":
            content = content[:start] + piece * draw(st.integers(2, 5)) + content[start:]
        else:
            content = content[:start] + draw(st.sampled_from(CELLS)).encode() + content[start:]
    return content


# ---------------------------------------------------------------------------------------------
# Text


@st.composite
def rearranged_lines(draw: Any, text: str, separator: str) -> bytes:
    """Text whose cells or lines were replaced, moved, lost or doubled."""
    rows = [line.split(separator) for line in text.splitlines()]
    for _ in range(draw(st.integers(1, 4))):
        if not rows:
            break
        row = rows[draw(st.integers(0, min(len(rows), 6) - 1))]
        position = draw(st.integers(0, max(len(row) - 1, 0)))
        change = draw(
            st.sampled_from(
                [
                    "cell",
                    "cell",
                    "cell",
                    "lose",
                    "double",
                    "short",
                    "long",
                    "blank",
                    "column",
                    "header",
                ]
            )
        )
        if change == "cell" and row:
            row[position] = draw(st.sampled_from(CELLS) | st.text(max_size=12))
        elif change == "lose":
            rows.remove(row)
        elif change == "double":
            rows.append(list(row))
        elif change == "short" and row:
            del row[position]
        elif change == "long":
            row.append(draw(st.sampled_from(CELLS)))
        elif change == "blank":
            rows.insert(position, [])
        elif change == "column":
            value = draw(st.sampled_from(CELLS))
            for other in rows[1:]:
                if position < len(other):
                    other[position] = value
        else:
            rows = rows[draw(st.integers(0, len(rows))) :]
    end = draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
    between = draw(st.sampled_from([separator] * 40 + [",", ";", "\t", " ", "|"]))
    encoding = draw(st.sampled_from(["utf-8"] * 20 + ["utf-16", "latin-1", "utf-8-sig"]))
    return end.join(between.join(row) for row in rows).encode(encoding, errors="replace")


def _text_files(text: str, separator: str) -> Any:
    return st.one_of(
        rearranged_lines(text, separator), damaged(text.encode()), st.binary(max_size=200)
    )


# ---------------------------------------------------------------------------------------------
# NPZ


@st.composite
def npz_files(draw: Any, X: np.ndarray, y: np.ndarray) -> bytes:
    """Arrays of the wrong kind, headers that lie, archives that are broken."""
    kinds = [
        X,
        y,
        X.astype(np.float32),
        X[:, :2],
        X[:0],
        X[0],
        X * np.nan,
        X * 1e307,
        np.full_like(X, np.inf),
        X.astype("U8"),
        X.astype(complex),
        X.astype("M8[s]"),
        np.zeros(3, dtype=[("a", "f8")]),
        np.array(5.0),
        np.zeros((2, 2, 2)),
    ]
    parts: dict[str, bytes] = {}
    for name in (
        "X",
        "y",
        *draw(st.lists(st.sampled_from(["feature_names", "Z", "é"]), max_size=1)),
    ):
        choice = draw(st.integers(0, 9))
        if choice == 0:
            continue
        if choice == 1:
            shape = draw(
                st.sampled_from([(1 << 40,), (1 << 20, 1 << 30), (-1, 4), (0,), (10**25,)])
            )
            parts[f"{name}.npy"] = model_files.npy(shape, draw(st.binary(max_size=64)))
        elif choice == 2:
            parts[f"{name}.npy"] = draw(st.binary(max_size=64))
        elif choice == 3:
            # An array of objects is a pickle; this one would create the sentinel.
            parts[f"{name}.npy"] = pickled_array()
        else:
            value = (
                X
                if name == "X" and choice > 6
                else y
                if choice > 6
                else draw(st.sampled_from(kinds))
            )
            buffer = io.BytesIO()
            np.save(buffer, value, allow_pickle=False)
            parts[f"{name}.npy"] = buffer.getvalue()
    compression = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    made = model_files.archive(parts, compression)
    return draw(damaged(made)) if draw(st.booleans()) else made


def pickled_array() -> bytes:
    """A .npy file of objects whose pickle would run a command."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|O", "fortran_order": False, "shape": (1,)}
    )
    return header.getvalue() + b"cos\nsystem\n(S'touch " + SENTINEL.encode() + b"'\ntR."


# ---------------------------------------------------------------------------------------------
# Parquet


@st.composite
def parquet_files(draw: Any, frame: Any) -> bytes:
    """Columns of the wrong kind, lost or renamed; archives that are broken."""
    frame = frame.copy()
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(list(frame.columns)))
        change = draw(st.sampled_from(["cells", "lose", "rename", "values", "empty"]))
        if change == "cells":
            frame[name] = draw(st.sampled_from(CELLS))
        elif change == "values":
            odd = [np.nan, np.inf, 1e308, True, 1 + 2j, np.datetime64("2020-01-01"), b"bytes", None]
            frame[name] = [draw(st.sampled_from(odd[:4] + odd[5:]))] * len(frame)
        elif change == "rename":
            frame = frame.rename(columns={name: draw(st.sampled_from(CELLS))})
        elif change == "lose" and frame.shape[1] > 1:
            frame = frame.drop(columns=name)
        else:
            frame = frame.iloc[:0]
        if not frame.columns.is_unique:
            break
    buffer = io.BytesIO()
    if frame.columns.is_unique:
        frame.to_parquet(buffer)
    made = buffer.getvalue()
    return draw(damaged(made)) if draw(st.booleans()) else made


# ---------------------------------------------------------------------------------------------
# Models


@st.composite
def model_contents(draw: Any, content: bytes) -> bytes:
    """A model file with damaged bytes, a changed schema or header, or foreign arrays."""
    how = draw(
        st.sampled_from(["bytes", "schema", "schema", "hostile", "hostile", "header", "array"])
    )
    if how == "bytes":
        return draw(damaged(content))
    if how == "array":
        parts = model_files.entries(content)
        name = draw(st.sampled_from(sorted(name for name in parts if ".np" in name)))
        shape = draw(st.sampled_from([(1 << 40,), (2, 2), (3,), (), (-5,), (10**25,)]))
        foreign = model_files.npy(shape, draw(st.binary(max_size=40)))
        parts[name] = draw(
            st.sampled_from([foreign, pickled_array(), b"", damaged_entry(parts[name])])
        )
        return model_files.archive(parts)
    if how == "header":
        return model_files.with_json(content, "musvm.json", lambda header: _changed(draw, header))
    schema = json.loads(model_files.entries(content)["schema.json"])
    nodes = list(model_files.nodes(schema))
    for _ in range(draw(st.integers(1, 3))):
        node = nodes[draw(st.integers(0, len(nodes) - 1))]
        if how == "hostile":
            hostile = model_files.hostile_nodes(SENTINEL)
            name = draw(st.sampled_from(sorted(hostile)))
            node |= hostile[name] if draw(st.booleans()) else {
                "__module__": name.rpartition(".")[0], "__class__": name.rpartition(".")[2]
            }  # fmt: skip
        else:
            key = draw(st.sampled_from(sorted(node)))
            others = [json.dumps(other.get(key)) for other in nodes[:40]]
            node[key] = draw(_JSON | st.sampled_from(others).map(json.loads))
    return model_files.with_json(content, "schema.json", lambda _: schema)


def damaged_entry(data: bytes) -> bytes:
    """The same number of bytes, the other way round."""
    return data[::-1]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)


def _changed(draw: Any, header: dict[str, Any]) -> Any:
    place = header
    while draw(st.booleans()):
        inner = [value for value in place.values() if isinstance(value, dict) and value]
        if not inner:
            break
        place = draw(st.sampled_from(inner))
    place[draw(st.sampled_from(sorted(place)))] = draw(_JSON)
    return header


# ---------------------------------------------------------------------------------------------
# Cases


@dataclass(frozen=True)
class Workplace:
    """A folder with valid tables and a model, and the contents to be damaged."""

    folder: Path
    csv: str
    libsvm: str
    frame: Any
    X: np.ndarray
    y: np.ndarray
    model: bytes
    cell: bytes

    @classmethod
    def make(cls, folder: Path) -> Workplace:
        cli_tables.write_tables(folder)
        run("fit", "train.csv", "--universum", "others.csv", *QUICK)
        frame = cli_tables.flowers().iloc[::5]
        X = frame.iloc[:, :4].fillna(5.0).to_numpy()
        y = np.unique(frame["species"], return_inverse=True)[1]
        np.savez(folder / "numbers.npz", X=X, y=y)
        run("fit", "numbers.npz", "--out", "numbers.skops", *QUICK)
        lines = [
            f"{label} " + " ".join(f"{k + 1}:{value}" for k, value in enumerate(row))
            for label, row in zip(y.tolist(), X.tolist(), strict=True)
        ]
        (folder / "numbers.libsvm").write_text("\n".join(lines))
        run("fit", "numbers.libsvm", "--out", "sparse.skops", *QUICK)
        model = (folder / "model.skops").read_bytes()
        CellStore(folder / "cells").save(KEY, CELL)
        cell = (folder / "cells" / f"{KEY}.cell").read_bytes()
        text = frame.to_csv(index=False)
        return cls(folder, text, "\n".join(lines), frame, X, y, model, cell)

    def outcome(self, kind: str, draw: Any) -> tuple[str, int]:
        """What became of a case of one kind, and a hash of the case."""
        if kind == "cell":
            content = draw(damaged(self.cell))
            return check_cell(content, self.folder / "cells"), hash(content)
        case = draw(self.cases(kind))
        return check(case, self.folder), hash((case.arguments, case.content))

    def cases(self, kind: str) -> Any:
        """A strategy for cases of one kind of file that the commands read."""
        if kind == "model":
            commands = [("inspect", "case.skops"), ("predict", "case.skops", "new.csv", "--scores")]
            contents = model_contents(self.model)
            name = "case.skops"
        else:
            model = {"libsvm": "sparse", "npz": "numbers"}.get(kind, "model")
            table = {"libsvm": "numbers.libsvm", "npz": "numbers.npz"}.get(kind, "train.csv")
            name = f"case.{kind}"
            commands = [
                ("predict", f"{model}.skops", name, "--scores", "--out", "made"),
                ("predict", f"{model}.skops", name, "--reject"),
                ("fit", name, "--out", "made", *QUICK),
                ("fit", table, "--universum", name, "--out", "made", *QUICK),
            ]
            contents = {
                "csv": _text_files(self.csv, ","),
                "libsvm": _text_files(self.libsvm, " "),
                "npz": npz_files(self.X, self.y),
                "parquet": parquet_files(self.frame),
            }[kind]
        return st.builds(
            lambda arguments, content: Case(
                arguments, name, content, "made" if "made" in arguments else None
            ),
            st.sampled_from(commands),
            contents,
        )


KEY = "0123456789abcdef"
CELL = {"alpha": np.linspace(-1.0, 1.0, 60).reshape(20, 3), "gap": 1e-6, "converged": True}


def check_cell(content: bytes, folder: Path) -> str:
    """Read a cell with these bytes: it is what was stored, or none, with a word about it."""
    (folder / f"{KEY}.cell").write_bytes(content)
    with warnings.catch_warnings(record=True) as caught, model_files.no_code_runs():
        warnings.simplefilter("always")
        found = CellStore(folder).load(KEY)
    if found is None:
        assert ["computed again" in str(w.message) for w in caught] == [True]
        return "refused"
    assert not caught
    assert found.keys() == CELL.keys()
    assert all(np.array_equal(found[name], value) for name, value in CELL.items())
    return "accepted"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result


def check(case: Case, folder: Path) -> str:
    """Run a case in its folder, which must be the working one; return "accepted" or "refused"."""
    before = {path.name for path in folder.iterdir()} | {".hypothesis"}
    (folder / case.name).write_bytes(case.content)
    try:
        with model_files.no_code_runs():
            result = CliRunner().invoke(app, list(case.arguments))
        made = {path.name for path in folder.iterdir()} - before - {case.name}
        _judge(case, result, made)
    finally:
        for name in {path.name for path in folder.iterdir()} - before:
            (folder / name).unlink()
    return "accepted" if result.exit_code == 0 else "refused"


def _judge(case: Case, result: Result, made: set[str]) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(
        result.exception
    )
    assert "Traceback" not in result.output
    assert SENTINEL not in made, "code from the file was run"
    terminal = result.stderr.replace("\n", "")
    assert terminal.isprintable(), f"control characters on the terminal: {terminal!r}"
    if case.arguments[0] == "inspect":
        assert result.stdout.replace("\n", "").isprintable()
    if result.exit_code == 0:
        assert made == ({case.makes} if case.makes else set())
        return
    assert result.exit_code == 1, result.stderr
    assert result.stdout == "", "partial output"
    assert not made, f"files were left behind: {made}"
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert sum(line.startswith("Error:") for line in result.stderr.splitlines()) == 1
    assert len(last) < 1500, "an error is one line to read, not a dump"
