"""The numpy interpreter of the loops level: independent loops run as array axes, the others one step at a time.

Every value is an array whose last axis holds lanes (size 1 for scalars) and whose axes before it are the
independent loops around it, the innermost first, so that broadcasting lines outer axes up by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.dependence import conflict, row_axis
from sdk.compiler.interp.addresses import MAX_KEPT, Addresses, Cell, addresses, copies, iterations
from sdk.compiler.ir.intrinsics import apply, has_meaning
from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    Idx,
    If,
    Imm,
    Let,
    Load,
    Loops,
    Op,
    Ref,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.walk import buffers_used, statements
from sdk.compiler.sym import Dim, Var, evaluate_mixed, free_vars
from sdk.errors import BuildError

__all__ = ["Allowance", "DefinedMachine", "Exhausted", "Machine", "NoMeaning", "run_loops"]

Array = NDArray[Any]
MAX_WIDTH: Final = 1 << 21
AT_ONCE: Final = 256  # elements that take about as long as the call of a numpy function


class Exhausted(Exception):
    """A run took more operations than it may."""


@dataclass
class Allowance:
    """How many operations runs may still take, each on up to ``AT_ONCE`` elements."""

    left: float = math.inf

    def take(self, count: int) -> None:
        """Takes some.

        Raises:
            Exhausted: there are fewer.
        """
        if count > self.left:
            raise Exhausted
        self.left -= count


@dataclass
class Machine:
    """Runs statements of ``loops``: ``env`` has the values of variables, ``cells`` the storage of buffers, ``lets`` the
    values of bound scalars, ``widths`` the iterations of the loops around that run as axes. ``allowance`` is
    what it may take, ``known`` are addresses that were found.
    """

    loops: Loops
    env: dict[Var, Array | int]
    cells: dict[str, Cell]
    lets: dict[str, Array] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    mask: Array | None = None
    allowance: Allowance = field(default_factory=lambda: Allowance())
    parallel: dict[int, bool] = field(default_factory=dict)
    items: int = 0  # loops around whose iterations are the items of a group
    overlaps: Sequence[tuple[str, str]] = ()  # parameters written, and read, some of whose bytes are the same
    known: dict[tuple[int, int, int], Addresses] = field(default_factory=dict)
    numbers: dict[int, tuple[Imm, Array]] = field(default_factory=dict)  # literals and what they are, by identity

    # --- values ----------------------------------------------------------------------------------------------

    def dim(self, dim: Dim) -> Array | int:
        """A dim: a number where it is the same in all iterations that run at once, else that of each."""
        return evaluate_mixed(dim, self.env)

    def scalar(self, dim: Dim) -> int:
        """A dim that is one number.

        Raises:
            BuildError: it is another in some iterations.
        """
        value = np.asarray(self.dim(dim))
        if value.size != 1:
            raise BuildError(f"the loop bound {dim} of {self.loops.name} varies over independent iterations")
        return int(value.reshape(-1)[0])

    def value(self, expr: ValueExpr) -> Array:
        """A value, of each iteration."""
        match expr:  # what there is most of comes first
            case Op():
                if expr.name == "select":
                    return self.select(expr)
                return self.operation(expr, [self.value(a) for a in expr.args])
            case Load():
                return self.load(expr)
            case Imm():
                return self.number(expr)
            case Ref():
                return self.lets[expr.name]
            case Idx():
                return np.atleast_1d(np.asarray(self.dim(expr.dim)).astype(np.int32))

    def number(self, expr: Imm) -> Array:
        """A literal; not to be changed."""
        known = self.numbers.get(id(expr))
        if known is None:
            known = self.numbers[id(expr)] = expr, np.full((1,), expr.value, dtype=expr.dtype.numpy)
            known[1].setflags(write=False)
        return known[1]

    def operation(self, expr: Op, args: list[Array]) -> Array:
        """What an operation makes of its arguments.

        Raises:
            Exhausted: nothing is left of the allowance.
        """
        self.allowance.take(1 + max(a.size for a in args) // AT_ONCE)
        return apply(expr.name, args, expr.dtype)

    def select(self, expr: Op) -> Array:
        """One of two values; nothing is read for the other."""
        cond = self.value(expr.args[0]).astype(bool)
        outer = self.mask
        self.mask = cond if outer is None else outer & cond
        yes = self.value(expr.args[1])
        self.mask = ~cond if outer is None else outer & ~cond
        no = self.value(expr.args[2])
        self.mask = outer
        return np.where(cond, yes, no).astype(expr.dtype.numpy)

    def lanes_touched(self, count: Dim | None, lanes: int) -> Array | None:
        """Which lanes of an access count; None for all."""
        return None if count is None else np.asarray(np.arange(lanes) < np.atleast_1d(self.dim(count)))

    def place(self, cell: Cell, index: tuple[Dim, ...], lanes: int, touched: Array | None) -> tuple[int, Array]:
        """A place in the storage of a buffer, and the elements from there that an access touches: checked against every
        axis where the mask holds, of the lanes touched."""
        key = (id(index), id(cell.buffer), lanes)  # both are kept by what is kept
        known = self.known.get(key)
        if known is None or not known.holds(cell, self.env):
            known = addresses(cell, index, lanes, self.env)
            if known is not None and known.flat.size <= MAX_KEPT:
                self.known[key] = known
        start = None if known is None else known.start(cell, self.env)
        return (0, self.offset(cell, index, lanes, touched)) if known is None or start is None else (start, known.flat)

    def offset(self, cell: Cell, index: tuple[Dim, ...], lanes: int, touched: Array | None) -> Array:
        """The elements that an access touches.

        Raises:
            BuildError: some are outside the buffer.
        """
        total: Array | int = 0
        outside: Array | bool = False
        axis = None if cell.buffer.ring is None else row_axis(cell.buffer.shape)
        for k, (dim, size) in enumerate(zip(index, cell.shape, strict=True)):
            at = self.dim(dim)
            if k == axis and cell.buffer.ring is not None:
                at = at % cell.buffer.ring
            outside = outside | (at < 0) | (at >= size)
            total = total * size + at
        if lanes > 1:
            total = total * cell.buffer.dtype.lanes + np.arange(lanes)
            outside = outside | (total < 0) | (total >= cell.size)
        if outside is not False and np.any(outside):
            wrong = outside if touched is None else outside & touched
            wrong = wrong if self.mask is None else wrong & self.mask
            if np.any(wrong):
                text = ", ".join(str(d) for d in index)
                raise BuildError(f"{self.loops.name} reads or writes {cell.buffer.name}[{text}] outside {cell.shape}")
            total = np.where(outside, 0, total)
        flat = np.array([total]) if isinstance(total, int) else np.atleast_1d(total)
        return flat if cell.first is None else flat + cell.first

    def load(self, expr: Load) -> Array:
        """What a buffer holds."""
        cell = self.cells[expr.buffer]
        touched = self.lanes_touched(expr.count, expr.dtype.lanes)
        start, at = self.place(cell, expr.index, expr.dtype.lanes, touched)
        found = cell.data[start:].take(at)
        found = found if touched is None else np.where(touched, found, np.zeros_like(found[:1]))
        return np.asarray(found.view(expr.dtype.numpy) if found.dtype != expr.dtype.numpy else found)

    # --- statements ------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Runs statements in order."""
        for stmt in block.body:
            self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        """Runs one statement."""
        match stmt:  # what there is most of comes first
            case Store():
                self.store(stmt.buffer, stmt.index, self.value(stmt.value), stmt.value.dtype.lanes, stmt.count)
            case For():
                self.run_for(stmt)
            case Alloc():
                self.alloc(stmt.buffer)
            case Let():
                self.let(stmt)
            case Block():
                self.block(stmt)
            case If():
                self.run_if(stmt)
            case Atomic():
                old = self.load(Load(stmt.buffer, stmt.index, stmt.value.dtype))
                self.store(
                    stmt.buffer,
                    stmt.index,
                    apply(stmt.op, [old, self.value(stmt.value)], stmt.value.dtype),
                    1,
                )
            case Barrier():
                pass  # one step at a time, every thread has arrived
            case Eval():
                raise BuildError(f"{self.loops.name} calls the library symbol {stmt.symbol}, which numpy cannot run")

    def let(self, stmt: Let) -> None:
        """Binds a scalar."""
        value = self.lets[stmt.name] = self.value(stmt.value)
        kind = stmt.value.dtype
        if kind.kind in "iu" and kind.lanes == 1:  # an integer may stand in an index, as a variable of its range
            self.env[Var(stmt.name, *kind.limits)] = value.astype(np.int64)

    def alloc(self, buffer: Buffer) -> None:
        """Declares a temporary, full of what nobody expects."""
        shape = tuple(self.scalar(d) for d in buffer.shape)
        size = max(int(np.prod(shape, dtype=np.int64)), 1) * buffer.dtype.lanes
        poison = np.nan if buffer.dtype.is_float else buffer.dtype.scalar.limits[1]
        widths = tuple(reversed(self.widths))
        data = np.full(math.prod(widths) * size, poison, dtype=buffer.dtype.numpy)
        self.cells[buffer.name] = Cell(buffer, shape, data, copies(widths, size) if widths else None)

    def store(
        self, name: str, index: tuple[Dim, ...], value: Array, lanes: int, count: Dim | None = None
    ) -> None:
        """Writes a value, of each iteration that the mask leaves."""
        cell = self.cells[name]
        touched = self.lanes_touched(count, lanes)
        start, at = self.place(cell, index, lanes, touched)
        mask = touched if self.mask is None else self.mask if touched is None else self.mask & touched
        if mask is not None:
            mask, at, value = np.broadcast_arrays(mask, at, value)
            at, value = at[mask], value[mask]
        same_size = value.dtype.itemsize == cell.data.dtype.itemsize
        cell.data[start:][at] = value.view(cell.data.dtype) if same_size else value

    def run_if(self, stmt: If) -> None:
        """Runs the arm of a condition, in some iterations the other."""
        cond = self.value(stmt.cond).astype(bool)
        outer = self.mask
        for part, holds in ((stmt.then, cond), (stmt.orelse, ~cond)):
            if part is not None and holds.any():
                if not holds.all():
                    self.mask = holds if outer is None else outer & holds
                self.block(part)
                self.mask = outer

    def run_for(self, loop: For) -> None:
        """Runs a loop, as an axis where its iterations are independent, or are the items of a group: step by step, as
        barriers want it."""
        if loop.kind == "bind" and loop.axis.startswith("local"):
            self.run_items(loop)
            return
        if self.items and (np.size(self.dim(loop.lo)) > 1 or np.size(self.dim(loop.hi)) > 1):
            self.run_uneven(loop)
            return
        lo, hi = self.scalar(loop.lo), self.scalar(loop.hi)
        width = int(np.prod(self.widths, dtype=np.int64)) * max(hi - lo, 1)
        if hi - lo > 1 and width <= MAX_WIDTH and self.is_parallel(loop):
            self.run_axis(loop, lo, hi)
            return
        for k in range(lo, hi):
            self.env[loop.var] = k
            self.block(loop.body)
            if loop.until is not None and bool(self.value(loop.until).all()):
                break

    def run_axis(self, loop: For, lo: int, hi: int) -> None:
        """Runs the iterations of a loop at once."""
        self.widths.append(hi - lo)
        self.env[loop.var] = iterations(lo, hi, len(self.widths))
        self.block(loop.body)
        self.widths.pop()

    def run_items(self, loop: For) -> None:
        """Runs the items of a group."""
        lo, hi = self.scalar(loop.lo), self.scalar(loop.hi)
        if lo < hi:
            self.items += 1
            self.run_axis(loop, lo, hi)
            self.items -= 1

    def run_uneven(self, loop: For) -> None:
        """Runs a loop that has more iterations for some items than for others.

        Raises:
            BuildError: it holds a barrier, or may end early.
        """
        if loop.until is not None or any(isinstance(n, Barrier) for n in statements(loop.body)):
            raise BuildError(f"{self.loops.name}: not all items of a group go through {loop.var.name} alike")
        lo, hi = np.asarray(self.dim(loop.lo)), np.asarray(self.dim(loop.hi))
        outer = self.mask
        for k in range(int(lo.min()), int(hi.max())):
            goes_on = np.atleast_1d((lo <= k) & (k < hi))
            self.mask = goes_on if outer is None else outer & goes_on
            self.env[loop.var] = k
            self.block(loop.body)
        self.mask = outer

    def in_order(self, loop: For) -> bool:
        """Whether iterations write to bytes that others read by another name."""
        loads, stores = buffers_used(loop) if self.overlaps else (set(), set())
        return any(out in stores and source in loads for out, source in self.overlaps)

    def is_parallel(self, loop: For) -> bool:
        """Whether the iterations are proved independent."""
        key = id(loop)
        if key not in self.parallel:
            bounds = _loop_bounds(loop.body)
            self.parallel[key] = (
                loop.until is None
                and not any(loop.var in free_vars(d) for d in bounds)
                and conflict(loop, self.loops) is None
                and not self.in_order(loop)
            )
        return self.parallel[key]


