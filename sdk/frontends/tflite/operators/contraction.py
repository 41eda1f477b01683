"""Convolutions and fully connected layers: an exact accumulator, then a requantisation per channel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, I64, DType
from sdk.compiler.sym import Dim, ceildiv
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OperatorSpec, OpNode, Table
from sdk.frontends.tflite.quantize import activation_range, channel_multipliers

__all__ = ["TABLE", "padding"]

Array = NDArray[Any]
SAME = 0


def padding(kind: int, size: Dim, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Rows (or columns) of padding before and after.

    Raises:
        BuildError: SAME padding of an open extent whose amount depends on the extent.
    """
    if kind != SAME:
        return 0, 0
    reach = (kernel - 1) * dilation + 1
    total = (ceildiv(size, stride) - 1) * stride + reach - size
    if not isinstance(total, int):
        raise BuildError(f"SAME padding with stride {stride} of the open extent {size} depends on its value")
    total = max(total, 0)
    return total // 2, total - total // 2


def _channel_scales(node: OpNode, k: int, channels: int, axis: int) -> Array:
    """The weight scales, one or one per channel, after the checks that symmetric weights need."""
    weights = node.tensor(k)
    scales = np.asarray(weights.scales, dtype=np.float64)
    if len(scales) not in (1, channels) or (len(scales) > 1 and weights.axis != axis):
        raise BuildError(f"weights {weights.name} have {len(scales)} scales on axis {weights.axis} for {channels} channels")
    if any(weights.zero_points):
        raise BuildError(f"weights {weights.name} have a zero point")
    return scales


def _bias(node: OpNode, channels: int, kind: DType) -> tuple[Value, Array]:
    """The bias and its magnitude per channel; zeros of type ``kind`` when the operator has none."""
    if not node.has(2):
        zeros = np.zeros(channels, dtype=kind.numpy)
        return node.const("bias", zeros), zeros.astype(object)
    value = node.input(2, I32, I64)
    data = node.constant(2)
    if data.shape != (channels,):
        raise BuildError(f"the bias has the shape {list(data.shape)} for {channels} channels")
    return value, np.abs(data.astype(object))


def _bounds(weights: Array, x_offset: int, kind: DType, bias: Array) -> Array:
    """The largest |accumulator| per channel; ``weights`` is [channels, taps]."""
    lo, hi = kind.limits
    most = max(abs(lo + x_offset), abs(hi + x_offset))
    return np.abs(weights.astype(np.int64)).sum(axis=1).astype(object) * most + bias


