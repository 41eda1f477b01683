"""One direction of a recurrent layer: a product of matrices for all steps, and a scan over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.types import I32
from sdk.compiler.sym import Dim
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import part

__all__ = ["Direction", "full_lengths", "scanned"]


@dataclass(frozen=True)
class Direction:
    """What a direction has learnt, gates along the last axes, and how it runs.

    Attributes:
        weights: of the inputs [features, gates * units].
        recurrent: of the state [units, gates * units].
        biases: of the inputs and of the state [gates * units]; None without.
        first: the states before the first step [batch, units].
        activations: function, alpha and beta of each.
        reverse: whether it begins at the last step.
        clip: sums of gates are held to -clip..clip; 0 for no limit.
        peepholes: the weights through which the gates of an LSTM see its cell [3, units]; None without.
    """

    weights: Value
    recurrent: Value
    biases: tuple[Value, Value] | None
    first: Sequence[Value]
    activations: tuple[Attr, ...]
    reverse: bool = False
    clip: float = 0.0
    peepholes: Value | None = None


def full_lengths(node: Emitter, x: Value) -> Value:
    """The lengths of a batch ``x[steps, batch, features]`` whose every sequence has all the steps."""
    return node.call("full", shape=(x.type.shape[1],), value=x.type.shape[0], dtype=str(I32))


def scanned(
    node: Emitter, op: str, x: Value, lengths: Value, direction: Direction, **given: Attr
) -> tuple[Value, ...]:
    """The outputs [steps, batch, units] and the last states [batch, units] of ``x[steps, batch, features]``.

    ``op`` is ``rnn_scan``, ``gru_scan`` (update gate, reset gate, new state; ``late`` where the reset comes after the
    state's product) or ``lstm_scan`` (input, output, forget, cell; ``coupled`` where 1 less the one gate is the other).
    """
    sums = node.call("matmul", x, direction.weights)
    units = direction.recurrent.type.shape[0]
    more: list[Value] = []
    if op == "lstm_scan":
        more.append(direction.peepholes or _zeros(node, x, (3, units)))
    if direction.biases is None:
        more += [_zeros(node, x, (units,))] if op == "gru_scan" else []
    else:
        inputs, state = direction.biases
        if op == "gru_scan":  # the state's bias of the new state is reset with its product
            early = direction.recurrent.type.shape[1] - units
            gates = node.call("add", part(node, inputs, 0, 0, early), part(node, state, 0, 0, early))
            more.append(part(node, state, 0, early, units))
            biases = node.call("concat", gates, part(node, inputs, 0, early, units), axis=0)
        else:
            biases = node.call("add", inputs, state)
        sums = node.call("add", sums, biases)
    return node.calls(
        op, sums, direction.recurrent, *direction.first, *more, lengths,
        activations=direction.activations, clip=direction.clip, reverse=direction.reverse, **given,
    )  # fmt: skip


def _zeros(node: Emitter, x: Value, shape: tuple[Dim, ...]) -> Value:
    return node.call("full", shape=shape, value=0.0, dtype=str(x.type.dtype))