def _loop_bounds(block: Block) -> list[Dim]:
    out: list[Dim] = []
    for stmt in block.body:
        match stmt:
            case For():
                out += [stmt.lo, stmt.hi, *_loop_bounds(stmt.body)]
            case If():
                out += _loop_bounds(stmt.then) + (_loop_bounds(stmt.orelse) if stmt.orelse else [])
            case Block():
                out += _loop_bounds(stmt)
            case Alloc():
                out += stmt.buffer.shape
            case _:
                pass
    return out


class NoMeaning(Exception):
    """An operation met arguments that it is not defined for."""


class DefinedMachine(Machine):
    """Runs what is made up, and may be what no model does: every operation must be defined for its arguments."""

    def operation(self, expr: Op, args: list[Array]) -> Array:
        """What an operation makes of its arguments.

        Raises:
            NoMeaning: it is not defined for them.
            Exhausted: nothing is left of the allowance.
        """
        if not has_meaning(expr.name, args, expr.dtype):
            raise NoMeaning(expr.name)
        return super().operation(expr, args)


def run_loops(
    loops: Loops,
    arrays: Mapping[str, Array],
    dims: Mapping[str, int] | None = None,
    rows: tuple[int, int] | None = None,
    machine: type[Machine] = Machine,
    allowance: Allowance | None = None,
    overlaps: Sequence[tuple[str, str]] = (),
) -> None:
    """Runs a loops function in place on ``arrays`` (one per parameter, C-contiguous, dense or ring-shaped).

    Args:
        loops: the function.
        arrays: every parameter by name; those written are changed.
        dims: values of its dims; those missing are bound by the arrays' shapes.
        rows: the range of rows to compute; all by default.
        machine: what runs the statements.
        allowance: what it may take; without one there is no end.
        overlaps: parameters written, each with one that is read, whose arrays share bytes: loops around both then run
            one step at a time.

    Raises:
        Exhausted: it took more than it may.
        BuildError: an access outside a buffer, a missing parameter, or a construct numpy cannot run.
    """
    env: dict[Var, Array | int] = {v: dims[v.name] for v in loops.dims if dims and v.name in dims}
    for p in loops.params:
        _bind(p.buffer, arrays[p.buffer.name], env)
    cells = {}
    for p in loops.params:
        array = arrays[p.buffer.name]
        if not array.flags.c_contiguous:
            raise BuildError(f"the array of {p.buffer.name} of {loops.name} is not contiguous")
        # reads that do not count take some element, so there is always one
        data = array.reshape(-1) if array.size else np.zeros(1, array.dtype)
        cells[p.buffer.name] = Cell(p.buffer, array.shape, data)
    run = machine(loops, env, cells, allowance=allowance or Allowance(), overlaps=overlaps)
    if loops.rows is not None:
        lo, hi = rows if rows is not None else (0, run.scalar(loops.rows.extent))
        env[loops.rows.lo], env[loops.rows.hi] = lo, hi
    run.block(loops.body)

def _bind(buffer: Buffer, array: Array, env: dict[Var, Array | int]) -> None:
    """Takes dims that stand alone in a shape from the array."""
    for k, (dim, size) in enumerate(zip(buffer.shape, array.shape, strict=True)):
        if isinstance(dim, int) or (buffer.ring is not None and k == row_axis(buffer.shape)):
            continue
        for var in free_vars(dim):
            if dim is var.expr:
                env.setdefault(var, size)
