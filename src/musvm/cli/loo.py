"""`musvm loo`: the leave-one-out error of a model on the table it was trained on."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._files import layout_of, read_model, read_tables
from musvm.cli._terminal import fail, mistakes_in_one_line, print_facts, print_json
from musvm.cli.tables import classes_of


@app.command(
    epilog=examples(
        "musvm loo model.skops train.csv --universum others.csv",
        "musvm loo model.skops train.csv --method loo --json",
    )
)
def loo(
    model: options.Model,
    train: options.Train,
    universum: options.Universum = None,
    method: options.Method = options.DEFAULT_CRITERION,
    as_json: options.Json = False,
    format: options.FileFormat = None,
    no_header: options.NoHeader = False,
    reorder: options.Reorder = False,
    zero_based: options.ZeroBased = False,
) -> None:
    """Leave-one-out error: how often a training row is misclassified by a model without it.

    TRAIN and the universum are those of the fit, in the same order; others are recognised and
    refused.

    Status: 0 done, 1 the data or the model was refused, 2 wrong command line.
    """
    with mistakes_in_one_line():
        fitted, header = read_model(model)
        layout = layout_of(
            fitted,
            header,
            labelled=True,
            header=not no_header,
            reorder=reorder,
            zero_based=zero_based,
        )
        label = header.summary.get("universum_label")
        if not universum and label is None and (sources := _universum_files(header)):
            fail(f"{model}: was fitted with a universum; pass --universum {sources[0]}")
        tables = read_tables(train, universum or [], label, layout, format)
        result = _error(fitted, tables, method)
    facts = _facts(result, len(tables.train))
    if as_json:
        print_json({**facts, "predictions": _plain(result.predictions)})
    else:
        print_facts(_in_words(facts))


def _universum_files(header: Any) -> list[str]:
    """The universum tables of the fit, by the header's account."""
    stored = header.summary.get("universum")
    parts = stored if isinstance(stored, list) else []
    return [str(part.get("file")) for part in parts if isinstance(part, dict)]


def _error(fitted: Any, tables: Any, method: str) -> Any:
    from musvm import loo_error

    steps = fitted[:-1] if hasattr(fitted, "steps") and len(fitted.steps) > 1 else None
    transform = steps.transform if steps is not None else (lambda X: X)
    classifier = fitted[-1] if hasattr(fitted, "steps") else fitted
    classifier = getattr(classifier, "best_estimator_", classifier)
    universum = tuple(transform(table.X) for table in tables.universa) or None
    try:
        return loo_error(
            classifier,
            transform(tables.train.X),
            classes_of(tables.train.labels),
            universum=universum,
            method=method,
            verbose=int(sys.stderr.isatty()),
        )
    except ValueError as error:
        fail(f"{tables.train.path}: {' '.join(str(error).split())}")


def _facts(result: Any, n: int) -> dict[str, Any]:
    return {
        "method": result.method,
        "rows": n,
        "error": float(result.error),
        "support_vectors": {
            "inside their bounds": int(np.sum(result.types == 1)),
            "at their bound": int(np.sum(result.types == 2)),
        },
        "certified_without_solving": result.n_without_resolve,
    }


def _in_words(facts: dict[str, Any]) -> dict[str, str]:
    inside, bound = facts["support_vectors"].values()
    words = {
        "method": facts["method"],
        "error": f"{facts['error']:.2%} of {facts['rows']} rows",
        "support": f"{inside} inside their bounds, {bound} at their bound",
    }
    if facts["certified_without_solving"] is not None:
        words["certified"] = f"{facts['certified_without_solving']} rows without solving again"
    return words


def _plain(predictions: Any) -> Any:
    return None if predictions is None else np.asarray(predictions).tolist()
