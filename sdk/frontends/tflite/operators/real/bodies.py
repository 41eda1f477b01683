"""Subgraphs that say how two numbers meet: one operator of their two inputs."""

from __future__ import annotations

from typing import Final

from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode

__all__ = ["only_operator"]

_OPS: Final = {
    "ADD": "add", "MUL": "mul", "MAXIMUM": "maximum", "MINIMUM": "minimum", "LOGICAL_AND": "and", "LOGICAL_OR": "or",
    "STABLEHLO_ADD": "add", "STABLEHLO_MULTIPLY": "mul", "STABLEHLO_MAXIMUM": "maximum",
    "STABLEHLO_MINIMUM": "minimum", "STABLEHLO_AND": "and",
}  # fmt: skip


def only_operator(node: OpNode, index: int) -> str | None:
    """The op of the one operator of a subgraph, None where there is no operator: the second input is the result.

    Raises:
        BuildError: there is no such subgraph, or it is anything else.
    """
    graphs = node.builder.subgraphs
    if not 0 <= index < len(graphs):
        raise BuildError(f"the subgraph {index} does not exist")
    graph = graphs[index]
    if not graph.operators:
        if len(graph.inputs) != 2 or graph.outputs != graph.inputs[1:]:
            raise BuildError(f"the subgraph {index} has no operator, and does not give its second input")
        return None
    one = graph.operators[0]
    whole = len(graph.operators) == 1 and sorted(one.inputs) == sorted(graph.inputs) and one.outputs == graph.outputs
    if one.name not in _OPS or not whole or len(graph.inputs) != 2 or one.options.get("FusedActivationFunction"):
        names = ", ".join(operator.name for operator in graph.operators[:4])
        raise BuildError(
            f"the subgraph {index} of {names} is not supported",
            hint="it must be one operator of its two inputs, such as STABLEHLO_ADD",
        )
    return _OPS[one.name]
