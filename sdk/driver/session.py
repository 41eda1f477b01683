"""Sessions: the agent of a board opened on this machine, on its emulated stand-in, or at an address."""

from __future__ import annotations

import re
from pathlib import Path

from sdk.boards import Board
from sdk.devices.base import EmulatorSpec
from sdk.devices.client import Session, open_device
from sdk.errors import NoDeviceError, UsageError

__all__ = ["open_session"]

START_TIMEOUT_S = 20.0


def open_session(
    uri: str | None, board: Board, agent: Path, emulator_arguments: tuple[str, ...] = ()
) -> Session:
    """A session with the agent: on this machine or the board's stand-in, started with more arguments, when ``uri`` is
    None.

    Raises:
        NoDeviceError: the board can neither run here nor be emulated, and no device is given.
    """
    emulator = None
    if board.emulator is not None:
        timer = board.as_emulated().runtime.timer
        hz = timer.hz if timer else 0
        program, *rest = board.emulator.argv
        emulator = EmulatorSpec((program, *emulator_arguments, *rest), board.emulator.icount_shift, hz)
    if uri is None:
        if not board.hosted and emulator is None:
            raise NoDeviceError(f"{board.name} has no stand-in here", hint="name the device: --device URI")
        uri = ("local:" if emulator is None else "qemu-user://") if board.hosted else "qemu://"
    if not re.match(r"[a-z][a-z0-9+.-]*:", uri):
        raise UsageError(f"{uri!r} is not a device address", hint="local: or qemu://")
    return open_device(uri, artifact=agent, emulator=emulator, timeout_s=START_TIMEOUT_S)
