"""ATen operators on rows that belong together: distances between them, bags of rows of a table."""

from __future__ import annotations

from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64
from sdk.frontends.moves import part
from sdk.frontends.torch.context import TorchNode, aten
from sdk.frontends.torch.operators.reduce import vector_norm

__all__: list[str] = []

_BAGS: Final = ("sum", "mean", "max")  # by PyTorch's numbers


@aten("_cdist_forward.default", "_euclidean_dist.default")
def cdist(node: TorchNode, a: Value, b: Value, p: float = 2.0, _: int | None = None) -> Value:
    """The p-norm of the difference of each row of one matrix and each of another."""
    *batch, m, d = a.type.shape
    *other, n, _columns = b.type.shape
    rows = node.call("reshape", a, shape=(*batch, m, 1, d))
    columns = node.call("reshape", b, shape=(*other, 1, n, d))
    return vector_norm(node, node.call("sub", rows, columns), p, -1)


@aten("_pdist_forward.default")
def pdist(node: TorchNode, x: Value, p: float = 2.0) -> Value:
    """The p-norm of the difference of each two rows of a matrix, in the order of the upper triangle."""
    count = x.type.shape[0]
    if not isinstance(count, int):
        node.fail(f"the number {count} of rows is open")
    first, second = np.triu_indices(count, 1)
    pairs = [node.call("gather", x, node.const(places), axis=0) for places in (first, second)]
    return vector_norm(node, node.call("sub", *pairs), p, -1)


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    node: TorchNode, table: Value, ids: Value, offsets: Value, _: bool = False, mode: int = 0, __: bool = False,
    weights: Value | None = None, include_last: bool = False, skipped: int = -1,
) -> tuple[Value, ...]:  # fmt: skip
    """Rows of a table summed, averaged or met in bags, which begin at offsets into the positions."""
    how, kind = _BAGS[mode], node.kind
    bags = node.out.shape[0]
    begins = part(node, node.cast(offsets, I64), 0, 0, bags) if include_last else node.cast(offsets, I64)
    count = ids.type.shape[0]
    places = node.call("iota", extent=count, start=0, step=1, dtype=str(I64))
    begun = node.call("less_equal", begins, node.call("reshape", places, shape=(count, 1)))
    bag = node.call("sub", node.call("reduce_sum", node.cast(begun, I64), axes=(1,)), node.scalar(1, I64))
    rows = node.call("gather", table, ids, axis=0)
    if weights is not None:
        rows = node.call("mul", rows, node.call("reshape", weights, shape=(count, 1)))
    if skipped >= 0:  # these go to a bag that there is not, and change nothing
        skip = node.call("equal", node.cast(ids, I64), node.scalar(skipped, I64))
        bag = node.call("where", node.call("reshape", skip, shape=(count, 1)), node.tensor(bags, I64), bag)
    width = table.type.shape[1]
    ones = node.call("full", shape=(count,), value=1.0, dtype=str(kind))
    none = node.call("full", shape=(bags,), value=0.0, dtype=str(kind))
    sizes = node.call("scatter_nd", none, bag, ones, reduction="add")
    sizes = node.call("reshape", sizes, shape=(bags, 1))
    start = -np.inf if how == "max" else 0.0
    empty = node.call("broadcast_to", node.scalar(start, kind), shape=(bags, width))
    found = node.call("scatter_nd", empty, bag, rows, reduction="max" if how == "max" else "add")
    if how == "mean":
        found = node.call("div", found, node.call("maximum", sizes, node.scalar(1, kind)))
    if how == "max":
        filled = node.cast(sizes, BOOL)
        found = node.call("where", filled, found, node.scalar(0, kind))
    return (found,)
