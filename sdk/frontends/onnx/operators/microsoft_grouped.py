"""GroupQueryAttention and SparseAttention of com.microsoft: several queries share each key, keys of earlier steps come
in and go out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32
from sdk.compiler.sym import Dim, dmax
from sdk.frontends.counted import new_dim
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, in_single, onnx_op
from sdk.frontends.onnx.operators.microsoft_attention import heads_of, joined_heads, turned
from sdk.frontends.onnx.operators.microsoft_float import DOMAIN, apply, transposed

__all__: list[str] = []

_QUERY, _KEY, _VALUE, _PAST_KEY, _PAST_VALUE, _LENGTHS, _TOTAL, _COSINES, _SINES, _PLACES, _BIAS, _SINK = range(12)
_SCALES, _NORMS = (12, 13), (14, 15)
_MAX_BLOCKS: Final = 1 << 22  # of tables of blocks


@dataclass(frozen=True)
class _Sizes:
    """``batch`` sequences of ``rows`` new keys after ``past`` rows of a cache; ``present`` rows go out. ``heads`` of
    queries, ``groups`` of keys, each of ``width`` numbers."""

    batch: Dim
    rows: Dim
    past: Dim
    present: Dim
    heads: int
    groups: int
    width: int


@dataclass(frozen=True)
class _Seen:
    """What rows see: how many keys there were before them, and numbers that are added to their scores."""

    earlier: Value
    bias: Value | None


@onnx_op("GroupQueryAttention", domain=DOMAIN)
@in_single
def group_query_attention(node: OnnxNode) -> tuple[Value, ...]:
    """Causal attention whose keys are fewer heads than its queries, with a cache: row ``r`` of it is the key of place
    ``r``, and new rows follow the ``seqlens_k + 1 - rows`` that each sequence has. Rows beyond those are not seen."""
    _check(node)
    return _grouped(node, _bias)


@onnx_op("SparseAttention", domain=DOMAIN)
@in_single
def sparse_attention(node: OnnxNode) -> tuple[Value, ...]:
    """The same, of which a row sees only some blocks of keys, those that a table has for each head."""
    taken = [node.inputs[k] if node.given_input(k) else None for k in (0, 1, 2, 3, 4, 8, 7, 9, 10)]
    if node.outputs > 3 or not node.given_input(8):
        node.fail("it has the lengths of its sequences, and three results")
    taken[_LENGTHS] = node.call("sub", node.x(8), node.scalar(1, I32))
    blocks = _blocks(node)
    inner = replace(node, inputs=tuple(taken))
    return _grouped(inner, lambda own, sizes, earlier: _block_bias(own, sizes, earlier, blocks))


def _grouped(node: OnnxNode, bias: Callable[[OnnxNode, _Sizes, Value], Value | None]) -> tuple[Value, ...]:
    """Attention with the inputs of GroupQueryAttention; ``bias`` is what its scores get, of sizes and rows before."""
    count, groups = node.int("num_heads"), node.int("kv_num_heads")
    q, k, v = _given(node, count, groups)
    sizes = _sizes(node, q, k)
    earlier = _earlier(node, sizes)
    q, k = _prepared(node, q, k, sizes, earlier)
    order = _order(node, sizes, earlier)
    keys = _cached(node, _PAST_KEY, k, sizes, order)
    values = _cached(node, _PAST_VALUE, v, sizes, order)
    y = _attended(node, q, keys, values, sizes, _Seen(earlier, bias(node, sizes, earlier)))
    return (joined_heads(node, y), keys, values)[: max(node.outputs, 1)]


def _check(node: OnnxNode) -> None:
    """Refuses what onnxruntime's kernel for processors has not, or what is a format of its own."""
    if any(node.given_input(k) for k in _SCALES) or node.int("kv_cache_bit_width", 0):
        node.fail("a quantised cache of keys is not supported")
    if node.int("sliding_window_cache", 0) or node.int("qk_output", 0) or node.outputs > 3:
        node.fail("a cache of the window alone and the scores as an output are not supported")
    if node.given_input(_PAST_KEY) != node.given_input(_PAST_VALUE):
        node.fail("keys and values of earlier steps come together")


# --- what is given ------------------------------------------------------------------------------------------------


def _given(node: OnnxNode, count: int, groups: int) -> tuple[Value, Value, Value]:
    """Queries, keys and values by heads [batch, heads, rows, width]; perhaps packed in the first input."""
    if not count or not groups or count % groups:
        node.fail(f"{count} heads of queries for {groups} of keys")
    query = node.x(_QUERY)
    if node.given_input(_KEY):
        key, value = node.x(_KEY), node.x(_VALUE)
    else:
        width = query.type.shape[2]
        if not isinstance(width, int) or width % (count + 2 * groups):
            node.fail(f"{count} heads of queries and {groups} of keys and of values in {width} numbers")
        size = width // (count + 2 * groups)
        begins = (0, count * size, (count + groups) * size)
        lengths = (count * size, groups * size, groups * size)
        query, key, value = (part(node, query, 2, a, n) for a, n in zip(begins, lengths, strict=True))
    return heads_of(node, query, count), heads_of(node, key, groups), heads_of(node, value, groups)


