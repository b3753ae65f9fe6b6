"""Reading a report back: its structure, its tables and the numbers of its figures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

VOID = {"meta", "input", "br", "img", "link", "hr"}


@dataclass
class Element:
    """A node of the page."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return "".join(parts)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements below this one with a tag and attributes."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                wanted = attributes.items() <= child.attributes.items()
                found += ([child] if child.tag == tag and wanted else []) + child.all(
                    tag, **attributes
                )
        return found

    def outline(self) -> tuple[Any, ...]:
        """Tags and names of attributes, in their order, without any text."""
        inner = (child.outline() for child in self.children if isinstance(child, Element))
        return (self.tag, *sorted(self.attributes), *inner)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


class Page:
    """A report, parsed."""

    def __init__(self, path: Path) -> None:
        reader = _Reader()
        reader.feed(path.read_text(encoding="utf-8"))
        reader.close()
        assert len(reader.open) == 1, f"never closed: {[e.tag for e in reader.open[1:]]}"
        self.root = reader.root

    @property
    def figures(self) -> dict[str, Any]:
        """The numbers behind the figures."""
        (script,) = self.root.all("script", id="figures")
        return json.loads(script.text)

    @property
    def scripts(self) -> list[str]:
        """The scripts that run."""
        return [s.text for s in self.root.all("script") if "type" not in s.attributes]

    def section(self, name: str) -> Element:
        (section,) = self.root.all("section", id=name)
        return section

    def table(self, section: str, position: int = 0) -> list[list[str]]:
        """A table's cells, the header first; notes below a cell are left out."""
        table = self.section(section).all("table")[position]
        return [
            [_without_notes(cell) for cell in (*row.all("th"), *row.all("td"))]
            for row in table.all("tr")
        ]

    def quantities(self, section: str) -> dict[str, list[str]]:
        """A table with a row for each quantity, as a dictionary."""
        return {name: cells for name, *cells in self.table(section)[1:]}


def _without_notes(cell: Element) -> str:
    return "".join(
        child if isinstance(child, str) else child.text
        for child in cell.children
        if isinstance(child, str) or child.tag != "small"
    ).strip()


def assert_counts(shown: Any, values: Any, edges: Any, slack: float) -> None:
    """Counts are right if every point is in its bin, or within `slack` of it."""
    for count, low, high in zip(shown, edges[:-1], edges[1:], strict=True):
        surely = np.sum((values > low + slack) & (values < high - slack))
        at_most = np.sum((values > low - slack) & (values < high + slack))
        assert surely <= count <= at_most
