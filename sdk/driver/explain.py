"""Showing what the compiler did: the memory plan step by step, and the module as text at a stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sdk.boards import Board, suggest
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.ir.text import print_module
from sdk.compiler.memory.report import PlanSummary, plan_summary
from sdk.compiler.passes.map_grid import MapGrid
from sdk.compiler.passes.pipeline import all_passes
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.driver.artifact import build_sources
from sdk.driver.backends import backend_for
from sdk.driver.built import load_built
from sdk.driver.dims import check_at
from sdk.driver.generate import measure
from sdk.driver.gpus import row_for
from sdk.driver.importing import import_model
from sdk.driver.job import job_of
from sdk.driver.options import OBJECTIVES, BuildOptions
from sdk.driver.pipeline import imported, planned
from sdk.driver.prefix import prefix_of
from sdk.errors import BuildError, UsageError
from sdk.frontends.base import ModelFile
from sdk.report import BuildReport, MemoryMode, MemoryReport
from sdk.steps import step

__all__ = ["entry_names", "inspect", "memory", "stage_names", "stages"]

KERNELS: Final = "kernels"  # the stage after all: what a GPU is given
_SCHEDULING: Final = (ScheduleLoops.name, MapGrid.name)  # of which each pipeline has one
QUICK_CALLS = 300
QUICK_WEIGHTS = 1 << 20  # bytes


def stages(model: Path | ModelFile, board: Board, options: BuildOptions) -> dict[str, Module]:
    """The module as imported, and after every pass, by name (a pass that runs twice keeps its last)."""
    seen: dict[str, Module] = {}
    job = job_of(model, board, options)
    seen["imported"] = imported(job)
    with step(f"compiling {job.file.name}"):
        done = planned(job, seen["imported"], lambda one, m: seen.__setitem__(one.name, m))
    # a build for a GPU schedules its kernels, not the module
    seen["scheduled"], seen["planned"] = next((seen[name] for name in _SCHEDULING if name in seen), done), done
    seen["typed"] = seen["fold-offset"]
    return seen


def stage_names() -> list[str]:
    """What ``inspect`` takes for a stage, but for the passes that only some builds have."""
    return ["imported", "typed", "scheduled", "planned", KERNELS, *sorted(all_passes())]


def entry_names(target: Path | ModelFile) -> list[str]:
    """The entries of a model file, or of a folder that ``sdk build`` made; raise SdkError when it is neither."""
    if isinstance(target, Path) and target.is_dir():
        return list(load_built(target).entries)
    options = BuildOptions()
    return list(import_model(target, options, prefix_of(target, options)).graphs)


def inspect(model: Path | ModelFile, board: Board, options: BuildOptions, stage: str | None) -> str:
    """``sdk inspect``: the text of a stage ("planned" by default) or after a named pass.

    Raises:
        UsageError: no such stage or pass.
    """
    wanted = stage or "planned"
    if wanted == KERNELS:
        return _kernels(model, board, options)
    seen = stages(model, board, options)
    if wanted not in seen:
        raise UsageError(f"no stage {wanted!r}", hint=suggest(wanted, seen) or f"one of {', '.join(seen)}")
    return print_module(seen[wanted])


def _kernels(model: Path | ModelFile, board: Board, options: BuildOptions) -> str:
    """The kernels of a build for a GPU with their launches, then what has none and why.

    Raises:
        UsageError: the build is not for a GPU.
    """
    listing = backend_for(board, options).listing
    if listing is None or options.gpu is None:
        raise UsageError("a build for the processor has no kernels", hint="--stage kernels --gpu opencl, or vulkan")
    return listing(stages(model, board, options)["planned"], row_for(board, options.gpu))


def memory(
    model: Path | ModelFile, board: Board, options: BuildOptions, at: Mapping[str, int] | None = None
) -> MemoryReport:
    """``sdk memory``: what each entry's plan holds when, at the upper bounds of the dims or with ``at`` at these, and
    what another objective would need.

    Raises:
        UsageError: ``at`` names a dim that no entry has, or gives it a value out of its bounds.
    """
    at = at or {}
    job = job_of(model, board, options)
    report = build_sources(job.file, board, job.options).report
    module = stages(job.file, board, job.options)["planned"]
    check_at(at, {v.name: v for plan in module.plans.values() for v in plan.dims})
    objective = options.memory if options.arena_limit is None else "limit"
    others = {}
    if "memory" in job.backend.choices and not report.dims and _is_quick(module, report):
        for other in (a for a in OBJECTIVES if a != objective):
            try:
                smaller, found = measure(job, other)
            except BuildError:  # it does not fit the regions asked for: there is nothing to compare with
                continue
            others[other] = MemoryMode(found, _summaries(smaller, {}))
    return MemoryReport(report, objective, _summaries(module, at), others, at)


def _is_quick(module: Module, report: BuildReport) -> bool:
    """Whether another build of the model takes a moment only."""
    calls = sum(isinstance(s, PlanCall) for plan in module.plans.values() for s in walk_plan(plan.body))
    return calls <= QUICK_CALLS and report.weights_bytes <= QUICK_WEIGHTS


def _summaries(module: Module, at: Mapping[str, int]) -> tuple[PlanSummary, ...]:
    found = []
    for plan in module.plans.values():
        env = {v: at.get(v.name, v.maximum) for v in plan.dims}
        found.append(plan_summary(module, plan, env if at else None))
    return tuple(found)
