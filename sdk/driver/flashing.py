"""``sdk flash``: an image built or given, written to a board, and its hash read back from what runs there then."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sdk.boards import Board
from sdk.devices.base import schemes
from sdk.devices.client import Session, open_device
from sdk.driver.agents import link_agent
from sdk.driver.execute import resolve
from sdk.driver.options import BuildOptions
from sdk.errors import DeviceFault, FlashError, LinkError, NoDeviceError, UsageError
from sdk.flash.flashing import Choice, Flashed, Plan, flash_image, plans
from sdk.flash.image import Image, read_image
from sdk.frontends.base import ModelFile
from sdk.steps import step, update

__all__ = ["FlashReport", "flash", "flash_plans", "flashed_session", "image_of"]

SERIAL: Final = "serial:"  # the board's port, found by itself
CHECK_S: Final = 20.0  # for a board to start again and answer
_TRY_S: Final = 3.0
_ELF: Final = ".elf"


@dataclass(frozen=True)
class FlashReport:
    """What was written to a board, by which runner, and what the board then said of itself: ``checked`` is None for an
    image without an agent, which tells no hash."""

    image: Path
    board: str
    size: int
    build_id: str | None
    flashed: Flashed
    device: str | None
    checked: bool | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The object of ``--json``."""
        return {
            "image": str(self.image),
            "board": self.board,
            "image_bytes": self.size,
            "build_id": self.build_id,
            "runner": self.flashed.runner,
            "commands": [list(command) for command in self.flashed.commands],
            "passed_over": [{"runner": name, "why": why} for name, why in self.flashed.passed],
            "device": self.device,
            "checked": self.checked,
            "seconds": self.seconds,
        }


def image_of(
    target: Path | ModelFile, board: Board | None, options: BuildOptions
) -> tuple[Path, Board]:
    """The image to flash: the agent of a model or of a folder that ``sdk build`` made, or an .elf file itself.

    Raises:
        UsageError: the board is none to flash, or the runtime has no drivers for the board itself.
        BuildError: the model does not fit.
    """
    if isinstance(target, Path) and target.suffix == _ELF and target.is_file():
        if board is None:
            raise UsageError("which board is it for?", hint="give --board NAME beside the image")
        return target, _flashable(board)
    built, place = resolve(target, board, options)
    runtime = _flashable(place).runtime
    if runtime.uart is None or runtime.timer is None:
        raise UsageError(
            f"the runtime has no drivers for {place.name} itself",
            why="its file names no uart or no timer: an image of it runs on the emulated target alone",
            hint="flash firmware of your own (sdk new firmware MODEL --board B), or add them to the board's file",
        )
    return link_agent(built.sources, place, options, device=SERIAL), place


def _flashable(board: Board) -> Board:
    if board.hosted or board.emulated_only:
        hint = "sdk boards lists those of silicon; sdk run takes this one as it is"
        raise UsageError(f"{board.name} is no board to flash", hint=hint)
    return board


def flash_plans(board: Board, choice: Choice) -> list[Plan]:
    """What ``flash`` would start, runner by runner; those that cannot be used say why."""
    return plans(_flashable(board), choice)


def flash(
    target: Path | ModelFile, board: Board | None, options: BuildOptions, choice: Choice, device: str | None = None
) -> FlashReport:
    """``sdk flash``: writes the image of ``target`` to the board, and compares the hash in it with the one that the
    firmware at ``device`` (the board's serial port) tells afterwards.

    Raises:
        FlashError: the image is too large, a runner failed, or the board runs another image, or none that answers.
        NoDeviceError, BusyError, MissingToolError: no runner reaches the board, or none is installed.
    """
    uri = device or SERIAL
    if uri.partition(":")[0] not in schemes():
        raise UsageError(f"{uri!r} is not a device address", hint="--device serial:PORT")
    choice = replace(choice, port=choice.port or _port(uri))
    begin = time.monotonic()
    path, place = image_of(target, board, options)
    image = read_image(path)
    with step(f"flashing {place.name}"):
        flashed = flash_image(image, place, choice, update)
        checked = None
        if image.build_id is not None:
            update(f"waiting for {place.name} to answer")
            _started(lambda: _open(uri, path), image, place, flashed.runner).close()
            checked = True
    return FlashReport(
        path, place.name, image.size, image.build_id, flashed, uri if checked else None, checked,
        round(time.monotonic() - begin, 3),
    )  # fmt: skip


def _port(uri: str) -> str | None:
    """The serial port in an address, for runners that talk over one; None where it names none."""
    scheme, _, rest = uri.partition(":")
    port = re.sub(r"@\d+$", "", rest.partition("?")[0].removeprefix("//"))
    return (port or None) if scheme == SERIAL.rstrip(":") else None


def flashed_session(
    opened: Callable[[], Session], agent: Path, board: Board, choice: Choice
) -> Session:
    """A session with a board that runs ``agent``: as it is where it does already, else after flashing it. ``opened``
    opens one with whatever runs there.

    Raises:
        NoDeviceError, BusyError: the port is not there, or in use: nothing was flashed.
        FlashError, MissingToolError: see ``flash_image``.
    """
    image = read_image(agent)
    try:
        session = opened()
    except (LinkError, DeviceFault):  # nothing of ours runs there
        pass
    else:
        if image.build_id is None or session.info.build_id == image.build_id:
            return session
        session.close()
    with step(f"flashing {board.name}"):
        flashed = flash_image(image, board, choice, update)
        update(f"waiting for {board.name} to answer")
        return _started(opened, image, board, flashed.runner)


def _open(uri: str, agent: Path) -> Session:
    return open_device(uri, artifact=agent, emulator=None, timeout_s=_TRY_S)


def _started(opened: Callable[[], Session], image: Image, board: Board, runner: str) -> Session:
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
                raise FlashError(
                    f"{board.name} does not answer after it was flashed",
                    why=f"{runner} said that all is well; {error.message}",
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
        why=f"{runner} said that all is well; the image has {image.build_id}, the board says {told}",
        hint="is --device the port of the board that was flashed? --runner chooses another tool",
    )
