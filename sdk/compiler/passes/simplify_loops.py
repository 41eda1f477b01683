"""Simplification of nests: loops that run once give way to their body."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sdk.compiler.ir.loops import Alloc, Block, For, Let, Loops, Stmt
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.walk import rewrite, substitute_dims

__all__ = ["SimplifyLoops", "drop_single_trips"]


@dataclass(frozen=True)
class SimplifyLoops:
    """Drops every loop whose trip count is proved to be 1."""

    name = "simplify-loops"

    def run(self, module: Module) -> Module:
        """The module with simpler nests; itself when none changes."""
        loops = {name: drop_single_trips(f) for name, f in module.loops.items()}
        if all(loops[name] is f for name, f in module.loops.items()):
            return module
        return replace(module, loops=loops)


def drop_single_trips(loops: Loops) -> Loops:
    """``for i in 3..4 { S(i) }`` --> ``S(3)``; a body with declarations of its own stays a block."""

    def one(node: Any) -> Any:
        if not isinstance(node, Block) or not any(_single(s) for s in node.body):
            return node
        out: list[Stmt] = []
        for stmt in node.body:
            if isinstance(stmt, For) and _single(stmt):
                body = substitute_dims(stmt.body, {stmt.var: stmt.lo})
                scoped = len(node.body) > 1 and any(isinstance(s, Alloc | Let) for s in body.body)
                out.extend((body,) if scoped else body.body)
            else:
                out.append(stmt)
        return Block(tuple(out))

    body = rewrite(loops.body, one)
    return loops if body is loops.body else replace(loops, body=body)


def _single(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind == "serial" and stmt.until is None and stmt.hi - stmt.lo == 1
