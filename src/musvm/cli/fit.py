"""`musvm fit`: from tables to a tuned model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import typer

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._facts import in_words
from musvm.cli._files import (
    Tables,
    check_readable,
    check_writable,
    read_tables,
    training_layout,
    writing,
)
from musvm.cli._terminal import (
    fail,
    mistakes_in_one_line,
    note,
    print_facts,
    print_json,
    printable,
    shortened,
)
from musvm.cli._training import (
    Prepared,
    nested_error,
    prepare,
    rejection_threshold,
    search,
)

AUTO = "auto"


@app.command(
    # More tables than one are refused below, with the option that they are meant for.
    context_settings={"allow_extra_args": True},
    epilog=examples(
        "musvm fit train.csv --universum others.csv",
        "musvm fit train.csv --target species --universum others.csv --report report.html",
        "musvm fit digits.libsvm --universum-label 10 --kernel linear --select 5",
        "cat train.csv | musvm fit - --kernel rbf --gamma scale,0.1,1 --out model.skops --json",
    ),
)
def fit(
    context: typer.Context,
    train: options.Train,
    target: options.Target = None,
    universum: options.Universum = None,
    universum_label: options.UniversumLabel = None,
    select: options.Select = options.DEFAULT_CRITERION,
    kernel: options.KernelName = options.Kernel.rbf,
    C: options.Cs = AUTO,
    gamma: options.Gammas = "scale",
    degree: options.Degree = 3,
    coef0: options.Coef0 = 0.0,
    delta: options.Deltas = "0,0.1,0.3",
    weight: options.Weights = AUTO,
    loss: options.UniversumLoss = options.Loss.sum,
    scale: options.Scale = True,
    accept: options.Accept = 0.95,
    nested: options.Nested = 0,
    memory: options.Memory = None,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    out: options.ModelOut = Path("model.skops"),
    report: options.ReportOut = None,
    force: options.Force = False,
    as_json: options.Json = False,
    format: options.FileFormat = None,
    categorical: options.Categorical = None,
    ignore: options.Ignore = None,
    no_header: options.NoHeader = False,
    reorder: options.Reorder = False,
    zero_based: options.ZeroBased = False,
) -> None:
    """Choose and fit a model, with a universum if there is one.

    C and gamma are chosen for the plain SVM, then C, delta and C*/C for the SVM with universum,
    and the two are compared on rows that are left out. The preparation of the columns is part of
    the model: missing numbers become the median and are standardised; missing categories become
    the most frequent one and are one-hot encoded. It is fitted to the training rows and applied
    to the universum as well.

    Tables are CSV (.csv, .tsv), Parquet (.parquet), NPZ with arrays X and y (.npz) and LIBSVM text
    (.libsvm, .svm), each also compressed by gzip (.csv.gz). Columns are matched by name.

    Status: 0 done, 1 the data or a file was refused, 2 wrong command line.
    """
    _refuse_more_tables(context.args)
    parameters = {
        **_grids(C, gamma, delta, weight),
        "kernel": kernel.value,
        "degree": degree,
        "coef0": coef0,
        "universum_loss": loss.value,
        "criterion": options.criterion(select),
        "n_jobs": jobs,
        "memory": memory,
    }
    layout = training_layout(
        target, categorical, ignore, no_header=no_header, reorder=reorder, zero_based=zero_based
    )
    inputs = [train, *(universum or [])]
    check_readable(*inputs)
    _check_outputs(out, report, force, inputs)
    _note_idle(context, kernel.value, bool(universum) or universum_label is not None)
    with mistakes_in_one_line():
        tables = read_tables(train, universum or [], universum_label, layout, format)
        data = prepare(tables.train, tables.universa, scale=scale)
        facts = _fitted_and_written(tables, data, parameters, accept, nested, out, report)
    _tell(facts, out, report, as_json=as_json)


def _fitted_and_written(
    tables: Tables,
    data: Prepared,
    parameters: dict[str, Any],
    accept: float,
    nested: int,
    out: Path,
    report: Path | None,
) -> dict[str, Any]:
    """What is told of the search, whose model and report are written."""
    from musvm._input.folds import told_already

    # What the fits of the search and the report would tell of the universa, `prepare` has told.
    with told_already():
        found = search(data, parameters)
        facts = {
            **_facts(tables, data, found),
            "rejection": _rejection(data, found, accept),
            "nested": nested_error(data, parameters, nested) if nested else None,
            "universum_label": tables.universum_label,
        }
        _write_model(found, data, facts, out)
        if report is not None:
            _write_report(found, data, report, tables.train.path)
    return facts


def _refuse_more_tables(more: Sequence[str]) -> None:
    if more:
        meant = " ".join(f"--universum {printable(shortened(path))}" for path in more)
        raise typer.BadParameter(
            f"one table holds all classes; pass points of none of them as {meant}",
            param_hint="TRAIN",
        )


def _Cs(values: str) -> list[float | str]:
    """What `--C` stands for; `auto` stands alone."""
    if AUTO in map(str.strip, values.split(",")):
        raise typer.BadParameter("auto is given alone, or numbers without it", param_hint="--C")
    return options.numbers(values, above=True, option="--C")


def _note_idle(context: typer.Context, kernel: str, has_universum: bool) -> None:
    """Tell of options that do nothing with this kernel, or without a universum."""
    by_kernel = {
        "gamma": kernel == "linear",
        "degree": kernel != "poly",
        "coef0": kernel not in ("poly", "sigmoid"),
    }
    by_universum = dict.fromkeys(("delta", "weight", "loss"), not has_universum)
    reasons = ((by_kernel, f"with the kernel {kernel}"), (by_universum, "without a universum"))
    for idle, reason in reasons:
        if given := options.idle_options(context, idle):
            verb = "has" if len(given) == 1 else "have"
            note(f"{' and '.join(given)} {verb} no effect {reason}")


def _grids(C: str, gamma: str, delta: str, weight: str) -> dict[str, Any]:
    """The values to try, as `UniversumSVCCV` takes them."""
    return {
        "Cs": None if C == AUTO else _Cs(C),
        "gammas": options.gammas(gamma),
        "deltas": options.numbers(delta, option="--delta"),
        "universum_weights": None
        if weight == AUTO
        else options.numbers(weight, words=("balanced",), option="--weight"),
    }


def _check_outputs(out: Path, report: Path | None, force: bool, inputs: Sequence[Any]) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    check_writable(out, force=force, option="--out", in_use=inputs)
    if report is None:
        return
    check_writable(report, force=force, option="--report", in_use=[*inputs, out])
    if find_spec("plotly") is None:
        fail("a report needs the package plotly: pip install 'musvm[report]'")


def _write_model(found: Any, data: Prepared, facts: dict[str, Any], path: Path) -> None:
    from musvm.io.model_file import to_bytes

    content = to_bytes(data.pipeline(found.best_estimator_), facts)
    with writing(path) as file:
        file.write(content)


def _tell(facts: dict[str, Any], out: Path, report: Path | None, *, as_json: bool) -> None:
    from musvm.search.hints import WHOLE_SEARCH

    written = {"model": str(out), **({} if report is None else {"report": str(report)})}
    if as_json:
        print_json({**facts, "written": written})
    else:
        print_facts({**in_words(facts), **written})
        judged = "that of the line nested" if facts["nested"] else "that of --nested FOLDS"
        for hint in facts["hints"]:
            note(hint.replace(WHOLE_SEARCH, judged))


def _write_report(found: Any, data: Prepared, path: Path, source: str) -> None:
    from musvm import report

    try:
        report.write(
            found, data.X, data.y, data.universum, path, title=f"musvm: {source}", overwrite=True
        )
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror or error}")


def _rejection(data: Prepared, found: Any, accept: float) -> dict[str, float] | None:
    threshold = rejection_threshold(data, found.best_estimator_, accept)
    return None if threshold is None else {"threshold": threshold, "accepted": accept}


def _facts(tables: Tables, data: Prepared, found: Any) -> dict[str, Any]:
    """What is told of the training, here and in the model file."""
    from musvm.io.model_file import describe
    from musvm.search.criteria import in_words as criterion_in_words

    model = found.best_estimator_
    return {
        "training": {
            "file": tables.train.path,
            "rows": len(tables.train),
            "classes": {
                str(label): int(count)
                for label, count in zip(*np.unique(data.y, return_counts=True), strict=True)
            },
        },
        "universum": [{"file": table.path, "rows": len(table)} for table in tables.universa],
        "input": tables.train.columns.as_dict(),
        "target": tables.train.target,
        "search": {
            "ranked_by": criterion_in_words(found.criterion),
            "cells": len(found.results_["C"]),
        },
        "comparison": found.comparison_.as_dict(),
        "hints": found.hints_,
        "parameters": {
            **describe(model)["parameters"],
            "gamma_value": float(model.model_.kernel.gamma),
        },
        "support_vectors": model.n_support_.tolist(),
        "universum_support_vectors": len(model.universum_support_),
        "relative_gap": describe(model)["relative_gap"],
        "converged": model.converged_,
    }
