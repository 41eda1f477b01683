"""The entries of a .tflite file: its first subgraph, or one for each signature where it has several."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sdk.compiler.ir.graph import fresh_name
from sdk.frontends.names import identifier
from sdk.frontends.tflite.reader import Signature, Subgraph

__all__ = ["MAIN", "Entry", "entries_of"]

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry called ``name``: the tensors of ``graph``, its inputs and outputs in order; of a signature, these have
    the names that it gives them."""

    name: str
    graph: Subgraph
    signature: Signature | None = None


def entries_of(subgraphs: tuple[Subgraph, ...], signatures: tuple[Signature, ...]) -> tuple[Entry, ...]:
    """The entries of a file. One signature alone says no more than the first subgraph does."""
    if len(signatures) < 2:
        return (Entry(MAIN, subgraphs[0]),)
    taken: set[str] = set()
    return tuple(
        Entry(fresh_name(identifier(one.key), taken), _named(subgraphs[one.subgraph], one), one) for one in signatures
    )


def _named(graph: Subgraph, signature: Signature) -> Subgraph:
    """The subgraph with the inputs and outputs of a signature, under their names there; a tensor that has several is
    called by the first."""
    names = {number: name for name, number in reversed((*signature.inputs, *signature.outputs))}
    tensors = tuple(replace(t, name=names.get(t.index, t.name)) for t in graph.tensors)
    inputs, outputs = (tuple(number for _, number in side) for side in (signature.inputs, signature.outputs))
    return replace(graph, tensors=tensors, inputs=inputs, outputs=outputs)
