"""Loads that memory is asked for before code reads them, as LLVM's loop data prefetch does.

A product by one token reads each record of its weights once, in order. Processors recognise that and read ahead, but
stop at the end of a page, so that a core waits for memory in each; asking for what comes some records later does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdk.codegen_c.functions.samples import Around
from sdk.compiler.ir.layout import Records
from sdk.compiler.ir.loops import For, Load, Loops
from sdk.compiler.ir.walk import walk

__all__ = ["streamed_record"]


def streamed_record(loop: For, around: Sequence[Around], loops: Loops) -> tuple[Load, int] | None:
    """The first byte of the record that each iteration of ``loop`` reads and its bytes, None where it reads none.

    Only where one other loop, that over panels, is around it: in others the records were read before, by the tokens of
    an earlier tile, and lie in a cache.
    """
    outer = [item.var.expr for item in around if isinstance(item, For)]
    if len(outer) != 1:
        return None
    streams = {p.buffer.name: p.buffer for p in loops.params if any(isinstance(s, Records) for s in p.layout.steps)}
    for node in walk(loop.body):
        if isinstance(node, Load) and node.buffer in streams and node.index[:2] == (*outer, loop.var.expr):
            buffer = streams[node.buffer]
            width = buffer.shape[-1]
            assert isinstance(width, int)
            return Load(buffer.name, (*node.index[:2], 0), buffer.dtype), width * buffer.dtype.nbytes
    return None
