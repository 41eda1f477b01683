"""Between floats and the types they are stored in: DEQUANTIZE, QUANTIZE, FAKE_QUANT, and BITCAST."""

from __future__ import annotations

from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, F16, F32, I8, I16, U8, U16, U32, U64, DType
from sdk.errors import BuildError
from sdk.frontends.builder import Contents
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part, type_text
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


def fake_quant(node: OpNode) -> None:
    """FAKE_QUANT: the nearest of 2**bits numbers between two ends, which are moved so that 0 is one of them."""
    x, bits = node.input(0, F32), int(node.option("NumBits"))
    low, high = np.float32(node.option("Min")), np.float32(node.option("Max"))
    if not 2 <= bits <= 16 or not low <= 0 <= high or low == high or not np.isfinite([low, high]).all():
        raise BuildError(f"{bits} bits from {low} to {high}")
    if node.option("NarrowRange"):
        raise BuildError("a narrow range is not supported")
    steps = np.float32((1 << bits) - 1)
    scale = np.float32(high - low) / steps
    zero = np.floor(np.clip(-low / scale, np.float32(0), steps) + np.float32(0.5))
    low, high = -zero * scale, (steps - zero) * scale
    held = node.call("clip", x, to="held", lo=float(low), hi=float(high))
    above = node.call("sub", held, node.scalar(float(low), x), to="above")
    whole = rounded(node, node.call("mul", above, node.scalar(float(np.float32(1) / scale), x), to="steps"))
    node.call("add", node.call("mul", whole, node.scalar(float(scale), x), to="size"), node.scalar(float(low), x))


_UNSIGNED: Final = {1: U8, 2: U16, 4: U32, 8: U64}


def bitcast(node: OpNode) -> None:
    """BITCAST: the same bytes, the lowest first, as another type; one element becomes several along a new last axis, or
    those of the last axis become one."""
    x, kind = node.input(0), node.output().dtype
    if kind is None or kind == BOOL:
        raise BuildError(f"output {node.output().title} has type {node.output().type_name}")
    emit, here, there = node.emitter, x.type.dtype.nbytes, kind.nbytes
    bits = x if x.type.dtype == _UNSIGNED[here] else emit.call("bitcast", x, to=str(_UNSIGNED[here]))
    if here > there:
        bits = _parts(emit, bits, _UNSIGNED[there])
    elif here < there:
        bits = _joined(emit, bits, _UNSIGNED[there])
    found = emit.call("bitcast", bits, to=str(kind))
    node.call("reshape", found, shape=found.type.shape)  # a view


def _parts(emit: Emitter, bits: Value, to: DType) -> Value:
    """Each element as several of a narrower type, along a new last axis."""
    shape, count = bits.type.shape, bits.type.dtype.nbytes // to.nbytes
    found = []
    for k in range(count):
        low = emit.call("shift_right", bits, emit.scalar(8 * to.nbytes * k, bits.type)) if k else bits
        found.append(emit.call("reshape", emit.call("cast", low, to=str(to)), shape=(*shape, 1)))
    return emit.call("concat", *found, axis=len(shape))


def _joined(emit: Emitter, bits: Value, to: DType) -> Value:
    """The elements of the last axis as one of a wider type."""
    shape, count = bits.type.shape, to.nbytes // bits.type.dtype.nbytes
    if not shape or shape[-1] != count:
        emit.fail(f"{type_text(bits)} has not {count} elements along its last axis, which a {to} is made of")
    wide, found = emit.call("cast", bits, to=str(to)), None
    for k in range(count):
        one = emit.call("reshape", part(emit, wide, len(shape) - 1, k, 1), shape=shape[:-1])
        high = emit.call("shift_left", one, emit.scalar(8 * bits.type.dtype.nbytes * k, to)) if k else one
        found = high if found is None else emit.call("or", found, high)
    assert found is not None, "a wider type is made of some"
    return found


TABLE: Table = {"BITCAST": bitcast, "DEQUANTIZE": dequantize, "FAKE_QUANT": fake_quant, "QUANTIZE": quantize}
