"""Recurrent layers of floats, with weights of floats or of i8: RNN and LSTM, for one step or a sequence, in one
direction or both. What the inputs give to the gates is one product for all steps, the rest a scan over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.types import F32
from sdk.compiler.ops.recurrent_layers import layer_name
from sdk.compiler.ops.shapes import same_extent
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.gates import first_gate, gates_there, state_sizes
from sdk.frontends.tflite.operators.lstm import batch_first, time_first
from sdk.frontends.tflite.operators.real.hybrid import channel_scales, products
from sdk.frontends.tflite.quantize import ACTIVATIONS
from sdk.frontends.tflite.variables import read_kept, write_kept

__all__ = ["TABLE"]

Array = NDArray[Any]
_ACTIVATIONS: Final[Mapping[str, Attr]] = {
    "NONE": ("affine", 1.0, 0.0), "RELU": ("relu", 0.0, 0.0), "RELU_N1_TO_1": ("clip", -1.0, 1.0),
    "RELU6": ("clip", 0.0, 6.0), "TANH": ("tanh", 0.0, 0.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Places:
    """Which inputs of an operator are what of a layer in one direction: those of gates in the order input, forget,
    cell, output. A layer without cells has one gate and no ``cells``."""

    source: tuple[int, ...]
    state: tuple[int, ...]
    bias: tuple[int, ...]
    hidden: int
    cells: int = -1
    peephole: tuple[int, ...] = ()
    project: tuple[int, ...] = ()
    norm: tuple[int, ...] = ()
    aux: tuple[int, ...] = ()


_LSTM: Final = _Places((1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15), 18, 19, (9, 10, 11), (16, 17), (20, 21, 22, 23))
_LSTM_BOTH: Final = (
    _Places((1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15), 35, 36, (9, 10, 11), (16, 17), aux=(40, 41, 42, 43)),
    _Places((18, 19, 20, 21), (22, 23, 24, 25), (29, 30, 31, 32), 37, 38, (26, 27, 28), (33, 34), aux=(44, 45, 46, 47)),
)
_LSTM_AUX, _RNN_AUX = 39, 9
_RNN: Final = _Places((1,), (2,), (3,), 4)
_RNN_BOTH: Final = (_Places((1,), (2,), (3,), 4, aux=(10,)), _Places((5,), (6,), (7,), 8, aux=(11,)))


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer in one direction: its gates, those of the file but for one that is coupled to another."""

    node: OpNode
    at: _Places
    reverse: bool = False

    @property
    def first(self) -> int:
        """The first gate that is there."""
        return first_gate(self.node, self.at.source)

    def of(self, places: Sequence[int]) -> tuple[int, ...]:
        """Those of the gates that are there."""
        return gates_there(self.node, self.at.source, places)

    @property
    def units(self) -> int:
        """Rows of the weights of each gate."""
        return self.sizes[0]

    @property
    def outputs(self) -> int:
        """Numbers of the state that the gates read."""
        return self.sizes[1]

    @property
    def sizes(self) -> tuple[int, int]:
        """Units and outputs."""
        return state_sizes(self.node, self.at.state[-1])

    def matrices(self, places: Sequence[int], shape: tuple[int, int]) -> tuple[Array, tuple[float, ...]]:
        """Weights of the gates [gates * units, columns], and the scale of each where they are of i8."""
        parts, scales = [], []
        for k in places:
            data = self.node.constant(k)
            if data.shape != shape or data.dtype != self.node.constant(places[0]).dtype:
                has = f"are {data.dtype}{list(data.shape)}"
                raise BuildError(f"weights {self.node.tensor(k).title} {has}, needed: {list(shape)} of one type")
            if data.dtype == np.int8:
                scales.append(self.scale(k))
            elif data.dtype != np.float32:
                raise BuildError(f"weights {self.node.tensor(k).title} are {data.dtype}; supported: float32, int8")
            parts.append(data)
        return np.concatenate(parts), tuple(scales)

    def scale(self, k: int) -> float:
        found = channel_scales(self.node, k, 0)
        if len(found) != 1:
            raise BuildError(f"weights {self.node.tensor(k).title} have {len(found)} scales, supported: one")
        return float(found[0])

    def vectors(self, places: Sequence[int]) -> Array:
        """Numbers of each unit [.., units]; those of i8 stand for reals."""
        rows = []
        for k in places:
            data = self.node.constant(k)
            real = data * np.float32(self.scale(k)) if data.dtype == np.int8 else data
            if data.shape != (self.units,) or real.dtype != np.float32:
                has = f"is {data.dtype}{list(data.shape)}"
                raise BuildError(f"input {k} ({self.node.tensor(k).title}) {has}, needed: float32[{self.units}]")
            rows.append(real)
        return np.stack(rows)

    @property
    def asymmetric(self) -> bool:
        return bool(self.node.option("AsymmetricQuantizeInputs"))

    def gates(self, x: Value, aux: Value | None, bias: bool) -> Value:
        """What the inputs of each step give to the gates, [steps, batch, gates * units]."""
        total = self.read(x, self.at.source, "from_input")
        if aux is not None:
            total = self.node.call("add", total, self.read(aux, self.at.aux, "from_aux"), to="both")
        if bias:
            row = self.node.const("bias", self.vectors(self.of(self.at.bias)).reshape(-1))
            total = self.node.call("add", total, row, to="gates")
        return total

    def read(self, x: Value, places: Sequence[int], name: str) -> Value:
        columns = x.type.shape[-1]
        if not isinstance(columns, int):
            raise BuildError(f"the open number {columns} of features is not supported")
        data, scales = self.matrices(self.of(places), (self.units, columns))
        if not scales:
            matrix = self.node.const(name, np.ascontiguousarray(data.T))
            return self.node.call("matmul", x, matrix, to=f"{name}_sums")
        each = np.repeat(np.asarray(scales, np.float32), self.units)
        steps = products(self.node, x, self.node.const(name, data), each, self.asymmetric)
        return self.node.call("mul", steps.value, steps.scale, to=f"{name}_sums")

    def run(self, x: Value, aux: Value | None, to: int | str) -> Value:
        """The layer on x[steps, batch, features]; its states are read and written."""
        node, batch = self.node, x.type.shape[1]
        if not isinstance(batch, int):
            raise BuildError(f"the open batch {batch} is not supported: the layer keeps a state of each of the batch")
        data, scales = self.matrices(self.of(self.at.state), (self.units, self.outputs))
        read = node.constant(self.at.source[-1]).dtype
        if read != data.dtype:
            raise BuildError(f"weights of the inputs are {read}, of the state {data.dtype}")
        matrix = data if scales else np.ascontiguousarray(data.T)
        given: dict[str, Attr] = {
            "activation": _activation(node, self.at.cells >= 0), "reverse": self.reverse,
            "asymmetric": bool(scales) and self.asymmetric,
        }  # fmt: skip
        recurrent = node.const("from_state", matrix)
        if self.at.cells < 0:
            gates = self.gates(x, aux, bias=True)
            before = read_kept(node, self.at.hidden, F32, (batch, self.outputs))
            y, last = node.calls("rnn_layer", gates, recurrent, before, to=(to, "last"), scales=scales, **given)
            write_kept(node, self.at.hidden, last)
            return y
        parts, more, own = self.parts()
        gates = self.gates(x, aux, bias="norm" not in parts)
        h, c = ((self.at.hidden, self.outputs), (self.at.cells, self.units))
        states = [read_kept(node, k, F32, (batch, size)) for k, size in (h, c)]
        y, *last_states = node.calls(
            layer_name(parts), gates, recurrent, *states, *more, to=(to, "last", "last_cells"),
            scales=(*scales, *own), coupled=bool(self.first), cell_clip=_clip(node, "CellClip"),
            proj_clip=_clip(node, "ProjClip"), **given,
        )  # fmt: skip
        for (k, _), value in zip((h, c), last_states, strict=True):
            write_kept(node, k, value)
        return y

    def parts(self) -> tuple[tuple[str, ...], list[Value], tuple[float, ...]]:
        """What the layer has beside gates: their names, their operands, and a scale of what is of i8."""
        node, names, more = self.node, [], []
        scales: tuple[float, ...] = ()
        if self.at.peephole and node.has(self.at.peephole[-1]):
            names.append("peephole")
            more.append(node.const("peephole", self.vectors(self.of(self.at.peephole))))
        if self.at.norm and node.has(self.at.norm[-1]):
            names.append("norm")
            both = [self.vectors(self.of(k)) for k in (self.at.norm, self.at.bias)]
            more.append(node.const("norm", np.stack(both)))
        if node.has(self.at.project[0]):
            names.append("project")
            data, scales = self.matrices(self.at.project[:1], (self.outputs, self.units))
            matrix = data if scales else np.ascontiguousarray(data.T)
            more += [node.const("project", matrix), node.const("project_bias", self.project_bias())]
        elif self.outputs != self.units:
            raise BuildError(f"{self.outputs} outputs of {self.units} units without a projection")
        return tuple(names), more, scales

    def project_bias(self) -> Array:
        k = self.at.project[1]
        data = self.node.constant(k) if self.node.has(k) else np.zeros(self.outputs, np.float32)
        if data.shape != (self.outputs,) or data.dtype != np.float32:
            raise BuildError(f"the bias of the projection is {data.dtype}{list(data.shape)}")
        return data


