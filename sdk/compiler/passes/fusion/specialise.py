"""A loops function as one call sees it: its dims those of the caller, equal arguments one parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sdk.compiler.analysis.unify import unify
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.loops import Alloc, Block, For, Let, Loops, Param, Rows
from sdk.compiler.ir.walk import dims_used, rename_buffers, statements, substitute_dims
from sdk.compiler.sym import Var, free_vars

__all__ = ["assemble", "names_in", "share_arguments", "specialise"]


def names_in(loops: Loops) -> set[str]:
    """Every name that a function declares: dims, parameters, temporaries, scalars, loop and row variables."""
    out = {v.name for v in loops.dims} | {p.buffer.name for p in loops.params}
    if loops.rows is not None:
        out |= {loops.rows.lo.name, loops.rows.hi.name}
    for node in statements(loops.body):
        match node:
            case For():
                out.add(node.var.name)
            case Alloc():
                out.add(node.buffer.name)
            case Let():
                out.add(node.name)
            case _:
                pass
    return out


def specialise(loops: Loops, call: Call, scope: Mapping[str, Var]) -> Loops | None:
    """``loops`` in the dims of the call; None where the call does not fit it, or names would clash."""
    values = (*call.args, *call.outs)
    wrong: list[str] = []
    pairs = [(p.buffer.name, p.buffer.type, v.type) for p, v in zip(loops.params, values, strict=True)]
    env = unify(loops.dims, pairs, scope, wrong.append)
    if wrong:
        return None
    if all(value is var.expr for var, value in env.items()):
        return loops
    dims = {v for d in env.values() for v in free_vars(d)}
    mine = names_in(loops) - {v.name for v in loops.dims}
    if mine & {v.name for v in dims}:
        return None
    params = substitute_dims(loops.params, env)
    rows = None if loops.rows is None else replace(loops.rows, extent=substitute_dims((loops.rows,), env)[0].extent)
    return assemble(loops.name, params, substitute_dims(loops.body, env), rows)


def assemble(name: str, params: Sequence[Param], body: Block, rows: Rows | None) -> Loops:
    """A function whose dims are the symbols of its parameters, and those that its body uses and does not bind."""
    given = {v for p in params for d in p.buffer.shape for v in free_vars(d)}
    used = {v for d in dims_used(body) for v in free_vars(d)}
    used |= {v for n in statements(body) if isinstance(n, Alloc) for d in n.buffer.shape for v in free_vars(d)}
    bound = {n.var for n in statements(body) if isinstance(n, For)}
    if rows is not None:
        used |= free_vars(rows.extent)
        bound |= {rows.lo, rows.hi}
    lets = {n.name for n in statements(body) if isinstance(n, Let)}
    dims = given | {v for v in used - bound if v.name not in lets}
    return Loops(name, tuple(sorted(dims, key=lambda v: v.name)), tuple(params), body, rows)


def share_arguments(loops: Loops, args: Sequence[object]) -> tuple[Loops, tuple[int, ...]]:
    """One parameter for parameters that are given the same argument; which arguments are left, by position."""
    reads = [p for p in loops.params if p.mode == "read"]
    first: dict[object, int] = {}
    names: dict[str, str] = {}
    for k, (p, arg) in enumerate(zip(reads, args, strict=True)):
        at = first.setdefault((arg, p.buffer.dtype, p.buffer.shape), k)
        if at != k:
            names[p.buffer.name] = reads[at].buffer.name
    if not names:
        return loops, tuple(range(len(reads)))
    kept = tuple(p for p in loops.params if p.buffer.name not in names)
    body = rename_buffers(loops.body, names)
    left = tuple(k for k, p in enumerate(reads) if p.buffer.name not in names)
    return assemble(loops.name, kept, body, loops.rows), left


def trips(around: Sequence[For]) -> int:
    """Iterations of a nest at the largest dims, by the ranges of its variables."""
    out = 1
    for loop in around:
        out *= loop.var.hi - loop.var.lo + 1
    return out
