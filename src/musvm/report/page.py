"""From the report's content to one HTML file that needs nothing else.

The page holds Plotly, its own script and its style. A content security policy names the hashes of
the two scripts and allows nothing to be loaded: should a name ever get past the escaping, it would
still not run, and the page cannot reach the network.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Any

from musvm._files import replacing

INSTALL = "The report needs Plotly and Jinja: pip install 'musvm[report]'"


def render(content: dict[str, Any]) -> str:
    """The page as text."""
    try:
        from jinja2 import Environment, StrictUndefined
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise ImportError(INSTALL) from error
    plotly, script = get_plotlyjs(), _resource("page.js")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(_resource("page.html")).render(
        content,
        policy=_policy([plotly, script]),
        plotly=plotly,
        script=script,
        style=_resource("page.css"),
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """Only these scripts run, and nothing is loaded; Plotly sets styles and makes images."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def require_writable(path: Path, *, overwrite: bool) -> None:
    """Refuse a bad path before any work is done."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory: give the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no directory {path.parent}.")
    if path.exists() and not overwrite:
        raise _exists(path)


def write_text(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a file that is there whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
        if not overwrite and path.exists():  # it was not there when the work began
            raise _exists(path)


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(f"{path} exists already: pass overwrite=True to replace it.")
