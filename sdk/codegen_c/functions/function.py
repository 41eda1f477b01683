"""A printed C function of a loops function, and what it takes beside its buffers."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.codegen_c.functions.asm_statement import Statement
from sdk.compiler.ir.loops import Alloc, Block, Loops, Stmt
from sdk.compiler.ir.walk import walk

__all__ = ["CFunction", "has_scratch"]


@dataclass(frozen=True, slots=True)
class CFunction:
    """A printed function: its C name, text (definition), whether it takes scratch memory, and is worth little code;
    what its parameters are called; the statements that it is made of, and which of them are assembly."""

    name: str
    text: str
    scratch: bool
    small: bool = False
    names: tuple[str, ...] = ()
    body: Block | None = None
    assembly: tuple[tuple[tuple[Stmt, ...], Statement], ...] = ()


def has_scratch(loops: Loops) -> bool:
    """Whether the function takes scratch memory."""
    return any(isinstance(s, Alloc) and s.buffer.space == "scratch" for s in walk(loops.body))
