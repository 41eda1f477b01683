"""Where the scratch buffers of one loops function lie in the scratch space of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from sdk.compiler.analysis.access import Same
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Loops, Stmt
from sdk.compiler.ir.walk import buffers_used, inner_blocks
from sdk.compiler.memory.planner import plan_offsets
from sdk.compiler.memory.problem import Block as Space
from sdk.compiler.memory.problem import aligned
from sdk.compiler.memory.rings import stored_bytes
from sdk.errors import BuildError

__all__ = ["SCRATCH_ALIGN", "THREAD_ALIGN", "ScratchLayout", "scratch_layout", "scratch_share"]

SCRATCH_ALIGN = 16
THREAD_ALIGN = 64  # threads that write to one cache line wait for each other
REMEMBERED: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class ScratchLayout:
    """Byte offsets by buffer name, and the bytes a call needs at an address aligned to ``SCRATCH_ALIGN``."""

    offsets: Mapping[str, int]
    bytes: int


def scratch_layout(loops: Loops) -> ScratchLayout:
    """Places every ``Alloc`` of space "scratch"; those never in use at the same time may share bytes.

    Raises:
        BuildError: a size without bound, or scratch inside a parallel loop: each thread would need its own.
    """
    return _laid(Same(loops))


@lru_cache(maxsize=REMEMBERED)
def _laid(same: Same) -> ScratchLayout:
    loops = same.loops
    uses = _Uses(loops.name)
    uses.block(loops.body, concurrent=False)
    placed = plan_offsets(list(uses.spaces.values()))
    return ScratchLayout(placed.offsets, placed.peak)


def scratch_share(bytes: int) -> int:
    """Bytes from the scratch space of one thread to that of the next."""
    return aligned(bytes, THREAD_ALIGN)


class _Uses:
    """Numbers statements; a buffer lives from the first to the last statement of its block that uses it."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.step = 0
        self.spaces: dict[str, Space] = {}

    def block(self, block: Block, concurrent: bool) -> None:
        spans: list[tuple[int, int]] = []
        for stmt in block.body:
            self.step += 1
            start = self.step
            if isinstance(stmt, Alloc) and stmt.buffer.space == "scratch" and concurrent:
                raise BuildError(
                    f"{self.where} declares scratch {stmt.buffer.name} inside a parallel loop",
                    hint="declare it outside with an axis for the thread",
                )
            parallel = isinstance(stmt, For) and stmt.kind in ("parallel", "bind")
            for inner in inner_blocks(stmt):
                self.block(inner, concurrent or parallel)
            spans.append((start, self.step))
        for k, stmt in enumerate(block.body):
            if isinstance(stmt, Alloc) and stmt.buffer.space == "scratch":
                self.add(
                    stmt.buffer,
                    [s for s, node in zip(spans[k:], block.body[k:], strict=True) if _uses(node, stmt.buffer.name)],
                )

    def add(self, buffer: Buffer, spans: list[tuple[int, int]]) -> None:
        """Notes the lifetime; a name declared again (an unrolled body) keeps one place that fits all."""
        if not spans:
            return
        size = stored_bytes(buffer.type, buffer.ring)
        align = SCRATCH_ALIGN if size >= SCRATCH_ALIGN else max(4, buffer.dtype.nbytes)
        new = Space(buffer.name, size, spans[0][0], spans[-1][1], align)
        old = self.spaces.get(buffer.name)
        if old is not None:
            new = replace(
                new,
                size=max(new.size, old.size),
                first=min(new.first, old.first),
                last=max(new.last, old.last),
                align=max(new.align, old.align),
            )
        self.spaces[buffer.name] = new


def _uses(stmt: Stmt, name: str) -> bool:
    loads, stores = buffers_used(stmt)
    return name in loads or name in stores
