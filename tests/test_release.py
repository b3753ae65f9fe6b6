"""A release: one version, and everything in the installed package that a user needs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, files, version
from importlib.resources import files as resources
from pathlib import Path

import musvm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_stated_in_one_place():
    (stated,) = re.findall(
        r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert musvm.__version__ == version("musvm") == stated
    assert "version" in PROJECT["project"]["dynamic"]
    others = [
        path.relative_to(ROOT)
        for path in [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py"), ROOT / "docs/conf.py"]
        if stated in path.read_text(encoding="utf-8")
    ]
    assert not others, "these state the version once more"


def test_type_checkers_may_use_the_hints():
    assert resources("musvm").joinpath("py.typed").is_file()


def test_the_build_leaves_out_the_sources_of_compiled_modules():
    package = ROOT / "src" / "musvm"
    sources = [
        path for end in ("*.pyx", "*.pxd", "*.h", "meson.build") for path in package.rglob(end)
    ]
    listed = re.search(
        r"exclude_files: \[(.*?)\]", (ROOT / "meson.build").read_text(encoding="utf-8"), re.DOTALL
    ).group(1)
    assert set(re.findall(r"'(.*?)'", listed)) == {
        path.relative_to(package).as_posix() for path in sources
    }


def test_sources_of_compiled_modules_are_not_installed():
    installed = [file.name for file in files("musvm") or ()]
    assert not [
        name for name in installed if name.endswith((".pyx", ".pxd", ".c", ".h", "meson.build"))
    ]


def test_the_command_is_installed():
    (command,) = entry_points(group="console_scripts", name="musvm")
    assert callable(command.load())


WITHOUT_EXTRAS = """
import sys

class Absent:
    names = "matplotlib skops typer rich pandas pooch skimage plotly jinja2 onnx pyarrow".split()

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import musvm, musvm.datasets, musvm.report, musvm.universum
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
print(musvm.UniversumSVC().fit(X[:100], y[:100], universum=X[100:]).predict(X).shape)
"""


def test_the_package_can_be_imported_without_the_extras():
    """What the core needs is declared, and nothing else is imported with it."""
    declared = {re.split(r"[<>=]", name)[0] for name in PROJECT["project"]["dependencies"]}
    assert declared == {
        "numpy",
        "scipy",
        "scikit-learn",
        "joblib",
        "threadpoolctl",
        "array-api-compat",
    }
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False
    )
    assert result.stdout == "(150,)\n", result.stderr
