"""What a run costs: samples of one build, or of two in turns; and whether that is worse than it was."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sdk.boards import Board
from sdk.devices.client import Session
from sdk.driver.agents import link_agent
from sdk.driver.built import Built
from sdk.driver.conditions import conditions, facts_of, remarks, runs_here
from sdk.driver.counting import PHASE_RUN, Counts, NoPluginsError, can_count, counted
from sdk.driver.execute import GPU_NOTE, WARMUP, linked, prepare, resolve
from sdk.driver.gpus import kept_kernels
from sdk.driver.options import BuildOptions
from sdk.driver.pinning import pinned
from sdk.driver.session import open_session
from sdk.errors import NoDeviceError, UsageError
from sdk.files import read_regular
from sdk.frontends.base import ModelFile
from sdk.measures import median_interval
from sdk.report import BenchReport
from sdk.steps import update

__all__ = ["BLOCKS", "Baseline", "PairReport", "bench", "bench_pair", "compare_with", "count", "cpu_of"]

BLOCKS: Final = 31  # of two builds in turns
_BLOCK_S: Final = 0.02  # that the runs of a block last at least
_MAX_RUNS: Final = 28  # of one request: what the answer of a small device holds
_COUNTED_BLOCKS: Final = 3  # where instructions are counted, which do not vary
_MAX_SAMPLES: Final = 1_000_000
_MAX_BASELINE: Final = 1 << 20
_COSTS: Final = ("median_ms", "cycles", "instructions")  # of a report, the first that it has
_SAME: Final = ("board", "at", "threads")  # fields that a baseline must have in common


def bench(
    target: Path | ModelFile,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int],
    repeat: int,
    threads: int,
    entry: str | None = None,
    *,
    warmup: int = WARMUP,
    min_time_s: float = 0.0,
) -> BenchReport:
    """``sdk bench``: samples of ``repeat`` runs, and of more until ``min_time_s`` has passed, after a first run that is
    told apart and ``warmup`` runs that do not count; on an emulated board with a table of cycles, an estimate of those
    too. What the clock costs is taken off each sample."""
    built, place = resolve(target, board, options)
    agent = link_agent(built.sources, place, options, device=device)
    runs = 0

    def work(session: Session) -> BenchReport:
        nonlocal runs
        number, dims = prepare(session, built, entry, at)
        values, counts = list(dims.values()), session.info.counter == "instructions"
        now = facts_of(device, place, session)
        first = None if counts else session.run(number, dims=values).samples[0]
        before, began = now(), time.monotonic()
        samples = list(session.run(number, dims=values, repeat=repeat, warmup=warmup).samples)
        while time.monotonic() - began < min_time_s and len(samples) < _MAX_SAMPLES and not counts:
            samples += session.run(number, dims=values, repeat=repeat).samples
        after, runs = now(), len(samples) + warmup + (first is not None)
        told = (*session.notes(GPU_NOTE), *remarks(before, after, samples))
        return replace(
            _report(built, place, session, at, threads, samples), first=first, notes=told,
            conditions=conditions(before, after),
        )  # fmt: skip

    if can_count(place, threads, device):
        try:
            report, counts = counted(place, agent, 0, work, device)
        except NoPluginsError:
            pass  # a machine's clock counts instructions too: only the estimate is missing then
        else:
            found = counts[PHASE_RUN]
            cycles = None if found.est_cycles is None else found.est_cycles / runs
            return replace(report, instructions=found.instructions / runs, est_cycles=cycles)
    with open_session(device, place, agent, variables=kept_kernels(built)) as session:
        return work(session)


def _report(
    built: Built, place: Board, session: Session, at: Mapping[str, int], threads: int, samples: list[float]
) -> BenchReport:
    info = session.info
    return BenchReport(
        built.report.model, place.name, info.name, info.emulated, at, threads, tuple(samples), str(info.counter)
    )


@dataclass(frozen=True)
class PairReport:
    """Two builds measured in turns: the samples of each are the medians of its blocks; ``ratios`` are B's by A's."""

    a: BenchReport
    b: BenchReport
    ratios: tuple[float, ...]

    @property
    def change(self) -> float:
        """By which part of A's cost B's is above it."""
        return statistics.median(self.ratios) - 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which two the true change lies, 19 times in 20; None where too few blocks tell."""
        found = median_interval(self.ratios)
        return None if found is None else (found[0] - 1, found[1] - 1)

    @property
    def differs(self) -> bool:
        """Whether more than chance tells the two apart."""
        low, high = self.interval or (self.change, self.change)
        return low > 0 or high < 0

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk bench A B --json``."""
        return {
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "blocks": len(self.ratios),
            "change_percent": 100 * self.change,
            "change_percent_95": None if self.interval is None else [100 * value for value in self.interval],
            "differs": self.differs,
        }


def bench_pair(
    targets: tuple[Path | ModelFile, Path | ModelFile],
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int],
    entry: str | None = None,
    *,
    blocks: int = BLOCKS,
) -> PairReport:
    """``sdk bench A B``: two builds in turns on one device, a block of runs each, A first in every other pair of
    blocks: what changes slowly on the machine falls out of their ratios. On this machine, programs of one thread start
    alike (``pinned``), since what their places in memory cost does not change while they run.

    Raises:
        UsageError: the device runs one image at a time.
    """
    if (device or "").startswith("serial:"):
        raise UsageError(
            "a board runs one image, so that two cannot take turns on it",
            hint="measure the first with --json > base.json, flash the other, and give --baseline base.json",
        )
    with contextlib.ExitStack() as stack:
        both = [linked(target, board, device, options) for target in targets]
        alike = all(
            runs_here(device, place) and built.sources.threads == 1 and built.sources.backend != "gpu"
            for _, built, place in both
        )
        sides = []
        for agent, built, place in both:
            with pinned() if alike else contextlib.nullcontext():
                session = stack.enter_context(open_session(device, place, agent, variables=kept_kernels(built)))
            sides.append(_Side(session, built, place, *prepare(session, built, entry, at)))
        now = facts_of(device, sides[0].place, sides[0].session)
        sizes = [side.block_size() for side in sides]
        first, before = [side.first for side in sides], now()
        if sides[0].counts:
            blocks = min(blocks, _COUNTED_BLOCKS)
        medians: tuple[list[float], list[float]] = ([], [])
        for block in range(blocks):
            update(f"block {block + 1} of {blocks}")
            for k in (0, 1) if block % 2 == 0 else (1, 0):
                medians[k].append(sides[k].block(*sizes[k]))
        after = now()
        reports = []
        for side, samples, one in zip(sides, medians, first, strict=True):
            report = _report(side.built, side.place, side.session, at, options.threads, samples)
            told = (*side.session.notes(GPU_NOTE), *remarks(before, after, samples))
            reports.append(replace(report, first=one, notes=told, conditions=conditions(before, after)))
    ratios = tuple(b / a if a else math.inf if b else 1.0 for a, b in zip(*medians, strict=True))
    return PairReport(reports[0], reports[1], ratios)


class _Side:
    """One of two builds, ready to run."""

    def __init__(self, session: Session, built: Built, place: Board, number: int, dims: Mapping[str, int]) -> None:
        self.session, self.built, self.place = session, built, place
        self.counts = session.info.counter == "instructions"
        self.first: float | None = None
        self._number, self._dims = number, list(dims.values())

    def block_size(self) -> tuple[int, int]:
        """How many requests of how many runs make a block: as many as last for a moment by the host's clock."""
        samples = self.session.run(self._number, dims=self._dims).samples
        self.first = None if self.counts else samples[0]
        if self.counts:
            return 1, 1
        self._request(WARMUP)
        runs = max(3, min(_MAX_RUNS, math.ceil(_BLOCK_S * WARMUP / self._request(WARMUP))))
        return math.ceil(_BLOCK_S / self._request(runs)), runs

    def _request(self, runs: int) -> float:
        """How long so many runs take together with the way to the device and back."""
        began = time.monotonic()
        self.session.run(self._number, dims=self._dims, repeat=runs)
        return max(time.monotonic() - began, 1e-6)

    def block(self, requests: int, runs: int) -> float:
        """The median of a block's runs; before those of a request, one finds the caches again."""
        warm = 0 if self.counts else 1
        asked = (self.session.run(self._number, dims=self._dims, repeat=runs, warmup=warm) for _ in range(requests))
        return statistics.median(itertools.chain.from_iterable(one.samples for one in asked))


