"""ONNX normalisations: of rows, of channels, of groups, of neighbours."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim, product
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.operators.reduce import along_last

__all__: list[str] = []


def _reshaped(node: OnnxNode, x: Value, shape: tuple[Dim, ...]) -> Value:
    return x if x.type.shape == shape else node.call("reshape", x, shape=shape)


def _per_channel(node: OnnxNode, x: Value, scale: Value, bias: Value) -> Value:
    """x * scale + bias with one number each per channel, which is axis 1."""
    shape = (scale.type.shape[0], *(1,) * (x.type.rank - 2))
    down = node.call("mul", x, _reshaped(node, scale, shape))
    return node.call("add", down, _reshaped(node, bias, shape))


def _normalized(node: OnnxNode, x: Value, epsilon: float) -> Value:
    """Each row without its mean, by its deviation."""
    one, zero = (node.const(np.full(1, k, dtype=x.type.dtype.numpy)) for k in (1, 0))
    return node.call("layer_norm", x, one, zero, epsilon=epsilon)


# --- rows ------------------------------------------------------------------------------------------------------


@onnx_op("LayerNormalization")
def layer_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """Over all axes from one on, taken together; the means and inverse deviations where they are wanted."""
    x = node.x(0)
    axis, epsilon = node.axis(node.int("axis", -1), x.type.rank), node.float("epsilon", 1e-5)
    y = _rows(node, "layer_norm", x, axis, epsilon, node.x(1), node.optional(2))
    return (y, *_moments(node, x, axis, epsilon)) if node.outputs > 1 else (y,)


@onnx_op("RMSNormalization")
def rms_normalization(node: OnnxNode) -> Value:
    """The same without mean and bias."""
    x, scale = node.x(0), node.x(1)
    if scale.type.dtype != x.type.dtype:
        scale = node.call("cast", scale, to=str(x.type.dtype))
    axis = node.axis(node.int("axis", -1), x.type.rank)
    return _rows(node, "rms_norm", x, axis, node.float("epsilon", 1e-5), scale, None)


def _rows(
    node: OnnxNode, op: str, x: Value, axis: int, epsilon: float, scale: Value, bias: Value | None
) -> Value:
    """``op`` on the rows that all axes from ``axis`` on make; scale and bias after it where they are broadcast."""
    rest = x.type.shape[axis:]
    flat = _reshaped(node, x, (*x.type.shape[:axis], product(rest)))
    given = [v for v in (scale, bias) if v is not None]
    inside = all(product(v.type.shape) == product(rest) for v in given)
    if inside:
        lines = [_reshaped(node, v, (product(rest),)) for v in given]
    else:
        lines = [node.const(np.ones(1, dtype=x.type.dtype.numpy))]
    if op == "layer_norm" and len(lines) == 1:
        lines.append(node.const(np.zeros(1, dtype=x.type.dtype.numpy)))
    y = _reshaped(node, node.call(op, flat, *lines, epsilon=epsilon), x.type.shape)
    if inside:
        return y
    y = node.call("mul", y, scale)
    return y if bias is None else node.call("add", y, bias)


def _moments(node: OnnxNode, x: Value, axis: int, epsilon: float) -> tuple[Value, Value]:
    """The mean and 1 / deviation over the axes from ``axis`` on."""
    mean, variance = _mean_variance(node, x, tuple(range(axis, x.type.rank)))
    return mean, node.call("rsqrt", node.call("add", variance, node.scalar(epsilon, x.type)))


def _mean_variance(node: OnnxNode, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    mean = node.call("reduce_mean", x, axes=axes)
    down = node.call("sub", x, mean)
    return mean, node.call("reduce_mean", node.call("mul", down, down), axes=axes)


# --- channels and groups ---------------------------------------------------------------------------------------


@onnx_op("InstanceNormalization")
def instance_normalization(node: OnnxNode) -> Value:
    """Each channel of each image on its own."""
    x = node.x(0)
    shape = x.type.shape
    flat = _reshaped(node, x, (*shape[:2], product(shape[2:])))
    y = _reshaped(node, _normalized(node, flat, node.float("epsilon", 1e-5)), shape)
    return _per_channel(node, y, node.x(1), node.x(2))


@onnx_op("GroupNormalization")
def group_normalization(node: OnnxNode) -> Value:
    """Groups of channels; before opset 21 with one scale per group."""
    x, groups = node.x(0), node.int("num_groups")
    shape = x.type.shape
    rest = product(shape[1:])
    if groups is None or groups < 1 or shape[1] % groups != 0:
        node.fail(f"{shape[1]} channels in {groups} groups")
    flat = node.call("reshape", x, shape=(shape[0], groups, rest // groups))
    y = _normalized(node, flat, node.float("epsilon", 1e-5))
    if node.opset < 21:
        return _reshaped(node, _per_channel(node, y, node.x(1), node.x(2)), shape)
    return _per_channel(node, _reshaped(node, y, shape), node.x(1), node.x(2))


# --- others ----------------------------------------------------------------------------------------------------


@onnx_op("LpNormalization")
def lp_normalization(node: OnnxNode) -> Value:
    """By the norm along an axis; what has none stays 0."""
    x, p = node.x(0), node.int("p", 2)
    axis = node.axis(node.int("axis", -1), x.type.rank)
    if p not in (1, 2):
        node.fail(f"a norm of order {p}")
    size = node.call("abs", x) if p == 1 else node.call("mul", x, x)
    norm = node.call("reduce_sum", size, axes=(axis,))
    norm = node.call("sqrt", norm) if p == 2 else norm
    none = node.call("equal", norm, node.scalar(0, x.type))
    return node.call("where", none, node.scalar(0, x.type), node.call("div", x, norm))


@onnx_op("LRN")
def local_response(node: OnnxNode) -> Value:
    """By the neighbouring channels."""
    size = node.int("size")
    if size is None:
        node.fail("the attribute size is missing")
    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    given = {name: float(node.float(name, value)) for name, value in defaults.items()}
    return along_last(node, node.x(0), 1, lambda v: node.call("lrn", v, size=size, **given))


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(node: OnnxNode) -> Value:
    """Without the mean, by the deviation, over some axes."""
    x = node.x(0)
    axes = tuple(sorted({node.axis(k, x.type.rank) for k in node.ints("axes", (0, 2, 3))}))
    mean, variance = _mean_variance(node, x, axes)
    spread = node.call("add", node.call("sqrt", variance), node.scalar(1e-9, x.type))
    return node.call("div", node.call("sub", x, mean), spread)
