"""`musvm loo`: the leave-one-out error of a model on the table it was trained on."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._files import (
    check_readable,
    classifier_and_data,
    read_model,
    read_training,
    refuse_data,
)
from musvm.cli._terminal import mistakes_in_one_line, print_facts, print_json


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
    """Leave out every training row once, and count the errors.

    An error is a row that the model without it would misclassify. TRAIN and the universum are
    those of the fit, in the same order; others are recognised and refused.

    Status: 0 done, 1 the data or the model was refused, 2 wrong command line.
    """
    check_readable(model, what="model file")
    check_readable(train, *(universum or []))
    with mistakes_in_one_line():
        fitted, header = read_model(model)
        tables = read_training(
            model, fitted, header, train, universum, format,
            header=not no_header, reorder=reorder, zero_based=zero_based,
        )  # fmt: skip
        result = _error(fitted, tables, method)
    facts = _facts(result, len(tables.train))
    if as_json:
        print_json({**facts, "predictions": _plain(result.predictions)})
    else:
        print_facts(_in_words(facts))


def _error(fitted: Any, tables: Any, method: str) -> Any:
    from musvm import loo_error

    classifier, X, y, universum = classifier_and_data(fitted, tables)
    try:
        return loo_error(
            classifier,
            X,
            y,
            universum=universum,
            method=method,
            verbose=int(sys.stderr.isatty()),
        )
    except ValueError as error:
        refuse_data(error, tables)


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
