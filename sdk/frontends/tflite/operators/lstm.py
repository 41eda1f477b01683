"""UNIDIRECTIONAL_SEQUENCE_LSTM of quantised tensors, as TensorFlow Lite Micro computes it: one matrix for what all
steps read, and a scan over the steps."""

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
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.curves import sigmoid_table
from sdk.frontends.tflite.operators.contraction import bounds, rescaled
from sdk.frontends.tflite.quantize import ACTIVATIONS
from sdk.frontends.tflite.variables import read_kept, write_kept

__all__ = ["FROM_INPUT", "FROM_STATE", "TABLE", "batch_first", "time_first"]

Array = NDArray[Any]
# Inputs of the operator, in the order of gates: input, forget, cell, output.
FROM_INPUT: Final = (1, 2, 3, 4)
FROM_STATE: Final = (5, 6, 7, 8)
_BIASES: Final = (12, 13, 14, 15)
_HIDDEN, _CELL = 18, 19
_MORE: Final = {
    "peepholes": (9, 10, 11), "a projection": (16, 17), "normalised layers": (20, 21, 22, 23),
}  # fmt: skip
_GATE_SCALE = 2.0**-12
_NO_CLIP = 32768


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
class _Gates:
    """A matrix of i8 for all gates [4 * units, columns], the zero point of what it reads, and the ratio of each gate
    to numbers with 12 bits after the point."""

    weights: Array
    offset: int
    ratios: Array

    def limit(self, kind: DType, bias: Array) -> Array:
        return bounds(self.weights, self.offset, kind, bias)


def _gates(node: OpNode, source: int, numbers: Sequence[int], columns: Dim, units: int) -> _Gates:
    quant, parts, ratios = node.quant(node.tensor(source)), [], []
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
        ratios.append(quant.scale * own.scale / _GATE_SCALE)
    return _Gates(np.concatenate(parts), -quant.zero_point, np.asarray(ratios))


def unidirectional_sequence_lstm(node: OpNode) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of i8 or i16 with cells of i16."""
    _check_variant(node)
    x, kind = node.input(0, I8, I16), node.out_dtype(I8, I16)
    if x.type.rank != 3 or kind != x.type.dtype:
        raise BuildError(f"the input has rank {x.type.rank} and type {x.type.dtype}, the output type {kind}")
    major = bool(node.option("TimeMajor"))
    batch, units = x.type.shape[1 if major else 0], node.constant(_BIASES[0]).size
    if not isinstance(batch, int):
        raise BuildError(f"the open batch {batch} is not supported: the operator keeps a state of each of the batch")
    sums = I32 if kind == I8 else I64
    bias = np.concatenate([_bias(node, k, units, sums) for k in _BIASES])
    source = _gates(node, 0, FROM_INPUT, x.type.shape[2], units)
    rows = x if major else time_first(node, x)
    weights, start = node.const("from_input", source.weights), node.const("bias", bias)
    acc = node.call("dense", rows, weights, start, to="acc", x_offset=source.offset, w_offset=0)
    limit = source.limit(kind, np.abs(bias.astype(object)))
    gates = rescaled(node, acc, np.repeat(source.ratios, units), limit, "gates", I16, 0, I16.limits)
    y = _scan(node, gates, batch, units, kind, 0 if major else "by_time")
    if not major:
        batch_first(node, y)


def _scan(node: OpNode, gates: Value, batch: int, units: int, kind: DType, to: int | str) -> Value:
    recurrent = _gates(node, _HIDDEN, FROM_STATE, units, units)
    sums = np.int32 if kind == I8 else np.int64
    start = recurrent.weights.astype(np.int64).sum(axis=1) * recurrent.offset
    most = recurrent.limit(kind, np.zeros(4 * units, object)).reshape(4, units).max(axis=1)
    m = channel_multipliers(recurrent.ratios, most, wide=kind == I16)
    scale, hidden = _cell_scale(node), node.quant(node.tensor(_HIDDEN))
    left = 12 + round(math.log2(scale))
    states = [read_kept(node, k, dtype, (batch, units)) for k, dtype in ((_HIDDEN, kind), (_CELL, I16))]
    y, h, c = node.calls(
        "lstm_scan_q", gates, node.const("from_state", recurrent.weights), node.const("start", start.astype(sums)),
        node.const("mult", m.mult), node.const("shift", m.shift), *states, node.const("curve", sigmoid_table()),
        to=(to, "hidden", "cells"), forget=(1 << 30, -14), enter=_product(2.0**-30 / scale),
        result=_product(2.0**-30 / hidden.scale), zp=hidden.zero_point, cell_steps=(3 << max(left, 0), max(-left, 0)),
        clip=_clip(node, scale), shift_lo=m.shift_lo, shift_hi=m.shift_hi, acc_bits=m.acc_bits,
    )  # fmt: skip
    write_kept(node, _HIDDEN, h)
    write_kept(node, _CELL, c)
    return y


def _check_variant(node: OpNode) -> None:
    """Refuses what TensorFlow Lite Micro has no integer kernel for."""
    found = [what for what, inputs in _MORE.items() if any(node.has(k) for k in inputs)]
    if not node.has(FROM_INPUT[0]) or not node.has(FROM_STATE[0]):
        found.append("coupled gates")
    if found:
        raise BuildError(f"integers with {' and '.join(found)} are not supported")
    number = int(node.option("FusedActivationFunction"))
    if ACTIVATIONS.get(number) != "TANH":
        raise BuildError(f"the activation {ACTIVATIONS.get(number, number)} of cells is not supported, only TANH")


def _bias(node: OpNode, k: int, units: int, kind: DType) -> Array:
    data = node.constant(k)
    if data.shape != (units,) or data.dtype != kind.numpy:
        raise BuildError(f"the bias {node.tensor(k).name} is {data.dtype}{list(data.shape)}, needed: {kind}[{units}]")
    return data


def _cell_scale(node: OpNode) -> float:
    """The scale of cells, a power of two."""
    scale = node.quant(node.tensor(_CELL)).scale
    if math.frexp(scale)[0] != 0.5 or not 2.0**-15 <= scale <= 1:
        raise BuildError(f"cells have the scale {scale} instead of a power of two from 2**-15 to 1")
    return scale


def _product(ratio: float) -> tuple[int, int]:
    mult, shift = quantize_multiplier(ratio)
    if shift > 0:
        raise BuildError(f"the scale ratio {ratio} of a product is 1 or more")
    return mult, shift


def _clip(node: OpNode, scale: float) -> int:
    """The largest stored cell, cut off as TensorFlow Lite Micro does; beyond i16 without one."""
    clip = float(node.option("CellClip"))
    return int(min(float(np.float32(clip)) / scale, 32767.0)) if clip > 0 else _NO_CLIP


TABLE: Table = {"UNIDIRECTIONAL_SEQUENCE_LSTM": unidirectional_sequence_lstm}
