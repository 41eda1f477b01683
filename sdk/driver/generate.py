"""From a model file to generated C and its measured sizes: everything a build needs the compiler for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sdk.boards import Board
from sdk.codegen_c.c99 import EmitOptions, emit, emit_header
from sdk.codegen_c.c99.glue import emit_glue
from sdk.compiler.interp.graph import init_values
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var, max_value, substitute
from sdk.driver.externs import add_patterns, extern_sources
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import capabilities, default_passes, import_model, lower_module
from sdk.driver.sources import Sources, as_files, compile_sources
from sdk.errors import BuildError
from sdk.report import BuildReport
from sdk.toolchains import get_toolchain, target_for
from sdk.toolchains.size import Sections, section_sizes
from sdk.toolchains.stack import worst_case_stack

__all__ = ["generate"]

Generated = tuple[Sources, BuildReport, Mapping[str, Mapping[str, tuple[str, ...]]], Mapping[str, int]]
FREE_STACK = 512  # stack below this is any firmware's; what a model needs above it counts as its RAM


def generate(path: Path, prefix: str, board: Board, options: BuildOptions) -> Generated:
    """Imports, compiles and emits a model, and measures the objects; the shapes are of each entry's inputs and outputs,
    the numbers what dims are a multiple of.

    Raises:
        BuildError: the model cannot be compiled, or does not fit the board.
    """
    module = add_patterns(import_model(path, options, prefix), options.externs)
    return _emit(path, prefix, lower_module(module, default_passes(board, options)), board, options)


def _emit(
    path: Path, prefix: str, module: Module, board: Board, options: BuildOptions
) -> Generated:
    model_hash = hashlib.sha256(path.read_bytes()).hexdigest()
    choice = EmitOptions(source=path.name, model_hash=model_hash, board=board.name)
    isa = capabilities(board, options)
    files = as_files(emit(module, prefix, isa=isa, options=choice) | extern_sources(options.externs))
    toolchain, target = get_toolchain(options.toolchain), target_for(board)
    objects = compile_sources(files, toolchain, target, pic=board.hosted)
    sections = section_sizes(o.path for o in objects)
    stack = max(
        (worst_case_stack(objects, symbol).bytes for symbol in _run_symbols(module, prefix)),
        default=0,
    )
    # the header states the stack that the compiler reported; no object depends on that macro
    files |= as_files(emit_header(module, prefix, replace(choice, stack_bytes=stack)))
    agent = emit_glue(module, prefix, options=choice)
    report = _report(path, module, board, sections, stack)
    _check_fits(module, board, report)
    held: dict[Var, Dim] = dict(init_values(module))  # the agent binds them so
    shapes = {
        plan.name: {n: _shape(plan.buffer(n).type, held) for n in (*plan.inputs, *plan.outputs)}
        for plan in module.plans.values()
    }
    multiples = {v.name: v.multiple for plan in module.plans.values() for v in plan.dims if v.multiple > 1}
    return Sources(prefix, files, agent), report, shapes, multiples


def _shape(type: TensorType, held: Mapping[Var, Dim]) -> tuple[str, ...]:
    return tuple(str(substitute(d, held)) for d in type.shape)


def _run_symbols(module: Module, prefix: str) -> list[str]:
    names = list(module.plans)
    return [f"{prefix}_run"] if len(names) == 1 else [f"{prefix}_{n}_run" for n in names]


def _region_bytes(module: Module, kind: str) -> int:
    """The largest region of a kind over the entries: they share it."""
    sizes = [r.bytes for plan in module.plans.values() for r in plan.regions if r.kind == kind]
    return max((max_value(s) or 0 for s in sizes), default=0)


def _report(path: Path, module: Module, board: Board, sections: Sections, stack: int) -> BuildReport:
    arena, state = _region_bytes(module, "arena"), _region_bytes(module, "state")
    used = {b.name for plan in module.plans.values() for b in plan.buffers if b.role == "const"}
    weights = sum(c.data.nbytes for c in module.consts.values() if c.name in used)
    context = 4 * board.pointer_bits // 8
    data = sections.to_json()
    ram = arena + state + context + data["data"] + data["bss"] + max(stack - FREE_STACK, 0)
    dims = {v.name: (v.lo, v.hi) for plan in module.plans.values() for v in plan.dims}
    bound = max((p.lower_bound for p in module.plans.values()), default=0)
    return BuildReport(
        path.name, board.name, None, ram, arena, bound, state, context, stack, weights, data, dims
    )


def _check_fits(module: Module, board: Board, report: BuildReport) -> None:
    """Refuses what cannot fit the board, before anything is linked."""
    flash = sum(report.sections[k] for k in ("text", "rodata", "data"))
    for what, need, have in (("RAM", report.ram_bytes, board.ram_bytes), ("flash", flash, board.flash_bytes)):
        if have is not None and need > have:
            largest = _largest(module, what)
            raise BuildError(
                f"the model needs {need} bytes of {what}, {board.name} has {have}: {need - have} too many",
                where=f"largest: {largest}",
                hint="sdk memory MODEL --board B shows the plan; sdk boards lists larger boards",
            )


def _largest(module: Module, what: str) -> str:
    sizes: list[tuple[int, str]]
    if what == "flash":
        sizes = [(c.data.nbytes, f"@{c.name}") for c in module.consts.values()]
    else:
        sizes = [
            (b.type.max_bytes, b.name) for p in module.plans.values() for b in p.buffers if b.role != "const"
        ]
    return ", ".join(f"{name} {size} bytes" for size, name in sorted(sizes, reverse=True)[:4])
