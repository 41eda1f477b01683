"""Pooling operators."""

from __future__ import annotations

from sdk.compiler.ir.types import I8, I16
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.contraction import padding
from sdk.frontends.tflite.quantize import activation_range

__all__ = ["TABLE"]


def _pool(node: OpNode, op: str, **more: int) -> None:
    x = node.input(0, I8, I16)
    if x.type.rank != 4:
        raise BuildError(f"the input has rank {x.type.rank} instead of 4")
    quant = node.quant(node.output())
    if node.quant(node.tensor(0)) != quant:
        raise BuildError("input and output of a pooling must have one scale and zero point")
    kernel = (node.positive("FilterHeight"), node.positive("FilterWidth"))
    stride = (node.positive("StrideH"), node.positive("StrideW"))
    kind = int(node.option("Padding"))
    top, bottom = padding(kind, x.type.shape[1], kernel[0], stride[0], 1)
    left, right = padding(kind, x.type.shape[2], kernel[1], stride[1], 1)
    lo, hi = activation_range(
        int(node.option("FusedActivationFunction")), quant.scale, quant.zero_point, x.type.dtype
    )
    node.call(op, x, kernel=kernel, stride=stride, pad=(top, left, bottom, right), lo=lo, hi=hi, **more)


def average_pool_2d(node: OpNode) -> None:
    """AVERAGE_POOL_2D: the mean of the taps inside the image, halves away from a stored 0."""
    raised = {"x_offset": 128} if node.was_unsigned(node.tensor(0)) else {}
    _pool(node, "avg_pool2d", **raised)


def max_pool_2d(node: OpNode) -> None:
    """MAX_POOL_2D."""
    _pool(node, "max_pool2d")


TABLE: Table = {
    "AVERAGE_POOL_2D": average_pool_2d,
    "MAX_POOL_2D": max_pool_2d,
}
