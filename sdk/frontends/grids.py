"""Images read at the places of a grid, as ONNX's GridSample and PyTorch's grid_sample define it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import DType
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part
from sdk.frontends.places import Tap, cubic_taps, linear_taps, number, weighed

__all__ = ["sampled", "space_first", "space_last", "summed"]

_CUBIC: Final = -0.75
_PADDINGS: Final = ("zeros", "border", "reflection")


def summed(node: Emitter, parts: Sequence[Value]) -> Value:
    """The sum of tensors."""
    return reduce(lambda a, b: node.call("add", a, b), parts)


def space_first(node: Emitter, x: Value) -> Value:
    """``x[n, c, ..]`` as [n, .., c]."""
    return node.call("transpose", x, perm=(0, *range(2, x.type.rank), 1))


def space_last(node: Emitter, y: Value) -> Value:
    """``y[n, .., c]`` as [n, c, ..]."""
    rank = y.type.rank
    return node.call("transpose", y, perm=(0, rank - 1, *range(1, rank - 1)))


def sampled(node: Emitter, x: Value, grid: Value, mode: str, padding: str, aligned: bool) -> Value:
    """``x[n, c, space..]`` at the places ``grid[n, places.., axes of space]``: [n, c, places..]. These run from -1 to 1
    over each axis, the last axis first.

    Args:
        node: what is imported.
        x: the image.
        grid: of floats of 32 or 64 bits.
        mode: "nearest", "linear" or "cubic".
        padding: what is read outside: "zeros", "border" or "reflection".
        aligned: whether -1 and 1 are the middles of the outer elements, else their outer edges.

    Raises:
        BuildError: the shapes, types or options do not fit.
    """
    axes = x.type.rank - 2
    if padding not in _PADDINGS:
        node.fail(f"the mode {mode} with padding {padding} is not supported")
    if axes < 1 or grid.type.rank != axes + 2 or not same_extent(grid.type.shape[-1], axes):
        node.fail(f"a grid of shape {list(grid.type.shape)} for an image of {axes} axes")
    if mode != "nearest" and not x.type.dtype.is_float:
        node.fail(f"the mode {mode} mixes elements, which are {x.type.dtype}")
    taps = []
    for k, size in enumerate(x.type.shape[2:]):
        given = part(node, grid, axes + 1, axes - 1 - k, 1)
        flat = node.call("reshape", given, shape=grid.type.shape[:-1])
        border = _Border(node, size, padding, aligned, flat.type.dtype)
        taps.append(border.taps(mode, border.place(flat)))
    return space_last(node, summed(node, weighed(node, space_first(node, x), taps, 1)))


class _Border:
    """One axis of an image: its coordinates, and what stands for those outside."""

    def __init__(self, node: Emitter, size: Dim, padding: str, aligned: bool, kind: DType) -> None:
        self.node, self.padding, self.aligned, self.kind = node, padding, aligned, kind
        self.single = isinstance(size, int) and size == 1
        self.size = number(node, size, kind)

    def scalar(self, value: float) -> Value:
        """A constant in the type of coordinates."""
        return self.node.scalar(value, self.kind)

    def place(self, given: Value) -> Value:
        """A coordinate -1..1 in elements."""
        call = self.node.call
        shifted = call("add", given, self.scalar(1))
        if self.aligned:
            return call("mul", call("mul", shifted, self.scalar(0.5)), call("sub", self.size, self.scalar(1)))
        return call("mul", call("sub", call("mul", shifted, self.size), self.scalar(1)), self.scalar(0.5))

    def taps(self, mode: str, place: Value) -> list[Tap]:
        """The neighbours of a place, inside of the image as the padding says."""
        if mode == "nearest":
            found = [Tap(self.inside(self.node.call("round", place)), None)]
        elif mode == "linear":
            found = linear_taps(self.node, self.inside(place))
        else:
            found = cubic_taps(self.node, place, _CUBIC)  # of the place itself, as in onnxruntime and PyTorch
        return [Tap(self.inside(t.at), t.weight) for t in found]

    def inside(self, place: Value) -> Value:
        """A place, or the one inside that stands for it; with padding of zeros it stays where it is."""
        if self.padding == "zeros":
            return place
        if self.padding == "border":
            return self.held(place)
        return self.reflected(place)

    def held(self, place: Value) -> Value:
        """The nearest place of an element."""
        call = self.node.call
        return call("minimum", call("maximum", place, self.scalar(0)), call("sub", self.size, self.scalar(1)))

    def reflected(self, place: Value) -> Value:
        """Mirrored at the borders until it is inside: the distance from the lower border, modulo twice the extent."""
        call = self.node.call
        low, extent = self.scalar(0.0 if self.aligned else -0.5), self.size
        if self.aligned:
            if self.single:
                return call("mul", place, self.scalar(0))
            extent = call("maximum", call("sub", extent, self.scalar(1)), self.scalar(1))
        away = call("abs", call("sub", place, low))
        twice = call("mul", extent, self.scalar(2))
        rest = call("sub", away, call("mul", call("floor", call("div", away, twice)), twice))
        mirrored = call("add", call("minimum", rest, call("sub", twice, rest)), low)
        outside = call("or", call("less", place, low), call("greater", place, call("add", low, extent)))
        return call("where", outside, mirrored, place)
