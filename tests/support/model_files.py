"""Model files to be refused: valid ones, taken apart and put together again with a change."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def entries(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return buffer.getvalue()


def with_json(content: bytes, entry: str, change: Callable[[Any], Any]) -> bytes:
    """The file with its schema or header changed: `change` alters it in place or returns one."""
    parts = entries(content)
    document = json.loads(parts[entry])
    changed = change(document)
    parts[entry] = json.dumps(document if changed is None else changed).encode()
    return archive(parts)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every dictionary of a schema that names a type."""
    if isinstance(schema, dict):
        if isinstance(schema.get("__class__"), str):
            yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def text(value: Any) -> dict[str, Any]:
    """A node that stands for a number, a string or a list of them."""
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
        "is_json": True,
        "__id__": 900_001,
    }


def container(kind: str, loader: str, content: Any) -> dict[str, Any]:
    return {
        "__class__": kind,
        "__module__": "builtins",
        "__loader__": loader,
        "content": content,
        "__id__": 900_002,
    }


def hostile_nodes(sentinel: str) -> dict[str, dict[str, Any]]:
    """Nodes that would touch the file `sentinel`, or run other code, if they were constructed."""
    arguments = container("tuple", "TupleNode", [text(sentinel)])
    system = {"__class__": "system", "__module__": "posix", "__loader__": "FunctionNode"}
    reduced = container("tuple", "TupleNode", [text(f"touch {sentinel}")])
    return {
        "os.system": {
            **system,
            "__module__": "os",
        },
        "pathlib.Path": {
            "__class__": "Path",
            "__module__": "pathlib",
            "__loader__": "ConstructorFromReduceNode",
            "content": arguments,
        },
        "functools.partial": {
            "__class__": "partial",
            "__module__": "functools",
            "__loader__": "PartialNode",
            "content": {
                "func": system,
                "args": reduced,
                "kwds": {**container("dict", "DictNode", {}), "key_types": _no_types()},
                "namespace": text(None),
            },
        },
        "operator.methodcaller": {
            "__class__": "methodcaller",
            "__module__": "operator",
            "__loader__": "OperatorFuncNode",
            "attrs": arguments,
        },
        "subprocess.Popen": {
            "__class__": "Popen",
            "__module__": "subprocess",
            "__loader__": "ObjectNode",
            "content": arguments,
        },
        "builtins.eval": {
            "__class__": "eval",
            "__module__": "builtins",
            "__loader__": "TypeNode",
        },
        "sklearn.tree._tree.Tree": {
            "__class__": "Tree",
            "__module__": "sklearn.tree._tree",
            "__loader__": "TreeNode",
            "__reduce__": {"args": arguments},
            "content": text(None),
        },
        # skops trusts this one by itself; our list is shorter.
        "sklearn.linear_model._logistic.LogisticRegression": {
            "__class__": "LogisticRegression",
            "__module__": "sklearn.linear_model._logistic",
            "__loader__": "ObjectNode",
            "content": text(None),
        },
        "numpy.load": {"__class__": "load", "__module__": "numpy", "__loader__": "FunctionNode"},
    }


def _no_types() -> dict[str, Any]:
    return container("list", "ListNode", [])


def npy(shape: tuple[int, ...], data: bytes = b"") -> bytes:
    """An array of doubles whose header may promise more than there is."""
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + data


_watching: list[list[str]] = []
_FORBIDDEN = ("os.system", "os.exec", "os.spawn", "os.posix_spawn", "subprocess.Popen", "pickle.")
_installed = False


def _hook(event: str, arguments: Any) -> None:
    if _watching and event.startswith(_FORBIDDEN):
        _watching[-1].append(f"{event} {arguments}")


@contextmanager
def no_code_runs() -> Iterator[None]:
    """Fail if the block starts a process or opens a pickle, by Python's own audit events."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    events: list[str] = []
    _watching.append(events)
    try:
        yield
    finally:
        _watching.remove(events)
    assert not events, f"code was run: {events}"
