"""Default rules: which schedule a loops function gets on a machine. No tuning, no search."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from sdk.compiler.ir.loops import Loops
from sdk.compiler.machines.machine import Machine, Rule
from sdk.compiler.machines.nest import Choice, Nest
from sdk.compiler.schedules.locate import ScheduleError

__all__ = ["alternatives", "rule_for", "schedule_nest"]


def schedule_nest(nest: Nest, machine: Machine) -> Loops:
    """The nest scheduled for ``machine``; as it is where no rule helps, or where an obligation of each does not hold
    (symbolic extents, operands laid out otherwise): the plain nest is always right."""
    return rule_for(nest, machine)[1]


def rule_for(nest: Nest, machine: Machine) -> tuple[Rule | None, Loops]:
    """The first of the machine's rules that applies and whose obligations hold, with what it makes of the nest; None
    with the plain nest where there is none."""
    for rule in machine.rules:
        if rule.applies(nest, machine):
            try:
                return rule, rule.schedule(nest, machine)
            except ScheduleError:
                continue
    return None, nest.loops


def alternatives(nest: Nest, first: Loops, machine: Machine) -> Iterator[tuple[Choice, Loops]]:
    """The candidates for a nest beside ``first``, what ``schedule_nest`` makes of it, each schedule once. Those that no
    rule takes are left out, and those with an operand packed that is not constant. Only products of bytes have any."""
    if first is nest.loops or nest.factors != "bytes":
        return
    seen = {_work(first)}
    for choice in machine.choices(nest.kind)[1:]:
        made = schedule_nest(replace(nest, choice=choice), machine)
        packed = all(map(nest.constant, made.layouts))
        if made is not nest.loops and packed and _work(made) not in seen:
            seen.add(_work(made))
            yield choice, made


def _work(loops: Loops) -> Hashable:
    """What two schedules that are the same have alike."""
    return loops.params, loops.body
