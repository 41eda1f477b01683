"""SVDF: each filter makes one number of the input, and a weighted sum over its last numbers goes into its unit.

The numbers of the last runs are kept [batch, time, rank * units], the filters of one rank beside each other: so the
sum over time and ranks is one depthwise window, and the oldest row is dropped at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32
from sdk.compiler.ops.shapes import same_extent
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.contraction import bounds, rescaled
from sdk.frontends.tflite.quantize import ACTIVATIONS
from sdk.frontends.tflite.variables import read_kept, write_kept

__all__ = ["TABLE", "Filters", "filters", "remembered"]

Array = NDArray[Any]
# Of integers LiteRT takes the range of the output for the activation; these it would not compute at all.
_LOST = ("TANH", "SIGN_BIT")


@dataclass(frozen=True, slots=True)
class Filters:
    """The sizes of the operator, its constant weights by feature [rank * units, inputs] and by time [time, rank,
    units]."""

    batch: int
    units: int
    rank: int
    feature: Array
    time: Array

    def turned(self, data: Array) -> Array:
        """An array by filters (axis 0) of the file, ``unit * rank + r``, in the order ``r * units + unit``."""
        apart = data.reshape(self.units, self.rank, *data.shape[1:])
        return np.ascontiguousarray(apart.swapaxes(0, 1)).reshape(data.shape)


def filters(node: OpNode, x: Value) -> Filters:
    """What the operator's weights say.

    Raises:
        BuildError: shapes that do not fit each other, weights that are computed.
    """
    feature, time, rank = node.constant(1), node.constant(2), node.positive("Rank")
    if x.type.rank != 2 or feature.ndim != 2 or time.ndim != 2:
        raise BuildError(f"input and weights have the ranks {x.type.rank}, {feature.ndim} and {time.ndim} instead of 2")
    count, batch = feature.shape[0], x.type.shape[0]
    if not same_extent(x.type.shape[1], feature.shape[1]) or time.shape[0] != count or count % rank or not time.size:
        raise BuildError(
            f"weights of shape {list(feature.shape)} and {list(time.shape)} with rank {rank} do not fit inputs of "
            f"{x.type.shape[1]} numbers"
        )
    if not isinstance(batch, int):
        raise BuildError(f"the open batch {batch} is not supported: the operator keeps numbers of each of the batch")
    plain = Filters(batch, count // rank, rank, feature, time)
    by_time = plain.turned(time).T.reshape(time.shape[1], rank, plain.units)
    return Filters(batch, plain.units, rank, plain.turned(feature), np.ascontiguousarray(by_time))


def remembered(node: OpNode, found: Filters, new: Value) -> Value:
    """The numbers of the last runs and this one's, [batch, time, rank, units]; they are kept for the next run."""
    steps, columns = found.time.shape[0], found.rank * found.units
    before = read_kept(node, 4, new.type.dtype, (found.batch, steps, columns))
    row = node.call("reshape", new, to="row", shape=(found.batch, 1, columns))
    if steps > 1:
        rest = node.call(
            "slice", before, to="later", begin=(0, 1, 0), size=(found.batch, steps - 1, columns), strides=(1, 1, 1)
        )
        row = node.call("concat", rest, row, to="window", axis=1)
    write_kept(node, 4, row)
    return node.call("reshape", row, to="image", shape=(found.batch, steps, found.rank, found.units))


def svdf(node: OpNode) -> None:
    """SVDF of i8, with a memory of i8 or i16. What is kept in i8 is held to its range before the zero point is added,
    and wraps there."""
    x, kind = node.input(0, I8), node.out_dtype(I8)
    found = filters(node, x)
    memory = node.tensor(4).dtype
    if found.feature.dtype != np.int8 or memory not in (I8, I16) or node.tensor(2).dtype != memory:
        types = [node.tensor(k).type_name for k in (1, 2, 4)]
        raise BuildError(
            f"weights and memory are {', '.join(types)}; supported: INT8, and INT8 or INT16 for both of the others"
        )
    activation = ACTIVATIONS.get(int(node.option("FusedActivationFunction")), "")
    if activation in _LOST:
        raise BuildError(f"the fused activation {activation} is not supported")
    source, target, kept = node.quant(node.tensor(0)), node.quant(node.output()), node.quant(node.tensor(4))
    by_feature, by_time = node.quant(node.tensor(1)), node.quant(node.tensor(2))
    if by_feature.zero_point or by_time.zero_point:
        raise BuildError("weights have a zero point")
    none = node.const("none", np.zeros(found.feature.shape[0], np.int32))
    feature = node.builder.const(node.tensor(1).name, found.feature)
    acc = node.call("dense", x, feature, none, to="features", x_offset=-source.zero_point, w_offset=0)
    limit = bounds(found.feature, -source.zero_point, I8, np.zeros(len(found.feature), object))
    ratio = _ratio(node, source.scale, by_feature.scale, kept.scale)
    new = rescaled(node, acc, ratio, limit, "new", memory, 0, memory.limits)
    if kept.zero_point:
        new = node.call("add", new, node.scalar(kept.zero_point, new), to="raised")
    image = remembered(node, found, new)
    bias, maximum = _bias(node, found.units)
    time = node.builder.const(node.tensor(2).name, found.time)
    total = node.call(
        "depthwise_conv2d", image, time, bias, to="total", stride=(1, 1), dilation=(1, 1), pad=(0, 0, 0, 0),
        multiplier=1, x_offset=-kept.zero_point, pad_value=kept.zero_point,
    )  # fmt: skip
    limit = bounds(found.time.reshape(-1, found.units).T, -kept.zero_point, memory, maximum)
    rows = node.call("reshape", total, to="rows", shape=(found.batch, found.units))
    ratio = _ratio(node, kept.scale, by_time.scale, target.scale)
    rescaled(node, rows, ratio, limit, 0, kind, target.zero_point, kind.limits)


def _ratio(node: OpNode, source: float, weights: float, target: float) -> Array:
    """A ratio of scales: of doubles, as tflite-micro has it; without a bias, which only LiteRT takes, in single
    precision as there."""
    if node.has(3):
        return np.asarray([source * weights / target])
    return np.asarray([float(np.float32(source) * np.float32(weights) / np.float32(target))])


def _bias(node: OpNode, units: int) -> tuple[Value, Array]:
    if not node.has(3):
        zeros = np.zeros(units, np.int32)
        return node.const("bias", zeros), zeros.astype(object)
    data = node.constant(3)
    if data.shape != (units,):
        raise BuildError(f"the bias has the shape {list(data.shape)} for {units} units")
    return node.input(3, I32), np.abs(data.astype(object))


TABLE: Table = {"SVDF": svdf}
