"""A planned module as C files: header, code, constants, and golden cases where there are some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from sdk.codegen_c.base import EmitOptions, Emitted, EntryStack, Files
from sdk.codegen_c.functions.function import CFunction
from sdk.codegen_c.functions.stmt import emit_loops
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.program.banner import banner
from sdk.codegen_c.program.dispatch import pragmas
from sdk.codegen_c.program.glue import agent_files
from sdk.codegen_c.program.header import header_file
from sdk.codegen_c.program.interface import Entry, Interface, quoted
from sdk.codegen_c.program.kernel_calls import kernel_calls
from sdk.codegen_c.program.notes import guards, kernel_note, layers_of
from sdk.codegen_c.program.parallel_calls import parts_of
from sdk.codegen_c.program.plan import RunPrinter
from sdk.codegen_c.program.selftest import selftest_file
from sdk.codegen_c.program.state import StatePrinter
from sdk.codegen_c.program.steps import StepKernel, by_steps, step_kernels
from sdk.codegen_c.program.weights import Weights, collect, collect_file, weights_file
from sdk.codegen_c.program.weights_blob import BLOB_ABOVE, blob_files
from sdk.codegen_c.program.weights_mapped import mapped_files
from sdk.compiler.analysis.work import PART_WORK, work
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanCall, walk_plan
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.sym import max_value
from sdk.errors import BuildError
from sdk.templates import render

__all__ = ["emit"]

LITTLE: Final = 64  # kernels take little of the time with less than this part of it


class Printer(Protocol):
    """What makes the printer of an entry."""

    def __call__(
        self,
        unit: Unit,
        api: Interface,
        entry: Entry,
        weights: Weights,
        functions: dict[str, CFunction],
        rows: dict[str, StepKernel],
        /,
    ) -> RunPrinter:
        """The printer."""


def emit(
    module: Module,
    prefix: str,
    *,
    isa: frozenset[str],
    options: EmitOptions,
    printer: Printer = RunPrinter,
    more: Sequence[str] = (),
) -> Emitted:
    """The files of a planned module: ``<prefix>.h``, ``.c``, ``_weights.c``; with golden cases ``_selftest.c``.

    Many constants come as ``_weights.S`` and the bytes it takes in, ``_weights.bin``, in the place of C text. An agent
    gets ``<prefix>_glue.c`` and ``models.c``; the header is printed anew with the stack of each entry. ``printer``
    prints entries, ``more`` are functions that stand behind them.

    Raises:
        BuildError: a construct that C99 has not, an operation without an instruction.
    """
    api = Interface(module, prefix, options)
    weights = collect_file(module, prefix) if options.weights_file else collect(module, prefix, options.weights_in_ram)

    def header(stacks: Mapping[str, EntryStack]) -> Files:
        return {f"{prefix}.h": header_file(api, weights, stacks)}

    files = {**header({}), f"{prefix}.c": _code_file(api, weights, Unit(prefix, isa, options.check), printer, more)}
    if weights.file:
        files |= mapped_files(api, weights.file)
    elif weights.nbytes > BLOB_ABOVE and not weights.in_ram:
        files |= blob_files(weights, prefix, options)
    else:
        files[f"{prefix}_weights.c"] = weights_file(weights, prefix, options, max(api.region_align("const"), 16))
    if options.golden:
        files[f"{prefix}_selftest.c"] = selftest_file(api)
    names = {e.plan.name: e.name for e in api.entries}
    return Emitted(files, agent_files(api), names, api.pointers, header)


def _code_file(api: Interface, weights: Weights, unit: Unit, printer: Printer, more: Sequence[str]) -> str:
    small = _small(api.module) if api.options.small else frozenset()
    # tables of steps hold addresses, which are known at build time where the weights are
    rows = by_steps(api.module) if api.options.small and not weights.file else frozenset()
    kernels = _kernels(api.module, unit, small, rows)
    steps = step_kernels(api.module, weights, {n: k for n, k in kernels.items() if n in rows}, api.prefix)
    entries = [text for e in api.entries for text in printer(unit, api, e, weights, kernels, steps).functions()]
    states = StatePrinter(api, unit, weights)
    reset = states.reset()
    layers, loops = layers_of(api.module), api.module.loops
    functions = {n: steps[n].text if n in steps else k.text for n, k in kernels.items()}
    notes = {n: kernel_note(api.prefix, loops[n], k, layers[n]) for n, k in kernels.items()}
    preamble, beyond = unit.preamble(), api.options.beyond
    return render(
        "c99/model.c",
        banner=banner(api.options, f"{api.prefix}: code."),
        m=api.prefix,
        M=api.prefix.upper(),
        small=bool(small),
        guards=[one for one in guards(unit, preamble + "".join(functions.values())) if one[0] not in beyond],
        features=pragmas(beyond),
        preamble=preamble,
        weights=weights.declarations(),
        file=weights.file,
        file_head=_head_lines(weights.file.data[:48]) if weights.file else (),
        steps=bool(steps),
        functions=[notes[name] + text for name, text in functions.items()],
        part_work=PART_WORK if api.threads > 1 else 0,
        parts=[parts_of(kernels[name], api.module.loops[name], api.prefix).text for name in _shared(api.module)],
        op_names=[text for e in api.entries for text in _op_names(e)],
        arena_bytes=api.region_bytes("arena"),
        arena_varies=api.arena_varies,
        more_arenas=api.more_arenas,
        init_parameters=api.init_parameters,
        state_bytes=api.region_bytes("state"),
        init_dims=api.init,
        state_size=states.size() if api.init else [],
        placed=api.placed,
        reset=reset,
        entries=[*entries, *more],
        gpu=api.options.gpu,
    )


def _head_lines(head: bytes) -> list[str]:
    """Bytes as lines of an initializer."""
    return [", ".join(f"0x{byte:02x}" for byte in head[at : at + 16]) for at in range(0, len(head), 16)]


def _kernels(module: Module, unit: Unit, small: frozenset[str], rows: frozenset[str]) -> dict[str, CFunction]:
    """The loops functions that the plans call, in the order of their first call; those in ``rows`` as bodies."""
    calls: dict[str, list[tuple[Plan, PlanCall]]] = {}
    for plan in module.plans.values():
        for s in walk_plan(plan.body):
            if isinstance(s, PlanCall) and not s.extern:
                calls.setdefault(s.callee, []).append((plan, s))
    out = {}
    for name, found in calls.items():
        if name not in module.loops:
            raise BuildError(f"a plan calls @{name}, which the module lacks")
        loops = module.loops[name]
        constant = _constant(loops, found)
        samples = kernel_calls(module, loops, found) if unit.machine.assembly else []
        offsets = scratch_layout(loops).offsets
        out[name] = emit_loops(unit, loops, offsets, constant, name in small, name in rows, samples)
    return out


def _small(module: Module) -> frozenset[str]:
    """The loops functions that together take little of a run."""
    macs: dict[str, int] = {}
    found = {name: work(f) for name, f in module.loops.items()}
    for plan in module.plans.values():
        for call in (s for s in walk_plan(plan.body) if isinstance(s, PlanCall) and not s.extern):
            values = tuple(d if isinstance(d, int) else max_value(d) or 0 for d in call.dims)
            macs[call.callee] = macs.get(call.callee, 0) + found[call.callee].at(values)
    total, little = sum(macs.values()), 0
    out = set()
    for name in sorted(macs, key=lambda n: macs[n]):
        little += macs[name]
        if little * LITTLE > total:
            break
        out.add(name)
    return frozenset(out)


def _constant(loops: Loops, calls: list[tuple[Plan, PlanCall]]) -> frozenset[str]:
    """The parameters that are constants in every call."""
    return frozenset(
        p.buffer.name
        for k, p in enumerate(loops.params)
        if all(plan.buffer(call.args[k]).region == "const" for plan, call in calls)
    )


def _shared(module: Module) -> list[str]:
    """The loops functions whose calls threads may share, in the order of their first such call."""
    calls = [s for p in module.plans.values() for s in walk_plan(p.body) if isinstance(s, PlanCall)]
    return list(dict.fromkeys(c.callee for c in calls if c.split is not None))


def _op_names(entry: Entry) -> list[str]:
    calls = {s.index: s for s in walk_plan(entry.plan.body) if isinstance(s, PlanCall)}
    return [quoted(" ".join([f"{calls[k].callee}:", *calls[k].ops])) for k in sorted(calls)]
