"""From a model file to generated C and its measured sizes: everything a build needs the compiler for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Lock

from sdk.amounts import Amount
from sdk.boards import Board
from sdk.codegen_c.base import EmitOptions, EntryStack
from sdk.compiler.interp.graph import init_values
from sdk.compiler.ir.graph import node_args
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, RegionKind
from sdk.compiler.passes.base import Pass
from sdk.compiler.sym import Dim, Var, max_value, substitute
from sdk.driver.built import Built, BuiltEntry, OpFacts
from sdk.driver.capacity import check_fits
from sdk.driver.externs import extern_sources
from sdk.driver.job import Job
from sdk.driver.memories import linked_memories
from sdk.driver.op_facts import known, op_facts
from sdk.driver.pipeline import default_passes, imported, planned
from sdk.driver.plots.drawing import draw_module
from sdk.driver.sources import Files, Sources, as_files, compile_sources
from sdk.driver.targets import capabilities, target_of
from sdk.errors import MiscompileWarning
from sdk.report import BuildReport
from sdk.toolchains import toolchain_for
from sdk.toolchains.size import placed_constants, section_sizes
from sdk.toolchains.stack import worst_case_stack

__all__ = ["Compiled", "Planner", "SharedPlans", "compiled", "constant_bytes", "generate", "measure", "region_bytes"]


_WIDENED = 1.25  # times the model's own constants: the layout for fast kernels is what takes the flash


@dataclass(frozen=True)
class Compiled:
    """The ``module`` planned, as it was before it was scheduled (``fused``), the bytes of constants around each pass
    that has left fewer of them to operators, the module as imported (``source``), and what was warned of."""

    module: Module
    fused: Module
    removed: Mapping[str, tuple[int, int]]
    source: Module
    faults: tuple[MiscompileWarning, ...]


Planner = Callable[[Job], Compiled]


def compiled(job: Job) -> Compiled:
    """Imports a model and takes it through all passes.

    Raises:
        BuildError: the model cannot be compiled.
    """
    seen: list[Module] = []
    removed: dict[str, tuple[int, int]] = {}
    with MiscompileWarning.collected() as faults:
        module = imported(job)
        minimum = _constants(module)

        def observe(step: Pass, after: Module) -> None:
            nonlocal minimum
            if step.name == "fuse":
                seen.append(after)
            if after.graphs and not seen:
                before, held = minimum, _constants(after)
                if held < before:  # what a pass has left without use goes in the cleanup after it
                    name = list(removed)[-1] if step.name == "cleanup" and removed else step.name
                    removed[name] = (removed.get(name, (before, 0))[0], held)
                    minimum = held  # what passes make and others remove again is no gain

        after = planned(job, module, observe)
    return Compiled(after, seen[-1], removed, module, tuple(faults))


class SharedPlans:
    """A planner for builds of one model with the same options but for boards and ``memory``: those that take the same
    passes are compiled once, side by side or one after the other. It keeps all that it made."""

    def __init__(self) -> None:
        self._made: list[tuple[object, Future[Compiled]]] = []
        self._lock = Lock()

    def __call__(self, job: Job) -> Compiled:
        """As ``compiled``, which raises the same for each of the builds."""
        key = job.file.digest, job.prefix, tuple(default_passes(job.board, job.options))
        with self._lock:
            found = next((future for other, future in self._made if other == key), None)
            if found is None:
                mine: Future[Compiled] = Future()
                self._made.append((key, mine))
        if found is not None:
            return found.result()
        try:
            mine.set_result(compiled(job))
        except BaseException as error:
            mine.set_exception(error)
            raise
        return mine.result()


def generate(job: Job, plan: Planner = compiled) -> Built:
    """Imports, compiles and emits a model, and measures the objects.

    Raises:
        BuildError: the model cannot be compiled, or does not fit the board.
    """
    made = plan(job)
    module = made.module
    with MiscompileWarning.collected() as printing:
        code = _printed(job, module)
    faults = (*made.faults, *printing)
    if faults:
        texts = "\n\n".join(f"{fault.message}\n\n{fault.details}" for fault in faults)
        sources = replace(code.sources, model={**code.sources.model, f"{job.prefix}_faults.txt": texts + "\n"})
        report = replace(code.report, warnings=tuple(fault.message for fault in faults))
        code = replace(code, sources=sources, report=report)
    scalar = replace(job, options=replace(job.options, isa="scalar"))
    widened = job.options.isa is None and code.report.weights_bytes > _WIDENED * _constants(made.source)
    check_fits(
        job, module, code.report, lambda: measure(job, "min")[1],
        (lambda: measure(scalar, job.options.memory)[1]) if widened else None,
    )  # fmt: skip
    facts, held = op_facts(module, made.fused), init_values(module)
    drawing = draw_module(made.source, job.file.name)
    costs = {g.entry: g.cost for g in drawing.graphs}
    entries = {
        p.name: _entry(p, code.names.get(p.name, p.name), facts[p.name], known(p, costs[p.name]), held)
        for p in module.plans.values()
    }
    report = replace(
        code.report,
        removed=made.removed,
        weights=replace(code.report.weights, model=drawing.weights),
        macs={name: Amount(max_value(costs[name]), _maximum(found)) for name, found in facts.items()},
    )
    return Built(code.sources, report, entries)


def _maximum(facts: Iterable[OpFacts]) -> int | None:
    """Multiply-accumulates of all calls at the upper bounds."""
    return max_value(sum((op.macs for op in facts), 0))


def measure(job: Job, memory: str, plan: Planner = compiled) -> tuple[Module, BuildReport]:
    """What a build with another memory objective is planned like and needs, whether that fits the board or not.

    Raises:
        BuildError: the model cannot be compiled.
    """
    other = replace(job, options=replace(job.options, memory=memory, arena_limit=None))
    made = plan(other)
    for fault in made.faults:
        fault.tell()
    return made.module, _printed(other, made.module).report


def _constants(module: Module) -> int:
    """Bytes of the constants that operators take."""
    taken = {v.name for graph in module.graphs.values() for n in graph.body for v in node_args(n) if v.const}
    return sum(const.nbytes for name in taken if (const := module.constant(name)) is not None)


@dataclass(frozen=True)
class _Code:
    """Sources, what their functions are called by entry, and their sizes."""

    sources: Sources
    names: Mapping[str, str]
    report: BuildReport


def _core(board: Board, isa: frozenset[str]) -> str:
    """What code is made for, in words."""
    core = board.core
    cpu = core.arch if core.cpu == "native" else f"{core.cpu} ({core.arch})"
    return f"{cpu} with {' '.join(sorted(isa))}" if isa else f"any {cpu}: plain C"


@dataclass(frozen=True)
class _Sizes:
    """What a compiler made of sources: bytes by section, the stack of a run by entry; which one it was; how much of
    the constants lies in the external flash."""

    sections: Mapping[str, int]
    stacks: Mapping[str, EntryStack]
    compiler: str = ""
    external: int = 0  # of .rodata


def _printed(job: Job, module: Module) -> _Code:
    board, options = job.board, job.options
    choice = EmitOptions(
        source=job.file.name,
        model_hash=job.file.digest,
        board=board.name,
        weights_in_ram=options.weights == "ram",
        weights_file=options.weights == "file",
        memories=linked_memories(board, options),
        small=not board.hosted,
        gpu=options.gpu or "",
        gpu_row=job.gpu_row,
        on_processor=options.on_processor,
        check=options.check,
        core=_core(board, capabilities(board, options)),
        beyond=job.beyond,
        compile_with=tuple(shlex.join(words) for words in target_of(board, options).commands),
    )
    emitted = job.backend.emit(module, job.prefix, isa=capabilities(board, options), options=choice)
    files = as_files({**emitted.files, **extern_sources(options.libraries)})
    sizes = _Sizes({}, {}) if job.backend.runtime is None else _sizes(job, files, emitted.entries)
    # the header states the stack that the compiler reported; no object depends on that macro
    files |= as_files(emitted.stating(sizes.stacks))
    sources = Sources(job.prefix, job.backend.name, files, as_files(emitted.agent))
    context = emitted.pointers * board.pointer_bits // 8
    return _Code(sources, emitted.entries, _report(job, module, sizes, context))


def _sizes(job: Job, files: Files, names: Mapping[str, str]) -> _Sizes:
    target = target_of(job.board, job.options)
    toolchain = toolchain_for(target, job.options.toolchain)
    objects = compile_sources(files, toolchain, target, pic=job.board.hosted)
    found = {entry: worst_case_stack(objects, f"{name}_run") for entry, name in names.items()}
    stacks = {entry: EntryStack(stack.bytes, stack.unmeasured) for entry, stack in found.items()}
    external = placed_constants(o.path for o in objects) if job.options.weights == "external" else 0
    return _Sizes(section_sizes(o.path for o in objects).to_json(), stacks, toolchain.version(), external)


def _entry(
    plan: Plan, name: str, facts: tuple[OpFacts, ...], macs: Dim | None, held: Mapping[Var, int]
) -> BuiltEntry:
    """An entry for those who call it; the dims bound at init have the values that agents give them."""
    given: Mapping[Var, Dim] = dict(held)

    def shape(buffer: str) -> tuple[Dim, ...]:
        return tuple(substitute(d, given) for d in plan.buffer(buffer).type.shape)

    return BuiltEntry(
        name,
        dims=tuple(v for v in plan.dims if v not in held),
        fresh=plan.fresh,
        shapes={tensor: shape(tensor) for tensor in (*plan.inputs, *plan.outputs)},
        ops=tuple(replace(op, macs=substitute(op.macs, given), bytes=substitute(op.bytes, given)) for op in facts),
        macs=None if macs is None else substitute(macs, given),
    )


def region_bytes(module: Module, kind: RegionKind) -> dict[str, int]:
    """Bytes of each region of a kind by name, the most over the entries, which share it."""
    out: dict[str, int] = {}
    for region in (r for plan in module.plans.values() for r in plan.regions if r.kind == kind):
        out[region.name] = max(out.get(region.name, 0), max_value(region.bytes) or 0)
    return out


def constant_bytes(module: Module) -> int:
    """Bytes of the constants of a planned module: equal ones are one array."""
    used = {b.name for plan in module.plans.values() for b in plan.buffers if b.role == "const"}
    held = [const for name in used if (const := module.constant(name)) is not None]
    return sum({(c.type.dtype, len(c.arrays), c.digest): c.nbytes for c in held}.values())


def _report(job: Job, module: Module, sizes: _Sizes, context: int) -> BuildReport:
    return BuildReport(
        model=job.file.name,
        board=job.board.name,
        out=None,
        arena_bytes=sum(region_bytes(module, "arena").values()),
        arena_lower_bound_bytes=max((p.lower_bound for p in module.plans.values()), default=0),
        state_bytes=sum(region_bytes(module, "state").values()),
        context_bytes=context,
        stack_bytes=max((s.bytes for s in sizes.stacks.values()), default=0),
        weights=Amount(compiled=constant_bytes(module)),
        sections=sizes.sections,
        external_bytes=sizes.external,
        io_bytes=0 if job.board.hosted else sum(region_bytes(module, "caller").values()),
        compiler=sizes.compiler,
        dims={v.name: (v.lo, v.hi) for plan in module.plans.values() for v in plan.dims},
    )
