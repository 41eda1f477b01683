"""Sizes that broadcast although only a run knows which of them is 1: a check, and the only element repeated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sdk.compiler.ir.graph import MatchCast, Value
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, dmax, dmin, max_value, prove_ge, prove_lt
from sdk.frontends.emit import Emitter

__all__ = ["joint_size", "require_joint", "spread", "spread_operands"]


def joint_size(sizes: Sequence[Dim]) -> Dim | None:
    """The size that sizes broadcast to where they may, for some values of their dims, and ``numpy`` would not tell it
    from what is proved; None where it does, or where they never can.

    One that cannot be 1 is the result; of several that may all be 1, the largest. That each is 1 or the result is
    for ``spread`` to check.
    """
    others: list[Dim] = []
    for size in sizes:
        if size != 1 and not any(same_extent(size, other) for other in others):
            others.append(size)
    if len(others) < 2 or any(prove_ge(size, 1) is not True for size in others):
        return None  # a size of 0 would be neither 1 nor what others are
    wide = [size for size in others if prove_ge(size, 2) is True]
    if not wide:
        return reduce(dmax, others)
    if any(prove_lt(a, b) is True or prove_lt(b, a) is True for a in wide for b in wide):
        return None
    fixed = [size for size in wide if isinstance(size, int)]
    return fixed[0] if fixed else wide[0]


def spread(node: Emitter, x: Value, axis: int, size: Dim) -> Value:
    """``x`` with its axis spread to ``size``, which the run checks to be possible: it has 1 element there or that many.

    Position ``k`` reads element ``min(k, extent - 1)``. Where the extent is the size these are all elements in order,
    where it is 1 they are the only one, and nothing else passes the check.
    """
    extent = x.type.shape[axis]
    if same_extent(extent, size) or (isinstance(extent, int) and extent == 1):
        return x
    if prove_ge(extent, 2) is True:  # it must be that size
        return _stated(node, x, tuple(size if k == axis else d for k, d in enumerate(x.type.shape)))
    reached = node.value(node.call("iota", extent=_reached(extent, size), start=0, step=1, dtype="i32"))
    positions = _stated(node, reached, (size,))
    last = node.value(node.call("full", shape=(), value=extent - 1, dtype="i32"))
    return node.call("gather", x, node.call("minimum", positions, last), axis=axis)


def require_joint(node: Emitter, x: Value, axis: int, size: Dim) -> Value:
    """``x``, where the run finds ``size``, which no tensor has, to be 1 or the extent of that axis."""
    shape = x.type.shape
    if prove_ge(size, 1) is not True or same_extent(size, shape[axis]):
        return x
    stated = tuple(_reached(size, d) if k == axis else d for k, d in enumerate(shape))
    return _stated(node, _stated(node, x, stated), shape)


def _reached(extent: Dim, size: Dim) -> Dim:
    """What an axis of ``extent`` elements is spread to: ``size`` for one element, itself for more."""
    return extent + (size - extent) * (1 - dmin(extent - 1, 1))


def _stated(node: Emitter, x: Value, shape: tuple[Dim, ...]) -> Value:
    """``x`` as one of another shape, which the run checks to be its own."""
    out = Value(node.builder.value_name(node.stem), TensorType(x.type.dtype, shape))
    node.builder.body.append(MatchCast(out, x, f"sizes of {node.source}"))
    return out


def spread_operands(node: Emitter, values: Sequence[Value], kept: int = 0) -> tuple[Value, ...]:
    """Operands that broadcast, each spread where only the run knows that it can be; their last ``kept`` axes are left
    alone. Where all is proved, or nothing helps, they are as they were."""
    rank = max(v.type.rank for v in values)
    found = list(values)
    for axis in range(-rank, -kept):
        with_axis = [k for k, v in enumerate(found) if v.type.rank >= -axis]
        size = joint_size([found[k].type.shape[axis] for k in with_axis])
        if size is None or max_value(size) is None:
            continue
        for k in with_axis:
            found[k] = spread(node, node.value(found[k]), found[k].type.rank + axis, size)
    return tuple(found)
