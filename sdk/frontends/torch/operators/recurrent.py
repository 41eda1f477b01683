"""Recurrent layers that an export has kept whole (``sdk.frontends.torch.layers``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.types import F16, F32
from sdk.frontends.moves import part, swap_axes
from sdk.frontends.recurrent import Direction, full_lengths, scanned
from sdk.frontends.torch.context import TorchNode, operator
from sdk.frontends.torch.layers import NAMESPACE

__all__: list[str] = []

_SIGMOID: Final = ("sigmoid", 0.0, 0.0)
_TANH: Final = ("tanh", 0.0, 0.0)
_RELU: Final = ("relu", 0.0, 0.0)
# kind of layer: our scan, PyTorch's place of each of our gates, functions, options
_LAYERS: Final[dict[str, tuple[str, tuple[int, ...], tuple[Attr, ...], dict[str, Attr]]]] = {
    "lstm": ("lstm_scan", (0, 3, 1, 2), (_SIGMOID, _TANH, _TANH), {"coupled": False}),
    "gru": ("gru_scan", (1, 0, 2), (_SIGMOID, _TANH), {"late": True}),
    "rnn_tanh": ("rnn_scan", (0,), (_TANH,), {}),
    "rnn_relu": ("rnn_scan", (0,), (_RELU,), {}),
}


@operator(*(f"{NAMESPACE}.{name}.default" for name in _LAYERS))
def recurrent(
    node: TorchNode, x: Value, states: Sequence[Value], learnt: Sequence[Value], biases: bool, layers: int, both: bool,
    batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """Layers above one another, each in one direction or in both: the last one's outputs, and all last states."""
    op, order, functions, options = _LAYERS[node.target.split(".")[1]]
    kind, wide = x.type.dtype, F32 if x.type.dtype == F16 else x.type.dtype
    x, *rest = (node.cast(v, wide) for v in (x, *states, *learnt))
    states, learnt = rest[: len(states)], rest[len(states) :]
    steps = swap_axes(node, x, (1, 0, 2)) if batch_first else x
    lengths = full_lengths(node, steps)
    sides, each = (2 if both else 1), (4 if biases else 2)
    last: list[tuple[Value, ...]] = []
    for layer in range(layers):
        outputs = []
        for side in range(sides):
            place = layer * sides + side
            weights, recurrent, *rest = (_ordered(node, v, order) for v in learnt[place * each : (place + 1) * each])
            pair = (rest[0], rest[1]) if biases else None
            first = [_row(node, s, place) for s in states]
            one = Direction(_turned(node, weights), _turned(node, recurrent), pair, first, functions, side == 1)
            out, *ends = scanned(node, op, steps, lengths, one, **options)
            outputs.append(out)
            last.append(tuple(ends))
        steps = outputs[0] if sides == 1 else node.call("concat", *outputs, axis=2)
    found = swap_axes(node, steps, (1, 0, 2)) if batch_first else steps
    ends = [_stacked(node, column) for column in zip(*last, strict=True)]
    return tuple(node.cast(v, kind) for v in (found, *ends))


def _ordered(node: TorchNode, value: Value, order: Sequence[int]) -> Value:
    """Gates along the first axis in our order."""
    rows = value.type.shape[0]
    if not isinstance(rows, int):
        node.fail("the number of units must be known")
    units = rows // len(order)
    data = node.numbers(value)
    if data is not None:
        return node.const(np.concatenate([data[k * units : (k + 1) * units] for k in order]), "gates")
    parts = [part(node, value, 0, k * units, units) for k in order]
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=0)


def _turned(node: TorchNode, value: Value) -> Value:
    """Weights with the gates as columns."""
    data = node.numbers(value)
    return swap_axes(node, value, (1, 0)) if data is None else node.const(np.ascontiguousarray(data.T), "weight")


def _row(node: TorchNode, value: Value, place: int) -> Value:
    return node.call("reshape", part(node, value, 0, place, 1), shape=value.type.shape[1:])


def _stacked(node: TorchNode, parts: Sequence[Any]) -> Value:
    rows = [node.call("reshape", p, shape=(1, *p.type.shape)) for p in parts]
    return rows[0] if len(rows) == 1 else node.call("concat", *rows, axis=0)
