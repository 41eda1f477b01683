"""The results of an imported graph, named as the model names its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sdk.compiler.ir.graph import BindDim, Call, MatchCast, Node, Value, WriteState
from sdk.frontends.builder import Builder
from sdk.frontends.names import identifier

__all__ = ["named"]

Results = tuple[Value, ...]


def named(
    builder: Builder, params: Results, found: list[Value], names: list[str]
) -> tuple[tuple[Node, ...], Results, Callable[[Value], Value]]:
    """The body and results, the results named like the outputs of the model, and what renames values so; what cannot
    be renamed is copied."""
    own = {v.name for node in builder.body if isinstance(node, Call) for v in node.outs}
    taken: set[str] = {p.name for p in params}
    rename: dict[str, str] = {}
    results: list[Value] = []
    for value, name in zip(found, names, strict=True):
        if value.const or value.name not in own or value.name in rename:
            given = {"shape": value.type.shape}
            (value,) = builder.emit("reshape", (value,), given, (value.type,), (name,), f"output {name}")
        wanted = identifier(name)
        while wanted in taken:
            wanted += "_out"
        taken.add(wanted)
        rename[value.name] = wanted
        results.append(value)
    for node in builder.body:
        for out in node.outs if isinstance(node, Call) else ():
            if out.name in taken and out.name not in rename:
                rename[out.name] = builder.value_name(out.name)
    one = _renamer(rename)
    return tuple(_renamed(node, one) for node in builder.body), tuple(one(v) for v in results), one


def _renamer(rename: Mapping[str, str]) -> Callable[[Value], Value]:
    def one(value: Value) -> Value:
        return value if value.const or value.name not in rename else replace(value, name=rename[value.name])

    return one


def _renamed(node: Node, one: Callable[[Value], Value]) -> Node:
    if isinstance(node, BindDim | WriteState):
        return replace(node, value=one(node.value))
    if isinstance(node, MatchCast):
        return replace(node, out=one(node.out), value=one(node.value))
    if not isinstance(node, Call):
        return node
    return replace(node, outs=tuple(map(one, node.outs)), args=tuple(map(one, node.args)))
