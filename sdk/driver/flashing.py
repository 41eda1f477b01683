"""``sdk flash``: an image built or given, written to a board, and its hash read back from what runs there then."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sdk.boards import Board
from sdk.devices.base import schemes
from sdk.devices.client import Session, open_device
from sdk.driver.agents import link_agent
from sdk.driver.execute import resolve
from sdk.driver.flashed import SERIAL, TRY_S, port_of, started
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.flash.flashing import Choice, Flashed, Plan, flash_image, plans
from sdk.flash.image import read_image
from sdk.frontends.base import ModelFile
from sdk.steps import step, update

__all__ = ["FlashReport", "flash", "flash_plans", "image_of"]

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


def flash_plans(board: Board, choice: Choice, *, external: bool = False) -> list[Plan]:
    """What ``flash`` would start, runner by runner; those that cannot be used say why. ``external``: weights are in the
    board's external flash."""
    return plans(_flashable(board), choice, external=external)


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
    choice = replace(choice, port=choice.port or port_of(uri))
    begin = time.monotonic()
    path, place = image_of(target, board, options)
    image = read_image(path)
    with step(f"flashing {place.name}"):
        flashed = flash_image(image, place, choice, update)
        checked = None
        if image.build_id is not None:
            update(f"waiting for {place.name} to answer")
            started(lambda: _open(uri, path), image, place, flashed).close()
            checked = True
    return FlashReport(
        path, place.name, image.size, image.build_id, flashed, uri if checked else None, checked,
        round(time.monotonic() - begin, 3),
    )  # fmt: skip


def _open(uri: str, agent: Path) -> Session:
    return open_device(uri, artifact=agent, emulator=None, timeout_s=TRY_S)
