"""What the statements of a plan read and write, by the modes of the functions they call."""

from __future__ import annotations

from functools import cached_property

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanCall, walk_plan

__all__ = ["Effects", "extern_outputs"]


class Effects:
    """The effects of the calls and copies of one plan."""

    def __init__(self, module: Module, plan: Plan) -> None:
        """``module`` has the functions that ``plan`` calls."""
        self.module, self.plan = module, plan
        self.by_name = {b.name: b for b in plan.buffers}
        self.externs = extern_outputs(module, plan)
        self._chains: dict[str, frozenset[str]] = {}

    def arguments(self, call: PlanCall) -> list[tuple[str, str]]:
        """Each argument with its mode."""
        function = self.module.loops.get(call.callee)
        if function is not None:
            return [(name, p.mode) for name, p in zip(call.args, function.params, strict=True)]
        outs = self.externs[call.index]
        return [(name, "write" if name in outs else "read") for name in call.args]

    @cached_property
    def written(self) -> set[str]:
        """Buffers with contents of their own; any other is a view of its alias."""
        out = {b.name for b in self.plan.buffers if b.role in ("input", "const", "state")}
        for stmt in walk_plan(self.plan.body):
            if isinstance(stmt, Copy):
                out.add(stmt.dst)
            elif isinstance(stmt, PlanCall):
                out |= {name for name, mode in self.arguments(stmt) if mode != "read"}
        return out

    def chain(self, name: str) -> frozenset[str]:
        """The buffers whose bytes this one may share, itself included."""
        if name not in self._chains:
            alias = self.by_name[name].alias
            self._chains[name] = (self.chain(alias) if alias else frozenset()) | {name}
        return self._chains[name]


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
