"""A desk: a board that boots what is written to it, and tools that stand in for real ones, which may lie.

The board is an emulated one with the memory map of silicon; what "is in its flash" is a file, which the tools write. It
answers at ``desk:``.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sdk.boards import Board, load_board
from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.transports.unicorn import open_unicorn
from sdk.driver import BuildOptions, flashed, flashing
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.driver.machines import emulator_of
from sdk.errors import LinkError
from sdk.flash.image import as_bin, read_image
from sdk.flash.uf2 import unpack

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
BASE = "nucleo_l4r5zi"
FAMILY = 0x00FF6919
BOARD = f"""
schema = 1
extends = "{BASE}"
[board]
title = "A board for every runner"
[flash.pyocd]
target = "stm32l4r5"
[flash.esptool]
chip = "esp32c3"
offset = "0x0"
[flash.bossac]
offset = "0x4000"
[flash.west]
build = "build"
[flash.uf2-drive]
family = {FAMILY}
board_id = "Desk"
"""
# What a stand-in does: it writes down what it was started with, says its lines, and then as ``do`` says.
TOOL = f"""#!{sys.executable} -P
import json, os, shutil, subprocess, sys, time
told = json.loads(open({{told!r}}).read())
with open({{log!r}}, "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
said = told["says"]
for name in os.listdir("."):
    if name.startswith("image.") and name != "image.script" and told["do"] == "flash":
        shutil.copy(name, os.path.join({{flash!r}}, name))
if told["do"] == "other":
    shutil.copy(told["other"], os.path.join({{flash!r}}, "image.elf"))
if told["do"] == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open({{pid!r}}, "w").write(str(child.pid))
    print("erasing ...", flush=True)
    time.sleep(600)
if told["do"] == "garbage":
    sys.stdout.buffer.write(bytes(range(256)) * 2000)
print(said)
sys.exit(told["status"])
"""
CONFIRMS = (
    "** Verified OK **\nDownload verified successfully\nHash of data verified.\nVerify successful\n"
    "Downloading file [image.hex]...\nO.K."
)
PROGRAMS = ("probe-rs", "pyocd", "openocd", "STM32_Programmer_CLI", "esptool", "bossac", "west", "JLinkExe")


@cache
def _linked(name: str) -> Path:
    """The image of the example under a name, made once."""
    board, options = load_board("deskboard"), BuildOptions(name=name)
    return link_agent(build_sources(DIGITS, board, options).sources, board, options, device="serial:")


class Desk:
    """The board, the tools on the PATH, and what they were told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.flash, self.drive = folder, folder / "flash", folder / "drive"
        self.log, self.told, self.pid = folder / "log", folder / "told.json", folder / "pid"
        self._bin, self._patch = folder / "bin", monkeypatch
        for made in (self.flash, self.drive, self._bin, folder / "boards"):
            made.mkdir()
        (self.drive / "INFO_UF2.TXT").write_text("UF2 Bootloader v1\r\nModel: A desk\r\nBoard-ID: Desk-1\r\n")
        (folder / "boards" / "deskboard.toml").write_text(BOARD)
        monkeypatch.setenv("CROSSLEVEL_BOARDS", str(folder / "boards"))
        gcc = Path(shutil.which("arm-none-eabi-gcc") or "/usr/bin/gcc").parent
        monkeypatch.setenv("PATH", f"{self._bin}:{gcc}:/bin")
        monkeypatch.setattr(flashed, "CHECK_S", 0.3)
        for module in (flashed, flashing):
            monkeypatch.setattr(module, "TRY_S", 60.0)
        monkeypatch.setattr("sdk.flash.drives._folders", lambda: iter([self.drive]))
        self.board: Board = load_board("deskboard")
        self.images: dict[bytes, Path] = {}
        self.image = self.agent("digits")
        self.other = self.agent("others")
        self.behave()
        register("desk")(self.open)

    def agent(self, name: str) -> Path:
        """The image of the example under another name."""
        path = self.folder / f"{name}.elf"
        shutil.copy(_linked(name), path)
        self.images[as_bin(read_image(path).parts)[1]] = path
        return path

    def install(self, *programs: str) -> None:
        """Put stand-ins on the PATH."""
        for name in programs:
            path = self._bin / name
            values = {"told": str(self.told), "log": str(self.log), "flash": str(self.flash), "pid": str(self.pid)}
            path.write_text(TOOL.format(**values))
            path.chmod(0o755)

    def behave(self, do: str = "flash", says: str = CONFIRMS, status: int = 0) -> None:
        """Say what the stand-ins do: flash, nothing, other, hang, garbage."""
        self.told.write_text(json.dumps({"do": do, "says": says, "status": status, "other": str(self.other)}))

    @property
    def calls(self) -> list[list[str]]:
        """What the stand-ins were started with."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def contents(self) -> bytes | None:
        """What is in the flash of the board, whichever format it came in; None where nothing is."""
        for path in [*self.flash.iterdir(), *self.drive.glob("image.*")]:
            data = path.read_bytes()
            match path.suffix:
                case ".elf":
                    return as_bin(read_image(path).parts)[1]
                case ".bin":
                    return data
                case ".hex":
                    return memory(hex_records(data.decode()))
                case ".uf2":
                    return memory([(block.address, block.data) for block in unpack(data)])
        return None

    def answer_at_once(self) -> None:
        """Let the board tell the hash of what is in its flash without being booted for it."""

        def opened(_uri: str, _agent: Path) -> Any:
            image = read_image(self._found())
            return SimpleNamespace(info=SimpleNamespace(build_id=image.build_id), close=lambda: None)

        self._patch.setattr(flashing, "_open", opened)

    def _found(self) -> Path:
        """The image that is in the flash; raises LinkError where none is."""
        data = self.contents()
        fits = [path for known, path in self.images.items() if data is not None and data.startswith(known)]
        if not fits:
            raise LinkError("silence")
        return fits[0]

    def open(self, request: OpenRequest) -> Transport:
        """Boot what is in the flash; raises LinkError where nothing is."""
        image = self._found()
        spec = emulator_of(self.board, image)
        transport = open_unicorn(OpenRequest("unicorn://", "", image, spec, request.timeout_s))
        transport.emulated, transport.ns_per_instruction = False, None  # as a board does, it does not say so
        return transport


def hex_records(text: str) -> list[tuple[int, bytes]]:
    """The data of an Intel HEX file, as its specification says: checked."""
    upper, out = 0, []
    for line in text.split():
        raw = bytes.fromhex(line.removeprefix(":"))
        assert (line[0], len(raw), sum(raw) % 256) == (":", raw[0] + 5, 0), line
        address, kind, data = struct.unpack(">H", raw[1:3])[0], raw[3], raw[4:-1]
        if kind == 4:
            upper = struct.unpack(">H", data)[0] << 16
        elif kind == 0:
            assert address + len(data) <= 0x10000
            out.append((upper + address, data))
        else:  # the end, or where the program starts
            assert kind in (3, 5) or line == text.split()[-1]
    return out


def memory(parts: list[tuple[int, bytes]]) -> bytes:
    """Flash from the first of ``parts`` to the last, erased between them."""
    start = min(at for at, _ in parts)
    held = bytearray(b"\xff") * (max(at + len(data) for at, data in parts) - start)
    for at, data in parts:
        held[at - start : at - start + len(data)] = data
    return bytes(held)


def arguments(desk: Desk) -> list[Any]:
    """The calls without what differs from run to run."""
    return [[("PATH" if "/sdk-flash-" in word else word) for word in call] for call in desk.calls]
