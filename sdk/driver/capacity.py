"""Whether a build fits its board, and what to say where it does not: what takes the memory, and what would do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from dataclasses import replace

from sdk.boards import Board
from sdk.compiler.ir.module import Module
from sdk.compiler.memory.report import PlanSummary, plan_summary
from sdk.driver.job import Job
from sdk.driver.options import BuildOptions
from sdk.errors import BuildError
from sdk.frontends.base import ModelFile
from sdk.report import BuildReport

__all__ = ["at_peak", "check_fits", "command_line", "lacks"]

SHOWN = 4  # tensors in a message


def lacks(report: BuildReport, board: Board, regions: Collection[object] = ()) -> dict[str, int]:
    """Bytes that a board has too few of for a build, by "ram", "arena" (its first memory, where no ``regions`` are
    given), "flash" and "external flash"; empty where it fits."""
    if board.hosted:
        return {}
    short = {
        "ram": report.ram_bytes - (board.ram_bytes or 0),
        "arena": 0 if regions else report.arena_bytes - board.regions("ram")[0].size,
        "flash": report.flash_bytes - (board.flash_bytes or 0),
        "external flash": report.external_bytes - (0 if board.external is None else board.external.size),
    }
    return {what: over for what, over in short.items() if over > 0}


def check_fits(
    job: Job, module: Module, report: BuildReport, smallest: Callable[[], BuildReport],
    scalar: Callable[[], BuildReport] | None = None,
) -> None:  # fmt: skip
    """Refuses what cannot fit the board, before anything is linked; ``smallest`` makes the build that needs least RAM,
    ``scalar`` that of plain C, where its constants take less flash.

    Raises:
        BuildError: it needs more RAM or flash than the board has, or an arena that its first memory does not hold.
    """
    board, options = job.board, job.options
    short = lacks(report, board, options.regions)
    if "ram" in short:
        message = _too_much("RAM", report.ram_bytes, board.name, board.ram_bytes or 0)
    elif "arena" in short:
        held = f"holds no arena of {report.arena_bytes:,} bytes: {short['arena']:,} too many"
        message = f"the first memory of {board.name} {held}"
    else:
        message = ""
    if message:
        min_report = report if options.memory == "min" else smallest()
        raise BuildError(
            message,
            where=_parts(report.ram_parts),
            why=f"{at_peak(_fullest_of(module))}\n{_smallest_plan(min_report)}",
            hint=_way_out(job, report, min_report),
        )
    what = next((name for name in ("flash", "external flash") if name in short), None)
    if what is not None:
        sizes = sorted(((c.nbytes, f"@{c.name}") for c in module.constants), reverse=True)
        largest = ", ".join(f"{name} {size:,} bytes" for size, name in sizes[:SHOWN])
        need = report.flash_bytes if what == "flash" else report.external_bytes
        raise BuildError(
            _too_much(what, need, board.name, need - short[what]),
            where=_parts(report.flash_parts),
            why=f"largest constants: {largest}",
            hint=_other_flash(job, report) or _plain(job, scalar) or "sdk boards lists boards with more flash",
        )


def _other_flash(job: Job, report: BuildReport) -> str | None:
    """The build whose weights are in the flash chip beside the board's microcontroller, where they fit there."""
    external, options = job.board.external, job.options
    if external is None or options.weights != "flash" or report.weights_bytes > external.size:
        return None
    return command_line("build", job.file, job.board, replace(options, weights="external"))


def _plain(job: Job, scalar: Callable[[], BuildReport] | None) -> str | None:
    """The build of plain C, where that fits."""
    if scalar is None or lacks(scalar(), job.board, job.options.regions):
        return None
    return command_line("build", job.file, job.board, replace(job.options, isa="scalar"))


def _too_much(what: str, need: int, board: str, have: int) -> str:
    return f"the model needs {need:,} bytes of {what}, {board} has {have:,}: {need - have:,} too many"


def _parts(parts: dict[str, int]) -> str:
    return " + ".join(f"{name} {size:,}" for name, size in parts.items())


def _fullest_of(module: Module) -> PlanSummary:
    """The memory of the entry that holds most."""
    found = (plan_summary(module, plan) for plan in module.plans.values())
    return max(found, key=lambda s: s.fullest.bytes)


def at_peak(summary: PlanSummary) -> str:
    """Which step sets the peak, and what is live then, in a sentence."""
    step, held = summary.fullest.step, summary.at_peak
    if not step:
        what = "before the run the inputs hold"
    elif step > len(summary.timeline):
        what = "after the run the results hold"
    else:
        row = summary.timeline[step - 1]
        what = f"step {step} ({row.ops or row.call}) holds"
    shown = ", ".join(f"{t.title} {t.live:,}" for t in held[:SHOWN])
    more = f" and {len(held) - SHOWN} smaller" if len(held) > SHOWN else ""
    return f"{what} {summary.fullest.bytes:,} bytes: {shown}{more}"


def _smallest_plan(plan: BuildReport) -> str:
    return f"the smallest plan (--memory min) needs {plan.ram_bytes:,} bytes, {plan.arena_bytes:,} of them arena"


def _way_out(job: Job, report: BuildReport, min_report: BuildReport) -> str:
    board, options = job.board, job.options
    memories = board.regions("ram")
    command = command_line("build", job.file, board, options)
    if options.regions or min_report.arena_bytes <= memories[0].size:
        if min_report.ram_bytes <= (board.ram_bytes or 0):
            return f"{command} --memory min"
    elif report.ram_bytes <= (board.ram_bytes or 0):
        return " ".join([command, *(f"--region {m.name}={m.size}" for m in memories)])
    narrower = "smaller bounds with --dim need less; " if report.dims else ""
    return f"{narrower}sdk boards lists boards with more RAM"


def command_line(verb: str, model: ModelFile, board: Board, options: BuildOptions) -> str:
    """The command with these options but those about memory, for a shell."""
    words = ["sdk", verb, *model.words, "--board", board.name]
    words += ["--name", options.name] if options.name else []
    for name, bounds in options.dims.items():
        words += ["--dim", f"{name}={':'.join(map(str, bounds))}"]
    words += ["--threads", str(options.threads)] if options.threads > 1 else []
    words += ["--isa", options.isa] if options.isa else []
    words += ["--backend", options.backend] if options.backend else []
    words += ["--toolchain", options.toolchain] if options.toolchain != "auto" else []
    for name, size in options.regions:
        words += ["--region", f"{name}={size}"]
    words += ["--opt", options.opt] if options.opt != "time" else []
    words += ["--io", options.io] if options.io else []
    words += ["--weights", options.weights] if options.weights != "flash" else []
    for library in options.libraries:
        words += ["--extern", str(library.path)]
    return shlex.join(words)
