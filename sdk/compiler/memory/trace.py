"""A run of a plan on paper: which bytes of every arena hold something that is still needed, call by call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Copy, Plan, PlanCall, PlanStmt, Repeat, walk_plan
from sdk.compiler.memory.effects import Effects
from sdk.compiler.memory.placed import CallRows, place_of
from sdk.compiler.sym import Var, evaluate

__all__ = ["LiveBytes", "Moment", "Trace", "trace_plan"]


@dataclass(frozen=True, slots=True)
class LiveBytes:
    """Bytes ``lo..hi`` of a region that hold a part of ``buffer``."""

    region: str
    lo: int
    hi: int
    buffer: str


@dataclass(frozen=True, slots=True)
class Moment:
    """One call (or copy) of the run: the step of its statement, its rows where it has some, and what is held while it
    runs: what was made before and is needed by it or later, and what it makes. In order of regions and bytes."""

    step: int
    rows: tuple[int, int] | None
    held: tuple[LiveBytes, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all arenas that are held."""
        return sum(h.hi - h.lo for h in self.held)


@dataclass(frozen=True)
class Trace:
    """A whole run. Steps number calls and copies in the order of the text, from 1; step 0 hands over the inputs, the
    step after the last takes the results."""

    steps: tuple[PlanCall | Copy, ...]
    moments: tuple[Moment, ...]


@dataclass
class _Event:
    """What one call reads, writes and uses as scratch: buffers with rows from and to."""

    step: int
    rows: tuple[int, int] | None = None
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    writes: list[tuple[str, int, int]] = field(default_factory=list)


def trace_plan(module: Module, plan: Plan, env: Mapping[Var, int]) -> Trace:
    """Runs ``plan`` of the planned ``module`` at dims ``env``, which give those that the run computes too."""
    return _Tracer(module, plan, env).run()


