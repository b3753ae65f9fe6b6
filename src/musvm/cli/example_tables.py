"""`musvm example-tables`: the tables of the transcript in the documentation, to follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._files import check_writable, writing
from musvm.cli._terminal import mistakes_in_one_line

CLASSES = ["3", "5", "8", "9"]


@app.command(
    name="example-tables",
    epilog=examples(
        "musvm example-tables",
        "musvm fit digits.csv --target digit --universum-label other --no-scale",
    ),
)
def example_tables(
    folder: Annotated[Path, typer.Argument(help="Folder to write the tables to.")] = Path(),
    force: options.Force = False,
) -> None:
    """Write two tables to try the other commands on.

    digits.csv holds ten images of each of the digits 3, 5, 8 and 9, and 300 of other digits with
    the label 'other', a universum. new.csv holds images of both kinds that are not in the first.
    """
    paths = [folder / "digits.csv", folder / "new.csv"]
    for path in paths:
        check_writable(path, force=force, option="FOLDER", instead="another folder")
    with mistakes_in_one_line():
        for path, frame in zip(paths, _digits(), strict=True):
            with writing(path) as file:
                frame.to_csv(file, index=False)
    typer.echo(f"{paths[0]} and {paths[1]} were written")


def _digits() -> tuple[Any, Any]:
    """The two tables, in an order drawn with a fixed seed."""
    import numpy as np
    import pandas
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    names = [f"pixel_{row}{column}" for row in range(8) for column in range(8)]
    frame = pandas.DataFrame(X.astype(int), columns=names).assign(digit=digit.astype(str))
    frame = frame.iloc[np.random.RandomState(1).permutation(len(frame))]
    is_class = frame["digit"].isin(CLASSES)
    classes, others = frame[is_class], frame[~is_class].assign(digit="other")
    training = classes.groupby("digit").head(10)
    unseen = classes.drop(training.index)
    return (
        pandas.concat([training, others[:300]]),
        pandas.concat([unseen[:200], others[300:400]]),
    )
