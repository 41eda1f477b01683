"""``sdk devices``: what models can run on, here and around: devices that are attached, this machine, emulators."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from sdk.boards import board_names, load_board
from sdk.devices.sources import Found, Trouble, look
from sdk.driver.machines import engine_of
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
    return Attached((*found, *_own()), tuple(troubles))


def _own() -> list[Found]:
    """This machine, and its emulators with the boards that they are."""
    boards: dict[str, list[str]] = defaultdict(list)
    for name in board_names():
        try:
            board = load_board(name)
        except SdkError:
            continue  # a file of the user's own: sdk boards tells
        engine = engine_of(board)
        if engine is None:
            boards["local:"].append(name)
        else:
            program = board.emulator.program if board.emulator is not None and engine != "unicorn" else ""
            boards[f"{engine}://{program}"].append(name)
    return [_engine(address, names) for address, names in sorted(boards.items())]


def _engine(key: str, boards: list[str]) -> Found:
    """This machine, or an emulator: its scheme, and the program that is needed."""
    if key == "local:":
        return Found(_HERE, key, "this machine", "free", tuple(boards))
    address, _, program = key.partition("://")
    there: Callable[[str], object] = shutil.which if program else find_spec
    if there(program or "unicorn"):
        return Found(_HERE, f"{address}://", f"emulated by {program or 'Unicorn'}", "free", tuple(boards))
    fix = install_command(program) if program else pip_command("unicorn")
    return Found(_HERE, f"{address}://", f"emulated by {program or 'Unicorn'}", "offline", tuple(boards),
                 "it is not installed", fix)  # fmt: skip
