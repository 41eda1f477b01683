"""``sdk build --also``: a build with code for newer cores beside that for the board's, of which the program chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from sdk.boards import CAPABILITIES, Board, with_implied
from sdk.codegen_c.base import Variant
from sdk.driver.built import Built
from sdk.driver.job import Job
from sdk.driver.sources import as_emitted, as_files
from sdk.driver.targets import target_of
from sdk.errors import UsageError
from sdk.report import BuildReport

__all__ = ["with_variants"]

def with_variants(job: Job, built: Built, also: Sequence[str], build: Callable[[Job], Built]) -> Built:
    """The build of a job with variants for each of ``also``, capabilities joined by "+". Of those that a core has, the
    one of most capabilities runs; sizes are the sum of all, what the caller gives the most that one needs.

    Raises:
        UsageError: a name is no capability, the board has them all, or no program can be told of its core there.
        BuildError: the model cannot be compiled for such a core.
    """
    _check(job)
    wanted = sorted({_capabilities(job.board, names) for names in also}, key=lambda c: (-len(c), sorted(c)))
    jobs = [_job_for(job, beyond) for beyond in wanted]
    made = [build(one) for one in jobs]
    variants = [
        Variant(one.prefix, one.beyond, as_emitted(found.sources.model)) for one, found in zip(jobs, made, strict=True)
    ]
    assert job.backend.dispatch is not None  # _check has seen to it
    files = job.backend.dispatch(job.prefix, as_emitted(built.sources.model), variants)
    kept = [found.report for found in made if f"{found.sources.prefix}.h" in files]
    sources = replace(built.sources, model=as_files(files))
    return replace(built, sources=sources, report=_report(built.report, kept))


def _check(job: Job) -> None:
    target = target_of(job.board, job.options)
    linux = "linux" in target.zig_target and not target.for_libraries.apple
    if not job.board.hosted or job.board.core.arch != "aarch64" or not linux:
        raise UsageError(
            f"--also has no part in a build for {job.board.name}",
            why="programs are told what their core can do by Linux and Android on 64-bit Arm",
            hint="leave it out, or choose a board with one of these; sdk boards lists them",
        )
    if job.backend.dispatch is None or job.options.weights == "file":
        why = "each core's code has weights in an order of its own"
        raise UsageError("--also takes weights that are part of the program", why=why, hint="leave out --weights file")


def _capabilities(board: Board, names: str) -> frozenset[str]:
    """Those that a core has beyond the board's."""
    given = frozenset(filter(None, names.split("+")))
    unknown = sorted(given - CAPABILITIES)
    if unknown or not given:
        raise UsageError(f"--also {names!r} names no capability", hint="for example --also dotprod --also dotprod+i8mm")
    beyond = with_implied(given) - board.capabilities
    if not beyond:
        raise UsageError(f"{board.name} has {names} anyway", where="--also", hint="leave it out")
    return beyond


def _job_for(job: Job, beyond: frozenset[str]) -> Job:
    """The build for cores that have these too."""
    core = structs.replace(job.board.core, capabilities=job.board.capabilities | beyond)
    board = replace(job.board, cores=(core, *job.board.cores[1:]))
    options = replace(job.options, isa=None)
    return replace(job, prefix="_".join([job.prefix, *sorted(beyond)]), board=board, options=options, beyond=beyond)


def _report(base: BuildReport, others: Sequence[BuildReport]) -> BuildReport:
    """What the program takes with all of them, of which one runs."""
    every = [base, *others]
    sections = {kind: sum(one.sections.get(kind, 0) for one in every) for kind in base.sections}
    weights = replace(base.weights, compiled=sum(one.weights.compiled or 0 for one in every))
    return replace(
        base,
        sections=sections,
        weights=weights,
        arena_bytes=max(one.arena_bytes for one in every),
        state_bytes=max(one.state_bytes for one in every),
        context_bytes=max(one.context_bytes for one in every),
        stack_bytes=max(one.stack_bytes for one in every),
        warnings=tuple(dict.fromkeys(text for one in every for text in one.warnings)),
    )
