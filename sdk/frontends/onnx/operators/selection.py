"""ONNX operators whose result is as large as the data say: NonZero, Compress."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import dmin, product
from sdk.frontends.counted import positions
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


@onnx_op("NonZero")
def nonzero(node: OnnxNode) -> Value:
    """The positions of what is not zero, one a column."""
    x = node.x(0)
    if x.type.rank == 0:
        node.fail("a scalar has no positions", hint="give it an axis")
    return positions(node, x, product(x.type.shape))


@onnx_op("Compress")
def compress(node: OnnxNode) -> Value:
    """The slices of an axis (of all elements without one) whose flag is set."""
    x, flags = node.x(0), node.x(1)
    if not node.has("axis"):
        x = node.call("reshape", x, shape=(product(x.type.shape),))
    axis = node.axis(node.int("axis", 0), x.type.rank)
    extent = dmin(flags.type.shape[0], x.type.shape[axis])
    found = positions(node, node.call("cast", flags, to="i32"), extent)
    index = node.call("reshape", found, shape=found.type.shape[1:])
    return node.call("gather", x, index, axis=axis)
