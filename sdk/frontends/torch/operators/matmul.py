"""ATen's matrix products and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I32
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import floordiv
from sdk.frontends.products import matrix_product
from sdk.frontends.torch.context import Number, TorchNode, aten

__all__: list[str] = []


@aten("matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(node: TorchNode, a: Value, b: Value) -> Value:
    """A product of matrices: an operand of rank 1 is a row on the left, a column on the right."""
    return matrix_product(node, a, b)


def _turned(node: TorchNode, w: Value) -> tuple[Value, dict[str, bool]]:
    """Weights [out, in] as the right side of a product: turned at build time where they are known, and no table that
    other operators read, such as the words of a model that shares them between its ends."""
    data = node.numbers(w) if w.name not in node.kept else None
    if data is None:
        return w, {"trans_b": True}
    return node.const(np.ascontiguousarray(data.T), "weight"), {}


@aten("linear.default")
def linear(node: TorchNode, x: Value, w: Value, b: Value | None = None) -> Value:
    """x @ w.T + b."""
    if w.type.rank == 1:
        out = matmul(node, x, w)
    else:
        right, flags = _turned(node, w)
        left = node.call("reshape", x, shape=(1, x.type.shape[0])) if x.type.rank == 1 else x
        out = node.call("matmul", left, right, **flags)
        if x.type.rank == 1:
            out = node.call("reshape", out, shape=(w.type.shape[0],))
    return out if b is None else node.call("add", out, b)


@aten("addmm.default", "baddbmm.default", "addmv.default")
def addmm(node: TorchNode, bias: Value, a: Value, b: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """beta * bias + alpha * (a @ b)."""
    out = _scaled(node, matmul(node, a, b), alpha)
    if beta == 0 and not isinstance(beta, Value):
        return out
    return node.call("add", out, _scaled(node, bias, beta))


def _scaled(node: TorchNode, x: Value, factor: Number) -> Value:
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    return node.call("mul", x, node.tensor(factor, x.type.dtype))


@aten("bilinear.default")
def bilinear(node: TorchNode, a: Value, b: Value, weight: Value, bias: Value | None = None) -> Value:
    """The sum of a[i] * w[k, i, j] * b[j] for each k: a product with b, then with a."""
    outputs, width, other = weight.type.shape
    columns = node.call("transpose", weight, perm=(2, 0, 1))
    flat = node.call("reshape", columns, shape=(other, outputs * width))
    met = node.call("reshape", matrix_product(node, b, flat), shape=(*b.type.shape[:-1], outputs, width))
    rows = node.call("reshape", a, shape=(*a.type.shape[:-1], 1, width))
    total = node.call("reduce_sum", node.call("mul", met, rows), axes=(a.type.rank,))
    y = node.call("reshape", total, shape=(*a.type.shape[:-1], outputs))
    return y if bias is None else node.call("add", y, bias)


@aten("_trilinear.default")
def trilinear(node: TorchNode, a: Value, b: Value, c: Value, *more: Any) -> Value:
    """The product of three tensors, each with new axes at given places, summed over some of their axes."""
    *places, summed, _ = more
    rank = a.type.rank + len(places[0])
    wide = []
    for x, new in zip((a, b, c), places, strict=True):
        at = {node.axis(k, rank) for k in new}
        own = iter(x.type.shape)
        wide.append(node.call("reshape", x, shape=tuple(1 if k in at else next(own) for k in range(rank))))
    met = node.call("mul", node.call("mul", wide[0], wide[1]), wide[2])
    axes = node.axes(summed, rank)
    return node.call("reshape", node.call("reduce_sum", met, axes=axes), shape=node.out.shape)


@aten("scaled_dot_product_attention.default")
def attention(
    node: TorchNode,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Number | None = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(q @ k.T * scale + mask) @ v; a row whose every key is masked gives 0."""
    if dropout > 0:
        node.fail("it drops at random, as in training", hint="export module.eval()")
    width = q.type.shape[-1]
    if scale is None:
        if not isinstance(width, int):
            node.fail(f"the size {width} of heads is open")
        scale = 1 / math.sqrt(width)
    if enable_gqa:
        k, v = (_repeated(node, x, q) for x in (k, v))
    scores = node.call("matmul", _scaled(node, q, scale), k, trans_b=True)
    lowest = node.scalar(-math.inf, scores.type)
    if is_causal:
        ones = node.call("full", shape=scores.type.shape[-2:], value=1, dtype=str(I32))
        below = node.cast(node.call("trilu", ones, k=0, upper=False), BOOL)
        scores = node.call("where", below, scores, lowest)
    if mask is None:
        return node.call("matmul", node.call("softmax", scores), v)
    if mask.type.dtype == BOOL:
        scores = node.call("where", mask, scores, lowest)
        maximum = node.call("reduce_max", node.cast(mask, I32), axes=(mask.type.rank - 1,))
        empty = node.call("equal", maximum, node.scalar(0, I32))
    else:
        mask = node.cast(mask, scores.type.dtype)
        scores = node.call("add", scores, mask)
        maximum = node.call("reduce_max", mask, axes=(mask.type.rank - 1,))
        empty = node.call("equal", maximum, lowest)
    weights = node.call("where", empty, node.scalar(0, scores.type), node.call("softmax", scores))
    return node.call("matmul", weights, v)


def _repeated(node: TorchNode, x: Value, q: Value) -> Value:
    """Keys or values of fewer heads, each for a group of heads of the queries."""
    heads, own = q.type.shape[-3], x.type.shape[-3]
    if same_extent(heads, own):
        return x
    *batch, _, steps, width = x.type.shape
    split = node.call("reshape", x, shape=(*batch, own, 1, steps, width))
    wide = node.call("broadcast_to", split, shape=(*batch, own, floordiv(heads, own), steps, width))
    return node.call("reshape", wide, shape=(*batch, heads, steps, width))
