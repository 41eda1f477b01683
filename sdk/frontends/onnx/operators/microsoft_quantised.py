"""Operators of com.microsoft on quantised tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, U8
from sdk.frontends.onnx.context import OPERATORS, OnnxNode, onnx_op
from sdk.frontends.onnx.operators.microsoft_float import DOMAIN, apply, transposed
from sdk.frontends.onnx.operators.quantize import (
    dequantize_linear,
    matmul_integer,
    qlinear_conv,
    quantize_linear,
    real,
    stored,
)

__all__ = ["unpacked"]

# Tensors are followed by a scale and a zero point, which may be left out.
for _name, _converter in (("QuantizeLinear", quantize_linear), ("DequantizeLinear", dequantize_linear)):
    onnx_op(_name, domain=DOMAIN)(_converter)


def _channels(node: OnnxNode, x: Value, fn: Callable[[Value], Value]) -> Value:
    """``fn``, which works on [n, c, ..], on images [n, .., c] where the node says that they are."""
    if not node.int("channels_last", 0):
        return fn(x)
    rank = x.type.rank
    y = fn(node.call("transpose", x, perm=(0, rank - 1, *range(1, rank - 1))))
    return node.call("transpose", y, perm=(0, *range(2, rank), 1))


# --- elements and images ------------------------------------------------------------------------------------------


@onnx_op("QLinearAdd", "QLinearMul", domain=DOMAIN)
def qlinear_binary(node: OnnxNode) -> Value:
    """A sum or product of two quantised tensors."""
    op = "add" if node.op == "QLinearAdd" else "mul"
    return stored(node, node.call(op, real(node, 0), real(node, 3)), 6)


@onnx_op("QLinearLeakyRelu", "QLinearSigmoid", domain=DOMAIN)
def qlinear_unary(node: OnnxNode) -> Value:
    """An activation of a quantised tensor."""
    x = real(node, 0)
    if node.op == "QLinearSigmoid":
        return stored(node, node.call("sigmoid", x), 3)
    return stored(node, node.call("leaky_relu", x, alpha=node.float("alpha", 0.01)), 3)


@onnx_op("QLinearSoftmax", domain=DOMAIN)
def qlinear_softmax(node: OnnxNode) -> Value:
    """Softmax of a quantised tensor, as the opset says that is an attribute."""
    given = {"axis": node.int("axis", -1)}
    inner = replace(node, op="Softmax", opset=node.int("opset", 13), inputs=(real(node, 0),), given=given)
    return stored(node, _value(OPERATORS["Softmax"](inner)), 3)


@onnx_op("QLinearAveragePool", "QLinearGlobalAveragePool", domain=DOMAIN)
def qlinear_average(node: OnnxNode) -> Value:
    """The mean of windows of a quantised image, or of all of it."""
    names = () if "Global" in node.op else node.given.keys() - {"channels_last"}
    given = {name: node.given[name] for name in names}
    op = node.op.removeprefix("QLinear")
    return stored(node, _channels(node, real(node, 0), lambda x: apply(node, op, x, **given)), 3)


@onnx_op("QLinearConcat", domain=DOMAIN)
def qlinear_concat(node: OnnxNode) -> Value:
    """Quantised tensors after one another; scale and zero point of the result come first."""
    parts = [real(node, k) for k in range(2, node.count, 3)]
    axis = node.axis(node.int("axis", 0), parts[0].type.rank)
    return stored(node, parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=axis), 0)


@onnx_op("QLinearWhere", domain=DOMAIN)
def qlinear_where(node: OnnxNode) -> Value:
    """A choice between quantised tensors."""
    return stored(node, node.call("where", node.x(0), real(node, 1), real(node, 4)), 7)


@onnx_op("QLinearConv", domain=DOMAIN)
def qlinear_conv_last(node: OnnxNode) -> Value:
    """ONNX's QLinearConv, of images [n, .., c] where the node says so."""
    return _channels(node, node.x(0), lambda x: _value(qlinear_conv(replace(node, inputs=(x, *node.inputs[1:])))))


