"""Serial ports, with the boards that their USB numbers stand for, and boards whose boot loader waits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from serial.tools import list_ports

from sdk.boards import Usb, board_names, load_board
from sdk.devices.ports import access_hint, holder_of
from sdk.devices.sources.base import Found, State, register_source
from sdk.errors import SdkError

__all__ = ["find_ports"]

_PLACE = "serial"
_USB = Path("/sys/bus/usb/devices")
_LOADER = "flash it, or restart it to run what it has"


@dataclass(frozen=True)
class _Id:
    vid: int
    pid: int
    product: str


@register_source(_PLACE)
def find_ports() -> Iterator[Found]:
    """All serial ports that are there, and boards that wait for an image. None is opened: that might restart one."""
    shown: set[str] = set()
    for port in sorted(list_ports.comports(), key=lambda port: str(port.device)):
        id_ = None if port.vid is None else _Id(port.vid, port.pid, port.product or "")
        shown |= {port.location.partition(":")[0]} if port.location else set()
        yield _port(port.device, port.description or "", id_, port.serial_number)
    for place, id_, serial in _usb_devices():
        names = list(_boards_of(id_, loader=True))
        if names and place not in shown:
            title = id_.product or load_board(names[0]).title
            yield Found(_PLACE, "", title, "in bootloader", tuple(names), None, _LOADER, serial)


def _port(device: str, name: str, id_: _Id | None, serial: str | None) -> Found:
    path, holder = Path(device).resolve(), holder_of(Path(device).resolve())
    state: State = "free"
    why = fix = None
    boards = tuple(_boards_of(id_, loader=False)) if id_ else ()
    if holder is not None:
        state, why, fix = "busy", str(holder), "end that program, or wait for it"
    elif not os.access(path, os.R_OK | os.W_OK):
        state, fix = "no permission", access_hint(path)
    elif id_ and not boards and (boards := tuple(_boards_of(id_, loader=True))):
        state, fix = "in bootloader", _LOADER
    title = (id_.product if id_ else "") or ("" if name == "n/a" else name)
    return Found(_PLACE, f"serial:{device}", title, state, boards, why, fix, serial)


def _boards_of(id_: _Id, *, loader: bool) -> Iterator[str]:
    for name, usb in _known():
        same = usb.vid == id_.vid and usb.pid in (None, id_.pid) and usb.product.lower() in id_.product.lower()
        if same and usb.loader == loader:
            yield name


@cache
def _known() -> tuple[tuple[str, Usb], ...]:
    """The USB numbers of all boards; a file of the user's that is wrong is told of elsewhere."""
    found: list[tuple[str, Usb]] = []
    for name in board_names():
        try:
            found += [(name, usb) for usb in load_board(name).usb]
        except SdkError:
            continue
    return tuple(found)


def _usb_devices() -> Iterable[tuple[str, _Id, str | None]]:
    """What is on USB: its place there, its numbers, its serial number. Nothing where the system does not tell so."""
    for folder in sorted(_USB.glob("*")) if _USB.is_dir() else ():
        vid, pid = _read(folder / "idVendor"), _read(folder / "idProduct")
        try:
            id_ = _Id(int(vid or "", 16), int(pid or "", 16), _read(folder / "product") or "")
        except ValueError:
            continue  # an interface, or gone
        yield folder.name, id_, _read(folder / "serial")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:128]
    except OSError:
        return None
