"""From tables to a chosen model, for the subcommands that train one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from musvm.cli._terminal import counted, fail, in_the_shell, note, warn
from musvm.cli.tables import (
    Table,
    classes_of,
    is_decimal,
    listed,
    preparation,
    require_usable,
    shown,
)

# The status that shells give a command that Ctrl-C ended.
INTERRUPTED = 130


@dataclass(frozen=True)
class Prepared:
    """Training points, their labels, and universa, as a classifier sees them.

    Attributes
    ----------
    X : (n, d) features
    y : (n,) labels
    universa : arrays of universum points, one for each table
    steps : the fitted steps of the pipeline that made them
    """

    X: Any
    y: Any
    universa: tuple[Any, ...]
    steps: list[tuple[str, Any]]

    @property
    def universum(self) -> Any:
        """What `fit` takes: a tuple, which nothing splits, or None."""
        return self.universa or None

    def pipeline(self, classifier: Any) -> Any:
        """The model that takes tables: the preparation and a fitted classifier."""
        from sklearn.pipeline import Pipeline

        return Pipeline([*self.steps, ("svm", classifier)], transform_input=["universum"])


def prepare(train: Table, universa: Sequence[Table], *, scale: bool) -> Prepared:
    """Fit the preparation to the training rows and apply it to all."""
    from sklearn.pipeline import Pipeline

    require_usable(train)
    y = _checked_classes(train)
    steps = preparation(train.columns, scale=scale)
    if not steps:
        data = Prepared(train.X, y, tuple(table.X for table in universa), [])
    else:
        made = Pipeline(steps)
        if train.columns.names is not None:
            made.set_output(transform="pandas")
        X = made.fit_transform(train.X)
        for table in universa:
            note_unseen(made, table)
        data = Prepared(X, y, tuple(made.transform(table.X) for table in universa), made.steps)
    _warn_of_universa(data, universa)
    return data


def _warn_of_universa(data: Prepared, universa: Sequence[Table]) -> None:
    """Tell of universa that cannot be meant, each by the name of its file.

    Fits would tell it of all of them together: `musvm fit` runs them inside `told_already`.
    """
    from musvm import UniversumSVC
    from musvm._input.mistakes import warn_if_training_points
    from musvm._input.ranges import sign_of_another_scale
    from musvm._input.reading import read

    for table, points in zip(universa, data.universa, strict=True):
        with _refusals_in_one_line(), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            one = read(UniversumSVC(), data.X, data.y, points, None)
            warn_if_training_points(one)
        if sign := sign_of_another_scale(one, "the training rows"):
            warn(f"{table.path}: the universum {sign}; are its columns in the same units?")
        for warning in found:
            warn(f"{table.path}: {in_the_shell(str(warning.message))}")


@contextmanager
def _refusals_in_one_line() -> Iterator[None]:
    """End with one line what the library refuses."""
    try:
        yield
    except ValueError as error:
        fail(in_the_shell(" ".join(str(error).split())))


def _checked_classes(train: Table) -> Any:
    assert train.labels is not None
    distinct, counts = np.unique(train.labels, return_counts=True)
    names = distinct.tolist()
    place = train.path if train.target is None else f"{train.path}: column {shown(train.target)}"
    if len(names) < 2:
        fail(f"{place}: there must be at least two classes; all labels are {shown(names[0])}")
    if len(names) > max(2, len(train) / 2) or any(map(is_decimal, names)):
        fail(
            f"{place}: {len(names)} different labels in {len(train)} rows, such as "
            f"{shown(names[0])}, are no classes; --target names the column of the labels"
        )
    if (counts == 1).any():
        note(f"{place}: the label {shown(names[int(np.argmin(counts))])} occurs only once")
    return classes_of(train.labels)


def note_unseen(pipeline: Any, table: Table) -> None:
    """Tell of categories that training has not seen."""
    for transformer in (step for _, step in pipeline.steps if hasattr(step, "transformers_")):
        for name, branch, columns in transformer.transformers_:
            if name != "categories":
                continue
            for column, known in zip(columns, branch[-1].categories_, strict=True):
                unseen = sorted(set(table.X[column].dropna()) - set(known))
                if unseen:
                    note(
                        f"{table.path}: column {shown(column)} has categories that training has "
                        f"not: {listed(unseen)}; they count as none of the known ones"
                    )


def search(data: Prepared, parameters: Mapping[str, Any], *, with_universum: bool = True) -> Any:
    """The fitted search over the parameters that are given."""
    from musvm import UniversumSVCCV

    made = UniversumSVCCV(verbose=int(sys.stderr.isatty()), **parameters)
    try:
        with _refusals_in_one_line():
            return made.fit(data.X, data.y, universum=data.universum if with_universum else None)
    except OSError as error:
        if parameters.get("memory") is None:
            raise
        fail(f"--memory {parameters['memory']}: cannot be used: {error.strerror or error}")
    except KeyboardInterrupt:
        fail(_after_interrupt(parameters.get("memory")), status=INTERRUPTED)


def _after_interrupt(memory: Path | None) -> str:
    """What Ctrl-C leaves, in one sentence."""
    if memory is None:
        return "interrupted, nothing is kept; with --memory DIR the same command would go on"
    n_kept = sum(path.is_file() for path in memory.rglob("*"))
    return (
        f"interrupted; {counted(n_kept, 'finished fit')} kept in {memory}: the same command goes "
        "on from there"
    )


def nested_error(data: Prepared, parameters: Mapping[str, Any], folds: int) -> dict[str, Any]:
    """The error of the search as a whole, and its standard error over the folds."""
    from sklearn.model_selection import cross_val_score

    from musvm import UniversumSVCCV

    smallest = int(np.unique(data.y, return_counts=True)[1].min())
    if smallest < folds:
        fail(f"--nested {folds}: the smallest class has {smallest} rows; use fewer folds")
    scores = cross_val_score(
        UniversumSVCCV(**parameters), data.X, data.y, cv=folds, params={"universum": data.universum}
    )
    error, spread = float(1 - scores.mean()), float(scores.std(ddof=1) / np.sqrt(folds))
    return {"folds": folds, "error": error, "standard_error": spread}


def rejection_threshold(data: Prepared, model: Any, share: float) -> float | None:
    """The score that the wanted share of training points reach when they are left out."""
    from sklearn.base import clone

    from musvm.rejection import RejectingClassifier, fewest_points

    if share == 1:
        note("--accept 1 lets every row pass, so there is no threshold for --reject")
        return None
    folds = min(5, int(np.unique(data.y, return_counts=True)[1].min()))
    if folds < 2:
        note("a class with a single row leaves no threshold for --reject")
        return None
    if len(data.y) < fewest_points(share):
        note(f"{counted(len(data.y), 'row')} are too few for a threshold for --reject")
        return None
    rejecting = RejectingClassifier(clone(model), "none", target=share, cv=folds)
    return float(rejecting.fit(data.X, data.y, universum=data.universum).threshold_)
