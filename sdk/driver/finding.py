"""``sdk devices``: what models can run on, here and around: devices that are attached, this machine, emulators."""

from __future__ import annotations

import contextlib
import shutil
from collections import defaultdict
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from sdk.boards import board_names, load_board
from sdk.devices.sources import Found, Trouble, look
from sdk.driver.gpus import gpus
from sdk.driver.machines import engine_of
from sdk.driver.options import GPUS
from sdk.errors import SdkError
from sdk.installs import install_command, pip_command

__all__ = ["Attached", "attached"]

_HERE = "here"


@dataclass(frozen=True)
class Attached:
    """What was found, and the places that could not be looked into."""

    devices: tuple[Found, ...]
    troubles: tuple[Trouble, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk devices --json``."""
        devices = [{**asdict(one), "boards": list(one.boards)} for one in self.devices]
        return {"devices": devices, "not_seen": [asdict(one) for one in self.troubles]}


def attached(deadline_s: float | None = None) -> Attached:
    """All devices, within a time."""
    found, troubles = look() if deadline_s is None else look(deadline_s)
    return Attached((*found, *_own(), *_gpus()), tuple(troubles))


@lru_cache(maxsize=1)
def _gpus() -> tuple[Found, ...]:
    """The GPUs of this machine, by each interface that has any; drivers of a machine do not come and go."""
    found = []
    for interface in GPUS:
        with contextlib.suppress(SdkError):  # no driver: sdk doctor says why
            found += [Found(_HERE, "", f"--gpu {interface}: {line}", "free", ("host",)) for line in gpus(interface)]
    return tuple(found)


def _own() -> list[Found]:
    """This machine, and its emulators with the boards that they are: each address once, but for programs that are not
    installed."""
    boards: dict[tuple[str, str], list[str]] = defaultdict(list)  # by addresses and programs
    for name in board_names():
        try:
            board = load_board(name)
        except SdkError:
            continue  # a file of the user's own: sdk boards tells
        engine = engine_of(board)
        program = board.emulator.program if board.emulator is not None and engine in ("qemu", "program") else ""
        boards["local:" if engine is None else f"{engine}://", program].append(name)
    found: list[Found] = []
    for address in sorted({address for address, _ in boards}):
        programs = {program: names for (at, program), names in sorted(boards.items()) if at == address}
        there = {program: names for program, names in programs.items() if _is_there(address, program)}
        if there:
            every = tuple(sorted(name for names in there.values() for name in names))
            found.append(Found(_HERE, address, _title(address, *there), "free", every))
        for program, names in programs.items():
            if program not in there:
                fix = install_command(program) if program else pip_command("unicorn")
                title, why = _title(address, program), "it is not installed"
                found.append(Found(_HERE, address, title, "offline", tuple(names), why, fix))
    return found


def _is_there(address: str, program: str) -> bool:
    if address == "local:":
        return True
    return shutil.which(program) is not None if program else find_spec("unicorn") is not None


def _title(address: str, *programs: str) -> str:
    return "this machine" if address == "local:" else f"emulated by {', '.join(name or 'Unicorn' for name in programs)}"
