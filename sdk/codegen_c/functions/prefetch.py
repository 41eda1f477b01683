"""Loads that memory is asked for before code reads them, as LLVM's loop data prefetch does.

A product by one token reads each record of its weights once, in order. Processors recognise that and read ahead, but
stop at the end of a page, so that a core waits for memory in each; asking for what comes some records later does not.
One line of a cache is asked for where one is read: a core waits for some two dozen lines at a time, and those of a
whole record, asked for at once, keep it from asking for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sdk.codegen_c.functions.samples import Around
from sdk.compiler.ir.layout import Records
from sdk.compiler.ir.loops import For, Load, Loops, Stmt
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.group_panels import LINE
from sdk.compiler.sym import Dim

__all__ = ["Stream", "streamed_record"]


@dataclass
class Stream:
    """The record of ``buffer`` at ``index`` that an iteration reads; the lines that it was seen to read so far."""

    buffer: str
    index: tuple[Dim, ...]
    lines: set[int] = field(default_factory=set)

    def new_lines(self, stmt: Stmt) -> list[Load]:
        """The first bytes of the lines that ``stmt`` reads and no statement before it did."""
        found: list[Load] = []
        for node in walk(stmt):
            if not isinstance(node, Load) or (node.buffer, node.index[:-1]) != (self.buffer, self.index):
                continue
            if isinstance(at := node.index[-1], int):
                read = range(at // LINE, (at + node.dtype.nbytes - 1) // LINE + 1)
                new = [line for line in read if line not in self.lines]
                found += [Load(self.buffer, (*self.index, line * LINE), node.dtype.scalar) for line in new]
                self.lines.update(new)
        return found


def streamed_record(loop: For, around: Sequence[Around], loops: Loops) -> Stream | None:
    """The record that each iteration of ``loop`` reads, None where it reads none.

    Only where one other loop, that over panels, is around it: in others the records were read before, by the tokens of
    an earlier tile, and lie in a cache.
    """
    outer = [item.var.expr for item in around if isinstance(item, For)]
    if len(outer) != 1:
        return None
    streams = {p.buffer.name for p in loops.params if any(isinstance(s, Records) for s in p.layout.steps)}
    for node in walk(loop.body):
        if isinstance(node, Load) and node.buffer in streams and node.index[:2] == (*outer, loop.var.expr):
            return Stream(node.buffer, node.index[:2])
    return None