class _Tracer:
    """Collects the events of a run in order, then goes back through them: what is needed is known from the end."""

    def __init__(self, module: Module, plan: Plan, env: Mapping[Var, int]) -> None:
        self.plan, self.env = plan, plan.placed(env)
        arenas = {r.name for r in plan.regions if r.kind == "arena"}
        self.places = {b.name: place_of(b, self.env) for b in plan.buffers if b.region in arenas}
        self.alias = {b.name: b.alias for b in plan.buffers}
        self.effects = Effects(module, plan)
        self.call_rows = CallRows(module)
        self.events: list[_Event] = []
        self.steps = tuple(s for s in walk_plan(plan.body) if isinstance(s, PlanCall | Copy))

    def run(self) -> Trace:
        start = _Event(0, writes=self._whole(self.plan.inputs))
        self._body(self.plan.body, 1)
        end = _Event(len(self.steps) + 1, reads=self._whole(self.plan.outputs))
        moments = list(self._backwards([start, *self.events, end]))
        return Trace(self.steps, tuple(moments[::-1]))

    # --- forwards: what happens --------------------------------------------------------------------------

    def _whole(self, names: tuple[str, ...]) -> list[tuple[str, int, int]]:
        return [(name, 0, self.places[name].rows) for name in names if name in self.places]

    def _body(self, body: tuple[PlanStmt, ...], step: int) -> None:
        for stmt in body:
            match stmt:
                case PlanCall():
                    self._call(stmt, step)
                case Copy():
                    self.events.append(_Event(step, None, self._whole((stmt.src,)), self._whole((stmt.dst,))))
                case Repeat():
                    lo, hi = evaluate(stmt.lo, self.env), evaluate(stmt.hi, self.env)
                    if stmt.carry is not None:
                        hi = min(hi, lo + 2)  # all iterations use the arenas alike
                    for k in range(lo, hi):
                        self.env[stmt.var] = k
                        self._body(stmt.body, step)
                case Bind(value=str() as name):
                    self.events.append(_Event(max(step - 1, 0), None, self._whole((name,))))
                case _:
                    pass  # needs no bytes
            step += sum(isinstance(s, PlanCall | Copy) for s in walk_plan((stmt,)))

    def _call(self, call: PlanCall, step: int) -> None:
        at = self.call_rows.at(call, self.env)
        if at.rows is not None and at.rows[0] >= at.rows[1]:
            return
        event = _Event(step, at.rows)
        for k, (name, mode) in enumerate(self.effects.arguments(call)):
            if name not in self.places:
                continue
            place = self.places[name]
            if mode == "read" or (mode == "update" and not self.call_rows.begins(at, k)):
                event.reads.append((name, *self.call_rows.touched(at, k, place, store=False)))
            if mode != "read":
                event.writes.append((name, *self.call_rows.touched(at, k, place, store=True)))
        if call.scratch:
            event.writes += self._whole((call.scratch,))
        self.events.append(event)

    # --- backwards: what is needed -----------------------------------------------------------------------

    def _backwards(self, events: list[_Event]) -> Iterator[Moment]:
        """The moments, last first."""
        needed: dict[str, _Bytes] = {p.buffer.region: _Bytes() for p in self.places.values()}
        for event in reversed(events):
            read = [(self._maker(n), *span) for n, lo, hi in event.reads for span in self._bytes(n, lo, hi)]
            made = [(n, *span) for n, lo, hi in event.writes for span in self._bytes(n, lo, hi)]
            during = {name: _Bytes(list(found.items)) for name, found in needed.items()}
            for name, lo, hi in (*read, *made):
                during[self.places[name].buffer.region].put(lo, hi, name)
            for name, lo, hi in made:
                needed[self.places[name].buffer.region].cut(lo, hi)
            for name, lo, hi in read:
                needed[self.places[name].buffer.region].put(lo, hi, name)
            held = (LiveBytes(region, *item) for region in sorted(during) for item in during[region].items)
            yield Moment(event.step, event.rows, tuple(held))

    def _bytes(self, name: str, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """The bytes that hold rows ``lo..hi`` in the end, in pieces."""
        place = self.places[name]
        for at, _, count in place.spans(max(lo, hi - place.kept), hi):
            yield at, at + count * place.row

    def _maker(self, name: str) -> str:
        """The buffer that was written, of which ``name`` is a view."""
        while name not in self.effects.written and self.alias[name] in self.places:
            name = self.alias[name]
        return name


@dataclass
class _Bytes:
    """Disjoint intervals of bytes in order, each with the buffer that it holds a part of."""

    items: list[tuple[int, int, str]] = field(default_factory=list)

    def cut(self, lo: int, hi: int) -> None:
        """Takes out what is between."""
        if lo < hi:
            self._replace(lo, hi, [])

    def put(self, lo: int, hi: int, buffer: str) -> None:
        """These bytes now hold ``buffer``."""
        if lo < hi:
            self._replace(lo, hi, [(lo, hi, buffer)])

    def _replace(self, lo: int, hi: int, new: list[tuple[int, int, str]]) -> None:
        items = self.items
        first = bisect_left(items, (lo,))
        if first and items[first - 1][1] > lo:
            first -= 1
        end = first
        while end < len(items) and items[end][0] < hi:
            end += 1
        before = [(items[first][0], lo, items[first][2])] if end > first and items[first][0] < lo else []
        after = [(hi, items[end - 1][1], items[end - 1][2])] if end > first and items[end - 1][1] > hi else []
        first, parts = (first - 1, [items[first - 1]]) if first else (first, [])
        end, tail = (end + 1, [items[end]]) if end < len(items) else (end, [])
        for item in (*before, *new, *after, *tail):
            if parts and parts[-1][1] == item[0] and parts[-1][2] == item[2]:
                parts[-1] = (parts[-1][0], item[1], item[2])
            else:
                parts.append(item)
        items[first:end] = parts
