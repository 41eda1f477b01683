"""How many products a loops function sums up: its multiply-accumulates, as a function of its dims."""

from __future__ import annotations

from functools import reduce
from operator import add

from sdk.compiler.ir.loops import Block, For, If, Load, Loops, Op, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Var, free_vars, substitute

__all__ = ["macs"]


def macs(loops: Loops) -> Dim:
    """Multiply-accumulates of a call for all rows: every tap of every channel counts, also one that a condition leaves
    out; of loops whose bounds move with others, the most."""
    whole: dict[Var, Dim] = {}
    if loops.rows is not None:
        whole = {loops.rows.lo: 0, loops.rows.hi: loops.rows.extent}
    return _of(loops.body, whole, frozenset(loops.dims))


def _of(stmt: Stmt, env: dict[Var, Dim], dims: frozenset[Var]) -> Dim:
    match stmt:
        case Block():
            return reduce(add, (_of(s, env, dims) for s in stmt.body), 0)
        case For():
            inner = _of(stmt.body, env, dims)
            return 0 if inner == 0 else inner * _trips(stmt, env, dims)
        case If():
            return _of(stmt.then, env, dims) + (0 if stmt.orelse is None else _of(stmt.orelse, env, dims))
        case Store():
            return int(_accumulates(stmt))
        case _:
            return 0


def _trips(loop: For, env: dict[Var, Dim], dims: frozenset[Var]) -> Dim:
    count = substitute(loop.hi - loop.lo, env)
    moving = [v for v in free_vars(count) if v not in dims]
    return loop.var.hi - loop.var.lo + 1 if moving else count


def _accumulates(store: Store) -> bool:
    """Whether it adds a product to what it stores to."""
    if not isinstance(store.value, Op) or store.value.name not in ("add", "fma"):
        return False
    own = any(isinstance(a, Load) and a.buffer == store.buffer for a in store.value.args)
    products = (n for n in walk(store.value) if isinstance(n, Op) and n.name == "mul")
    return own and (store.value.name == "fma" or any(products))
