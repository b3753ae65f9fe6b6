"""`musvm predict`: labels, and decision values, for the rows of a table."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._files import (
    apply_model,
    applying,
    check_readable,
    check_writable,
    layout_of,
    read_model,
    read_table,
    writing,
)
from musvm.cli._terminal import (
    counted,
    fail,
    mistakes_in_one_line,
    note,
    print_table,
    printable,
    table,
)
from musvm.cli._training import note_unseen
from musvm.cli.tables import Table, as_text, shown

ROWS_ON_TERMINAL, CLASSES_ON_TERMINAL = 40, 6
# With one of these a spreadsheet begins to compute.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@app.command(
    epilog=examples(
        "musvm predict model.skops new.csv",
        "musvm predict model.skops new.csv --scores --out predictions.csv",
        "musvm predict model.skops new.csv --reject --reject-label none",
        "cat new.csv | musvm predict model.skops - --json",
    )
)
def predict(
    model: options.Model,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Table; '-' reads standard input.")],
    scores: Annotated[
        bool, typer.Option("--scores", help="Add the decision values of all classes.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Answer that a row is of no class where it seems so.")
    ] = False,
    reject_label: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What --reject answers. [default: none]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write to instead of standard output.")
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    format: options.FileFormat = None,
    no_header: options.NoHeader = False,
    reorder: options.Reorder = False,
    zero_based: options.ZeroBased = False,
) -> None:
    """Predict the class of every row of a table, in its order.

    The columns of the training table must be there, by name and in the same order; others are
    ignored. If the column of the labels is among them, the share of correct predictions is told.
    The output is CSV with the column `prediction`, and `score: CLASS` for every class on request;
    `score` alone is positive for the second of two classes.

    Status: 0 done, 1 the data or the model was refused, 2 wrong command line.
    """
    answer_none = _answer_none(reject_label, reject=reject)
    if out is not None:
        check_writable(out, force=force, option="--out", in_use=[model, data])
    check_readable(model, what="model file")
    check_readable(data)
    with mistakes_in_one_line():
        fitted, header = read_model(model)
        layout = layout_of(
            fitted, header, header=not no_header, reorder=reorder, zero_based=zero_based
        )
        rows = read_table(data, layout, format)
        if hasattr(fitted, "steps"):
            with applying(model, rows):
                note_unseen(fitted, rows)
        values = apply_model(fitted, rows, model)
        labels = values.labels
        if values.decision is None and (scores or reject):
            option = "--scores" if scores else "--reject"
            fail(f"{model}: the model has no decision values, so leave out {option}")
        if reject:
            threshold = _threshold(header, str(model), answer_none, fitted.classes_)
            labels = np.where(values.spread >= threshold, labels, answer_none)
        answer = Answer(labels, values.decision if scores else None, fitted.classes_.tolist())
        _write(answer, out, as_json=as_json)
    if not as_json and (out is not None or not sys.stdout.isatty()):
        _tell_formulas(labels)
    _tell_accuracy(rows, labels, values.classes)
    if reject:
        _tell_rejected(rows, labels == answer_none, values.classes)


def _write(answer: Answer, out: Path | None, *, as_json: bool) -> None:
    """To a file, to a terminal as a table, or to whatever reads the standard output."""
    if out is not None:
        with writing(out) as file:
            file.write((answer.json() if as_json else answer.csv()).encode())
    elif as_json:
        typer.echo(answer.json(), nl=False)
    elif sys.stdout.isatty():
        answer.show()
    else:
        typer.echo(answer.csv(), nl=False)


@dataclass(frozen=True)
class Answer:
    """Predictions, and decision values if they were asked for, in the order of the rows."""

    labels: Any
    decision: Any
    classes: list[Any]

    @property
    def names(self) -> list[str]:
        if self.decision is None:
            return ["prediction"]
        if self.decision.ndim == 1:
            return ["prediction", "score"]
        return ["prediction", *(f"score: {as_text(name)}" for name in self.classes)]

    def rows(self) -> list[list[Any]]:
        if self.decision is None:
            return [[label] for label in self.labels.tolist()]
        values = self.decision.reshape(len(self.labels), -1).tolist()
        return [[label, *row] for label, row in zip(self.labels.tolist(), values, strict=True)]

    def csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.names)
        writer.writerows(self.rows())
        return buffer.getvalue()

    def json(self) -> str:
        known = {as_text(name): name for name in self.classes}
        predictions = [known.get(label, label) for label in self.labels.tolist()]
        document = {"classes": self.classes, "predictions": predictions}
        if self.decision is not None:
            document["scores"] = self.decision.tolist()
        return json.dumps(document, indent=2, allow_nan=False) + "\n"

    def show(self) -> None:
        """The first rows as a table for a terminal."""
        shown = self if len(self.classes) <= CLASSES_ON_TERMINAL else replace(self, decision=None)
        made = table("row", *shown.names, left=1)
        for number, (label, *values) in enumerate(shown.rows()[:ROWS_ON_TERMINAL], start=1):
            made.add_row(str(number), Text(printable(label)), *(f"{value:.4f}" for value in values))
        print_table(made)
        if len(self.labels) > ROWS_ON_TERMINAL:
            more = len(self.labels) - ROWS_ON_TERMINAL
            note(f"{more} more rows; --out FILE or a pipe gets all of them")
        if shown is not self and self.decision is not None:
            note(f"scores of {len(self.classes)} classes; --out FILE or a pipe gets them")


def _answer_none(given: str | None, *, reject: bool) -> str:
    """What is answered for rows of no class."""
    if given is not None and not reject:
        raise typer.BadParameter("has no effect without --reject", param_hint="--reject-label")
    return "none" if given is None else given


def _threshold(header: Any, path: str, reject_label: str, classes: Any) -> float:
    stored = header.summary.get("rejection")
    if not isinstance(stored, dict) or not isinstance(stored.get("threshold"), float):
        fail(f"{path}: has no threshold for --reject; fit the model with musvm fit")
    if reject_label in map(as_text, classes.tolist()):
        raise typer.BadParameter(
            f"{reject_label!r} is one of the classes", param_hint="--reject-label"
        )
    return float(stored["threshold"])


def _tell_formulas(labels: Any) -> None:
    """Labels are written as they are; say so where a spreadsheet would compute with them."""
    found = [name for name in sorted(set(map(as_text, labels.tolist()))) if _is_formula(name)]
    if found:
        note(
            f"spreadsheets take {found[0]!r} for a formula"
            + (f", and {counted(len(found) - 1, 'more label')}" if found[1:] else "")
            + ": import the predictions as text, or take --json"
        )


def _is_formula(name: str) -> bool:
    """Whether a cell begins as formulas do, and is no number."""
    try:
        float(name)
    except ValueError:
        return name.startswith(FORMULA_STARTS)
    return False


def _tell_accuracy(rows: Table, predicted: Any, classes: list[str]) -> None:
    """Compare what is written with the labels in the table, if there are any of the classes."""
    if rows.labels is None:
        return
    judged = np.isin(rows.labels, classes)
    if not judged.any():
        note(
            f"{rows.path}: none of its labels, such as {shown(str(rows.labels[0]))}, is a class of "
            f"the model, such as {shown(classes[0])}: no share of correct predictions is told"
        )
        return
    n_right, n_judged = int(np.sum(predicted[judged] == rows.labels[judged])), int(judged.sum())
    others = len(judged) - n_judged
    note(
        f"{n_right / n_judged:.2%} of the {counted(n_judged, 'labelled row')} "
        f"{'is' if n_judged == 1 else 'are'} predicted correctly"
        + (f"; {counted(others, 'row')} of no class besides" if others else "")
    )


def _tell_rejected(rows: Table, rejected: Any, classes: list[str]) -> None:
    """The share of rejected rows; where labels tell, among those of the classes and the others."""
    known = np.isin(rows.labels, classes) if rows.labels is not None else np.zeros(0, dtype=bool)
    if not known.any():
        note(f"{rejected.mean():.1%} of {counted(len(rejected), 'row')} were rejected")
        return
    shares = [f"{rejected[known].mean():.1%} of the rows of the classes"]
    if not known.all():
        shares.append(f"{rejected[~known].mean():.1%} of the others")
    note(f"rejected were {' and '.join(shares)}")