@dataclass(frozen=True)
class Baseline:
    """A measurement held against one of before; ``change`` is a part of that one's cost."""

    file: Path
    unit: str
    before: float
    now: float
    fail_above: float

    @property
    def change(self) -> float:
        """By which part of the earlier cost this one is above it."""
        return self.now / self.before - 1 if self.before else math.inf if self.now else 0.0

    @property
    def passed(self) -> bool:
        """Whether it is worse by no more than was allowed."""
        return self.change <= self.fail_above

    def to_json(self) -> dict[str, Any]:
        """A part of the object of ``sdk bench --baseline``."""
        change = 100 * self.change
        return {
            "file": str(self.file),
            "unit": self.unit,
            "before": self.before,
            "change_percent": change if math.isfinite(change) else None,
            "fail_above_percent": 100 * self.fail_above,
            "passed": self.passed,
        }


def compare_with(file: Path, report: Mapping[str, Any], fail_above: float) -> Baseline:
    """What has changed since ``sdk bench --json`` wrote ``file``; ``report`` is such an object of now.

    Raises:
        UsageError: the file is none, or of another board, processor, other sizes, threads or another unit.
    """
    save = "sdk bench MODEL --board B --json > FILE makes one"
    try:
        before = json.loads(read_regular(file, _MAX_BASELINE))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise UsageError(f"cannot read the baseline {file}", why=why, hint=save) from None
    unit = next((name for name in _COSTS if report.get(name) is not None), _COSTS[0])
    if not isinstance(before, dict) or not isinstance(before.get(unit), (int, float)) or before[unit] < 0:
        raise UsageError(f"the baseline {file} has no {unit}", why="a device tells time or counts", hint=save)
    pairs = [(name, before.get(name), report[name]) for name in _SAME]
    pairs += [("cpu", *found)] if None not in (found := (cpu_of(before), cpu_of(report))) else []
    for name, then, now in pairs:
        if then != now:
            why = f"{name}: {then}, now {now}"
            raise UsageError(f"the baseline {file} is of something else", why=why, hint=save)
    return Baseline(file, unit, float(before[unit]), float(report[unit]), fail_above)


def cpu_of(report: Mapping[str, Any]) -> str | None:
    """What an object of ``sdk bench --json`` says of the processor; None where nobody told."""
    found = report.get("conditions")
    cpu = found.get("cpu") if isinstance(found, dict) else None
    return cpu if isinstance(cpu, str) else None


def count(target: Path | ModelFile, board: Board, options: BuildOptions, at: Mapping[str, int] | None = None) -> Counts:
    """What one inference executes on an emulated board.

    Raises:
        NoDeviceError: the board has no emulated target whose instructions can be counted.
    """
    cannot = NoDeviceError(
        f"{board.name} has no emulated target that counts instructions", hint="sdk boards lists others"
    )
    if not can_count(board, options.threads):
        raise cannot
    report = bench(target, board, None, options, at or {}, 1, options.threads, warmup=0)  # counts have no cold caches
    found = report.samples[0] if report.instructions is None else report.instructions
    if report.instructions is None and report.counter != "instructions":
        raise cannot
    return Counts(round(found), report.est_cycles)
