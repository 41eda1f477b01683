"""Optional values: whether there is one is known at import, as every input of a model is a tensor."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL
from sdk.frontends.builder import contents_of
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


@onnx_op("Optional")
def optional(node: OnnxNode) -> Value:
    """A value that is there."""
    return node.raw(0)


@onnx_op("OptionalGetElement")
def get_element(node: OnnxNode) -> Value:
    """The value itself."""
    return node.raw(0)


@onnx_op("OptionalHasElement")
def has_element(node: OnnxNode) -> Value:
    """Whether the node is given a value."""
    return node.known(contents_of([int(node.given_input(0))], BOOL, ()))
