"""What must hold of a plan before it can run: names, regions, bounds, alignment, calls that fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sdk.compiler.ir.diagnostic import Diagnostic
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, Wait, walk_plan
from sdk.compiler.ir.rows import row_granule, shared_params
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.memory.scaled import Covered, lower_arms
from sdk.compiler.memory.scratch import SCRATCH_ALIGN, scratch_layout, scratch_share
from sdk.compiler.sym import Dim, Var, free_vars, max_value, min_value, prove_eq, prove_ge, substitute
from sdk.errors import BuildError

__all__ = ["check_structure"]


def check_structure(module: Module, plan: Plan) -> list[Diagnostic]:
    """Findings that need no execution."""
    check = _Structure(module, plan)
    found = [Diagnostic("planned", f"plan @{plan.name}{where}", text) for where, text in check.names()]
    if found:
        return found
    parts = (check.places(), check.buffers(), check.aliases(), check.dims(), check.statements())
    return [Diagnostic("planned", f"plan @{plan.name}{where}", text) for part in parts for where, text in part]


Finding = tuple[str, str]


class _Structure:
    def __init__(self, module: Module, plan: Plan) -> None:
        self.module, self.plan = module, plan
        self.by_name = {b.name: b for b in plan.buffers}
        self.regions = {r.name: r for r in plan.regions}
        self.covered: dict[Dim, Covered] = {}

    def names(self) -> Iterator[Finding]:
        """Every name is there, once."""
        for what, items in (("buffer", self.plan.buffers), ("region", self.plan.regions)):
            for name, count in Counter(i.name for i in items).items():
                if count > 1:
                    yield "", f"{what} {name} is declared {count} times"
        for buffer in self.plan.buffers:
            if buffer.region not in self.regions:
                yield f", {buffer.name}", f"its region {buffer.region} is not declared"
            if buffer.alias and buffer.alias not in self.by_name:
                yield f", {buffer.name}", f"it shares bytes with {buffer.alias}, which is not declared"
            if buffer.role == "const" and buffer.name not in self.module.consts:
                yield f", {buffer.name}", "it is no constant of the module"
            if buffer.role == "state" and buffer.name not in self.module.states:
                yield f", {buffer.name}", "it is no state of the module"
        for name in (*self.plan.inputs, *self.plan.outputs):
            if name not in self.by_name:
                yield "", f"its input or output {name} is not declared"
        for where, stmt in located(self.plan.body):
            used = _used(stmt)
            for name in used:
                if name not in self.by_name:
                    yield where, f"buffer {name} is not declared"

    # --- places ----------------------------------------------------------------------------------------

    def buffers(self) -> Iterator[Finding]:
        """Each buffer lies inside its region at its largest, aligned for its elements."""
        for buffer in self.plan.buffers:
            where = f", {buffer.name}"
            region = self.regions[buffer.region]
            if region.kind == "const":
                continue
            try:
                size = stored_type(buffer.type, buffer.ring).max_bytes
            except BuildError as error:
                yield where, error.message
                continue
            at, room = max_value(buffer.offset), min_value(region.bytes)
            fixed = isinstance(buffer.offset, int) and isinstance(region.bytes, int)
            if fixed and (at is None or room is None or at + size > room):
                yield where, f"{size} bytes at {at} leave region {region.name} of {room} bytes"
            if not fixed and not self._fits(buffer, region.bytes):
                yield where, f"not proved to stay inside region {region.name} of {region.bytes} bytes"
            if prove_ge(buffer.offset, 0) is not True:
                yield where, f"offset {buffer.offset} may be negative"
            align = SCRATCH_ALIGN if buffer.role == "scratch" else buffer.type.dtype.nbytes
            if prove_eq(buffer.offset % align, 0) is not True or region.align % buffer.type.dtype.nbytes:
                yield (
                    where,
                    f"offset {buffer.offset} in a region aligned to {region.align} is not aligned to {align}",
                )
            if buffer.ring is not None and buffer.ring < 1:
                yield where, f"a ring of {buffer.ring} rows"

    def _fits(self, buffer: PlanBuffer, room: Dim) -> bool:
        type = stored_type(buffer.type, buffer.ring)
        size = type.nbytes if free_vars(type.nbytes) <= set(self.plan.dims) else type.max_bytes
        if room not in self.covered:
            self.covered[room] = Covered(room, dict(self.plan.places))
        return self.covered[room].holds(buffer.offset + size)

    def places(self) -> Iterator[Finding]:
        """Each place is made of dims and of places before it, and holds the bounds that it declares."""
        known = {v.name: v for v in self.plan.dims}
        for var, value in self.plan.places:
            where = f", place {var.name}"
            if var.name in known:
                yield where, "another dim has its name"
            for used in free_vars(value):
                if known.get(used.name) is not used:
                    yield where, f"it uses {used.name}, which has no value before it"
            if prove_ge(value, var.lo) is not True or prove_ge(var.hi, value) is not True:
                yield where, f"{value} is not proved to be in {var.lo}..{var.hi}"
            if any(prove_eq(arm % var.multiple, 0) is not True for arm in _arms(value)):
                yield where, f"{value} is not proved to be a multiple of {var.multiple}"
            known[var.name] = var

    def aliases(self) -> Iterator[Finding]:
        """Chains of shared bytes end, stay in one region, and tie states to their own place."""
        for buffer in self.plan.buffers:
            seen = {buffer.name}
            current = buffer
            while current.alias:
                current = self.by_name[current.alias]
                if current.name in seen:
                    yield f", {buffer.name}", "it shares bytes with itself in a circle"
                    break
                seen.add(current.name)
            if buffer.alias and self.by_name[buffer.alias].region != buffer.region:
                yield f", {buffer.name}", f"it shares bytes with {buffer.alias} of another region"

    # --- statements ------------------------------------------------------------------------------------

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
        bound: set[Var] = set(given)
        repeated = [s for r in walk_plan(self.plan.body) if isinstance(r, Repeat) for s in walk_plan(r.body)]
        for where, stmt in located(self.plan.body):
            used = set(_dims(stmt))
            for name in _used(stmt):
                used |= {v for d in self.by_name[name].type.shape for v in free_vars(d)}
            if isinstance(stmt, Repeat):
                bound.add(stmt.var)
            for var in sorted(used - bound, key=lambda v: v.name):
                yield where, f"the dim {var.name} has no value here"
            if isinstance(stmt, Bind):
                if stmt.var in bound:
                    yield where, f"the dim {stmt.var.name} is bound twice"
                if stmt in repeated:
                    yield where, f"the dim {stmt.var.name} is bound in a repeat"
                bound.add(stmt.var)
        places = [(b.name, b.offset) for b in self.plan.buffers] + [(r.name, r.bytes) for r in self.plan.regions]
        for what, place in places:
            if not free_vars(place) <= given | {v for v, _ in self.plan.places}:
                yield f", {what}", f"its place {place} depends on a dim that the run computes"

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
            if p.mode != "read" and self._read_only(buffer):
                yield where, f"writes {name}, which is read-only"
        for var, value in env.items():
            if prove_ge(value, var.lo) is not True or prove_ge(var.hi, value) is not True:
                yield where, f"{var.name} = {value} is not proved to be in {var.lo}..{var.hi}"

    def _rows(self, where: str, call: PlanCall, function: Loops) -> Iterator[Finding]:
        if (call.rows is None) != (function.rows is None):
            yield where, f"gives {'no' if call.rows is None else 'a range of'} rows, unlike @{call.callee}"
        split = call.split
        if split is None:
            return
        shared = shared_params(function, call.args, {b.name: b.alias for b in self.plan.buffers})
        granule = row_granule(function, shared)
        if granule is None or split.granule < 1 or split.granule % granule or split.threads < 1:
            yield where, f"splits rows by {split.granule}, the parts of @{call.callee} are independent by {granule}"
        if call.rows is not None and call.rows[0] != 0:
            yield where, f"splits rows from {call.rows[0]}, tiles were proved from 0"

    def _scratch(self, where: str, call: PlanCall, function: Loops) -> Iterator[Finding]:
        need = scratch_layout(function).bytes
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
        match stmt:
            case PlanCall():
                yield f", call {stmt.index} @{stmt.callee}", stmt
            case Copy():
                yield f", copy {stmt.dst} = {stmt.src}", stmt
            case _:
                yield "", stmt


def _used(stmt: PlanStmt) -> tuple[str, ...]:
    match stmt:
        case PlanCall():
            return (*stmt.args, stmt.scratch) if stmt.scratch else stmt.args
        case Copy():
            return stmt.dst, stmt.src
        case Bind(value=str() as name):
            return (name,)
        case _:
            return ()


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


def _arms(value: Dim) -> Iterator[Dim]:
    """What a maximum is the largest of; the dim itself where it is none."""
    arms = list(lower_arms(value))
    if not arms:
        yield value
    for arm in arms:
        yield from _arms(arm)


def _text(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