def _value(found: Value | tuple[Value, ...]) -> Value:
    return found if isinstance(found, Value) else found[0]


@onnx_op("NhwcMaxPool", domain=DOMAIN)
def nhwc_max_pool(node: OnnxNode) -> Value:
    """MaxPool of images [n, .., c]."""
    inner = replace(node, given={**node.given, "channels_last": 1})
    return _channels(inner, node.x(0), lambda x: apply(node, "MaxPool", x, **node.given))


# --- products -----------------------------------------------------------------------------------------------------


@onnx_op("QGemm", domain=DOMAIN)
def qgemm(node: OnnxNode) -> Value:
    """alpha * A @ B + C of quantised matrices; C counts in alpha times the product of their scales. Without a scale of
    the result it stays real."""
    a = real(node, 0)
    b = real(node, 3, per=_columns(node, 3))
    alpha = node.float("alpha", 1.0)
    a, b = (transposed(node, v) if node.int(f"trans{s}", 0) else v for v, s in ((a, "A"), (b, "B")))
    y = node.call("matmul", a, b)
    if alpha != 1:
        y = node.call("mul", y, node.scalar(alpha, F32))
    if node.given_input(6):
        scales = node.call("mul", _flat(node, 1), _flat(node, 4))
        if alpha != 1:
            scales = node.call("mul", scales, node.scalar(alpha, F32))
        y = node.call("add", y, node.call("dequantize", node.x(6), scales, node.const(np.zeros((), np.int32), "zero")))
    return stored(node, y, 7) if node.given_input(7) else y


def _columns(node: OnnxNode, k: int) -> int | None:
    """The axis of the scales of a matrix, None where there is one scale."""
    if node.type(k + 1).size == 1:
        return None
    return 0 if node.int("transB", 0) else node.type(k).rank - 1


def _flat(node: OnnxNode, k: int) -> Value:
    """Scales as a vector, or one as a scalar."""
    value = node.x(k)
    return node.call("reshape", value, shape=()) if value.type.size == 1 else value


