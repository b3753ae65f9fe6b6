"""Small tables for the command line: flowers in two colours, and a universum between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
from sklearn.datasets import load_iris

SPECIES = np.array(["setosa", "versicolor", "virginica"])


def flowers() -> pandas.DataFrame:
    """Iris with a column of words and a few gaps; the label is the last column."""
    X, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(
        X, columns=["sepal length", "sepal width", "petal length", "petal width"]
    )
    frame["colour"] = np.where(y == 0, "red", "blue")
    frame.loc[4, "colour"] = None
    frame.loc[8, "sepal length"] = None
    frame["species"] = SPECIES[y]
    return frame


def universum(m: int = 30) -> pandas.DataFrame:
    """Averages of flowers of different species, without labels."""
    frame = flowers().drop(columns="species")
    rng = np.random.RandomState(0)
    first, second = rng.randint(0, 50, m), rng.randint(100, 150, m)
    made = frame.iloc[first].reset_index(drop=True)
    numbers = list(frame.columns[:4])
    filled = frame[numbers].fillna(frame[numbers].median()).to_numpy()
    made[numbers] = (filled[first] + filled[second]) / 2
    return made


def write_tables(folder: Path) -> None:
    """train.csv, new.csv and others.csv, and train.csv with the universum inside, marked.csv."""
    frame, others = flowers(), universum()
    frame.iloc[::2].to_csv(folder / "train.csv", index=False)
    frame.iloc[1::2].to_csv(folder / "new.csv", index=False)
    others.to_csv(folder / "others.csv", index=False)
    marked = pandas.concat([frame.iloc[::2], others.assign(species="other")])
    marked.to_csv(folder / "marked.csv", index=False)
