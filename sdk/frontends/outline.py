"""A model file as its author sees it: operators, tensors and what was refused, whether or not it can be compiled."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ir.graph import Graph, Value, node_outs

__all__ = ["Layer", "Outline", "OutlineNode", "OutlineTensor", "Refusal", "values_as_layers"]


@dataclass(frozen=True, slots=True)
class Layer:
    """A tensor that an operator of a file makes: the operator's kind, the tensor's name for people, what engines of the
    format find it by, and what it is in the imported module, where the file's numbers are ``above`` higher."""

    operator: str
    name: str
    key: str
    value: Value
    above: int = 0


def values_as_layers(graph: Graph) -> tuple[Layer, ...]:
    """The values of a graph, which are all there is of a format that has no tensors of its own."""
    made = [(getattr(node, "callee", "state"), out) for node in graph.body for out in node_outs(node)]
    return tuple(Layer(operator, out.name, out.name, out) for operator, out in made)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the operator with a number in the file cannot be imported, and what to do about that one alone."""

    index: int
    why: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class OutlineTensor:
    """A tensor of the file: its element type, and its extents as numbers or names (None: the file does not say);
    ``constant``: the bytes that the file holds of it (None: it is computed); ``quant``: scale and zero point, None
    without or with several."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    constant: int | None = None
    quant: tuple[float, int] | None = None


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """An operator: its number in the file, the numbers of the tensors that it reads and makes."""

    index: int
    kind: str
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Outline:
    """The main graph of a file: operators in order, tensors by number. ``folded``: numbers of operators that make
    nothing but constants and sizes. ``checks_all``: whether what follows a refused operator was checked too."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tensors: tuple[OutlineTensor, ...]
    nodes: tuple[OutlineNode, ...]
    folded: frozenset[int] = frozenset()
    checks_all: bool = True
