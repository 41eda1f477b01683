"""Labels in the plot of memory: short names that tell tensors apart, written where there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = ["LABEL_WIDTH", "Shape", "clear", "fitting", "short_names"]

LABEL_WIDTH = 6.0  # of a character
LABEL_HEIGHT = 13.0


@dataclass(frozen=True)
class Shape:
    """A tensor in the plot: ``path`` in SVG, the classes that colour it, what to say of it, and the middle of its
    label ("" = none), which is ``turned`` upwards where it only fits so."""

    tensor: int
    path: str
    classes: str
    tip: str
    label: str
    turned: bool
    x: float
    y: float


def short_names(titles: Sequence[str]) -> list[list[str]]:
    """Ways to write each title that no other is written like, the longest first: its end, or a part of it."""
    parts = [title.split("/") for title in titles]
    ends = Counter("/".join(p[k:]) for p in parts for k in range(len(p)))
    single = Counter(word for p in parts for word in set(p))
    out = []
    for p in parts:
        found = [end for end in ("/".join(p[k:]) for k in range(len(p))) if ends[end] == 1]
        out.append([*found, *sorted((w for w in p if single[w] == 1), key=len, reverse=True)])
    return out


def fitting(names: Sequence[str], width: float, height: float) -> str:
    """The first of the names for which there is room, "" for none."""
    if height < LABEL_HEIGHT:
        return ""
    return next((text for text in names if len(text) * LABEL_WIDTH + 6 <= width), "")


def clear(shapes: Sequence[Shape]) -> Iterator[Shape]:
    """The shapes without labels that would be written over others."""
    taken: list[tuple[float, float, float, float]] = []
    for shape in shapes:
        long, high = len(shape.label) * LABEL_WIDTH / 2, LABEL_HEIGHT / 2
        w, h = (high, long) if shape.turned else (long, high)
        x, y = shape.x, shape.y
        if any(abs(x - a) < w + c and abs(y - b) < h + d for a, b, c, d in taken):
            yield replace(shape, label="")
            continue
        if shape.label:
            taken.append((x, y, w, h))
        yield shape
