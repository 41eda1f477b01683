"""Function bodies: what an operator without converter means in other operators, by its schema or by the model."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import helper

from sdk.budget import NESTING, NODES, check_limit
from sdk.compiler.ir.types import TensorType
from sdk.errors import BuildError
from sdk.frontends.onnx.reader import element_code

__all__ = [
    "STANDARD", "all_nodes", "check_arity", "check_expanded", "local_functions", "schema_function", "standard",
]  # fmt: skip


# Operators of com.microsoft that became ONNX's own: the opset of it, and what more they can be told, with the defaults.
_STANDARD: Final[Mapping[str, tuple[int, Mapping[str, int]]]] = {
    "CausalConvWithState": (27, {"ndim": 1, "dilation": 1, "channels_last": 0, "state_window": 0}),
    "LinearAttention": (27, {"state_window": 0}),
}
STANDARD: Final = frozenset(f"com.microsoft::{name}" for name in _STANDARD)


def standard(node: Any, version: int) -> tuple[Any, int]:
    """The operator of ONNX that one of com.microsoft became, with its opset; any other as it is.

    Raises:
        BuildError: it is told more than the one of ONNX can do.
    """
    if node.domain != "com.microsoft" or node.op_type not in _STANDARD:
        return node, version
    opset, more = _STANDARD[node.op_type]
    found = type(node)()
    found.CopyFrom(node)
    found.domain = ""
    del found.attribute[:]
    for one in node.attribute:
        if one.name not in more:
            found.attribute.add().CopyFrom(one)
        elif one.i != more[one.name]:
            raise BuildError(f"its attribute {one.name} of {one.i} is not supported")
    return found, opset


def local_functions(model: Any) -> Mapping[tuple[str, str, str], Any]:
    """The functions a model brings, by (domain, name, overload)."""
    return {(f.domain, f.name, f.overload): f for f in model.functions}


def check_expanded(model: Any) -> None:
    """Refuses a model whose functions, each inlined where it is called, would be too many nodes: counted before
    any of them is, as a file of 2 kB may ask for 2**25.

    Raises:
        BuildError: they are too many, or a function calls itself; the node of the main graph is named.
    """
    functions = local_functions(model)
    below = {key: [_key(node) for node in all_nodes(f.node)] for key, f in functions.items()}
    counts: dict[tuple[str, str, str], int] = {}
    try:
        order = tuple(graphlib.TopologicalSorter(below).static_order())
    except graphlib.CycleError as error:
        names = " -> ".join(f"{domain}::{name}" for domain, name, _ in error.args[1])
        raise BuildError(f"a function of the model calls itself: {names}", hint=NESTING.hint) from None
    for key in order:
        counts[key] = 1 + sum(counts[inner] for inner in below.get(key, ()))
    total = 0
    for index, node in enumerate(model.graph.node):
        total += sum(counts.get(_key(inner), 1) for inner in all_nodes([node]))
        check_limit(NODES, total, f"node {index} {node.op_type} {node.name}".rstrip())


def _key(node: Any) -> tuple[str, str, str]:
    return node.domain, node.op_type, node.overload


def all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes and those of their sub-graphs."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting.extend(graph.node)


def check_arity(node: Any, given: int, version: int) -> None:
    """Refuses a node with more inputs or outputs than its operator has: what they were meant for would be lost.

    Raises:
        BuildError: says how many there are, and how many there can be. What lacks is told by who reads it.
    """
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return  # of an operator that ONNX does not define, its converter knows
    for what, count, maximum in (("inputs", given, schema.max_input), ("outputs", len(node.output), schema.max_output)):
        if count > maximum:
            raise BuildError(f"it has {count} {what}, {node.op_type} of opset {version} at most {maximum}")


def schema_function(
    node: Any, version: int, types: Sequence[TensorType | Sequence[TensorType] | None]
) -> tuple[Any, Mapping[str, Any]] | None:
    """The body of an operator that ONNX defines by others, with the defaults of its attributes; None without.

    ``types`` are those of the node's inputs, of sequences those of their elements: some bodies depend on them.
    """
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    defaults = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}
    body = onnx.FunctionProto()
    plain = [v for v in schema.function_opset_versions if v <= version]
    dependent = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if schema.has_function and (plain or schema.function_opset_versions):
        chosen = max(plain) if plain else min(schema.function_opset_versions)
        body.ParseFromString(schema.get_function_with_opset_version(chosen))
    elif schema.has_context_dependent_function and schema.context_dependent_function_opset_versions:
        chosen = max(dependent) if dependent else min(schema.context_dependent_function_opset_versions)
        described = [_type_proto(t).SerializeToString() for t in types]
        found = schema.get_context_dependent_function_with_opset_version(chosen, node.SerializeToString(), described)
        body.ParseFromString(found)
    if body.node and all(e.domain not in ("", "ai.onnx") for e in body.opset_import):
        body.opset_import.add(version=version if not node.domain else onnx.defs.onnx_opset_version())
    return (body, defaults) if body.node else None


def _type_proto(type: TensorType | Sequence[TensorType] | None) -> Any:
    if type is None:
        return onnx.TypeProto()
    if not isinstance(type, TensorType):
        element = helper.make_tensor_type_proto(element_code(type[0].dtype), None) if type else onnx.TypeProto()
        return helper.make_sequence_type_proto(element)
    shape = [d if isinstance(d, int) else None for d in type.shape]
    return helper.make_tensor_type_proto(element_code(type.dtype), shape)
