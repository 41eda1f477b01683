"""``sdk profile``: what each operator of a model takes, counted under emulation or timed, beside what it has to do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path

from sdk.amounts import Amount
from sdk.boards import Board
from sdk.compiler.sym import evaluate
from sdk.devices.client import Session
from sdk.devices.machine import MachineFacts
from sdk.devices.messages import DeviceInfo, OpTicks
from sdk.driver.agents import link_agent
from sdk.driver.built import Built
from sdk.driver.conditions import conditions, facts_of, remarks, runs_here
from sdk.driver.counting import PHASE_OP, PHASE_RUN, Counts, can_count, counted, total
from sdk.driver.execute import GPU_NOTE, WARMUP, entry_name, prepare, resolve
from sdk.driver.gpus import interface_of, kept_kernels
from sdk.driver.options import BuildOptions
from sdk.driver.peak import peak_of
from sdk.driver.session import open_session
from sdk.errors import LinkError, UsageError
from sdk.frontends.base import ModelFile
from sdk.profile import COSTS, OpProfile, Peak, ProfileReport
from sdk.report import Json

__all__ = ["profile"]

RUNS = 10  # of a machine with a clock, where the user asks for no other number


@dataclass(frozen=True)
class _Cost:
    """What something took: by the names of ``OpProfile``; None where it cannot be said."""

    median_us: float | None = None
    cycles: float | None = None
    instructions: float | None = None
    est_cycles: float | None = None

    @property
    def main(self) -> float:
        """The number that shares are of."""
        values = asdict(self)
        return next((values[name] for name in COSTS if values[name] is not None), 0.0)


@dataclass(frozen=True)
class _Measured:
    """A run without the clocks, with them, and each operation of the latter with how often it was called."""

    info: DeviceInfo
    dims: Mapping[str, int]
    plain: _Cost
    clocked: _Cost
    ops: tuple[tuple[_Cost, int], ...]
    runs: int
    conditions: Json | None = None
    notes: tuple[str, ...] = ()
    here: bool = False  # on this machine, in its time


def profile(
    target: Path | ModelFile,
    board: Board | None,
    device: str | None,
    options: BuildOptions,
    at: Mapping[str, int],
    repeat: int = RUNS,
    entry: str | None = None,
) -> ProfileReport:
    """``sdk profile``: an entry's operators on a board's emulated target (instructions counted, cycles estimated;
    ``repeat`` does not matter there) or on a machine with a clock (medians of ``repeat`` runs).

    Raises:
        UsageError: there is no such entry.
        NoPluginsError: the emulator takes no plugins.
    """
    built, place = resolve(target, board, options)
    name = entry_name(built, entry)
    own = built.entries[name]
    facts = own.ops
    if not facts:
        raise UsageError(f"entry {name!r} has no operators to profile", hint="its outputs are its inputs or constants")
    clocks = max(op.index for op in facts) + 1
    plain = link_agent(built.sources, place, options, device=device)
    clocked = link_agent(built.sources, place, options, clocks, device)
    if can_count(place, options.threads, device):
        found = _counted(place, (plain, clocked), clocks, lambda session: prepare(session, built, entry, at), device)
    elif place.emulator is not None and not place.emulator.timed and device is None:
        raise UsageError("instructions of several threads cannot be told apart", hint="profile with --threads 1")
    else:
        kept = kept_kernels(built)
        with (
            open_session(device, place, plain, variables=kept) as bare,
            open_session(device, place, clocked, variables=kept) as with_clocks,
        ):
            now = facts_of(device, place, bare)
            found = _timed(bare, with_clocks, clocks, lambda session: prepare(session, built, entry, at), repeat, now)
            found = replace(found, here=runs_here(device, place))
    return _report(built, place, options, name, found)


Prepare = Callable[[Session], tuple[int, dict[str, int]]]


def _counted(
    place: Board, agents: tuple[Path, Path], clocks: int, prepare: Prepare, device: str | None
) -> _Measured:
    """One run of each agent under the emulator."""

    def once(session: Session) -> tuple[DeviceInfo, dict[str, int]]:
        number, dims = prepare(session)
        session.run(number, dims=list(dims.values()))
        return session.info, dims

    def with_clocks(session: Session) -> tuple[DeviceInfo, dict[str, int], tuple[OpTicks, ...]]:
        return *once(session), _ticks(session, clocks)

    _, bare = counted(place, agents[0], 0, once, device)
    (info, dims, ticks), phases = counted(place, agents[1], clocks, with_clocks, device)
    none = Counts(0, None if phases[PHASE_RUN].est_cycles is None else 0.0)
    ops = tuple((_cost(phases.get(PHASE_OP + k, none)), t.calls) for k, t in enumerate(ticks))
    return _Measured(info, dims, _cost(total(bare)), _cost(total(phases)), ops, 1)


def _cost(counts: Counts) -> _Cost:
    cycles = counts.est_cycles
    return _Cost(instructions=counts.instructions, est_cycles=None if cycles is None else round(cycles))


def _ticks(session: Session, clocks: int) -> tuple[OpTicks, ...]:
    """What each of so many operations took in the last run."""
    found = session.profile()
    if len(found) != clocks:
        raise LinkError(
            "the device has another profile than the one that was built",
            why=f"{len(found)} operations, not {clocks}",
            hint="build and flash this model's firmware",
        )
    return found


def _timed(
    bare: Session, clocked: Session, clocks: int, prepare: Prepare, repeat: int, now: Callable[[], MachineFacts | None]
) -> _Measured:
    """Runs of both agents in turn; medians. ``now`` says how the machine is."""
    (number, dims), _ = prepare(clocked), prepare(bare)
    values = list(dims.values())
    for session in (bare, clocked):
        session.run(number, dims=values, warmup=WARMUP)
    plain, whole, ops, before = [], [], [], now()
    for _ in range(repeat):
        plain.append(bare.run(number, dims=values).samples[0])
        whole.append(clocked.run(number, dims=values).samples[0])
        ops.append(_ticks(clocked, clocks))
    after, unit = now(), clocked.info.counter
    said = bare.notes(GPU_NOTE)
    each = tuple((_median(unit, [run[k].ticks for run in ops]), ops[-1][k].calls) for k in range(len(ops[-1])))
    told = (*said, *remarks(before, after, plain))
    measured = (clocked.info, dims, _median(unit, plain), _median(unit, whole), each, repeat)
    return _Measured(*measured, conditions(before, after), told)


def _median(unit: str, samples: Sequence[float]) -> _Cost:
    value = statistics.median(samples)
    match unit:
        case "time":
            return _Cost(median_us=value / 1e3)
        case "cycles":
            return _Cost(cycles=value)
        case _:
            return _Cost(instructions=value)


def _report(
    built: Built,
    place: Board,
    options: BuildOptions,
    entry: str,
    found: _Measured,
) -> ProfileReport:
    own = built.entries[entry]
    env = {var: found.dims[var.name] for var in own.dims}
    interface = interface_of(built)
    peak = peak_of(place, options.threads) if interface is None else _gpu_peak(interface, found)
    ops = []
    for fact in own.ops:
        cost, calls = found.ops[fact.index]
        macs, moved = evaluate(fact.macs, env), evaluate(fact.bytes, env)
        ops.append(
            OpProfile(
                index=fact.index,
                step=fact.step,
                name=fact.name,
                kind=fact.kind,
                source_ops=fact.source_ops,
                calls=calls,
                macs=macs,
                bytes=moved,
                live_bytes=fact.live_bytes,
                share=cost.main / found.clocked.main if found.clocked.main else 0.0,
                peak_compute=_part(macs, cost, peak, peak.macs if peak else None),
                peak_bandwidth=_part(moved, cost, peak, peak.bytes if peak else None),
                median_us=cost.median_us,
                instructions=_whole(cost.instructions),
                cycles=_whole(cost.cycles),
                est_cycles=_whole(cost.est_cycles),
            )
        )
    whole = found.clocked.main
    return ProfileReport(
        model=built.report.model,
        board=place.name,
        device=found.info.name,
        emulated=found.info.emulated,
        at=found.dims,
        threads=options.threads,
        runs=found.runs,
        counter=str(found.info.counter),
        ops=tuple(ops),
        total=asdict(found.plain),
        overhead=whole / found.plain.main - 1.0 if found.plain.main else 0.0,
        covered=sum(cost.main for cost, _ in found.ops) / whole if whole else 0.0,
        peak=peak,
        board_ram_bytes=None if place.hosted else place.ram_bytes,
        entry=entry,
        weights=built.report.weights,
        macs=Amount(None if own.macs is None else evaluate(own.macs, env), sum(op.macs for op in ops)),
        notes=(*_notes(found), *found.notes),
        conditions=found.conditions,
    )


def _gpu_peak(interface: str, found: _Measured) -> Peak | None:
    """That of this machine's GPU, where it was measured."""
    if not found.here:
        return None
    measured: Callable[[str], Peak | None] = import_module("sdk.driver.gpu_peak").gpu_peak  # which loads the printers
    return measured(interface)


def _whole(count: float | None) -> int | None:
    return None if count is None else round(count)


def _part(work: int, cost: _Cost, peak: Peak | None, maximum: float | None) -> float | None:
    """What part of the most that the device could do in that time was done; None where that is not known."""
    if peak is None or not maximum:
        return None
    spent = {"cycle": cost.cycles if cost.cycles is not None else cost.est_cycles, "us": cost.median_us}[peak.unit]
    return work / (spent * maximum) if spent else None


def _notes(found: _Measured) -> tuple[str, ...]:
    notes = []
    if found.plain.instructions is not None:
        notes.append("under emulation: instructions are counted, there is no time")
    if found.plain.est_cycles is not None:
        notes.append("est_cycles: of the instructions executed, by the core's public table; no flash wait states")
    return tuple(notes)

