"""The plot of a graph: boxes of operators and lines between them, long ones cut into columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from sdk.driver.plots.drawing import DrawnGraph, DrawnNode
from sdk.driver.plots.families import FAMILIES
from sdk.driver.plots.layered import Layout, lay_out
from sdk.driver.plots.words import bytes_text, ending, macs_words, wrapped

__all__ = ["Box", "Column", "GraphPlot", "graph_plot"]

Point = tuple[float, float]
Lines = tuple[tuple[str, str], ...]  # the kind of each line of text, and the text
PAGE = 1240.0  # pixels that columns may take together
MAX_COLUMNS = 4
LONG = 1300.0  # height from which a plot is cut
SHORTEST = 800.0  # height of a column
MAX_CROSSING_LINES = 3  # that a cut may go through
MARGIN = 14.0
STUB = 22.0  # of a line that goes on in another column
LINE = 14.0
CHAR = 6.1
WIDEST = 44  # characters
REASON = 34  # characters of a line of a reason, at least


@dataclass(frozen=True)
class Box:
    """A node: its number, the place of its upper left corner, its lines of text and the colour; ``share``: its part of
    the multiply-accumulates of the one with the most, 0..1."""

    node: int
    x: float
    y: float
    width: float
    height: float
    lines: Lines
    color: str
    share: float


@dataclass(frozen=True)
class Column:
    """A part of the plot, as wide and high as it says. ``lines``: (SVG path, numbers of the nodes it joins, whether
    it has an arrow, what goes along it); ``stubs``: place and text of lines that go on elsewhere."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[tuple[str, tuple[int, int], bool, str], ...]
    stubs: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class GraphPlot:
    """Columns from left to right, and which families of operators there are with their colours."""

    columns: tuple[Column, ...]
    legend: tuple[tuple[str, str], ...]


def graph_plot(graph: DrawnGraph, scrolls: bool = False) -> GraphPlot:
    """The plot of an entry. ``scrolls``: one that is too long for columns stays whole, as it is moved in a frame."""
    texts = [_lines(node) for node in graph.nodes]
    sizes = [_size(node, lines) for node, lines in zip(graph.nodes, texts, strict=True)]
    layout = lay_out(sizes, [(a, b) for a, b, _ in graph.edges])
    maximum = max((n.macs or 0 for n in graph.nodes), default=0) or 1
    parts = [_Part(graph, layout, sizes, 0, len(layout.top))]
    whole = scrolls and max(layout.bottom, default=0.0) > MAX_COLUMNS * LONG
    for count in () if whole else range(MAX_COLUMNS, 1, -1):
        cuts = [0, *_cuts(layout, count), len(layout.top)]
        found = [_Part(graph, layout, sizes, lo, hi) for lo, hi in pairwise(cuts)]
        if sum(part.width for part in found) <= PAGE:
            parts = found
            break
    columns = tuple(part.column(texts, maximum) for part in parts)
    used = {n.family for n in graph.nodes}
    return GraphPlot(columns, tuple((f, color_of(f)) for f in FAMILIES if f in used))


def color_of(family: str) -> str:
    """The class that colours a family."""
    known = [f for f in FAMILIES if f != "layout"]
    return f"c{known.index(family)}" if family in known else "scratch"


# --- boxes -----------------------------------------------------------------------------------------------


def _lines(node: DrawnNode) -> Lines:
    out = _output(node)
    if node.family in ("input", "output"):
        return ("kind", ending(node.name, WIDEST)), ("what", out)
    if node.glue:
        return (("what", f"{node.kind} {out}"[:WIDEST]),)
    facts = [out]
    if node.macs or node.macs_text:
        facts.append(f"{macs_words(node.macs, node.macs_text)} MAC")
    if node.weights:
        facts.append(bytes_text(node.weights))
    lines = [("kind", node.kind), ("name", ending(node.name, 34)), ("what", " · ".join(facts))]
    if node.name == node.kind:
        del lines[1]
    width = max(REASON, *(len(text) for _, text in lines))
    return (*lines, *(("why", text) for text in wrapped(node.why, width, 4) if text))


def _output(node: DrawnNode) -> str:
    first = str(node.outputs[0]) if node.outputs else ""
    return f"{first} and {len(node.outputs) - 1} more" if len(node.outputs) > 1 else first


def _size(node: DrawnNode, lines: Lines) -> tuple[float, float]:
    widest = max(len(text) * (1.15 if kind == "kind" else 1) for kind, text in lines)
    ends = 12 if node.family in ("input", "output") else 0
    return max(widest * CHAR + 18 + ends, 60.0), (8 if node.glue else 12) + LINE * len(lines)


# --- columns ---------------------------------------------------------------------------------------------


