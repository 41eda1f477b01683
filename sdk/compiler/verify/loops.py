"""What must hold of a loops function: declarations, types, modes, and every access inside its buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from sdk.compiler.analysis.path_conditions import PathConditions, conditions_of, value_range
from sdk.compiler.ir.intrinsics import INTRINSICS
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
from sdk.compiler.ir.types import BOOL, DType
from sdk.compiler.sym import Dim, Var, free_vars, interval, product
from sdk.compiler.sym.text import print_bounds, print_dim
from sdk.compiler.verify.access import access_errors
from sdk.compiler.verify.op_types import op_error

__all__ = ["LOCAL_BYTES", "verify_loops"]

LOCAL_BYTES: Final = 64
Report = Callable[[str, str], None]


@dataclass(slots=True)
class _Env:
    """What is declared at a place in the nest."""

    dims: dict[str, Var] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    lets: dict[str, ValueExpr] = field(default_factory=dict)
    unrolled: frozenset[Var] = frozenset()
    conditions: PathConditions = field(default_factory=PathConditions)

    def child(self) -> _Env:
        return replace(self, dims=dict(self.dims), buffers=dict(self.buffers), lets=dict(self.lets))


def verify_loops(loops: Loops, report: Report, by_parts: bool = False) -> None:
    """Reports every finding as (place, message). ``by_parts`` takes more proofs of what is inside a buffer: those of
    the last check, where passes that try what they made want the same answers as ever."""
    _Checker(loops, report, by_parts).run()


class _Checker:
    def __init__(self, loops: Loops, report: Report, by_parts: bool) -> None:
        self.loops, self.by_parts = loops, by_parts
        self.stored: set[str] = set()
        self.modes = {p.buffer.name: p.mode for p in loops.params}
        self._path: list[str] = []
        self._report = report

    def error(self, message: str) -> None:
        self._report(": ".join([f"loops @{self.loops.name}", *self._path]), message)

    def run(self) -> None:
        env = _Env()
        for var in self.loops.dims:
            self._declare(var, env)
        self._params(env)
        self._rows(env)
        self.block(self.loops.body, env)
        for p in self.loops.params:
            if p.mode == "write" and p.buffer.name not in self.stored and product(p.buffer.shape) != 0:
                self.error(f"parameter %{p.buffer.name} is to be written and never is")

    # --- declarations ---------------------------------------------------------------------------------------

    def _declare(self, var: Var, env: _Env) -> None:
        if var.name in env.dims:
            self.error(f"variable {var.name} is declared twice")
        env.dims[var.name] = var

    def _params(self, env: _Env) -> None:
        order = [p.mode != "read" for p in self.loops.params]
        if order != sorted(order):
            self.error("a parameter that is read comes after one that is written")
        for p in self.loops.params:
            if p.buffer.space != "param":
                self.error(f"parameter %{p.buffer.name} is in space {p.buffer.space}")
            self._buffer(p.buffer, env)
            if p.layout.steps and p.mode != "read":
                self.error(f"parameter %{p.buffer.name} has a layout and is written: only constants are re-laid")

    def _rows(self, env: _Env) -> None:
        rows = self.loops.rows
        if rows is None:
            return
        self.dim(rows.extent, env)
        for var, lo in ((rows.lo, 0), (rows.hi, rows.lo.expr)):
            self._declare(var, env)
            env.conditions = env.conditions.with_range(var, lo, rows.extent + 1)

    def _buffer(self, buffer: Buffer, env: _Env) -> None:
        name = f"buffer %{buffer.name}"
        if buffer.name in env.buffers:
            self.error(f"{name} is declared twice")
        for dim in buffer.shape:
            self.dim(dim, env)
            if env.conditions.nonnegative(dim) is not True:
                self.error(f"{name} has the extent {print_dim(dim)}, which may be negative")
        if buffer.ring is not None and (buffer.ring < 1 or not buffer.shape):
            self.error(f"{name} is a ring of {buffer.ring} rows")
        size = product(buffer.shape) * buffer.dtype.nbytes
        maximum = interval(size)[1]
        if buffer.space == "local" and (maximum is None or maximum > LOCAL_BYTES):
            self.error(f"{name} takes {print_dim(size)} bytes of the stack, more than {LOCAL_BYTES}")
        if buffer.space == "register" and not isinstance(size, int):
            self.error(f"{name} is in registers, its size {print_dim(size)} is not a number")
        if buffer.space == "scratch" and maximum is None:
            self.error(f"{name} has no largest size")
        env.buffers[buffer.name] = buffer

    def dim(self, dim: Dim, env: _Env) -> None:
        for var in free_vars(dim):
            known = env.dims.get(var.name)
            if known is var:
                continue
            if var.name in env.lets:
                self._scalar_index(var, env)
            else:
                what = f"here it has the bounds {print_bounds(known)}" if known else "it is not declared here"
                self.error(f"{print_dim(dim)} uses {var.name} with bounds {print_bounds(var)}: {what}")

    def _scalar_index(self, var: Var, env: _Env) -> None:
        """A scalar used as an index is an integer, and the index gives it the bounds of its type."""
        held = value_range(env.lets[var.name], env.lets)
        kind = env.lets[var.name].dtype
        if held is None or (var.lo, var.hi, var.multiple) != (*kind.limits, 1):
            text = "is no integer" if held is None else f"is {kind}"
            self.error(f"scalar ${var.name} {text}, used as an index with bounds {print_bounds(var)}")

    # --- statements -----------------------------------------------------------------------------------------

    def block(self, block: Block, env: _Env) -> None:
        for stmt in block.body:
            self.stmt(stmt, env)

    def stmt(self, stmt: Stmt, env: _Env) -> None:
        match stmt:
            case Block():
                self.block(stmt, env.child())
            case For():
                self._for(stmt, env)
            case If():
                self._if(stmt, env)
            case Let():
                self.value(stmt.value, env)
                if stmt.name in env.lets or stmt.name in env.dims:
                    self.error(f"scalar ${stmt.name} is bound twice")
                env.lets[stmt.name] = stmt.value
            case Alloc():
                if stmt.buffer.space == "param":
                    self.error(f"buffer %{stmt.buffer.name} is declared inside in the space of parameters")
                self._buffer(stmt.buffer, env)
            case Store():
                self.value(stmt.value, env)
                self._write(stmt, env)
            case Atomic():
                self.value(stmt.value, env)
                if stmt.op not in INTRINSICS or INTRINSICS[stmt.op].arity != 2:
                    self.error(f"atomic {stmt.op} is not an operation on two values")
                self._write(stmt, env)
            case Eval():
                for arg in stmt.args:
                    self.value(arg, env)
                    if isinstance(arg, Load):
                        self.stored.add(arg.buffer)
            case Barrier():
                pass
            case _:
                assert_never(stmt)

    def _for(self, stmt: For, env: _Env) -> None:
        var = stmt.var
        self.dim(stmt.lo, env)
        self.dim(stmt.hi, env)
        self._path.append(f"for {var.name}")
        if stmt.kind == "bind" and not stmt.axis:
            self.error("the loop is bound to no hardware axis")
        inner = env.child()
        inner.conditions = env.conditions.with_range(var, stmt.lo, stmt.hi)
        self._covers(stmt, env)
        self._declare(var, inner)
        if stmt.kind in ("unroll", "vector"):
            inner.unrolled = env.unrolled | {var}
        if stmt.until is not None:
            self._condition(stmt.until, inner)
        self.block(stmt.body, inner)
        self._path.pop()

    def _covers(self, stmt: For, env: _Env) -> None:
        """The variable's own bounds must hold every value that the loop gives it."""
        var = stmt.var
        above = env.conditions.nonnegative(stmt.lo - var.lo)
        below = env.conditions.nonnegative(var.hi - (stmt.hi - 1))
        single = env.conditions.nonnegative(stmt.lo + 1 - stmt.hi)
        if above is not True or below is not True or (var.multiple != 1 and single is not True):
            text = f"{print_dim(stmt.lo)}..{print_dim(stmt.hi)}"
            self.error(f"the range {text} is not proved inside the bounds {print_bounds(var)} of {var.name}")

    def _if(self, stmt: If, env: _Env) -> None:
        self._condition(stmt.cond, env)
        for branch, holds in ((stmt.then, True), (stmt.orelse, False)):
            if branch is not None:
                inner = env.child()
                inner.conditions = env.conditions.with_guards(conditions_of(stmt.cond, env.lets, holds))
                self.block(branch, inner)

    def _condition(self, cond: ValueExpr, env: _Env) -> None:
        self.value(cond, env)
        if cond.dtype != BOOL:
            self.error(f"a condition has the type {cond.dtype}")

    def _write(self, stmt: Store | Atomic, env: _Env) -> None:
        self.stored.add(stmt.buffer)
        if self.modes.get(stmt.buffer) == "read":
            self.error(f"parameter %{stmt.buffer} is read only and is written")
        self._access(stmt, stmt.value.dtype, env, exact=True)

    # --- values ---------------------------------------------------------------------------------------------

    def value(self, e: ValueExpr, env: _Env) -> None:
        match e:
            case Op():
                self._op(e, env)
            case Load():
                if self.modes.get(e.buffer) == "write":
                    self.error(f"parameter %{e.buffer} is write only and is read")
                self._access(e, e.dtype, env, exact=False)
            case Idx():
                self.dim(e.dim, env)
                if e.dtype.is_float or e.dtype.lanes != 1:
                    self.error(f"index {print_dim(e.dim)} has the type {e.dtype}")
            case Imm():
                self._literal(e)
            case Ref():
                if e.name not in env.lets:
                    self.error(f"scalar ${e.name} is not bound here")
                elif env.lets[e.name].dtype != e.dtype:
                    self.error(f"scalar ${e.name} is {env.lets[e.name].dtype}, used as {e.dtype}")
            case _:
                assert_never(e)

    def _literal(self, e: Imm) -> None:
        if e.dtype.is_float:
            return
        lo, hi = e.dtype.limits
        if not isinstance(e.value, int) or not lo <= e.value <= hi:
            self.error(f"literal {e.value} is not of type {e.dtype}")

    def _op(self, e: Op, env: _Env) -> None:
        wrong = op_error(e)
        if wrong:
            self.error(wrong)
        if e.name != "select" or len(e.args) != 3:
            for arg in e.args:
                self.value(arg, env)
            return
        cond, first, second = e.args
        self.value(cond, env)
        for arm, holds in ((first, True), (second, False)):
            guards = conditions_of(cond, env.lets, holds)
            self.value(arm, replace(env, conditions=env.conditions.with_guards(guards)))

    def _access(self, at: Load | Store | Atomic, dtype: DType, env: _Env, exact: bool) -> None:
        count = None if isinstance(at, Atomic) else at.count
        for dim in at.index if count is None else (*at.index, count):
            self.dim(dim, env)
        buffer = env.buffers.get(at.buffer)
        if buffer is None:
            self.error(f"buffer %{at.buffer} is not declared here")
            return
        found = access_errors(buffer, at.index, dtype, exact, env.unrolled, env.conditions, count, self.by_parts)
        for wrong in found:
            self.error(wrong)
