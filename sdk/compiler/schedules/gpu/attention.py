"""Attention on GPUs: an item has one row, a query by one head, and the slots of a block side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from sdk.compiler.ir.loops import Block, Buffer, For, Load, Loops, Store
from sdk.compiler.ir.walk import rewrite
from sdk.compiler.ops.attention_loops import Tiles, attention_loops
from sdk.compiler.schedules.attention_lanes import shape_of_attention
from sdk.compiler.schedules.gpu.tiles import Item
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import flat_index

__all__ = ["attended"]

_LOOPS: Final = 3  # over items: heads of keys, heads that share one, tokens


def attended(loops: Loops, sums: int) -> Item:
    """A row of attention as the work of an item, with ``sums`` sums at once: what is read of the query or of the
    shares is read once for all of them, and loops have so many times fewer steps.

    rewrite: ``for heads { for tokens { for blocks { for slots { sum } … } } }`` --> an item for each head and token:
    ``for blocks { for slots/s { sum[s] … } … }``

    The nest must be that of ``attend`` or ``attend_bytes``, whose rows are independent.

    Raises:
        ScheduleError: it is another nest.
    """
    shape = shape_of_attention(loops, all_rows=True)
    if shape is None:
        raise ScheduleError(f"{loops.name} is no attention")
    body = attention_loops(loops.name, shape, Tiles(1, sums, (1,))).body
    chain: list[For] = []
    while len(chain) < _LOOPS and len(body.body) == 1 and isinstance(loop := body.body[0], For):
        chain.append(loop)
        body = loop.body
    if len(chain) < _LOOPS:
        raise ScheduleError(f"{loops.name} has no rows")
    return Item((replace(chain[0], lo=0, hi=shape.kv), *chain[1:]), _flat(loops, body))


def _flat(loops: Loops, body: Block) -> Block:
    """The same with parameters of one axis, and arrays of the item's own in registers."""
    shapes = {p.buffer.name: p.buffer.shape for p in loops.params}

    def one(node: Any) -> Any:
        if isinstance(node, Load | Store) and node.buffer in shapes:
            return replace(node, index=(flat_index(node.index, shapes[node.buffer]),))
        if isinstance(node, Buffer) and node.space == "scratch":
            return replace(node, space="register")
        return node

    return rewrite(body, one)
