"""What must hold of the statements of a plan: calls that fit their functions, dims that have values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from sdk.compiler.analysis.rows import row_granule, shared_params
from sdk.compiler.ir.layout import ROW_MAJOR, Layout
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, Wait, named, walk_plan
from sdk.compiler.memory.scratch import scratch_layout, scratch_share
from sdk.compiler.sym import Dim, Var, free_vars, min_value, prove_eq, prove_ge, substitute
from sdk.compiler.verify.plan_live import Finding
from sdk.compiler.verify.plan_scratch import check_scratch

__all__ = ["Statements", "located"]


class Statements:
    """The statements of a plan whose names are all declared."""

    def __init__(self, module: Module, plan: Plan) -> None:
        """``module`` has the functions that ``plan`` calls."""
        self.module, self.plan = module, plan
        self.by_name = {b.name: b for b in plan.buffers}
        self.alias = {b.name: b.alias for b in plan.buffers}
        self.regions = {r.name: r for r in plan.regions}

    def statements(self) -> Iterator[Finding]:
        """Calls agree with their functions, copies with their ends, waits with calls that ran."""
        seen: set[int] = set()
        for where, stmt in located(self.plan.body):
            if isinstance(stmt, Wait) and stmt.on not in seen:
                yield where, f"waits for call {stmt.on}, which did not start"
            elif isinstance(stmt, Copy):
                yield from self._copy(where, stmt)
            elif isinstance(stmt, PlanCall):
                if stmt.index != len(seen):
                    yield where, f"calls are numbered in order, this one is number {len(seen)}"
                seen.add(len(seen))
                yield from self._call(where, stmt)

    def dims(self) -> Iterator[Finding]:
        """Each dim has one value, before it is used; places depend only on those of the caller."""
        given = set(self.plan.dims)
        yield from self._dims(self.plan.body, set(given), repeated=False)
        known = given | {v for v, _ in self.plan.places}
        for region in self.plan.regions:
            if not free_vars(region.bytes) <= known:
                yield f", {region.name}", f"its size {region.bytes} depends on a dim that the run computes"
        for b in self.plan.buffers:
            varying = self.iterations if self.regions[b.region].kind in ("const", "state") else set()
            if not free_vars(b.offset) <= known | varying:
                yield f", {b.name}", f"its place {b.offset} depends on a dim that the run computes"

    @cached_property
    def iterations(self) -> set[Var]:
        """The numbers of iterations, on which places of constants and states may depend."""
        found = {v for b in self.plan.buffers for v in free_vars(b.offset)}
        return found - set(self.plan.dims) - {v for v, _ in self.plan.places} - set(self.plan.fresh)

    def _dims(self, body: tuple[PlanStmt, ...], bound: set[Var], repeated: bool) -> Iterator[Finding]:
        """``bound`` are the dims with values, to which those of the body are added."""
        for stmt in body:
            where, used = _where(stmt), set(_dims(stmt))
            for name in named(stmt):
                buffer = self.by_name[name]
                used |= {v for d in buffer.type.shape for v in free_vars(d)}
                used |= free_vars(buffer.offset) & self.iterations
            for var in sorted(used - bound, key=lambda v: v.name):
                yield where, f"the dim {var.name} has no value here"
            if isinstance(stmt, Repeat | Bind) and stmt.var in bound:
                yield where, f"the dim {stmt.var.name} is bound twice"
            if isinstance(stmt, Repeat):
                low, high = prove_ge(stmt.lo, stmt.var.lo), prove_ge(stmt.var.hi + 1, stmt.hi)
                if low is not True or high is not True:
                    yield where, f"{stmt.var.name} = {stmt.lo}..{stmt.hi} may leave {stmt.var.lo}..{stmt.var.hi + 1}"
                yield from self._dims(stmt.body, bound | {stmt.var}, repeated=True)
                if stmt.carry is not None:
                    yield from self._carry(where, stmt, *stmt.carry)
            if isinstance(stmt, Bind):
                if repeated:
                    yield where, f"the dim {stmt.var.name} is bound in a repeat"
                bound.add(stmt.var)

    def _carry(self, where: str, repeat: Repeat, into: str, last: str) -> Iterator[Finding]:
        """What an iteration begins with lies where the one before ended with it, and calls of all are the same."""
        a, b = self.by_name[into], self.by_name[last]
        if (a.type, a.region, a.ring) != (b.type, b.region, b.ring) or prove_eq(a.offset, b.offset) is not True:
            yield where, f"carries {last} on as {into}, which lies elsewhere or is of another type"
        if repeat.lo != 0 or not isinstance(repeat.hi, int) or repeat.hi < 1:
            yield where, f"has iterations {repeat.lo}..{repeat.hi}"
        for stmt in repeat.body:
            if not isinstance(stmt, PlanCall | Copy | Check):
                yield where, f"has a {type(stmt).__name__.lower()} in its iterations"
            elif repeat.var in _dims(stmt):
                yield _where(stmt), f"is another call in each iteration, {repeat.var.name} tells"

    def _copy(self, where: str, copy: Copy) -> Iterator[Finding]:
        dst, src = self.by_name[copy.dst], self.by_name[copy.src]
        if prove_eq(dst.type.nbytes, src.type.nbytes) is not True or dst.ring is not None or src.ring is not None:
            yield (
                where,
                f"copies {src.type.nbytes} bytes of {src.name} to {dst.type.nbytes} bytes of {dst.name}",
            )
        if self._read_only(dst):
            yield where, f"writes {dst.name}, which is read-only"

    def _read_only(self, buffer: PlanBuffer) -> bool:
        region = self.regions[buffer.region]
        return region.kind == "const" or (region.kind == "caller" and buffer.role == "input")

    def _call(self, where: str, call: PlanCall) -> Iterator[Finding]:
        function = self.module.loops.get(call.callee)
        if function is None:
            if not call.extern:
                yield where, f"calls @{call.callee}, which the module lacks"
            return
        if len(call.args) != len(function.params) or len(call.dims) != len(function.dims):
            yield (
                where,
                (
                    f"gives {len(call.args)} arguments and {len(call.dims)} dims,"
                    f" @{call.callee} takes {len(function.params)} and {len(function.dims)}"
                ),
            )
            return
        if function.instances:
            yield where, f"gives [{', '.join(map(str, call.dims))}], which is no instance of @{call.callee}"
            return
        yield from self._arguments(where, call, function)
        yield from self._rows(where, call, function)
        yield from self._scratch(where, call, function)

    def _arguments(self, where: str, call: PlanCall, function: Loops) -> Iterator[Finding]:
        env = dict(zip(function.dims, call.dims, strict=True))
        for p, name in zip(function.params, call.args, strict=True):
            buffer, wants = self.by_name[name], p.buffer
            shape = tuple(substitute(d, env) for d in wants.shape)
            same = len(shape) == buffer.type.rank and all(
                prove_eq(a, b) is True for a, b in zip(shape, buffer.type.shape, strict=True)
            )
            if not same:
                yield (
                    where,
                    f"{name} of shape {_text(buffer.type.shape)} is passed as {wants.name} of {_text(shape)}",
                )
            if wants.dtype.nbytes != buffer.type.dtype.nbytes:
                yield where, f"{name} of {buffer.type.dtype} is passed as {wants.name} of {wants.dtype}"
            if wants.ring != buffer.ring:
                yield (
                    where,
                    f"{name} keeps {buffer.ring or 'all'} rows, {wants.name} expects {wants.ring or 'all'}",
                )
            stored = self._layout(buffer)
            if p.layout.steps and stored != p.layout:  # functions shared by several layouts have none
                yield where, f"{name} is stored as {stored}, {wants.name} is read as {p.layout}"
            if p.mode != "read" and self._read_only(buffer):
                yield where, f"writes {name}, which is read-only"
        shown = {v for p in function.params for d in p.buffer.shape for v in free_vars(d)}
        for var, value in env.items():
            if var not in shown and value is not var.expr:
                yield where, f"gives {value} for {var.name}, which no shape tells: it is the dim of that name"
            if prove_ge(value, var.lo) is not True or prove_ge(var.hi, value) is not True:
                yield where, f"{var.name} = {value} is not proved to be in {var.lo}..{var.hi}"

    def _layout(self, buffer: PlanBuffer) -> Layout:
        """How the tensor of a buffer is stored."""
        const = self.module.constant(buffer.name) if buffer.role == "const" else None
        return const.layout if const is not None else ROW_MAJOR

    def _rows(self, where: str, call: PlanCall, function: Loops) -> Iterator[Finding]:
        if (call.rows is None) != (function.rows is None):
            yield where, f"gives {'no' if call.rows is None else 'a range of'} rows, unlike @{call.callee}"
        split = call.split
        if split is None:
            return
        shared = shared_params(function, call.args, self.alias)
        granule = row_granule(function, shared)
        if granule is None or split.granule < 1 or split.granule % granule or split.threads < 1:
            yield where, f"splits rows by {split.granule}, the parts of @{call.callee} are independent by {granule}"
        if call.rows is not None and call.rows[0] != 0:
            yield where, f"splits rows from {call.rows[0]}, tiles were proved from 0"

    def _scratch(self, where: str, call: PlanCall, function: Loops) -> Iterator[Finding]:
        need = scratch_layout(function).bytes
        yield from ((where, text) for text in check_scratch(function))
        if call.split is not None:
            need = scratch_share(need) * call.split.threads
        have = self.by_name[call.scratch] if call.scratch else None
        room = 0 if have is None else min_value(have.type.nbytes)
        if room is None or room < need:
            yield where, f"has {room} bytes of scratch, @{call.callee} needs {need}"
        if have is not None and have.role != "scratch":
            yield where, f"uses {have.name} of role {have.role} as scratch"


def located(body: tuple[PlanStmt, ...]) -> Iterator[tuple[str, PlanStmt]]:
    """Every statement with the text that says where it is."""
    for stmt in walk_plan(body):
        yield _where(stmt), stmt


def _where(stmt: PlanStmt) -> str:
    match stmt:
        case PlanCall():
            return f", call {stmt.index} @{stmt.callee}"
        case Copy():
            return f", copy {stmt.dst} = {stmt.src}"
        case Repeat():
            return f", repeat {stmt.var.name}"
        case _:
            return ""


def _dims(stmt: PlanStmt) -> Iterator[Var]:
    """The dims a statement uses itself."""
    match stmt:
        case PlanCall():
            used: tuple[Dim, ...] = (*stmt.dims, *(stmt.rows or ()))
        case Bind():
            used = () if isinstance(stmt.value, str) else (stmt.value,)
        case Check():
            used = (stmt.left, stmt.right)
        case Repeat():
            used = (stmt.lo, stmt.hi)
        case _:
            used = ()
    for dim in used:
        yield from free_vars(dim)


def _text(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
