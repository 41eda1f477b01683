"""Sessions: the agent of a board opened on this machine, on its emulated target, or at an address."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

from sdk.boards import Board
from sdk.devices.base import EmulatorSpec
from sdk.devices.client import Session, open_device
from sdk.devices.link import DEADLINE_S
from sdk.driver.agent_programs import agent_program
from sdk.driver.flashed import SERIAL, flashed_session, port_of
from sdk.driver.machines import emulator_of, engine_of
from sdk.errors import NoDeviceError, UsageError
from sdk.flash.flashing import Choice

__all__ = ["emulator_spec", "open_session"]

IMAGE = "image:"  # an image of the user's, on the board's emulated target
TIMEOUT_S = 20.0
LIMITED_TIMEOUT_S = 100.0  # of a machine that says itself when its guest hangs
_TIMEOUT_VARIABLE = "CROSSLEVEL_TIMEOUT"
_DEADLINE_VARIABLE = "CROSSLEVEL_DEADLINE"


def open_session(
    uri: str | None,
    board: Board,
    agent: Path,
    counting: EmulatorSpec | None = None,
    variables: Mapping[str, str] | None = None,
) -> Session:
    """A session with the agent: on this machine or the board's emulated target when ``uri`` is None; ``counting`` is
    that target told to count; ``variables`` are more of the environment of an agent here. CROSSLEVEL_TIMEOUT (20; 100
    where a limit of instructions ends what hangs) and CROSSLEVEL_DEADLINE (600) say for how many seconds it may be
    silent, and work on what is asked.

    Raises:
        NoDeviceError: the board can neither run here nor be emulated, and no device is given.
        UsageError: the address is none, or the variables are no numbers of seconds.
        FlashError: a board at a serial port ran something else, and could not be flashed.
    """
    if uri is None:
        engine = engine_of(board)
        if not board.hosted and engine is None:
            raise NoDeviceError(f"{board.name} has no emulated target here", hint="name the device: --device URI")
        uri = "local:" if engine is None else f"{engine}://"
    if uri.startswith(IMAGE):
        agent, uri = _image(uri), f"{engine_of(board)}://"
    emulator = counting
    if emulator is None:
        emulator = emulator_of(board, agent) if uri.startswith("unicorn:") else emulator_spec(board)
    if not re.match(r"[a-z][a-z0-9+.-]*:", uri):
        hint = "local:, unicorn://, qemu://, serial:PORT, tcp://HOST, ssh://HOST or adb://"
        raise UsageError(f"{uri!r} is not a device address", hint=hint)
    limited = emulator is not None and emulator.machine is not None
    timeout_s = _seconds(_TIMEOUT_VARIABLE, LIMITED_TIMEOUT_S if limited else TIMEOUT_S)
    deadline_s = _seconds(_DEADLINE_VARIABLE, DEADLINE_S)

    def opened(greeting_s: float | None = None) -> Session:
        return open_device(
            uri,
            artifact=agent,
            emulator=emulator,
            timeout_s=greeting_s or timeout_s,
            deadline_s=deadline_s,
            agent_for=agent_program,
            variables=variables,
        )

    if uri.startswith(SERIAL) and board.flash:
        return flashed_session(opened, agent, board, Choice(port=port_of(uri)))
    return opened()


def _image(uri: str) -> Path:
    """The image that an address names."""
    path = Path(uri.removeprefix(IMAGE))
    if not path.is_file():
        raise NoDeviceError(f"there is no image {path}", where=uri, hint="build it first, or check the path")
    return path


def emulator_spec(board: Board, arguments: tuple[str, ...] = ()) -> EmulatorSpec | None:
    """How the board's emulated target is started, with more arguments; None where it has none."""
    if board.emulator is None:
        return None
    timer = board.as_emulated().runtime.timer
    program, *rest = board.emulator.argv
    command = (program, *arguments, *rest)
    return EmulatorSpec(command, board.emulator.icount_shift, timer.hz if timer else 0, board.emulator.timed)


def _seconds(variable: str, default: float) -> float:
    text = os.environ.get(variable, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"{variable}={text} is no number of seconds", hint=f"{variable}={default:g}")
    return value
