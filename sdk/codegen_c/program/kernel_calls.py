"""What the calls of a plan give a kernel: numbers for its dims, and constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sdk.codegen_c.functions.samples import KernelCall
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanCall
from sdk.compiler.sym import evaluate, free_vars

__all__ = ["kernel_calls"]

SMALL: Final = 7  # multiples above the least value of a dim


def kernel_calls(module: Module, loops: Loops, calls: Iterable[tuple[Plan, PlanCall]]) -> list[KernelCall]:
    """The calls of ``loops``, those first that give a dim its least or its greatest value. Of open dims both ends
    count, and a small value, with which a call can be tried."""
    found: dict[tuple[int, ...], KernelCall] = {}
    for plan, call in calls:
        constants = {
            p.buffer.name: const.arrays[0]
            for p, arg in zip(loops.params, call.args, strict=True)
            if (name := _constant(plan, arg)) is not None and (const := module.constant(name)) is not None
        }
        open_dims = {v for d in call.dims for v in free_vars(d)}
        for steps in (SMALL, None, 0):
            env = {v: v.maximum if steps is None else min(v.maximum, v.minimum + steps * v.multiple) for v in open_dims}
            dims = tuple(evaluate(d, env) for d in call.dims)
            found.setdefault(dims, KernelCall(dims, constants))
    return _ends_first(list(found.values()))


def _constant(plan: Plan, name: str) -> str | None:
    """The constant that an argument is, whatever it is seen as."""
    buffer = plan.buffer(name)
    while buffer.role != "const" and buffer.alias:
        buffer = plan.buffer(buffer.alias)
    return buffer.name if buffer.role == "const" else None


def _ends_first(calls: Sequence[KernelCall]) -> list[KernelCall]:
    ends: list[KernelCall] = []
    for k in range(len(calls[0].dims) if calls else 0):
        values = [call.dims[k] for call in calls]
        ends += (calls[values.index(min(values))], calls[values.index(max(values))])
    return list({call.dims: call for call in (*ends, *calls)}.values())
