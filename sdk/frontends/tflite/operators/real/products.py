"""Sums of products of floats: convolutions, fully connected layers, matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I8, DType
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, floordiv, product, prove_eq
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.contraction import padding
from sdk.frontends.tflite.operators.real.common import apply, reshaped
from sdk.frontends.tflite.operators.real.hybrid import has_stored_weights, spread, summed, summed_by_blocks
from sdk.frontends.tflite.operators.transposed import result_numbers, result_shape

__all__ = ["TABLE", "transposed"]

_DILATION = ("Dilation", "Factor")


def _images(node: OpNode, k: int, axes: int) -> Value:
    x = node.input(k, F32)
    if x.type.rank != axes + 2:
        raise BuildError(f"the input has rank {x.type.rank} instead of {axes + 2}")
    return x


def _weights(node: OpNode, k: int, rank: int, *more: DType) -> Value:
    w = node.input(k, F32, *more)
    if w.type.rank != rank:
        raise BuildError(f"the weights have rank {w.type.rank} instead of {rank}")
    return w


def _stored(node: OpNode) -> tuple[DType, ...]:
    """What weights may be besides floats."""
    return (I8,) if has_stored_weights(node) else ()


def _numbers(node: OpNode, k: int) -> tuple[int, ...]:
    """The shape of weights, which must be numbers."""
    shape = node.input(k).type.shape
    found = tuple(d for d in shape if isinstance(d, int))
    if len(found) != len(shape):
        raise BuildError(f"weights of the open shape {list(map(str, shape))} are not supported")
    return found


def _bias(node: OpNode, k: int, channels: int) -> Value:
    """The bias, zeros where there is none; as in LiteRT only the number of its elements counts."""
    if not node.has(k):
        return node.const("bias", np.zeros(channels, np.float32))
    bias = node.input(k, F32)
    if product(bias.type.shape) != channels:
        raise BuildError(f"the bias has the shape {list(bias.type.shape)} for {channels} channels")
    return bias if bias.type.rank == 1 else _arranged(node, k, None, (channels,), "bias")


def _arranged(node: OpNode, k: int, perm: tuple[int, ...] | None, shape: tuple[int, ...], name: str) -> Value:
    """Weights with their axes in another order (or not), then in another shape; constants are turned at import."""
    data = node.data(k)
    if data is not None:
        turned = data if perm is None else np.transpose(data, perm)
        return node.const(name, np.ascontiguousarray(turned).reshape(shape))
    value = node.input(k)
    if perm is not None:
        value = node.call("transpose", value, to=f"{name}_turned", perm=perm)
    return reshaped(node, value, shape, name)


def _window(node: OpNode, x: Value, kernel: Sequence[int], letters: str) -> dict[str, Any]:
    """The attributes that convolutions share, along the axes that ``letters`` name in the options."""
    stride = tuple(node.positive(f"Stride{c}") for c in letters)
    dilation = tuple(node.positive(f"Dilation{c}Factor") for c in letters)
    kind = int(node.option("Padding"))
    pads = [padding(kind, x.type.shape[1 + n], kernel[n], stride[n], dilation[n]) for n in range(len(kernel))]
    return {"stride": stride, "dilation": dilation, "pad": (*(a for a, _ in pads), *(b for _, b in pads))}


def conv_2d(node: OpNode) -> None:
    """CONV_2D: weights [o, kh, kw, c / groups]."""
    x, w = _images(node, 0, 2), _weights(node, 1, 4, *_stored(node))
    channels, kh, kw, depth = _numbers(node, 1)
    have = x.type.shape[3]
    if not isinstance(have, int) or depth < 1 or have % depth or channels % max(have // depth, 1):
        raise BuildError(f"weights of shape {list(w.type.shape)} do not fit {have} input channels")
    groups = {"groups": have // depth} if have != depth else {}
    window = {**_window(node, x, (kh, kw), "HW"), **groups}
    if has_stored_weights(node):
        bias = _bias(node, 2, channels) if node.has(2) else None
        summed(node, "conv2d", x, w, 0, (1, 2, 3), bias, **window)
        return
    apply(node, "conv2d", x, w, _bias(node, 2, channels), **window)


def depthwise_conv_2d(node: OpNode) -> None:
    """DEPTHWISE_CONV_2D: weights [1, kh, kw, c * multiplier]."""
    x, w = _images(node, 0, 2), _weights(node, 1, 4, *_stored(node))
    one, kh, kw, channels = _numbers(node, 1)
    depth = x.type.shape[3]
    if one != 1 or not isinstance(depth, int) or depth < 1 or channels % depth:
        raise BuildError(f"weights of shape {list(w.type.shape)} do not fit {depth} input channels")
    taps = _arranged(node, 1, None, (kh, kw, channels), "taps")
    window = {**_window(node, x, (kh, kw), "HW"), "multiplier": channels // depth}
    if has_stored_weights(node):
        bias = _bias(node, 2, channels) if node.has(2) else None
        summed(node, "depthwise_conv2d", x, taps, 3, (1, 2, 3), bias, **window)
        return
    apply(node, "depthwise_conv2d", x, taps, _bias(node, 2, channels), **window)


def conv_3d(node: OpNode) -> None:
    """CONV_3D: weights [kd, kh, kw, c, o]."""
    x, w = _images(node, 0, 3), _weights(node, 1, 5)
    kd, kh, kw, depth, channels = _numbers(node, 1)
    if not same_extent(x.type.shape[4], depth):
        raise BuildError(f"weights of shape {list(w.type.shape)} do not fit {x.type.shape[4]} input channels")
    taps = _arranged(node, 1, (4, 0, 1, 2, 3), (channels, kd, kh, kw, depth), "taps")
    apply(node, "conv3d", x, taps, _bias(node, 2, channels), **_window(node, x, (kd, kh, kw), "DHW"))


def transpose_conv(node: OpNode) -> None:
    """TRANSPOSE_CONV: inputs (shape of the output, weights [o, kh, kw, c], x, bias)."""
    stride, kind = (node.positive("StrideH"), node.positive("StrideW")), int(node.option("Padding"))
    if has_stored_weights(node):
        bias = _bias(node, 3, node.tensor(1).shape[0]) if node.has(3) else None
        spread(node, _images(node, 2, 2), result_numbers(node), bias)
        return
    x, w, bias, window = transposed(node, (2, 1, 3), result_shape(node), stride, kind)
    apply(node, "conv_transpose2d", x, w, bias, **window)


def conv_3d_transpose(node: OpNode) -> None:
    """CONV_3D_TRANSPOSE: inputs (shape of the output, weights [kd, kh, kw, o, c], x, bias)."""
    stride, dilation = (tuple(node.positive(f"{k}{c}{e}") for c in "DHW") for k, e in (("Stride", ""), _DILATION))
    kind = int(node.option("Padding"))
    x, w, bias, window = transposed(node, (2, 1, 3), result_shape(node), stride, kind, dilation)
    apply(node, "conv_transpose3d", x, w, bias, **window)


def transposed(
    node: OpNode, inputs: tuple[int, int, int], out: tuple[Dim, ...], stride: tuple[int, ...], kind: int,
    dilation: tuple[int, ...] = (1, 1),
) -> tuple[Value, Value, Value, dict[str, Any]]:  # fmt: skip
    """Image, weights [o, taps.., c] and bias of a transposed convolution to images of shape ``out``, and its window.
    ``inputs`` are the numbers of the three; weights of volumes are [taps.., o, c] in the file.

    Raises:
        BuildError: these do not fit each other.
    """
    axes = len(stride)
    x, w = _images(node, inputs[0], axes), _weights(node, inputs[1], axes + 2)
    shape = _numbers(node, inputs[1])
    channels, *kernel, depth = shape if axes == 2 else (shape[-2], *shape[:-2], shape[-1])
    if len(out) != axes + 2 or not same_extent(out[0], x.type.shape[0]) or not same_extent(out[-1], channels):
        raise BuildError(f"the shape {list(map(str, out))} of the output does not fit {channels} channels")
    if not same_extent(x.type.shape[-1], depth):
        raise BuildError(f"weights of shape {list(w.type.shape)} do not fit {x.type.shape[-1]} input channels")
    if axes > 2:
        w = _arranged(node, inputs[1], (axes, *range(axes), axes + 1), (channels, *kernel, depth), "taps")
    before, after, more = [], [], []
    for n, taps in enumerate(kernel):
        first, _ = padding(kind, out[1 + n], taps, stride[n], dilation[n])
        rest = (x.type.shape[1 + n] - 1) * stride[n] + (taps - 1) * dilation[n] + 1 - first - out[1 + n]
        if not isinstance(rest, int):
            raise BuildError(f"the size {out[1 + n]} of the output is not known to follow from {x.type.shape[1 + n]}")
        before.append(first)
        after.append(max(rest, 0))
        more.append(max(-rest, 0))
    window = {"stride": stride, "dilation": dilation, "pad": (*before, *after), "more": tuple(more)}
    return x, w, _bias(node, inputs[2], channels), window


def fully_connected(node: OpNode) -> None:
    """FULLY_CONNECTED: the input as rows of k numbers, weights [n, k]."""
    if int(node.option("WeightsFormat")) != 0:
        raise BuildError("shuffled weights are not supported")
    x, w = node.input(0, F32), _weights(node, 1, 2, *_stored(node))
    channels, inner = w.type.shape
    rows = _rows(x.type.shape, inner)
    flat = reshaped(node, x, (rows, inner), "rows")
    shape: tuple[Dim, ...] = (rows, channels)
    if node.option("KeepNumDims"):
        shape = (*x.type.shape[:-1], channels)
    elif node.output().ranked and len(node.output().shape) != 2:
        shape = node.output().shape
    view = None if len(shape) == 2 else shape
    bias = None
    if node.has(2):
        if not isinstance(channels, int):
            raise BuildError(f"a bias for the open number of channels {channels} is not supported")
        bias = _bias(node, 2, channels)
    if node.tensor(1).blocks is not None:
        summed_by_blocks(node, flat, bias, view)
        return
    if has_stored_weights(node):
        summed(node, "dense", flat, w, 0, (1,), bias, view, x_offset=0, w_offset=0)
        return
    weights, given = w, {"trans_b": True}
    data = node.data(1)
    if data is not None:
        weights, given = node.const("weights", np.ascontiguousarray(data.T)), {}
    if bias is None:
        apply(node, "matmul", flat, weights, view=view, **given)
    else:
        apply(node, "add", node.call("matmul", flat, weights, to="products", **given), bias, view=view)


def _rows(shape: tuple[Dim, ...], inner: Dim) -> Dim:
    """How many rows of ``inner`` numbers a tensor holds."""
    if shape and same_extent(shape[-1], inner):
        return product(shape[:-1])
    size = product(shape)
    rows = 0 if isinstance(inner, int) and inner == 0 else floordiv(size, inner)
    if prove_eq(rows * inner, size) is not True:
        raise BuildError(f"{size} numbers are no rows of {inner}")
    return rows


def batch_matmul(node: OpNode) -> None:
    """BATCH_MATMUL: products of matrices, each perhaps transposed, over the axes before."""
    a, b = node.input(0, F32), node.input(1, F32)
    flags = {name: True for name, key in (("trans_a", "AdjX"), ("trans_b", "AdjY")) if node.option(key)}
    node.call("matmul", a, b, **flags)


TABLE: Table = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "CONV_3D": conv_3d,
    "CONV_3D_TRANSPOSE": conv_3d_transpose,
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_matmul,
}
