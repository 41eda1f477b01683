"""MaxPoolingWithArgmax2D and MaxUnpooling2D, of the models of MediaPipe: maxima and their places, and back. LiteRT has
an unpooling of its own, LiteRtMaxUnpooling2D, whose places are positions in the result."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from sdk.compiler.ir.types import F32, I32, TensorType
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.contraction import padding
from sdk.frontends.tflite.operators.custom.terms import Term, given, whole

__all__ = ["TABLE"]

_PADDINGS: Final = {1: 0, 2: 1}  # by the number that the operators of the schema have
_MAX: Final = 1 << 15
_LOWEST: Final = float(np.finfo(np.float32).min)
_Pair = tuple[int, int]


def _options(node: OpNode) -> tuple[int, _Pair, _Pair]:
    """The padding, and strides and window down and across: a record of C that ends with an activation and room."""
    raw = node.operator.custom_options
    if len(raw) < 24 or len(raw) % 4:
        raise BuildError(f"its options are {len(raw)} bytes, not 24 or more")
    kind, across, down, width, height, activation = struct.unpack("<6i", raw[:24])
    if kind not in _PADDINGS or not all(1 <= v < _MAX for v in (across, down, width, height)):
        raise BuildError(f"its options are a padding {kind}, strides {down}, {across} and a window {height}, {width}")
    if activation:
        raise BuildError(f"the fused activation {activation} is not supported")
    return _PADDINGS[kind], (down, across), (height, width)


def _image(node: OpNode, k: int) -> tuple[Term, tuple[int, ...]]:
    x = given(node, k, F32)
    shape = x.value.type.static_shape
    if len(shape) != 4 or 0 in shape:
        raise BuildError(f"input {k} ({node.tensor(k).title}) has the shape {list(shape)}, an image is wanted")
    return x, shape


def _along(size: int, step: int, axis: int) -> np.typing.NDArray[np.int32]:
    """Where the windows of an axis of 4 begin."""
    return (np.arange(size, dtype=np.int32) * step).reshape([-1 if k == axis else 1 for k in range(4)])


def max_and_place(node: OpNode) -> None:
    """MaxPoolingWithArgmax2D: maxima of images [n, h, w, c], and as floats which tap of the window each was."""
    whole(node, 1, 2)
    kind, stride, kernel = _options(node)
    x, shape = _image(node, 0)
    top, bottom = padding(kind, shape[1], kernel[0], stride[0], 1)
    left, right = padding(kind, shape[2], kernel[1], stride[1], 1)
    values, places = x.emit.calls(
        "argmax_pool2d", x.value, kernel=kernel, stride=stride, pad=(top, left, bottom, right)
    )
    best, place = Term(x.emit, values), Term(x.emit, places)
    _, rows, columns, _ = values.type.static_shape
    width = place.number(shape[2])
    row = place.call("div", width) - place.table(_along(rows, stride[0], 1) - top, I32, "rows")
    column = place.call("fmod", width) - place.table(_along(columns, stride[1], 2) - left, I32, "columns")
    tap = (best > _LOWEST).where(row * kernel[1] + column, 0)
    node.call("maximum", best.value, best.number(_LOWEST).value)
    node.call("add", tap.to(F32).value, best.number(0.1).value, to=1)


def max_unpooling(node: OpNode) -> None:
    """MaxUnpooling2D: values [n, h, w, c] at the taps that the second input tells, 0 elsewhere. Integers there mean
    LiteRT's operator, which older files call so too."""
    whole(node, 2, 1)
    if node.tensor(1).dtype == I32:
        unpooling_by_position(node)
        return
    _, stride, kernel = _options(node)
    (x, shape), (taps, found) = _image(node, 0), _image(node, 1)
    if stride != kernel or shape != found:
        why = f"values {list(shape)} and taps {list(found)} of a window {list(kernel)} with strides {list(stride)}"
        raise BuildError(f"{why}: one tap a value is wanted, and windows that stand side by side")
    n, h, w, c = shape
    size = (n, h * kernel[0], w * kernel[1], c)
    if n * h * w * c * kernel[0] * kernel[1] >= 1 << 31:
        raise BuildError(f"an image of {list(size)} is too large")
    first = (np.arange(n, dtype=np.int32) * size[1]).reshape(-1, 1, 1, 1) + _along(h, kernel[0], 1)
    tap = taps.to(I32)
    across = tap.number(kernel[1])
    row = tap.call("div", across) + tap.table(first, I32, "rows")
    column = tap.call("fmod", across) + tap.table(_along(w, kernel[1], 2), I32, "columns")
    place = (row * size[2] + column) * c + tap.table(_along(c, 1, 3), I32, "channels")
    zeros = x.emit.call("full", shape=(n * size[1] * size[2] * c,), value=0.0, dtype=str(F32))
    flat = [t.call("reshape", shape=(n * h * w * c,)).value for t in (place, x)]
    image = x.emit.call("scatter_elements", zeros, *flat, axis=0, reduction="none")
    node.call("reshape", image, shape=size)


def unpooling_by_position(node: OpNode) -> None:
    """LiteRtMaxUnpooling2D: values [n, h, w, c] at the positions that the second input tells, 0 elsewhere. A position
    counts the elements of an image of the result; one outside writes nothing, of equal ones the last counts."""
    whole(node, 2, 1)
    kind, stride, kernel = _options(node)
    (x, shape), places = _image(node, 0), given(node, 1, I32)
    if places.value.type.shape != shape:
        raise BuildError(f"values {list(shape)} have positions {list(places.value.type.shape)}, one a value is wanted")
    n, h, w, c = shape
    same = kind == _PADDINGS[1]
    rows, columns = (
        size * step if same else (size - 1) * step + taps
        for size, step, taps in zip((h, w), stride, kernel, strict=True)
    )
    image = rows * columns * c
    if n * image >= 1 << 31:
        raise BuildError(f"an image of {[n, rows, columns, c]} is too large")
    zeros = x.emit.call("full", shape=(n, image), value=0.0, dtype=str(F32))
    where = places.call("reshape", shape=(n, h * w * c))
    inside = (where >= 0).where(where, image)  # a position below 0 is none from the end
    values = x.call("reshape", shape=(n, h * w * c))
    found = x.emit.call("scatter_elements", zeros, inside.value, values.value, axis=1, reduction="none")
    # its kernel makes this shape, whatever the file says of the result
    whole_shape = (n, rows, columns, c)
    (value,) = node.builder.emit(
        "reshape", (found,), {"shape": whole_shape}, (TensorType(F32, whole_shape),), (node.output().name,), node.source
    )
    node.bind(0, value)


TABLE: Table = {
    "LiteRtMaxUnpooling2D": unpooling_by_position,
    "MaxPoolingWithArgmax2D": max_and_place,
    "MaxUnpooling2D": max_unpooling,
}