def _sizes(node: OnnxNode, q: Value, k: Value) -> _Sizes:
    batch, heads, rows, width = q.type.shape
    groups = k.type.shape[1]
    if not isinstance(width, int) or not isinstance(heads, int) or not isinstance(groups, int):
        node.fail("its heads have an open size")
    past: Dim = node.type(_PAST_KEY).shape[2] if node.given_input(_PAST_KEY) else 0
    known = node.known_dims(_TOTAL)
    total = known[0] if known is not None else new_dim(node, node.x(_TOTAL), past + rows)
    return _Sizes(batch, rows, past, dmax(past, total), heads, groups, width)


def _number(node: OnnxNode, dim: Dim) -> Value:
    """A size as an i32."""
    return node.value(node.call("full", shape=(), value=dim, dtype=str(I32)))


def _steps(node: OnnxNode, extent: Dim) -> Value:
    return node.value(node.call("iota", extent=extent, start=0, step=1, dtype=str(I32)))


def _earlier(node: OnnxNode, sizes: _Sizes) -> Value:
    """How many rows of each sequence the cache has, i32[batch, 1]."""
    last = node.call("reshape", node.x(_LENGTHS), shape=(sizes.batch, 1))
    before = node.call("add", last, _number(node, 1 - sizes.rows))
    return node.call("maximum", before, node.scalar(0, I32))


def _prepared(node: OnnxNode, q: Value, k: Value, sizes: _Sizes, earlier: Value) -> tuple[Value, Value]:
    """Queries and new keys: normalised where weights for that are given, turned by their places."""
    if node.given_input(_NORMS[0]):
        epsilon = node.float("qk_norm_epsilon", 1e-6)
        q, k = (
            apply(node, "RMSNormalization", v, node.x(at), axis=3, epsilon=epsilon)
            for v, at in zip((q, k), _NORMS, strict=True)
        )
    if not node.int("do_rotary", 0):
        return q, k
    half = node.type(_COSINES).shape[1]
    if not isinstance(half, int):
        node.fail("its table of cosines has an open size")
    places = node.x(_PLACES) if node.given_input(_PLACES) else node.call("add", earlier, _steps(node, sizes.rows))
    lead = (sizes.batch, 1, sizes.rows, half)
    cosines, sines = (
        node.call("reshape", node.call("gather", node.x(at), places, axis=0), shape=lead) for at in (_COSINES, _SINES)
    )
    inner = replace(node, given={"interleaved": node.int("rotary_interleaved", 0)})
    return turned(inner, q, cosines, sines, half), turned(inner, k, cosines, sines, half)


# --- the cache ----------------------------------------------------------------------------------------------------


def _order(node: OnnxNode, sizes: _Sizes, earlier: Value) -> Value:
    """Which row of the cache and the new rows after it each row that goes out is, i32[batch, present, 1]."""
    row = _steps(node, sizes.present)
    since = node.call("sub", row, earlier)
    new = node.call("add", since, _number(node, sizes.past))
    is_old = node.call("less", since, node.scalar(0, I32))
    is_new = node.call("less", since, _number(node, sizes.rows))
    stays = node.call("less", row, _number(node, sizes.past))  # of a cache that is longer than what is known
    rest = node.call("where", stays, row, _number(node, sizes.past + sizes.rows))  # a row that is none reads 0
    found = node.call("where", is_old, row, node.call("where", is_new, new, rest))
    return node.call("reshape", found, shape=(sizes.batch, sizes.present, 1))


def _cached(node: OnnxNode, k: int, new: Value, sizes: _Sizes, order: Value) -> Value:
    """The keys or values that go out, [batch, groups, present, width]."""
    both = node.call("concat", node.x(k), new, axis=2) if node.given_input(k) else new
    if isinstance(sizes.batch, int) and sizes.batch == 1:
        return node.call("gather", both, node.call("reshape", order, shape=(sizes.present,)), axis=2)
    rows = node.call("gather_nd", node.call("transpose", both, perm=(0, 2, 1, 3)), order, batch=1)
    return node.call("transpose", rows, perm=(0, 2, 1, 3))


# --- attention ----------------------------------------------------------------------------------------------------


