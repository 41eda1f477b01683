"""The entries of a planned module as launches of kernels: data for a host, dims as text; and its constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Region, Repeat
from sdk.compiler.sym import Dim, Var, show, substitute
from sdk.errors import BuildError

__all__ = ["Launched", "launches"]

Record = dict[str, Any]
_ALIGN: Final = 64  # of constants: what the widest load of a kernel wants


class Launched(Protocol):
    """A kernel as a launch needs it: its name, and the extent of each hardware axis that it uses."""

    @property
    def name(self) -> str:
        """What the kernel is called."""

    @property
    def extents(self) -> Mapping[str, Dim]:
        """The extents by axis."""


@dataclass(frozen=True)
class _Weights:
    """Constants as the bytes of one file, little-endian, and where each begins: equal ones are there once."""

    data: bytes
    places: Mapping[str, int]


def launches(
    module: Module, prefix: str, options: EmitOptions, kernels: Mapping[str, Launched], about: object
) -> tuple[Record, bytes]:
    """What a host needs to replay the entries of a module, as data, and its file of constants; ``about`` says where
    the kernels are.

    Raises:
        BuildError: a statement that has no launch, or states.
    """
    if module.states:
        why, hint = "a list of launches has no place for them", "without --backend the model is printed as C, which has"
        raise BuildError(f"{module.name} keeps states between runs: {', '.join(module.states)}", why=why, hint=hint)
    weights = _weights(module)
    records = {
        "schema": 1,
        "model": options.source,
        "model_hash": options.model_hash,
        "kernels": about,
        "weights": f"{prefix}_weights.bin",
        "entries": [_entry_record(plan, module, kernels, weights) for plan in module.plans.values()],
    }
    return records, weights.data


def _weights(module: Module) -> _Weights:
    """The constants that plans use."""
    used = dict.fromkeys(b.name for plan in module.plans.values() for b in plan.buffers if b.role == "const")
    data, places, known = bytearray(), {}, dict[str, int]()
    for name in used:
        const = module.consts[name]
        if const.digest not in known:
            known[const.digest] = len(data)
            data += const.data.astype(const.data.dtype.newbyteorder("<"), copy=False).tobytes()
            data += bytes(-len(data) % _ALIGN)
        places[name] = known[const.digest]
    return _Weights(bytes(data), places)


def _offset(plan: Plan, buffer: PlanBuffer, weights: _Weights) -> Dim:
    """Where a buffer begins in its region; a constant is in the file of constants, whatever it is seen as."""
    while buffer.role != "const" and plan.region(buffer.region).kind == "const" and buffer.alias:
        buffer = plan.buffer(buffer.alias)
    return weights.places[buffer.name] if buffer.role == "const" else buffer.offset


def _entry_record(plan: Plan, module: Module, kernels: Mapping[str, Launched], weights: _Weights) -> Record:
    """What a host needs to replay ``plan``: every number that may depend on the dims is text in their names.

    Raises:
        BuildError: a statement that has no launch.
    """
    return {
        "entry": plan.name,
        "dims": {v.name: [v.lo, v.hi, v.multiple] for v in plan.dims},
        "regions": {r.name: _region(r, weights) for r in plan.regions},
        "buffers": {
            b.name: {
                "dtype": str(b.type.dtype),
                "shape": [_text(d) for d in b.type.shape],
                "region": b.region,
                "offset": _text(_offset(plan, b, weights)),
                "role": b.role,
                "alias": b.alias,
            }
            for b in plan.buffers
        },
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "body": [_statement(s, module, kernels) for s in plan.body],
    }


def _region(region: Region, weights: _Weights) -> Record:
    if region.kind == "const":
        return {"kind": "const", "bytes": str(len(weights.data)), "align": _ALIGN}
    return {"kind": region.kind, "bytes": _text(region.bytes), "align": region.align}


def _statement(stmt: PlanStmt, module: Module, kernels: Mapping[str, Launched]) -> Record:
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


def _launch(call: PlanCall, loops: Loops, kernel: Launched) -> Record:
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