@onnx_op("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(node: OnnxNode) -> Value:
    """The exact product of quantised matrices, times both scales, and a bias."""
    points = [node.inputs[k] if node.given_input(k) else None for k in (4, 5)]
    return _scaled_product(node, node.raw(0), points[0], _flat(node, 2), points[1], 3, 6)


@onnx_op("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(node: OnnxNode) -> Value:
    """A real matrix, quantised by what it holds, times a quantised one."""
    x = node.x(0)
    zero, levels = node.scalar(0, x.type), node.scalar(255, x.type)
    axes = tuple(range(x.type.rank))
    low, high = (
        node.call(op, node.call("reshape", node.call(reduction, x, axes=axes), shape=()), zero)
        for op, reduction in (("minimum", "reduce_min"), ("maximum", "reduce_max"))
    )
    scale = node.call("div", node.call("sub", high, low), levels)
    flat = node.call("equal", scale, zero)
    scale = node.call("where", flat, node.scalar(1, x.type), scale)
    point = node.call("round", node.call("div", node.call("sub", zero, low), scale))
    point = node.call("cast", node.call("clip", point, lo=0.0, hi=255.0), to=str(U8))
    small = node.call("quantize", x, scale, point, out=str(U8))
    given = node.inputs[3] if node.given_input(3) else None
    return _scaled_product(node, small, point, scale, given, 2, 4)


def _scaled_product(
    node: OnnxNode, a: Value, a_zero: Value | None, a_scale: Value, b_zero: Value | None, b_scale: int, bias: int
) -> Value:
    """(a - zero) @ (input 1 - zero) * scales + bias."""
    exact = _value(matmul_integer(replace(node, inputs=(a, node.raw(1), a_zero, b_zero))))
    y = node.call("mul", node.call("cast", exact, to=str(F32)), node.call("mul", a_scale, _flat(node, b_scale)))
    return node.call("add", y, node.x(bias)) if node.given_input(bias) else y


@onnx_op("MatMulNBits", domain=DOMAIN)
def matmul_n_bits(node: OnnxNode) -> Value:
    """A matrix times weights of 2, 4 or 8 bits, packed in blocks along K, each with its scale and zero point."""
    depth, columns, bits, block = (node.int(name) for name in ("K", "N", "bits", "block_size"))
    bits = 4 if bits is None else bits
    if bits not in (2, 4, 8) or not depth or not columns or not block:
        node.fail(f"weights of {bits} bits, {columns} columns of {depth} in blocks of {block}")
    packed, scales, zeros = (node.data(k) for k in (1, 2, 3))
    if packed is None or scales is None or (zeros is None and node.given_input(3)):
        node.fail("its weights, scales and zero points must be constants")
    count = -(-depth // block)
    weights = unpacked(packed.reshape(columns, count, -1), bits)[:, :, :block]
    if node.given_input(4):
        return _product(node, _grouped(node, weights.reshape(columns, -1)[:, :depth], bits, count), depth)
    steps = scales.astype(np.float32).reshape(columns, count, 1)
    if zeros is not None and zeros.dtype != np.uint8:
        return _product(node, ((weights - zeros.reshape(columns, count, 1)) * steps).astype(np.float32), depth)
    points = np.full((columns, count, 1), 1 << (bits - 1), np.uint8)
    if zeros is not None:
        points = unpacked(zeros.reshape(columns, -1), bits)[:, :count, None]
    parts = (node.const(v, stem) for v, stem in ((weights, "weights"), (steps, "scales"), (points, "zeros")))
    wide = node.call("reshape", node.call("dequantize", *parts), shape=(columns, count * block))
    return _with_bias(node, _cut(node, wide, depth))


def _grouped(node: OnnxNode, weights: np.ndarray[Any, Any], bits: int, count: int) -> np.ndarray[Any, Any]:
    """Weights [columns, depth] as real numbers, each column of them in the group that input 4 (g_idx) says."""
    group, scales, zeros = node.data(4), node.data(2), node.data(3)
    columns, depth = weights.shape
    if group is None or scales is None or group.size < depth or not 0 <= group.min() <= group.max() < count:
        node.fail("its groups (g_idx) must be constants, one of its blocks for each row of weights")
    at = group.reshape(-1)[:depth]
    points: np.ndarray[Any, Any] = np.full((columns, count), 1 << (bits - 1), np.float32)
    if zeros is not None:
        packed = zeros.dtype == np.uint8
        points = unpacked(zeros.reshape(columns, -1), bits)[:, :count] if packed else zeros.reshape(columns, count)
    steps = scales.astype(np.float32).reshape(columns, count)
    return ((weights - points.astype(np.float32)[:, at]) * steps[:, at]).astype(np.float32)


def unpacked(packed: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Numbers of some bits, the lowest bits of a byte first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.ascontiguousarray(numbers.reshape(*packed.shape[:-1], -1))


def _product(node: OnnxNode, weights: np.ndarray[Any, Any], depth: int) -> Value:
    wide = weights.reshape(weights.shape[0], -1)[:, :depth]
    return _with_bias(node, node.const(np.ascontiguousarray(wide), "weights"))


def _cut(node: OnnxNode, wide: Value, depth: int) -> Value:
    """The first ``depth`` elements of each row: the last block may reach beyond."""
    rows, size = wide.type.shape
    if size == depth:
        return wide
    return node.call("slice", wide, begin=(0, 0), size=(rows, depth), strides=(1, 1))


def _with_bias(node: OnnxNode, weights: Value) -> Value:
    """Input 0 times the rows of ``weights``, and input 5."""
    x = node.x(0)
    wide = x if x.type.dtype == F32 else node.call("cast", x, to=str(F32))
    y = node.call("matmul", wide, node.call("transpose", weights, perm=(1, 0)))
    if node.given_input(5):
        bias = node.x(5)
        y = node.call("add", y, bias if bias.type.dtype == F32 else node.call("cast", bias, to=str(F32)))
    return y if x.type.dtype == F32 else node.call("cast", y, to=str(x.type.dtype))
