"""Turns one after the other: for what is recorded or listed call by call, and has no loop over turns.

before: repeat turn in 0..2 carry %x = %y { call 0 @f(%x, %w, %y) }
after:  call 0 @f(%x, %w_0, %y_0); call 1 @f(%y_0, %w_1, %y_1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sdk.compiler.ir.graph import fresh_name
from sdk.compiler.ir.module import Module, State
from sdk.compiler.ir.plan import Bind, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, named
from sdk.compiler.sym import Dim, free_vars, substitute

__all__ = ["unrolled"]

Names = Mapping[tuple[str, int], str]  # what a constant or state is called in a turn


def unrolled(module: Module) -> Module:
    """The planned module without turns, whose constants and states are one for each turn; itself where it has none."""
    if not any(_is_turned(s) for p in module.plans.values() for s in p.body):
        return module
    taken = {c.name for c in module.constants} | {*module.states}
    taken |= {b.name for p in module.plans.values() for b in p.buffers}
    names: dict[tuple[str, int], str] = {}
    turns = {s.name: s.turns for s in module.stacks.values()} | {s.name: s.turns for s in module.states.values()}
    for name, count in turns.items():
        names |= {(name, k): fresh_name(f"{name}_{k}", taken) for k in range(count) if count > 1}
    consts = dict(module.consts)
    for stack in module.stacks.values():
        for k in range(stack.turns):
            consts[names[stack.name, k]] = replace(stack.of_turn(k), name=names[stack.name, k])
    states: dict[str, State] = {}
    for state in module.states.values():
        own = [names[state.name, k] for k in range(state.turns)] if state.turns > 1 else [state.name]
        states |= {name: replace(state, name=name, turns=1) for name in own}
    plans = {p.name: _Unroller(p, names, taken).run() for p in module.plans.values()}
    return replace(module, consts=consts, stacks={}, states=states, plans=plans)


def _is_turned(stmt: PlanStmt) -> bool:
    return isinstance(stmt, Repeat) and stmt.carry is not None


class _Unroller:
    """One plan. ``now`` is what each buffer is called at the statement at hand."""

    def __init__(self, plan: Plan, names: Names, taken: set[str]) -> None:
        self.plan, self.names, self.taken = plan, names, set(taken)
        self.turned = {s.var for s in plan.body if isinstance(s, Repeat) and s.carry is not None}
        self.buffers: list[PlanBuffer] = []
        self.now: dict[str, str] = {}
        self.calls = 0

    def run(self) -> Plan:
        body: list[PlanStmt] = []
        inside = self._inside()
        for b in self.plan.buffers:
            if b.name not in inside and free_vars(b.offset).isdisjoint(self.turned):
                self.buffers.append(b)
        for b in self.plan.buffers:
            for var in free_vars(b.offset) & self.turned:
                if b.role in ("const", "state"):
                    own = ((k, self.names[b.name, k]) for k in range(var.hi + 1))
                    offset = {k: 0 if b.role == "const" else substitute(b.offset, {var: k}) for k in range(var.hi + 1)}
                    self.buffers += (replace(b, name=name, offset=offset[k]) for k, name in own)
        for stmt in self.plan.body:
            if isinstance(stmt, Repeat) and stmt.carry is not None:
                body += self._repeat(stmt, *stmt.carry)
            else:
                body.append(self._one(stmt))
        outputs = tuple(self.now.get(name, name) for name in self.plan.outputs)
        made = {b.name for b in self.buffers} | {""}
        buffers = (b if b.alias in made else replace(b, alias=self.now.get(b.alias, b.alias)) for b in self.buffers)
        return replace(self.plan, body=tuple(body), buffers=tuple(buffers), outputs=outputs)

    def _inside(self) -> set[str]:
        """The buffers that only turns make."""
        outside = {*self.plan.inputs, *(b.name for b in self.plan.buffers if b.role in ("const", "state"))}
        found: set[str] = set()
        for stmt in self.plan.body:
            if isinstance(stmt, Repeat) and stmt.carry is not None:
                outside.add(stmt.carry[0])
                found |= {name for one in stmt.body for name in named(one)} - outside
            else:
                outside |= set(named(stmt)) - found
        return found

    def _repeat(self, repeat: Repeat, into: str, last: str) -> Iterator[PlanStmt]:
        own = {name for stmt in repeat.body for name in named(stmt)} & self._inside()
        before = self.now.get(into, into)
        for turn in range(repeat.var.hi + 1):
            self.now[into] = before
            for b in self.plan.buffers:
                if repeat.var in free_vars(b.offset) and b.role in ("const", "state"):
                    self.now[b.name] = self.names[b.name, turn]
                elif b.name in own:
                    self.now[b.name] = fresh_name(f"{b.name}_{turn}", self.taken)
            for b in (b for b in self.plan.buffers if b.name in own):
                at: Dim = substitute(b.offset, {repeat.var: turn})
                alias = self.now.get(b.alias, b.alias)
                self.buffers.append(replace(b, name=self.now[b.name], offset=at, alias=alias))
            yield from map(self._one, repeat.body)
            before = self.now.get(last, last)
        self.now.pop(into, None)

    def _one(self, stmt: PlanStmt) -> PlanStmt:
        now = self.now
        match stmt:
            case PlanCall():
                self.calls += 1
                args, scratch = (now.get(a, a) for a in stmt.args), now.get(stmt.scratch, stmt.scratch)
                return replace(stmt, index=self.calls - 1, args=tuple(args), scratch=scratch)
            case Copy():
                return Copy(now.get(stmt.dst, stmt.dst), now.get(stmt.src, stmt.src))
            case Bind(value=str() as name):
                return replace(stmt, value=now.get(name, name))
            case _:
                return stmt
