"""What the calls of a plan have to do, whatever they take: kept with a build, for profiles of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sdk.compiler.analysis.unify import unify
from sdk.compiler.analysis.work import macs
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanCall, Repeat, iterated
from sdk.compiler.memory.effects import Effects
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.passes.repeats import flattened
from sdk.compiler.passes.unroll_repeats import UnrollRepeats
from sdk.compiler.sym import Dim, free_vars, max_value, substitute
from sdk.driver.built import OpFacts

__all__ = ["known", "op_facts"]


def op_facts(planned: Module, fused: Module) -> Mapping[str, tuple[OpFacts, ...]]:
    """Of each entry of a planned module the calls in order; ``fused`` is the same module before it was scheduled."""
    return {plan.name: tuple(_facts(planned, plan, fused)) for plan in planned.plans.values()}


def _facts(planned: Module, plan: Plan, fused: Module) -> Iterator[OpFacts]:
    graph = fused.graphs[plan.name]
    if any(isinstance(s, Repeat) and s.carry is not None for s in plan.body):
        flat, _ = flattened(fused, graph)
    else:
        flat = UnrollRepeats().run(fused).graphs[plan.name]
    makers = {v.name: node for node in flat.body if isinstance(node, Call) for v in node.outs}
    rows = {row.step: row for row in plan_summary(planned, plan).timeline}
    effects = Effects(planned, plan)
    for step, (stmt, iterations) in enumerate(iterated(plan), 1):
        if isinstance(stmt, Copy):
            continue
        made = [name for name, mode in effects.arguments(stmt) if mode != "read"]
        node = next((makers[name] for name in made if name in makers), None)
        kind = stmt.callee if node is None else node.callee
        yield OpFacts(
            index=stmt.index,
            step=step,
            name=stmt.callee,
            kind=re.sub(r"_\d+(?=_|$)", "", kind),
            source_ops=" + ".join(stmt.ops),
            macs=_counted(plan, 0 if node is None else iterations * _macs(plan, fused, node)),
            bytes=_counted(plan, iterations * _moved(plan, stmt)),
            live_bytes=rows[step].live_bytes,
        )


def _macs(plan: Plan, fused: Module, node: Call) -> Dim:
    """Products of the function that a node calls, in the dims of the entry."""
    function = fused.loops.get(node.callee)
    if function is None:
        return 0
    given = (*node.args, *node.outs)
    pairs = [(p.buffer.name, p.buffer.type, v.type) for p, v in zip(function.params, given, strict=True)]
    env = unify(function.dims, pairs, {v.name: v for v in (*plan.dims, *plan.fresh)}, lambda _: None)
    return substitute(macs(function), env)


def known(plan: Plan, dim: Dim) -> Dim | None:
    """A dim of those that callers give; at most where a run finds out more, None where nothing bounds that."""
    return dim if free_vars(dim) <= set(plan.dims) else max_value(dim)


def _counted(plan: Plan, dim: Dim) -> Dim:
    found = known(plan, dim)
    return 0 if found is None else found


def _moved(plan: Plan, call: PlanCall) -> Dim:
    """Bytes of all that the call reads and writes, each counted once."""
    total: Dim = 0
    for name in dict.fromkeys(call.args):
        total = total + plan.buffer(name).type.nbytes
    return total
