"""``serial:PORT[@BAUD][?baud=N]`` talks to the firmware of a board at a serial port: a UART at a bridge, or USB-CDC.

The port is ours alone while it is open, by locks that the kernel ends with the process. The system raises DTR and RTS
of a port that opens, for any program. They are not touched beyond that, and stay up when it closes: only the first use
after plugging in can restart a board that is wired so.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import termios
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import serial
from serial.tools import list_ports

from sdk.devices.base import OpenRequest, Transport, register
from sdk.devices.descriptors import FdTransport
from sdk.devices.ports import access_hint, holder_of
from sdk.errors import BusyError, LinkError, NoDeviceError, SdkError, UsageError

__all__ = ["BAUD", "Line", "SerialTransport", "open_serial", "parse_line"]

BAUD = 115_200
_FORM = "serial:PORT, serial:PORT@BAUD, or either with ?baud=921600&reset=D0,R1,W0.1,R0; sdk devices lists the ports"
_MAX_BAUD = 20_000_000
_BITS_PER_BYTE = 10  # a start bit, 8 bits, a stop bit
_STEP = re.compile(r"(?P<line>[DR])(?P<level>[01])|W(?P<wait>[0-9]{1,2}(\.[0-9]{1,3})?)")
_MAX_STEPS = 32
_DRAIN_S = 0.2  # for what was sent to leave the port when it closes
_ATTRIBUTES = {"D": "dtr", "R": "rts"}
_C_FLAGS = 2  # in what tcgetattr returns


@dataclass(frozen=True)
class Line:
    """A port ("": the only one) and how it is opened. ``reset``: what is done with its lines then: D0, D1, R0, R1 drop
    and raise DTR and RTS, W0.1 waits for so many seconds. ``wanted``: the rate that host and board agree on then."""

    port: str
    baud: int = BAUD
    reset: tuple[str, ...] = ()
    wanted: int = 0


@register("serial")
def open_serial(request: OpenRequest) -> Transport:
    """Open the port that the address names; the board's firmware is there already.

    Raises:
        UsageError: it is no address, or the port cannot be so fast, or has no such lines.
        NoDeviceError: there is no such port, it is something else, or this user may not open it.
        BusyError: another process has it; the error says which.
    """
    return SerialTransport(parse_line(request.uri), request.uri)


def parse_line(uri: str) -> Line:
    """The line that an address names. Raises UsageError."""
    rest, _, query = uri.partition(":")[2].removeprefix("//").partition("?")
    port, at, rate = rest.rpartition("@")
    if "/" in rate or not at:  # a name may have one of its own
        port, at, rate = rest, "", str(BAUD)
    asked = [part.partition("=")[::2] for part in query.split("&")] if query else []
    told = dict(asked)
    reset = tuple(told["reset"].split(",")) if "reset" in told else ()
    wrong = [step for step in reset if not _STEP.fullmatch(step)]
    why = None
    if not _is_rate(rate):
        why = f"{rate!r} is no rate in bits a second"
    elif not _is_rate(told.get("baud", rate)):
        why = f"{told['baud']!r} is no rate in bits a second"
    elif len(told) < len(asked) or told.keys() - {"baud", "reset"}:
        why = f"what is {query!r}?"
    elif wrong or len(reset) > _MAX_STEPS:
        why = f"{(wrong or reset)[0]!r} ... are no steps of a reset: D0, D1, R0, R1, or W and seconds"
    if why:
        raise UsageError(f"{uri!r} is not a device address", why=why, hint=_FORM)
    return Line(port, int(rate), reset, int(told.get("baud", 0)))


def _is_rate(text: str) -> bool:
    return text.isdecimal() and text.isascii() and 0 < int(text[:12]) <= _MAX_BAUD


class SerialTransport(FdTransport):
    """A Transport over a serial port."""

    stuck = "plug the device in anew, or restart it"

    def __init__(self, line: Line, address: str) -> None:
        self._path = _found(line.port)
        self._port = _opened(self._path, line.baud)
        self._end = weakref.finalize(self, _close, self._port)
        self.baud, self.wanted = line.baud, line.wanted
        try:
            super().__init__(self._port.fileno(), self._port.fileno(), address, line.baud / _BITS_PER_BYTE)
            for step in line.reset:
                self._step(step)
        except BaseException:
            self.close()
            raise

    def over(self, error: OSError | None) -> SdkError:
        """The port is gone."""
        there = self._path.exists()
        return LinkError(
            f"the connection to {self.address} was lost",
            why=(error.strerror if error else "it was closed") if there else f"there is no {self._path} any more",
            hint="plug it in again; where that repeats, the cable is bad or the board restarts",
        )

    def set_baud(self, baud: int) -> None:
        """Another rate for the port; see RatedTransport."""
        try:
            _drain(self._port)
            self._port.baudrate = baud
            termios.tcflush(self._port.fd, termios.TCIFLUSH)
        except (OSError, ValueError, termios.error) as error:
            if isinstance(error, ValueError) or error.args[:1] == (errno.EINVAL,):
                raise _refusal(self._path, baud, error) from None
            raise self.over(OSError(*error.args)) from None
        self.baud, self.bytes_per_s = baud, baud / _BITS_PER_BYTE

    def close(self) -> None:
        """Close the port. May be called twice."""
        self._end()

    def _step(self, step: str) -> None:
        """Do a step of a reset."""
        if step.startswith("W"):
            time.sleep(float(step[1:]))
            return
        name = _ATTRIBUTES[step[0]]
        try:
            setattr(self._port, name, step[1] == "1")
        except OSError as error:
            why = f"{name.upper()}: {error.strerror}"
            raise UsageError(f"{self._path} cannot reset a board", why=why, hint="leave out ?reset=") from None


def _found(name: str) -> Path:
    """The port called ``name``, with or without /dev, or the only one; without links. Raises NoDeviceError."""
    there = [port.device for port in list_ports.comports()]
    known = f"sdk devices tells more of {', '.join(there)}" if there else "plug it in, with a cable that carries data"
    if not name and len(there) != 1:
        what = f"which of {len(there)} serial ports?" if there else "there is no serial port"
        raise NoDeviceError(what, hint=f"name it: serial:{there[0]}" if there else known)
    path = Path(name or there[0])
    if not path.is_absolute() and not path.exists():
        path = Path("/dev") / path
    try:
        return path.resolve(strict=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NoDeviceError(f"there is no serial port {name}", why=why, hint=known) from None


def _opened(path: Path, baud: int) -> Any:
    """A port, opened for us alone."""
    holder = holder_of(path)
    if holder is not None:
        raise BusyError(f"{path} is in use", why=f"by {holder}", hint="end that program, or wait for it")
    port = serial.Serial()
    port.port, port.baudrate, port.exclusive = str(path), baud, True
    try:
        port.open()
        fcntl.ioctl(port.fd, termios.TIOCEXCL)  # for programs that look at no lock
        flags = termios.tcgetattr(port.fd)
        flags[_C_FLAGS] &= ~termios.HUPCL
        termios.tcsetattr(port.fd, termios.TCSANOW, flags)
    except (OSError, ValueError, termios.error) as error:
        port.close()
        raise _refusal(path, baud, error) from None
    with contextlib.suppress(OSError, ValueError, AttributeError):  # of bridges that else gather bytes for 16 ms
        port.set_low_latency_mode(True)
    return port


def _refusal(path: Path, baud: int, error: Exception) -> SdkError:
    """What it means that a port does not open."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else None
    if number in (errno.EACCES, errno.EPERM):
        return NoDeviceError(f"you may not open {path}", why=os.strerror(number), hint=access_hint(path))
    if number in (errno.EBUSY, errno.EAGAIN):
        holder = holder_of(path)
        return BusyError(f"{path} is in use", why=f"by {holder}" if holder else "by a process that cannot be seen")
    if isinstance(error, ValueError) or number == errno.EINVAL:
        return UsageError(f"{path} cannot be opened at {baud} baud", why=str(error), hint=f"serial:{path}@{BAUD}")
    return NoDeviceError(f"{path} is no serial port that works", why=str(error), hint="sdk devices lists the ports")


def _drain(port: Any) -> None:
    """Wait until what was written has left, for a moment at most."""
    deadline = time.monotonic() + _DRAIN_S
    while port.out_waiting and time.monotonic() < deadline:
        time.sleep(0.005)


def _close(port: Any) -> None:
    """Close a port; what a device does not take within moments is dropped."""
    with contextlib.suppress(OSError, termios.error):
        _drain(port)
        termios.tcflush(port.fd, termios.TCOFLUSH)
        fcntl.ioctl(port.fd, termios.TIOCNXCL)
    port.close()
