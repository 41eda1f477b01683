"""From a model file to generated C and its measured sizes: everything a build needs the compiler for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from sdk.boards import Board
from sdk.codegen_c.c99 import EmitOptions, EntryStack, emit, emit_header
from sdk.codegen_c.c99.glue import emit_glue
from sdk.codegen_c.c99.model import interface_of
from sdk.compiler.interp.graph import init_values
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import RegionKind
from sdk.compiler.ir.types import TensorType
from sdk.compiler.passes.base import Pass
from sdk.compiler.sym import Dim, Var, max_value, substitute
from sdk.driver.built import Built
from sdk.driver.capacity import check_fits
from sdk.driver.externs import add_patterns, extern_sources
from sdk.driver.memories import linked_memories
from sdk.driver.op_facts import op_facts
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import capabilities, default_passes, import_model, lower_module
from sdk.driver.sources import Sources, as_files, compile_sources
from sdk.driver.targets import target_of
from sdk.errors import MiscompileWarning
from sdk.frontends.base import ModelFile
from sdk.report import BuildReport
from sdk.toolchains import get_toolchain
from sdk.toolchains.size import Sections, section_sizes
from sdk.toolchains.stack import worst_case_stack

__all__ = ["generate", "measure"]


def generate(model: ModelFile, prefix: str, board: Board, options: BuildOptions) -> Built:
    """Imports, compiles and emits a model, and measures the objects.

    Raises:
        BuildError: the model cannot be compiled, or does not fit the board.
    """
    with _faults() as faults:
        module, fused = _lower(model, prefix, board, options)
        sources, report = _emit(model, prefix, module, board, options)
    if faults:
        texts = "\n\n".join(f"{fault.message}\n\n{fault.details}" for fault in faults)
        sources = replace(sources, model={**sources.model, f"{prefix}_faults.txt": texts + "\n"})
        report = replace(report, warnings=tuple(fault.message for fault in faults))
    check_fits(model, module, board, options, report, lambda: measure(model, prefix, board, options, "min")[1])
    held: dict[Var, Dim] = dict(init_values(module))  # the agent binds them so
    shapes = {
        plan.name: {n: _shape(plan.buffer(n).type, held) for n in (*plan.inputs, *plan.outputs)}
        for plan in module.plans.values()
    }
    multiples = {v.name: v.multiple for plan in module.plans.values() for v in plan.dims if v.multiple > 1}
    return Built(sources, report, shapes, multiples, op_facts(module, fused))


@contextmanager
def _faults() -> Iterator[list[MiscompileWarning]]:
    """Collects what the compiler finds wrong with its own code; other warnings go on."""
    found: list[MiscompileWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MiscompileWarning)
        yield found
    for warning in caught:
        if isinstance(warning.message, MiscompileWarning):
            found.append(warning.message)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def measure(
    model: ModelFile, prefix: str, board: Board, options: BuildOptions, memory: str
) -> tuple[Module, BuildReport]:
    """What a build with another memory aim is planned like and needs, whether that fits the board or not.

    Raises:
        BuildError: the model cannot be compiled.
    """
    other = replace(options, memory=memory, arena_limit=None)
    module, _ = _lower(model, prefix, board, other)
    return module, _emit(model, prefix, module, board, other)[1]


def _lower(model: ModelFile, prefix: str, board: Board, options: BuildOptions) -> tuple[Module, Module]:
    """The module planned, and as it was before it was scheduled."""
    module = add_patterns(import_model(model, options, prefix), options.libraries)
    seen: list[Module] = []

    def observe(step: Pass, after: Module) -> None:
        if step.name == "fuse":
            seen.append(after)

    return lower_module(module, default_passes(board, options), observe), seen[-1]


def _emit(
    model: ModelFile, prefix: str, module: Module, board: Board, options: BuildOptions
) -> tuple[Sources, BuildReport]:
    choice = EmitOptions(
        source=model.name,
        model_hash=model.digest,
        board=board.name,
        weights_in_ram=options.weights == "ram",
        memories=linked_memories(board, options),
        small=not board.hosted,
        check=options.check,
    )
    isa = capabilities(board, options)
    files = as_files(emit(module, prefix, isa=isa, options=choice) | extern_sources(options.libraries))
    toolchain, target = get_toolchain(options.toolchain), target_of(board, options.opt)
    objects = compile_sources(files, toolchain, target, pic=board.hosted)
    sections = section_sizes(o.path for o in objects)
    entries = interface_of(module, prefix, choice).entries
    found = {e.plan.name: worst_case_stack(objects, f"{e.name}_run") for e in entries}
    stacks = {e: EntryStack(s.bytes, s.unmeasured) for e, s in found.items()}
    stack = max((s.bytes for s in stacks.values()), default=0)
    # the header states the stack that the compiler reported; no object depends on that macro
    files |= as_files(emit_header(module, prefix, replace(choice, stacks=stacks)))
    agent = emit_glue(module, prefix, options=choice)
    return Sources(prefix, files, agent), _report(model, module, board, sections, stack)


def _shape(type: TensorType, held: Mapping[Var, Dim]) -> tuple[str, ...]:
    return tuple(str(substitute(d, held)) for d in type.shape)


def _region_bytes(module: Module, kind: RegionKind) -> dict[str, int]:
    """Bytes of each region of a kind by name, the most over the entries, which share it."""
    out: dict[str, int] = {}
    for region in (r for plan in module.plans.values() for r in plan.regions if r.kind == kind):
        out[region.name] = max(out.get(region.name, 0), max_value(region.bytes) or 0)
    return out


def _report(model: ModelFile, module: Module, board: Board, sections: Sections, stack: int) -> BuildReport:
    arenas, states = _region_bytes(module, "arena"), _region_bytes(module, "state")
    arena, state = sum(arenas.values()), sum(states.values())
    used = {b.name for plan in module.plans.values() for b in plan.buffers if b.role == "const"}
    distinct = {(c.type.dtype, c.digest): c.data.nbytes for c in module.consts.values() if c.name in used}
    weights = sum(distinct.values())  # equal ones are one array
    context = (3 + max(len(arenas), 1)) * board.pointer_bits // 8
    data = sections.to_json()
    dims = {v.name: (v.lo, v.hi) for plan in module.plans.values() for v in plan.dims}
    bound = max((p.lower_bound for p in module.plans.values()), default=0)
    return BuildReport(model.name, board.name, None, arena, bound, state, context, stack, weights, data, dims)
