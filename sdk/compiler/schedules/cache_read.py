"""Copies the window of a buffer that an iteration reads into a scratch buffer or registers, gaps filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sdk.compiler.ir.intrinsics import imm
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Let, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.walk import buffers_used, dims_used, rewrite, statements, substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, fresh, replace_loop
from sdk.compiler.sym import Dim, Var, ceildiv, flat_index, free_vars, product, prove_eq, substitute

__all__ = ["CacheRead", "cache_read", "cached_expr"]

CacheSpace = Literal["scratch", "register"]


@dataclass(frozen=True, slots=True)
class CacheRead:
    """The buffer that a window was copied to, and the loops that copy it, outer first."""

    buffer: str
    loops: tuple[Loop, ...]


def cache_read(
    loops: Loops, at: Loop, buffer: str, over: Sequence[Loop], multiple: int = 1, space: CacheSpace = "scratch"
) -> tuple[Loops, CacheRead]:
    """Gathers what one iteration of ``at`` reads from ``buffer``, in the order of the loops ``over``, innermost last.

    rewrite: ``for p { … f(x[e(p, i, j)]) … }`` -->
    ``for p { alloc t[ni*nj]; for i, j { t[i*nj + j] = f(x[e(p, i, j)]) } … t[i*nj + j] … }`` where f is what is
    done to the element before it is used (range check, conversion to another 8-bit, 16-bit or float type). The scratch
    buffer is rounded up to ``multiple`` elements, zeros at its end. It is scratch memory or, of a few elements,
    registers.
    obligation: one expression reads the buffer below ``at``, inside all of the loops ``over``, and uses no others
    there; their extents are numbers (the first may be symbolic where the size needs no rounding), and nothing there
    writes the buffer. Where copies of the loop read it, those that do not stay as they are.
    """
    name = fresh(loops, f"{buffer}_window")
    copies = [n for n in statements(loops.body) if isinstance(n, For) and n.var.name == at]
    reads = any(buffer in buffers_used(n.body)[0] for n in copies)

    def one(loop: For) -> tuple[Stmt, ...]:
        if reads and buffer not in buffers_used(loop.body)[0]:
            return (loop,)
        inner = {n.var.name: n for n in statements(loop.body) if isinstance(n, For)}
        expr = cached_expr(loop, buffer)
        if buffer in buffers_used(loop.body)[1]:
            raise ScheduleError(f"cache_read({at}, {buffer}): the buffer is written below {at}")
        if any(isinstance(n, Let) or (isinstance(n, If) and buffer in buffers_used(n)[0]) for n in walk(loop.body)):
            raise ScheduleError(f"cache_read({at}, {buffer}): a condition or a scalar stands before the element read")
        used = {v for d in dims_used(expr) for v in free_vars(d)}
        missing = [n for n in over if n not in inner]
        if missing or any(v.name in inner and v.name not in over for v in used):
            raise ScheduleError(
                f"cache_read({at}, {buffer}): the element read depends on loops other than {', '.join(over)}"
            )
        if any(_count(inner[n].body, expr) != _count(loop.body, expr) for n in over):
            raise ScheduleError(f"cache_read({at}, {buffer}): the element is read outside of {', '.join(over)}")
        extents = [inner[n].hi for n in over]
        if any(inner[n].lo != 0 for n in over) or any(not isinstance(hi, int) for hi in extents[1:]):
            raise ScheduleError(f"cache_read({at}, {buffer}): the loops {', '.join(over)} do not run from 0 to numbers")
        if any(inner[a].var in free_vars(inner[b].hi) for a in inner for b in over):
            raise ScheduleError(f"cache_read({at}, {buffer}): the extent of {over[0]} depends on a loop inside")
        flat = flat_index([inner[n].var.expr for n in over], extents)
        size = product(tuple(extents))
        total = ceildiv(size, multiple) * multiple
        window = Buffer(name, expr.dtype, (total,), space)
        copy = _copy_nest([inner[n] for n in over], expr, flat, name)
        tail: list[Stmt] = []
        if space not in get_args(CacheSpace) or (space == "register" and not isinstance(total, int)):
            raise ScheduleError(f"cache_read({at}, {buffer}): {total} elements are not kept in {space}")
        if prove_eq(total, size) is not True:
            if not isinstance(total, int):
                raise ScheduleError(f"cache_read({at}, {buffer}): the size {size} is not a number to round up")
            tail_var = Var(f"{name}_pad", 0, total - 1)
            tail = [For(tail_var, size, total, Block((Store(name, (tail_var.expr,), imm(0, expr.dtype)),)))]
        body = rewrite(loop.body, lambda n: Load(name, (flat,), expr.dtype) if n == expr else n)
        return (replace(loop, body=Block((Alloc(window), copy, *tail, *body.body))),)

    return replace_loop(loops, at, one), CacheRead(name, tuple(map(_copying, over)))


def cached_expr(loop: For, buffer: str) -> ValueExpr:
    """The largest 8-bit, 16-bit or float expression made of one element of ``buffer`` and constants."""
    found: list[ValueExpr] = []
    for node in walk(loop.body):
        small = isinstance(node, Load | Op) and (node.dtype.bits in (8, 16) or node.dtype.is_float)
        if small and _only_reads(node, buffer):
            if any(node in list(walk(outer)) for outer in found):
                continue
            found.append(node)
    if len(set(found)) != 1:
        raise ScheduleError(f"{len(set(found))} expressions read {buffer} below {loop.var.name}, where one may")
    return found[0]


def _count(body: Block, expr: ValueExpr) -> int:
    """How often an expression stands in a body."""
    return sum(n == expr for n in walk(body))


def _only_reads(node: object, buffer: str) -> bool:
    loads = [n for n in walk(node) if isinstance(n, Load)]
    return bool(loads) and all(n.buffer == buffer for n in loads)


def _copying(name: str) -> Loop:
    return Loop(f"{name}_s")


def _copy_nest(inner: list[For], expr: ValueExpr, flat: Dim, name: str) -> Stmt:
    """Loops over copies of the variables; a range check that the last one does not change is made once before it."""
    env: dict[Var, Dim] = {}
    fresh_vars: list[Var] = []
    for loop in inner:
        var = Var(_copying(loop.var.name), loop.var.lo, loop.var.hi)
        fresh_vars.append(var)
        env[loop.var] = var.expr
    last, extent = fresh_vars[-1], inner[-1].hi

    def filled(value: ValueExpr) -> Stmt:
        store = Store(name, (substitute(flat, env),), substitute_dims(value, env))
        return For(last, 0, extent, Block((store,)))

    select = next((n for n in walk(expr) if isinstance(n, Op) and n.name == "select"), None)
    stmt: Stmt
    if select is not None and not _uses(select.args[0], inner[-1].var):
        inside = rewrite(expr, lambda n: n.args[1] if n == select else n)
        outside = rewrite(expr, lambda n: n.args[2] if n == select else n)
        stmt = If(substitute_dims(select.args[0], env), Block((filled(inside),)), Block((filled(outside),)))
    else:
        stmt = filled(expr)
    for var, loop in zip(reversed(fresh_vars[:-1]), reversed(inner[:-1]), strict=True):
        stmt = For(var, 0, loop.hi, Block((stmt,)))
    return stmt


def _uses(node: Any, var: Var) -> bool:
    return any(var in free_vars(d) for d in dims_used(node))
