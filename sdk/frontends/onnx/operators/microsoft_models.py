"""Operators of com.microsoft that single families of models bring: quantised experts, places in images, regions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sdk.budget import AXIS_TABLE, FOLDED, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I64
from sdk.compiler.sym import Dim
from sdk.frontends.distinct import distinct
from sdk.frontends.moves import part, spread
from sdk.frontends.onnx.context import OPERATORS, OnnxNode, in_single, onnx_op
from sdk.frontends.onnx.operators.microsoft_attention import heads_of, joined_heads, turned
from sdk.frontends.onnx.operators.microsoft_float import DOMAIN, apply
from sdk.frontends.onnx.operators.microsoft_quantised import unpacked

__all__: list[str] = []

Array = np.ndarray[Any, Any]


@onnx_op("Inverse", domain=DOMAIN)
@in_single
def inverse(node: OnnxNode) -> Value:
    """The inverse of each matrix; of one that has none, numbers that are not finite."""
    x = node.x(0)
    size = x.type.shape[-1] if x.type.rank >= 2 else None
    if not isinstance(size, int) or size != x.type.shape[-2]:
        node.fail("it needs square matrices of a known size")
    node.builder.budget.spend(FOLDED, size * size * x.type.dtype.nbytes, node.source)
    ones = node.const(np.eye(size, dtype=x.type.dtype.numpy), "ones")
    return node.call("solve", x, spread(node, ones, x.type.shape))


@onnx_op("Unique", domain=DOMAIN)
def unique(node: OnnxNode) -> tuple[Value, ...]:
    """Each number once in the order of the first, where each element is among them, how often each is there."""
    x = node.x(0)
    if x.type.rank != 1:
        node.fail(f"it takes tensors of rank 1, not {x.type.rank}")
    kept, _, places, many = distinct(node, x, False)
    return kept, places, many


@onnx_op("MulInteger", domain=DOMAIN)
def mul_integer(node: OnnxNode) -> Value:
    """The product of 8-bit integers less their zero points."""
    a, b = (_less_zero(node, k) for k in (0, 2))
    return node.call("mul", a, b)


def _less_zero(node: OnnxNode, k: int) -> Value:
    x, *zero = (node.call("cast", node.x(j), to="i32") for j in (k, k + 1) if node.given_input(j))
    return node.call("sub", x, zero[0]) if zero else x


@onnx_op("FusedMatMulActivation", domain=DOMAIN)
def fused_matmul_activation(node: OnnxNode) -> Value:
    """FusedMatMul, then an activation."""
    given = {k: v for k, v in node.given.items() if not k.startswith("activation")}
    y = OPERATORS[f"{DOMAIN}::FusedMatMul"](replace(node, op="FusedMatMul", given=given))
    kinds: dict[str, dict[str, float]] = {
        "Relu": {}, "Tanh": {}, "Sigmoid": {}, "LeakyRelu": {"alpha": 0.01}, "Softmax": {"axis": -1},
        "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    }  # fmt: skip
    name = node.text("activation", "")
    if name not in kinds:
        node.fail(f"the activation {name} is not supported")
    own = {k: node.given.get(f"activation_{k}", v) for k, v in kinds[name].items()}
    assert isinstance(y, Value)
    return apply(node, name, y, **own)


# --- places of words and of parts of images -----------------------------------------------------------------------


@onnx_op("MRotaryEmbedding", domain=DOMAIN)
@in_single
def multi_rotary_embedding(node: OnnxNode) -> Value:
    """RotaryEmbedding by three places of each row, in time, height and width: sections of the angles are of each."""
    x, places, sections = node.x(0), node.x(1), node.ints("mrope_section", ())
    half = node.type(2).shape[1]
    if node.float("scale", 1.0) != 1.0 or node.int("is_packed_batching", 0):
        node.fail("scaled angles and packed batches are not supported")
    if not isinstance(half, int) or len(sections) != 3 or min(sections) < 0 or sum(sections) != half:
        node.fail(f"sections {list(sections)} of a table of {half} angles")
    width, count = x.type.shape[-1], node.int("num_heads", 0)
    count = count or (width // (2 * half) if isinstance(width, int) else 0)
    heads = x if x.type.rank == 4 else heads_of(node, x, count)
    batch, _, rows, _ = heads.type.shape
    columns = _columns(node, sections, half)
    tables = []
    for k in (2, 3):
        found = node.call("gather", node.x(k), places, axis=0)  # [3, batch, rows, half]
        lines = [node.call("reshape", part(node, found, 0, j, 1), shape=(batch, 1, rows, half)) for j in range(3)]
        tables.append(node.call("gather", node.call("concat", *lines, axis=3), columns, axis=3))
    y = turned(node, heads, tables[0], tables[1], half)
    return joined_heads(node, y) if x.type.rank == 3 else y


def _columns(node: OnnxNode, sections: tuple[int, ...], half: int) -> Value:
    """Which of three tables side by side each angle is taken from."""
    layout = node.int("mrope_layout", 0)
    if layout == 0:
        of = np.repeat(np.arange(3), sections)
    elif layout == 1:  # time, height, width in turn, as long as there are any of height and of width
        of = np.zeros(half, np.int64)
        for k in (1, 2):
            of[k : 3 * sections[k] : 3] = k
        if [int((of == k).sum()) for k in range(3)] != list(sections):
            node.fail(f"sections {list(sections)} of {half} angles do not alternate")
    else:
        node.fail(f"the layout {layout} of sections is not supported")
    return node.const((of * half + np.arange(half)).astype(np.int64), "columns")


# --- experts ------------------------------------------------------------------------------------------------------


@onnx_op("QMoE", domain=DOMAIN)
@in_single
def quantised_mixture(node: OnnxNode) -> Value:
    """MoE of integer weights in bytes, with a scale for each output or for each block of inputs; made real."""
    if node.text("quant_type", "int") != "int" or any(node.given_input(k) for k in range(14, 21)):
        node.fail("only weights of integers are supported, without weights of a router and scales of activations")
    if node.int("weights_prepacked", -1) == 1:
        node.fail("weights in the order of one processor are not supported", hint="export with weights_prepacked=0")
    inputs = [node.inputs[0], node.inputs[1]]
    for k, (first, zero) in enumerate(((2, 11), (5, 12), (8, 13))):
        if not node.given_input(first):
            continue
        bits = node.int(f"fc{k + 1}_expert_weight_bits", 0) or node.int("expert_weight_bits", 4)
        weights = node.const(_expert_weights(node, first, zero, bits), f"fc{k + 1}")
        inputs += [weights, node.inputs[first + 2] if node.given_input(first + 2) else None]
    given = {k: v for k, v in node.given.items() if k not in ("expert_weight_bits", "block_size", "quant_type")}
    given["normalize_routing_weights"] = 1  # onnxruntime does so whatever the attribute says
    found = OPERATORS[f"{DOMAIN}::MoE"](replace(node, op="MoE", inputs=tuple(inputs), given=given))
    assert isinstance(found, Value | tuple)
    return found if isinstance(found, Value) else found[0]


def _expert_weights(node: OnnxNode, k: int, zero: int, bits: int) -> Array:
    """The real weights [experts, outputs, inputs] of a layer."""
    packed, scales, points = node.data(k), node.data(k + 1), node.data(zero)
    if packed is None or scales is None or (points is None and node.given_input(zero)):
        node.fail("its weights, scales and zero points must be constants")
    if bits not in (2, 4, 8) or packed.dtype != np.uint8 or packed.ndim != 3:
        node.fail(f"weights {packed.dtype}{list(packed.shape)} of {bits} bits")
    numbers = unpacked(packed, bits).astype(np.float32)
    steps = scales.astype(np.float32)
    steps = steps[:, :, None] if steps.ndim == 2 else steps
    block = node.int("block_size", 0) or numbers.shape[2]
    blocks = -(-numbers.shape[2] // block)
    if steps.shape != (*numbers.shape[:2], blocks):
        node.fail(f"scales {list(scales.shape)} for weights {list(numbers.shape)} in blocks of {block}")
    shift: Array = np.full(steps.shape, 1 << (bits - 1), np.float32)
    if points is not None:
        shift = unpacked(points, bits).astype(np.float32)
        if shift.ndim == 2:  # a zero point for each output, those of an expert packed together
            shift = shift[:, : numbers.shape[1], None]
        shift = shift[:, :, :blocks]
        if shift.shape != steps.shape:
            node.fail(f"zero points {list(points.shape)} for scales {list(scales.shape)}")
    moved, by = (np.repeat(v, block, axis=2)[:, :, : numbers.shape[2]] for v in (shift, steps))
    found: Array = (numbers - moved) * by
    return found


# --- regions ------------------------------------------------------------------------------------------------------


@onnx_op("MaxRoiPool")
@in_single
def max_roi_pool(node: OnnxNode) -> Value:
    """The largest element in each cell of regions [image, x1, y1, x2, y2] of images; 0 in a cell without any."""
    x, rois, cells = node.x(0), node.x(1), node.ints("pooled_shape", ())
    if x.type.rank != 4 or rois.type.rank != 2 or len(cells) != 2 or min(cells) < 1:
        node.fail(f"regions {list(rois.type.shape)} of an image of rank {x.type.rank} in {list(cells)} cells")
    count, (_, channels, height, width) = rois.type.shape[0], x.type.shape
    image = node.call("reshape", part(node, rois, 1, 0, 1), shape=(count,))
    y = node.call("gather", x, node.call("cast", image, to=str(I64)), axis=0)
    lowest = node.scalar(-math.inf, F32)
    across = node.call("reshape", _inside(node, rois, 1, cells[1], width), shape=(count, 1, 1, cells[1], width))
    lit = node.call("where", across, node.call("reshape", y, shape=(count, channels, height, 1, width)), lowest)
    columns = node.call("reduce_max", lit, axes=(4,))  # [count, channels, height, cells, 1]
    down = node.call("reshape", _inside(node, rois, 2, cells[0], height), shape=(count, 1, cells[0], height, 1))
    lit = node.call("where", down, node.call("reshape", columns, shape=(count, channels, 1, height, cells[1])), lowest)
    y = node.call("reshape", node.call("reduce_max", lit, axes=(3,)), shape=(count, channels, *cells))
    return node.call("where", node.call("equal", y, lowest), node.scalar(0.0, F32), y)


def _inside(node: OnnxNode, rois: Value, column: int, pooled: int, size: Dim) -> Value:
    """Which elements of an axis each cell of each region has, bool[regions, cells, elements]."""
    count, kind = rois.type.shape[0], rois.type
    scale, one, half = (node.scalar(v, kind) for v in (node.float("spatial_scale", 1.0), 1.0, 0.5))

    def rounded(k: int) -> Value:  # halves away from 0
        given = node.call("mul", part(node, rois, 1, k, 1), scale)
        away = node.call("floor", node.call("add", node.call("abs", given), half))
        return node.call("mul", away, node.call("sign", given))

    begin, end = rounded(column), rounded(column + 2)
    extent = node.call("maximum", node.call("add", node.call("sub", end, begin), one), one)
    bins = node.call("div", extent, node.scalar(float(pooled), kind))
    check_limit(AXIS_TABLE, pooled, "pooling along an axis")
    steps = np.arange(pooled + 1, dtype=np.float32).reshape(1, -1)
    low = node.call("floor", node.call("mul", bins, node.const(steps[:, :-1], "cells")))
    high = node.call("ceil", node.call("mul", bins, node.const(steps[:, 1:], "next")))
    first, last = (
        node.call("reshape", node.call("add", v, begin), shape=(count, pooled, 1)) for v in (low, high)
    )
    at = node.call("iota", extent=size, start=0, step=1, dtype=str(I64))
    places = node.call("reshape", node.call("cast", at, to=str(F32)), shape=(1, 1, size))
    return node.call("and", node.call("greater_equal", places, first), node.call("less", places, last))
