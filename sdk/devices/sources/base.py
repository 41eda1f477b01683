"""What is found, and looking in all places at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from sdk.errors import SdkError

__all__ = ["DEADLINE_S", "Found", "Source", "State", "Trouble", "look", "register_source"]

State = Literal["free", "busy", "no permission", "unauthorised", "offline", "in bootloader", "not asked"]
DEADLINE_S = 4.0


@dataclass(frozen=True)
class Found:
    """A device, or a machine that may be one.

    Attributes:
        place: the source that found it.
        address: what --device takes, "" where it takes none yet.
        name: what it says of itself, or is called.
        boards: those that it may be, for --board.
        state: whether it can be used now; "not asked" where only using it would tell.
        why: who has it, or what is wrong.
        fix: what changes that.
        serial: the number by which it is told from others of its kind.
    """

    place: str
    address: str
    name: str
    state: State
    boards: tuple[str, ...] = ()
    why: str | None = None
    fix: str | None = None
    serial: str | None = None


@dataclass(frozen=True)
class Trouble:
    """A place that could not be looked into."""

    place: str
    why: str
    fix: str | None = None


Source = Callable[[], Iterable[Found]]  # may raise SdkError or OSError
_SOURCES: dict[str, Source] = {}


def register_source(place: str) -> Callable[[Source], Source]:
    """Return a decorator that makes a function look into ``place``."""

    def add(source: Source) -> Source:
        _SOURCES[place] = source
        return source

    return add


def look(deadline_s: float = DEADLINE_S) -> tuple[list[Found], list[Trouble]]:
    """What is found in all places within a time, in the order of the places; those that are late or fail are told."""
    results: queue.SimpleQueue[tuple[str, list[Found] | Trouble]] = queue.SimpleQueue()

    def ask(place: str, source: Source) -> None:
        try:
            results.put((place, list(source())))
        except SdkError as error:
            why = f"{error.message}: {error.why}" if error.why else error.message
            results.put((place, Trouble(place, why, error.hint)))
        except OSError as error:
            results.put((place, Trouble(place, str(error))))

    places = dict(_SOURCES)
    for place, source in places.items():
        threading.Thread(target=ask, args=(place, source), daemon=True).start()
    until, come = time.monotonic() + deadline_s, dict[str, list[Found] | Trouble]()
    while len(come) < len(places):
        try:
            place, what = results.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        come[place] = what
    found: list[Found] = []
    trouble: list[Trouble] = []
    for place in sorted(places):
        what = come.get(place, Trouble(place, f"it did not answer within {deadline_s:g} s", "look again"))
        if isinstance(what, Trouble):
            trouble.append(what)
        else:
            found += what
    return found, trouble
