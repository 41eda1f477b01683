"""LSTMs of quantised tensors in the forms that LiteRT alone has kernels for: with peepholes, projections, normalised
layers or coupled gates, and single steps. Inputs and results are of i8, cells of i16."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.types import I8, I16, I32
from sdk.compiler.ops.fixed import INT32_MAX, quantize_multiplier
from sdk.compiler.ops.multipliers import channel_multipliers
from sdk.compiler.ops.recurrent_layers_q import layer_q_name
from sdk.compiler.ops.word_curves import WORD_BITS
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table, usable
from sdk.frontends.tflite.operators import lstm as plain
from sdk.frontends.tflite.operators.contraction import bounds, rescaled
from sdk.frontends.tflite.operators.gates import first_gate, gates_there, state_sizes
from sdk.frontends.tflite.variables import read_kept, write_kept

__all__ = ["TABLE"]

Array = NDArray[Any]
_PEEPHOLE: Final = (9, 10, 11)
_PROJECT, _PROJECT_BIAS = 16, 17
_NORM: Final = (20, 21, 22, 23)
_PARTS: Final = {"peepholes": _PEEPHOLE, "a projection": (_PROJECT, _PROJECT_BIAS), "normalised layers": _NORM}
_BETWEEN: Final = 5  # tensors that say how gates are stored before they are normalised, and what is projected
_BETWEEN_BYTES: Final = 12  # those of the kernel that keeps gates in 8 bits
_NORM_BITS: Final = 12  # after the point of a normalised gate
_GUARD: Final = 10000  # times a scale: the least spread of what is normalised
_LARGEST_SHIFT: Final = 30


def _single(value: float) -> float:
    """In single precision; beyond it infinite, which no multiplier is made of."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _ratio(first: float, second: float, by: float) -> float:
    """first * second / by, each step in single precision, as LiteRT takes ratios of scales."""
    return _single(_single(first * second) / by)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer over steps, for inputs of i8; ``major`` says that the file's kernel takes all of a batch at once."""

    node: OpNode
    major: bool

    @property
    def first(self) -> int:
        """The first gate that is there: without an input gate it is coupled to the forget gate."""
        return first_gate(self.node, plain.FROM_INPUT)

    def of(self, places: Sequence[int]) -> tuple[int, ...]:
        """Those of the gates that are there."""
        return gates_there(self.node, plain.FROM_INPUT, places)

    @property
    def sizes(self) -> tuple[int, int]:
        """Units and outputs."""
        return state_sizes(self.node, plain.FROM_STATE[-1])

    def has(self, places: Sequence[int]) -> bool:
        """Whether the file gives any of the inputs of a part."""
        return any(self.node.has(k) for k in places)

    @property
    def normalised(self) -> bool:
        return self.has(_NORM)

    def between(self, k: int) -> tuple[float, int]:
        """The scale and zero point of intermediate tensor ``k``."""
        tensor = self.node.tensor(k, "intermediates")
        if len(tensor.scales) != 1 or not usable(tensor.scales[0]):
            raise BuildError(f"the intermediate tensor {tensor.title} must have one positive finite scale")
        lo, hi = I8.limits
        if k == _BETWEEN - 1 and not lo <= tensor.zero_points[0] <= hi:
            raise BuildError(
                f"the intermediate tensor {tensor.title} has the zero point {tensor.zero_points[0]}, outside i8"
            )
        return tensor.scales[0], tensor.zero_points[0]

    def gate_scales(self) -> list[float]:
        """The scale of each gate before it is normalised, else that of the curves."""
        gates = range(self.first, len(plain.FROM_INPUT))
        return [self.between(k)[0] if self.normalised else plain.GATE_SCALE for k in gates]

    def ratios(self, gates: plain.Gates) -> Array:
        """What takes sums of each gate to its scale."""
        pairs = zip(gates.scales, self.gate_scales(), strict=True)
        return np.asarray([_ratio(own, gates.source, scale) for own, scale in pairs])

    def vectors(self, places: Sequence[int]) -> Array:
        """Numbers of i16 without a zero point for each unit of each gate [.., units]."""
        units, rows = self.sizes[0], []
        for k in places:
            data = self.node.constant(k)
            if data.shape != (units,) or data.dtype != np.int16:
                has = f"is {data.dtype}{list(data.shape)}"
                raise BuildError(f"input {k} ({self.node.tensor(k).title}) {has}, needed: int16[{units}]")
            if self.node.quant(self.node.tensor(k)).zero_point:
                raise BuildError(f"input {k} ({self.node.tensor(k).title}) has a zero point, supported: 0")
            rows.append(data)
        return np.stack(rows)

    def run(self, x: Value, to: int | str) -> Value:
        """The layer on x[steps, batch, features]; its states are read and written."""
        node, (units, outputs), batch = self.node, self.sizes, x.type.shape[1]
        if not isinstance(batch, int):
            raise BuildError(f"the open batch {batch} is not supported: the layer keeps a state of each of the batch")
        biases = self.of(plain.BIASES)
        rows = np.stack([plain.gate_bias(node, k, units, I32) for k in biases])
        recurrent = plain.read_gates(node, plain.HIDDEN, self.of(plain.FROM_STATE), outputs, units)
        gates = self.gates(x, np.zeros_like(rows) if self.normalised else rows)
        start = (recurrent.weights.astype(np.int64).sum(axis=1) * recurrent.offset).astype(np.int32)
        maximum = recurrent.limit(I8, np.zeros(len(start), object)).reshape(-1, units).max(axis=1)
        m = channel_multipliers(self.ratios(recurrent), maximum, wide=False)
        parts, more, given = self.parts(rows, batch)
        places = ((plain.HIDDEN, I8, outputs), (plain.CELL, I16, units))
        states = [read_kept(node, k, kind, (batch, size)) for k, kind, size in places]
        y, *last = node.calls(
            layer_q_name(parts), gates, node.const("from_state", recurrent.weights), node.const("start", start),
            node.const("mult", m.mult), node.const("shift", m.shift), *states, *more, to=(to, "hidden", "cells"),
            shift_lo=m.shift_lo, shift_hi=m.shift_hi, acc_bits=m.acc_bits, **given,
        )  # fmt: skip
        for (k, *_), value in zip(places, last, strict=True):
            write_kept(node, k, value)
        return y

    def gates(self, x: Value, rows: Array) -> Value:
        """What the inputs of each step give to the gates, [steps, batch, gates * units] of i16."""
        node, bias = self.node, rows.reshape(-1)
        source = plain.read_gates(node, 0, self.of(plain.FROM_INPUT), x.type.shape[2], rows.shape[1])
        weights, start = node.const("from_input", source.weights), node.const("bias", bias)
        acc = node.call("dense", x, weights, start, to="acc", x_offset=source.offset, w_offset=0)
        limit = source.limit(I8, np.abs(bias.astype(object)))
        by = np.repeat(self.ratios(source), rows.shape[1])
        return rescaled(node, acc, by, limit, "gates", I16, 0, I16.limits)

    def parts(self, bias: Array, batch: int) -> tuple[list[str], list[Value], dict[str, Attr]]:
        """What the layer has beside gates: names, operands, and the attributes of all."""
        node, scale = self.node, plain.cell_scale(self.node)
        bits, clip = 15 + round(math.log2(scale)), plain.cell_clip(node, scale)
        if bits not in WORD_BITS:
            raise BuildError(f"cells have the scale {scale}; LiteRT's tanh takes 2**-15 to 2**-9")
        names: list[str] = []
        more: list[Value] = []
        given: dict[str, Attr] = {
            "coupled": bool(self.first), "cell_bits": bits, "clip": 0 if clip == plain.NO_CLIP else clip,
            "seen_mult": (), "seen_shift": (), "norm_mult": (), "norm_shift": (), "guard": (), "project": (0, 0, 1),
            "proj_clip": 0,
        }  # fmt: skip
        if self.has(_PEEPHOLE):
            names.append("peephole")
            more.append(node.const("peephole", self.peepholes(batch)))
            given |= self.seen(scale)
        if self.normalised:
            names.append("norm")
            weights = self.vectors(self.of(_NORM))
            more += [node.const("norm", weights), node.const("norm_bias", bias)]
            given |= self.norm()
        hidden = self.between(_BETWEEN - 1)
        given |= {"result": plain.product_ratio(_single(2.0**-30 / hidden[0])), "middle": hidden[1], "zp": 0}
        if self.has((_PROJECT, _PROJECT_BIAS)):
            names.append("project")
            operands, own = self.project(*hidden)
            more += operands
            given |= own
        elif len(set(self.sizes)) > 1:
            raise BuildError(f"{self.sizes[1]} outputs of {self.sizes[0]} units without a projection")
        return names, more, given

    def peepholes(self, batch: int) -> Array:
        """Numbers by which gates see cells. LiteRT's kernel counts cells by the outputs: those beyond are not seen."""
        found = self.vectors(self.of(_PEEPHOLE))
        units, outputs = self.sizes
        if outputs > units or (outputs < units and self.major and batch > 1):
            raise BuildError(
                f"peepholes of {units} cells with {outputs} outputs and a batch of {batch} are not supported",
                why="LiteRT's kernel takes as many cells for each of the batch as there are outputs",
                hint="export the layer with as many outputs as cells, or batch-major",
            )
        found = found.copy()
        found[:, outputs:] = 0
        return found

    def seen(self, cells: float) -> dict[str, Attr]:
        scales = self.gate_scales()
        own = [self.node.quant(self.node.tensor(k)).scale for k in self.of(_PEEPHOLE)]
        kept = [*scales[:-2], scales[-1]]  # not that of new cells
        pairs = [plain.product_ratio(_single(cells * a / b)) for a, b in zip(own, kept, strict=True)]
        return {"seen_mult": tuple(m for m, _ in pairs), "seen_shift": tuple(s for _, s in pairs)}

    def norm(self) -> dict[str, Attr]:
        mults, shifts, guards = [], [], []
        for k in self.of(_NORM):
            scale = self.node.quant(self.node.tensor(k)).scale
            mult, shift = quantize_multiplier(scale)
            guard = int(_single(_GUARD * scale))
            if shift + _NORM_BITS > _LARGEST_SHIFT or guard > INT32_MAX:
                raise BuildError(f"input {k} ({self.node.tensor(k).title}) has the scale {scale}, too large to use")
            mults.append(mult)
            shifts.append(shift + _NORM_BITS)
            guards.append(max(1, guard))
        return {"norm_mult": tuple(mults), "norm_shift": tuple(shifts), "guard": tuple(guards)}

    def project(self, scale: float, zero: int) -> tuple[list[Value], dict[str, Attr]]:
        """The matrix and the bias of the projection, and its attributes; it reads stored numbers of a scale and a zero
        point."""
        node, (units, outputs) = self.node, self.sizes
        weights, own = node.constant(_PROJECT), node.quant(node.tensor(_PROJECT))
        if weights.shape != (outputs, units) or weights.dtype != np.int8 or own.zero_point:
            has = f"is {weights.dtype}{list(weights.shape)} with zero point {own.zero_point}"
            raise BuildError(f"the projection {has}, needed: int8[{outputs}, {units}] without one")
        bias = node.constant(_PROJECT_BIAS) if node.has(_PROJECT_BIAS) else np.zeros(outputs, np.int32)
        if bias.shape != (outputs,) or bias.dtype != np.int32:
            raise BuildError(f"the bias of the projection is {bias.dtype}{list(bias.shape)}, needed: int32[{outputs}]")
        start = (bias + weights.astype(np.int64).sum(axis=1) * zero).astype(np.int32)
        state = node.quant(node.tensor(plain.HIDDEN))
        limit = bounds(weights, 0, I8, np.abs(start.astype(object)))
        m = channel_multipliers(np.asarray([_ratio(own.scale, scale, state.scale)]), limit[None].max(axis=1), False)
        given: dict[str, Attr] = {
            "project": (int(m.mult[0]), int(m.shift[0]), m.acc_bits), "middle": -zero, "zp": state.zero_point,
            "proj_clip": self.proj_clip(),
        }  # fmt: skip
        return [node.const("project", weights), node.const("project_bias", start)], given

    def proj_clip(self) -> int:
        """The largest stored output; LiteRT forgets the zero point of outputs there. 0 for none."""
        clip, scale = float(self.node.option("ProjClip")), self.node.quant(self.node.output()).scale
        return int(min(_single(clip / scale), 127.0)) if clip > 0 else 0


