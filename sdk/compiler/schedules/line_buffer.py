"""Line buffers: the box of a buffer that an iteration reads is copied to scratch, what is read around it filled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sdk.compiler.ir.intrinsics import imm
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Idx, If, Imm, Let, Load, Loops, Op, Stmt, Store, ValueExpr
from sdk.compiler.ir.walk import buffers_used, rewrite, statements, walk
from sdk.compiler.schedules.cache_read import cached_expr
from sdk.compiler.schedules.locate import Loop, ScheduleError, fresh, has, replace_loop
from sdk.compiler.sym import Dim, Var, ceildiv, dmax, dmin, free_vars, linear, max_value, prove_ge

__all__ = ["LineBuffer", "line_buffer"]


@dataclass(frozen=True, slots=True)
class LineBuffer:
    """The ``buffer`` as it was made; ``copies`` are the loops that copy along its axes, outer first, ``fill`` those
    that fill all of it before, outer first, and ``fills`` those of each fill of a part of an axis, over that axis and
    all inside it."""

    buffer: Buffer
    copies: tuple[Loop, ...]
    fill: tuple[Loop, ...]
    fills: tuple[tuple[Loop, ...], ...]

    @property
    def copy(self) -> Loop:
        """What copies along the last axis."""
        return self.copies[-1]

    @property
    def borders(self) -> tuple[Loop, ...]:
        """What fills along the last axis."""
        return tuple(chain[-1] for chain in self.fills)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the box: it begins at ``base`` in the buffer, has ``count`` elements, ``by`` places from each other,
    and room for ``extent``; an access is to its element ``index``. Where ``low`` or ``end`` are not None, only places
    from 0 or below ``end`` are read. ``ragged``: a loop ends where another one inside says, so that not every element
    of the box need be read."""

    at: Dim
    base: Dim
    by: int
    index: Dim
    extent: Dim
    count: Dim
    ragged: bool = False
    low: bool = False
    end: Dim | None = None


