"""Between floats and the types they are stored in: DEQUANTIZE and QUANTIZE."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F16, F32, I8, I16, U8, DType
from sdk.errors import BuildError
from sdk.frontends.builder import Contents
from sdk.frontends.tflite.context import OpNode, Table, usable
from sdk.frontends.tflite.operators.real.common import axis_of
from sdk.frontends.tflite.rounding import rounded

__all__ = ["TABLE", "real_input"]


def dequantize(node: OpNode) -> None:
    """DEQUANTIZE: half floats, or stored integers, as floats. Constants become floats when the model is built."""
    node.out_dtype(F32)
    data, kind = node.data(0), node.tensor(0).dtype
    if data is not None and kind in (F16, I8, U8, I16):
        node.known(Contents(F32, data.astype(np.float32) if kind == F16 else _real_numbers(node, 0)))
        return
    x = node.input(0, F16, I8, U8, I16)
    if x.type.dtype == F16:
        node.cast(x, F32)
        return
    _dequantized(node, 0, x, 0)


def real_input(node: OpNode, k: int, *kinds: DType) -> Value:
    """Input ``k`` of f32, or the real numbers that one of integers stands for.

    Raises:
        BuildError: it is of none of these types, or has no scale.
    """
    x = node.input(k, *kinds)
    if x.type.dtype == F32:
        return x
    if node.data(k) is not None:
        return node.const(f"real{k}", _real_numbers(node, k))
    return _dequantized(node, k, x, f"real{k}")


def _dequantized(node: OpNode, k: int, x: Value, to: int | str) -> Value:
    scale, zero = _scales(node, k)
    zeros = node.const(f"zero{k}" if k else "zero", zero.astype(x.type.dtype.numpy))
    return node.call("dequantize", x, node.const(f"scale{k}" if k else "scale", scale), zeros, to=to)


def _scales(node: OpNode, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scales and zero points of a tensor, in a shape that broadcasts to its own.

    Raises:
        BuildError: there are none, or not one for each channel.
    """
    tensor = node.tensor(k)
    count = len(tensor.scales)
    bad = [s for s in tensor.scales if not usable(s)]
    if not count or bad:
        has = f"the scale {bad[0]}" if bad else "none"
        raise BuildError(f"tensor {tensor.title} must have positive finite scales, it has {has}")
    shape: tuple[int, ...] = ()
    if count > 1:
        rank = len(tensor.shape)
        axis = axis_of(tensor.axis, rank)
        if tensor.shape[axis] != count:
            raise BuildError(f"tensor {tensor.title} has {count} scales for {tensor.shape[axis]} channels")
        shape = tuple(count if n == axis else 1 for n in range(rank))
    scale = np.asarray(tensor.scales, np.float32).reshape(shape)
    return scale, np.asarray(tensor.zero_points, np.int64).reshape(shape)


def _real_numbers(node: OpNode, k: int) -> np.ndarray:
    """The real numbers that the constant ``k`` stands for, as f32."""
    scale, zero = _scales(node, k)
    steps = node.constant(k).astype(np.int64) - zero
    return np.asarray(steps.astype(np.float64) * scale.astype(np.float64), np.float32)


def quantize(node: OpNode) -> None:
    """QUANTIZE of floats: x / scale to the nearest integer, halves away from 0, held to the type."""
    x, kind, quant = node.input(0, F32), node.out_dtype(I8, U8, I16), node.quant(node.output())
    scale = node.const("scale", np.asarray(quant.scale, np.float32))
    steps = rounded(node, node.call("div", x, scale, to="steps"))
    lo, hi = kind.limits
    zero = node.scalar(float(quant.zero_point), x)
    moved = node.call("add", steps, zero, to="moved")
    node.cast(node.call("clip", moved, to="held", lo=float(lo), hi=float(hi)), kind)


TABLE: Table = {"DEQUANTIZE": dequantize, "QUANTIZE": quantize}
