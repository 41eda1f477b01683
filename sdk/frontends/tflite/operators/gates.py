"""What importers of recurrent layers, of floats and of integers, ask of the gates in a file."""

from __future__ import annotations

from collections.abc import Sequence

from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode

__all__ = ["first_gate", "gates_there", "state_sizes"]


def first_gate(node: OpNode, sources: Sequence[int]) -> int:
    """The first gate that is there, by the weights of the inputs of each: of several the first may be coupled."""
    return 0 if len(sources) == 1 or node.has(sources[0]) else 1


def gates_there(node: OpNode, sources: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
    """Those of the inputs ``places``, one a gate, whose gates are there; the coupled one has nothing.

    Raises:
        BuildError: it has.
    """
    first = first_gate(node, sources)
    if any(node.has(k) for k in places[:first]):
        raise BuildError(f"input {places[0]} is of a gate that lacks input {sources[0]}")
    return tuple(places[first:])


def state_sizes(node: OpNode, k: int) -> tuple[int, int]:
    """Units, and numbers of the state that gates read, by the weights ``k`` by which the last gate reads it.

    Raises:
        BuildError: they are no matrix with elements.
    """
    data = node.constant(k)
    if data.ndim != 2 or not data.size:
        has = f"have the shape {list(data.shape)}"
        raise BuildError(f"weights {node.tensor(k).title} {has}, needed: a matrix with elements")
    return int(data.shape[0]), int(data.shape[1])
