"""The drawn graph of a model as a page and as a plot alone: files that ask for nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from sdk.driver.plots.drawing import Drawing
from sdk.driver.plots.families import FAMILIES
from sdk.driver.plots.graph import GraphPlot, color_of, graph_plot
from sdk.driver.plots.templates import render
from sdk.driver.plots.words import bytes_text, macs_words

__all__ = ["graph_page", "graph_svg"]

LEGEND = 6.4  # pixels of a character


def graph_page(drawing: Drawing) -> str:
    """The page, as HTML that is XML too."""
    graphs = [(g, graph_plot(g, scrolls=True)) for g in drawing.graphs]
    return render(
        "graph.html.j2", drawing=drawing, graphs=graphs, cards=list(_cards(drawing)), summary=_summary(drawing),
        colors={f: color_of(f) for f in FAMILIES}, refused=any(n.why for g in drawing.graphs for n in g.nodes),
    )  # fmt: skip


def graph_svg(drawing: Drawing) -> str:
    """The plots of all entries one below the other, as an SVG file."""
    told = [f"{word} {value}" for word, value in _cards(drawing)]
    heading = [("title", 22, drawing.model), ("told", 40, ", ".join([_summary(drawing), *told]))]
    if drawing.problem:
        heading.append(("problem", 58, drawing.problem))
        heading += [("problem", 76, drawing.hint)] if drawing.hint else []
    width, y = 14 + 6.0 * max(len(text) for _, _, text in heading), 26.0 + heading[-1][1]
    columns, legend = [], []
    for k, (graph, plot) in enumerate((g, graph_plot(g)) for g in drawing.graphs):
        line = ", ".join(graph.sizes)
        title = f"entry {graph.entry}: " if len(drawing.graphs) > 1 else ""
        if title or line:
            heading.append(("told", int(y), f"{title}{line}"))
            y += 20
        legend += list(_legend(plot, y))
        width = max(width, *(x + LEGEND * len(f) + 30 for x, _, f, _ in legend)) if legend else width
        x, y = 0.0, y + 12
        for column in plot.columns:
            columns.append((x, y, graph, column, f"g{k}"))
            x += column.width + 12
        width = max(width, x)
        y += max((c.height for c in plot.columns), default=0.0) + 20
    return render(
        "graph.svg.j2", drawing=drawing, heading=heading, legend=legend, columns=columns, width=round(width),
        height=round(y),
    )  # fmt: skip


def _legend(plot: GraphPlot, y: float) -> Iterator[tuple[float, float, str, str]]:
    x = 14.0
    for family, color in plot.legend:
        yield x, y, family, color
        x += LEGEND * len(family) + 34


def _summary(drawing: Drawing) -> str:
    operators = sum(n.family not in ("input", "output") for g in drawing.graphs for n in g.nodes)
    refused = sum(bool(n.why) for g in drawing.graphs for n in g.nodes)
    return f"{operators} operators" + (f", {refused} of them not supported" if refused else "")


def _cards(drawing: Drawing) -> Iterator[tuple[str, str]]:
    counts = [macs_words(g.macs, g.macs_text) for g in drawing.graphs]
    if any(g.macs or g.macs_text for g in drawing.graphs):
        yield "MACs", " + ".join(counts)
    yield "weights", bytes_text(drawing.weights)
    if drawing.states:
        yield "states", bytes_text(drawing.state_bytes)
    for side in ("input", "output"):
        found = [str(n.outputs[0]) for n in drawing.graphs[0].nodes if n.family == side] if drawing.graphs else []
        yield side, found[0] if len(found) == 1 else f"{len(found)} tensors"
