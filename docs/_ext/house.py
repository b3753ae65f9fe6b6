"""The picture of rooms and layers, drawn from the imports in the sources when the pages are built.

The order of the layers is that of the contract in `pyproject.toml`, the arrows are the imports that
grimp finds, so neither can go stale. `rooms` fails if they disagree about which rooms there are.

Of two ways from one room to another only the longer one is drawn (the transitive reduction):
where `estimator` imports `model` and `model` imports `solvers`, an arrow from `estimator` to
`solvers` would say nothing new about the layers. The bottom layer, tools that every room may use,
has no arrows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

PACKAGE = "musvm"
WIDTH, BOX_HEIGHT, LAYER_HEIGHT, GAP, MARGIN = 760, 30, 64, 22, 12
LETTER = 8.2
"""Width of a letter of the rooms' names."""

Edge = tuple[str, str]
# Where a layer may be, from the left margin to the right one, and how often all are tried.
OFFSETS, SWEEPS = np.linspace(-0.9, 0.9, 13), 4


class Box(NamedTuple):
    """The place of a room; all boxes have the same height."""

    left: float
    top: float
    width: float


def layers(project: Path) -> list[list[str]]:
    """The rooms of every layer, the top one first, as the contract of import-linter has them."""
    tool = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]
    contract = next(c for c in tool["importlinter"]["contracts"] if c["type"] == "layers")
    return [layer.replace("|", ":").replace(" ", "").split(":") for layer in contract["layers"]]


# In a process of its own, which looks at the sources, whatever is installed and imported here.
FIND_IMPORTS = """
import json, sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
sys.path.insert(0, sys.argv[1])
import grimp
graph = grimp.build_graph(sys.argv[2], cache_dir=None)
rooms = sorted(graph.find_children(sys.argv[2]))
imports = [
    (a, b) for a in rooms for b in rooms
    if a != b and graph.direct_import_exists(importer=a, imported=b, as_packages=True)
]
print(json.dumps([rooms, imports]))
"""


def imports(sources: Path) -> tuple[set[str], set[Edge]]:
    """The rooms in the sources, and who imports whom."""
    command = [sys.executable, "-c", FIND_IMPORTS, str(sources), PACKAGE]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    rooms, edges = json.loads(found.stdout)
    return {_short(room) for room in rooms}, {(_short(a), _short(b)) for a, b in edges}


def _short(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.")


def reduced(edges: set[Edge]) -> set[Edge]:
    """The edges that no longer way replaces."""
    below: dict[str, set[str]] = {}
    for a, b in edges:
        below.setdefault(a, set()).add(b)

    def reachable(room: str) -> set[str]:
        found: set[str] = set()
        waiting = [room]
        while waiting:
            for other in below.get(waiting.pop(), set()) - found:
                found.add(other)
                waiting.append(other)
        return found

    return {(a, b) for a, b in edges if not any(b in reachable(other) for other in below[a] - {b})}


def places(order: list[list[str]], edges: set[Edge]) -> dict[str, Box]:
    """The box of every room, moved sideways until arrows run through as few boxes as possible."""
    offsets = [0.0] * len(order)
    found = _boxes(order, offsets)
    fewest = _cost(found, edges)
    for _ in range(SWEEPS):
        for depth, _layer in enumerate(order):
            for offset in OFFSETS:
                tried = [*offsets[:depth], offset, *offsets[depth + 1 :]]
                boxes = _boxes(order, tried)
                cost = _cost(boxes, edges)
                if cost < fewest:
                    offsets, found, fewest = tried, boxes, cost
    return found


def _boxes(order: list[list[str]], offsets: list[float]) -> dict[str, Box]:
    """Boxes of layers that are moved sideways by these shares of the room that they have."""
    found = {}
    for depth, (rooms, offset) in enumerate(zip(order, offsets, strict=True)):
        widths = [LETTER * len(room) + 20 for room in rooms]
        free = WIDTH - 2 * MARGIN - sum(widths) - GAP * (len(rooms) - 1)
        left = MARGIN + 0.5 * free * (1.0 + offset)
        for room, width in zip(rooms, widths, strict=True):
            found[room] = Box(left, MARGIN + depth * LAYER_HEIGHT, width)
            left += width + GAP
    return found


def _cost(boxes: dict[str, Box], edges: set[Edge]) -> float:
    """Points of arrows that lie in boxes; where these are equal, how far arrows go sideways."""
    left, top, width = np.array([(b.left, b.top, b.width) for b in boxes.values()]).T
    points = np.array([_curve(boxes[a], boxes[b]) for a, b in sorted(edges)])
    x, y = points[..., 0, None], points[..., 1, None]
    inside = (left - 6 < x) & (x < left + width + 6) & (top < y) & (y < top + BOX_HEIGHT)
    sideways = np.abs(points[:, -1, 0] - points[:, 0, 0]).sum()
    # The first and the last points lie at the boxes that the arrow belongs to.
    return float(inside[:, 2:-2].sum() + 1e-4 * sideways)


def _curve(start: Box, end: Box) -> np.ndarray:
    """Points of an arrow."""
    corners = np.array(_corners(start, end))
    t = np.linspace(0.0, 1.0, 30)[:, None]
    weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3]
    return sum(weight * corner for weight, corner in zip(weights, corners, strict=True))


