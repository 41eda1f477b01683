"""Finding and replacing parts of a loop nest by loop name; the errors every primitive shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sdk.compiler.ir.loops import Alloc, Block, For, If, Let, Loops, Stmt
from sdk.compiler.ir.walk import rename_buffers, rewrite, statements, substitute_dims, walk
from sdk.compiler.ops.apart import derives
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = ["ScheduleError", "find", "fresh", "has", "loop_names", "renamed", "replace_loop"]


class ScheduleError(BuildError):
    """A primitive cannot be applied: the loop is not there, or its proof obligation does not hold."""


def loop_names(block: Block) -> list[str]:
    """Names of all loops of ``block``, outer first."""
    return [n.var.name for n in statements(block) if isinstance(n, For)]


def has(loops: Loops, name: str) -> bool:
    """Whether there is a loop called ``name``."""
    return name in loop_names(loops.body)


def find(loops: Loops, name: str) -> For:
    """The loop over ``name``.

    Raises:
        ScheduleError: there is none.
    """
    for node in statements(loops.body):
        if isinstance(node, For) and node.var.name == name:
            return node
    raise ScheduleError(
        f"{loops.name} has no loop {name}",
        hint=f"its loops are {', '.join(loop_names(loops.body)) or 'none'}",
    )


def replace_loop(loops: Loops, name: str, fn: Callable[[For], tuple[Stmt, ...]]) -> Loops:
    """``loops`` with every loop over ``name`` (there are copies after ``jam``) replaced by what ``fn`` makes of it."""
    find(loops, name)
    return replace(loops, body=_replace(loops.body, name, fn))


def _replace(block: Block, name: str, fn: Callable[[For], tuple[Stmt, ...]]) -> Block:
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
    taken = set(loop_names(loops.body)) | {p.buffer.name for p in loops.params}
    taken |= {n.buffer.name for n in statements(loops.body) if isinstance(n, Alloc)}
    dims = [v.name for v in loops.dims]
    name, k = stem, 2
    while name in taken or any(derives(dim, name) for dim in dims):
        name, k = f"{stem}{k}", k + 1
    return name


def renamed(block: Block, suffix: str) -> Block:
    """A copy of ``block`` whose loops, temporaries and scalars have ``suffix`` appended, so names stay unique."""
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

    return rename_buffers(substitute_dims(rewrite(block, one), env), buffers)
