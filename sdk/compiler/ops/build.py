"""Helpers that write naive loop nests: loops over an output, in-bounds reads, table reads, element maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import (
    Block,
    Buffer,
    For,
    Let,
    Load,
    Loops,
    Mode,
    Param,
    Rows,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import I8, U8, TensorType
from sdk.compiler.ir.walk import dims_used, rewrite, substitute_dims, walk
from sdk.compiler.ops.numerics import stored, widened
from sdk.compiler.sym import Dim, Var, free_vars, max_value, prove_ge, prove_lt
from sdk.errors import BuildError

__all__ = [
    "Nest", "broadcast_index", "function", "loop", "map_elements", "nest", "param", "read", "row_axis_of",
    "row_vars", "table_read", "variable", "within",
]  # fmt: skip


def variable(name: str, extent: Dim) -> Var:
    """A loop variable for ``0..extent`` (exclusive).

    Raises:
        BuildError: the extent has no upper bound.
    """
    maximum = max_value(extent)
    if maximum is None:
        raise BuildError(f"the extent {extent} of loop {name} has no upper bound")
    return Var(name, 0, max(maximum - 1, 0))


def loop(var: Var, extent: Dim, *body: Stmt, lo: Dim = 0) -> For:
    """``for var in lo..extent``."""
    return For(var, lo, extent, Block(body))


def row_vars(extent: Dim) -> Rows:
    """The row range of a function that computes ``extent`` rows of its output."""
    maximum = max_value(extent)
    if maximum is None:
        raise BuildError(f"the extent {extent} of the rows has no upper bound")
    return Rows(Var("row_lo", 0, maximum), Var("row_hi", 0, maximum), extent)


def row_axis_of(rank: int) -> int:
    """The output axis that rows count: 0, or 1 from rank 3 on, where axis 0 is the batch."""
    return 1 if rank >= 3 else 0


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops over the leading axes of an output, outermost first: ``(variable, lo, hi)`` each.

    A batch of one has no loop; its index is 0. ``rows`` is None for a scalar.
    """

    rows: Rows | None
    index: tuple[Dim, ...]
    loops: tuple[tuple[Var, Dim, Dim], ...]

    def around(self, *body: Stmt) -> Stmt:
        """The loops around ``body``."""
        stmts = body
        for var, lo, hi in reversed(self.loops):
            stmts = (loop(var, hi, *stmts, lo=lo),)
        return stmts[0] if len(stmts) == 1 else Block(stmts)


def nest(shape: Sequence[Dim], inner: int = 0, names: Sequence[str] = ()) -> Nest:
    """The loops over all but the last ``inner`` axes of an output, named ``names``, else i0, i1 … by axis."""
    axis = row_axis_of(len(shape))
    rows = row_vars(shape[axis]) if shape else None
    index: list[Dim] = []
    loops: list[tuple[Var, Dim, Dim]] = []
    for k, extent in enumerate(shape[: len(shape) - inner]):
        if k < axis and extent == 1:
            index.append(0)
            continue
        var = variable(names[k] if names else f"i{k}", extent)
        index.append(var.expr)
        bounds = (rows.lo.expr, rows.hi.expr) if rows and k == axis else (0, extent)
        loops.append((var, *bounds))
    return Nest(rows, tuple(index), tuple(loops))


def param(name: str, type: TensorType, mode: Mode = "read") -> Param:
    """A buffer parameter of a tensor type."""
    return Param(Buffer(name, type.dtype, type.shape), mode)


def function(name: str, params: Sequence[Param], body: Sequence[Stmt], rows: Rows | None = None) -> Loops:
    """A loops function; its dims are the symbols of the shapes and those that the body takes from attributes.
    Loop variables avoid their names."""
    dims = {v for p in params for d in p.buffer.shape for v in free_vars(d)} | _given(tuple(body), rows)
    names = {v.name for v in dims}
    inner = {s.var for s in walk(tuple(body)) if isinstance(s, For) and s.var.name in names}
    block = _rename_vars(Block(tuple(body)), inner, names) if inner else Block(tuple(body))
    return Loops(name, tuple(sorted(dims, key=lambda v: v.name)), tuple(params), block, rows)