def _corners(start: Box, end: Box) -> list[tuple[float, float]]:
    """The four points of a Bezier curve, from the bottom of one box to the top of another."""
    x1, y1 = start.left + start.width / 2, start.top + BOX_HEIGHT
    x2, y2 = end.left + end.width / 2, end.top
    if start.top == end.top:
        y1 = y2 = start.top + BOX_HEIGHT / 2
        x1, x2 = (start.left, end.left + end.width) if x2 < x1 else (x1 + start.width / 2, end.left)
        return [(x1, y1), (x1, y1), (x2, y2), (x2, y2)]
    bend = 0.5 * (y2 - y1)
    return [(x1, y1), (x1, y1 + bend), (x2, y2 - bend), (x2, y2)]


def draw(order: list[list[str]], edges: set[Edge]) -> str:
    """The picture as SVG, in the colours of the page around it."""
    box = places(order, edges)
    height = 2 * MARGIN + LAYER_HEIGHT * (len(order) - 1) + BOX_HEIGHT
    lines = [_arrow(box[a], box[b]) for a, b in sorted(edges)]
    rooms = [_room(name, place) for name, place in box.items()]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'class="house" aria-label="Rooms of the package in their layers; arrows are imports">',
            '<defs><marker id="house-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
            *lines,
            *rooms,
            "</svg>",
        ]
    )


def _room(name: str, box: Box) -> str:
    middle = f'x="{box.left + box.width / 2:.0f}" y="{box.top + BOX_HEIGHT / 2 + 4.5:.0f}"'
    size = f'width="{box.width:.0f}" height="{BOX_HEIGHT}" rx="5"'
    return (
        f'<rect x="{box.left:.0f}" y="{box.top:.0f}" {size}/><text {middle}>{escape(name)}</text>'
    )


def _arrow(start: Box, end: Box) -> str:
    first, *others = (f"{x:.0f} {y:.0f}" for x, y in _corners(start, end))
    return f'<path class="way" d="M{first}C{" ".join(others)}"/>'


def picture(root: Path) -> str:
    """The picture of the package in a checkout."""
    order = layers(root / "pyproject.toml")
    rooms, edges = imports(root / "src")
    listed = {room for layer in order for room in layer}
    if rooms != listed:
        raise ValueError(f"sources and contract differ in {sorted(rooms ^ listed)}")
    tools = set(order[-1])
    return draw(order, reduced({(a, b) for a, b in edges if b not in tools}))


def setup(app: object) -> dict[str, bool]:
    """Add the directive `house`."""
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class House(Directive):
        """The picture, where the page asks for it."""

        def run(self) -> list[nodes.Node]:
            root = Path(self.state.document.settings.env.srcdir).parent
            return [nodes.raw("", f'<div class="house">{picture(root)}</div>', format="html")]

    app.add_directive("house", House)  # type: ignore[attr-defined]
    return {"parallel_read_safe": True}
