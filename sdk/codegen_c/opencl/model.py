"""An entry as data for a host: buffers at places in regions, launches and copies in order, dims as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sdk.codegen_c.opencl.stmt import Kernel
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanCall, PlanStmt, Repeat
from sdk.compiler.sym import Dim, Var, show, substitute
from sdk.errors import BuildError

__all__ = ["entry_record", "records_text"]

Record = dict[str, Any]


def entry_record(plan: Plan, module: Module, kernels: Mapping[str, Kernel]) -> Record:
    """What a host needs to replay ``plan``: every number that may depend on the dims is text in their names.

    Raises:
        BuildError: a statement that has no launch.
    """
    return {
        "entry": plan.name,
        "dims": {v.name: [v.lo, v.hi, v.multiple] for v in plan.dims},
        "regions": {r.name: {"kind": r.kind, "bytes": _text(r.bytes), "align": r.align} for r in plan.regions},
        "buffers": {
            b.name: {
                "dtype": str(b.type.dtype),
                "shape": [_text(d) for d in b.type.shape],
                "region": b.region,
                "offset": _text(b.offset),
                "role": b.role,
                "alias": b.alias,
            }
            for b in plan.buffers
        },
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "body": [_statement(s, module, kernels) for s in plan.body],
    }


def records_text(records: list[Record]) -> str:
    """The entries as JSON."""
    return json.dumps({"schema": 1, "entries": records}, indent=1) + "\n"


def _statement(stmt: PlanStmt, module: Module, kernels: Mapping[str, Kernel]) -> Record:
    match stmt:
        case PlanCall() if not stmt.extern:
            return _launch(stmt, module.loops[stmt.callee], kernels[stmt.callee])
        case Copy():
            return {"copy": [stmt.dst, stmt.src]}
        case Repeat():
            body = [_statement(s, module, kernels) for s in stmt.body]
            return {"repeat": stmt.var.name, "lo": _text(stmt.lo), "hi": _text(stmt.hi), "body": body}
        case _:
            raise BuildError(f"{type(stmt).__name__} has no place in a list of launches")


def _launch(call: PlanCall, loops: Loops, kernel: Kernel) -> Record:
    env: dict[Var, Dim] = dict(zip(loops.dims, call.dims, strict=True))
    numbers = [*call.dims]
    if loops.rows is not None:
        lo, hi = call.rows or (0, substitute(loops.rows.extent, env))
        env |= {loops.rows.lo: lo, loops.rows.hi: hi}
        numbers += [lo, hi]
    extents = {axis: _text(substitute(extent, env)) for axis, extent in kernel.extents.items()}
    return {
        "kernel": kernel.name,
        "buffers": list(call.args),
        "numbers": [_text(n) for n in numbers],
        "extents": extents,
        "ops": list(call.ops),
    }


def _text(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else show(dim)
