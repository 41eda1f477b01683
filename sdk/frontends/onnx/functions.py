"""Function bodies: what an operator without converter means in other operators, by its schema or by the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from sdk.compiler.ir.types import TensorType
from sdk.frontends.onnx.reader import element_code

__all__ = ["local_functions", "schema_function"]


def local_functions(model: Any) -> Mapping[tuple[str, str, str], Any]:
    """The functions a model brings, by (domain, name, overload)."""
    return {(f.domain, f.name, f.overload): f for f in model.functions}


def schema_function(
    node: Any, version: int, types: Sequence[TensorType | None]
) -> tuple[Any, Mapping[str, Any]] | None:
    """The body of an operator that ONNX defines by others, with the defaults of its attributes; None without.

    ``types`` are those of the node's inputs: some bodies depend on them.
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


def _type_proto(type: TensorType | None) -> Any:
    if type is None:
        return onnx.TypeProto()
    shape = [d if isinstance(d, int) else None for d in type.shape]
    return helper.make_tensor_type_proto(element_code(type.dtype), shape)
