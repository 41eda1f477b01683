"""Boards that run what was flashed: asked for the hash of their image, and flashed first where that is another one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sdk.boards import Board
from sdk.devices.client import Session
from sdk.errors import DeviceFault, FlashError, LinkError, MissingToolError, NoDeviceError
from sdk.flash.flashing import Choice, Flashed, flash_image, plans
from sdk.flash.image import Image, read_image
from sdk.steps import step, update

__all__ = ["SERIAL", "TRY_S", "flashed_session", "port_of", "started"]

SERIAL: Final = "serial:"  # the board's port, found by itself
TRY_S: Final = 3.0  # for a greeting of a board that may have nothing to say
CHECK_S: Final = 20.0  # for a board to start again and answer
_FLASH_VARIABLE: Final = "CROSSLEVEL_FLASH"


def port_of(uri: str) -> str | None:
    """The serial port in an address, for runners that talk over one; None where it names none."""
    scheme, _, rest = uri.partition(":")
    port = re.sub(r"@\d+$", "", rest.partition("?")[0].removeprefix("//"))
    if not port or scheme != SERIAL.rstrip(":"):
        return None
    return port if Path(port).is_absolute() or Path(port).exists() else f"/dev/{port}"


def flashed_session(opened: Callable[[float | None], Session], agent: Path, board: Board, choice: Choice) -> Session:
    """A session with a board that runs ``agent``: as it is where it does already, else after flashing it, where a
    runner for it is installed and reaches it; else with what runs there. ``opened`` opens one, with a time for its
    greeting (None: the usual). CROSSLEVEL_FLASH=no keeps from flashing.

    Raises:
        NoDeviceError, BusyError: the port is not there, or in use: nothing was flashed.
        LinkError, DeviceFault: nothing of ours runs there, and no runner is there.
        FlashError: see ``flash_image`` and ``started``.
    """
    if os.environ.get(_FLASH_VARIABLE) == "no":
        return opened(None)
    image, runs = read_image(agent), False
    if all(plan.unusable is not None for plan in plans(board, choice, image)):
        return opened(None)
    try:
        with opened(TRY_S) as session:
            runs = image.build_id is None or session.info.build_id == image.build_id
    except (LinkError, DeviceFault):  # nothing of ours is there
        pass
    if runs:
        return opened(None)
    with step(f"flashing {board.name}"):
        try:
            flashed = flash_image(image, board, choice, update)
        except (NoDeviceError, MissingToolError):
            return opened(None)
        update(f"waiting for {board.name} to answer")
        return started(lambda: opened(None), image, board, flashed)


def started(opened: Callable[[], Session], image: Image, board: Board, flashed: Flashed) -> Session:
    """A session with the board once it has started again, which says that it runs the image.

    Raises:
        FlashError: it does not answer, or runs another one.
    """
    deadline = time.monotonic() + CHECK_S
    while True:
        try:
            session = opened()
            break
        except (LinkError, NoDeviceError, DeviceFault) as error:
            if time.monotonic() > deadline:
                silent = "\n".join(filter(None, (error.message, error.why)))
                raise FlashError(
                    f"{board.name} does not answer after it was flashed",
                    why=f"{flashed.runner} said that all is well; {silent}",
                    hint="reset the board and run sdk flash again with --runner for another tool; "
                    "--device names its port where it has several",
                ) from error
            time.sleep(0.2)
    told = session.info.build_id
    if told == image.build_id:
        return session
    session.close()
    raise FlashError(
        f"{board.name} runs another image than the one flashed",
        why=f"{flashed.runner} said that all is well; the image has {image.build_id}, the board says {told}",
        hint="is --device the port of the board that was flashed? --runner chooses another tool",
    )
