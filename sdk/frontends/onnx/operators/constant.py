"""Values that are there from the start: constants, and tensors filled with one value."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import dtype_of
from sdk.frontends.builder import Contents
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


@onnx_op("Constant")
def constant(node: OnnxNode) -> Value:
    """A tensor given as an attribute."""
    found = node.array("value")
    if found is None:
        found = _plain(node)
    return node.known(Contents(dtype_of(found), found))


def _plain(node: OnnxNode) -> np.ndarray:
    for name, kind in (("value_int", np.int64), ("value_ints", np.int64), ("value_float", np.float32),
                       ("value_floats", np.float32)):  # fmt: skip
        if node.has(name):
            return np.asarray(node.given[name], dtype=kind)
    node.fail(f"a constant of kind {', '.join(node.given) or 'none'} is not supported")


@onnx_op("ConstantOfShape")
def constant_of_shape(node: OnnxNode) -> Value:
    """A tensor of the given shape, every element the same."""
    found = node.array("value")
    value = np.zeros(1, dtype=np.float32) if found is None else found
    if value.size != 1:
        node.fail(f"the value has {value.size} elements instead of one")
    kind = dtype_of(value)
    return node.call("full", shape=node.dims(0), value=value.reshape(-1)[0].item(), dtype=str(kind))
