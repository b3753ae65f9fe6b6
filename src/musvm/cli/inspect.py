"""`musvm inspect`: what a model file contains."""

from __future__ import annotations

from typing import Any

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._files import read_model
from musvm.cli._terminal import mistakes_in_one_line, print_facts, print_json


@app.command(
    epilog=examples("musvm inspect model.skops", "musvm inspect model.skops --json | jq .summary")
)
def inspect(model: options.Model, as_json: options.Json = False) -> None:
    """Show what a model file says about itself, after checking that it is safe and whole.

    Only the types of a closed list are loaded; a file that names any other is refused with their
    names, and nothing in it is run.

    Status: 0 the file is sound, 1 it was refused, 2 wrong command line.
    """
    with mistakes_in_one_line():
        fitted, header = read_model(model)
    if as_json:
        print_json(
            {
                "format_version": header.format_version,
                "versions": header.versions,
                "summary": header.summary,
            }
        )
        return
    print_facts(_in_words(fitted, header))


def _in_words(fitted: Any, header: Any) -> dict[str, str]:
    summary = header.summary
    facts = {
        "file": f"format {header.format_version}, written with "
        + ", ".join(f"{name} {number}" for name, number in header.versions.items()),
        "model": _steps(fitted),
    }
    for name in ("classes", "n_features", "feature_names", "target", "training", "universum",
                 "search", "comparison", "parameters", "support_vectors",
                 "universum_support_vectors", "objective", "relative_gap", "converged",
                 "rejection"):  # fmt: skip
        if summary.get(name) not in (None, [], {}):
            facts[name.replace("_", " ")] = _shown(summary[name])
    return facts


def _steps(fitted: Any) -> str:
    steps = [step for _, step in fitted.steps] if hasattr(fitted, "steps") else [fitted]
    return " > ".join(type(step).__name__ for step in steps)


def _shown(value: Any) -> str:
    """A value of the summary on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        shown = ", ".join(_shown(entry) for entry in value[:10])
        return shown if len(value) <= 10 else f"{shown} and {len(value) - 10} more"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
