"""`musvm export`: the decision function as an ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._files import check_readable, check_writable, read_model, writing
from musvm.cli._terminal import mistakes_in_one_line, print_facts, print_json


@app.command(epilog=examples("musvm export model.skops model.onnx"))
def export(
    model: options.Model,
    out: Annotated[Path, typer.Argument(metavar="ONNX", help="File to write.")],
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a model, with its preparation, as an ONNX graph.

    The graph computes in doubles. Its input is X, or numbers and categories where columns are
    categorical; its outputs are decision and label.

    Status: 0 done, 1 the model was refused or cannot be expressed, 2 wrong command line.
    """
    check_writable(out, force=force, option="ONNX")
    check_readable(model, what="model file")
    with mistakes_in_one_line():
        from musvm.io.onnx_export import to_onnx

        fitted, _ = read_model(model)
        graph = to_onnx(fitted)
        with writing(out) as file:
            file.write(graph.SerializeToString())
    facts = {
        "inputs": [value.name for value in graph.graph.input],
        "outputs": [value.name for value in graph.graph.output],
        "written": str(out),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts({k: v if isinstance(v, str) else ", ".join(v) for k, v in facts.items()})
