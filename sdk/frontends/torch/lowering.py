"""Exported programs in operators that have converters, and that change nothing in place."""

from __future__ import annotations

import operator
from typing import Any, Final

from sdk.errors import BuildError
from sdk.frontends.torch.control import WRAPPERS
from sdk.frontends.torch.library import first_line, torch_package
from sdk.frontends.torch.operators import OPERATORS
from sdk.frontends.torch.symbols import is_symbolic

__all__ = ["CHECKS", "functional_name", "is_number", "lowered"]

# What checks while it runs, and computes nothing: bounds are checked at the entry.
CHECKS: Final = ("aten._assert_scalar.default", "aten._assert_async.msg", "aten.sym_constrain_range.default",
                 "aten.sym_constrain_range_for_size.default", "aten._assert_tensor_metadata.default")  # fmt: skip


def lowered(program: Any) -> Any:
    """The program itself where every operator of it has a converter; else decomposed but for those that have one, which
    PyTorch takes about 15 ms an operator for."""
    if all(_is_plain(node) for node in program.graph.nodes):
        return program
    table = torch_package().export.default_decompositions()
    for op in list(table):
        if str(op) in OPERATORS:
            table.pop(op)
    try:
        return program.run_decompositions(table)
    except Exception as err:  # its errors share no base
        raise BuildError("PyTorch cannot decompose the program", why=first_line(err)) from None


def is_number(node: Any) -> bool:
    """Whether a node computes one number of sizes, and no tensor."""
    value = node.meta.get("val")
    return is_symbolic(value) or isinstance(value, (int, float, bool))


def functional_name(target: Any) -> str:
    """The name of an operator; of one that works in place that of the other one that gives the same."""
    packet, _, overload = str(target).rpartition(".")
    return f"{packet.removesuffix('_')}.{overload}" if _writes(target) else str(target)


def _writes(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _is_plain(node: Any) -> bool:
    if node.op == "get_attr":
        part: Any = getattr(node.graph.owning_module, node.target, None)
        wrapped = hasattr(part, "graph") and all(_wraps(user, node) for user in node.users)
        return wrapped and all(_is_plain(inner) for inner in part.graph.nodes)
    if node.op == "call_function" and node.all_input_nodes and _wraps(node, node.all_input_nodes[0]):
        return True
    if node.op != "call_function":
        return bool(node.op in ("placeholder", "output"))
    if node.target is operator.getitem or is_number(node) or (str(node.target) in CHECKS and not node.users):
        return True
    if functional_name(node.target) not in OPERATORS:
        return False
    return not _writes(node.target) or _is_last_use(node)


def _wraps(node: Any, part: Any) -> bool:
    """Whether a node is a part of the program that computes as it would without what is around it: with gradients or
    without, in the types that it has."""
    place = WRAPPERS.get(str(node.target))
    if place is None or len(node.args) <= place or node.args[place] is not part:
        return False
    return str(node.target) != "wrap_with_autocast" or node.args[2] is False


def _is_last_use(node: Any) -> bool:
    """Whether a node writes into the result of another that nothing else sees, as in relu_(conv(x))."""
    given: Any = node.args[0] if node.args else None
    if getattr(given, "op", "") != "call_function" or set(given.users) != {node}:
        return False
    schema = getattr(given.target, "_schema", None)
    if schema is None or (schema.is_mutable and not _is_plain(given)):
        return False
    return schema.is_mutable or not any(result.alias_info for result in schema.returns)
