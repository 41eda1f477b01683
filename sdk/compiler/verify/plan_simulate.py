"""Execution of a plan on tags: every read must find what its producer wrote, at given dims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, Wait, named
from sdk.compiler.memory.effects import Effects
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.memory.placed import CallAt, CallRows, Place, Rows, place_of
from sdk.compiler.sym import Var, evaluate, free_vars
from sdk.compiler.verify.diagnostic import Diagnostic
from sdk.compiler.verify.plan_overlap import reads_come_first
from sdk.compiler.verify.plan_tags import InUse, Tags

__all__ = ["Proved", "simulate"]

Span = tuple[str, int, int]  # region, first byte, end
# of a function, whether its parameter may have the bytes of another in a call for these rows (None: for all); or lie
# so many bytes behind it
Proved = dict[tuple[str, int, int, Rows | None, int | None], bool]
MAX_FAULTS = 20


def simulate(module: Module, plan: Plan, env: Mapping[Var, int], proved: Proved, rows: bool) -> list[Diagnostic]:
    """Findings of one run at dims ``env`` of a plan whose structure is sound.

    Args:
        module: the functions.
        plan: what runs.
        env: the dims.
        proved: kept between the runs.
        rows: whether rows come and go, so that only a run tells the largest live set.
    """
    return _Machine(module, plan, env, proved, rows).run()


@dataclass
class _Touched:
    """The bytes that one call reads and writes, by position of the argument, and what holds what after it."""

    reads: list[tuple[int, Span]] = field(default_factory=list)
    writes: list[tuple[int, Span]] = field(default_factory=list)
    filled: list[tuple[int, str, int, int]] = field(default_factory=list)
    spoiled: list[tuple[str, int, int]] = field(default_factory=list)
    in_place: set[int] = field(default_factory=set)


class _Machine:
    def __init__(self, module: Module, plan: Plan, env: Mapping[Var, int], proved: Proved, rows: bool) -> None:
        self.plan, self.proved = plan, proved
        repeats = (s for s in plan.body if isinstance(s, Repeat) and s.carry is not None)
        self.env = plan.placed(env) | {s.var: 0 for s in repeats}
        self.found: list[Diagnostic] = []
        self.places = {b.name: place_of(b, self.env) for b in plan.buffers}
        self.kinds = {r.name: r.kind for r in plan.regions}
        self.memory = {r.name: Tags(evaluate(r.bytes, self.env)) for r in plan.regions if r.kind != "const"}
        self.effects = Effects(module, plan)
        self.written = self.effects.written
        self.updated: set[str] = set()
        self.call_rows = CallRows(module)
        self.progress: dict[str, tuple[tuple[object, ...], int, int]] = {}  # who updates it, rows done, rows in all
        arenas = frozenset(name for name, kind in self.kinds.items() if kind == "arena")
        self.held = InUse(self.places, arenas) if rows else None
        self.moment = 0
        self.running: tuple[object, ...] = ()  # the call with its arguments
        self.where = ""

    def _same_type(self, a: PlanBuffer, b: PlanBuffer) -> bool:
        """Views change the shape or the type: what does neither is a result of its own."""
        return (a.type.shape, a.type.dtype, a.ring) == (b.type.shape, b.type.dtype, b.ring)

    # --- the run ---------------------------------------------------------------------------------------

    def run(self) -> list[Diagnostic]:
        for b in self.plan.buffers:
            if b.alias and b.name not in self.written and self._same_type(b, self.places[b.alias].buffer):
                self.report(f"nothing writes {b.name}, which takes the bytes of {b.alias}")
        for b in self.plan.buffers:
            if b.role in ("input", "state"):
                self.write(b.name, 0, self.places[b.name].rows)
        self.body(self.plan.body)
        self.moment += 1
        self.where = "at the end"
        for name in self.plan.outputs:
            self.read(name, 0, self.places[name].rows)
        turned = {s.var for s in self.plan.body if isinstance(s, Repeat) and s.carry is not None}
        self.states({b.name for b in self.plan.buffers if b.role == "state" and not free_vars(b.offset) & turned})
        if self.held is not None and not self.found:
            self.bound(self.held)
        return self.found

    def body(self, body: tuple[PlanStmt, ...]) -> None:
        handed = False  # results are handed out in one step
        for stmt in body:
            if len(self.found) >= MAX_FAULTS:
                return
            match stmt:
                case PlanCall():
                    self.where = f"call {stmt.index} @{stmt.callee}"
                    self.moment += 1
                    self.call(stmt)
                case Copy():
                    self.where = f"copy {stmt.dst} = {stmt.src}"
                    again, handed = handed, stmt.dst in self.plan.outputs
                    self.moment += not (again and handed)
                    self.read(stmt.src, 0, self.places[stmt.src].rows)
                    self.write(stmt.dst, 0, self.places[stmt.dst].rows)
                case Repeat(carry=tuple()):
                    self.iterations(stmt)
                case Repeat():
                    for k in range(evaluate(stmt.lo, self.env), evaluate(stmt.hi, self.env)):
                        self.env[stmt.var] = k
                        self.body(stmt.body)
                case Bind(value=str() as name):
                    self.where = f"bind {stmt.var.name}"
                    self.read(name, 0, self.places[name].rows)
                case Wait() | Bind() | Check():
                    pass  # ``env`` holds to them

    def iterations(self, repeat: Repeat) -> None:
        """Some iterations stand for all, which differ in which constants and states they name: the first, the next,
        which finds what it left, and the last."""
        assert repeat.carry is not None  # so they are called
        into, last = repeat.carry
        count = evaluate(repeat.hi, self.env)
        placed = [b for b in self.plan.buffers if repeat.var in free_vars(b.offset)]
        states = {b.name for b in placed if b.role == "state"}
        names = {name for stmt in repeat.body for name in named(stmt)}
        for iteration in sorted({0, min(1, count - 1), count - 1}):
            self.env[repeat.var] = iteration
            self.updated -= names
            self.places |= {b.name: place_of(b, self.env) for b in placed}
            for name in states:
                self.write(name, 0, self.places[name].rows)
            if iteration and into != last:
                self.where = f"iteration {iteration}"
                self.read(last, 0, self.places[last].rows)
                self.write(into, 0, self.places[into].rows)
            self.body(repeat.body)
            self.states(states)

    def report(self, message: str) -> None:
        at = "".join(f" at {v.name} = {n}" for v, n in self.env.items())
        if len(self.found) < MAX_FAULTS:
            self.found.append(Diagnostic("planned", f"plan @{self.plan.name}, {self.where}{at}", message))

    def bound(self, held: InUse) -> None:
        """The lower bound that the plan states is no more than the buffers in use at once take."""
        align = max(r.align for r in self.plan.regions if r.kind == "arena")
        stated, maximum = self.plan.lower_bound, held.maximum(self.moment, align)
        if stated > maximum:
            self.report(f"a lower bound of {stated} bytes is stated, {maximum} of buffers are in use at once")

    # --- calls -----------------------------------------------------------------------------------------

    def call(self, call: PlanCall) -> None:
        at = self.call_rows.at(call, self.env)
        self._check_stated(at)
        if at.rows is not None and at.rows[0] >= at.rows[1]:
            return
        self.running = call.callee, call.args, call.dims
        touched = _Touched()
        for k, (name, mode) in enumerate(self.effects.arguments(call)):
            if mode == "update":
                self._update(at, k, touched)
            elif mode == "read":
                self._read(at, k, touched)
            if mode != "read":
                self._write(at, k, touched)
            self._follow(at, name, mode)
        self._check_sharing(at, touched)
        for name, lo, hi in touched.spoiled:
            self.spoil(name, lo, hi)
        for k, name, lo, hi in touched.filled:
            self.write(name, lo, hi, later=k in touched.in_place)
        self.running = ()

    def _check_stated(self, at: CallAt) -> None:
        """The rows that a call is for are some that there are, unless they are none."""
        if at.stated is not None:
            lo, hi = at.stated
            if lo < hi and not (lo >= 0 and hi <= at.extent):
                self.report(f"rows {lo}..{hi} leave 0..{at.extent}")

    def _read(self, at: CallAt, k: int, touched: _Touched) -> None:
        name = at.call.args[k]
        lo, hi = self.call_rows.touched(at, k, self.places[name], store=False)
        self.read(name, lo, hi)
        touched.reads += [(k, s) for s in self.spans(name, lo, hi)]

    def _update(self, at: CallAt, k: int, touched: _Touched) -> None:
        """What was there before: that of another buffer, nothing that matters, or its own."""
        name = at.call.args[k]
        if self._takes_over(name):
            touched.filled.append((k, name, 0, self.places[name].rows))  # what it does not write it keeps
        elif not self.call_rows.begins(at, k):
            self._read(at, k, touched)
            touched.in_place.add(k)

    def _write(self, at: CallAt, k: int, touched: _Touched) -> None:
        """A call for rows fills just those of a result that has as many, and may spoil what else it touches."""
        name, place = at.call.args[k], self.places[at.call.args[k]]
        lo, hi = self.call_rows.touched(at, k, place, store=True)
        touched.writes += [(k, s) for s in self.spans(name, lo, hi)]
        whole = at.function is None or at.rows is None or at.function.params[k].mode != "write"
        extent = 0 if whole else at.extent
        if extent == place.rows and at.rows not in ((lo, hi), (0, extent)):
            touched.spoiled.append((name, lo, hi))
        else:
            touched.filled.append((k, name, lo, hi))

    def _follow(self, at: CallAt, name: str, mode: str) -> None:
        """What calls for rows update is done once they did all rows, in order, each once."""
        rows = at.rows
        if mode != "update" or rows is None:
            if mode != "read":
                self.progress.pop(name, None)
            return
        before, done, extent = self.progress.get(name, (self.running, 0, 0))
        if before != self.running or done == extent:
            self._complete(name)
            done, extent = 0, at.extent
        if rows[0] != done:
            self.report(f"rows {rows[0]}..{rows[1]} go into {name} after rows 0..{done}")
        self.progress[name] = self.running, rows[1], extent

    def _complete(self, name: str) -> None:
        """Reports what is not updated by all rows yet."""
        _, done, extent = self.progress.get(name, ((), 0, 0))
        if done < extent:
            self.report(f"{name} has rows 0..{done} of {extent} in it")

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

    # --- bytes of a call -------------------------------------------------------------------------------

    def _check_sharing(self, at: CallAt, touched: _Touched) -> None:
        """What a call writes may overlap what it reads only where it is declared and proved."""
        call = at.call
        for k, span in touched.writes:
            for j, other in touched.reads:
                if j == k or not _meet(span, other):
                    continue
                if self._one_place(at, k, j):
                    touched.in_place.add(k)
                elif self.held is not None:
                    self.held.share(max(span[1], other[1]), min(span[2], other[2]), self.moment)
                if not self._in_place(at, k, j):
                    self.report(f"{call.args[k]} is written over {call.args[j]}, which the call still reads")
            for j, other in touched.writes:
                if j < k and _meet(span, other):
                    self.report(f"{call.args[j]} and {call.args[k]} are written to the same bytes")
        if call.scratch:
            place = self.places[call.scratch]
            scratch = (place.buffer.region, place.at, place.at + place.size)
            for k, span in (*touched.reads, *touched.writes):
                if _meet(scratch, span):
                    self.report(f"scratch overlaps {call.args[k]}")
            self.write(call.scratch, 0, place.rows)
            self.spoil(call.scratch, 0, place.rows)

    def _in_place(self, at: CallAt, out: int, source: int) -> bool:
        if at.function is None:
            return False
        a, b = self.places[at.call.args[out]], self.places[at.call.args[source]]
        shift = a.at - b.at
        part = None if at.every else at.rows
        same = self._one_place(at, out, source)
        taken = (a.at, a.row, a.kept) == (b.at, b.row, b.kept)  # what takes the place of an argument must say so
        if not same and (taken or part is not None or at.call.split is not None):
            return False
        key = (at.function.name, out, source, part, None if same else shift)
        if key not in self.proved:
            names = [at.function.params[k].buffer.name for k in (out, source)]
            if same:
                self.proved[key] = may_take_over(at.function, names[0], names[1], part)
            else:
                self.proved[key] = reads_come_first(at.function, names[0], names[1], shift)
        return self.proved[key]

    def _one_place(self, at: CallAt, out: int, source: int) -> bool:
        """Whether a result is declared to take the bytes of an argument, and lies row by row where that does."""
        a, b = self.places[at.call.args[out]], self.places[at.call.args[source]]
        same = (a.at, a.row, a.kept) == (b.at, b.row, b.kept)
        return same and bool(self.effects.chain(a.buffer.name) & self.effects.chain(b.buffer.name))

    # --- tags ------------------------------------------------------------------------------------------

    def spans(self, name: str, lo: int, hi: int) -> list[Span]:
        """The bytes of rows ``lo..hi``."""
        place = self.places[name]
        region = place.buffer.region
        if self.kinds[region] == "const":
            return []
        return [(region, at, at + count * place.row) for at, _, count in place.spans(lo, hi)]

    def write(self, name: str, lo: int, hi: int, later: bool = False) -> None:
        """Notes that rows ``lo..hi`` hold this buffer; ``later``: in bytes that the call read until now."""
        place = self.places[name]
        for at, first, count in place.spans(lo, hi):
            memory = self.memory[place.buffer.region]
            memory.write(at, at + count * place.row, name, first * place.row - at)
        if self.held is not None:
            self.held.note(name, self.moment + later)

    def spoil(self, name: str, lo: int, hi: int) -> None:
        """Notes that rows ``lo..hi`` hold nothing that may be read."""
        for region, start, end in self.spans(name, lo, hi):
            self.memory[region].write(start, end, "", 0)

    def read(self, name: str, lo: int, hi: int) -> None:
        """Checks that rows ``lo..hi`` hold what was written to the buffer, or to the one it is a view of."""
        place = self.places[name]
        if self.kinds[place.buffer.region] == "const" or lo >= hi or not place.size:
            return
        root = place
        while root.buffer.name not in self.written and root.buffer.alias:
            root = self.places[root.buffer.alias]
        if root is place:
            for at, row, count in place.spans(lo, hi):
                self._compare(place, at, at + count * place.row, row * place.row - at)
        elif place.size != root.size or root.kept != root.rows or place.kept != place.rows or place.at != root.at:
            self.report(f"{place.buffer.name} is no view of all of {root.buffer.name}")
        else:
            self._compare(root, place.at + lo * place.row, place.at + hi * place.row, -root.at)
        who = self.progress.get(root.buffer.name)
        if who is not None and who[0] != self.running:
            self._complete(root.buffer.name)
        if self.held is not None:
            self.held.note(root.buffer.name, self.moment)

    def _compare(self, root: Place, lo: int, hi: int, shift: int) -> None:
        if lo >= hi:
            return
        region = root.buffer.region
        wrong = self.memory[region].foreign(lo, hi, root.buffer.name, shift)
        if wrong is not None:
            at, buffer, byte = wrong
            held = self._name(self.places[buffer], byte) if buffer else "nothing"
            self.report(f"reads {self._name(root, at + shift)} at byte {at} of {region}, which holds {held}")

    def _name(self, place: Place, byte: int) -> str:
        return f"row {byte // place.row} of {place.buffer.name}"

    # --- states ----------------------------------------------------------------------------------------

    def states(self, of: set[str]) -> None:
        """At the end each of these states holds its newest version, or what it held before."""
        versions: dict[str, list[str]] = {name: [] for name in sorted(of)}
        for name in (n for n in self.places if n in self.written):
            for state in self.effects.chain(name) & versions.keys():
                versions[state].append(name)
        for state, names in versions.items():
            place = self.places[state]
            older = {old for name in names for old in self.effects.chain(name) - {name}}
            newest = [self.places[name] for name in names if name not in older]
            if len(newest) != 1:
                self.report(f"state {place.buffer.name} has {len(newest)} last versions")
            elif newest[0].at != place.at or newest[0].size != place.size:
                self.report(f"{newest[0].buffer.name} does not fill state {place.buffer.name}")
            else:
                self.read(newest[0].buffer.name, 0, newest[0].rows)


def _meet(a: Span, b: Span) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]
