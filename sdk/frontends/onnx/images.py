"""Images of ONNX are [n, c, h, w], ours [n, h, w, c]: the way there and back, and the numbers of windows on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim, ceildiv, dmax, floordiv
from sdk.frontends.onnx.context import OnnxNode

__all__ = ["Window", "channels_first", "channels_last", "moved", "window_of"]


def channels_last(node: OnnxNode, x: Value) -> Value:
    """``x[n, c, ..]`` as [n, .., c]; one axis of an image becomes two, the first of extent 1.

    Raises:
        BuildError: the image has no axis, or more than three.
    """
    axes = x.type.rank - 2
    if not 1 <= axes <= 3:
        node.fail(f"images of {max(axes, 0)} axes are not supported, only of 1, 2 and 3")
    last = node.call("transpose", x, perm=(0, *range(2, x.type.rank), 1))
    if axes > 1:
        return last
    n, w, c = last.type.shape
    return node.call("reshape", last, shape=(n, 1, w, c))


def channels_first(node: OnnxNode, y: Value, axes: int) -> Value:
    """The way back, to an image of ``axes`` axes."""
    if axes == 1:
        n, _, w, c = y.type.shape
        y = node.call("reshape", y, shape=(n, w, c))
    rank = y.type.rank
    return node.call("transpose", y, perm=(0, rank - 1, *range(1, rank - 1)))


def moved(node: OnnxNode, k: int, shape: Sequence[int], perm: Sequence[int], stem: str) -> Value:
    """Input ``k`` in another shape, then with its axes permuted: at build time where it is known."""
    data = node.data(k)
    if data is not None:
        return node.const(np.ascontiguousarray(data.reshape(shape).transpose(perm)), stem)
    value = node.x(k)
    if tuple(shape) != value.type.shape:
        value = node.call("reshape", value, shape=tuple(shape))
    return value if list(perm) == list(range(len(perm))) else node.call("transpose", value, perm=tuple(perm))


@dataclass(frozen=True, slots=True)
class Window:
    """The numbers of a window along the axes of an image of ours (two axes where ONNX has one). ``pad`` may hold
    symbolic numbers: then they must become a ``pad`` of their own."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[Dim, ...]

    @property
    def fixed_pad(self) -> tuple[int, ...] | None:
        """The padding when it is numbers."""
        found = tuple(p for p in self.pad if isinstance(p, int))
        return found if len(found) == len(self.pad) else None


def window_of(node: OnnxNode, sizes: Sequence[Dim], kernel: Sequence[int]) -> Window:
    """The window of a node on an image of these ``sizes``.

    Raises:
        BuildError: an attribute has the wrong length or is out of range.
    """
    axes = len(sizes)
    stride = tuple(node.ints("strides", (1,) * axes))
    dilation = tuple(node.ints("dilations", (1,) * axes))
    pad: tuple[Dim, ...] = tuple(node.ints("pads", (0,) * 2 * axes))
    if not len(kernel) == len(stride) == len(dilation) == axes or len(pad) != 2 * axes:
        node.fail(f"kernel, strides, dilations or pads do not fit an image of {axes} axes")
    if min((*kernel, *stride, *dilation)) < 1:
        node.fail("a kernel, stride or dilation is not positive")
    auto = node.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        node.fail(f"auto_pad {auto} is not supported")
    if auto == "VALID":
        pad = (0,) * 2 * axes
    elif auto != "NOTSET":
        pad = _same(sizes, kernel, stride, dilation, auto == "SAME_LOWER")
    if axes == 1:
        return Window((1, *kernel), (1, *stride), (1, *dilation), (0, pad[0], 0, pad[1]))
    return Window(tuple(kernel), stride, dilation, pad)


def _same(
    sizes: Sequence[Dim], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], lower: bool
) -> tuple[Dim, ...]:
    """The padding that gives ``ceil(size / stride)`` windows, the odd row after (or, ``lower``, before) the image."""
    before: list[Dim] = []
    after: list[Dim] = []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        total = dmax((ceildiv(size, s) - 1) * s + (k - 1) * d + 1 - size, 0)
        less = floordiv(total, 2)
        before.append(total - less if lower else less)
        after.append(less if lower else total - less)
    return (*before, *after)
