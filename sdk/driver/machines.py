"""Where a board is emulated: under Unicorn as it is, or on the machine of its [emulator] table; and its image there."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from sdk.boards import Board, Memory, Peripheral
from sdk.devices.base import EmulatorSpec
from sdk.devices.emulated.spec import (
    CAN_EMULATE,
    KINDS,
    Command,
    Count,
    External,
    MachineSpec,
    Part,
    Read,
    Span,
    core_name,
)  # fmt: skip
from sdk.driver.chips import blocks_of, reason_of
from sdk.driver.host_c import kept_library
from sdk.errors import BuildError, UsageError
from sdk.resources import data_dir
from sdk.toolchains.elf import ElfFile

__all__ = ["Engine", "emulator_of", "engine_of", "fits_unicorn", "marks_of", "placed"]

Engine = Literal["unicorn", "qemu", "program"]
LIMIT: Final = 1_000_000_000  # instructions without a look at the UART, after which a machine is said to hang
_MARKING: Final = ("sdk_rt_timed_run", "sdk_rt_op_begin", "sdk_rt_op_end")
_LIMIT_VARIABLE: Final = "CROSSLEVEL_INSTRUCTIONS"


def engine_of(board: Board) -> Engine | None:
    """What emulates a board where the user names no device: Unicorn where it can, as it comes by pip and keeps the
    board's own memory map; else the command of its file, as where that is installed and Unicorn is not. None for this
    machine, and where there is neither."""
    if board.hosted:
        return None if board.emulator is None else "program"
    if not fits_unicorn(board):
        return None if board.emulator is None else "qemu"
    other = board.emulator is not None and shutil.which(board.emulator.program) is not None
    return "qemu" if other and find_spec("unicorn") is None else "unicorn"


def fits_unicorn(board: Board) -> bool:
    """Whether Unicorn has the board's core, and we the models of its UART, timer, watchdog and external flash."""
    uart, timer, dog = board.runtime.uart, board.runtime.timer, board.runtime.watchdog
    parts = {f"uart {uart.kind}" if uart else "", f"timer {timer.kind}" if timer else ""}
    parts |= {f"watchdog {dog.kind}"} if dog else set()
    parts |= {f"external {board.runtime.external.kind}"} if board.runtime.external else set()
    return core_name(board.core.arch, board.core.fpu) in CAN_EMULATE and parts <= KINDS


def placed(board: Board, device: str | None) -> Board:
    """The board as an image for it is linked: on its emulated target where ``device`` is under QEMU, else as it is.

    A board without drivers of its own is always as its emulated target.
    """
    own = board.runtime.uart is not None and board.runtime.timer is not None
    engine = engine_of(board) if device is None else device.partition(":")[0]
    return board.as_emulated() if engine == "qemu" or not own else board


def emulator_of(board: Board, image: Path, phases: tuple[int, Path] | None = None) -> EmulatorSpec | None:
    """The board under Unicorn with an image in it; None where it cannot be. ``phases`` are the number of those that are
    counted apart and the file for the counts.

    Raises:
        BuildError: the image is none, or has no marks to count by.
        UsageError: CROSSLEVEL_INSTRUCTIONS is no number.
    """
    if not fits_unicorn(board) or not image.is_file():
        return None
    uart, timer = board.runtime.uart, board.runtime.timer
    assert uart is not None and timer is not None  # noqa: PT018 - fits_unicorn has seen to it
    elf = ElfFile(image)
    dog = board.runtime.watchdog
    start = next((s.address for s in elf.sections if s.name == ".vectors"), board.regions("flash")[0].base)
    spec = MachineSpec(
        core=core_name(board.core.arch, board.core.fpu),
        memory=tuple(_span(m) for m in board.memory if m is not board.external),
        start=start,
        uart=_part(uart),
        timer=_part(timer),
        library=str(kept_library(data_dir("c_runtime") / "plugin" / "machine.c")),
        limit=_limit(),
        blocks=blocks_of(board),
        count=None if phases is None else Count(*marks_of(elf, phases[0]), out=str(phases[1])),
        watchdog=None if dog is None else Part(dog.kind, dog.base, dog.hz),
        reason=reason_of(board),
        external=_external(board),
    )
    return EmulatorSpec((), None, timer.hz, machine=spec)


def marks_of(image: ElfFile, phases: int) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """The marks by which an image says what it works on: their address, their number, and where the code is that
    stores them.

    Raises:
        BuildError: it has none.
    """
    symbols = {s.name: s for s in image.symbols}
    if "sdk_rt_marks" not in symbols:
        raise BuildError("the image has no marks to count by", where=str(image.path))
    code = [symbols[name] for name in _MARKING if name in symbols]
    return symbols["sdk_rt_marks"].value, phases, tuple((s.value & ~1, (s.value & ~1) + s.size) for s in code)


def _part(of: Peripheral) -> Part:
    return Part(of.kind, of.base, of.hz, of.scale)


def _span(of: Memory) -> Span:
    return Span(of.base, int(of.size), of.kind == "ram", of.data_base)


def _external(board: Board) -> External | None:
    """The flash chip beside the board's microcontroller."""
    of, memory = board.runtime.external, board.external
    if of is None or memory is None:
        return None
    read = Read(of.read.instruction, of.read.lines, of.read.address_bytes, of.read.dummy)
    reset = tuple(Command(one.instruction, one.lines, one.bytes, one.dtr) for one in of.reset)
    part = Part(of.kind, of.base, of.hz)
    return External(part, _span(memory), of.fastest, read, reset, of.recovers, of.status, of.busy)


def _limit() -> int:
    text = os.environ.get(_LIMIT_VARIABLE, "").strip()
    if text and not (text.isdecimal() and int(text) > 0):
        raise UsageError(f"{_LIMIT_VARIABLE}={text} is no number of instructions", hint=f"{_LIMIT_VARIABLE}={LIMIT}")
    return int(text) if text else LIMIT
