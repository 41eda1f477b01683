"""Operators of com.microsoft beside attention and quantised products: ONNX's by older names, gates, packed tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32, U8
from sdk.compiler.sym import floordiv, prove_ge
from sdk.frontends.moves import part, swap_axes
from sdk.frontends.onnx.context import OPERATORS, OnnxNode, in_single, onnx_op
from sdk.frontends.onnx.operators.microsoft_float import DOMAIN, apply
from sdk.frontends.onnx.operators.microsoft_quantised import unpacked
from sdk.frontends.onnx.operators.quantize import real

__all__: list[str] = []

Array = np.ndarray[Any, Any]


# --- ONNX's operators before they were ONNX's ---------------------------------------------------------------------


@onnx_op("GatherND", "GridSample", "Trilu", domain=DOMAIN)
def same(node: OnnxNode) -> Value | tuple[Value, ...]:
    """The operator that ONNX has taken over."""
    return OPERATORS[node.op](replace(node, opset=16))


@onnx_op("Pad", domain=DOMAIN)
def pad(node: OnnxNode) -> Value:
    """ONNX's Pad, whose pads may have a row of their own."""
    return apply(node, "Pad", *node.inputs[:3], mode=node.text("mode", "constant"))


@onnx_op("Range", domain=DOMAIN)
def range_(node: OnnxNode) -> Value:
    """ONNX's Range; a step of 1 where none is given."""
    step = node.inputs[2] if node.given_input(2) else node.scalar(1, node.type(0))
    return apply(node, "Range", node.raw(0), node.raw(1), step)


@onnx_op("ExpandDims", domain=DOMAIN)
def expand_dims(node: OnnxNode) -> Value:
    """One more axis of size 1."""
    return apply(node, "Unsqueeze", node.raw(0), node.raw(1))


@onnx_op("ConvTransposeWithDynamicPads", domain=DOMAIN)
def conv_transpose(node: OnnxNode) -> Value:
    """ConvTranspose whose pads are an input."""
    given = {**node.given, "pads": tuple(node.dims(2))} if node.given_input(2) else dict(node.given)
    return apply(node, "ConvTranspose", node.raw(0), node.raw(1), node.inputs[3] if node.count > 3 else None, **given)


@onnx_op("NhwcFusedConv", domain=DOMAIN)
def nhwc_fused_conv(node: OnnxNode) -> Value:
    """FusedConv of images [n, .., c]."""

    def first(x: Value) -> Value:
        return swap_axes(node, x, [0, x.type.rank - 1, *range(1, x.type.rank - 1)])

    rest = node.inputs[1:3]
    added = (first(node.x(3)),) if node.given_input(3) else ()
    inputs = (first(node.x(0)), *rest, *(None,) * (2 - len(rest) if added else 0), *added)
    found = OPERATORS[f"{DOMAIN}::FusedConv"](replace(node, op="FusedConv", inputs=inputs))
    y = found if isinstance(found, Value) else found[0]
    return swap_axes(node, y, [0, *range(2, y.type.rank), 1])


# --- parts and distances ------------------------------------------------------------------------------------------


@onnx_op("UnfoldTensor", domain=DOMAIN)
def unfold(node: OnnxNode) -> Value:
    """Windows of an axis, some steps apart; the place in one is a new last axis."""
    x = node.x(0)
    axis, size, step = node.axis(node.int("dim", -1), x.type.rank), node.int("size", 0), node.int("step", 1)
    if size < 1 or step < 1 or prove_ge(x.type.shape[axis], size) is not True:
        node.fail(f"windows of {size} elements {step} apart, of {x.type.shape[axis]}")
    count = floordiv(x.type.shape[axis] - size, step) + 1
    begins = node.value(node.call("iota", extent=count, start=0, step=step, dtype=str(I32)))
    within = node.value(node.call("iota", extent=size, start=0, step=1, dtype=str(I32)))
    places = node.call("add", node.call("reshape", begins, shape=(count, 1)), within)
    y = node.call("gather", x, places, axis=axis)  # the window stands in the axis' place, its elements after it
    return swap_axes(node, y, [k for k in range(y.type.rank) if k != axis + 1] + [axis + 1])


