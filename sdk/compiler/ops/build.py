"""Helpers that write naive loop nests: loop variables, in-bounds reads, element maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdk.compiler.ir.intrinsics import idx, imm, op
from sdk.compiler.ir.loops import (
    Block,
    Buffer,
    For,
    Load,
    Loops,
    Mode,
    Param,
    Rows,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Expr, Var, free_vars, max_value, prove_ge, prove_lt
from sdk.errors import BuildError

__all__ = ["function", "loop", "map_elements", "param", "read", "row_vars", "variable", "within"]


def variable(name: str, extent: Dim) -> Var:
    """A loop variable for ``0..extent`` (exclusive).

    Raises:
        BuildError: the extent has no upper bound.
    """
    most = max_value(extent)
    if most is None:
        raise BuildError(f"the extent {extent} of loop {name} has no upper bound")
    return Var(name, 0, max(most - 1, 0))


def loop(var: Var, extent: Dim, *body: Stmt, lo: Dim = 0) -> For:
    """``for var in lo..extent``."""
    return For(var, lo, extent, Block(body))


def row_vars(extent: Dim) -> Rows:
    """The row range of a function that computes ``extent`` rows of its output."""
    most = max_value(extent)
    if most is None:
        raise BuildError(f"the extent {extent} of the rows has no upper bound")
    return Rows(Var("row_lo", 0, most), Var("row_hi", 0, most), extent)


def param(name: str, type: TensorType, mode: Mode = "read") -> Param:
    """A buffer parameter of a tensor type."""
    return Param(Buffer(name, type.dtype, type.shape), mode)


def function(name: str, params: Sequence[Param], body: Sequence[Stmt], rows: Rows | None = None) -> Loops:
    """A loops function whose dims are the symbols of its parameters' shapes."""
    dims: set[Var] = set()
    for p in params:
        for d in p.buffer.shape:
            dims |= free_vars(d)
    return Loops(name, tuple(sorted(dims, key=lambda v: v.name)), tuple(params), Block(tuple(body)), rows)


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
    cond = None if outside is None else within(list(zip(index, p.buffer.shape, strict=True)))
    if cond is None:
        return load
    return op("select", cond, load, imm(outside if outside is not None else 0, p.buffer.dtype), dtype=load.dtype)


def broadcast_index(shape: Sequence[Dim], index: Sequence[Expr | int]) -> tuple[Dim, ...]:
    """The index into an operand of ``shape`` that broadcasts (numpy rules) to the rank of ``index``."""
    tail = index[len(index) - len(shape) :]
    return tuple(0 if d == 1 else i for d, i in zip(shape, tail, strict=True))


def map_elements(fn: Callable[..., ValueExpr]) -> Callable[..., Loops]:
    """The loops of an elementwise op: ``fn(*values, **attrs)`` at each element, operands broadcast as in numpy."""

    def build(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: dict[str, object], inputs: Sequence[str]) -> Loops:
        (out,) = outs
        ins = [param(n, t) for n, t in zip(inputs, types, strict=True)]
        o = param("o", out, "write")
        rows = row_vars(out.shape[0]) if out.shape else None
        vars_ = [variable(f"i{k}", d) for k, d in enumerate(out.shape)]
        at = tuple(v.expr for v in vars_)
        value = fn(*(read(p, broadcast_index(p.buffer.shape, at)) for p in ins), **given)
        body: Stmt = Store("o", at, value)
        for k in reversed(range(len(vars_))):
            lo, hi = (rows.lo.expr, rows.hi.expr) if rows and k == 0 else (0, out.shape[k])
            body = loop(vars_[k], hi, body, lo=lo)
        return function(name, [*ins, o], [body], rows)

    return build
