"""Execution of a plan on tags: which byte of which buffer was last written to each place, at given dims."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sdk.compiler.ir.dependence import row_axis
from sdk.compiler.ir.diagnostic import Diagnostic
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, Wait, walk_plan
from sdk.compiler.memory.access import rows_touched
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.sym import Var, evaluate

__all__ = ["Proved", "extern_outputs", "simulate"]

Span = tuple[str, int, int]  # region, first byte, end
Proved = dict[tuple[str, int, int], bool]  # of a function, whether its parameter may have the bytes of another
MOST = 20


@dataclass(frozen=True)
class _Place:
    """A buffer at these dims: bytes of one logical row, rows, rows kept."""

    buffer: PlanBuffer
    at: int
    row: int
    rows: int
    kept: int

    @property
    def size(self) -> int:
        return self.row * self.kept

    def spans(self, lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
        """``(first byte, first row, rows)`` of rows ``lo..hi`` in runs of consecutive bytes."""
        while lo < hi:
            slot = lo % self.kept
            count = min(hi - lo, self.kept - slot)
            yield self.at + slot * self.row, lo, count
            lo += count


class _Memory:
    """A region as runs of bytes with one origin: ``(buffer, shift)``, the byte at ``a`` is its byte ``a + shift``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._starts = [0]
        self._held = [("", 0)]

    def write(self, lo: int, hi: int, buffer: str, shift: int) -> None:
        """Bytes ``lo..hi`` now come from ``buffer``."""
        if lo >= hi:
            return
        first, end = bisect_left(self._starts, lo), bisect_right(self._starts, hi)
        after = self._held[end - 1]  # what lies at hi
        self._starts[first:end] = [lo, hi]
        self._held[first:end] = [(buffer, shift), after]

    def foreign(self, lo: int, hi: int, buffer: str, shift: int) -> tuple[int, str, int] | None:
        """The first byte of ``lo..hi`` that does not come from there: where, and the buffer and byte it holds."""
        if hi > self.size:
            return lo, "", 0
        for k in range(bisect_right(self._starts, lo) - 1, len(self._starts)):
            if self._starts[k] >= hi:
                break
            if self._held[k] != (buffer, shift):
                at = max(self._starts[k], lo)
                return at, self._held[k][0], at + self._held[k][1]
        return None


def simulate(module: Module, plan: Plan, env: Mapping[Var, int], proved: Proved) -> list[Diagnostic]:
    """Findings of one run at dims ``env`` of a plan whose structure is sound; ``proved`` is kept between the runs."""
    return _Machine(module, plan, env, proved).run()