def _activation(node: OpNode, cells: bool) -> Attr:
    number = int(node.option("FusedActivationFunction"))
    name = ACTIVATIONS.get(number, f"number {number}")
    if name not in _ACTIVATIONS or (cells and name == "NONE"):  # without one LiteRT leaves the cells out
        raise BuildError(f"the fused activation {name} is not supported")
    return _ACTIVATIONS[name]


def _clip(node: OpNode, option: str) -> float:
    """A limit of numbers, 0 for none; LiteRT takes those below 0 for none too."""
    return max(float(node.option(option)), 0.0)


def _sequence(node: OpNode, k: int, major: bool) -> Value:
    """Input ``k`` as [steps, batch, features]."""
    x = node.input(k, F32)
    if x.type.rank != 3:
        raise BuildError(f"the input has rank {x.type.rank} instead of 3")
    return x if major else time_first(node, x)


def _one_way(node: OpNode, at: _Places) -> None:
    major = bool(node.option("TimeMajor"))
    y = _Layer(node, at).run(_sequence(node, 0, major), None, 0 if major else "by_step")
    if not major:
        batch_first(node, y)


def _one_step(node: OpNode, at: _Places) -> None:
    x = node.input(0, F32)
    if x.type.rank != 2:
        raise BuildError(f"the input has rank {x.type.rank} instead of 2")
    y = _Layer(node, at).run(node.call("reshape", x, to="step", shape=(1, *x.type.shape)), None, "by_step")
    node.call("reshape", y, shape=y.type.shape[1:])


