"""ATen operators that choose elements by positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64
from sdk.compiler.ops.shapes import broadcast_shapes, same_extent
from sdk.compiler.sym import Dim
from sdk.frontends.moves import swap_axes
from sdk.frontends.torch.context import Number, TorchNode, aten

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


def _places(node: TorchNode, x: Value, given: Sequence[Value | None]) -> tuple[list[int], Value, tuple[Dim, ...]]:
    """The axes that are indexed, the positions on them [.., axes], and their shape without that last axis."""
    if any(i is not None and i.type.dtype == BOOL for i in given):
        node.fail("an index by flags has as many results as the data say", hint="use torch.where")
    axes = [k for k, i in enumerate(given) if i is not None]
    chosen = [node.cast(i, I64) for i in given if i is not None]
    shape = chosen[0].type.shape
    for one in chosen[1:]:
        shape = broadcast_shapes(shape, one.type.shape)
    wide = [
        c if len(shape) == c.type.rank and all(map(same_extent, c.type.shape, shape))
        else node.call("broadcast_to", c, shape=shape)
        for c in chosen
    ]  # fmt: skip
    columns = [node.call("reshape", w, shape=(*shape, 1)) for w in wide]
    places = columns[0] if len(columns) == 1 else node.call("concat", *columns, axis=len(shape))
    return axes, places, shape


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(node: TorchNode, x: Value, given: Sequence[Value | None]) -> Value:
    """Elements at positions on some axes: where the axes stand together the result has theirs there, else in front."""
    axes = [k for k, i in enumerate(given) if i is not None]
    first = given[axes[0]]
    if len(axes) == 1 and first is not None and first.type.dtype != BOOL:
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
    axes, places, shape = _places(node, x, given)
    rest = [k for k in range(x.type.rank) if k not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    own = [x.type.shape[k] for k in rest]
    values = node.cast(values, node.kind)
    if together and axes[0]:
        before = axes[0]
        wanted: tuple[Dim, ...] = (*own[:before], *shape, *own[before:])
        values = _spread(node, values, wanted)
        count = len(shape)
        order = [*range(before, before + count), *range(before), *range(before + count, len(wanted))]
        values = swap_axes(node, values, order)
    else:
        values = _spread(node, values, (*shape, *own))
    moved = swap_axes(node, x, [*axes, *rest])
    found = node.call("scatter_nd", moved, places, values, reduction="add" if accumulate else "none")
    order = [*axes, *rest]
    return swap_axes(node, found, [order.index(k) for k in range(x.type.rank)])


def _spread(node: TorchNode, x: Value, shape: tuple[Dim, ...]) -> Value:
    same = x.type.rank == len(shape) and all(map(same_extent, x.type.shape, shape))
    return x if same else node.call("broadcast_to", x, shape=shape)


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
