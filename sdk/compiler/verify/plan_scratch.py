"""The scratch space of one call: buffers that are in use together share no byte, read off the loops themselves."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sdk.compiler.analysis.access import Same
from sdk.compiler.ir.loops import Alloc, Block, For, If, Loops, Stmt
from sdk.compiler.ir.walk import buffers_used
from sdk.compiler.memory.rings import stored_bytes
from sdk.compiler.memory.scratch import ScratchLayout, scratch_layout

__all__ = ["check_scratch", "clashes"]

REMEMBERED: Final = 1 << 10


def check_scratch(loops: Loops) -> tuple[str, ...]:
    """What is wrong with the places that ``scratch_layout`` gives the scratch buffers of a function."""
    return _checked(Same(loops))


@lru_cache(maxsize=REMEMBERED)
def _checked(same: Same) -> tuple[str, ...]:
    return clashes(same.loops, scratch_layout(same.loops))


def clashes(loops: Loops, layout: ScratchLayout) -> tuple[str, ...]:
    """Scratch buffers that leave the space of ``layout`` or share bytes of it while both are in use."""
    walk = _Walk()
    walk.block(loops.body, ())
    out = []
    held: list[tuple[str, int, int, list[tuple[int, int]]]] = []
    for name, size in walk.sizes.items():
        spans = walk.spans(name)
        if not spans:
            continue
        lo = layout.offsets[name]
        if lo < 0 or lo + size > layout.bytes:
            out.append(f"scratch {name} at {lo}..{lo + size} leaves its {layout.bytes} bytes")
        for other, start, end, others in held:
            together = any(a <= d and c <= b for a, b in spans for c, d in others)
            if lo < end and start < lo + size and together:
                out.append(f"scratch {name} overlaps {other}")
        held.append((name, lo, lo + size, spans))
    return tuple(out)


class _Walk:
    """Numbers statements, and notes where scratch is declared and used: in which loops."""

    def __init__(self) -> None:
        self.step = 0
        self.sizes: dict[str, int] = {}
        self.within: dict[str, tuple[int, ...]] = {}  # of the innermost declaration, the loops around
        self.used: dict[str, list[tuple[int, int, tuple[int, ...]]]] = {}  # step, loops that declare it, loops around
        self.ranges: dict[int, tuple[int, int]] = {}  # of loops, from the first step in them to the last

    def block(self, block: Block, around: tuple[int, ...]) -> None:
        for stmt in block.body:
            self.stmt(stmt, around)

    def stmt(self, stmt: Stmt, around: tuple[int, ...]) -> None:
        self.step += 1
        at = self.step
        match stmt:
            case Alloc(buffer=buffer):
                if buffer.space == "scratch":
                    size = stored_bytes(buffer.type, buffer.ring)
                    self.sizes[buffer.name] = max(self.sizes.get(buffer.name, 0), size)
                    self.within[buffer.name] = around
            case Block():
                self.block(stmt, around)
            case For():
                self.block(stmt.body, (*around, at))
                if stmt.until is not None:
                    self.use(stmt.until, (*around, at))
                self.ranges[at] = at, self.step
            case If():
                self.use(stmt.cond, around)
                for part in (stmt.then, stmt.orelse):
                    if part is not None:
                        self.block(part, around)
            case _:
                self.use(stmt, around)

    def use(self, node: object, around: tuple[int, ...]) -> None:
        loads, stores = buffers_used(node)
        for name in (loads | stores) & self.sizes.keys():
            self.used.setdefault(name, []).append((self.step, len(self.within[name]), around))

    def spans(self, name: str) -> list[tuple[int, int]]:
        """From the first use to the last, all of a loop where it is used in one that it outlives."""
        found = []
        for step, depth, around in self.used.get(name, []):
            found.append(self.ranges[around[depth]] if len(around) > depth else (step, step))
        return [(min(a for a, _ in found), max(b for _, b in found))] if found else []
