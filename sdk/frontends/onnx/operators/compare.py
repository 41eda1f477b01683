"""ONNX operators that compare, choose and convert."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import dtype
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.reader import element_name, element_type

__all__: list[str] = []

_SAME: Final = {
    "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less",
    "LessOrEqual": "less_equal", "IsNaN": "is_nan", "Where": "where",
}  # fmt: skip


@onnx_op(*_SAME)
def same(node: OnnxNode) -> Value:
    """An operator that is one of our ops."""
    return node.call(_SAME[node.op], *(node.x(k) for k in range(node.count)))


@onnx_op("IsInf")
def is_inf(node: OnnxNode) -> Value:
    """Whether an element is an infinity of a wanted sign."""
    wanted = {"negative": bool(node.int("detect_negative", 1)), "positive": bool(node.int("detect_positive", 1))}
    return node.call("is_inf", node.x(0), **wanted)


@onnx_op("Cast")
def cast(node: OnnxNode) -> Value:
    """Another element type; floats outside of an integer type keep their low bits, as in onnxruntime."""
    return _converted(node, _wanted(node))


@onnx_op("BitCast")
def bit_cast(node: OnnxNode) -> Value:
    """The same bytes as another type of as many."""
    x, to = node.x(0), _wanted(node)
    return x if str(x.type.dtype) == to else node.call("bitcast", x, to=to)


def _wanted(node: OnnxNode) -> str:
    """The element type that the attribute ``to`` names."""
    code = node.int("to", 0)
    kind = element_type(code)
    if kind is None:
        node.fail(f"a conversion to elements of type {element_name(code)}")
    return str(kind)


@onnx_op("CastLike")
def cast_like(node: OnnxNode) -> Value:
    """The element type of the second input."""
    return _converted(node, str(node.type(1).dtype))


def _converted(node: OnnxNode, to: str) -> Value:
    x = node.x(0)
    if str(x.type.dtype) == to:
        return x
    open_ended = x.type.dtype.is_float and dtype(to).kind in "iu"  # where the standard leaves it open what is beyond
    return node.call("cast", x, to=to, **({"wraps": True} if open_ended else {}))
