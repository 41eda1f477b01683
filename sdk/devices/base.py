"""The transports: what a byte pipe to a device must offer, and the registry from URI schemes to openers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from sdk.devices.emulated.spec import MachineSpec
from sdk.errors import UsageError
from sdk.resources import data_dir


@dataclass(frozen=True)
class EmulatorSpec:
    """How to start a board's emulated target.

    ``command`` is an argv with the placeholders {elf}, {runtime} (the folder of the device runtime), {serial} (in
    QEMU's -serial syntax) and {shift}: an instruction lasts 2**``icount_shift`` ns of guest time (None: not counted).
    ``timer_hz`` is the board timer's frequency. ``timed``: what runs in it takes the time that it takes, as in the
    engine of a browser. ``machine`` is the board itself under Unicorn, in the place of a command.
    """

    command: tuple[str, ...]
    icount_shift: int | None
    timer_hz: int
    timed: bool = False
    machine: MachineSpec | None = None

    @property
    def counts(self) -> bool:
        """Whether its clock counts instructions."""
        return self.icount_shift is not None or self.machine is not None

    def argv(self, artifact: Path, serial: str = "null") -> list[str]:
        """The command that starts ``artifact``."""
        shift = "" if self.icount_shift is None else str(self.icount_shift)
        values = {"elf": str(artifact), "runtime": str(data_dir("c_runtime")), "serial": serial, "shift": shift}
        return [part.format_map(values) for part in self.command]


AgentMaker = Callable[[str], Path]  # the agent of c_runtime/agent for what `uname -m` says


@dataclass(frozen=True)
class OpenRequest:
    """What an opener may use: the URI, its part after the scheme, the agent, the machine, a deadline, who makes
    agents for machines that programs are sent to, and more ``variables`` of an agent's environment on this machine.
    ``beside``: files that are sent before, and lie beside the program there, by the hashes of their contents.
    ``is_whole``: bytes that are lost are not made up for, so a lost connection is the end of it."""

    uri: str
    rest: str
    artifact: Path
    emulator: EmulatorSpec | None
    timeout_s: float
    agent_for: AgentMaker | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[Path, ...] = ()
    is_whole: bool = False

    def refuse_rest(self) -> None:
        """Refuse an address that goes on after its scheme, where there is nothing to choose.

        Raises:
            UsageError: it does.
        """
        if self.rest:
            scheme = self.uri.removesuffix(self.rest)
            raise UsageError(
                f"{self.uri!r} is not a device address",
                why=f"nothing comes after {scheme}: --board says which target is started",
                hint=f"--device {scheme} and the board's name after --board; sdk boards lists them",
            )


class Transport(Protocol):
    """A byte pipe. No call blocks longer than asked; a broken one raises LinkError or DeviceFault."""

    address: str  # for messages
    emulated: bool
    bytes_per_s: float  # the slowest rate to expect
    ns_per_instruction: float | None  # of guest time, under an emulator that counts instructions

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have come, waiting up to ``timeout_s`` for the first; b"" when none came."""

    def write(self, data: bytes, timeout_s: float) -> None:
        """Write all of ``data``; raise LinkError when the other side has not taken it after ``timeout_s``."""

    def close(self) -> None:
        """Close the pipe and end whatever was started for it. May be called twice."""


@runtime_checkable
class RatedTransport(Transport, Protocol):
    """A line with a rate in bits a second, which can be changed; ``wanted`` is the one to change to (0: none)."""

    baud: int
    wanted: int

    def set_baud(self, baud: int) -> None:
        """Talk and listen at another rate; what has come and was not read is dropped. Raises UsageError where the port
        cannot have it, LinkError where it is gone."""


Opener = Callable[[OpenRequest], Transport]
_OPENERS: dict[str, Opener] = {}


def register(scheme: str) -> Callable[[Opener], Opener]:
    """Return a decorator that makes a function open the URIs of ``scheme``."""

    def add(opener: Opener) -> Opener:
        _OPENERS[scheme] = opener
        return opener

    return add


def schemes() -> tuple[str, ...]:
    """Return the registered schemes."""
    return tuple(sorted(_OPENERS))


def open_transport(
    uri: str,
    artifact: Path,
    emulator: EmulatorSpec | None,
    timeout_s: float,
    agent_for: AgentMaker | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    beside: tuple[Path, ...] = (),
    is_whole: bool = False,
) -> Transport:
    """Open the pipe that ``uri`` names (``scheme:rest`` or ``scheme://rest``).

    ``beside`` and ``is_whole`` are of ``OpenRequest``, for machines that programs are sent to.
    Raises UsageError for an unknown scheme, and what the scheme's opener raises.
    """
    scheme, colon, rest = uri.partition(":")
    opener = _OPENERS.get(scheme)
    if not colon or opener is None:
        raise UsageError(
            f"{uri!r} is not a device address",
            why="known schemes: " + ", ".join(f"{name}:" for name in schemes()),
            hint="use local: for this machine or qemu:// for a board's emulator",
        )
    rest, told = rest.removeprefix("//"), variables or {}
    return opener(OpenRequest(uri, rest, artifact, emulator, timeout_s, agent_for, told, beside, is_whole))
