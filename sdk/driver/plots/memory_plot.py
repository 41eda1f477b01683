"""The plot of a run's memory: over time the places of tensors in an arena, and how many bytes are in use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sdk.compiler.memory.report import LiveTensor, PlanSummary
from sdk.compiler.memory.trace import Moment
from sdk.driver.plots.labels import LABEL_WIDTH, Shape, clear, fitting, short_names

__all__ = ["Curve", "Panel", "Plot", "describe", "how_kept", "plot_of"]

WIDTH = 960.0
LEFT = 64.0  # for the numbers of bytes
PANEL = 300.0  # height of all arenas together
CURVE = 110.0
MIN_REPEAT_STEPS = 4  # steps as wide as which a repeat is drawn at least
BUCKETS = 320  # columns that a repeat is drawn in at most
COLORS = 8

Box = tuple[float, float, int, int]  # from and to in time, and in bytes


@dataclass(frozen=True)
class Column:
    """Moments that are drawn as one, from ``left`` to ``right``: bytes held at most, and by tensor (its position in
    the summary) which bytes of its arena. ``alone``: the step is in no repeat."""

    left: float
    right: float
    step: int
    alone: bool
    bytes: int
    held: Mapping[int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Panel:
    """An arena, drawn from ``top`` to ``bottom``: its name, ticks of bytes, shapes."""

    name: str
    top: float
    bottom: float
    ticks: tuple[tuple[float, str], ...]
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Curve:
    """Bytes in use over time, as an area, with heights of the bound and of the arena."""

    path: str
    top: float
    bottom: float
    bound: float
    arena: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Plot:
    """All of it: ``steps`` are labels under the plot, ``bands`` the repeats from left to right with their words."""

    width: float
    height: float
    left: float
    panels: tuple[Panel, ...]
    curve: Curve
    steps: tuple[tuple[float, str], ...]
    bands: tuple[tuple[float, float, str], ...]


def plot_of(summary: PlanSummary) -> Plot:
    """The plot of a run of an entry.

    A step is as wide as any other, however long it takes; the steps of a repeat share the width of all of them, one
    sliver a turn.
    """
    columns = list(_columns(summary))
    arenas = [r for r in summary.regions if r.kind == "arena" and r.bytes]
    total = sum(r.bytes for r in arenas) or 1
    panels = []
    top = 10.0
    for region in arenas:
        height = max(PANEL * region.bytes / total, 48.0)
        panels.append(_panel(summary, columns, region.name, region.bytes, top, height))
        top += height + 14
    curve = _curve(summary, columns, top + 10)
    bands = tuple(_bands(summary, columns))
    return Plot(WIDTH, curve.bottom + 22, LEFT, tuple(panels), curve, tuple(_labels(columns)), bands)


# --- time ------------------------------------------------------------------------------------------------


def _columns(summary: PlanSummary) -> Iterator[Column]:
    parts = list(_parts(summary))
    units = sum(width for width, _ in parts)
    unit, left = (WIDTH - LEFT - 8) / units, LEFT
    position = {name: k for k, t in enumerate(summary.tensors) for name in t.names}
    for width, moments in parts:
        each = -(-len(moments) // BUCKETS)
        buckets = [moments[k : k + each] for k in range(0, len(moments), each)]
        for k, bucket in enumerate(buckets):
            a, b = (left + width * unit * (k + n) / len(buckets) for n in (0, 1))
            alone = len(moments) == 1
            yield Column(a, b, bucket[0].step, alone, max(m.bytes for m in bucket), _held(bucket[-1], position))
        left += width * unit


def _parts(summary: PlanSummary) -> Iterator[tuple[float, list[Moment]]]:
    """The moments of each step, and together those of all steps of a repeat, with how many steps wide they are."""
    outer = {r.step: r.repeats[0] for r in summary.timeline if r.repeats}
    found: dict[tuple[int, int], list[Moment]] = {}
    for moment in summary.trace.moments:
        found.setdefault(outer.get(moment.step, (moment.step, moment.step)), []).append(moment)
    for (first, last), moments in found.items():
        ends = not 0 < first <= len(summary.timeline)
        steps = 0.5 if ends else last - first + 1
        yield steps if len(moments) == 1 else max(steps, min(MIN_REPEAT_STEPS, len(moments))), moments


def _held(moment: Moment, position: Mapping[str, int]) -> dict[int, tuple[tuple[int, int], ...]]:
    out: dict[int, list[tuple[int, int]]] = {}
    for h in moment.held:
        if h.buffer not in position:
            continue
        spans = out.setdefault(position[h.buffer], [])
        if spans and spans[-1][1] == h.lo:
            spans[-1] = (spans[-1][0], h.hi)
        else:
            spans.append((h.lo, h.hi))
    return {k: tuple(spans) for k, spans in out.items()}


def _labels(columns: Sequence[Column]) -> Iterator[tuple[float, str]]:
    """Numbers of the steps outside of repeats, as many as there is room for; none of the ends."""
    free = 0.0
    for c in columns[1:-1]:
        middle = (c.left + c.right) / 2
        if c.alone and middle - 9 >= free:
            yield middle, str(c.step)
            free = middle + 9


def _bands(summary: PlanSummary, columns: Sequence[Column]) -> Iterator[tuple[float, float, str]]:
    for first, last in dict.fromkeys(r.repeats[0] for r in summary.timeline if r.repeats):
        inside = [c for c in columns if first <= c.step <= last]
        if inside:
            left, right = inside[0].left, inside[-1].right
            steps = f"{first}-{last}" if last > first else f"{first}"
            words = [f"{steps} by rows", steps]
            yield left, right, next((w for w in words if len(w) * LABEL_WIDTH <= right - left), "")


# --- bytes -----------------------------------------------------------------------------------------------


def _panel(summary: PlanSummary, columns: Sequence[Column], region: str, size: int, top: float, height: float) -> Panel:
    def y(byte: float) -> float:
        return top + height * (1 - byte / size)

    names = short_names([t.title for t in summary.tensors])
    born = sorted((t.first, t.offset, k) for k, t in enumerate(summary.tensors) if t.region == region)
    shapes = [
        shape
        for number, (_, _, k) in enumerate(born)
        for shape in _shapes(summary.tensors[k], k, (number % COLORS, names[k]), columns, y)
    ]
    shapes.sort(key=lambda s: "hatched" in s.classes)  # places that are only taken in turns do not hide anything
    return Panel(region, top, top + height, _ticks(size, y), tuple(clear(shapes)))


def _shapes(
    tensor: LiveTensor, index: int, look: tuple[int, list[str]], columns: Sequence[Column], y: Callable[[float], float]
) -> Iterator[Shape]:
    color, names = look
    mine = [c for c in columns if index in c.held]
    if not mine:
        return
    place = (tensor.offset, tensor.offset + tensor.bytes)
    in_turns = tensor.ring is not None or (tensor.role == "scratch" and len(mine) > 1)
    # of what is used in turns other bytes are in use at every moment: too fine to draw
    boxes = [(mine[0].left, mine[-1].right, *place)] if in_turns else list(_boxes(columns, index))
    classes = f"{'scratch' if tensor.role == 'scratch' else f'c{color}'}{' hatched' if in_turns else ''}"
    path = "".join(_outline(run, y) for run in _runs(boxes))
    a, b, lo, hi = max(boxes, key=lambda box: (box[1] - box[0]) * (box[3] - box[2]))
    label = fitting(names, b - a, y(lo) - y(hi))
    turned = "" if label else fitting(names, y(lo) - y(hi), b - a)
    yield Shape(index, path, classes, describe(tensor), label or turned, bool(turned), (a + b) / 2, (y(lo) + y(hi)) / 2)


def _boxes(columns: Sequence[Column], index: int) -> Iterator[Box]:
    """What is held of a tensor: from and to in time, bytes from and to; columns that are alike as one."""
    start = 0
    for k in range(1, len(columns) + 1):
        spans = columns[start].held.get(index, ())
        if k == len(columns) or columns[k].held.get(index, ()) != spans:
            yield from ((columns[start].left, columns[k - 1].right, lo, hi) for lo, hi in spans)
            start = k


def _runs(boxes: Sequence[Box]) -> Iterator[list[Box]]:
    """Boxes that follow on one another, as one outline; others alone."""
    run: list[Box] = []
    for box in boxes:
        if run and run[-1][1] != box[0]:
            yield run
            run = []
        run.append(box)
    if run:
        yield run


def _outline(run: Sequence[Box], y: Callable[[float], float]) -> str:
    """Along the low bytes, and back along the high ones."""
    forth = "".join(f"{'V' if k else f'M{a:.1f} '}{y(lo):.1f}H{b:.1f}" for k, (a, b, lo, _) in enumerate(run))
    back = "".join(f"V{y(hi):.1f}H{a:.1f}" for a, _, _, hi in reversed(run))
    return f"{forth}{back}z"


def describe(tensor: LiveTensor) -> str:
    """A tensor in words: how it lies in memory and when."""
    shape = " x ".join(map(str, tensor.shape))
    steps = f"steps {tensor.first}-{tensor.last}" if tensor.last > tensor.first else f"step {tensor.first}"
    words = [f"{tensor.bytes:,} bytes from {tensor.offset:,}", steps, f"{tensor.dtype} {shape}", *how_kept(tensor)]
    return f"{tensor.title}: {', '.join(words)}"


def how_kept(tensor: LiveTensor) -> list[str]:
    """What is special about how a tensor is kept."""
    out = []
    if tensor.ring is not None:
        out.append(f"ring of {tensor.ring} of its {tensor.rows} rows")
    if tensor.over:
        out.append(f"written over {', '.join(tensor.over)}")
    return out


def _curve(summary: PlanSummary, columns: Sequence[Column], top: float) -> Curve:
    maximum = max(summary.peak, summary.lower_bound, 1)

    def y(byte: float) -> float:
        return top + CURVE * (1 - byte / maximum)

    bottom = top + CURVE
    line = "".join(f"V{y(c.bytes):.1f}H{c.right:.1f}" for c in columns)
    path = f"M{columns[0].left:.1f} {bottom:.1f}{line}V{bottom:.1f}z"
    return Curve(path, top, bottom, y(summary.lower_bound), y(summary.peak), _ticks(maximum, y, 2))


def _ticks(size: int, y: Callable[[float], float], count: int = 4) -> tuple[tuple[float, str], ...]:
    """Heights and numbers of round bytes, about ``count`` above 0."""
    step = max(size / count, 1)
    unit = 10 ** int(math.log10(step))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= step * 0.75)
    return tuple((y(b), f"{b:,}") for b in range(0, size + 1, step))