@onnx_op("CDist", domain=DOMAIN)
def distances(node: OnnxNode) -> Value:
    """How far each row of a matrix is from each row of another."""
    metric = node.text("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        node.fail(f"the distance {metric} is not supported")
    a, b = node.x(0), node.x(1)
    (m, n), (k, _) = a.type.shape, b.type.shape
    apart = node.call("sub", node.call("reshape", a, shape=(m, 1, n)), b)
    y = node.call("reduce_sum", node.call("mul", apart, apart), axes=(2,))
    y = node.call("reshape", y, shape=(m, k))
    return node.call("sqrt", y) if metric == "euclidean" else y


@onnx_op("MatMulInteger16", domain=DOMAIN)
def matmul_integer_16(node: OnnxNode) -> Value:
    """The product of matrices of 16-bit integers, summed in 32 bits."""
    return apply(node, "MatMul", *(node.call("cast", node.x(k), to=str(I32)) for k in range(2)))


# --- gates --------------------------------------------------------------------------------------------------------


@onnx_op("GatedAdd", domain=DOMAIN)
def gated_add(node: OnnxNode) -> Value:
    """x + y * gate."""
    return node.call("add", node.x(0), node.call("mul", node.x(1), node.x(2)))


@onnx_op("ScaledSiLU", domain=DOMAIN)
def scaled_silu(node: OnnxNode) -> Value:
    """z * sigmoid(z) of z = x * scale."""
    x = node.x(0)
    scale = node.x(1) if node.given_input(1) else node.scalar(node.float("alpha", 1.0), x.type)
    if scale.type.dtype != x.type.dtype:
        scale = node.call("cast", scale, to=str(x.type.dtype))
    z = node.call("mul", x, node.call("reshape", scale, shape=()))
    return node.call("mul", z, node.call("sigmoid", z))


@onnx_op("GatedRMSNorm", domain=DOMAIN)
@in_single
def gated_rms_norm(node: OnnxNode) -> Value:
    """Groups of the last axis by the roots of their means of squares, times weights and an activation of a gate."""
    x, name = node.x(0), node.text("activation", "silu")
    size, width = node.type(1).shape[0], x.type.shape[-1]
    if (
        name not in ("silu", "swish", "sigmoid")
        or not isinstance(size, int)
        or not isinstance(width, int)
        or width % size
    ):
        node.fail(f"groups of {size} in {width} numbers with the activation {name}")
    lead = x.type.shape[:-1]
    grouped = node.call("reshape", x, shape=(*lead, width // size, size))
    given = {"axis": len(lead) + 1, "epsilon": node.float("epsilon", 1e-6)}
    y = node.call("reshape", apply(node, "RMSNormalization", grouped, node.x(1), **given), shape=x.type.shape)
    gate = node.call("sigmoid", node.x(2)) if name == "sigmoid" else node.call("silu", node.x(2), alpha=1.0)
    return node.call("mul", y, gate)


@onnx_op("BranchwiseRMSNorm", domain=DOMAIN)
@in_single
def branchwise_rms_norm(node: OnnxNode) -> Value:
    """Branches, the last axis but one or runs of the last, each by the root of its mean of squares."""
    x, branches = node.x(0), node.int("num_branches", 0)
    shape, width = x.type.shape, x.type.shape[-1]
    if branches:
        if not isinstance(width, int) or width % branches:
            node.fail(f"{branches} branches in {width} numbers")
        shape = (*shape[:-1], branches, width // branches)
    grouped = node.call("reshape", x, shape=shape)
    ones = node.const(np.ones(1, np.float32), "one")
    given = {"axis": len(shape) - 1, "epsilon": node.float("epsilon", 1e-6)}
    wide = node.call("broadcast_to", ones, shape=shape[-1:])
    y = apply(node, "RMSNormalization", grouped, wide, **given)
    if node.given_input(1):
        scale = node.x(1)
        flat = scale.type.rank == 1 and scale.type.shape != shape[-1:]
        y = node.call("mul", y, node.call("reshape", scale, shape=shape[-2:]) if flat else scale)
    return node.call("reshape", y, shape=x.type.shape)


# --- packed tables ------------------------------------------------------------------------------------------------


@onnx_op("GatherBlockQuantized", domain=DOMAIN)
def gather_block_quantized(node: OnnxNode) -> Value:
    """Rows of a table of small integers, each block of them with a scale and a zero point."""
    table, block = node.data(0), node.int("block_size", 128)
    if table is None or block < 1 or (node.given_input(3) and node.data(3) is None):
        node.fail("its table and zero points must be constants, in blocks")
    bits = _packed_bits(node)
    columns = table.ndim - 1
    along, by = (node.axis(node.int(k, d), table.ndim) for k, d in (("gather_axis", 0), ("quantize_axis", 1)))
    if along == by or (bits and (along != 0 or by != columns)):
        node.fail(f"rows along axis {along} of blocks along axis {by}")
    zeros = node.data(3)
    numbers = unpacked(table, bits) if bits else table
    scales = node.x(2)
    blocks = scales.type.shape[by]
    if not isinstance(blocks, int) or blocks != -(-numbers.shape[by] // block):
        node.fail(f"{blocks} blocks of {block} in {numbers.shape[by]} numbers")
    points: Array = np.zeros((1,) * table.ndim, numbers.dtype)
    if zeros is not None:
        points = unpacked(zeros, bits).take(range(blocks), axis=by) if bits else zeros
    elif bits:
        points = points + np.asarray(1 << (bits - 1), points.dtype)

    def rows(x: Value) -> Value:
        y = node.call("gather", x, node.x(1), axis=along)
        return y if y.type.dtype == F32 else node.call("cast", y, to=str(F32))

    extra = node.type(1).rank - 1  # axes that the positions bring
    axis = by + extra if by > along else by
    found = rows(node.const(numbers, "table"))
    if zeros is not None:
        shift = _blocks(node, rows(node.const(points, "zeros")), axis, block, found)
    else:
        shift = node.scalar(float(points.reshape(-1)[0]), F32)
    y = node.call("mul", node.call("sub", found, shift), _blocks(node, rows(scales), axis, block, found))
    y = y if scales.type.dtype == F32 else node.call("cast", y, to=str(scales.type.dtype))
    return y


def _packed_bits(node: OnnxNode) -> int:
    """Bits of each number in a table of bytes; 0 for one whose elements are its numbers."""
    packed = node.type(0).dtype == U8 and node.raw(0).name not in node.builder.narrow
    return int(node.int("bits", 4)) if packed else 0


def _blocks(node: OnnxNode, x: Value, axis: int, block: int, like: Value) -> Value:
    """Each element of an axis ``block`` times, as many as ``like`` has."""
    shape = x.type.shape
    wide = node.call("reshape", x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    spread = node.call("broadcast_to", wide, shape=(*shape[: axis + 1], block, *shape[axis + 1 :]))
    joined = node.call("reshape", spread, shape=(*shape[:axis], shape[axis] * block, *shape[axis + 1 :]))
    return part(node, joined, axis, 0, like.type.shape[axis])


# Numbers that 4 bits stand for, by quant_type: a sign and a float of 3 bits; quantiles of a normal distribution.
_HALF: Final = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_CODES: Final[Sequence[tuple[float, ...]]] = (
    (*_HALF, *(-v for v in _HALF)),
    (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
)  # fmt: skip


@onnx_op("MatMulBnb4", domain=DOMAIN)
@in_single
def matmul_bnb4(node: OnnxNode) -> Value:
    """A matrix times weights that are places in a table of 16 numbers, in blocks with a scale each; made real."""
    depth, columns, block = (node.int(name, 0) for name in ("K", "N", "block_size"))
    packed, scales, kind = node.data(1), node.data(2), node.int("quant_type", 0)
    if packed is None or scales is None or kind not in (0, 1) or min(depth, columns, block) < 1:
        node.fail("its weights and scales must be constants, of FP4 or NF4")
    places = np.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 15], -1).reshape(-1)[: depth * columns]
    if places.size < depth * columns or scales.size < -(-places.size // block):
        node.fail(f"{packed.size} bytes and {scales.size} scales for {columns} columns of {depth}")
    by = scales.reshape(-1).astype(np.float32)[np.arange(places.size) // block]
    weights = (np.asarray(_CODES[kind], np.float32)[places] * by).reshape(columns, depth)
    if not node.int("transB", 1):
        weights = weights.reshape(depth, columns).T
    return apply(node, "MatMul", node.x(0), node.const(np.ascontiguousarray(weights.T), "weights"))


@onnx_op("QEmbedLayerNormalization", domain=DOMAIN)
def quantised_embed_layer_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """EmbedLayerNormalization of quantised tables and weights."""
    triples = {2: (2, 8, 13), 3: (3, 9, 14), 4: (4, 10, 15), 5: (5, 11, 16), 6: (6, 12, 17)}
    tables: dict[int, Value | None] = {}
    for k, (x, scale, zero) in triples.items():
        if not node.given_input(x):
            tables[k] = None
            continue
        inner = replace(node, inputs=(node.inputs[x], node.inputs[scale], node.inputs[zero]), given={})
        tables[k] = real(inner, 0)
    inputs = (*node.inputs[:2], *(tables[k] for k in range(2, 7)), *node.inputs[7:8])
    found = OPERATORS[f"{DOMAIN}::EmbedLayerNormalization"](replace(node, inputs=inputs))
    return found if isinstance(found, tuple) else (found,)


@onnx_op("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_quantize_lstm(node: OnnxNode) -> Value | tuple[Value, ...]:
    """LSTM of quantised weights. Its inputs stay real: onnxruntime rounds them to 8 bits in each run."""
    weights = [_transposed_weights(node, k, 8 + 2 * j) for j, k in enumerate((1, 2))]
    inputs = (node.inputs[0], *weights, *node.inputs[3:8])
    return OPERATORS["LSTM"](replace(node, op="LSTM", opset=14, inputs=inputs))


def _transposed_weights(node: OnnxNode, k: int, scale: int) -> Value:
    """Weights [directions, inputs, gates] as reals [directions, gates, inputs]."""
    data, steps, zeros = node.data(k), node.data(scale), node.data(scale + 1)
    if data is None or steps is None or zeros is None:
        node.fail("its weights, scales and zero points must be constants")
    steps, zeros = (v.reshape(data.shape[0], 1, -1).astype(np.float32) for v in (steps, zeros))
    found = (data.astype(np.float32) - zeros) * steps
    return node.const(np.ascontiguousarray(found.transpose(0, 2, 1)), f"w{k}")
