"""ONNX normalisations: of rows, of channels, of groups, of neighbours."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import product
from sdk.frontends.moves import along_last, reshaped
from sdk.frontends.normalisations import normalized, per_channel, rows
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


# --- rows ------------------------------------------------------------------------------------------------------


@onnx_op("LayerNormalization")
def layer_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """Over all axes from one on, taken together; the means and inverse deviations where they are wanted."""
    x = node.x(0)
    axis, epsilon = node.axis(node.int("axis", -1), x.type.rank), node.float("epsilon", 1e-5)
    y = rows(node, "layer_norm", x, axis, epsilon, node.x(1), node.optional(2))
    return (y, *_moments(node, x, axis, epsilon)) if node.outputs > 1 else (y,)


@onnx_op("RMSNormalization")
def rms_normalization(node: OnnxNode) -> Value:
    """The same without mean and bias."""
    x, scale = node.x(0), node.x(1)
    if scale.type.dtype != x.type.dtype:
        scale = node.call("cast", scale, to=str(x.type.dtype))
    axis = node.axis(node.int("axis", -1), x.type.rank)
    return rows(node, "rms_norm", x, axis, node.float("epsilon", 1e-5), scale, None)


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
    flat = reshaped(node, x, (*shape[:2], product(shape[2:])))
    y = reshaped(node, normalized(node, flat, node.float("epsilon", 1e-5)), shape)
    return per_channel(node, y, node.x(1), node.x(2))


@onnx_op("GroupNormalization")
def group_normalization(node: OnnxNode) -> Value:
    """Groups of channels; before opset 21 with one scale per group."""
    x, groups = node.x(0), node.int("num_groups")
    shape = x.type.shape
    rest = product(shape[1:])
    if groups is None or groups < 1 or shape[1] % groups != 0:
        node.fail(f"{shape[1]} channels in {groups} groups")
    flat = node.call("reshape", x, shape=(shape[0], groups, rest // groups))
    y = normalized(node, flat, node.float("epsilon", 1e-5))
    if node.opset < 21:
        return reshaped(node, per_channel(node, y, node.x(1), node.x(2)), shape)
    return per_channel(node, reshaped(node, y, shape), node.x(1), node.x(2))


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
