"""Elements moved: parts of axes, their order, borders, and the same elements in another shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I32
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, dmax, dmin, only_unknown, product, prove_eq
from sdk.frontends.emit import Emitter

__all__ = ["along_last", "padded", "part", "reshaped", "row_inside", "shape_text", "spread", "swap_axes", "type_text"]


def part(node: Emitter, x: Value, axis: int, begin: Dim, size: Dim, step: int = 1) -> Value:
    """Some elements of one axis; ``x`` itself where they are all."""
    if step == 1 and isinstance(begin, int) and begin == 0 and same_extent(size, x.type.shape[axis]):
        return x
    rank = x.type.rank
    return node.call(
        "slice",
        x,
        begin=tuple(begin if k == axis else 0 for k in range(rank)),
        size=tuple(size if k == axis else d for k, d in enumerate(x.type.shape)),
        strides=tuple(step if k == axis else 1 for k in range(rank)),
    )


def row_inside(node: Emitter, x: Value, axis: int, at: Dim) -> Value:
    """Element ``at`` of an axis, without the axis; where it has fewer elements the last of them, below 0 the first."""
    inside = dmax(dmin(at, x.type.shape[axis] - 1), 0)
    return node.call("gather", x, node.value(node.call("full", shape=(), value=inside, dtype=str(I32))), axis=axis)


def swap_axes(node: Emitter, x: Value, perm: Sequence[int]) -> Value:
    """``x`` with its axes in another order; itself where they are in that order."""
    return x if list(perm) == list(range(x.type.rank)) else node.call("transpose", x, perm=tuple(perm))


def padded(node: Emitter, x: Value, pads: Sequence[tuple[Dim, Dim]], **given: float | str) -> Value:
    """``x`` with a border; itself where it has none."""
    if all(isinstance(p, int) and p == 0 for pair in pads for p in pair):
        return x
    return node.call("pad", x, pads=tuple(pads), **given)


def reshaped(node: Emitter, x: Value, wanted: Sequence[Dim]) -> Value:
    """``x`` in another shape of as many elements; itself where that is its shape.

    Raises:
        BuildError: the numbers of elements differ, or may differ for some values of the dims.
    """
    if len(wanted) == x.type.rank and all(map(same_extent, wanted, x.type.shape)):
        return x
    equal = prove_eq(x.type.size, product(tuple(wanted)))
    if equal is not True:
        how = "do not fit" if equal is False else "are not known to fit"
        why = f"{shape_text(x.type.shape)} = {x.type.size} elements {how} the shape {shape_text(wanted)}"
        node.fail(why, hint=_baked(x.type.size - product(tuple(wanted))))
    if any(isinstance(d, int) and d == 0 for d in wanted):  # nothing to move; to the op a 0 is the size there was
        kind = x.type.dtype
        return node.call("full", shape=tuple(wanted), value=0.0 if kind.is_float else 0, dtype=str(kind))
    return node.call("reshape", x, shape=tuple(wanted))


def _baked(difference: Dim) -> str:
    """What helps where a shape that the exporter has written as numbers suits no size, or one of those allowed only."""
    found = only_unknown(difference, ())
    if found is not None:
        var, by, rest = found
        if by and isinstance(rest, int) and rest % by == 0 and -rest // by >= 0:
            only = f"{var.name}={-rest // by}"
            return f"the exporter wrote that shape as numbers, which suit {only} alone: --dim {only}"
    return "that shape is written as numbers: give the inputs the sizes the model was exported with, or export it anew"


def spread(node: Emitter, x: Value, shape: Sequence[Dim]) -> Value:
    """``x`` repeated along axes of size 1, and new ones before; itself where that is its shape."""
    same = x.type.rank == len(shape) and all(map(same_extent, x.type.shape, shape))
    return x if same else node.call("broadcast_to", x, shape=tuple(shape))


def shape_text(dims: Sequence[Dim]) -> str:
    """Sizes as a report writes them."""
    return f"[{', '.join(map(str, dims))}]"


def type_text(x: Value) -> str:
    """The element type and the shape of a value as a report writes them."""
    return f"{x.type.dtype}{shape_text(x.type.shape)}"


def along_last(node: Emitter, x: Value, axis: int, fn: Callable[[Value], Value]) -> Value:
    """``fn``, which works along the last axis and keeps the shape, along another one."""
    rank = x.type.rank
    if axis == rank - 1:
        return fn(x)
    perm = (*(k for k in range(rank) if k != axis), axis)
    back = tuple(perm.index(k) for k in range(rank))
    return node.call("transpose", fn(node.call("transpose", x, perm=perm)), perm=back)
