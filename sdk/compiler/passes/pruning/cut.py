"""Calls on fewer channels: their constants cut, what the channels taken out held added to biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Call, Value, attrs
from sdk.compiler.ops.registry import get_op, kind_of
from sdk.compiler.ops.traits import SumOfProducts
from sdk.compiler.passes.edit import GraphEdit
from sdk.compiler.passes.pruning.bounds import Bounds
from sdk.compiler.passes.pruning.roles import Role, channels
from sdk.errors import BuildError

__all__ = ["cut_call"]

Array = NDArray[Any]
Flags = NDArray[np.bool_]


def cut_call(edit: GraphEdit, node: Call, role: Role, keep: Mapping[str, Flags], bounds: Mapping[str, Bounds]) -> bool:
    """Puts in place of ``node`` the call on the channels of ``keep``, those of its arguments gone already; whether
    there was anything to do."""
    kept = keep[node.out.name]
    source = _source(node, keep)
    if kept.all() and (source is None or keep[source.name].all()):
        return False
    args, given = node.args, dict(node.attrs)
    if role.sums is not None and source is not None:
        args = _cut_sum(edit, node, role, kept, keep[source.name], bounds[source.name])
    elif role.kind == "each":
        own = get_op(node.callee).sources(args)  # a table has no channels, even where it is as long
        args = (*(_cut_const(edit, v, kept) if v.const else v for v in own), *args[len(own) :])
        given |= _shifts(edit, node, args)
    elif role.kind == "fold":
        given["shape"] = (*node.out.type.shape[:-1], int(kept.sum()))
    elif role.kind == "part" and source is not None:
        begin: Any = given["begin"]
        size: Any = given["size"]
        before = int(keep[source.name][: begin[-1]].sum())
        given |= {"begin": (*begin[:-1], before), "size": (*size[:-1], int(kept.sum()))}
    out = node.out
    if not kept.all():
        shape = (*out.type.shape[:-1], int(kept.sum()))
        out = replace(out, type=replace(out.type, shape=shape))
        edit.replace(node.out, out)
    edit.keep(replace(node, outs=(out,), args=args, attrs=attrs(**given)))
    return True


def _source(node: Call, keep: Mapping[str, Flags]) -> Value | None:
    """The first argument that has channels to lose."""
    return next((v for v in node.args if not v.const and v.name in keep), None)


def _cut_sum(edit: GraphEdit, node: Call, role: Role, kept: Flags, inputs: Flags, x: Bounds) -> tuple[Value, ...]:
    """The arguments of a sum of fewer inputs to fewer outputs."""
    sums, kind = role.sums, kind_of(node)
    if sums is None or not isinstance(kind, SumOfProducts):
        return node.args
    w, rest, given = node.args[1], node.args[2:], dict(node.attrs)
    data = _elements(edit, w).compress(kept, kind.output_axis(given))
    if (across := kind.input_axis(given)) is not None:
        data = data.compress(inputs, across)
    bias = tuple(_const(edit, v, sums.absorbed(x, ~inputs)[kept]) for v in rest)
    return (node.args[0], _const(edit, w, data), *bias)


def _cut_const(edit: GraphEdit, value: Value, kept: Flags) -> Value:
    """A constant operand for the channels that are left; one that has none of its own stays."""
    if channels(value) != len(kept) or len(kept) == 1:
        return value
    return _const(edit, value, _elements(edit, value)[..., kept])


def _shifts(edit: GraphEdit, node: Call, args: tuple[Value, ...]) -> dict[str, Attr]:
    """The range of the shifts that are left of a requantisation."""
    if node.callee != "requantize":
        return {}
    shift = _elements(edit, args[2])
    return {"shift_lo": int(shift.min()), "shift_hi": int(shift.max())}


def _elements(edit: GraphEdit, value: Value) -> Array:
    data = edit.data(value)
    if data is None:
        raise BuildError(f"@{value.name} is cut, but is no constant in its plain layout")
    return data


def _const(edit: GraphEdit, old: Value, data: Array) -> Value:
    return edit.const(f"{old.name}_live", np.ascontiguousarray(data), old.type.quant, old.type)
