"""Variables: handles become states, accesses ordered effects, the init subgraph their first value."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.ir.graph import ReadState, Value, WriteState
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table, tensor_quant
from sdk.frontends.tflite.reader import Operator
from sdk.frontends.tflite.variables import state_of, tensor_type

__all__ = ["TABLE"]

_HANDLE = ("Container", "SharedName")


def _key(operator: Operator) -> str:
    container, shared = (str(operator.options.get(name) or "") for name in _HANDLE)
    if not shared:
        raise BuildError("a variable without a name is not supported")
    return f"{container}/{shared}" if container else shared


def var_handle(node: OpNode) -> None:
    """VAR_HANDLE: the output stands for the variable of its name."""
    node.builder.handles[node.output().index] = _key(node.operator)


def _variable(node: OpNode) -> str:
    key = node.builder.handles.get(node.tensor(0).index)
    if key is None:
        raise BuildError(f"input 0 ({node.tensor(0).name}) is not a variable")
    return key


def read_variable(node: OpNode) -> None:
    """READ_VARIABLE: the state as it is at this place."""
    type = tensor_type(node.output())
    state = state_of(node.builder, _variable(node), type)
    value = Value(node.builder.value_name(node.output().name), type)
    node.builder.body.append(ReadState(value, state, source=node.source))
    node.bind(0, value)


def assign_variable(node: OpNode) -> None:
    """ASSIGN_VARIABLE: replaces the state from this place on."""
    key, value = _variable(node), node.builder.materialize(node.input(1), node.source)
    state = state_of(node.builder, key, replace(value.type, quant=tensor_quant(node.tensor(1))))
    node.builder.body.append(WriteState(state, value, source=f"{node.operator.name} {key}"))


def call_once(node: OpNode) -> None:
    """CALL_ONCE: the subgraph that gives variables their first values."""
    index = int(node.option("InitSubgraphIndex"))
    if not 0 < index < len(node.builder.subgraphs):
        raise BuildError(f"the init subgraph {index} does not exist")
    graph = node.builder.subgraphs[index]
    handles: dict[int, str] = {}
    for operator in graph.operators:
        if operator.name == "VAR_HANDLE" and len(operator.outputs) == 1:
            handles[operator.outputs[0]] = _key(operator)
        elif operator.name == "ASSIGN_VARIABLE" and len(operator.inputs) == 2 and min(operator.inputs) >= 0:
            tensor = graph.tensors[operator.inputs[1]]
            if operator.inputs[0] not in handles or tensor.data is None:
                raise BuildError("the init subgraph assigns something other than a constant to a variable")
            node.builder.initial[handles[operator.inputs[0]]] = tensor
        else:
            raise BuildError(f"{operator.name} in the init subgraph is not supported")


TABLE: Table = {
    "VAR_HANDLE": var_handle,
    "READ_VARIABLE": read_variable,
    "ASSIGN_VARIABLE": assign_variable,
    "CALL_ONCE": call_once,
}