def _given(body: tuple[Stmt, ...], rows: Rows | None) -> set[Var]:
    """The symbols a body uses that neither a loop, nor a scalar, nor the row range binds."""
    used = {v for d in dims_used(body) for v in free_vars(d)}
    bound = {s.var for s in walk(body) if isinstance(s, For)} | ({rows.lo, rows.hi} if rows else set())
    lets = {s.name for s in walk(body) if isinstance(s, Let)}
    return {v for v in used - bound if v.name not in lets}


def _rename_vars(block: Block, old: set[Var], taken: set[str]) -> Block:
    new = {v: Var(_free(v.name, taken), v.lo, v.hi, v.multiple) for v in old}

    def one(node: Any) -> Any:
        return replace(node, var=new[node.var]) if isinstance(node, For) and node.var in new else node

    return rewrite(substitute_dims(block, {v: n.expr for v, n in new.items()}), one)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def within(checks: Sequence[tuple[Dim, Dim]]) -> ValueExpr | None:
    """The condition that every ``0 <= index < extent``; None when it is proved."""
    cond: ValueExpr | None = None
    for index, extent in checks:
        terms = []
        if prove_ge(index, 0) is not True:
            terms.append(op("ge", idx(index), imm(0)))
        if prove_lt(index, extent) is not True:
            terms.append(op("lt", idx(index), idx(extent)))
        for term in terms:
            cond = term if cond is None else op("and", cond, term)
    return cond


def read(p: Param, index: Sequence[Dim], outside: int | float | None = None) -> ValueExpr:
    """``p[index]``; with ``outside``, that value where the index is not proved and not inside at run time."""
    load = Load(p.buffer.name, tuple(index), p.buffer.dtype)
    if outside is None:
        return load
    cond = within(list(zip(index, p.buffer.shape, strict=True)))
    return load if cond is None else op("select", cond, load, imm(outside, p.buffer.dtype), dtype=load.dtype)


def table_read(name: str, table: Param, position: ValueExpr) -> tuple[Let, Load]:
    """``table[position]`` for a position of type u8, as the ``Let`` that names it and the load that uses it.

    A ``Let`` of an integer may stand in an index as the variable of its name over the range of its type.
    """
    if position.dtype != U8:
        raise BuildError(f"a table position is u8, not {position.dtype}")
    return Let(name, position), Load(table.buffer.name, (Var(name, *U8.limits).expr,), table.buffer.dtype)


def byte_position(value: ValueExpr) -> ValueExpr:
    """Where an i8 or u8 value stands in a table of 256 entries ordered by value."""
    return op("add", cast(value, U8), imm(128, U8)) if value.dtype == I8 else value


def broadcast_index(shape: Sequence[Dim], index: Sequence[Dim]) -> tuple[Dim, ...]:
    """The index into an operand of ``shape`` that broadcasts (numpy rules) to the rank of ``index``."""
    tail = index[len(index) - len(shape) :]
    return tuple(0 if d == 1 else i for d, i in zip(shape, tail, strict=True))


LoopsOf = Callable[[str, Sequence[TensorType], Sequence[TensorType], Mapping[str, Attr]], Loops]


def map_elements(inputs: Sequence[str], fn: Callable[..., ValueExpr]) -> LoopsOf:
    """The loops of an elementwise op: ``fn(*values, **attrs)`` at each element, operands broadcast, half floats
    computed as single ones."""

    def build(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Attr]) -> Loops:
        (out,) = outs
        ins = [param(n, t) for n, t in zip(inputs, types, strict=True)]
        over = nest(out.shape)
        value = fn(*(widened(read(p, broadcast_index(p.buffer.shape, over.index))) for p in ins), **given)
        body = over.around(Store("o", over.index, stored(value, out.dtype)))
        return function(name, [*ins, param("o", out, "write")], [body], over.rows)

    return build
