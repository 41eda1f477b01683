"""UNIDIRECTIONAL_SEQUENCE_LSTM of quantised tensors, as TensorFlow Lite Micro computes it: one matrix for what all
steps read, and a scan over the steps. Forms that it has no kernel for are in ``lstm_parts``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I8, I16, I32, I64, DType
from sdk.compiler.ops.fixed import quantize_multiplier
from sdk.compiler.ops.multipliers import channel_multipliers
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode
from sdk.frontends.tflite.curves import sigmoid_table
from sdk.frontends.tflite.operators.contraction import bounds, rescaled
from sdk.frontends.tflite.quantize import ACTIVATIONS
from sdk.frontends.tflite.variables import read_kept, write_kept

__all__ = [
    "BIASES", "CELL", "FROM_INPUT", "FROM_STATE", "GATE_SCALE", "HIDDEN", "NO_CLIP", "Gates", "batch_first",
    "cell_clip", "cell_scale", "check_activation", "gate_bias", "product_ratio", "read_gates", "time_first",
    "unidirectional_sequence_lstm",
]  # fmt: skip

Array = NDArray[Any]
# Inputs of the operator, in the order of gates: input, forget, cell, output.
FROM_INPUT: Final = (1, 2, 3, 4)
FROM_STATE: Final = (5, 6, 7, 8)
BIASES: Final = (12, 13, 14, 15)
HIDDEN: Final = 18
CELL: Final = 19
GATE_SCALE: Final = 2.0**-12
NO_CLIP: Final = 32768


def time_first(node: OpNode, x: Value, to: str = "by_time") -> Value:
    """x[batch, steps, ..] as [steps, batch, ..]."""
    batch, steps, *rest = x.type.shape
    if batch == 1 or steps == 1:
        return node.call("reshape", x, to=to, shape=(steps, batch, *rest))
    return node.call("transpose", x, to=to, perm=(1, 0, *range(2, x.type.rank)))


def batch_first(node: OpNode, y: Value, to: int | str = 0) -> Value:
    """y[steps, batch, units] as [batch, steps, units]."""
    steps, batch, *rest = y.type.shape
    if batch == 1 or steps == 1:
        return node.call("reshape", y, to=to, shape=(batch, steps, *rest))
    return node.call("transpose", y, to=to, perm=(1, 0, *range(2, y.type.rank)))


@dataclass(frozen=True, slots=True)
class Gates:
    """A matrix of i8 for all gates [gates * units, columns], the scale of each, the scale of what it reads, and what
    is added to that."""

    weights: Array
    scales: Array
    source: float
    offset: int

    @property
    def ratios(self) -> Array:
        """The ratio of each gate to numbers with 12 bits after the point."""
        return self.source * self.scales / GATE_SCALE

    def limit(self, kind: DType, bias: Array) -> Array:
        """The largest sum of each row, over inputs of an element type, and a bias."""
        return bounds(self.weights, self.offset, kind, bias)


def read_gates(node: OpNode, source: int, numbers: Sequence[int], columns: Dim, units: int) -> Gates:
    """The weights ``numbers`` of gates by which they read input ``source``, which has so many columns.

    Raises:
        BuildError: they are no matrices of i8 of ``units`` rows, or have zero points.
    """
    quant, parts, scales = node.quant(node.tensor(source)), [], []
    for k in numbers:
        data, own = node.constant(k), node.quant(node.tensor(k))
        if data.dtype != np.int8 or own.zero_point or data.ndim != 2 or data.shape[0] != units:
            raise BuildError(
                f"weights {node.tensor(k).name} are {data.dtype}{list(data.shape)} with zero point {own.zero_point}; "
                f"supported: int8 of {units} rows without one"
            )
        if not same_extent(columns, data.shape[1]):
            raise BuildError(f"weights {node.tensor(k).name} of shape {list(data.shape)} do not fit {columns} numbers")
        parts.append(data)
        scales.append(own.scale)
    return Gates(np.concatenate(parts), np.asarray(scales), quant.scale, -quant.zero_point)


def unidirectional_sequence_lstm(node: OpNode) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of i8 or i16 with cells of i16, without any part that an LSTM may have besides."""
    check_activation(node)
    x, kind = node.input(0, I8, I16), node.out_dtype(I8, I16)
    if x.type.rank != 3 or kind != x.type.dtype:
        raise BuildError(f"the input has rank {x.type.rank} and type {x.type.dtype}, the output type {kind}")
    major = bool(node.option("TimeMajor"))
    batch, units = x.type.shape[1 if major else 0], node.constant(BIASES[0]).size
    if not isinstance(batch, int):
        raise BuildError(f"the open batch {batch} is not supported: the operator keeps a state of each of the batch")
    sums = I32 if kind == I8 else I64
    bias = np.concatenate([gate_bias(node, k, units, sums) for k in BIASES])
    source = read_gates(node, 0, FROM_INPUT, x.type.shape[2], units)
    rows = x if major else time_first(node, x)
    weights, start = node.const("from_input", source.weights), node.const("bias", bias)
    acc = node.call("dense", rows, weights, start, to="acc", x_offset=source.offset, w_offset=0)
    limit = source.limit(kind, np.abs(bias.astype(object)))
    gates = rescaled(node, acc, np.repeat(source.ratios, units), limit, "gates", I16, 0, I16.limits)
    y = _scan(node, gates, batch, units, kind, 0 if major else "by_time")
    if not major:
        batch_first(node, y)


