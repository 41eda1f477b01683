"""The machine while it is measured: clocks, governor, temperature, load, and what they say of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sdk.agent.facts import machine_facts
from sdk.boards import Board
from sdk.devices.client import Session
from sdk.devices.machine import MachineFacts
from sdk.driver.machines import engine_of
from sdk.measures import drift

__all__ = ["conditions", "facts_of", "remarks", "runs_here"]

_AGENTS = ("tcp", "ssh", "adb")
_SLOWER = 0.9  # of a clock, below which it is said to have fallen
_DRIFTS = 0.05
_BUSY = 0.5  # others' load for each core
_WARMER = 3.0  # degrees Celsius
_COLDEST, _HOTTEST = -40.0, 150.0

Facts = MachineFacts | None


def facts_of(device: str | None, board: Board, session: Session) -> Callable[[], Facts]:
    """A function that says how the machine is now on which the model of a session runs; None of it where nobody tells:
    emulators take no time of their own, boards at serial ports tell nothing, agents tell what their systems do."""
    scheme = (device or "").partition(":")[0]
    if scheme in _AGENTS:
        return session.machine
    return machine_facts if runs_here(device, board) else lambda: None


def runs_here(device: str | None, board: Board) -> bool:
    """Whether models of a session run as programs on this machine, in its time."""
    scheme = (device or "").partition(":")[0]
    here = scheme == "local" or (device is None and board.hosted and engine_of(board) in (None, "program"))
    return here and (board.emulator is None or board.emulator.timed)


def conditions(before: Facts, after: Facts) -> dict[str, Any] | None:
    """What was known of the machine before and after, as JSON: pairs of numbers, null where it does not tell."""
    if before is None or after is None:
        return None
    return {
        "cpu": before.cpu,
        "system": before.system,
        "governors": sorted({core.governor for core in before.cores if core.governor}),
        "mhz": [_clock(before), _clock(after)],
        "max_mhz": max((core.max_mhz for core in before.cores if core.max_mhz), default=None),
        "cap_mhz": [_cap(before), _cap(after)],
        "temperature_c": [_warmth(before), _warmth(after)],
        "load": [before.load, after.load],
    }


def remarks(before: Facts, after: Facts, samples: Sequence[float]) -> Iterator[str]:
    """What a reader of the numbers must know."""
    moved = drift(samples)
    if moved is not None and abs(moved) > _DRIFTS:
        word = "longer" if moved > 0 else "shorter"
        yield f"the last runs took {100 * abs(moved):.0f} % {word} than the first ones"
    if before is None or after is None:
        return
    clocks, warmth = (_clock(before), _clock(after)), (_warmth(before), _warmth(after))
    if clocks[0] and clocks[1] and clocks[1] < _SLOWER * clocks[0]:
        hot = warmth[0] is not None and warmth[1] is not None and warmth[1] > warmth[0] + _WARMER
        why = f"it throttles: {warmth[0]:.0f} to {warmth[1]:.0f} degrees" if hot else "it throttles, or saves power"
        yield f"the clock fell from {clocks[0]:.0f} to {clocks[1]:.0f} MHz ({why})"
    fastest, cap = max((core.max_mhz for core in after.cores if core.max_mhz), default=None), _cap(after)
    if fastest and cap and cap < _SLOWER * fastest:
        yield f"the system holds the clock at {cap:.0f} of {fastest:.0f} MHz: heat or a setting"
    governors = {core.governor for core in before.cores if core.governor} - {"performance"}
    if governors:
        yield f"the governor is {', '.join(sorted(governors))}: clocks follow the load (performance keeps them)"
    if before.load is not None and before.load > _BUSY * max(1, len(before.cores)):
        yield f"other programs kept the machine busy: its load was {before.load:.1f} on {len(before.cores)} cores"


def _clock(facts: MachineFacts) -> float | None:
    """The fastest core's clock in MHz: where the model runs, as far as can be told from outside."""
    return max((core.mhz for core in facts.cores if core.mhz), default=None)


def _cap(facts: MachineFacts) -> float | None:
    """The fastest clock that the system allows any core now."""
    return max((core.cap_mhz for core in facts.cores if core.cap_mhz), default=None)


def _warmth(facts: MachineFacts) -> float | None:
    """The hottest sensor; phones have some that are not connected, and say so by temperatures that nothing has."""
    return max((value for value in facts.temperatures_c.values() if _COLDEST < value < _HOTTEST), default=None)
