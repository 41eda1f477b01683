"""The way of a model through the compiler: one default pipeline, the same for every board, chosen by capabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from sdk.boards import Board
from sdk.budget import amount_text
from sdk.codegen_c.base import Backend, Kernels
from sdk.compiler import ops
from sdk.compiler.ir.module import Module
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.passes.accumulate import Accumulate
from sdk.compiler.passes.base import Pass
from sdk.compiler.passes.canonicalize import Canonicalize
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.constant_channels import ConstantChannels
from sdk.compiler.passes.dispatch import Dispatch
from sdk.compiler.passes.fold import Fold
from sdk.compiler.passes.fold_offset import FoldOffset
from sdk.compiler.passes.fold_pad import FoldPad
from sdk.compiler.passes.fold_scale import FoldScale
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.inline import Inline
from sdk.compiler.passes.integer import Integer
from sdk.compiler.passes.interleave_constants import InterleaveConstants
from sdk.compiler.passes.layout import SinkTransposes
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.map_grid import MapGrid
from sdk.compiler.passes.memory_aware_scheduling import MemoryAwareScheduling
from sdk.compiler.passes.merge_functions import MergeFunctions
from sdk.compiler.passes.mulh_requantize import MulhRequantize
from sdk.compiler.passes.narrow import Narrow
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.prune_channels import PruneChannels
from sdk.compiler.passes.recognize import Recognize
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.passes.simplify_graph import SimplifyGraph
from sdk.compiler.passes.simplify_loops import SimplifyLoops
from sdk.compiler.passes.unroll_repeats import UnrollRepeats
from sdk.compiler.sym import max_value
from sdk.compiler.verify.module import check
from sdk.compiler.verify.plan import check_plan
from sdk.driver.backends import backend_for
from sdk.driver.externs import add_patterns
from sdk.driver.importing import import_model
from sdk.driver.job import Job
from sdk.driver.memories import pools_of
from sdk.driver.options import BuildOptions
from sdk.driver.targets import capabilities
from sdk.errors import BuildError

__all__ = ["Observer", "default_passes", "import_model", "imported", "lower_module", "planned"]

INDEX_LIMIT = (1 << 31) - 1  # offsets in generated code are 32 bits
CACHE_LINE = 64  # where vectors are wide, none of a buffer then lies across two lines
WORDS = 16  # bytes: what the widest load of a microcontroller wants
Observer = Callable[[Pass, Module], None]


def imported(job: Job) -> Module:
    """The module of a build as imported, with the patterns of its libraries.

    Raises:
        BuildError: the file cannot be imported.
        ParseError, UsageError: a library is not usable.
    """
    return add_patterns(import_model(job.file, job.options, job.prefix), job.options.libraries)


def planned(job: Job, module: Module, observe: Observer | None = None) -> Module:
    """The imported module of a build through all passes; ``observe(pass, module)`` sees it after each.

    Raises:
        BuildError: the model cannot be compiled.
    """
    return lower_module(module, default_passes(job.board, job.options), observe)


def default_passes(board: Board, options: BuildOptions) -> Sequence[Pass]:
    """The passes in order."""
    backend, have = backend_for(board, options), capabilities(board, options)
    machine = machine_for(have)
    io = options.io or ("caller" if board.hosted and backend.kernels != "plain" else "arena")
    streams = options.memory == "min" or options.arena_limit is not None
    return (
        Inline(),
        Dispatch(),
        Integer(),
        Fold(),
        SimplifyGraph(),
        SinkTransposes(),
        FoldPad(),
        FoldScale(),
        Recognize(),
        Canonicalize(),
        Cleanup(),
        PruneChannels(multiple=machine.channel_multiple or machine.lanes),
        ConstantChannels(),
        FoldOffset(x_offset=128 if machine.unsigned else 0),
        Narrow(),
        Cleanup(),
        *([MulhRequantize()] if machine.high_word else []),
        *([Accumulate()] if streams else []),
        Lower(),
        Fuse(),
        SimplifyLoops(products=machine.lanes == 1, channels=machine.assembly is not None),
        _schedule(backend.kernels, have, 1 if streams else options.threads, options),
        *([InterleaveConstants()] if machine.column_tables else []),
        Cleanup(),
        MemoryAwareScheduling(io=io, align=CACHE_LINE if board.hosted else WORDS),
        *([] if backend.kernels == "core" else [UnrollRepeats()]),
        PlanMemory(
            io=io,
            align=CACHE_LINE if board.hosted else WORDS,
            memory="min" if options.memory == "min" else "time",
            limit=options.arena_limit,
            pools=pools_of(board, options),
            threads=options.threads,
            offsets="scaled" if board.hosted else "fixed",
            overlap=not board.hosted,
        ),
        *([_share(backend, have, options)] if options.opt == "size" or not board.hosted else []),
        SimplifyLoops(),
    )


def _share(backend: Backend, have: frozenset[str], options: BuildOptions) -> Pass:
    """What has kernels that are alike share one."""
    cost = backend.cost
    if cost is None or not backend.rolled(have):
        return MergeFunctions(options.opt, rolled=backend.rolled(have))
    return MergeFunctions(options.opt, rolled=True, cost=lambda loops: cost(loops, have))


def _schedule(kernels: Kernels, have: frozenset[str], threads: int, options: BuildOptions) -> Pass:
    """What makes kernels of loop nests."""
    match kernels:
        case "core":
            return ScheduleLoops(isa="+".join(sorted(have)), threads=threads, opt=options.opt, check=options.check)
        case "grid":
            return MapGrid()
        case "plain":
            return ScheduleLoops(isa="gpu", check=options.check)
        case _:
            assert_never(kernels)


def lower_module(module: Module, passes: Sequence[Pass], observe: Observer | None = None) -> Module:
    """Runs the passes, then both verifiers; ``observe(pass, module)`` sees the module after each.

    Raises:
        BuildError: a pass fails, or a verifier finds something.
    """
    module = run_pipeline(replace(module, stage="typed"), passes, observe)
    check(module, ops)
    for plan, region in ((p, r) for p in module.plans.values() for r in p.regions):
        size = max_value(region.bytes)
        if size is None or size > INDEX_LIMIT:
            inside = [b for b in plan.buffers if b.region == region.name]
            largest = max(inside, key=lambda b: max_value(b.type.nbytes) or 0, default=None)
            raise BuildError(
                f"the {region.name} needs {amount_text(size) if size else 'unbounded'} bytes, "
                f"generated code indexes at most {INDEX_LIMIT}",
                where=f"entry {plan.name}" + (f", its largest tensor {largest.name}" if largest else ""),
                hint="give smaller bounds with --dim",
            )
    for plan in module.plans.values():
        check_plan(module, plan)
    return module
