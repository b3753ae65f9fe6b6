"""The results page: a template with its markers replaced by tables made from results files.

    <!-- results: NAME -->              what was run, the table, and what it says
    <!-- variants: NAME NAME ... -->    one line for each Table 2, the first being the paper's own

NAME is a results file beside the template, without its ending. So no figure on the page is typed
by hand. ``python -m musvm.experiments.page FOLDER`` writes FOLDER/tables.md from
FOLDER/tables.md.in, and FOLDER/diagnosis.md from FOLDER/diagnosis.json if that is there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from musvm.experiments import diagnosis
from musvm.experiments.protocol import Study
from musvm.experiments.settings import PARTITIONS, TABLE_2
from musvm.experiments.store import Record
from musvm.experiments.tables import (
    as_markdown,
    describe,
    difference,
    groups_of,
    markdown,
    p_value,
    paired,
    spread,
    universum_name,
)

TEMPLATE, PAGE = "tables.md.in", "tables.md"
MARKER = re.compile(r"<!-- (results|variants): ([^>]+?) -->")
SIGNIFICANT = 0.05


def make_page(folder: Path) -> str:
    """The page that the template and the results files of a folder make."""

    def replacement(match: re.Match[str]) -> str:
        files = [_read(folder / f"{name}.json") for name in match[2].split()]
        return variants(files) if match[1] == "variants" else section(files[0])

    return MARKER.sub(replacement, (folder / TEMPLATE).read_text(encoding="utf-8"))


def section(results: Record) -> str:
    """Description, table and verdict of one results file."""
    parts = [describe(results), markdown(results).rstrip(), *_verdict(results)]
    return "\n\n".join(parts)


def variants(files: list[Record]) -> str:
    """Tables 2 of one data set under different conditions, a line each."""
    names = [entry["name"] for entry in files[0]["conditions"]["setting"]["universa"]]
    header = ["variant", "plain SVM (%)"]
    for name in names:
        header += [f"MU-SVM, {name} (%)", "minus plain SVM", "p"]
    rows = []
    for results in files:
        groups = groups_of(results)
        row = [_variant_name(results), spread(groups[0].errors("svm"))]
        for group in groups:
            pair = paired(group.errors("mu_svm"), group.errors("svm"))
            row += [spread(group.errors("mu_svm")), difference(pair), p_value(pair)]
        rows.append(row + [""] * (len(header) - len(row)))
    return as_markdown(header, rows).rstrip()


def _variant_name(results: Record) -> str:
    conditions = results["conditions"]
    usual = Study(conditions["dataset"])
    values = {**conditions, **conditions["features"]}
    usual_gamma = conditions["setting"]["gamma"]
    words = [
        f"{name} {values[name]}"
        for name in ("split", "loss", "weight", "universum", "model", "ties")
        if values[name] != getattr(usual, name)
    ]
    words += [name for name in ("color", "roi") if values[name]]
    words += [f"features × {values['scale']:g}"] if values["scale"] != 1 else []
    words += [f"gamma {values['gamma']:g}"] if values["gamma"] != usual_gamma else []
    words += [f"C = {C:g}" for C in conditions["C"]] if len(conditions["C"]) == 1 else []
    criterion = results["cells"][0]["criterion"]
    words += [f"criterion {criterion}"] if criterion != "cv" else []
    words += [f"{results['partitions']} partitions"] if results["partitions"] != PARTITIONS else []
    return ", ".join(words) or "the paper's protocol"


def _verdict(results: Record) -> Iterator[str]:
    """What Table 2 says of each universum, and what the paper said."""
    if results["table"] != "table2":
        return
    paper = TABLE_2.get(results["conditions"]["setting"]["published"], {})
    lines = []
    for group in groups_of(results):
        pair = paired(group.errors("mu_svm"), group.errors("svm"))
        name = universum_name(results, group)
        line = f"- {name}: the MU-SVM makes {_direction(pair.mean, pair.p)}"
        if name in paper:
            gap = paper[name][0] - paper[""][0]
            line += f" In the paper it made {abs(gap):.2f} points {_word(gap)}."
        lines.append(line)
    yield "\n".join(lines)


def _direction(mean: float, p: float | None) -> str:
    if p is None or p >= SIGNIFICANT:
        return f"neither clearly more nor clearly fewer errors ({mean:+.2f} points)."
    return f"{abs(mean):.2f} points {_word(mean)} errors (p = {p:.2g})."


def _word(difference: float) -> str:
    return "fewer" if difference < 0 else "more"


def _read(path: Path) -> Record:
    results: Record = json.loads(path.read_text(encoding="utf-8"))
    return results


if __name__ == "__main__":
    target = Path(sys.argv[1])
    (target / PAGE).write_text(make_page(target), encoding="utf-8")
    if (target / diagnosis.RESULTS).exists():
        diagnosis.write_page(target)