class _Machine:
    def __init__(self, module: Module, plan: Plan, env: Mapping[Var, int], proved: Proved) -> None:
        self.module, self.plan, self.env, self.proved = module, plan, plan.placed(env), proved
        self.found: list[Diagnostic] = []
        self.places: dict[str, _Place] = {}
        for b in plan.buffers:
            self.places[b.name] = self._place(b)
        self.kinds = {r.name: r.kind for r in plan.regions}
        self.memory = {r.name: _Memory(evaluate(r.bytes, self.env)) for r in plan.regions if r.kind != "const"}
        self.externs = extern_outputs(module, plan)
        self.written = self._written()
        self.updated: set[str] = set()
        self.rows_known: dict[tuple[object, ...], tuple[int, int]] = {}
        self.where = ""

    def _place(self, buffer: PlanBuffer) -> _Place:
        shape = tuple(evaluate(d, self.env) for d in buffer.type.shape)
        axis = row_axis(buffer.type.shape)
        rows = shape[axis] if shape else 1
        total = math.prod(shape) * buffer.type.dtype.nbytes
        row = total // rows if rows else 0
        at = evaluate(buffer.offset, self.env)
        return _Place(buffer, at, row, rows, min(buffer.ring or rows, rows) if rows else 1)

    def _written(self) -> set[str]:
        """Buffers with contents of their own; any other is a view of its alias."""
        out = {b.name for b in self.plan.buffers if b.role in ("input", "const", "state")}
        for stmt in walk_plan(self.plan.body):
            if isinstance(stmt, Copy):
                out.add(stmt.dst)
            elif isinstance(stmt, PlanCall):
                out |= {name for name, mode in self._arguments(stmt) if mode != "read"}
        return out

    def _same_type(self, a: PlanBuffer, b: PlanBuffer) -> bool:
        """Views change the shape or the type: what does neither is a result of its own."""
        return (a.type.shape, a.type.dtype, a.ring) == (b.type.shape, b.type.dtype, b.ring)

    def _arguments(self, call: PlanCall) -> list[tuple[str, str]]:
        """Each argument with its mode."""
        function = self.module.loops.get(call.callee)
        if function is not None:
            return [(name, p.mode) for name, p in zip(call.args, function.params, strict=True)]
        outs = self.externs[call.index]
        return [(name, "write" if name in outs else "read") for name in call.args]

    # --- the run ---------------------------------------------------------------------------------------

    def run(self) -> list[Diagnostic]:
        for b in self.plan.buffers:
            if b.alias and b.name not in self.written and self._same_type(b, self.places[b.alias].buffer):
                self.report(f"nothing writes {b.name}, which takes the bytes of {b.alias}")
        for b in self.plan.buffers:
            if b.role in ("input", "state"):
                self.write(b.name, 0, self.places[b.name].rows)
        self.body(self.plan.body)
        self.where = "at the end"
        for name in self.plan.outputs:
            self.read(name, 0, self.places[name].rows)
        self.states()
        return self.found

    def body(self, body: tuple[PlanStmt, ...]) -> None:
        for stmt in body:
            if len(self.found) >= MOST:
                return
            match stmt:
                case PlanCall():
                    self.where = f"call {stmt.index} @{stmt.callee}"
                    self.call(stmt)
                case Copy():
                    self.where = f"copy {stmt.dst} = {stmt.src}"
                    self.read(stmt.src, 0, self.places[stmt.src].rows)
                    self.write(stmt.dst, 0, self.places[stmt.dst].rows)
                case Repeat():
                    for k in range(evaluate(stmt.lo, self.env), evaluate(stmt.hi, self.env)):
                        self.env[stmt.var] = k
                        self.body(stmt.body)
                case Bind(value=str() as name):
                    self.where = f"bind {stmt.var.name}"
                    self.read(name, 0, self.places[name].rows)
                case Wait() | Bind() | Check():
                    pass  # ``env`` holds to them

    def report(self, message: str) -> None:
        at = "".join(f" at {v.name} = {n}" for v, n in self.env.items())
        if len(self.found) < MOST:
            self.found.append(Diagnostic("planned", f"plan @{self.plan.name}, {self.where}{at}", message))

    # --- calls -----------------------------------------------------------------------------------------

    def call(self, call: PlanCall) -> None:
        function = self.module.loops.get(call.callee)
        rows = self._row_range(call, function)
        if rows is not None and rows[0] >= rows[1]:
            return
        reads: list[tuple[int, Span]] = []
        writes: list[tuple[int, Span]] = []
        pending: list[tuple[str, int, int]] = []
        for k, (name, mode) in enumerate(self._arguments(call)):
            if mode == "update" and self._takes_over(name):
                pending.append((name, 0, self.places[name].rows))  # what it does not write it keeps
            elif mode != "write":
                lo, hi = self._rows(call, function, k, rows, store=False)
                self.read(name, lo, hi)
                reads += [(k, s) for s in self.spans(name, lo, hi)]
            if mode != "read":
                lo, hi = self._rows(call, function, k, rows, store=True)
                writes += [(k, s) for s in self.spans(name, lo, hi)]
                pending.append((name, lo, hi))
        self._check_sharing(call, function, reads, writes)
        for name, lo, hi in pending:
            self.write(name, lo, hi)

    def _takes_over(self, name: str) -> bool:
        """Whether a buffer to be updated gets its contents from the one it aliases, which must be there whole."""
        place = self.places[name]
        root = self.places.get(place.buffer.alias)
        if root is None or name in self.updated or place.at != root.at:
            return False
        if not self._same_type(place.buffer, root.buffer):
            return False
        self.updated.add(name)
        self.read(root.buffer.name, 0, root.rows)
        return True

    def _row_range(self, call: PlanCall, function: Loops | None) -> tuple[int, int] | None:
        if call.rows is None or function is None or function.rows is None:
            return None
        lo, hi = evaluate(call.rows[0], self.env), evaluate(call.rows[1], self.env)
        extent = evaluate(function.rows.extent, self._dims(call, function))
        if lo < hi and not (lo >= 0 and hi <= extent):
            self.report(f"rows {lo}..{hi} leave 0..{extent}")
        return max(lo, 0), min(hi, extent)

    def _dims(self, call: PlanCall, function: Loops) -> dict[Var, int]:
        return {v: evaluate(d, self.env) for v, d in zip(function.dims, call.dims, strict=True)}

    def _rows(
        self, call: PlanCall, function: Loops | None, k: int, rows: tuple[int, int] | None, store: bool
    ) -> tuple[int, int]:
        """Rows of argument ``k`` the call touches."""
        place = self.places[call.args[k]]
        if function is None:
            return 0, place.rows
        dims = self._dims(call, function)
        param = function.params[k].buffer
        if param.ring is None and (
            rows is None or function.rows is None or rows == (0, evaluate(function.rows.extent, dims))
        ):
            return 0, place.rows
        key = (call.callee, k, rows, store, tuple(dims.values()))
        if key not in self.rows_known:
            span = rows or (0, 0)
            self.rows_known[key] = rows_touched(function, param.name, dims, span, store)
        return self.rows_known[key]

    def _check_sharing(
        self,
        call: PlanCall,
        function: Loops | None,
        reads: list[tuple[int, Span]],
        writes: list[tuple[int, Span]],
    ) -> None:
        """What a call writes may overlap what it reads only where it is declared and proved."""
        for k, span in writes:
            for j, other in reads:
                if j != k and _meet(span, other) and not self._in_place(call, function, k, j):
                    self.report(f"{call.args[k]} is written over {call.args[j]}, which the call still reads")
            for j, other in writes:
                if j < k and _meet(span, other):
                    self.report(f"{call.args[j]} and {call.args[k]} are written to the same bytes")
        if call.scratch:
            place = self.places[call.scratch]
            scratch = (place.buffer.region, place.at, place.at + place.size)
            for k, span in (*reads, *writes):
                if _meet(scratch, span):
                    self.report(f"scratch overlaps {call.args[k]}")
            self.write(call.scratch, 0, place.rows)

    def _in_place(self, call: PlanCall, function: Loops | None, out: int, source: int) -> bool:
        a, b = self.places[call.args[out]], self.places[call.args[source]]
        if function is None or a.at != b.at or not (self._chain(a.buffer) & self._chain(b.buffer)):
            return False
        key = (function.name, out, source)
        if key not in self.proved:
            names = [p.buffer.name for p in function.params]
            self.proved[key] = may_take_over(function, names[out], names[source])
        return self.proved[key]

    def _chain(self, buffer: PlanBuffer) -> set[str]:
        """The buffers whose bytes this one may share, itself included."""
        out = {buffer.name}
        while buffer.alias:
            buffer = self.places[buffer.alias].buffer
            out.add(buffer.name)
        return out

    # --- tags ------------------------------------------------------------------------------------------

    def spans(self, name: str, lo: int, hi: int) -> list[Span]:
        """The bytes of rows ``lo..hi``."""
        place = self.places[name]
        region = place.buffer.region
        if self.kinds[region] == "const":
            return []
        return [(region, at, at + count * place.row) for at, _, count in place.spans(lo, hi)]

    def write(self, name: str, lo: int, hi: int) -> None:
        """Notes that rows ``lo..hi`` hold this buffer."""
        place = self.places[name]
        for at, first, count in place.spans(lo, hi):
            memory = self.memory[place.buffer.region]
            memory.write(at, at + count * place.row, name, first * place.row - at)

    def read(self, name: str, lo: int, hi: int) -> None:
        """Checks that rows ``lo..hi`` hold what was written to the buffer, or to the one it is a view of."""
        place = self.places[name]
        if self.kinds[place.buffer.region] == "const" or lo >= hi:
            return
        root = place
        while root.buffer.name not in self.written and root.buffer.alias:
            root = self.places[root.buffer.alias]
        if root is place:
            for at, first, count in place.spans(lo, hi):
                self._compare(place, at, at + count * place.row, first * place.row - at)
        elif place.size != root.size or root.kept != root.rows or place.at != root.at:
            self.report(f"{place.buffer.name} is no view of all of {root.buffer.name}")
        else:
            self._compare(root, place.at + lo * place.row, place.at + hi * place.row, -root.at)

    def _compare(self, root: _Place, lo: int, hi: int, shift: int) -> None:
        if lo >= hi:
            return
        region = root.buffer.region
        wrong = self.memory[region].foreign(lo, hi, root.buffer.name, shift)
        if wrong is not None:
            at, buffer, byte = wrong
            held = self._name(self.places[buffer], byte) if buffer else "nothing"
            self.report(f"reads {self._name(root, at + shift)} at byte {at} of {region}, which holds {held}")

    def _name(self, place: _Place, byte: int) -> str:
        return f"row {byte // place.row} of {place.buffer.name}"

    # --- states ----------------------------------------------------------------------------------------

    def states(self) -> None:
        """At the end each state holds its newest version, or what it held before."""
        for place in self.places.values():
            if place.buffer.role != "state":
                continue
            versions = [
                p for n, p in self.places.items() if n in self.written and place.buffer.name in self._chain(p.buffer)
            ]
            newest = [
                v for v in versions if not any(v is not w and v.buffer.name in self._chain(w.buffer) for w in versions)
            ]
            if len(newest) != 1:
                self.report(f"state {place.buffer.name} has {len(newest)} last versions")
            elif newest[0].at != place.at or newest[0].size != place.size:
                self.report(f"{newest[0].buffer.name} does not fill state {place.buffer.name}")
            else:
                self.read(newest[0].buffer.name, 0, newest[0].rows)


def _meet(a: Span, b: Span) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def extern_outputs(module: Module, plan: Plan) -> dict[int, set[str]]:
    """What each library call without loops writes: arguments first named there that are no input or view."""
    out: dict[int, set[str]] = {}
    known = {b.name for b in plan.buffers if b.role in ("input", "const", "state")}
    roots = {b.name: b.alias for b in plan.buffers}
    for stmt in walk_plan(plan.body):
        if isinstance(stmt, Copy):
            known |= {stmt.dst, stmt.src}
        elif isinstance(stmt, PlanCall):
            if stmt.callee not in module.loops:
                out[stmt.index] = {n for n in stmt.args if n not in known and roots[n] not in known}
            known |= set(stmt.args)
    return out
