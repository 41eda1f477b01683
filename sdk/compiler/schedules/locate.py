"""Handles of loops, how primitives find and replace what they stand for, and the errors that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NewType

from sdk.compiler.ir.loops import Alloc, Block, For, If, Let, Loops, Stmt
from sdk.compiler.ir.walk import rename_buffers, rewrite, statements, substitute_dims, walk
from sdk.compiler.ops.apart import derives
from sdk.compiler.sym import Dim, Var, max_value
from sdk.errors import BuildError

__all__ = [
    "Loop",
    "ScheduleError",
    "Tiles",
    "check_whole",
    "copied",
    "counter",
    "find",
    "fresh",
    "has",
    "loop_of",
    "loops_in",
    "loops_of",
    "replace_loop",
]

# A handle: the variable of a loop and of its copies by ``unroll_and_jam``. Primitives give out those of the loops that
# they make and choose their names; nothing else puts a name together or takes one apart.
Loop = NewType("Loop", str)


@dataclass(frozen=True, slots=True)
class Tiles:
    """What a loop was cut in: ``outer`` goes over the tiles, ``inner`` over one, if there is a ``whole`` tile.

    ``tail`` is what is left, None where nothing is; ``copies`` and ``buffers`` are the loops and temporaries of its
    body by those that they copy.
    """

    outer: Loop
    inner: Loop
    whole: bool = True
    tail: Loop | None = None
    copies: Mapping[Loop, Loop] = field(default_factory=dict)
    buffers: Mapping[str, str] = field(default_factory=dict)

    @property
    def loops(self) -> list[Loop]:
        """The loops that follow each other: over the tiles, and what is left."""
        return [*([self.outer] if self.whole else []), *([self.tail] if self.tail else [])]

    def in_tail(self, loops: Iterable[Loop]) -> list[Loop]:
        """What loops of the body are in the tail."""
        return [self.copies.get(loop, loop) for loop in loops]

    def everywhere(self, loops: Iterable[Loop]) -> list[Loop]:
        """Loops of the body, in the tiles and in the tail."""
        loops = list(loops)
        return list(dict.fromkeys([*loops, *self.in_tail(loops)]))


class ScheduleError(BuildError):
    """A primitive cannot be applied: the loop is not there, or its proof obligation does not hold."""


def loops_in(block: Block) -> list[Loop]:
    """The handles of all loops of ``block``, outer first; one for each copy."""
    return loops_of(n for n in statements(block) if isinstance(n, For))


def loop_of(node: For) -> Loop:
    """The handle of a loop."""
    return Loop(node.var.name)


def loops_of(chain: Iterable[For]) -> list[Loop]:
    """The handles of a chain of loops."""
    return [loop_of(node) for node in chain]


def has(loops: Loops, name: Loop) -> bool:
    """Whether the loop is there."""
    return name in loops_in(loops.body)


def find(loops: Loops, name: Loop) -> For:
    """The loop that a handle stands for; the first of its copies.

    Raises:
        ScheduleError: there is none.
    """
    for node in statements(loops.body):
        if isinstance(node, For) and node.var.name == name:
            return node
    raise ScheduleError(
        f"{loops.name} has no loop {name}",
        hint=f"its loops are {', '.join(loops_in(loops.body)) or 'none'}",
    )


def check_whole(loop: For, step: str) -> None:
    """Refuses loops whose other properties a new shape would lose."""
    if loop.until is not None or loop.axis:
        raise ScheduleError(f"{step}: {loop.var.name} may end early or is bound to an axis")


def counter(name: str, extent: Dim) -> Var:
    """The variable of a loop from 0 to an extent that has an upper bound."""
    maximum = max_value(extent)
    if maximum is None:
        raise ScheduleError(f"the extent {extent} of {name} has no upper bound")
    return Var(name, 0, max(maximum - 1, 0))


def replace_loop(loops: Loops, name: Loop, fn: Callable[[For], tuple[Stmt, ...]]) -> Loops:
    """``loops`` with what ``fn`` makes of a loop, of each of its copies, in its place."""
    find(loops, name)
    return replace(loops, body=_replace(loops.body, name, fn))


def _replace(block: Block, name: Loop, fn: Callable[[For], tuple[Stmt, ...]]) -> Block:
    out: list[Stmt] = []
    for stmt in block.body:
        match stmt:
            case For() if stmt.var.name == name:
                out.extend(fn(stmt))
            case For():
                out.append(replace(stmt, body=_replace(stmt.body, name, fn)))
            case If():
                orelse = _replace(stmt.orelse, name, fn) if stmt.orelse else None
                out.append(replace(stmt, then=_replace(stmt.then, name, fn), orelse=orelse))
            case Block():
                out.append(_replace(stmt, name, fn))
            case _:
                out.append(stmt)
    return Block(tuple(out))


def fresh(loops: Loops, stem: str) -> str:
    """A name that no loop, buffer or parameter of ``loops`` has, and that no dim is or may be derived from."""
    taken = set(loops_in(loops.body)) | {p.buffer.name for p in loops.params}
    taken |= {n.buffer.name for n in statements(loops.body) if isinstance(n, Alloc)}
    dims = [v.name for v in loops.dims]
    name, k = stem, 2
    while name in taken or any(derives(dim, name) for dim in dims):
        name, k = f"{stem}{k}", k + 1
    return name


def copied(block: Block, suffix: str) -> tuple[Block, dict[Loop, Loop], dict[str, str]]:
    """A copy of ``block`` whose loops and temporaries have ``suffix`` appended, so names stay unique; these by those
    that they copy."""
    env: dict[Var, Dim] = {}
    loops: dict[Var, Var] = {}
    buffers: dict[str, str] = {}
    for node in walk(block):
        if isinstance(node, For):
            loops[node.var] = Var(node.var.name + suffix, node.var.lo, node.var.hi, node.var.multiple)
            env[node.var] = loops[node.var].expr
        elif isinstance(node, Alloc):
            buffers[node.buffer.name] = node.buffer.name + suffix
        elif isinstance(node, Let):
            raise ScheduleError("blocks with scalar bindings are not copied")

    def one(node: Any) -> Any:
        return replace(node, var=loops[node.var]) if isinstance(node, For) and node.var in loops else node

    copies = {Loop(old.name): Loop(new.name) for old, new in loops.items()}
    return rename_buffers(substitute_dims(rewrite(block, one), env), buffers), copies, buffers