def _check(node: OpNode, what: str) -> None:
    """Refuses what LiteRT has no integer kernel for."""
    plain.check_activation(node)
    given = node.operator.intermediates
    if node.lower:
        raise BuildError(f"uint8 with {what} is not supported: LiteRT has kernels for int8 alone")
    if node.tensor(0).dtype == I16:
        raise BuildError(f"int16 with {what} is not supported: LiteRT has kernels for int8 alone")
    if len(given) == _BETWEEN_BYTES:
        raise BuildError(
            f"an LSTM with {_BETWEEN_BYTES} intermediate tensors, gates of 8 bits, is not supported",
            why="LiteRT's kernel for it reads scales from outside its table",
            hint="convert the model anew: current converters keep gates in 16 bits",
        )
    if len(given) != _BETWEEN:
        raise BuildError(
            f"int8 with {what} wants {_BETWEEN} intermediate tensors, the operator has {len(given)}",
            hint="quantise the model with the converter of TensorFlow Lite, which states how gates are stored",
        )
    node.out_dtype(I8)


def unidirectional_sequence_lstm(node: OpNode) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: what tflite-micro has a kernel for is computed as it does, the rest as LiteRT."""
    found = [what for what, inputs in _PARTS.items() if any(node.has(k) for k in inputs)]
    if not node.has(plain.FROM_INPUT[0]) or not node.has(plain.FROM_STATE[0]):
        found.append("coupled gates")
    if not found:
        plain.unidirectional_sequence_lstm(node)
        return
    _check(node, " and ".join(found))
    x, major = node.input(0, I8), bool(node.option("TimeMajor"))
    if x.type.rank != 3:
        raise BuildError(f"the input has rank {x.type.rank} instead of 3")
    y = _Layer(node, major).run(x if major else plain.time_first(node, x), 0 if major else "by_step")
    if not major:
        plain.batch_first(node, y)


def lstm(node: OpNode) -> None:
    """LSTM: one step of a layer."""
    if int(node.option("KernelType")) != 0:
        raise BuildError("the basic kernel of LSTM is not supported")
    _check(node, "single steps")
    x = node.input(0, I8)
    if x.type.rank != 2:
        raise BuildError(f"the input has rank {x.type.rank} instead of 2")
    step = node.call("reshape", x, to="step", shape=(1, *x.type.shape))
    y = _Layer(node, major=True).run(step, "by_step")
    node.call("reshape", y, shape=y.type.shape[1:])


TABLE: Table = {"UNIDIRECTIONAL_SEQUENCE_LSTM": unidirectional_sequence_lstm, "LSTM": lstm}
