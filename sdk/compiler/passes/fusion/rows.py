"""A reduction and what is computed from it on the same rows, as one kernel: the row is still in the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdk.compiler.analysis.pattern import Point, classify, identity_of, point_of
from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.graph import fresh_name
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Let, Load, Loops, Store
from sdk.compiler.ir.walk import rename_buffers, rewrite, statements, substitute_dims, walk
from sdk.compiler.passes.fusion.merge import Pair
from sdk.compiler.passes.fusion.specialise import assemble, names_in
from sdk.compiler.sym import Dim, Var, free_vars, prove_eq
from sdk.compiler.verify.loops import verify_loops

__all__ = ["compute_on_rows"]


def compute_on_rows(pair: Pair) -> Loops | None:
    """An elementwise consumer whose loops are those of the producer and more inside; None where they are not.

    rewrite: ``for i { …; m[i, 0] = v }`` with ``for i { for j { o[i, j] = f(m[i, 0], q[i, j]) } }`` -->
    ``for i { …; r = v; for j { o[i, j] = f(r, q[i, j]) } }``
    """
    pair = replace(pair, maker=drop_single_trips(pair.maker))  # of the axes that were reduced
    user, outer = point_of(pair.user), _outer(pair)
    if user is None or outer is None or identity_of(pair.user) is None or user.temps:
        return None
    if classify(pair.maker).product is not None:
        return None  # it would lose its schedule
    chain, store = outer
    env = _same_rows(pair, user, chain, store)
    if env is None:
        return None
    taken = names_in(pair.maker) | {v.name for v in pair.user.dims} | {p.buffer.name for p in pair.inner}
    names = {p.buffer.name: fresh_name(p.buffer.name, taken) for p in (*pair.others, pair.result)}
    kept = Buffer(fresh_name("row", taken), pair.out.buffer.dtype, (), "register")
    inner = {p.buffer.name for p in pair.inner}

    def one(node: Any) -> Any:
        return Load(kept.name, (), kept.dtype) if isinstance(node, Load) and node.buffer in inner else node

    body: Block = Block((rewrite(user.store, one),))
    for loop in reversed(user.chain[len(chain) :]):
        var = Var(fresh_name(loop.var.name, taken), loop.var.lo, loop.var.hi, loop.var.multiple)
        env[loop.var] = var.expr
        body = Block((replace(loop, var=var, body=body),))
    rest = substitute_dims(rename_buffers(body, names), env)
    block = Block((*_inside(pair, chain).body[:-1], Alloc(kept), Store(kept.name, (), store.value), *rest.body))
    for loop in reversed(chain):
        block = Block((replace(loop, body=block),))
    mine = tuple(p for p in pair.maker.params if p.mode == "read")
    others = tuple(replace(p, buffer=replace(p.buffer, name=names[p.buffer.name])) for p in (*pair.others, pair.result))
    merged = assemble(pair.name, (*mine, *others), block, pair.maker.rows)
    found: list[str] = []
    verify_loops(merged, lambda _, text: found.append(text))
    return None if found else merged


def _outer(pair: Pair) -> tuple[list[For], Store] | None:
    """The loops around everything of the maker, and its only store of the result, which stands last in them."""
    chain: list[For] = []
    block = pair.maker.body
    while len(block.body) == 1 and isinstance(block.body[0], For):
        chain.append(block.body[0])
        block = block.body[0].body
    store = block.body[-1]
    name = pair.out.buffer.name
    if len(block.body) < 2 or not chain or not isinstance(store, Store) or store.buffer != name:
        return None
    touched = [n for n in walk(block.body[:-1]) if isinstance(n, Store | Load) and n.buffer == name]
    lets = {n.name for n in statements(block) if isinstance(n, Let)}
    named = {v.name for d in store.index for v in free_vars(d)}
    return None if touched or lets & named or any(f.until is not None for f in chain) else (chain, store)


def _inside(pair: Pair, chain: list[For]) -> Block:
    return chain[-1].body if chain else pair.maker.body


def _same_rows(pair: Pair, user: Point, chain: list[For], store: Store) -> dict[Var, Dim] | None:
    """The maker's loop for each of the user's outer loops; None unless they run over the same axes and ranges."""
    if len(user.chain) <= len(chain) or len(store.index) != len(user.order):
        return None
    inner = {p.buffer.name for p in pair.inner}
    reads = [n for n in walk(user.store.value) if isinstance(n, Load) and n.buffer in inner]
    env: dict[Var, Dim] = {}
    for loop, theirs in zip(chain, user.chain, strict=False):
        axis = next((k for k, v in enumerate(user.order) if v is theirs.var), None)
        if axis is None or store.index[axis] is not loop.var.expr:
            return None
        if any(n.index[axis] is not theirs.var.expr for n in reads if len(n.index) == len(store.index)):
            return None
        a, b = pair.out.buffer.shape[axis], pair.result.buffer.shape[axis]
        if prove_eq(a, b) is not True or not _same_range(pair, loop, theirs):
            return None
        env[theirs.var] = loop.var.expr
    bounds = [d for f in user.chain[len(chain) :] for d in (f.lo, f.hi)]
    rows = pair.user.rows
    if rows is not None and any({rows.lo, rows.hi} & free_vars(d) for d in bounds):
        return None
    return env if all(len(n.index) == len(store.index) for n in reads) else None


def _same_range(pair: Pair, a: For, b: For) -> bool:
    """Whether both run over all of their rows, or over the rows asked for."""
    one, two = pair.maker.rows, pair.user.rows
    if one is not None and (a.lo is one.lo.expr or a.hi is one.hi.expr):
        whole = a.lo is one.lo.expr and a.hi is one.hi.expr and two is not None
        return whole and two is not None and b.lo is two.lo.expr and b.hi is two.hi.expr
    asked = two is not None and (b.lo is two.lo.expr or b.hi is two.hi.expr)
    return not asked and a.lo == 0 and b.lo == 0 and prove_eq(a.hi, b.hi) is True
