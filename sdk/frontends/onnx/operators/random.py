"""Random numbers: a generator that docs/onnx.md defines, since no two engines have the same."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from onnx import TensorProto

from sdk.compiler.ir.graph import ReadState, Value, WriteState
from sdk.compiler.ir.module import State
from sdk.compiler.ir.types import F32, F64, I32, I64, U32, DType, TensorType
from sdk.compiler.sym import Dim, product
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.reader import element_type

__all__: list[str] = []

STEP, FIRST, SECOND = 0x9E3779B9, 0x7FEB352D, 0x846CA68B


def _mixed(number: int) -> int:
    """The same as ``_mix``, of a number."""
    number &= 0xFFFFFFFF
    number = (number ^ number >> 16) * FIRST & 0xFFFFFFFF
    number = (number ^ number >> 15) * SECOND & 0xFFFFFFFF
    return number ^ number >> 16


def _mix(node: OnnxNode, x: Value) -> Value:
    """A permutation of the 32-bit numbers in which each bit depends on all others."""

    def number(value: int) -> Value:
        return node.scalar(value, U32)

    def folded(value: Value, by: int) -> Value:
        return node.call("xor", value, node.call("shift_right", value, number(by)))

    x = node.call("mul", folded(x, 16), number(FIRST))
    x = node.call("mul", folded(x, 15), number(SECOND))
    return folded(x, 16)


def _seed(node: OnnxNode) -> int:
    """What tells the numbers of a node from others': its seed, or its name without one."""
    if node.has("seed"):
        return int(np.asarray(node.float("seed"), np.float32).view(np.uint32))
    return int.from_bytes(hashlib.sha256(node.stem.encode()).digest()[:4], "little")


def _uniforms(node: OnnxNode, shape: tuple[Dim, ...], streams: int = 1) -> tuple[Value, ...]:
    """Numbers f32 in 0..1, without 1, in multiples of 2**-24, of as many streams; a state counts those drawn."""
    count = product(shape)
    state = State(node.builder.value_name(f"{node.stem}_drawn"), TensorType(U32, (1,)))
    node.builder.states[state.name] = state
    drawn = Value(node.builder.value_name(state.name), state.type)
    node.builder.body.append(ReadState(drawn, state.name, node.source))
    places = node.value(node.call("iota", extent=count, start=0, step=1, dtype=str(U32)))
    places = node.call("add", places, drawn)
    total = node.value(node.call("full", shape=(1,), value=count, dtype=str(U32)))
    after = node.value(node.call("add", drawn, total))
    node.builder.body.append(WriteState(state.name, after, node.source))
    found = []
    for stream in range(streams):
        start = _mixed(_seed(node) + stream)
        bits = node.call("add", node.call("mul", places, node.scalar(STEP, U32)), node.scalar(start, U32))
        top = node.call("shift_right", _mix(node, bits), node.scalar(8, U32))
        real = node.call("mul", node.call("cast", top, to=str(F32)), node.scalar(2.0**-24, F32))
        found.append(node.call("reshape", real, shape=shape))
    return tuple(found)


def _shape(node: OnnxNode) -> tuple[Dim, ...]:
    if node.op.endswith("Like"):
        return node.type(0).shape
    return tuple(node.ints("shape", ()))


def _kind(node: OnnxNode, otherwise: DType = F32) -> DType:
    """The element type of the result."""
    if not node.has("dtype"):
        return node.type(0).dtype if node.op.endswith("Like") else otherwise
    kind = element_type(node.int("dtype"))
    if kind is None:
        node.fail(f"numbers of type {TensorProto.DataType.Name(node.int('dtype'))}")
    return kind


def _moved(node: OnnxNode, x: Value, scale: float, shift: float) -> Value:
    """x * scale + shift in the type of the result, which is real."""
    kind = _kind(node)
    if not kind.is_float:
        node.fail(f"random numbers of type {kind}")
    wide = node.call("cast", x, to=str(F64)) if kind == F64 else x
    y = node.call("add", node.call("mul", wide, node.scalar(scale, wide.type)), node.scalar(shift, wide.type))
    return y if y.type.dtype == kind else node.call("cast", y, to=str(kind))


@onnx_op("RandomUniform", "RandomUniformLike")
def random_uniform(node: OnnxNode) -> Value:
    """Numbers between two limits, all as likely."""
    (u,) = _uniforms(node, _shape(node))
    low, high = node.float("low", 0.0), node.float("high", 1.0)
    return _moved(node, u, high - low, low)


@onnx_op("RandomNormal", "RandomNormalLike")
def random_normal(node: OnnxNode) -> Value:
    """Numbers of a normal distribution, by the transform of Box and Muller."""
    first, second = _uniforms(node, _shape(node), 2)
    above = node.call("sub", node.scalar(1.0, F32), first)  # never 0
    radius = node.call("sqrt", node.call("mul", node.call("log", above), node.scalar(-2.0, F32)))
    turn = node.call("cos", node.call("mul", second, node.scalar(2.0 * math.pi, F32)))
    return _moved(node, node.call("mul", radius, turn), node.float("scale", 1.0), node.float("mean", 0.0))


@onnx_op("Multinomial")
def multinomial(node: OnnxNode) -> Value:
    """Classes drawn by their logarithmic probabilities, rows [batch, classes] as [batch, samples]."""
    x, count = node.x(0), node.int("sample_size", 1)
    kind = _kind(node, I32)
    if x.type.rank != 2 or count < 1 or kind not in (I32, I64):
        node.fail(f"{count} samples of type {kind} of a tensor of rank {x.type.rank}")
    batch, classes = x.type.shape
    single = x if x.type.dtype == F32 else node.call("cast", x, to=str(F32))
    upto = node.call("cumsum", node.call("softmax", single), exclusive=False, reverse=False)
    upto = node.call("reshape", upto, shape=(batch, 1, classes))
    (u,) = _uniforms(node, (batch, count, 1))
    # how many classes end before the number; the last one has no end, whatever the sum is rounded to
    passed = node.call("cast", node.call("greater_equal", u, upto), to=str(I32))
    found = node.call("reshape", node.call("reduce_sum", passed, axes=(2,)), shape=(batch, count))
    last = node.value(node.call("full", shape=(), value=classes - 1, dtype=str(I32)))
    found = node.call("minimum", found, last)
    return found if kind == I32 else node.call("cast", found, to=str(I64))


@onnx_op("Bernoulli")
def bernoulli(node: OnnxNode) -> Value:
    """1 with the probability that an element says, else 0. ONNX's own body of it gives 1 with what is left."""
    x = node.x(0)
    (u,) = _uniforms(node, x.type.shape)
    chance = x if x.type.dtype == F32 else node.call("cast", x, to=str(F32))
    kind = element_type(node.int("dtype")) if node.has("dtype") else x.type.dtype
    if kind is None:
        node.fail(f"numbers of type {TensorProto.DataType.Name(node.int('dtype'))}")
    return node.call("cast", node.call("less", u, chance), to=str(kind))
