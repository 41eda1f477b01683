"""ATen operators that choose elements by flags; how many there are the run may count."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.sym import product
from sdk.frontends.counted import positions
from sdk.frontends.distinct import distinct
from sdk.frontends.moves import spread, swap_axes
from sdk.frontends.torch.context import TorchNode, aten

__all__ = ["chosen_places"]


def chosen_places(node: TorchNode, flags: Value) -> Value:
    """Where flags are set, a row for each: i64[count, rank]."""
    return swap_axes(node, positions(node, flags, product(flags.type.shape)), (1, 0))


@aten("nonzero.default")
def nonzero(node: TorchNode, x: Value) -> Value:
    """The positions of what is not 0, one a row."""
    if x.type.rank == 0:
        node.fail("a scalar has no positions", hint="give it an axis")
    return chosen_places(node, x)


@aten("masked_select.default")
def masked_select(node: TorchNode, x: Value, mask: Value) -> Value:
    """The elements where a mask is set."""
    shape = broadcast_shapes(x.type.shape, mask.type.shape) or (1,)
    return node.call("gather_nd", spread(node, x, shape), chosen_places(node, spread(node, mask, shape)), batch=0)


@aten("masked_scatter.default")
def masked_scatter(node: TorchNode, x: Value, mask: Value, source: Value) -> Value:
    """A copy whose elements under a mask are those of a source, in order."""
    shape = node.out.shape
    count = product(shape)
    flags = node.call("reshape", spread(node, node.cast(mask, BOOL), shape), shape=(count,))
    seen = node.call("cumsum", node.cast(flags, I64), exclusive=True, reverse=False)
    values = node.call("reshape", source, shape=(product(source.type.shape),))
    taken = node.call("gather", values, seen, axis=0)
    own = node.call("reshape", spread(node, x, shape), shape=(count,))
    return node.call("reshape", node.call("where", flags, taken, own), shape=shape)


@aten("_unique2.default")
def unique(
    node: TorchNode, x: Value, in_order: bool = True, inverse: bool = False, counts: bool = False
) -> tuple[Value, ...]:
    """Each value once, in order of size; which one each element is, and how often each is there, where that is wanted.
    As PyTorch does, ``in_order`` or not."""
    kept, _, which, many = distinct(node, x, True)
    none = node.const(np.zeros(0, np.int64), "unwanted")
    return kept, node.call("reshape", which, shape=x.type.shape) if inverse else none, many if counts else none
