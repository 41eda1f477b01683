"""Several iterations of independent loops as the work of one item, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.ir.intrinsics import idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Let, Load, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I32
from sdk.compiler.ir.walk import instantiated, statements, substitute_dims, walk
from sdk.compiler.sym import Dim, Var, floordiv, free_vars, prove_eq

__all__ = ["Instance", "unroll_and_jam", "unrolled"]

MAX_UNROLLED: Final = 9  # iterations of a loop that are written one after another


@dataclass(frozen=True)
class Instance:
    """One of the iterations: what the variables of the loops are in it, a mark for the names of what it declares, and
    the conditions under which it is one at all: it is computed anyway, and then not stored. Of what it stores in lanes
    the first ``skipped`` are another's."""

    env: Mapping[Var, Dim]
    mark: str
    inside: tuple[ValueExpr, ...] = ()
    skipped: Dim = 0

    def put(self, store: Store) -> Stmt:
        """A write to what is not its own."""
        done: Stmt = store
        if self.skipped != 0 and store.value.dtype.lanes > 1:
            done = If(op("le", idx(self.skipped), imm(0)), Block((store,)), Block(self._lanes(store)))
        for cond in reversed(self.inside):
            done = If(cond, Block((done,)))
        return done

    def _lanes(self, store: Store) -> tuple[Stmt, ...]:
        kind = store.value.dtype
        held = Buffer(f"lanes{self.mark}", kind.scalar, (kind.lanes,), "register")
        out: list[Stmt] = [Alloc(held), Store(held.name, (0,), store.value)]
        for k in range(kind.lanes):
            place = (*store.index[:-1], store.index[-1] + k)
            one = Store(store.buffer, place, Load(held.name, (k,), kind.scalar))
            out.append(If(op("ge", imm(k), idx(self.skipped)), Block((one,))))
        return tuple(out)


def unroll_and_jam(block: Block, instances: Sequence[Instance], outs: frozenset[str]) -> Block:
    """The statements of a block for all instances, in which loops are gone through once for all of them.

    before: ``alloc t; t = 0; for k { t = t + a[i, k] }; o[i] = t`` for i and i + 1
    after:  ``alloc t; t = 0; alloc t_1; t_1 = 0; for k { t = t + a[i, k]; t_1 = t_1 + a[i + 1, k] }; o[i] = t; ...``
    obligation: iterations are independent; ``outs`` are the buffers that are not the iteration's own.
    """
    names = _declared(block)
    return _jammed(block, [_own(block, one, names) for one in instances], outs)


@dataclass(frozen=True)
class _Own:
    """An instance with the new names of what it declares."""

    instance: Instance
    buffers: Mapping[str, str]
    scalars: Mapping[str, str]
    env: Mapping[Var, Dim]

    def of(self, stmt: Stmt, outs: frozenset[str]) -> Stmt:
        """A statement of the instance."""
        return _put(instantiated(stmt, self.env, self.buffers, self.scalars), self.instance, outs)


def _declared(block: Block) -> tuple[list[str], list[str]]:
    found = list(statements(block))
    return [s.buffer.name for s in found if isinstance(s, Alloc)], [s.name for s in found if isinstance(s, Let)]


def _own(block: Block, instance: Instance, names: tuple[list[str], list[str]]) -> _Own:
    buffers, scalars = ({name: f"{name}{instance.mark}" for name in some} for some in names)
    env = {Var(a, *I32.limits): Var(b, *I32.limits).expr for a, b in scalars.items() if a != b}
    return _Own(instance, buffers, scalars, {**instance.env, **env})


def _jammed(block: Block, own: Sequence[_Own], outs: frozenset[str]) -> Block:
    tiled = {var for one in own for var in one.instance.env}
    scalars = {Var(name, *I32.limits) for one in own for name in one.scalars}
    out: list[Stmt] = []
    for stmt in block.body:
        if isinstance(stmt, For) and stmt.until is None and not free_vars_of(stmt) & (tiled | scalars):
            out.append(replace(stmt, body=_jammed(stmt.body, own, outs)))
        elif isinstance(stmt, Block):
            out.append(_jammed(stmt, own, outs))
        else:
            out += [one.of(stmt, outs) for one in own]
    return Block(tuple(out))


