"""``sdk fit``: a model against every board: what it needs there, what is left, and how long it would take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from sdk.boards import Board, board_names, load_board
from sdk.cores import timing_for
from sdk.driver.agents import runtime_board, runtime_sizes
from sdk.driver.artifact import build_sources
from sdk.driver.capacity import lacks
from sdk.driver.counting import Counts
from sdk.driver.files import read_model_file
from sdk.driver.generate import Planner, SharedPlans, measure
from sdk.driver.job import job_of
from sdk.driver.measuring import count
from sdk.driver.options import OBJECTIVES, BuildOptions
from sdk.errors import BuildError, MissingToolError, NoDeviceError, UsageError
from sdk.frontends.base import ModelFile
from sdk.report import FREE_STACK, BuildReport
from sdk.steps import step, update
from sdk.toolchains import target_for
from sdk.toolchains.size import Sections

__all__ = ["BoardFit", "FitReport", "fit"]


TIGHT: Final = 0.9  # of a memory: a model that takes more with the firmware leaves no room to grow


@dataclass(frozen=True)
class Firmware:
    """What an image takes beside the model, in bytes: ``ram`` without the ``stack``."""

    ram: int
    flash: int
    stack: int

    def beside(self, report: BuildReport) -> int:
        """Bytes of RAM beside those that ``report`` counts, which has the stack above what any firmware has: one with
        more stack has that anyway."""
        counted = max(report.stack_bytes - FREE_STACK, 0)
        return self.ram + max(self.stack, report.stack_bytes) - counted


@dataclass(frozen=True)
class BoardFit:
    """A model on one board, sizes in bytes.

    ``objective`` is the plan that fits: "time", or "min" where only the plan for least RAM does; None where neither.
    ``ram_bytes`` and ``flash_bytes`` are of that plan, of "min" where none fits; ``short`` what that one has too little
    of. ``instructions`` are those of a run, counted on ``emulated_on``;
    ``est_cycles`` estimated from them, ``est_ms`` those by the board's clock. None where there is no emulator, no table
    of cycles, or no clock. ``error``: how much less and more published results take than such estimates, as fractions;
    None where there is nothing to compare with. ``firmware_ram_bytes`` and ``firmware_flash_bytes`` are what an image
    with the device agent takes beside the model, the board's stack included.
    """

    board: str
    title: str
    cpu: str
    clock_hz: int | None
    emulated_only: bool
    objective: str | None
    ram_bytes: int
    ram_have: int
    flash_bytes: int
    flash_have: int
    short: Mapping[str, int] = field(default_factory=dict)
    instructions: int | None = None
    est_cycles: int | None = None
    emulated_on: str | None = None
    error: tuple[float, float] | None = None
    firmware_ram_bytes: int = 0
    firmware_flash_bytes: int = 0

    @property
    def ram_part(self) -> float:
        """Which part of the board's RAM the model takes with the firmware and its stack."""
        return (self.ram_bytes + self.firmware_ram_bytes) / max(self.ram_have, 1)

    @property
    def flash_part(self) -> float:
        """Which part of its flash they take."""
        return (self.flash_bytes + self.firmware_flash_bytes) / max(self.flash_have, 1)

    @property
    def tight(self) -> bool:
        """Whether it fits, and leaves next to nothing."""
        return self.objective is not None and max(self.ram_part, self.flash_part) > TIGHT

    @property
    def est_ms(self) -> float | None:
        """Estimated milliseconds of a run."""
        if self.est_cycles is None or self.clock_hz is None:
            return None
        return self.est_cycles / self.clock_hz * 1e3

    def to_json(self) -> dict[str, Any]:
        """The board's object in that of ``sdk fit --json``."""
        fits = self.objective is not None
        return {"fits": fits, "tight": self.tight, **asdict(self), "est_ms": self.est_ms}


