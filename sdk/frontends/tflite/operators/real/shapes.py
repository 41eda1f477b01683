"""Tensors made of shapes and numbers: nothing of them is computed at run time unless something uses it as data."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.types import F32, I32, I64
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.sym import Dim, dmax, floordiv
from sdk.errors import BuildError
from sdk.frontends.builder import contents_of
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.common import shape_of, single_dim

__all__ = ["TABLE"]


def shape(node: OpNode) -> None:
    """SHAPE: the sizes of a tensor."""
    sizes = node.input(0).type.shape
    node.known(contents_of(list(sizes), node.out_dtype(I32, I64), (len(sizes),)))


def rank(node: OpNode) -> None:
    """RANK: the number of axes."""
    node.known(contents_of([node.input(0).type.rank], I32, ()))


def fill(node: OpNode) -> None:
    """FILL: a shape full of one value."""
    dims, value = shape_of(node, 0), node.input(1)
    if value.type.size != 1:
        raise BuildError(f"{value.type.size} values instead of one")
    data = node.data(1)
    if data is not None and value.type.dtype.kind in "fiu":
        number = data.reshape(-1)[0].item()
        node.call("full", shape=dims, value=number, dtype=str(value.type.dtype))
        return
    one = node.call("reshape", value, to="value", shape=())
    node.call("broadcast_to", one, shape=dims)


def zeros_like(node: OpNode) -> None:
    """ZEROS_LIKE: as many zeros."""
    x = node.input(0, F32, I32, I64)
    node.call("full", shape=x.type.shape, value=0, dtype=str(x.type.dtype))


def range_(node: OpNode) -> None:
    """RANGE: numbers from a start by a step up to a limit that does not belong to them."""
    kind = node.out_dtype(F32, I32, I64)
    if kind.is_float:
        if any(node.constant(k).size != 1 for k in range(3)):
            raise BuildError("its start, limit and step are not one number each")
        first, limit, step = (float(node.constant(k).reshape(-1)[0]) for k in range(3))
        if step == 0 or not np.isfinite([first, limit, step]).all():
            raise BuildError(f"a range from {first} to {limit} by {step}")
        # a sum of steps in single precision would drift: each number is start + k * step, as in LiteRT
        extent: Dim = max(int(np.ceil(abs((np.float32(limit) - np.float32(first)) / np.float32(step)))), 0)
        if (limit > first) != (step > 0):
            extent = 0
        node.call("iota", extent=extent, start=first, step=step, dtype=str(kind))
        return
    start, end, delta = (single_dim(node, k) for k in range(3))
    if not isinstance(delta, int) or delta == 0:
        raise BuildError(f"the step {delta} must be a number other than 0")
    length = end - start if delta > 0 else start - end
    extent = dmax(0, -floordiv(-length, abs(delta)))
    node.call("iota", extent=extent, start=start, step=delta, dtype=str(kind))


def broadcast_args(node: OpNode) -> None:
    """BROADCAST_ARGS: the shape that two shapes broadcast to."""
    found = broadcast_shapes(node.dims(0), node.dims(1))
    node.known(contents_of(list(found), node.out_dtype(I32, I64), (len(found),)))


TABLE: Table = {
    "SHAPE": shape,
    "RANK": rank,
    "FILL": fill,
    "ZEROS_LIKE": zeros_like,
    "RANGE": range_,
    "BROADCAST_ARGS": broadcast_args,
}