def _both_ways(node: OpNode, at: tuple[_Places, _Places], auxiliary: int) -> None:
    major, merge = bool(node.option("TimeMajor")), bool(node.option("MergeOutputs"))
    x, aux = _sequence(node, 0, major), None
    if node.has(auxiliary):
        if not node.has(at[0].aux[-1]) or not node.has(at[1].aux[-1]):
            raise BuildError("a second input without weights of its own is not supported")
        aux = _sequence(node, auxiliary, major)
        if not all(map(same_extent, aux.type.shape, x.type.shape)):
            raise BuildError(f"the second input has the shape {list(map(str, aux.type.shape))}, not that of the first")
    found = []
    for k, places in enumerate(at):
        layer = _Layer(node, places, reverse=k == 1)
        y = layer.run(x, aux, k if major and not merge else f"way{k}")
        found.append(y if major else batch_first(node, y, f"turned{k}" if merge else k))
    if merge:
        node.call("concat", *found, axis=2)


def unidirectional_sequence_lstm(node: OpNode) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: a layer over the steps, its states kept for the next run."""
    _check_recurrent(node)
    _one_way(node, _LSTM)


def lstm(node: OpNode) -> None:
    """LSTM: one step of a layer."""
    if int(node.option("KernelType")) != 0:
        raise BuildError("the basic kernel of LSTM is not supported")
    _one_step(node, _LSTM)


def _check_recurrent(node: OpNode) -> None:
    if node.option("DiagonalRecurrentTensors"):
        raise BuildError("recurrent weights that are diagonals are not supported")


def bidirectional_sequence_lstm(node: OpNode) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM: a layer from the first step on and one from the last."""
    _both_ways(node, _LSTM_BOTH, _LSTM_AUX)


def unidirectional_sequence_rnn(node: OpNode) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN: a layer without cells over the steps."""
    _one_way(node, _RNN)


def rnn(node: OpNode) -> None:
    """RNN: one step of a layer without cells."""
    _one_step(node, _RNN)


def bidirectional_sequence_rnn(node: OpNode) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN: layers without cells from both ends. Of weights of i8 LiteRT runs each time-major
    sequence as often as it has steps."""
    if node.option("TimeMajor") and node.constant(1).dtype == np.int8:
        raise BuildError("time-major sequences with weights of int8 are not supported")
    _both_ways(node, _RNN_BOTH, _RNN_AUX)


TABLE: Table = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": unidirectional_sequence_lstm,
    "LSTM": lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": bidirectional_sequence_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": unidirectional_sequence_rnn,
    "RNN": rnn,
    "BIDIRECTIONAL_SEQUENCE_RNN": bidirectional_sequence_rnn,
}
