"""Attention as com.microsoft has it: Attention, QAttention, MultiHeadAttention, RotaryEmbedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.operators.microsoft_float import DOMAIN, transposed
from sdk.frontends.onnx.operators.quantize import real

__all__ = ["heads_of", "joined_heads", "turned"]


# --- heads ------------------------------------------------------------------------------------------------------


def heads_of(node: OnnxNode, x: Value, count: int) -> Value:
    """[batch, rows, count * size] as [batch, count, rows, size]."""
    batch, rows, width = x.type.shape
    if not isinstance(width, int) or count < 1 or width % count:
        node.fail(f"{count} heads of {width} numbers")
    split = node.call("reshape", x, shape=(batch, rows, count, width // count))
    return node.call("transpose", split, perm=(0, 2, 1, 3))


def joined_heads(node: OnnxNode, x: Value) -> Value:
    """[batch, count, rows, size] as [batch, rows, count * size]."""
    batch, count, rows, size = x.type.shape
    return node.call("reshape", node.call("transpose", x, perm=(0, 2, 1, 3)), shape=(batch, rows, count * size))


def _attend(node: OnnxNode, q: Value, k: Value, v: Value, bias: Sequence[Value]) -> Value:
    """softmax(q @ k' * scale + bias) @ v of heads [batch, heads, rows, size], as [batch, rows, heads * size]."""
    size = q.type.shape[-1]
    scale = node.float("scale", 0.0) or 1.0 / math.sqrt(size if isinstance(size, int) else 1)
    scores = node.call("mul", node.call("matmul", q, transposed(node, k)), node.scalar(scale, q.type))
    for one in bias:
        scores = node.call("add", scores, one)
    return joined_heads(node, node.call("matmul", node.call("softmax", scores), v))


def _after(node: OnnxNode, past: Value | None, x: Value) -> Value:
    """The rows of earlier steps, then these."""
    return x if past is None else node.call("concat", past, x, axis=2)


# --- what is not attended to --------------------------------------------------------------------------------------


def _kept(node: OnnxNode, keep: Value, shape: tuple[Dim, ...]) -> Value:
    """0 where ``keep`` is true, the attribute mask_filter_value elsewhere."""
    low = node.scalar(node.float("mask_filter_value", -10000.0), F32)
    chosen = node.call("where", keep, node.scalar(0.0, F32), low)
    return chosen if chosen.type.shape == shape else node.call("reshape", chosen, shape=shape)


def _mask(node: OnnxNode, k: int, batch: Dim, total: Dim) -> Value:
    """The mask that input ``k`` stands for: which keys to keep, for each batch (and row), or how many of each batch."""
    mask = node.x(k)
    rank = mask.type.rank
    if rank == 1:
        at = node.call("iota", extent=total, start=0, step=1, dtype=str(mask.type.dtype))
        if same_extent(mask.type.shape[0], batch):
            keep = node.call("less", at, node.call("reshape", mask, shape=(batch, 1)))
        elif same_extent(mask.type.shape[0], 2 * batch):  # where each ends, then where each begins
            ends = node.call("reshape", mask, shape=(2, batch, 1))
            end, begin = (node.call("reshape", part(node, ends, 0, j, 1), shape=(batch, 1)) for j in range(2))
            keep = node.call("and", node.call("less", at, end), node.call("greater_equal", at, begin))
        else:
            node.fail(f"a mask of shape {list(mask.type.shape)}: packed sequences are not supported")
        return _kept(node, keep, (batch, 1, 1, total))
    keep = mask
    if mask.type.dtype.kind != "b":
        keep = node.call("greater", mask, node.scalar(0, mask.type))
    if rank == 2:
        return _kept(node, keep, (batch, 1, 1, total))
    if rank == 3:
        return _kept(node, keep, (batch, 1, mask.type.shape[1], total))
    node.fail(f"a mask of rank {rank} is not supported")


def _causal(node: OnnxNode, rows: Dim, total: Dim, kind: np.dtype[np.generic]) -> Value:
    """Rows see no later keys than their own, which is the last one for the last row."""
    first = node.call("iota", extent=rows, start=0, step=1, dtype="i64")
    own = node.call("add", first, node.value(node.call("full", shape=(), value=total - rows, dtype="i64")))
    at = node.call("iota", extent=total, start=0, step=1, dtype="i64")
    later = node.call("less", node.call("reshape", own, shape=(rows, 1)), at)
    lowest = node.const(np.asarray(np.finfo(kind.name).min / 2, kind), "lowest")
    return node.call("where", later, lowest, node.const(np.zeros((), kind), "zero"))


# --- Attention ----------------------------------------------------------------------------------------------------


@onnx_op("Attention", domain=DOMAIN)
def attention(node: OnnxNode) -> tuple[Value, ...]:
    """Self-attention: queries, keys and values are one product of the input with weights."""
    if node.int("do_rotary", 0) or node.int("past_present_share_buffer", 0):
        node.fail("rotary places and shared buffers of keys are not supported")
    both = node.call("matmul", node.x(0), node.x(1))
    both = node.call("add", both, node.x(2)) if node.given_input(2) else both
    return _self_attention(node, both, 3, 4, 5)


@onnx_op("QAttention", domain=DOMAIN)
def quantised_attention(node: OnnxNode) -> tuple[Value, ...]:
    """The same of a quantised input and quantised weights."""
    order = (0, 3, 6, 1, 4, 7)  # each tensor before its scale and zero point
    inner = replace(node, inputs=tuple(node.inputs[k] if node.given_input(k) else None for k in order))
    columns = node.type(1).rank - 1
    product = node.call("matmul", real(inner, 0), real(inner, 3, per=columns if inner.type(4).size != 1 else None))
    return _self_attention(node, node.call("add", product, node.x(2)), 5, 8, -1)


def _self_attention(node: OnnxNode, both: Value, mask: int, past: int, bias: int) -> tuple[Value, ...]:
    """Attention of queries, keys and values side by side; ``mask``, ``past`` and ``bias`` are numbers of inputs."""
    count = node.int("num_heads", 0)
    batch, rows, width = both.type.shape
    if not isinstance(width, int):
        node.fail("its weights have an open size")
    sizes = node.ints("qkv_hidden_sizes", (width // 3,) * 3)
    if sum(sizes) != width or len(sizes) != 3:
        node.fail(f"queries, keys and values of {list(sizes)} numbers in {width}")
    starts = (0, sizes[0], sizes[0] + sizes[1])
    q, k, v = (heads_of(node, part(node, both, 2, a, n), count) for a, n in zip(starts, sizes, strict=True))
    if node.given_input(past):
        earlier = node.x(past)
        old = tuple(
            node.call("reshape", part(node, earlier, 0, j, 1), shape=earlier.type.shape[1:]) for j in range(2)
        )
        k, v = _after(node, old[0], k), _after(node, old[1], v)
    total = k.type.shape[2]
    added = [_mask(node, mask, batch, total)] if node.given_input(mask) else []
    if node.int("unidirectional", 0):
        added.append(_causal(node, rows, total, q.type.dtype.numpy))
    if bias >= 0 and node.given_input(bias):
        added.append(node.x(bias))
    y = _attend(node, q, k, v, added)
    if node.outputs < 2:
        return (y,)
    present = (node.call("reshape", one, shape=(1, *one.type.shape)) for one in (k, v))
    return y, node.call("concat", *present, axis=0)


@onnx_op("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: OnnxNode) -> tuple[Value, ...]:
    """Attention of queries, keys and values given apart, or packed in the first input."""
    count = node.int("num_heads", 0)
    q, k, v = _given(node, count)
    if node.given_input(6) != node.given_input(7) or node.count > 8:
        node.fail("keys and values of earlier steps come together, and without the buffers of later operators")
    if node.given_input(6):
        k, v = _after(node, node.x(6), k), _after(node, node.x(7), v)
    batch, rows, total = q.type.shape[0], q.type.shape[2], k.type.shape[2]
    added = [_mask(node, 4, batch, total)] if node.given_input(4) else []
    if node.given_input(5):
        added.append(node.x(5))
    if node.int("unidirectional", 0):
        added.append(_causal(node, rows, total, q.type.dtype.numpy))
    return (_attend(node, q, k, v, added), k, v)[: max(node.outputs, 1)]


def _given(node: OnnxNode, count: int) -> tuple[Value, Value, Value]:
    """Queries, keys and values by heads [batch, heads, rows, size], their biases added."""
    if node.type(0).rank == 5:  # [batch, rows, heads, 3, size]
        parts = tuple(_unpacked(node, node.x(0), j) for j in range(3))
    elif node.given_input(1) and node.type(1).rank == 5:  # [batch, rows, heads, 2, size]
        parts = (heads_of(node, node.x(0), count), *(_unpacked(node, node.x(1), j) for j in range(2)))
    else:
        parts = tuple(x if x.type.rank == 4 else heads_of(node, x, count) for x in (node.x(j) for j in range(3)))
    q, k, v = parts
    if not node.given_input(3):
        return q, k, v
    found, begin = [], 0
    for one in (q, k, v):
        heads, size = one.type.shape[1], one.type.shape[3]
        if not isinstance(heads, int) or not isinstance(size, int):
            node.fail("its heads have an open size")
        piece = part(node, node.x(3), 0, begin, heads * size)
        begin += heads * size
        found.append(node.call("add", one, node.call("reshape", piece, shape=(heads, 1, size))))
    if node.given_input(1) and node.type(1).rank == 4:
        node.fail("a bias of keys that other operators computed is not supported")
    return found[0], found[1], found[2]


def _unpacked(node: OnnxNode, x: Value, j: int) -> Value:
    batch, rows, heads, _, size = x.type.shape
    one = node.call("reshape", part(node, x, 3, j, 1), shape=(batch, rows, heads, size))
    return node.call("transpose", one, perm=(0, 2, 1, 3))


# --- DecoderMaskedMultiHeadAttention ------------------------------------------------------------------------------


@onnx_op("DecoderMaskedMultiHeadAttention", domain=DOMAIN)
def decoder_attention(node: OnnxNode) -> tuple[Value, ...]:
    """Attention of one new row: to keys of earlier steps and its own, or to those of an encoder, which have four axes.
    Earlier keys may stand in buffers that are longer than what is known; the new row goes to its place there."""
    beams = node.known_dims(8) if node.given_input(8) else (1,)
    if beams != (1,) or node.given_input(9):
        node.fail("beams are not supported")
    if node.outputs > 3:
        node.fail("the scores as an output are not supported")
    count = node.int("num_heads", 0)
    rows = _rows(node)
    if rows[1].type.rank == 4:
        q = heads_of(node, _with_bias(node, rows[0], 0), count)
        return (_attend(node, q, rows[1], rows[2], _added(node, q.type.shape[0], rows[1].type.shape[2])),)
    begins = (0, rows[0].type.shape[2], rows[0].type.shape[2] + rows[1].type.shape[2])
    q, k, v = (heads_of(node, _with_bias(node, x, at), count) for x, at in zip(rows, begins, strict=True))
    if not node.given_input(5) or not node.given_input(6):
        node.fail("it needs keys and values of earlier steps")
    old, old_v = node.x(5), node.x(6)
    if not node.int("past_present_share_buffer", 0):
        k, v = _after(node, old, k), _after(node, old_v, v)
        return (_attend(node, q, k, v, _added(node, q.type.shape[0], k.type.shape[2])), k, v)[: max(node.outputs, 1)]
    own, place = _places(node, old.type.shape[2])
    here = node.call("equal", place, own)
    k, v = (node.call("where", here, new, buffer) for new, buffer in ((k, old), (v, old_v)))
    total = next((node.type(j).shape[-1] for j in (3, 4) if node.given_input(j)), old.type.shape[2])
    seen = node.call("reshape", node.call("less_equal", place, own), shape=(place.type.shape[0],))
    later = node.call("where", seen, node.scalar(0.0, q.type), node.scalar(float(np.finfo(np.float32).min) / 2, q.type))
    added = [*_added(node, q.type.shape[0], total), part(node, later, 0, 0, total)]
    y = _attend(node, q, part(node, k, 2, 0, total), part(node, v, 2, 0, total), added)
    return (y, k, v)[: max(node.outputs, 1)]


def _rows(node: OnnxNode) -> tuple[Value, Value, Value]:
    """Queries, keys and values [batch, 1, width]; perhaps packed in the first input."""
    query = node.x(0)
    if node.given_input(1):
        return query, node.x(1), node.x(2)
    width = query.type.shape[2]
    if not isinstance(width, int) or width % 3:
        node.fail(f"queries, keys and values of one size in {width} numbers")
    q, k, v = (part(node, query, 2, j * (width // 3), width // 3) for j in range(3))
    return q, k, v


def _with_bias(node: OnnxNode, x: Value, begin: Dim) -> Value:
    return node.call("add", x, part(node, node.x(10), 0, begin, x.type.shape[2])) if node.given_input(10) else x


def _added(node: OnnxNode, batch: Dim, total: Dim) -> list[Value]:
    """What is added to scores of ``total`` keys."""
    masks = [_mask(node, 3, batch, total)] if node.given_input(3) else []
    return [*masks, node.x(4)] if node.given_input(4) else masks


def _places(node: OnnxNode, extent: Dim) -> tuple[Value, Value]:
    """The place of the new row in its buffer, and all places, i32[extent, 1]."""
    if not node.given_input(7):
        node.fail("it needs the number of earlier rows in the buffers")
    own = node.call("reshape", node.call("cast", node.x(7), to=str(I32)), shape=(1,))
    place = node.call("iota", extent=extent, start=0, step=1, dtype=str(I32))
    return own, node.call("reshape", place, shape=(extent, 1))


# --- RotaryEmbedding ----------------------------------------------------------------------------------------------


@onnx_op("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(node: OnnxNode) -> Value:
    """Pairs of numbers turned by angles that grow with their place. A place of one number is that of the first row."""
    x, places = node.x(0), node.x(1)
    if node.float("scale", 1.0) != 1.0 or node.int("is_packed_batching", 0):
        node.fail("scaled angles and packed batches are not supported")
    half = node.type(2).shape[1]
    if not isinstance(half, int):
        node.fail("its table of cosines has an open size")
    heads = x
    if x.type.rank == 3:
        width, count = x.type.shape[2], node.int("num_heads", 0)
        if not isinstance(width, int):
            node.fail("its heads have an open size")
        heads = heads_of(node, x, count or width // (2 * half))
    batch, _, rows, _ = heads.type.shape
    if places.type.size == 1:
        steps = node.call("iota", extent=rows, start=0, step=1, dtype=str(places.type.dtype))
        places = node.call("add", steps, node.call("reshape", places, shape=(1,)))
    lead = (batch, 1, rows) if places.type.rank == 2 else (rows,)
    cosines, sines = (
        node.call("reshape", node.call("gather", node.x(k), places, axis=0), shape=(*lead, half)) for k in (2, 3)
    )
    y = turned(node, heads, cosines, sines, half)
    return joined_heads(node, y) if x.type.rank == 3 else y


def turned(node: OnnxNode, heads: Value, cosines: Value, sines: Value, half: int) -> Value:
    """The first ``2 * half`` numbers of each head as pairs, turned; the rest as it is."""
    size = heads.type.shape[3]
    pairs = bool(node.int("interleaved", 0))
    begin, step = (1, 2) if pairs else (half, 1)
    a, b = part(node, heads, 3, 0, half, step), part(node, heads, 3, begin, half, step)
    first = node.call("sub", node.call("mul", a, cosines), node.call("mul", b, sines))
    second = node.call("add", node.call("mul", a, sines), node.call("mul", b, cosines))
    if pairs:
        lines = (node.call("reshape", v, shape=(*v.type.shape, 1)) for v in (first, second))
        both = node.call("concat", *lines, axis=4)
        y = node.call("reshape", both, shape=(*heads.type.shape[:3], 2 * half))
    else:
        y = node.call("concat", first, second, axis=3)
    rest = size - 2 * half
    if same_extent(rest, 0):
        return y
    return node.call("concat", y, part(node, heads, 3, 2 * half, rest), axis=3)
