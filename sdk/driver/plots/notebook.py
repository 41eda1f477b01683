"""What a notebook shows of a compiled model: what goes in and out, what memory it takes, and the arena as a plot."""

from __future__ import annotations

import base64

from sdk import notebook
from sdk.boards import Board
from sdk.compiler.memory.report import plan_summary
from sdk.driver.explain import QUICK_WEIGHTS, stages
from sdk.driver.options import BuildOptions
from sdk.driver.plots.drawing import DrawnGraph, draw_module
from sdk.driver.plots.memory_page import memory_svg
from sdk.frontends.base import ModelFile
from sdk.report import BuildReport, MemoryReport

__all__ = ["model_html"]


def model_html(model: ModelFile, board: Board, options: BuildOptions, report: BuildReport) -> str:
    """The HTML of a model. The plot needs the model compiled again: it is left out of large ones."""
    seen = stages(model, board, options) if report.weights_bytes <= QUICK_WEIGHTS else None
    parts = [report.sizes_html]
    if seen is not None:
        drawing = draw_module(seen["imported"], report.model)
        parts = [*(_ends(g, len(drawing.graphs) > 1) for g in drawing.graphs), *parts]
        planned = seen["planned"]
        summaries = tuple(plan_summary(planned, plan) for plan in planned.plans.values())
        parts.append(_image(memory_svg(MemoryReport(report, options.memory, summaries))))
    return notebook.section(f"{report.model} for {board.name}", *parts)


def _ends(graph: DrawnGraph, several: bool) -> str:
    rows = [
        (f"{graph.entry} {node.kind}" if several else node.kind, node.name, str(node.outputs[0]))
        for node in graph.nodes
        if node.family in ("input", "output")
    ]
    rows += [("size", size, "") for size in graph.sizes]
    return notebook.table((), rows)


def _image(svg: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="the arena over a run" style="width:100%;max-width:40em" src="data:image/svg+xml;base64,{data}"/>'