def line_buffer(loops: Loops, at: Loop, buffer: str, once: int = 0, pitch: int = 0) -> tuple[Loops, LineBuffer]:
    """Copies the box of ``buffer`` that one iteration of ``at`` reads, each element once, with what is read outside.

    rewrite: ``for p { for q, i { … select(0 <= p + s*q + i - c < n, x[p + s*q + i - c], v) … } }`` -->
    ``for p { alloc t[s*(nq-1) + ni]; for j in 0..c-p { t[j] = v } for j in c-p..n+c-p { t[j] = x[p + j - c] } … v …
    for q, i { … t[s*q + i] … } }``
    obligation: one expression reads the buffer below ``at``, with indices linear in the loops inside, which begin at
    0 (elements that the loops step over are left out); a condition around it compares its own indices with 0 and with
    ends that do not vary inside, and stands where the ends of loops vary inside, unless the box is proved to lie in the
    buffer; nothing there writes the buffer.
    With ``once`` all iterations of ``at`` share a region that is filled before the first, all of it where some of it is
    read outside: which elements those are must not vary with ``at``. The last axis of the region has room for ``pitch``
    elements at least.
    """
    name = fresh(loops, f"{buffer}_region")
    made: list[Buffer] = []
    allocs = [n.buffer for n in statements(loops.body) if isinstance(n, Alloc)]
    shape = next((b.shape for b in (*(p.buffer for p in loops.params), *allocs) if b.name == buffer), ())

    def one(loop: For) -> tuple[Stmt, ...]:
        if buffer in buffers_used(loop.body)[1]:
            raise ScheduleError(f"line_buffer({at}, {buffer}): the buffer is written below {at}")
        if any(isinstance(n, Let) or (isinstance(n, If) and buffer in buffers_used(n)[0]) for n in walk(loop.body)):
            raise ScheduleError(f"line_buffer({at}, {buffer}): a condition or a scalar stands before the element read")
        expr = cached_expr(loop, buffer)
        loads = [n for n in walk(expr) if isinstance(n, Load)]
        inner = {n.var: n for n in statements(loop.body) if isinstance(n, For)}
        axes = [_axis(d, inner, frozenset(loops.dims)) for d in loads[0].index]
        choice = expr if isinstance(expr, Op) and expr.name == "select" else None
        inside, outside = (choice.args[1], choice.args[2]) if choice else (expr, None)
        if choice is not None:
            axes = _limits(axes, choice.args[0], set(inner))
        if not isinstance(inside, Load) or (outside is not None and not isinstance(outside, Imm)):
            raise ScheduleError(f"line_buffer({at}, {buffer}): more is done to the element than a check of its range")
        if any(a.ragged and a.end is None and not _ends_inside(a, size) for a, size in zip(axes, shape, strict=True)):
            raise ScheduleError(f"line_buffer({at}, {buffer}): the box may reach past the end of the buffer")
        kept = [k for k, a in enumerate(axes) if a.extent != 1 or a.low or a.end is not None]
        if not kept:
            raise ScheduleError(f"line_buffer({at}, {buffer}): one element is read")
        if pitch:
            last = axes[kept[-1]]
            axes[kept[-1]] = replace(last, extent=dmax(last.extent, pitch))
        region = Buffer(name, expr.dtype, tuple(axes[k].extent for k in kept), "scratch")
        made.append(region)
        if any(max_value(d) is None for d in region.shape):
            raise ScheduleError(f"line_buffer({at}, {buffer}): the region {region.shape} has no largest size")
        copy = _Copy(region, axes, kept, inside, outside, name, fills=not once)
        read = Load(name, tuple(axes[k].index for k in kept), expr.dtype)
        body = rewrite(loop.body, lambda n: read if n == expr else n)
        copies = copy.axis(0, ())
        if not once:
            return (replace(loop, body=Block((Alloc(region), *copies, *body.body))),)
        ends = (d for n in walk(copies) if isinstance(n, For) for d in (n.lo, n.hi))
        if any(loop.var in free_vars(d) for d in ends):
            raise ScheduleError(f"line_buffer({at}, {buffer}): what is read outside of it varies with {at}")
        filled = any(a.low or a.end is not None for a in axes)
        fills = replace(copy, name=f"{name}_f").whole() if filled else ()
        return Alloc(region), *fills, replace(loop, body=Block((*copies, *body.body)))

    done = replace_loop(loops, at, one)
    last = len(made[0].shape) - 1
    chains = [[_filling(name, at, k, part) for k in range(at, last + 1)] for at in range(last + 1) for part in "lr"]
    fills = tuple(tuple(chain) for chain in chains if all(has(done, loop) for loop in chain))
    fill = tuple(n for n in (_along(f"{name}_f", k) for k in range(last + 1)) if has(done, n))
    copies = tuple(_along(name, k) for k in range(last + 1))
    return done, LineBuffer(made[0], copies, fill, fills)


def _along(name: str, axis: int, part: str = "") -> Loop:
    """The loop along an axis of a region, or over a part of it."""
    return Loop(f"{name}_{axis}{part}")


def _filling(name: str, start: int, axis: int, part: str) -> Loop:
    """The loop along an axis of what fills a part of the axis ``start``."""
    return _along(name, axis, part if start == axis else f"{part}{start}")


def _axis(at: Dim, inner: dict[Var, For], dims: frozenset[Var]) -> _Axis:
    """The range of an index over the loops inside."""
    base: Dim = at
    steps: list[tuple[For, int]] = []
    for var in free_vars(at):
        if var not in inner:
            continue
        found = linear(base, var)
        if found is None or found[0] < 0 or inner[var].lo != 0:
            raise ScheduleError(f"an index {at} is not linear in the loop {var.name} from 0")
        base = found[1]
        steps.append((inner[var], found[0]))
    by = math.gcd(*(step for loop, step in steps if loop.var.hi)) or 1
    index: Dim = 0
    extent: Dim = 1
    count: Dim = 1
    ragged = False
    for loop, step in steps:
        apart = step // by
        trip = loop.hi if _sized(loop.hi, dims) else loop.var.hi + 1
        index = index + apart * loop.var.expr
        extent = extent + apart * (trip - 1)
        varies = bool(free_vars(loop.hi) & set(inner))
        count = count + apart * ((trip if varies else loop.hi) - 1)
        ragged |= varies
    return _Axis(at, base, by, index, extent, count, ragged)


