"""What every channel of a graph can hold: bounds carried forward from the types of its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Graph, Value, node_outs
from sdk.compiler.ir.types import DType
from sdk.compiler.ops.registry import get_op, kind_of
from sdk.compiler.ops.traits import Combine, Elementwise, Reduction
from sdk.compiler.passes.pruning.bounds import Bounds, full, hull
from sdk.compiler.passes.pruning.roles import Role, channels
from sdk.compiler.passes.pruning.sums import Data

__all__ = ["ranges"]

Array = NDArray[Any]


def ranges(graph: Graph, roles: Sequence[Role], data: Data) -> Mapping[str, Bounds]:
    """The bounds of every value that has channels; ``roles`` are those of the body."""
    found: dict[str, Bounds] = {}
    for value in graph.params:
        _put(found, value)
    for node, role in zip(graph.body, roles, strict=True):
        for value in node_outs(node):
            _put(found, value)
        if isinstance(node, Call) and role.kind != "opaque":
            operands = node.args[:1] if role.sums is not None else node.args
            inputs = [_operand(v, found, data) for v in operands]
            found[node.out.name] = _of(node, role, inputs, data)
    return found


def _put(found: dict[str, Bounds], value: Value) -> None:
    if (count := channels(value)) is not None:
        found[value.name] = full(value.type.dtype, count)


def _operand(value: Value, found: Mapping[str, Bounds], data: Data) -> Bounds:
    """The bounds of an argument: one pair a channel, or one where it has no axes."""
    elements = data(value)
    if elements is None:
        return found[value.name] if value.type.rank and not value.const else full(value.type.dtype, 1)
    wide = elements.astype(np.float64 if elements.dtype.kind == "f" else np.int64)
    rows = wide.reshape(-1, wide.shape[-1] if wide.ndim else 1)
    if rows.size == 0:
        return full(value.type.dtype, rows.shape[1])
    return Bounds(rows.min(axis=0), rows.max(axis=0))


def _of(node: Call, role: Role, inputs: Sequence[Bounds], data: Data) -> Bounds:
    if role.sums is not None:
        return role.sums.bounds(inputs[0])
    x, count = inputs[0], channels(node.out) or 0
    match role.kind:
        case "each":
            return _each(node, inputs, count, data)
        case "stack":
            return Bounds(np.concatenate([b.lo for b in inputs]), np.concatenate([b.hi for b in inputs]))
        case "fold":
            return Bounds(np.tile(x.lo, count // len(x.lo)), np.tile(x.hi, count // len(x.lo)))
        case "part":
            begin: Any = node.attr("begin")
            return Bounds(x.lo[begin[-1] :][:count], x.hi[begin[-1] :][:count])
    kind = kind_of(node)
    if isinstance(kind, Reduction):
        return (_pooled if kind.windowed else _reduced)(node, kind.combine, x)
    return _beside(node, inputs)


# --- each element by itself -----------------------------------------------------------------------------------------


def _each(node: Call, inputs: Sequence[Bounds], count: int, data: Data) -> Bounds:
    op, kind = kind_of(node), node.out.type.dtype
    if node.callee == "lookup":
        return _lookup(node, inputs[0], data(node.args[1]))
    floats = kind.is_float or any(v.type.dtype.is_float for v in node.args)
    if not isinstance(op, Elementwise) or op.tables or (floats and not op.exact):
        return full(kind, count)
    known = [np.broadcast_to(b.constant, (count,)) for b in inputs]
    low = _evaluate(node, [b.lo for b in inputs], count)
    if floats or not op.monotone:
        return Bounds(low, low).only(np.all(known, axis=0), kind)
    sound = np.all([np.broadcast_to(_no_wrap(node, inputs), (count,)), *known[1:]], axis=0)
    return Bounds(low, _evaluate(node, [b.hi for b in inputs], count)).only(sound, kind)


def _evaluate(node: Call, operands: Sequence[Array], count: int) -> Array:
    """The op on one number a channel."""
    arrays = [a.astype(v.type.dtype.numpy) for a, v in zip(operands, node.args, strict=True)]
    with np.errstate(all="ignore"):
        found: Array = get_op(node.callee).reference(*arrays, **dict(node.attrs))
    return np.broadcast_to(found.astype(np.float64 if found.dtype.kind == "f" else np.int64), (count,))


def _no_wrap(node: Call, inputs: Sequence[Bounds]) -> NDArray[np.bool_]:
    """Where a requantisation rises: its multiplier is not negative and no shift to the left leaves the type."""
    x = inputs[0]
    if node.callee != "requantize":
        return np.ones(x.lo.shape, np.bool_)
    given: dict[str, Any] = dict(node.attrs)
    left = np.maximum(inputs[2].hi, given.get("spare", 0))
    reach = np.maximum(np.abs(x.lo), np.abs(x.hi)).astype(np.float64) * 2.0**left
    return np.asarray((inputs[1].lo >= 0) & (reach <= _exact_limit(node.args[0].type.dtype)))


def _exact_limit(kind: DType) -> int:
    """The most that an integer of this type can be, or that doubles can count to."""
    return min(kind.limits[1], 1 << 53)


def _lookup(node: Call, x: Bounds, table: Array | None) -> Bounds:
    kind = node.out.type.dtype
    if table is None:
        return full(kind, len(x.lo))
    lowest = node.args[0].type.dtype.limits[0]
    spans = [table[a - lowest : b - lowest + 1] for a, b in zip(x.lo.tolist(), x.hi.tolist(), strict=True)]
    ends = [(float(s.min()), float(s.max())) for s in spans]
    wide = np.asarray(ends, np.float64).astype(np.float64 if kind.is_float else np.int64)
    return Bounds(wide[:, 0], wide[:, 1])


# --- places joined or added -----------------------------------------------------------------------------------------


def _beside(node: Call, inputs: Sequence[Bounds]) -> Bounds:
    """A concatenation along another axis, or a border."""
    given: dict[str, Any] = dict(node.attrs)
    if node.callee == "concat" or given.get("mode", "constant") != "constant":
        return hull(*inputs)
    value = np.full_like(inputs[0].lo, given["value"])
    return hull(inputs[0], Bounds(value, value))


def _pooled(node: Call, combine: Combine, x: Bounds) -> Bounds:
    """Extremes and means of integers stay between what they are of, where every window has a tap in the image."""
    given: dict[str, Any] = dict(node.attrs)
    kind, covered = node.out.type.dtype, _covered(given)
    if combine.chooses:
        return _clamped(x, given) if covered else full(kind, len(x.lo))
    if kind.is_float:
        return x.only((x.lo == 0) & (x.hi == 0) & covered, kind)
    if combine is not Combine.MEAN or not covered:
        return full(kind, len(x.lo))
    zero = Bounds(np.zeros_like(x.lo), np.zeros_like(x.lo))
    return _clamped(hull(x, zero) if given.get("include_pad", False) else x, given)


def _covered(given: Mapping[str, Any]) -> bool:
    axes = len(given["kernel"])
    if any(d != 1 for d in given.get("dilation", ())):
        return not any(given["pad"]) and not given.get("ceil", False)
    return all(p < given["kernel"][k % axes] for k, p in enumerate(given["pad"]))


def _clamped(x: Bounds, given: Mapping[str, Any]) -> Bounds:
    lo, hi = given.get("lo"), given.get("hi")
    return x if lo is None and hi is None else Bounds(np.clip(x.lo, lo, hi), np.clip(x.hi, lo, hi))


def _reduced(node: Call, combine: Combine, x: Bounds) -> Bounds:
    """Extremes stay between what they are of; sums of as many integers as there are places; zeros stay zeros."""
    given: dict[str, Any] = dict(node.attrs)
    kind = node.out.type.dtype
    extents = [node.args[0].type.shape[k] for k in given["axes"]]
    places = math.prod(d for d in extents if isinstance(d, int))
    if places == 0 or not all(isinstance(d, int) for d in extents):
        return full(kind, len(x.lo))
    if combine.chooses:
        return x
    if kind.is_float:
        return x.only((x.lo == 0) & (x.hi == 0), kind)
    offset = given.get("x_offset", 0)
    total = Bounds((x.lo + offset) * places, (x.hi + offset) * places)
    reach = np.maximum(np.abs(total.lo), np.abs(total.hi))
    fits = (reach <= _exact_limit(kind)) & (combine is Combine.SUM) & (node.args[0].type.dtype.bits <= 16)
    return total.only(fits, kind)
