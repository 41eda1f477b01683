"""ONNX's recurrent layers: RNN, GRU and LSTM, each direction a matrix product for all steps and a scan over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.types import I32
from sdk.compiler.sym import Dim
from sdk.frontends.moves import part, swap_axes
from sdk.frontends.onnx.context import OnnxNode, in_single, onnx_op
from sdk.frontends.recurrent import Direction, full_lengths, scanned

__all__: list[str] = []

# name: ours, and the defaults of alpha and beta
_ACTIVATIONS: Final[Mapping[str, tuple[str, float, float]]] = {
    "affine": ("affine", 1.0, 0.0),
    "elu": ("elu", 1.0, 0.0),
    "hardsigmoid": ("hard_sigmoid", 0.2, 0.5),
    "leakyrelu": ("leaky_relu", 0.01, 0.0),
    "relu": ("relu", 0.0, 0.0),
    "scaledtanh": ("scaled_tanh", 1.0, 1.0),
    "sigmoid": ("sigmoid", 0.0, 0.0),
    "softplus": ("softplus", 0.0, 0.0),
    "softsign": ("softsign", 0.0, 0.0),
    "tanh": ("tanh", 0.0, 0.0),
    "thresholdedrelu": ("thresholded_relu", 1.0, 0.0),
}
_HAS_ALPHA = ("affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu")
_HAS_BETA = ("affine", "hardsigmoid", "scaledtanh")


@dataclass(frozen=True)
class _Layer:
    """The parts that the three kinds of layers share."""

    node: OnnxNode
    gates: int
    defaults: tuple[str, ...]

    @property
    def time_first(self) -> bool:
        return not self.node.int("layout", 0)

    @property
    def directions(self) -> tuple[bool, ...]:
        """For each direction, whether it runs in reverse."""
        found = self.node.text("direction", "forward")
        known = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        if found not in known:
            self.node.fail(f"the direction {found} is not one of {', '.join(known)}")
        return known[found]

    def units(self) -> int:
        """Units of the layer: the last size of the recurrent weights."""
        size = self.node.type(2).shape[-1]
        if not isinstance(size, int):
            self.node.fail("the number of units must be known")
        return size

    def input(self) -> Value:
        """x[steps, batch, features]."""
        x = self.node.x(0)
        return x if self.time_first else swap_axes(self.node, x, (1, 0, 2))

    def of(self, k: int, direction: int, shape: tuple[Dim, ...]) -> Value:
        """What input ``k`` holds for a direction."""
        one = part(self.node, self.node.x(k), 0, direction, 1)
        return self.node.call("reshape", one, shape=shape)

    def matrix(self, k: int, direction: int) -> Value:
        """The weights of a direction with the gates as columns."""
        rows, columns = self.node.type(k).shape[1:]
        data = self.node.data(k)
        if data is not None:
            return self.node.const(np.ascontiguousarray(data[direction].T), f"w{k}_{direction}")
        return swap_axes(self.node, self.of(k, direction, (rows, columns)), (1, 0))

    def biases(self, direction: int) -> tuple[Value, Value] | None:
        """Those of the inputs and those of the state; None without."""
        if not self.node.given_input(3):
            return None
        count = self.gates * self.units()
        both = self.of(3, direction, (2 * count,))
        return part(self.node, both, 0, 0, count), part(self.node, both, 0, count, count)

    def state(self, k: int, direction: int, batch: Dim) -> Value:
        """The state before the first step [batch, units]; 0 where it is not given."""
        node, units = self.node, self.units()
        if not node.given_input(k):
            return node.call("full", shape=(batch, units), value=0.0, dtype=str(node.type(0).dtype))
        given = node.x(k) if self.time_first else swap_axes(node, node.x(k), (1, 0, 2))
        return node.call("reshape", part(node, given, 0, direction, 1), shape=(batch, units))

    def lengths(self, x: Value) -> Value:
        """The number of steps of each of the batch."""
        node = self.node
        if not node.given_input(4):
            return full_lengths(node, x)
        given = node.x(4)
        return given if given.type.dtype == I32 else node.call("cast", given, to=str(I32))

    def activations(self, direction: int) -> tuple[Attr, ...]:
        """The functions of a direction with their parameters, which the node lists only where they have any."""
        node = self.node
        names = [n.lower() for n in node.texts("activations", ()) or self.defaults * len(self.directions)]
        alphas, betas = list(node.floats("activation_alpha", ())), list(node.floats("activation_beta", ()))
        found = []
        for name in names:
            if name not in _ACTIVATIONS:
                node.fail(f"the activation {name} is not one of {', '.join(_ACTIVATIONS)}")
            ours, alpha, beta = _ACTIVATIONS[name]
            alpha = float(alphas.pop(0)) if name in _HAS_ALPHA and alphas else alpha
            beta = float(betas.pop(0)) if name in _HAS_BETA and betas else beta
            found.append((ours, alpha, beta))
        count = len(self.defaults)
        return tuple(found[direction * count : (direction + 1) * count])

    def peepholes(self, direction: int) -> Value | None:
        """The weights through which gates see the cell; None without."""
        return self.of(7, direction, (3, self.units())) if self.node.given_input(7) else None

    def scan(self, op: str, states: tuple[int, ...], **given: Attr) -> tuple[Value, ...]:
        """The layer: its output [steps, directions, batch, units] and its last states [directions, batch, units]."""
        node, x = self.node, self.input()
        steps, batch, _ = x.type.shape
        lengths, runs = self.lengths(x), []
        for k, reverse in enumerate(self.directions):
            one = Direction(
                self.matrix(1, k), self.matrix(2, k), self.biases(k), [self.state(s, k, batch) for s in states],
                self.activations(k), reverse, float(node.float("clip", 0.0)),
                self.peepholes(k) if op == "lstm_scan" else None,
            )  # fmt: skip
            runs.append(scanned(node, op, x, lengths, one, **given))
        y = self._joined([r[0] for r in runs], (steps, 1, batch, self.units()), 1)
        last = [self._joined([r[1 + s] for r in runs], (1, batch, self.units()), 0) for s in range(len(states))]
        if self.time_first:
            return (y, *last)
        return (swap_axes(node, y, (2, 0, 1, 3)), *(swap_axes(node, v, (1, 0, 2)) for v in last))

    def _joined(self, parts: list[Value], shape: tuple[Dim, ...], axis: int) -> Value:
        values = [self.node.call("reshape", p, shape=shape) for p in parts]
        return values[0] if len(values) == 1 else self.node.call("concat", *values, axis=axis)


@onnx_op("RNN")
@in_single
def rnn(node: OnnxNode) -> tuple[Value, ...]:
    """h = f(x w + h r + b)."""
    return _Layer(node, 1, ("Tanh",)).scan("rnn_scan", (5,))


@onnx_op("GRU")
@in_single
def gru(node: OnnxNode) -> tuple[Value, ...]:
    """Update and reset gates; the reset before or after the state's product."""
    late = bool(node.int("linear_before_reset", 0))
    return _Layer(node, 3, ("Sigmoid", "Tanh")).scan("gru_scan", (5,), late=late)


@onnx_op("LSTM")
@in_single
def lstm(node: OnnxNode) -> tuple[Value, ...]:
    """Input, output and forget gates around a cell."""
    coupled = bool(node.int("input_forget", 0))
    return _Layer(node, 4, ("Sigmoid", "Tanh", "Tanh")).scan("lstm_scan", (5, 6), coupled=coupled)
