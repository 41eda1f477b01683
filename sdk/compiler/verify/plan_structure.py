"""What must hold of a plan before it can run: names, roles, regions, bounds, alignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanBuffer, Region, Repeat, named
from sdk.compiler.memory.effects import Effects
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.memory.scratch import SCRATCH_ALIGN
from sdk.compiler.sym import Dim, free_vars, max_value, min_value, prove_eq, prove_ge, substitute
from sdk.compiler.verify.diagnostic import Diagnostic
from sdk.compiler.verify.plan_below import Below
from sdk.compiler.verify.plan_calls import Statements, located
from sdk.compiler.verify.plan_covered import lower_arms
from sdk.compiler.verify.plan_live import Finding
from sdk.errors import BuildError

__all__ = ["check_structure"]


def check_structure(module: Module, plan: Plan) -> list[Diagnostic]:
    """Findings that need no execution."""
    check = _Structure(module, plan)
    found = [Diagnostic("planned", f"plan @{plan.name}{where}", text) for where, text in check.names()]
    if found:
        return found
    stmts = Statements(module, plan)
    parts = [check.places(), check.aliases(), stmts.dims(), stmts.statements()]
    found = [Diagnostic("planned", f"plan @{plan.name}{where}", text) for part in parts for where, text in part]
    if found:
        return found
    parts = [check.roles(), check.buffers()]
    return [Diagnostic("planned", f"plan @{plan.name}{where}", text) for part in parts for where, text in part]


class _Structure:
    def __init__(self, module: Module, plan: Plan) -> None:
        self.module, self.plan = module, plan
        self.by_name = {b.name: b for b in plan.buffers}
        self.regions = {r.name: r for r in plan.regions}
        self.below = Below(plan)
        self.iterations = {s.var for s in plan.body if isinstance(s, Repeat)}

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
            if buffer.role == "const" and self.module.constant(buffer.name) is None:
                yield f", {buffer.name}", "it is no constant of the module"
            if buffer.role == "state" and buffer.name not in self.module.states:
                yield f", {buffer.name}", "it is no state of the module"
        for name in (*self.plan.inputs, *self.plan.outputs):
            if name not in self.by_name:
                yield "", f"its input or output {name} is not declared"
        for where, stmt in located(self.plan.body):
            used = named(stmt)
            for name in used:
                if name not in self.by_name:
                    yield where, f"buffer {name} is not declared"

    def roles(self) -> Iterator[Finding]:
        """Inputs and outputs say so; constants, states and scratch are in regions of their kind; each state is where
        the other entries have it."""
        for buffer in self.plan.buffers:
            where, kind = f", {buffer.name}", self.regions[buffer.region].kind
            if (buffer.role == "input") != (buffer.name in self.plan.inputs):
                yield where, f"it has the role {buffer.role}, the plan's inputs are {', '.join(self.plan.inputs)}"
            if buffer.name in self.plan.outputs and buffer.role != "output":
                yield where, f"it has the role {buffer.role} and is an output"
            wanted = {"const": "const", "state": "state", "scratch": "arena"}.get(buffer.role, kind)
            if kind != wanted:
                yield where, f"the region {buffer.region} of kind {kind} holds no {buffer.role}"
        mine = {b.name: b for b in self.plan.buffers if b.role == "state"}
        for other in self.module.plans.values():
            for b in other.buffers:
                if b.role == "state" and b.name in mine and mine[b.name].offset != b.offset:
                    yield f", {b.name}", f"its offset is {mine[b.name].offset}, and {b.offset} in entry @{other.name}"

    # --- places ----------------------------------------------------------------------------------------

    def buffers(self) -> Iterator[Finding]:
        """Each buffer lies inside its region at its largest, aligned for its elements."""
        written = Effects(self.module, self.plan).written
        for buffer in self.plan.buffers:
            where = f", {buffer.name}"
            region = self.regions[buffer.region]
            if region.kind == "const":
                yield from self._constant(buffer)
                continue
            if prove_ge(buffer.offset, 0) is not True:
                yield where, f"offset {buffer.offset} may be negative"
            align = SCRATCH_ALIGN if buffer.role == "scratch" else buffer.type.dtype.nbytes
            if prove_eq(buffer.offset % align, 0) is not True or region.align % align:
                yield (
                    where,
                    f"offset {buffer.offset} in a region aligned to {region.align} is not aligned to {align}",
                )
            yield from self._iterations_apart(buffer)
            if buffer.ring is not None and buffer.ring < 1:
                yield where, f"a ring of {buffer.ring} rows"
            elif buffer.name in written or not self._in_view(buffer):
                yield from self._inside(buffer, region)

    def _iterations_apart(self, buffer: PlanBuffer) -> Iterator[Finding]:
        """Each iteration has bytes of its own."""
        for var in free_vars(buffer.offset) & self.iterations:
            then = substitute(buffer.offset, {var: var.expr + 1})
            if not self.below.holds(buffer.offset + self.below.size(buffer), then):
                yield f", {buffer.name}", f"not proved to lie apart from itself in the next iteration, at {then}"

    def _constant(self, buffer: PlanBuffer) -> Iterator[Finding]:
        """Each constant has a place of its own, from which on its arrays lie, one for each iteration."""
        stack = self.module.stacks.get(buffer.name) if buffer.role == "const" else None
        if buffer.role != "const":
            return
        if stack is None:
            if buffer.offset != 0:
                yield f", {buffer.name}", f"a constant at {buffer.offset}"
            return
        count = stack.iterations
        places = [v.expr * stack.stride for v in free_vars(buffer.offset) if (v.lo, v.hi) == (0, count - 1)]
        if buffer.offset not in places:
            where, apart = f", {buffer.name}", f"its {stack.iterations} arrays are {stack.stride} bytes apart"
            yield where, f"{apart}, its place is {buffer.offset}"

    def _in_view(self, buffer: PlanBuffer) -> bool:
        """Whether it is a view that starts where what it views does: every run is checked for equal bytes."""
        return bool(buffer.alias) and self.by_name[buffer.alias].offset == buffer.offset

    def _inside(self, buffer: PlanBuffer, region: Region) -> Iterator[Finding]:
        where = f", {buffer.name}"
        try:
            size = stored_type(buffer.type, buffer.ring).max_bytes
        except BuildError as error:
            yield where, error.message
            return
        at, room = max_value(buffer.offset), min_value(region.bytes)
        fixed = isinstance(buffer.offset, int) and isinstance(region.bytes, int)
        if fixed and (at is None or room is None or at + size > room):
            yield where, f"{size} bytes at {at} leave region {region.name} of {room} bytes"
        if not fixed and not self._fits(buffer, region.bytes):
            yield where, f"not proved to stay inside region {region.name} of {region.bytes} bytes"

    def _fits(self, buffer: PlanBuffer, room: Dim) -> bool:
        """Whether it ends inside; what the caller fills before the run checks its dims does in any case."""
        return self.below.holds(buffer.offset + self.below.size(buffer), room, early=buffer.role == "input")

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


def _arms(value: Dim) -> Iterator[Dim]:
    """What a maximum is the largest of; the dim itself where it is none."""
    arms = list(lower_arms(value))
    if not arms:
        yield value
    for arm in arms:
        yield from _arms(arm)
