"""A planned module as C files: header, code, constants, and golden cases where there are some."""

from __future__ import annotations

import re

from sdk.codegen_c.c99.expr import literal
from sdk.codegen_c.c99.header import header_file
from sdk.codegen_c.c99.interface import Entry, Interface, quoted
from sdk.codegen_c.c99.names import scalar_name
from sdk.codegen_c.c99.options import EmitOptions, banner
from sdk.codegen_c.c99.plan import RunPrinter
from sdk.codegen_c.c99.selftest import selftest_file
from sdk.codegen_c.c99.stmt import CFunction, emit_loops
from sdk.codegen_c.c99.templates import render
from sdk.codegen_c.c99.unit import Unit
from sdk.codegen_c.c99.weights import Weights, collect, weights_file
from sdk.compiler.ir.module import Module, State
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.sym import evaluate
from sdk.errors import BuildError, UsageError

__all__ = ["emit", "interface_of"]


def interface_of(module: Module, prefix: str, options: EmitOptions) -> Interface:
    """The interface of a planned module.

    Raises:
        UsageError: ``prefix`` is no C identifier.
        BuildError: the module is not planned.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise UsageError(f"{prefix!r} is not a C identifier", hint="letters, digits and _, a letter first")
    if module.stage != "planned":
        raise BuildError(f"module {module.name} is at stage {module.stage}, C is written from planned ones")
    return Interface(module, prefix, options)


def emit(module: Module, prefix: str, *, isa: frozenset[str], options: EmitOptions) -> dict[str, str]:
    """The files of a model: ``<prefix>.h``, ``.c``, ``_weights.c``; with golden cases ``_selftest.c``.

    Args:
        module: of stage "planned".
        prefix: C identifier that starts every external name.
        isa: capabilities the code may use.
        options: provenance and what else the module does not know.

    Raises:
        BuildError: a construct without a C99 spelling, or a module that is not planned.
        UsageError: ``prefix`` is no C identifier.
    """
    api = interface_of(module, prefix, options)
    weights = collect(module, prefix)
    files = {
        f"{prefix}.h": header_file(api, weights),
        f"{prefix}.c": _code_file(api, weights, Unit(prefix, isa)),
        f"{prefix}_weights.c": weights_file(weights, prefix, options),
    }
    if options.golden:
        files[f"{prefix}_selftest.c"] = selftest_file(api)
    return files


def _code_file(api: Interface, weights: Weights, unit: Unit) -> str:
    kernels = _kernels(api.module, unit)
    entries = [text for e in api.entries for text in RunPrinter(unit, api, e, weights, kernels).functions()]
    reset = [line for s in api.module.states.values() for line in _reset(api, s, weights, unit)]
    return render(
        "model.c",
        banner=banner(api.options, f"{api.prefix}: code."),
        m=api.prefix,
        M=api.prefix.upper(),
        preamble=unit.preamble(),
        weights=weights.declarations(),
        functions=[k.text for k in kernels.values()],
        op_names=[text for e in api.entries for text in _op_names(e)],
        arena_bytes=api.region_bytes("arena"),
        arena_varies=api.arena_varies,
        state_bytes=api.region_bytes("state"),
        reset=reset,
        entries=entries,
    )


def _kernels(module: Module, unit: Unit) -> dict[str, CFunction]:
    """The loops functions that the plans call, in the order of their first call."""
    called = [
        s.callee
        for p in module.plans.values()
        for s in walk_plan(p.body)
        if isinstance(s, PlanCall) and not s.extern
    ]
    out = {}
    for name in dict.fromkeys(called):
        if name not in module.loops:
            raise BuildError(f"a plan calls @{name}, which the module lacks")
        loops = module.loops[name]
        out[name] = emit_loops(unit, loops, scratch_layout(loops).offsets)
    return out


def _op_names(entry: Entry) -> list[str]:
    calls = {s.index: s for s in walk_plan(entry.plan.body) if isinstance(s, PlanCall)}
    return [quoted(" ".join([f"{calls[k].callee}:", *calls[k].ops])) for k in sorted(calls)]


def _reset(api: Interface, state: State, weights: Weights, unit: Unit) -> list[str]:
    """Statements that put a state back to its start."""
    plan = next(
        p
        for p in api.module.plans.values()
        if any(b.role == "state" and b.name == state.name for b in p.buffers)
    )
    offset = evaluate(plan.buffer(state.name).offset, {})
    size, type = state.type.max_bytes, state.type.dtype
    place = f"self->state + {offset}" if offset else "self->state"
    if isinstance(state.init, str):
        return [f"{unit.helper('copy')}({place}, {weights.symbols[state.init]}, {size}u);"]
    value = state.init
    if type.nbytes == 1 or value == 0:
        return [f"{unit.helper('fill')}({place}, {value & 0xFF}, {size}u);"]
    pointer = f"(({scalar_name(type)} *)(void *)({place}))"
    return [
        f"for (int32_t i = 0; i < {size // type.nbytes}; ++i) {{",
        f"    {pointer}[i] = {literal(value, type).text};",
        "}",
    ]
