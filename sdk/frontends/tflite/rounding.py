"""Reals to whole numbers as C's ``round`` does it."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.frontends.tflite.context import OpNode

__all__ = ["rounded"]


def rounded(node: OpNode, x: Value) -> Value:
    """The nearest whole number, halves away from 0, of each element."""
    whole = node.call("trunc", x, to="whole")
    rest = node.call("abs", node.call("sub", x, whole, to="rest"), to="distance")
    far = node.call("greater_equal", rest, node.scalar(0.5, x), to="far")
    next_ = node.call("add", whole, node.call("sign", x, to="sign"), to="next")
    return node.call("where", far, next_, whole, to="rounded")
