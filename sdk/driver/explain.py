"""Showing what the compiler did: the memory plan step by step, and the module as text at a stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sdk.boards import Board
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import print_module
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.sym import Var
from sdk.driver.artifact import build_sources, prefix_of
from sdk.driver.externs import add_patterns
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, import_model, lower_module
from sdk.errors import UsageError
from sdk.report import MemoryReport

__all__ = ["inspect", "memory", "stages"]

COLUMNS = ("step", "call", "source ops", "live bytes")


def stages(model: Path, board: Board, options: BuildOptions) -> dict[str, Module]:
    """The module as imported, and after every pass, by name (a pass that runs twice keeps its last)."""
    seen: dict[str, Module] = {}
    module = add_patterns(import_model(model, options, prefix_of(model, options)), options.externs)
    seen["imported"] = module
    done = lower_module(
        module, default_passes(board, options), lambda step, m: seen.__setitem__(step.name, m)
    )
    seen["scheduled"], seen["planned"] = seen["schedule"], done
    seen["typed"] = seen["fold-offset"]
    return seen


def inspect(model: Path, board: Board, options: BuildOptions, stage: str | None) -> str:
    """``sdk inspect``: the text of a stage ("planned" by default) or after a named pass.

    Raises:
        UsageError: no such stage or pass.
    """
    seen = stages(model, board, options)
    wanted = stage or "planned"
    if wanted not in seen:
        raise UsageError(f"no stage {wanted!r}", hint=f"one of {', '.join(seen)}")
    return print_module(seen[wanted])


def memory(model: Path, board: Board, options: BuildOptions, at: Mapping[str, int] | None = None) -> MemoryReport:
    """``sdk memory``: the build's memory, and for each call of the plan what is live: at most, or with ``at`` at these
    dims, the others at their upper bounds.

    Raises:
        UsageError: ``at`` names a dim that no entry has, or gives it a value out of its bounds.
    """
    at = at or {}
    report = build_sources(model, board, options).report
    planned = stages(model, board, options)["planned"]
    rows: list[tuple[str, ...]] = [COLUMNS]
    _check_dims(at, {v.name: v for plan in planned.plans.values() for v in plan.dims})
    arena = 0
    for plan in planned.plans.values():
        env = {v: at.get(v.name, v.hi // v.multiple * v.multiple) for v in plan.dims}
        summary = plan_summary(planned, plan, env if at else None)
        arena = max(arena, summary.peak)
        rows += [(str(r.step), r.call, r.ops, str(r.live_bytes)) for r in summary.timeline]
    return MemoryReport(report, tuple(rows), at, arena)


def _check_dims(at: Mapping[str, int], dims: Mapping[str, Var]) -> None:
    for name, value in at.items():
        if name not in dims:
            raise UsageError(f"the model has no dimension {name!r}", hint=f"it has {', '.join(dims) or 'none'}")
        var = dims[name]
        if not var.lo <= value <= var.hi or value % var.multiple:
            steps = f" in steps of {var.multiple}" if var.multiple > 1 else ""
            raise UsageError(f"dimension {name}={value} is not in {var.lo}..{var.hi}{steps}", hint="see --at and --dim")
