"""Images of ONNX are [n, c, h, w], ours [n, h, w, c]: the way there and back, and the numbers of windows on them."""

from __future__ import annotations

from collections.abc import Sequence

from sdk.compiler.sym import Dim, ceildiv, dmax, floordiv
from sdk.frontends.images import Window
from sdk.frontends.onnx.context import OnnxNode

__all__ = ["window_of"]


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