@dataclass(frozen=True)
class FitReport:
    """A model on every board, those that it fits first, the fastest ahead. ``notes``: what could not be found out."""

    model: str
    dims: Mapping[str, tuple[int, int]]
    boards: tuple[BoardFit, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk fit --json``."""
        return {
            "model": self.model,
            "dims": {name: list(bounds) for name, bounds in self.dims.items()},
            "boards": [b.to_json() for b in self.boards],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class _Need:
    """What a model needs on the boards of one core and one compiler's target, and what its runs execute there."""

    boards: tuple[Board, ...]
    reports: Mapping[str, BuildReport]  # by objective
    counts: Mapping[str, Counts]
    uncounted: str | None  # why some could not be counted
    emulated_on: str
    firmware: Mapping[str, Firmware]  # by board


def fit(
    path: Path | ModelFile,
    options: BuildOptions,
    at: Mapping[str, int] | None = None,
    boards: Iterable[Board] | None = None,
    seen: Callable[[BoardFit], None] = lambda _: None,
) -> FitReport:
    """A model on all boards (or those given) that have memories of their own; times are of runs at the dims ``at``.

    A core is compiled for and counted once, however many boards have it. ``seen`` is called with each board once it is
    known, in no order.

    Raises:
        UsageError: the options name one board's memories, or the file cannot be read.
        BuildError: the model cannot be compiled.
    """
    if options.regions or options.arena_limit is not None:
        raise UsageError("memories are the boards' own here", hint="leave out --region and --arena-limit")
    options = options.read()
    file = read_model_file(path, options.importers, options.tensors)
    asked = None if boards is None else list(boards)
    read = {board.name: board for board in asked or ()}
    known = [read.get(name) or load_board(name) for name in board_names()]
    alike: dict[object, list[Board]] = {}
    for board in known if asked is None else asked:
        if not board.hosted:
            target = replace(target_for(board), stack_bytes=0)  # which is the linker's
            alike.setdefault((board.capabilities, board.core.cpu, target), []).append(board)
    rows: list[BoardFit] = []
    dims: Mapping[str, tuple[int, int]] = {}
    notes: dict[str, list[str]] = {}  # what could not be found out: the boards
    failed: BuildError | MissingToolError | None = None
    plan = SharedPlans()
    with step(f"{len(alike)} cores"), _beside() as pool:  # compilers and emulators run beside each other
        groups = {
            pool.submit(_need, file, options, at or {}, group, _emulated_target(group, known), plan): group
            for group in alike.values()
        }
        for number, future in enumerate(as_completed(groups), 1):
            update(f"core {number} of {len(alike)}: {groups[future][0].core.cpu}")
            try:
                need = future.result()
            except (BuildError, MissingToolError) as error:
                failed = error
                notes.setdefault(f"cannot be compiled for: {error.message}", []).extend(_names(groups[future]))
                continue
            if need.uncounted is not None:
                notes.setdefault(f"no estimates: {need.uncounted}", []).extend(_names(groups[future]))
            dims = need.reports[OBJECTIVES[0]].dims
            for row in _rows(need):
                rows.append(row)
                seen(row)
    if failed is not None and not rows:
        raise failed  # for no board at all
    order = [name for group in alike.values() for name in _names(group)]
    said = tuple(f"{', '.join(sorted(names, key=order.index))}: {note}" for note, names in sorted(notes.items()))
    return FitReport(file.name, dims, tuple(sorted(rows, key=_rank)), said)


@contextmanager
def _beside() -> Iterator[Executor]:
    """A thread for each processor; nothing more is begun in them when the block fails."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _names(group: Iterable[Board]) -> list[str]:
    return [board.name for board in group]


def _rank(row: BoardFit) -> tuple[bool, bool, float, str]:
    return row.objective is None, row.est_ms is None, row.est_ms or 0.0, row.board


def _emulated_target(group: Sequence[Board], known: Iterable[Board]) -> Board:
    """The core of some boards in the largest emulated machine that runs its code, so that memory does not keep a model
    from being counted; the first board itself where none can."""
    board, core = group[0], group[0].core
    able = [
        b
        for b in (*group, *known)
        if b.emulator is not None
        and not b.hosted
        and b.core.arch == core.arch
        and b.capabilities >= core.capabilities
    ]
    if not able:
        return board
    machine = max(able, key=lambda b: (b.ram_bytes or 0, b.flash_bytes or 0, b.core.cpu == core.cpu, b.name))
    return replace(machine, cores=board.cores, compilers=board.compilers)


def _need(
    model: ModelFile,
    options: BuildOptions,
    at: Mapping[str, int],
    group: Sequence[Board],
    place: Board,
    plan: Planner,
) -> _Need:
    firmware = _firmware(group, place, options)
    reports: dict[str, BuildReport] = {}
    for objective in OBJECTIVES:  # the next only where a board does not hold the one before
        if not reports or None in {_objective(reports, board, firmware[board.name]) for board in group}:
            reports[objective] = _sizes(model, place, replace(options, memory=objective), plan)
    used = {_objective(reports, board, firmware[board.name]) for board in group}
    counts: dict[str, Counts] = {}
    uncounted: str | None = None
    for objective in (objective for objective in OBJECTIVES if objective in used):
        try:
            counts[objective] = count(model, place, replace(options, memory=objective), at)
        except (MissingToolError, NoDeviceError, BuildError) as error:
            uncounted = error.message
    return _Need(tuple(group), reports, counts, uncounted, place.name, firmware)


def _firmware(group: Sequence[Board], place: Board, options: BuildOptions) -> dict[str, Firmware]:
    """What an image takes beside the model, by board: the runtime of the agent, where there is one, and the stack."""
    found: dict[str, Sections] = {}  # boards that talk in frames of the same length have the same runtime
    out: dict[str, Firmware] = {}
    for board in group:
        like = runtime_board(board, place)
        if like.name not in found:
            try:
                found[like.name] = runtime_sizes(like, place, options)
            except UsageError:  # no port: what is known is the stack
                found[like.name] = Sections()
        sizes = found[like.name]
        out[board.name] = Firmware(sizes.ram_bytes, sizes.flash_bytes, board.runtime.stack_bytes)
    return out


def _sizes(model: ModelFile, place: Board, options: BuildOptions, plan: Planner) -> BuildReport:
    """The sizes of a build, from the cache where it fits the machine."""
    try:
        return build_sources(model, place, options, plan).report
    except BuildError:
        pass  # too large even for the emulated target, by how much is what is asked; any other mistake is made again
    return measure(job_of(model, place, options), options.memory, plan)[1]


def _objective(reports: Mapping[str, BuildReport], board: Board, firmware: Firmware) -> str | None:
    """The first objective whose plan fits the board beside the firmware."""
    return next((objective for objective, report in reports.items() if not _short(report, board, firmware)), None)


def _short(report: BuildReport, board: Board, firmware: Firmware) -> dict[str, int]:
    """Bytes that a board has too few of for an image, as ``lacks`` has them for the model alone."""
    short = dict(lacks(report, board))
    ram = report.ram_bytes + firmware.beside(report) - (board.ram_bytes or 0)
    flash = report.flash_bytes + firmware.flash - (board.flash_bytes or 0)
    return {**({"ram": ram} if ram > 0 else {}), **{w: o for w, o in short.items() if w == "arena"},
            **({"flash": flash} if flash > 0 else {})}  # fmt: skip


def _rows(need: _Need) -> Iterator[BoardFit]:
    """The boards' rows."""
    for board in need.boards:
        firmware = need.firmware[board.name]
        objective = _objective(need.reports, board, firmware)
        shown = need.reports[objective or OBJECTIVES[-1]]
        row = BoardFit(
            board=board.name,
            title=board.title,
            cpu=board.core.cpu,
            clock_hz=board.run_hz,
            emulated_only=board.emulated_only,
            objective=objective,
            ram_bytes=shown.ram_bytes,
            ram_have=board.ram_bytes or 0,
            flash_bytes=shown.flash_bytes,
            flash_have=board.flash_bytes or 0,
            short={} if objective else _short(shown, board, firmware),
            firmware_ram_bytes=firmware.beside(shown),
            firmware_flash_bytes=firmware.flash,
        )
        counts = need.counts.get(objective or "")
        yield row if counts is None else _counted(row, counts, need.emulated_on)


def _counted(row: BoardFit, counts: Counts, place: str) -> BoardFit:
    row = replace(row, instructions=counts.instructions, emulated_on=place)
    if counts.est_cycles is None:
        return row
    timing = timing_for(row.cpu)
    return replace(row, est_cycles=round(counts.est_cycles), error=None if timing is None else timing.error)
