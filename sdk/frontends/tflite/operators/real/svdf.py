"""SVDF of floats, with weights of floats or of i8: these read the input in 8 bits, a scale for each row."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I8
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.common import activated
from sdk.frontends.tflite.operators.real.hybrid import channel_scales, has_stored_weights, products
from sdk.frontends.tflite.operators.svdf import Filters, filters, remembered

__all__ = ["TABLE"]


def svdf(node: OpNode) -> None:
    """SVDF: see the one of integers; here the activation is computed."""
    x = node.input(0, F32)
    found = filters(node, x)
    new = _hybrid(node, x, found) if has_stored_weights(node) else _features(node, x, found)
    image = remembered(node, found, new)
    time = found.time
    if node.tensor(2).dtype == I8:
        (scale,) = channel_scales(node, 2, 0)[:1]
        time = time.astype(np.float32) * scale
    if time.dtype != np.float32:
        raise BuildError(f"weights by time are {node.tensor(2).type_name}; supported: FLOAT32, INT8")
    total = node.call(
        "depthwise_conv2d", image, node.const("time", time), _bias(node, found.units), to="total",
        stride=(1, 1), dilation=(1, 1), pad=(0, 0, 0, 0), multiplier=1,
    )  # fmt: skip
    rows = node.call("reshape", total, to="rows", shape=(found.batch, found.units))
    activated(node, rows, int(node.option("FusedActivationFunction")))


def _features(node: OpNode, x: Value, found: Filters) -> Value:
    if found.feature.dtype != np.float32:
        raise BuildError(f"weights by feature are {node.tensor(1).type_name}; supported: FLOAT32, INT8")
    weights = node.const("feature", np.ascontiguousarray(found.feature.T))
    return node.call("matmul", x, weights, to="new")


def _hybrid(node: OpNode, x: Value, found: Filters) -> Value:
    """Features by weights of i8, all of one scale."""
    scales = channel_scales(node, 1, 0)
    if len(scales) != 1:
        raise BuildError(f"weights {node.tensor(1).name} have {len(scales)} scales, supported: one")
    weights = node.builder.const(node.tensor(1).name, found.feature)
    steps = products(node, x, weights, scales, bool(node.option("AsymmetricQuantizeInputs")))
    return node.call("mul", steps.value, steps.scale, to="new")


def _bias(node: OpNode, units: int) -> Value:
    if not node.has(3):
        return node.const("bias", np.zeros(units, np.float32))
    bias = node.input(3, F32)
    if bias.type.shape != (units,):
        raise BuildError(f"the bias has the shape {list(bias.type.shape)} for {units} units")
    return bias


TABLE: Table = {"SVDF": svdf}
