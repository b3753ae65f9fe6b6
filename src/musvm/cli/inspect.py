"""`musvm inspect`: what a model file contains."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._facts import in_words, model_in_words
from musvm.cli._files import (
    Tables,
    check_readable,
    classifier_and_data,
    read_model,
    read_training,
    refuse_data,
)
from musvm.cli._terminal import mistakes_in_one_line, print_facts, print_json


@app.command(
    epilog=examples(
        "musvm inspect model.skops",
        "musvm inspect model.skops --json | jq .summary",
        "musvm inspect model.skops --verify train.csv --universum others.csv",
    )
)
def inspect(
    context: typer.Context,
    model: options.Model,
    verify: Annotated[
        str | None,
        typer.Option(metavar="TRAIN", help="Recompute the certificate from the table of the fit."),
    ] = None,
    universum: options.Universum = None,
    as_json: options.Json = False,
    format: options.FileFormat = None,
    no_header: options.NoHeader = False,
    reorder: options.Reorder = False,
    zero_based: options.ZeroBased = False,
) -> None:
    """Show what a model file says about itself, once checked.

    It must be safe and whole: only the types of a closed list are loaded; a file that names any
    other is refused with their names, and nothing in it is run.

    With --verify, objectives, feasibility and duality gap are recomputed from the tables of the
    fit, in extended precision, and held against what the model claims.

    Status: 0 the file is sound, 1 it was refused or its certificate is wrong, 2 wrong command line.
    """
    tables_only = ("universum", "format", "no_header", "reorder", "zero_based")
    if verify is None and (idle := options.idle_options(context, dict.fromkeys(tables_only, True))):
        raise typer.BadParameter("has no effect without --verify TRAIN", param_hint=idle[0])
    check_readable(model, what="model file")
    check_readable(*([] if verify is None else [verify]), *(universum or []))
    with mistakes_in_one_line():
        fitted, header = read_model(model)
        found = None
        if verify is not None:
            tables = read_training(
                model, fitted, header, verify, universum, format,
                header=not no_header, reorder=reorder, zero_based=zero_based,
            )  # fmt: skip
            found = _verified(fitted, tables)
    if as_json:
        document = {
            "format_version": header.format_version,
            "versions": header.versions,
            "summary": header.summary,
        }
        print_json(document if found is None else {**document, "verified": _figures(found)})
    else:
        words, verdict = _in_words(fitted, header), _verdict(found)
        print_facts({**{name: words[name] for name in words if name not in verdict}, **verdict})
    if found is not None and not found.holds:
        raise typer.Exit(1)


def _verified(fitted: Any, tables: Tables) -> Any:
    from musvm import verify

    classifier, X, y, universum = classifier_and_data(fitted, tables)
    try:
        return verify(classifier, X, y, universum=universum)
    except ValueError as error:
        refuse_data(error, tables)


def _figures(found: Any) -> dict[str, Any]:
    return {**asdict(found), "feasible": found.feasible, "holds": found.holds}


def _verdict(found: Any) -> dict[str, str]:
    if found is None:
        return {}
    return {
        "recomputed": f"objective {found.primal:.6g}, relative gap {found.relative_gap:.1e}, "
        f"infeasibility {found.infeasibility:.1e}",
        "certificate": "holds" if found.holds else "WRONG",
    }


def _in_words(fitted: Any, header: Any) -> dict[str, str]:
    summary = header.summary
    facts = {
        "file": f"format {header.format_version}, written with "
        + ", ".join(f"{name} {number}" for name, number in header.versions.items()),
        "model": _steps(fitted),
        **{name: _shown(summary[name]) for name in ("classes", "target") if summary.get(name)},
    }
    names = summary.get("feature_names")
    if n_features := summary.get("n_features"):
        facts["features"] = f"{n_features}: {_shown(names)}" if names else str(n_features)
    try:
        told = model_in_words(summary)
        if "training" in summary:
            told |= in_words(summary)
    # The header is whatever somebody has written; what cannot be put in words is shown as it is.
    except (AttributeError, KeyError, TypeError, ValueError):
        told = {name: _shown(summary[name]) for name in summary if name not in facts}
    return {**facts, **told}


def _steps(fitted: Any) -> str:
    steps = [step for _, step in fitted.steps] if hasattr(fitted, "steps") else [fitted]
    return " > ".join(type(step).__name__ for step in steps)


def _shown(value: Any) -> str:
    """A value of the summary on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        shown = ", ".join(_shown(entry) for entry in value[:6])
        return shown if len(value) <= 6 else f"{shown} and {len(value) - 6} more"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
