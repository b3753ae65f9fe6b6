"""`musvm diagnose`: what a plain SVM says about universa before they are used."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from musvm.cli import _options as options
from musvm.cli._app import app, examples
from musvm.cli._files import Tables, check_readable, read_tables, training_layout
from musvm.cli._terminal import (
    mistakes_in_one_line,
    print_facts,
    print_json,
    print_table,
    printable,
    table,
    warn,
)
from musvm.cli._training import Prepared, prepare, search


@app.command(
    epilog=examples(
        "musvm diagnose train.csv others.csv",
        "musvm diagnose train.csv letters.csv noise.csv --target digit --json",
        "musvm diagnose digits.libsvm --universum-label 10 --kernel linear",
    )
)
def diagnose(
    train: options.Train,
    universum: Annotated[
        list[str] | None,
        typer.Argument(metavar="UNIVERSUM...", help="Tables of points of no class."),
    ] = None,
    more: options.Universum = None,
    target: options.Target = None,
    universum_label: options.UniversumLabel = None,
    select: options.Select = options.DEFAULT_CRITERION,
    kernel: options.KernelName = options.Kernel.rbf,
    gamma: options.Gammas = "scale",
    scale: options.Scale = True,
    as_json: options.Json = False,
    format: options.FileFormat = None,
    categorical: options.Categorical = None,
    ignore: options.Ignore = None,
    no_header: options.NoHeader = False,
    reorder: options.Reorder = False,
    zero_based: options.ZeroBased = False,
) -> None:
    """Rank universa by what a plain SVM makes of them.

    A plain SVM is chosen and fitted before any of them is used, and asked about them. Spread
    is the mean difference of a point's largest and smallest decision value, 1 being the margin;
    inside is the share of points within all margins; label entropy is 1 if all classes are given
    equally often and 0 if one gets them all; taken for is the class that is given most often, and
    how often. Nuisance, by which they are ranked, tells how much a universum varies in ways that
    the classes share: more is better, for this task. A universum of which more than 70 % is taken
    for one class comes after all others, since it may consist of points of that class. Whether
    one helps, musvm fit finds out.

    Status: 0 done, 1 the data was refused, 2 wrong command line.
    """
    universum = [*(universum or []), *(more or [])]
    if not universum and universum_label is None:
        raise typer.BadParameter("give a table, or --universum-label", param_hint="UNIVERSUM")
    layout = training_layout(
        target, categorical, ignore, no_header=no_header, reorder=reorder, zero_based=zero_based
    )
    parameters = {
        "kernel": kernel.value,
        "gammas": options.gammas(gamma),
        "criterion": options.criterion(select),
    }
    check_readable(train, *universum)
    with mistakes_in_one_line():
        tables = read_tables(train, universum, universum_label, layout, format)
        data = prepare(tables.train, tables.universa, scale=scale)
        found = _diagnosis(tables, data, parameters)
    _warn_of_classes(found)
    if as_json:
        print_json([_as_dict(one) for one in found])
    else:
        _print(found)


def _diagnosis(tables: Tables, data: Prepared, parameters: dict[str, Any]) -> Any:
    from musvm.universum import diagnose

    plain = search(data, parameters, with_universum=False).best_estimator_
    universa: dict[str, Any] = {}
    for source, points in zip(tables.universa, data.universa, strict=True):
        name, copies = source.path, 1
        while name in universa:
            copies += 1
            name = f"{source.path} ({copies})"
        universa[name] = points
    return diagnose(plain, data.X, data.y, universa)


def _as_dict(one: Any) -> dict[str, Any]:
    """The figures for JSON, which has no NaN; points are the rows of tables here."""
    figures = one.as_dict()
    known = {name: None if value != value else value for name, value in figures.items()}
    return {"universum": one.name, "rows": known.pop("n_points"), **known}


def _print(found: Any) -> None:
    from musvm.universum.diagnosis import RANKING, TITLES

    first = next(iter(found)).measures
    print_facts(
        {
            "at the margin or outside": f"{first.separability:.0%} of the training rows",
            "at the margin": f"{first.piling:.0%} of the training rows",
        }
    )
    typer.echo()
    # Points are the rows of tables here.
    made = table("universum", "rows", *TITLES[1:])
    for one in found:
        made.add_row(*(Text(printable(cell)) for cell in (one.name, *one.cells)))
    print_table(made)
    typer.echo()
    if len(found) > 1:
        typer.echo(RANKING)
    print_facts({one.name: one.sentence for one in found})


def _warn_of_classes(found: Any) -> None:
    """Tell of universa that look like points of one class, also where JSON is printed."""
    for one in found:
        if one.looks_like_a_class:
            warn(f"{one.name}: {one.taken_for}")