def _scan(node: OpNode, gates: Value, batch: int, units: int, kind: DType, to: int | str) -> Value:
    recurrent = read_gates(node, HIDDEN, FROM_STATE, units, units)
    sums = np.int32 if kind == I8 else np.int64
    start = recurrent.weights.astype(np.int64).sum(axis=1) * recurrent.offset
    maximum = recurrent.limit(kind, np.zeros(4 * units, object)).reshape(4, units).max(axis=1)
    m = channel_multipliers(recurrent.ratios, maximum, wide=kind == I16)
    scale, hidden = cell_scale(node), node.quant(node.tensor(HIDDEN))
    left = 12 + round(math.log2(scale))
    states = [read_kept(node, k, dtype, (batch, units)) for k, dtype in ((HIDDEN, kind), (CELL, I16))]
    y, h, c = node.calls(
        "lstm_scan_q", gates, node.const("from_state", recurrent.weights), node.const("start", start.astype(sums)),
        node.const("mult", m.mult), node.const("shift", m.shift), *states, node.const("curve", sigmoid_table()),
        to=(to, "hidden", "cells"), forget=(1 << 30, -14), enter=product_ratio(2.0**-30 / scale),
        result=product_ratio(2.0**-30 / hidden.scale), zp=hidden.zero_point,
        cell_steps=(3 << max(left, 0), max(-left, 0)),
        clip=cell_clip(node, scale), shift_lo=m.shift_lo, shift_hi=m.shift_hi, acc_bits=m.acc_bits,
    )  # fmt: skip
    write_kept(node, HIDDEN, h)
    write_kept(node, CELL, c)
    return y


def check_activation(node: OpNode) -> None:
    """Refuses cells with another activation than tanh, which no integer kernel has."""
    number = int(node.option("FusedActivationFunction"))
    if ACTIVATIONS.get(number) != "TANH":
        raise BuildError(f"the activation {ACTIVATIONS.get(number, number)} of cells is not supported, only TANH")


def gate_bias(node: OpNode, k: int, units: int, kind: DType) -> Array:
    """Bias ``k`` of a gate.

    Raises:
        BuildError: it has other elements.
    """
    data = node.constant(k)
    if data.shape != (units,) or data.dtype != kind.numpy:
        raise BuildError(f"the bias {node.tensor(k).name} is {data.dtype}{list(data.shape)}, needed: {kind}[{units}]")
    return data


def cell_scale(node: OpNode) -> float:
    """The scale of cells, a power of two."""
    scale = node.quant(node.tensor(CELL)).scale
    if math.frexp(scale)[0] != 0.5 or not 2.0**-15 <= scale <= 1:
        raise BuildError(f"cells have the scale {scale} instead of a power of two from 2**-15 to 1")
    return scale


def product_ratio(ratio: float) -> tuple[int, int]:
    """The multiplier and the shift of a product of i16.

    Raises:
        BuildError: they would make it larger.
    """
    mult, shift = quantize_multiplier(ratio)
    if shift > 0:
        raise BuildError(f"the scale ratio {ratio} of a product is 1 or more")
    return mult, shift


def cell_clip(node: OpNode, scale: float) -> int:
    """The largest stored cell, cut off as TensorFlow Lite Micro does; beyond i16 without one."""
    clip = float(node.option("CellClip"))
    return int(min(float(np.float32(clip)) / scale, 32767.0)) if clip > 0 else NO_CLIP

