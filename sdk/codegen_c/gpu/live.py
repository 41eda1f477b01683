"""Numbers of a run that kernels read from memory, so that a recording serves all their values.

A dim that says where something begins, how large it is, or how many work items there are, is part of a recording.
Others, such as the position that a language model has come to, are numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from sdk.codegen_c.gpu.grid import fixed_by
from sdk.compiler.ir.loops import Block, Buffer, Let, Load, Loops, Param
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanCall
from sdk.compiler.ir.types import I32
from sdk.compiler.sym import Var, free_vars

__all__ = ["LIVE", "free_dims", "live_of", "read_live"]

LIVE: Final = "live_numbers"  # name of the operand


def free_dims(module: Module, functions: Mapping[str, Loops]) -> dict[str, frozenset[Var]]:
    """Of each plan the dims that no place, size or number of work items depends on."""
    fixed = {name: fixed_by(loops) for name, loops in functions.items()}
    return {name: _free(plan, module, fixed) for name, plan in module.plans.items()}


def live_of(module: Module, functions: Mapping[str, Loops]) -> dict[str, tuple[Var, ...]]:
    """The dims of functions that some call gives what follows from such a dim."""
    free = free_dims(module, functions)
    found: dict[str, set[Var]] = {}
    for plan in module.plans.values():
        for call in _calls(plan):
            for var, given in zip(functions[call.callee].dims, call.dims, strict=True):
                if free_vars(given) & free[plan.name]:
                    found.setdefault(call.callee, set()).add(var)
    return {name: tuple(v for v in functions[name].dims if v in live) for name, live in found.items()}


def _calls(plan: Plan) -> Iterator[PlanCall]:
    return (s for s in plan.body if isinstance(s, PlanCall) and not s.extern)


def _free(plan: Plan, module: Module, fixed: Mapping[str, frozenset[Var]]) -> frozenset[Var]:
    placed = {v for b in plan.buffers for d in (b.offset, b.type.nbytes) for v in free_vars(d)}
    placed |= {v for r in plan.regions for v in free_vars(r.bytes)}
    placed |= {v for _, value in plan.places for v in free_vars(value)}
    for call in _calls(plan):
        loops = module.loops[call.callee]
        for var, given in zip(loops.dims, call.dims, strict=True):
            placed |= free_vars(given) if var in fixed[call.callee] else frozenset()
        placed |= {v for d in call.rows or () for v in free_vars(d)}
    return frozenset(plan.dims) - placed


def read_live(loops: Loops, live: tuple[Var, ...]) -> Loops:
    """A kernel that reads these of its dims from an operand of its own, the last one; as it is where it uses none.

    before: ``kernel f(n, pos) { for i in 0..n { o[i] = pos } }``
    after:  ``kernel f(n, live) { let pos = live[0]; for i in 0..n { o[i] = pos } }``
    """
    params = (*loops.params, Param(Buffer(LIVE, I32, (len(live),)), "read"))
    lets = tuple(Let(var.name, Load(LIVE, (k,), I32)) for k, var in enumerate(live))
    dims = tuple(var for var in loops.dims if var not in live)
    return replace(loops, dims=dims, params=params, body=Block((*lets, *loops.body.body)))