def _ends_inside(axis: _Axis, size: Dim) -> bool:
    return prove_ge(size, axis.base + (axis.count - 1) * axis.by + 1) is True


def _sized(hi: Dim, dims: frozenset[Var]) -> bool:
    """Whether an end follows from the dims of the function alone; else its largest value serves for the size."""
    return isinstance(hi, int) or free_vars(hi) <= dims


def _limits(axes: list[_Axis], cond: ValueExpr, inner: set[Var]) -> list[_Axis]:
    """The axes with what a condition made of ``and``, ``index >= 0`` and ``index < end`` asks of them."""
    match cond:
        case Op("and", (first, second)):
            return _limits(_limits(axes, first, inner), second, inner)
        case Op("ge", (Idx(at), Imm(0))):
            found = [replace(a, low=True) if a.at == at else a for a in axes]
        case Op("lt", (Idx(at), Idx(end) | Imm(int(end)))) if isinstance(end, int) or not free_vars(end) & inner:
            found = [replace(a, end=end) if a.at == at else a for a in axes]
        case _:
            raise ScheduleError("a condition around an element is not a range of its indices")
    if found == axes:
        raise ScheduleError("a condition around an element is not about its indices")
    return found


@dataclass(frozen=True, slots=True)
class _Copy:
    """Writes the nest that fills a region: the elements of the buffer, and with ``fills`` those around it."""

    region: Buffer
    axes: list[_Axis]
    kept: list[int]
    inside: Load
    outside: ValueExpr | None
    name: str
    fills: bool = True

    def axis(self, depth: int, at: tuple[Dim, ...]) -> tuple[Stmt, ...]:
        """Loops over the axes kept from ``depth`` on, copying; parts outside of the buffer are filled."""
        if depth == len(self.kept):
            where = dict(zip(self.kept, at, strict=True))
            index = tuple(a.base + where.get(k, 0) * a.by for k, a in enumerate(self.axes))
            return (Store(self.region.name, at, replace(self.inside, index=index)),)
        axis = self.axes[self.kept[depth]]
        lo: Dim = dmax(0, ceildiv(0 - axis.base, axis.by)) if axis.low else 0
        hi: Dim = axis.count if axis.end is None else dmin(axis.count, ceildiv(axis.end - axis.base, axis.by))
        out: list[Stmt] = []
        if axis.low:
            out += self.fill(depth, at, 0, dmin(axis.count, lo), "l")
        var = self.variable(depth, "")
        out.append(For(var, lo, hi, Block(self.axis(depth + 1, (*at, var.expr)))))
        if axis.end is not None:
            out += self.fill(depth, at, dmax(0, hi), axis.count, "r")
        return tuple(out)

    def fill(self, depth: int, at: tuple[Dim, ...], lo: Dim, hi: Dim, part: str) -> tuple[Stmt, ...]:
        """Loops that fill a part of one axis, and all of the axes inside."""
        if not self.fills:
            return ()
        var = self.variable(depth, part)
        return (For(var, lo, hi, Block(self.whole(depth + 1, (*at, var.expr), f"{part}{depth}"))),)

    def whole(self, depth: int = 0, at: tuple[Dim, ...] = (), part: str = "") -> tuple[Stmt, ...]:
        """Loops that fill all of the axes from ``depth`` on."""
        if depth == len(self.kept):
            value = self.outside or imm(0.0 if self.region.dtype.is_float else 0, self.region.dtype)
            return (Store(self.region.name, at, value),)
        var = self.variable(depth, part)
        inner = self.whole(depth + 1, (*at, var.expr), part)
        return (For(var, 0, self.axes[self.kept[depth]].extent, Block(inner)),)

    def variable(self, depth: int, part: str) -> Var:
        maximum = max_value(self.axes[self.kept[depth]].extent) or 1
        return Var(_along(self.name, depth, part), 0, max(maximum - 1, 0))
