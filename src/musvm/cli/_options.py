"""Options that several subcommands share, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

TABLES = "Tables"

# The keys of `musvm.loo.methods.METHODS`.
METHODS = ("span", "span-2016", "loo-estimate", "loo")
DEFAULT_CRITERION = "loo-estimate"
# Every process has to import everything: for most tables that takes longer than the work.
DEFAULT_JOBS = 1
LEAST_ACCEPTED = 0.01


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


Name = TypeVar("Name", bound=StrEnum)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The end of a sentence about a word that is not known: the one that may have been meant."""
    close = get_close_matches(given.casefold(), list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def _chosen_from(names: type[Name]) -> dict[str, Any]:
    """How an option takes one of these names."""

    def parse(value: str) -> Name:
        if value in list(names):
            return names(value)
        words = f"{value!r} is none of {', '.join(names)}{did_you_mean(value, names)}"
        raise typer.BadParameter(words)

    return {
        "parser": parse,
        "autocompletion": _completion(names),
        "metavar": f"[{'|'.join(names)}]",
    }


def _completion(names: Iterable[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [str(name) for name in names if name.startswith(incomplete)]

    return complete


def idle_options(context: typer.Context, idle: Mapping[str, bool]) -> list[str]:
    """The options that were given, among those of which it is said that they have no effect."""
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    return [
        options[name]
        for name, is_idle in idle.items()
        if is_idle and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]


def _check_method(value: str) -> str:
    if value in METHODS:
        return value
    raise typer.BadParameter(
        f"{value!r} is none of {', '.join(METHODS)}{did_you_mean(value, METHODS)}"
    )


Method = Annotated[
    str,
    typer.Option(
        callback=_check_method,
        autocompletion=_completion(METHODS),
        metavar=f"[{'|'.join(METHODS)}]",
        help="A bound on the error, an estimate of it, or the error itself.",
    ),
]


def _check_criterion(value: str) -> str:
    if value in METHODS or (value.isascii() and value.isdigit() and int(value) > 1):
        return value
    raise typer.BadParameter(
        f"{value!r} is none of {', '.join(METHODS)}, nor a number of folds of 2 or more"
        f"{did_you_mean(value, METHODS)}"
    )


def criterion(select: str) -> str | int:
    """What `--select` stands for in `UniversumSVCCV`."""
    return int(select) if select.isdigit() else select


def check_jobs(value: int) -> int:
    if value == 0:
        raise typer.BadParameter("use -1 for all cores, or a number of processes")
    return value


def gammas(values: str) -> list:
    """What `--gamma` stands for in `UniversumSVCCV`; at 0 all points would be the same."""
    return numbers(values, words=("scale", "auto"), above=True, option="--gamma")


def numbers(
    values: str, *, words: tuple[str, ...] = (), above: bool = False, option: str
) -> list[float | str]:
    """The values of a list such as `0.1,1,10`: above 0, or also 0; or one of the words."""
    found: list[float | str] = []
    for part in map(str.strip, values.split(",")):
        if part in words:
            found.append(part)
            continue
        try:
            value = float(part)
        except ValueError:
            value = float("nan")
        if not (value > 0 if above else value >= 0) or value == float("inf"):
            lowest = "above 0" if above else "0 or above"
            also = f", or {' or '.join(words)}" if words else ""
            raise typer.BadParameter(
                f"{part!r} cannot be used: give numbers {lowest}, separated by commas{also}"
                f"{did_you_mean(part, words)}",
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
        "--format",
        help="Format of the tables. [default: by extension]",
        rich_help_panel=TABLES,
        **_chosen_from(Format),
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
        autocompletion=_completion((*METHODS, "5", "10")),
        metavar=f"[{'|'.join(METHODS)}|FOLDS]",
        help="What judges parameters: a bound on the leave-one-out error, an estimate of it, the "
        "error itself, or cross-validation with that many folds.",
    ),
]
KernelName = Annotated[Kernel, typer.Option("--kernel", help="The kernel.", **_chosen_from(Kernel))]
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
    Loss,
    typer.Option(help="The universum loss: sum (eq. 4) or max (eq. 2).", **_chosen_from(Loss)),
]


def _check_share(value: float) -> float:
    if not LEAST_ACCEPTED <= value <= 1:
        meant = f"; did you mean {value / 100:g}?" if LEAST_ACCEPTED <= value / 100 <= 1 else ""
        raise typer.BadParameter(
            f"{value:g} cannot be used: give a share between {LEAST_ACCEPTED:g} and 1{meant}"
        )
    return value


Accept = Annotated[
    float,
    typer.Option(
        callback=_check_share,
        metavar="SHARE",
        help="Share of class members that predict --reject lets pass.",
    ),
]


def _no_single_fold(n_folds: int) -> int:
    if n_folds == 1:
        raise typer.BadParameter("use 2 or more folds")
    return n_folds


Nested = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="FOLDS",
        callback=_no_single_fold,
        help="Cross-validate the whole search: an error without bias.",
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
