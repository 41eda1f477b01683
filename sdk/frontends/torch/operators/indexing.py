"""ATen operators that choose elements by positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64, DType
from sdk.compiler.ops.shapes import broadcast_shapes, same_extent
from sdk.compiler.sym import Dim
from sdk.frontends.moves import part, spread, swap_axes
from sdk.frontends.torch.context import Number, TorchNode, aten
from sdk.frontends.torch.operators.selection import chosen_places

__all__: list[str] = []


@aten("embedding.default")
def embedding(node: TorchNode, table: Value, ids: Value, *_: Any) -> Value:
    """Rows of a table."""
    return node.call("gather", table, ids, axis=0)


@aten("index_select.default")
def index_select(node: TorchNode, x: Value, dim: int, index: Value) -> Value:
    """Slices of an axis."""
    return node.call("gather", x, index, axis=node.axis(dim, x.type.rank))


@aten("gather.default")
def gather(node: TorchNode, x: Value, dim: int, index: Value, **_: Any) -> Value:
    """At each place, the element whose position on an axis an index gives."""
    return node.call("gather_elements", x, index, axis=node.axis(dim, x.type.rank))


@aten("scatter.src", "scatter.value", "scatter_add.default")
def scatter(node: TorchNode, x: Value, dim: int, index: Value, src: Number) -> Value:
    """A copy with elements replaced, or added to, at positions on an axis."""
    how = "add" if "scatter_add" in node.target else "none"
    values = node.tensor(src, node.kind)
    if not isinstance(src, Value):
        values = node.call("broadcast_to", values, shape=index.type.shape)
    elif not all(map(same_extent, values.type.shape, index.type.shape)):
        rank = values.type.rank
        values = node.call("slice", values, begin=(0,) * rank, size=index.type.shape, strides=(1,) * rank)
    return node.call("scatter_elements", x, index, values, axis=node.axis(dim, x.type.rank), reduction=how)


def _without_flags(node: TorchNode, given: Sequence[Value | None]) -> list[Value | None]:
    """Positions in the place of flags: one tensor for each axis that these lie on."""
    found: list[Value | None] = []
    for one in given:
        if one is None or one.type.dtype != BOOL:
            found.append(one)
            continue
        where = chosen_places(node, one)
        rows = where.type.shape[0]
        for k in range(one.type.rank):
            found.append(node.call("reshape", part(node, where, 1, k, 1), shape=(rows,)))
    return found


@aten("scatter_reduce.two", "scatter.reduce")
def scatter_reduce(
    node: TorchNode, x: Value, dim: int, index: Value, src: Value, how: str = "", *, reduce: str = "",
    include_self: bool = True,
) -> Value:  # fmt: skip
    """A copy with elements met by those of a source at positions on an axis; without ``include_self`` what was there
    before does not count."""
    axis, kind = node.axis(dim, x.type.rank), node.kind
    name = _MEETINGS[how or reduce]
    if x.type.rank == 0:
        x, index, src = (node.call("reshape", v, shape=(1,)) for v in (x, index, src))
    rank = src.type.rank
    values = src
    if not all(map(same_extent, src.type.shape, index.type.shape)):
        values = node.call("slice", src, begin=(0,) * rank, size=index.type.shape, strides=(1,) * rank)

    def met(into: Value, given: Value, op: str) -> Value:
        return node.call("scatter_elements", into, index, given, axis=axis, reduction=op)

    def everywhere(number: float) -> Value:
        return node.call("broadcast_to", node.scalar(number, kind), shape=index.type.shape)

    start = x if include_self else met(x, everywhere(_neutral(name, kind)), "none")
    found = met(start, values, "add" if name == "mean" else name)
    if name == "mean":
        ones = node.call("broadcast_to", node.scalar(1, kind), shape=x.type.shape)
        counts = met(ones if include_self else met(ones, everywhere(0), "none"), everywhere(1), "add")
        found = node.call("div", found, counts) if kind.is_float else _floor_div(node, found, counts)
    return node.call("reshape", found, shape=node.out.shape) if node.out.rank == 0 else found


_MEETINGS = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "mean": "mean", "amax": "max", "amin": "min",
}  # fmt: skip


def _neutral(name: str, kind: DType) -> float:
    """What a meeting leaves as it is."""
    if name in ("max", "min"):
        if kind.is_float:
            return -math.inf if name == "max" else math.inf
        return kind.limits[0 if name == "max" else 1]
    return 1 if name == "mul" else 0


def _floor_div(node: TorchNode, a: Value, b: Value) -> Value:
    return node.call("div", node.call("sub", a, node.call("mod", a, b)), b)


def _places(node: TorchNode, x: Value, given: Sequence[Value | None]) -> tuple[list[int], Value, tuple[Dim, ...]]:
    """The axes that are indexed, the positions on them [.., axes], and their shape without that last axis."""
    axes = [k for k, i in enumerate(given) if i is not None]
    chosen = [node.cast(i, I64) for i in given if i is not None]
    shape = chosen[0].type.shape
    for one in chosen[1:]:
        shape = broadcast_shapes(shape, one.type.shape)
    columns = [node.call("reshape", spread(node, c, shape), shape=(*shape, 1)) for c in chosen]
    places = columns[0] if len(columns) == 1 else node.call("concat", *columns, axis=len(shape))
    return axes, places, shape


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(node: TorchNode, x: Value, given: Sequence[Value | None]) -> Value:
    """Elements at positions on some axes: where the axes stand together the result has theirs there, else in front."""
    given = _without_flags(node, given)
    axes = [k for k, i in enumerate(given) if i is not None]
    first = given[axes[0]]
    if len(axes) == 1 and first is not None:
        return node.call("gather", x, first, axis=axes[0])
    axes, places, shape = _places(node, x, given)
    rest = [k for k in range(x.type.rank) if k not in axes]
    found = node.call("gather_nd", swap_axes(node, x, [*axes, *rest]), places, batch=0)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if not together or axes[0] == 0:
        return found
    count, before = len(shape), axes[0]
    order = [*range(count, count + before), *range(count), *range(count + before, found.type.rank)]
    return swap_axes(node, found, order)


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(
    node: TorchNode, x: Value, given: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """A copy with elements at positions replaced, or added to."""
    flags = given[0]
    if len(given) == 1 and flags is not None and flags.type.dtype == BOOL and values.type.size == 1 and not accumulate:
        shape = (*flags.type.shape, *(1 for _ in range(x.type.rank - flags.type.rank)))
        wide = node.call("reshape", flags, shape=shape)
        return node.call("where", wide, node.call("reshape", node.cast(values, node.kind), shape=()), x)
    axes, places, shape = _places(node, x, _without_flags(node, given))
    rest = [k for k in range(x.type.rank) if k not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    own = [x.type.shape[k] for k in rest]
    values = node.cast(values, node.kind)
    if together and axes[0]:
        before = axes[0]
        wanted: tuple[Dim, ...] = (*own[:before], *shape, *own[before:])
        values = spread(node, values, wanted)
        count = len(shape)
        order = [*range(before, before + count), *range(before), *range(before + count, len(wanted))]
        values = swap_axes(node, values, order)
    else:
        values = spread(node, values, (*shape, *own))
    moved = swap_axes(node, x, [*axes, *rest])
    found = node.call("scatter_nd", moved, places, values, reduction="add" if accumulate else "none")
    order = [*axes, *rest]
    return swap_axes(node, found, [order.index(k) for k in range(x.type.rank)])


@aten("index_copy.default", "index_add.default")
def index_copy(
    node: TorchNode, x: Value, dim: int, index: Value, src: Value, *, alpha: Number = 1
) -> Value:
    """A copy with slices of an axis replaced, or added to."""
    axis = node.axis(dim, x.type.rank)
    values = node.cast(src, node.kind)
    if not isinstance(alpha, int) or alpha != 1:
        values = node.call("mul", values, node.tensor(alpha, node.kind))
    order = [axis, *(k for k in range(x.type.rank) if k != axis)]
    back = [order.index(k) for k in range(x.type.rank)]
    places = node.call("reshape", node.cast(index, I64), shape=(index.type.size, 1))
    how = "add" if "index_add" in node.target else "none"
    moved, rows = swap_axes(node, x, order), swap_axes(node, values, order)
    return swap_axes(node, node.call("scatter_nd", moved, places, rows, reduction=how), back)
