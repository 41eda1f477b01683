"""ONNX operators whose result is as large as the data say: NonZero, Compress."""

from __future__ import annotations

from sdk.compiler.ir.graph import BindDim, Value, fresh_name
from sdk.compiler.sym import Dim, Var, dmin, max_value, product
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


def new_dim(node: OnnxNode, count: Value, maximum: Dim) -> Dim:
    """A dim that is at run time what ``count`` (one integer) holds, at most ``maximum``; a number where that is known.

    Raises:
        BuildError: nothing bounds ``maximum``.
    """
    known = node.builder.contents_of(count)
    if known is not None and known.numbers is not None:
        return int(known.numbers.reshape(-1)[0])
    hi = max_value(maximum)
    if hi is None:
        node.fail(f"nothing bounds how large its result is: {maximum}", hint="give bounds to the dims of the inputs")
    taken = node.builder.names | set(node.builder.dims)
    var = Var(fresh_name(f"{node.stem}_count", taken), 0, hi)
    node.builder.names.add(var.name)
    node.builder.body.append(BindDim(var, count, node.source))
    return var.expr


def _positions(node: OnnxNode, flags: Value, maximum: Dim) -> Value:
    """Where ``flags`` are set, i64[rank, count]."""
    count = new_dim(node, node.call("count_nonzero", flags), maximum)
    return node.call("nonzero", flags, count=count)


@onnx_op("NonZero")
def nonzero(node: OnnxNode) -> Value:
    """The positions of what is not zero, one a column."""
    x = node.x(0)
    if x.type.rank == 0:
        node.fail("a scalar has no positions", hint="give it an axis")
    return _positions(node, x, product(x.type.shape))


@onnx_op("Compress")
def compress(node: OnnxNode) -> Value:
    """The slices of an axis (of all elements without one) whose flag is set."""
    x, flags = node.x(0), node.x(1)
    if not node.has("axis"):
        x = node.call("reshape", x, shape=(product(x.type.shape),))
    axis = node.axis(node.int("axis", 0), x.type.rank)
    extent = dmin(flags.type.shape[0], x.type.shape[axis])
    found = _positions(node, node.call("cast", flags, to="i32"), extent)
    index = node.call("reshape", found, shape=found.type.shape[1:])
    return node.call("gather", x, index, axis=axis)
