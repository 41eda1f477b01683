"""Images read at places between their elements, which the run computes: neighbours gathered, weighed and summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product as choices

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I32, DType
from sdk.compiler.sym import Dim
from sdk.frontends.emit import Emitter

__all__ = ["Tap", "cubic_taps", "linear_taps", "number", "weighed"]


@dataclass(frozen=True)
class Tap:
    """A neighbour along one axis: its whole position as a float, and its weight (None: 1)."""

    at: Value
    weight: Value | None


def number(node: Emitter, size: Dim, kind: DType) -> Value:
    """A size as a scalar of float type ``kind``."""
    if isinstance(size, int):
        return node.scalar(size, kind)
    return node.call("cast", node.call("full", shape=(), value=size, dtype="i64"), to=str(kind))


def linear_taps(node: Emitter, place: Value) -> list[Tap]:
    """The neighbours below and above."""
    low = node.call("floor", place)
    one, part = node.scalar(1, place.type), node.call("sub", place, low)
    return [Tap(low, node.call("sub", one, part)), Tap(node.call("add", low, one), part)]


def cubic_taps(node: Emitter, place: Value, a: float) -> list[Tap]:
    """Two neighbours below and two above, by Keys' cubic convolution of parameter ``a``."""
    low = node.call("floor", place)
    part = node.call("sub", place, low)
    found = []
    for k in (-1, 0, 1, 2):
        distance = node.call("abs", node.call("sub", part, node.scalar(k, place.type)))
        near = (a + 2, -(a + 3), 0.0, 1.0) if k in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        weight = reduce(
            lambda total, c: node.call("add", node.call("mul", total, distance), node.scalar(c, place.type)),
            near[1:], node.scalar(near[0], place.type),
        )  # fmt: skip
        found.append(Tap(node.call("add", low, node.scalar(k, place.type)), weight))
    return found


def _gathered(node: Emitter, image: Value, at: Sequence[Value], batch: int) -> Value:
    """``image[batch.., space.., c]`` at whole positions ``at`` [batch.., places..], one per axis of space, given as
    floats: [batch.., places.., c]. A position outside reads 0."""
    columns = []
    for place, size in zip(at, image.type.shape[batch:], strict=False):
        outside = node.call("less", place, node.scalar(0, place.type))
        beyond = number(node, size, place.type.dtype)
        held = node.call("where", outside, beyond, node.call("minimum", place, beyond))
        index = node.call("cast", held, to=str(I32))
        columns.append(node.call("reshape", index, shape=(*index.type.shape, 1)))
    indices = node.call("concat", *columns, axis=at[0].type.rank) if len(columns) > 1 else columns[0]
    return node.call("gather_nd", image, indices, batch=batch)


def weighed(node: Emitter, image: Value, axes: Sequence[Sequence[Tap]], batch: int) -> list[Value]:
    """The neighbours of each place, each times its weight, which is one number per place: their sum is the mix. The
    shapes are those of ``_gathered``."""
    found = []
    for taps in choices(*axes):
        value = _gathered(node, image, [t.at for t in taps], batch)
        weights = [t.weight for t in taps if t.weight is not None]
        if weights:
            weight = reduce(lambda a, b: node.call("mul", a, b), weights)
            if weight.type.dtype != value.type.dtype:
                weight = node.call("cast", weight, to=str(value.type.dtype))
            value = node.call("mul", value, node.call("reshape", weight, shape=(*weight.type.shape, 1)))
        found.append(value)
    return found
