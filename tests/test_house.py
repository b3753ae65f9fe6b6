"""The house: rooms import only rooms below them, and nobody reads what is another's own.

Each check is also shown to fail on a planted offence.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"

# import-linter looks at the sources, whatever is installed and in whichever way.
LINT = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
sys.path.insert(0, sys.argv[1])
from importlinter import cli
sys.exit(cli.lint_imports(config_filename=sys.argv[2], cache_dir=None))
"""


def lint_imports(sources: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    command = [sys.executable, "-c", LINT, str(sources), str(ROOT / "pyproject.toml")]
    return subprocess.run(command, capture_output=True, text=True, cwd=sources)


def copy_of_the_sources(folder: Path) -> Path:
    shutil.copytree(SOURCES / "musvm", folder / "musvm", ignore=shutil.ignore_patterns("*.so"))
    return folder


def test_rooms_import_only_rooms_below_them():
    found = lint_imports(SOURCES)
    assert found.returncode == 0, found.stdout


def test_an_import_of_a_room_above_is_found(tmp_path):
    sources = copy_of_the_sources(tmp_path)
    with (sources / "musvm" / "dual" / "problem.py").open("a") as file:
        file.write("\nfrom musvm.estimator import UniversumSVC as _planted\n")
    found = lint_imports(sources)
    assert found.returncode != 0
    assert "musvm.dual.problem -> musvm.estimator" in found.stdout


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def private_imports(path: Path, folder: Path) -> Iterator[str]:
    """Imports of private names of a module, and of private modules of another package."""
    own_package = path.relative_to(folder).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("musvm"):
            continue
        module = tuple(node.module.split("."))
        private = any(map(is_private, module)) and not is_shared(module)
        if private and module[:-1] != own_package:
            yield f"{path.relative_to(folder)}:{node.lineno} {node.module}"
        for alias in node.names:
            place = folder / Path(*module, alias.name)
            is_module = place.with_suffix(".py").exists() or place.is_dir()
            if is_private(alias.name) and not is_module:
                yield f"{path.relative_to(folder)}:{node.lineno} {node.module}.{alias.name}"


def is_shared(module: tuple[str, ...]) -> bool:
    """Whether a module is of the whole package: private to its users, public to its rooms."""
    below = module[1:]
    of_all_rooms = is_private(below[0]) and not any(map(is_private, below[1:]))
    return of_all_rooms or is_compiled(module)


def is_compiled(module: tuple[str, ...]) -> bool:
    """Compiled code is named with an underscore, and shared by rooms above its own."""
    return (SOURCES / Path(*module)).with_suffix(".pyx").exists()


def offences(folder: Path) -> list[str]:
    return sorted(
        offence for path in folder.rglob("*.py") for offence in private_imports(path, folder)
    )


def test_nobody_imports_what_is_private_to_another_room():
    assert offences(SOURCES) == []


def test_a_private_import_is_found(tmp_path):
    room = copy_of_the_sources(tmp_path) / "musvm" / "report" / "planted.py"
    room.write_text("from musvm.display import _bin_edges\nfrom musvm.cli._files import x\n")
    found = offences(tmp_path)
    assert any("musvm.display._bin_edges" in line for line in found)
    assert any("musvm.cli._files" in line for line in found)


def private_reads(folder: Path) -> subprocess.CompletedProcess[str]:
    """Ruff's rule on reading another object's underscore names."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "SLF", "--config"]
    return subprocess.run(
        [*command, str(ROOT / "pyproject.toml"), str(folder / "musvm")],
        capture_output=True,
        text=True,
    )


def test_nobody_reads_underscore_names_of_another_object():
    found = private_reads(SOURCES)
    assert found.returncode == 0, found.stdout


def test_a_read_of_an_underscore_name_is_found(tmp_path):
    room = copy_of_the_sources(tmp_path) / "musvm" / "report" / "planted.py"
    room.write_text("def peek(model):\n    return model._alpha\n")
    found = private_reads(tmp_path)
    assert found.returncode != 0
    assert "_alpha" in found.stdout
