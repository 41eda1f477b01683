"""Pooling of float images, and normalisation by neighbours."""

from __future__ import annotations

from typing import Any

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32
from sdk.errors import BuildError
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.operators.contraction import padding
from sdk.frontends.tflite.operators.real.common import apply, fused

__all__ = ["TABLE"]

_SMALLEST_NORM = 1e-6


def _window(node: OpNode, x: Value) -> dict[str, Any]:
    if x.type.rank != 4:
        raise BuildError(f"the input has rank {x.type.rank} instead of 4")
    kernel = (node.positive("FilterHeight"), node.positive("FilterWidth"))
    stride = (node.positive("StrideH"), node.positive("StrideW"))
    kind = int(node.option("Padding"))
    top, bottom = padding(kind, x.type.shape[1], kernel[0], stride[0], 1)
    left, right = padding(kind, x.type.shape[2], kernel[1], stride[1], 1)
    return {"kernel": kernel, "stride": stride, "pad": (top, left, bottom, right)}


def _pool(op: str) -> Importer:
    def run(node: OpNode) -> None:
        x = node.input(0, F32)
        apply(node, op, x, **_window(node, x))

    return run


def l2_pool_2d(node: OpNode) -> None:
    """L2_POOL_2D: the root of the mean square of the taps inside the image."""
    x = node.input(0, F32)
    given = _window(node, x)
    mean = node.call("avg_pool2d", node.call("mul", x, x, to="square"), to="mean", **given)
    apply(node, "sqrt", mean)


def l2_normalization(node: OpNode) -> None:
    """L2_NORMALIZATION: the last axis by its norm."""
    if fused(node) is not None:
        raise BuildError("a fused activation is not supported here")
    x = node.input(0, F32)
    if x.type.rank < 1:
        raise BuildError("the input has rank 0")
    total = node.call("reduce_sum", node.call("mul", x, x, to="square"), to="total", axes=(x.type.rank - 1,))
    norm = node.call("sqrt", total, to="norm")
    node.call("div", x, node.call("maximum", norm, node.scalar(_SMALLEST_NORM, x), to="divisor"))


def local_response_normalization(node: OpNode) -> None:
    """LOCAL_RESPONSE_NORMALIZATION: by the squares of ``radius`` channels on either side."""
    x, radius = node.input(0, F32), int(node.option("Radius"))
    if x.type.rank != 4 or radius < 0:
        raise BuildError(f"a radius of {radius} on a tensor of rank {x.type.rank}")
    size = 2 * radius + 1
    alpha, beta, bias = (float(node.option(name)) for name in ("Alpha", "Beta", "Bias"))
    node.call("lrn", x, size=size, alpha=alpha * size, beta=beta, bias=bias)


TABLE: Table = {
    "AVERAGE_POOL_2D": _pool("avg_pool2d"),
    "MAX_POOL_2D": _pool("max_pool2d"),
    "L2_POOL_2D": l2_pool_2d,
    "L2_NORMALIZATION": l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
}
