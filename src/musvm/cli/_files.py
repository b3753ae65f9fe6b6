"""Files that subcommands read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import typer

from musvm._files import replacing
from musvm.cli._terminal import counted, fail, in_the_shell, note, shortened
from musvm.cli.tables import (
    STANDARD_INPUT,
    Columns,
    Layout,
    Table,
    as_text,
    classes_of,
    listed,
    read,
    shown,
    where,
)

# ---------------------------------------------------------------------------------------------
# Tables


@dataclass(frozen=True)
class Tables:
    """The tables of a fit; the universum may be part of the first one's file."""

    train: Table
    universa: list[Table]
    universum_label: str | None


def check_readable(*sources: str | Path, what: str = "table") -> None:
    """Say first, before anything about other files, that a file is not there or is none."""
    for source in map(str, sources):
        if source == STANDARD_INPUT and what == "table":
            continue
        try:
            is_folder, _ = Path(source).is_dir(), Path(source).stat()
        except OSError as error:
            fail(f"{shortened(source)}: cannot be read: {error.strerror}")
        if is_folder:
            fail(f"{source}: is a folder, not a {what}")


def read_table(source: str, layout: Layout, format: str | None) -> Table:
    """Read a table and print what its reader has to say."""
    table = read(source, layout, format)
    for message in table.notes:
        note(message)
    _note_missing(table)
    return table


def _note_missing(table: Table) -> None:
    """Tell how many cells are missing, and where most of them are."""
    missing = table.missing
    if not missing.any():
        return
    worst = int(missing.argmax())
    names = table.columns.names
    column = str(worst + 1) if names is None else shown(names[worst])
    note(
        f"{table.path}: {counted(int(missing.sum()), 'cell')} of {len(table) * len(missing)} "
        f"{'is' if missing.sum() == 1 else 'are'} missing, {missing[worst]} of {len(table)} in "
        f"column {column}; they count as the median of their column in training, categories as "
        "the most frequent one"
    )


def read_tables(
    train: str,
    universum: list[str],
    label: str | None,
    layout: Layout,
    format: str | None,
) -> Tables:
    """Read a labelled table, and universa with the same columns or marked by a label in it."""
    if [train, *universum].count(STANDARD_INPUT) > 1:
        raise typer.BadParameter("standard input can be read only once", param_hint="--universum")
    for source in universum:
        if source != STANDARD_INPUT and Path(source).resolve() == Path(train).resolve():
            raise typer.BadParameter(
                f"{source} is the table of the classes, and a universum belongs to none of them; "
                "rows that a label marks in it are named by --universum-label",
                param_hint="--universum",
            )
    if universum and label is not None:
        raise typer.BadParameter(
            "the universum is either in files or marked by a label", param_hint="--universum"
        )
    table, marked = _split_universum(read_table(train, layout, format), label)
    columns = replace(layout, labelled=False, target=table.target, columns=table.columns)
    universa = [read_table(source, columns, format) for source in universum]
    for other in universa:
        _note_classes_in(other, table)
    return Tables(table, universa if marked is None else [marked], label)


def _note_classes_in(universum: Table, train: Table) -> None:
    """Tell of rows of a universum that have the label of a class."""
    if universum.labels is None or train.labels is None:
        return
    known = np.isin(universum.labels, train.labels)
    if known.any():
        note(
            f"{universum.path}: {counted(int(known.sum()), 'row')} of {len(universum)} carry the "
            f"label of a class, such as {shown(str(universum.labels[known][0]))}; a universum "
            "belongs to none of the classes"
        )


def read_training(
    path: Path,
    model: Any,
    about: Any,
    train: str,
    universum: list[str] | None,
    format: str | None,
    **options: Any,
) -> Tables:
    """The tables that a model was fitted on, read as they were then."""
    label = about.summary.get("universum_label")
    uses_universum = getattr(_classifier(model), "universum_weight", None) != 0
    sources = _universum_files(about)
    if not universum and label is None and sources and uses_universum:
        fail(f"{path}: was fitted with a universum; pass --universum {sources[0]}")
    layout = layout_of(model, about, labelled=True, **options)
    return read_tables(train, universum or [], label, layout, format)


def _universum_files(about: Any) -> list[str]:
    """The universum tables of the fit, by the header's account."""
    stored = about.summary.get("universum")
    parts = stored if isinstance(stored, list) else []
    return [str(part.get("file")) for part in parts if isinstance(part, dict)]


def classifier_and_data(model: Any, tables: Tables) -> tuple[Any, Any, Any, Any]:
    """The classifier inside a model, and X, y and universum as it was given them."""
    steps = model[:-1] if hasattr(model, "steps") and len(model.steps) > 1 else None
    transform = steps.transform if steps is not None else (lambda X: X)
    universum = tuple(transform(table.X) for table in tables.universa) or None
    assert tables.train.labels is not None
    return _classifier(model), transform(tables.train.X), classes_of(tables.train.labels), universum


def refuse_data(error: ValueError, tables: Tables) -> NoReturn:
    """End with what is wrong with the tables of a fit: which file, and which line of it."""
    difference = getattr(error, "difference", None)
    part, row = getattr(difference, "part", None), getattr(difference, "row", None)
    if difference is None or part is None:
        files = ", ".join(dict.fromkeys(table.path for table in (tables.train, *tables.universa)))
        fail(f"{files}: {' '.join(str(error).split())}")
    table = tables.train
    if part == "universum" and tables.universa:
        table, row = _table_of(row, tables.universa)
    if row is None:
        fail(f"{table.path}: {in_the_shell(difference.words)}")
    what = "another label" if part == "y" else "other values"
    fail(f"{table.path}: {where(table, row)} has {what} than in the fit")