def free_vars_of(loop: For) -> frozenset[Var]:
    """The variables in the bounds of a loop."""
    return free_vars(loop.lo) | free_vars(loop.hi)


def _put(stmt: Stmt, instance: Instance, outs: frozenset[str]) -> Stmt:
    """A statement with its writes to ``outs`` as the instance does them."""
    if not instance.inside and instance.skipped == 0:
        return stmt
    match stmt:
        case Store() if stmt.buffer in outs:
            return instance.put(stmt)
        case For():
            return replace(stmt, body=_put_all(stmt.body, instance, outs))
        case Block():
            return _put_all(stmt, instance, outs)
        case If():
            orelse = None if stmt.orelse is None else _put_all(stmt.orelse, instance, outs)
            return replace(stmt, then=_put_all(stmt.then, instance, outs), orelse=orelse)
        case _:
            return stmt


def _put_all(block: Block, instance: Instance, outs: frozenset[str]) -> Block:
    return Block(tuple(_put(s, instance, outs) for s in block.body))


def unrolled(block: Block, times: int, whole: int = MAX_UNROLLED) -> Block:
    """The innermost loops of a block with several iterations to a step.

    Those of at most ``whole`` iterations become statements in a row, of others ``times`` iterations become one.
    """
    out: list[Stmt] = []
    for stmt in block.body:
        match stmt:
            case For() if any(isinstance(n, For) for n in walk(stmt.body)) and stmt.until is None:
                inner = replace(stmt, body=unrolled(stmt.body, times, whole))
                flat = not any(isinstance(n, For) for n in walk(inner.body))
                out += _in_row(inner, whole) if flat and _simple(inner) and _few(inner, whole) else (inner,)
            case For() if _simple(stmt):
                out += _in_row(stmt, whole) if _few(stmt, whole) else _by(stmt, times)
            case If():
                orelse = None if stmt.orelse is None else unrolled(stmt.orelse, times, whole)
                out.append(replace(stmt, then=unrolled(stmt.then, times, whole), orelse=orelse))
            case Block():
                out.append(unrolled(stmt, times, whole))
            case _:
                out.append(stmt)
    return Block(tuple(out))


def _simple(loop: For) -> bool:
    """Whether the iterations of a loop may stand in a row: it ends where it says, and declares nothing."""
    declares = any(isinstance(n, Alloc | Let) for n in walk(loop.body))
    return loop.until is None and loop.kind in ("serial", "parallel", "unroll") and not declares


def _few(loop: For, maximum: int) -> bool:
    extent = loop.hi - loop.lo
    size = len(loop.body.body)
    return isinstance(extent, int) and extent > 0 and extent * size <= maximum


def _at(loop: For, place: Dim) -> tuple[Stmt, ...]:
    return substitute_dims(loop.body, {loop.var: place}).body


def _in_row(loop: For, whole: int) -> tuple[Stmt, ...]:
    extent = loop.hi - loop.lo
    assert isinstance(extent, int)
    return tuple(stmt for k in range(extent) for stmt in _at(loop, loop.lo + k))


def _by(loop: For, times: int) -> tuple[Stmt, ...]:
    """``times`` iterations to a step, and what is left after them."""
    if times < 2:
        return (loop,)
    extent = loop.hi - loop.lo
    steps = floordiv(extent, times)
    if isinstance(steps, int) and steps < 1:
        return (loop,)
    maximum = steps if isinstance(steps, int) else (loop.var.hi - loop.var.lo + 1) // times
    var = Var(f"{loop.var.name}_s", 0, max(maximum - 1, 0))
    body = [stmt for k in range(times) for stmt in _at(loop, loop.lo + var.expr * times + k)]
    out: list[Stmt] = [For(var, 0, steps, Block(tuple(body)))]
    if prove_eq(steps * times, extent) is not True:
        rest = Var(f"{loop.var.name}_r", loop.var.lo, loop.var.hi)
        body_r = substitute_dims(loop.body, {loop.var: rest.expr})
        out.append(For(rest, loop.lo + steps * times, loop.hi, body_r))
    return tuple(out)


def loads_of(node: object) -> list[Load]:
    """The loads below a node."""
    return [n for n in walk(node) if isinstance(n, Load)]