def _cuts(layout: Layout, count: int) -> Iterator[int]:
    """Layers before which the plot is cut: where few lines pass, in columns about as high as one another."""
    total = layout.bottom[-1] if layout.bottom else 0.0
    if total < LONG:
        return
    passing = [0] * len(layout.top)
    for source in range(len(layout.layer)):
        last = max((layout.layer[b] for a, b in layout.routes if a == source), default=0)
        for k in range(layout.layer[source] + 1, last + 1):
            passing[k] += 1
    target = max(total / count, SHORTEST)
    begin = 0.0
    while total - begin > 1.4 * target:
        near = [
            k for k in range(1, len(layout.top))
            if 0.6 * target < layout.top[k] - begin < 1.2 * target and passing[k] <= MAX_CROSSING_LINES
        ]  # fmt: skip
        if not near:
            return
        found = min(near, key=lambda k: (passing[k], abs(layout.top[k] - begin - target)))
        yield found
        begin = layout.top[found]


@dataclass(frozen=True)
class _Part:
    """The layers from ``lo`` below ``hi``, moved to the upper left."""

    graph: DrawnGraph
    layout: Layout
    sizes: Sequence[tuple[float, float]]
    lo: int
    hi: int

    @property
    def dy(self) -> float:
        """How far down the layout is moved."""
        return MARGIN - self.layout.top[self.lo] + (STUB if self.lo else 0.0)

    @cached_property
    def inside(self) -> list[int]:
        """The nodes in it."""
        return [n for n, layer in enumerate(self.layout.layer) if self.lo <= layer < self.hi]

    @cached_property
    def ends(self) -> Point:
        """From where to where it reaches, as the layout counts."""
        points = [
            x
            for (a, _), xs in self.layout.routes.items()
            for k, x in enumerate(xs, self.layout.layer[a])
            if self.lo <= k < self.hi
        ]
        left = min([*(self.layout.x[n] - self.sizes[n][0] / 2 for n in self.inside), *points], default=0.0)
        right = max([*(self.layout.x[n] + self.sizes[n][0] / 2 for n in self.inside), *points], default=0.0)
        return left, right

    @property
    def width(self) -> float:
        """Of the column."""
        return self.ends[1] - self.ends[0] + 2 * MARGIN

    def column(self, texts: Sequence[Lines], maximum: int) -> Column:
        """The part as it is drawn."""
        dx = MARGIN - self.ends[0]
        boxes = tuple(self._box(n, dx, texts[n], maximum) for n in self.inside)
        lines, stubs = [], dict[Point, str]()
        along = {(a, b): self.graph.nodes[a].outputs[which] for a, b, which in self.graph.edges}
        for (a, b), xs in self.layout.routes.items():
            for points_, arrow, stub in self._pieces(a, b, [x + dx for x in xs]):
                lines.append((_path(points_), (a, b), arrow, f"{along[a, b].name}: {along[a, b]}"))
                if stub is not None:
                    stubs[stub] = ending(self.graph.nodes[a].name, 24)
        height = self.layout.bottom[self.hi - 1] + self.dy + MARGIN
        height += STUB if self.hi < len(self.layout.top) else 0.0
        named = tuple((x, y, text) for (x, y), text in stubs.items())
        return Column(self.width, height, boxes, tuple(lines), named)

    def _box(self, n: int, dx: float, lines: Lines, maximum: int) -> Box:
        node, (w, h) = self.graph.nodes[n], self.sizes[n]
        color = "refused" if node.why else "edge" if node.family in ("input", "output") else color_of(node.family)
        share = (node.macs or 0) / maximum
        return Box(n, self.layout.x[n] + dx - w / 2, self._middle(n) - h / 2, w, h, lines, color, share)

    def _middle(self, n: int) -> float:
        layer = self.layout.layer[n]
        return (self.layout.top[layer] + self.layout.bottom[layer]) / 2 + self.dy

    def _pieces(self, a: int, b: int, xs: Sequence[float]) -> Iterator[tuple[list[Point], bool, Point | None]]:
        """The parts of an edge in this column: its points, whether it ends here, where it leaves for another one."""
        first, last = self.layout.layer[a], self.layout.layer[b]
        begin, end = max(first, self.lo), min(last, self.hi - 1)
        if begin > end:
            return
        points: list[Point] = []
        if first < self.lo:
            points.append((xs[begin - first], self.layout.top[begin] + self.dy - STUB))
        for layer in range(begin, end + 1):
            x = xs[layer - first]
            top, bottom = self.layout.top[layer] + self.dy, self.layout.bottom[layer] + self.dy
            if layer == first:
                points += [(x, self._middle(a) + self.sizes[a][1] / 2), (x, bottom)]
            elif layer == last:
                points += [(x, top), (x, self._middle(b) - self.sizes[b][1] / 2)]
            else:
                points += [(x, top), (x, bottom)]
        stub = None
        if last >= self.hi:
            stub = (points[-1][0], points[-1][1] + STUB)
            points.append(stub)
        yield points, last < self.hi or stub is not None, stub


def _path(points: Sequence[Point]) -> str:
    """A line straight down through layers, bent between them."""
    out = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 - y0 < 0.5:
            continue
        if abs(x0 - x1) < 0.5:
            out += f"V{y1:.1f}"
        else:
            bend = (y1 - y0) * 0.6
            out += f"C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
    return out
