"""Options that several subcommands share, and what they stand for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

TABLES = "Tables"

# The keys of `musvm.loo.methods.METHODS`.
METHODS = ("span", "span-2016", "loo-estimate", "loo")
DEFAULT_CRITERION = "loo-estimate"
# Every process has to import everything: for most tables that takes longer than the work.
DEFAULT_JOBS = 1


class Format(StrEnum):
    """Formats of tables."""

    csv = "csv"
    parquet = "parquet"
    npz = "npz"
    libsvm = "libsvm"


class Kernel(StrEnum):
    """Kernels that can be named."""

    linear = "linear"
    rbf = "rbf"
    poly = "poly"
    sigmoid = "sigmoid"


class Loss(StrEnum):
    """The two universum losses."""

    sum = "sum"
    max = "max"


def _complete_method(incomplete: str) -> list[str]:
    return [name for name in METHODS if name.startswith(incomplete)]


def _check_method(value: str) -> str:
    if value in METHODS:
        return value
    raise typer.BadParameter(f"use {', '.join(METHODS)}")


Method = Annotated[
    str,
    typer.Option(
        callback=_check_method,
        autocompletion=_complete_method,
        metavar=f"[{'|'.join(METHODS)}]",
        help="A bound on the error, an estimate of it, or the error itself.",
    ),
]


def _complete_criterion(incomplete: str) -> list[str]:
    return [name for name in (*METHODS, "5", "10") if name.startswith(incomplete)]


def _check_criterion(value: str) -> str:
    if value in METHODS or (value.isascii() and value.isdigit() and int(value) > 1):
        return value
    raise typer.BadParameter(f"use {', '.join(METHODS)}, or a number of folds of 2 or more")


def criterion(select: str) -> str | int:
    """What `--select` stands for in `UniversumSVCCV`."""
    return int(select) if select.isdigit() else select


def check_jobs(value: int) -> int:
    if value == 0:
        raise typer.BadParameter("use -1 for all cores, or a number of processes")
    return value


def gammas(values: str) -> list:
    """What `--gamma` stands for in `UniversumSVCCV`."""
    return numbers(values, words=("scale", "auto"), lowest=0, option="--gamma")


def numbers(values: str, *, words: tuple[str, ...] = (), lowest: float, option: str) -> list:
    """The values of a list such as `0.1,1,10`."""
    found: list[float | str] = []
    for part in values.split(","):
        part = part.strip()
        if part in words:
            found.append(part)
            continue
        try:
            value = float(part)
        except ValueError:
            value = float("nan")
        if not lowest <= value < float("inf"):
            also = f" or {', '.join(words)}" if words else ""
            raise typer.BadParameter(
                f"{part!r} is no number of at least {lowest:g}{also}; "
                "separate several values by commas",
                param_hint=option,
            )
        found.append(value)
    return found


Train = Annotated[
    str, typer.Argument(metavar="TRAIN", help="Labelled table; '-' reads standard input.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, by musvm fit.")]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column of the labels. [default: the last]", rich_help_panel=TABLES
    ),
]
FileFormat = Annotated[
    Format | None,
    typer.Option(
        "--format", help="Format of the tables. [default: by extension]", rich_help_panel=TABLES
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Take this column for categories though it holds numbers; repeatable.",
        rich_help_panel=TABLES,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="Leave this column out; repeatable.", rich_help_panel=TABLES
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option(
        "--no-header",
        help="CSV files have no line of names; columns are called x1, x2, ...",
        rich_help_panel=TABLES,
    ),
]
Reorder = Annotated[
    bool,
    typer.Option(
        "--reorder",
        help="Accept columns in another order than in training, matched by name.",
        rich_help_panel=TABLES,
    ),
]
ZeroBased = Annotated[
    bool,
    typer.Option(
        "--zero-based", help="LIBSVM files count features from 0.", rich_help_panel=TABLES
    ),
]
Universum = Annotated[
    list[str] | None,
    typer.Option(
        "--universum",
        metavar="FILE",
        help="Table of points of no class; repeatable.",
    ),
]
UniversumLabel = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="Rows of TRAIN with this label are the universum."),
]
Select = Annotated[
    str,
    typer.Option(
        callback=_check_criterion,
        autocompletion=_complete_criterion,
        metavar=f"[{'|'.join(METHODS)}|FOLDS]",
        help="What judges parameters: a bound on the leave-one-out error, an estimate of it, the "
        "error itself, or cross-validation with that many folds.",
    ),
]
KernelName = Annotated[Kernel, typer.Option("--kernel", help="The kernel.")]
Gammas = Annotated[
    str,
    typer.Option("--gamma", metavar="LIST", help="Values of gamma to try: numbers, scale, auto."),
]
Scale = Annotated[bool, typer.Option("--scale/--no-scale", help="Scale numeric columns.")]
Jobs = Annotated[
    int,
    typer.Option(
        callback=check_jobs,
        help="Processes to use; -1 for one per processor core. Results are the same.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]

# ---------------------------------------------------------------------------------------------
# Of `fit` alone

Cs = Annotated[
    str, typer.Option("--C", metavar="LIST", help="Values of C to try; auto suits the kernel.")
]
Degree = Annotated[int, typer.Option(min=1, help="Degree of the kernel poly.")]
Coef0 = Annotated[float, typer.Option(help="Constant of the kernels poly and sigmoid.")]
Deltas = Annotated[
    str, typer.Option(metavar="LIST", help="Values of delta to try, with a universum.")
]
Weights = Annotated[
    str, typer.Option(metavar="LIST", help="Values of C*/C to try: numbers, balanced; or auto.")
]
UniversumLoss = Annotated[
    Loss, typer.Option(help="The universum loss: sum (eq. 4) or max (eq. 2).")
]
Accept = Annotated[
    float,
    typer.Option(min=0.01, max=1.0, help="Share of class members that predict --reject lets pass."),
]
Nested = Annotated[
    int,
    typer.Option(
        min=0, metavar="FOLDS", help="Cross-validate the whole search: an error without bias."
    ),
]
Memory = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Keep what is finished here: the same command goes on from there."
    ),
]
ModelOut = Annotated[Path, typer.Option(help="File for the model.")]
ReportOut = Annotated[
    Path | None, typer.Option(metavar="HTML", help="File for a report to open in a browser.")
]