def _table_of(row: int | None, universa: list[Table]) -> tuple[Table, int | None]:
    """The table that a row of the whole universum is in, and its row there."""
    if row is None:
        return universa[0], None
    starts = np.cumsum([0, *map(len, universa)])
    place = int(np.searchsorted(starts, row, side="right")) - 1
    return universa[place], row - int(starts[place])


def _classifier(model: Any) -> Any:
    """The classifier at the end of a pipeline, or the one that a search has chosen."""
    last = model[-1] if hasattr(model, "steps") else model
    return getattr(last, "best_estimator_", last)


def _split_universum(table: Table, label: str | None) -> tuple[Table, Table | None]:
    """The rows of the classes, and those that a label marks as universum."""
    if label is None:
        return table, None
    assert table.labels is not None
    marked = table.labels == label
    if not marked.any():
        known = listed(np.unique(table.labels).tolist(), most=10)
        fail(f"{table.path}: no row has the universum label {label!r}; labels are {known}")
    if marked.all():
        fail(f"{table.path}: all rows have the universum label {label!r}")
    return table.take(np.flatnonzero(~marked)), table.take(np.flatnonzero(marked))


# ---------------------------------------------------------------------------------------------
# Models


def read_model(path: Path) -> tuple[Any, Any]:
    """Read a model and its header."""
    from musvm.io.model_file import load_with_header

    try:
        return load_with_header(path)
    except OSError as error:
        fail(f"{path}: cannot be read: {error.strerror or error}")


def training_layout(
    target: str | None,
    categorical: list[str] | None,
    ignore: list[str] | None,
    *,
    no_header: bool,
    reorder: bool,
    zero_based: bool,
) -> Layout:
    """What a labelled table looks like, by the options of the command line."""
    return Layout(
        labelled=True,
        target=target,
        categorical=tuple(categorical or ()),
        ignored=tuple(ignore or ()),
        header=not no_header,
        reorder=reorder,
        zero_based=zero_based,
    )


def layout_of(model: Any, about: Any, **options: Any) -> Layout:
    """What a table for this model must look like."""
    target = about.summary.get("target")
    return Layout(
        target=target if isinstance(target, str) else None,
        columns=_columns_of(model, about),
        **options,
    )


def _columns_of(model: Any, header: Any) -> Columns:
    """The features of a model: as the command line noted it, else as the model knows them."""
    stored = header.summary.get("input")
    if isinstance(stored, dict):
        try:
            return Columns.from_dict(stored)
        except (KeyError, TypeError, ValueError):
            fail("the model file is damaged: what it says of its columns cannot be read")
    names = getattr(model, "feature_names_in_", None)
    return Columns(int(model.n_features_in_), None if names is None else tuple(map(str, names)))


@dataclass(frozen=True)
class Values:
    """What a model makes of a table.

    Attributes
    ----------
    labels : (n,) predicted labels, as text
    decision : (n, L) decision values, or (n,) for two classes; None if the model has none
    spread : (n,) largest minus smallest decision value, if there are any
    classes : the classes, as text
    """

    labels: Any
    decision: Any
    spread: Any
    classes: list[str]


@contextmanager
def applying(path: Path, table: Table) -> Iterator[None]:
    """End in one line what a model of this file fails with on this table.

    The file holds harmless types, but what state they are in is up to whoever made it, and
    scikit-learn fails in all manners on a state that no fit leaves behind.
    """
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        fail(f"{path}: cannot be applied to {table.path} ({type(error).__name__}: {reason})")


def apply_model(model: Any, table: Table, path: Path) -> Values:
    """Decision values and predictions for a table."""
    with applying(path, table):
        classes = [as_text(label) for label in model.classes_.tolist()]
        if not hasattr(model, "decision_function"):  # such as `RejectingClassifier`
            predicted = [as_text(label) for label in np.asarray(model.predict(table.X)).tolist()]
            return Values(np.array(predicted, dtype=object), None, None, classes)
        decision = np.asarray(model.decision_function(table.X), dtype=np.float64)
        if decision.ndim == 1:
            best, spread = (decision > 0).astype(int), np.abs(decision)
        else:
            best, spread = decision.argmax(axis=1), np.ptp(decision, axis=1)
        labels = np.array(classes, dtype=object)[best]
    return Values(labels, decision, spread, classes)


# ---------------------------------------------------------------------------------------------
# Output


def check_writable(
    path: Path,
    *,
    force: bool,
    option: str,
    in_use: Iterable[str | Path] = (),
    instead: str = "another name",
) -> None:
    """Find out before the work, not after it, that a file cannot be written.

    Files `in_use`, read or written by the same command, are never replaced.
    """
    try:
        is_folder, has_folder = path.is_dir(), path.absolute().parent.is_dir()
        exists = path.exists()
    except OSError as error:  # a name that is too long, or a folder that may not be looked into
        reason = f"{shortened(str(path))}: cannot be written: {error.strerror}"
        raise typer.BadParameter(reason, param_hint=option) from None
    if is_folder:
        raise typer.BadParameter(
            f"{path} is a folder, where a file is to be written; give {instead}", param_hint=option
        )
    if not has_folder:
        folder, is_file = path.parent, path.parent.is_file()
        reason = f"{folder} is a file, not a folder" if is_file else f"no such folder: {folder}"
        raise typer.BadParameter(reason, param_hint=option)
    if any(path.resolve() == Path(other).resolve() for other in in_use):
        raise typer.BadParameter(
            f"{path} is another file of this command; give another name", param_hint=option
        )
    if exists and not force:
        raise typer.BadParameter(
            f"{path} exists; pass --force to replace it, or {instead}", param_hint=option
        )


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name when it is complete."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror or error}")