def _attended(node: OnnxNode, q: Value, k: Value, v: Value, sizes: _Sizes, seen: _Seen) -> Value:
    """softmax(q @ k' * scale, held by softcap, + bias) @ v, [batch, heads, rows, width]."""
    shared = sizes.heads // sizes.groups
    folded = (sizes.batch, sizes.groups, shared * sizes.rows, sizes.width)
    apart = (sizes.batch, sizes.heads, sizes.rows, sizes.present)
    scale = node.float("scale", 0.0) or 1.0 / math.sqrt(sizes.width)
    scores = node.call("matmul", node.call("reshape", q, shape=folded), transposed(node, k))
    scores = node.call("mul", node.call("reshape", scores, shape=apart), node.scalar(scale, F32))
    cap = node.float("softcap", 0.0)
    if cap > 0:
        held = node.call("tanh", node.call("div", scores, node.scalar(cap, F32)))
        scores = node.call("mul", held, node.scalar(cap, F32))
    if seen.bias is not None:
        scores = node.call("add", scores, seen.bias)
    weights = _softmax(node, _masked(node, scores, sizes, seen.earlier), sizes)
    wide = (sizes.batch, sizes.groups, shared * sizes.rows, sizes.present)
    y = node.call("matmul", node.call("reshape", weights, shape=wide), v)
    return node.call("reshape", y, shape=(sizes.batch, sizes.heads, sizes.rows, sizes.width))


def _bias(node: OnnxNode, sizes: _Sizes, _: Value) -> Value | None:
    """The input that is added to scores."""
    return part(node, node.x(_BIAS), 3, 0, sizes.present) if node.given_input(_BIAS) else None


def _blocks(node: OnnxNode) -> NDArray[np.bool_]:
    """Which blocks of keys each block of rows sees, [layouts, blocks, blocks], of rows that list their columns."""
    begins, columns = (node.data(k) for k in (5, 6))
    if begins is None or columns is None:
        node.fail("its tables of blocks must be known when the model is built")
    if begins.ndim != 2 or columns.ndim != 2 or len(begins) != len(columns) or begins.shape[1] < 2:
        node.fail("its tables of blocks do not fit each other")
    count = begins.shape[1] - 1
    if not len(begins) or node.int("num_heads") % len(begins) or begins.size * count > _MAX_BLOCKS:
        node.fail(f"{len(begins)} tables of {count} blocks for {node.int('num_heads')} heads")
    if (np.diff(begins) < 0).any() or begins.min() < 0 or begins.max() > columns.shape[1]:
        node.fail("its tables of blocks have rows outside them")
    found = np.zeros((len(begins), count, count), bool)
    for layout, row in np.ndindex(len(begins), count):
        listed = columns[layout, begins[layout, row] : begins[layout, row + 1]]
        if (listed < 0).any() or (listed >= count).any():
            node.fail("its tables of blocks have columns outside them")
        found[layout, row, listed] = True
    return found


def _block_bias(node: OnnxNode, sizes: _Sizes, earlier: Value, blocks: NDArray[np.bool_]) -> Value:
    """0 where a row sees the block of a key, a number as low as can be added elsewhere."""
    if not isinstance(size := node.int("sparse_block_size"), int) or size < 1:
        node.fail(f"blocks of {size} keys")
    place = node.call("add", earlier, _steps(node, sizes.rows))  # [batch, rows]
    row, column = (node.call("div", v, node.scalar(size, I32)) for v in (place, _steps(node, sizes.present)))
    low = np.where(blocks, np.float32(0), np.finfo(np.float32).min / 2).astype(np.float32)
    of_rows = node.call("gather", node.const(low, "blocks"), row, axis=1)
    of_keys = node.call("gather", of_rows, column, axis=3)
    bias = node.call("transpose", of_keys, perm=(1, 0, 2, 3))
    times = sizes.heads // len(blocks)
    return node.call("concat", *[bias] * times, axis=1) if times > 1 else bias


def _masked(node: OnnxNode, scores: Value, sizes: _Sizes, earlier: Value) -> Value:
    """Scores of keys that a row does not see are as low as they can be: later ones, those before its window."""
    place = node.call("add", earlier, _steps(node, sizes.rows))
    row, key = node.call("reshape", place, shape=(sizes.batch, sizes.rows, 1)), _steps(node, sizes.present)
    window = node.int("local_window_size", -1)
    if node.int("causal", 1):
        seen = node.call("less_equal", key, row)
        if window > 0:
            first = node.call("sub", row, node.scalar(window, I32))
            seen = node.call("and", seen, node.call("less", first, key))
    else:
        last = node.call("reshape", node.x(_LENGTHS), shape=(sizes.batch, 1, 1))
        seen = node.call("less_equal", key, last)
    seen = node.call("reshape", seen, shape=(sizes.batch, 1, *seen.type.shape[1:]))
    return node.call("where", seen, scores, node.scalar(float(np.finfo(np.float32).min), F32))


def _softmax(node: OnnxNode, scores: Value, sizes: _Sizes) -> Value:
    """Softmax of rows; with one more number in each sum, of a head, or e**0, where the node has such."""
    if not node.given_input(_SINK) and not node.int("smooth_softmax", 0):
        return node.call("softmax", scores)
    shape = (sizes.batch, sizes.heads, sizes.rows, 1)
    if node.given_input(_SINK):
        sink = node.call("reshape", node.x(_SINK), shape=(1, sizes.heads, 1, 1))
    else:
        sink = node.scalar(0.0, F32)
    more = node.call("concat", scores, node.call("broadcast_to", sink, shape=shape), axis=3)
    return part(node, node.call("softmax", more), 3, 0, sizes.present)
