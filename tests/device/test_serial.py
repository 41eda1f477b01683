"""Boards at serial ports: pseudo terminals with an emulated board's UART, or a program, at the other end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import device_agents as agents
import pytest
from device_agents import Agent
from one_call import one_call
from serial_bridge import Bridge, emulated

from sdk.boards import load_board
from sdk.devices import Session, open_device, ports
from sdk.devices.transports import serial as transport
from sdk.devices.transports.serial import Line, parse_line
from sdk.errors import BusyError, LinkError, NoDeviceError, SdkError, UsageError
from sdk.toolchains import LinkJob, get_toolchain, target_for

BOARD = "qemu-cortex-m4"
UART_BAUD = 115_200
MIN_SHARE = 0.85  # of the line that an upload uses


def open_port(uri: str, timeout_s: float = 10.0) -> Session:
    return open_device(uri, artifact=Path("unused"), emulator=None, timeout_s=timeout_s)


def write_for_ever(session: Session) -> None:
    while True:
        session.write(1, 0, bytes(2000))


@pytest.fixture
def board(agent_for: Callable[[str], Agent]) -> Iterator[Callable[..., Bridge]]:
    """A function that puts the emulated board at a port, with the line's faults."""
    made: list[Bridge] = []

    def get(**line: float) -> Bridge:
        agent = agent_for(agents.UNICORN + BOARD)
        assert agent.emulator is not None
        made.append(Bridge(emulated(agent.emulator, agent.artifact), **line))
        return made[-1]

    yield get
    for bridge in made:
        bridge.close()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that talks as a microcontroller does, in frames of 512 bytes, and takes inputs of 16 KB."""
    target, tools = target_for(load_board("host")), get_toolchain("gcc")
    port = agents.runtime() / "port" / "posix"
    sources = [*agents.core_sources(), port / "main.c", port / "pool.c", agents.HERE / "fake_models.c"]
    objects = tools.compile_all(agents.jobs(sources, target, ("-DSDK_RT_FRAME_MAX=512u", "-DBIG_N=4096")))
    out = tmp_path_factory.mktemp("small") / "agent"
    return tools.link(LinkJob("executable", tuple(objects), target, libs=("pthread",)), out)


def test_a_line_that_spoils_what_it_carries_and_a_board_that_restarts(board: Callable[..., Bridge]) -> None:
    bridge = board(rate=5e-4, seed=3)
    with open_port(bridge.uri) as session:
        rng = random.Random(1)
        session.reset(0)
        for call in range(3):
            one_call(session, rng, call)
    assert bridge.faults
    bridge.rate = 0.0
    with open_port(bridge.uri) as session:  # in the middle of an upload
        threading.Timer(0.05, bridge.reboot).start()
        with pytest.raises(LinkError, match="closed the session"):
            write_for_ever(session)
        one_call(session, rng, 0)  # the device is there again, and so is the session
    assert bridge.boots == 2


def test_uploads_use_the_line(small: Path) -> None:
    with contextlib.closing(Bridge([str(small)], baud=UART_BAUD)) as bridge, open_port(bridge.uri) as session:
        data, shares = random.Random(1).randbytes(16_384), []
        while max(shares, default=0.0) < MIN_SHARE and len(shares) < 12:  # the machine may be busy
            began = time.monotonic()
            session.write(1, 0, data)
            shares.append(len(data) / (time.monotonic() - began) / (UART_BAUD / 10))
        session.run(1, dims=[4096])
        assert session.read(1, 1) == data
        assert max(shares) >= MIN_SHARE, shares


def test_a_port_is_one_user_s(small: Path) -> None:
    holder = "import os,sys,time; os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print(flush=True); time.sleep(60)"
    with contextlib.closing(Bridge([str(small)])) as bridge:
        other = subprocess.Popen([sys.executable, "-c", holder, bridge.path], stdout=subprocess.PIPE)
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(BusyError, match=rf"by process {other.pid} \(python.* of "):
            open_port(bridge.uri)
        other.kill()
        other.communicate()
        with open_port(bridge.uri) as session:  # what the dead one had is free
            with pytest.raises(BusyError, match=f"{bridge.path} is in use"):
                open_port(bridge.uri)  # of this process
            tool = "import sys; from sdk.devices.transports.serial import *; SerialTransport(Line(sys.argv[1]), '')"
            line = [sys.executable, "-c", tool, bridge.path]
            done = subprocess.run(line, capture_output=True, text=True, cwd=agents.HERE.parents[1])
            assert f"by process {os.getpid()} (" in done.stderr
            assert session.ping(b"mine") == b"mine"
        open_port(bridge.uri).close()


def test_lock_files_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_LOCKS", tmp_path)
    device = tmp_path / "ttyX9"
    device.touch()
    lock = tmp_path / f"LCK..{str(device).replace('/', '_')}"
    with device.open() as file, subprocess.Popen(["sleep", "60"], stdin=file) as alive:
        for text in (f"{alive.pid:>10}\n", str(alive.pid)):
            lock.write_text(text)
            assert next(ports._noted(device)) == alive.pid
            assert "(sleep) of " in str(ports.Holder(alive.pid))
        for left_over in (f"{os.getppid()}", "999999999", "", "nonsense", "-1"):
            lock.write_text(left_over)
            assert list(ports._noted(device)) == []
        with device.open() as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            assert list(ports._locking(device)) == [os.getpid()]
        alive.kill()


def test_a_port_that_goes_away_in_mid_run(board: Callable[..., Bridge]) -> None:
    bridge = board()
    session = open_port(bridge.uri)
    session.models()
    threading.Timer(0.2, bridge.unplug).start()
    began = time.monotonic()
    with pytest.raises(LinkError, match="was lost"):
        session.run(1, dims=[16])  # for ever
    assert time.monotonic() - began < 8
    session.close()


@pytest.mark.parametrize(
    ("rest", "line"),
    [
        ("/dev/ttyACM0", Line("/dev/ttyACM0")),
        ("///dev/ttyACM0", Line("/dev/ttyACM0")),
        ("ttyUSB1@921600", Line("ttyUSB1", 921_600)),
        ("/dev/serial/by-id/usb-a@b/c", Line("/dev/serial/by-id/usb-a@b/c")),
        ("COM3?reset=D0,R1,W0.1,R0", Line("COM3", 115_200, ("D0", "R1", "W0.1", "R0"))),
        ("", Line("")),
        ("@9600", Line("", 9600)),
        ("x?baud=921600", Line("x", 115_200, (), 921_600)),
        ("x@57600?reset=D0,D1&baud=230400", Line("x", 57_600, ("D0", "D1"), 230_400)),
    ],
)
def test_addresses(rest: str, line: Line) -> None:
    assert parse_line(f"serial:{rest}") == line


@pytest.mark.parametrize(
    "rest",
    ["x?baud=", "x?baud=0", "x?baud=1e6", "x?baud=99999999", "x?baud=9600&baud=9600", "x?baud=\u0663",
     "x@", "x@0", "x@1e5", "x@-1", "x@99999999999", "x@\u0663", "x?fast=1", "x?reset", "x?reset=", "x?reset=D2",
     "x?reset=W999", "x?reset=D0,,R1", "x?reset=" + ",".join(["D0"] * 33)],
)  # fmt: skip
def test_addresses_that_are_none(rest: str) -> None:
    with pytest.raises(UsageError, match="is not a device address"):
        parse_line(f"serial:{rest}")


class Failing:
    """A port that does not open."""

    fd = -1

    def __init__(self, error: Exception) -> None:
        self.error = error

    def open(self) -> None:
        raise self.error

    def close(self) -> None:
        pass


def test_ports_that_do_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(name: str) -> SdkError:
        with pytest.raises(SdkError) as caught:
            open_port(f"serial:{name}")
        return caught.value

    monkeypatch.setattr(transport.list_ports, "comports", lambda: [])
    assert "there is no serial port" in said("").message
    for name in ("/dev/ttyNONE", "ttyNONE", "a\0b", "/dev/null/x"):
        assert isinstance(said(name), NoDeviceError)
    (tmp_path / "file").touch()
    for other in (tmp_path / "file", tmp_path):
        assert isinstance(said(str(other)), NoDeviceError)
    cases: list[tuple[Exception, type[SdkError], str]] = [
        (OSError(errno.EACCES, "x"), NoDeviceError, "you may not open"),
        (OSError(errno.EBUSY, "x"), BusyError, "in use"),
        (ValueError("Failed to set custom baud rate"), UsageError, "at 115200 baud"),
        (termios.error(errno.EINVAL, "x"), UsageError, "at 115200 baud"),
        (OSError("Could not configure port"), NoDeviceError, "no serial port that works"),
    ]
    for error, kind, words in cases:
        monkeypatch.setattr(transport.serial, "Serial", lambda error=error: Failing(error))
        found = said(str(tmp_path / "file"))
        assert isinstance(found, kind)
        assert words in found.message
    for gid, mode, words in ((20, 0o660, "usermod -aG"), (0, 0o660, "udev"), (20, 0o600, "udev")):
        facts = os.stat_result((mode, 0, 0, 1, 0, gid, 0, 0, 0, 0))
        monkeypatch.setattr(Path, "stat", lambda _, facts=facts: facts)
        assert words in ports.access_hint(Path("/dev/ttyACM0"))


def test_lines_are_moved_only_when_asked(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[tuple[int, int]] = []
    ioctl = fcntl.ioctl

    def seen(fd: int, number: int, *rest: object) -> object:
        if number in (termios.TIOCMBIS, termios.TIOCMBIC):
            moved.append((number, int.from_bytes(rest[0], "little")))
            return 0
        return ioctl(fd, number, *rest)

    with contextlib.closing(Bridge([str(small)])) as bridge:
        with pytest.raises(UsageError, match="cannot reset a board"):  # a pseudo terminal has no lines
            open_port(f"{bridge.uri}?reset=D0")
        monkeypatch.setattr(fcntl, "ioctl", seen)
        open_port(f"{bridge.uri}?reset=D0,R0,W0.01,D1").close()
    up, down, dtr, rts = termios.TIOCMBIS, termios.TIOCMBIC, termios.TIOCM_DTR, termios.TIOCM_RTS
    assert moved == [(up, dtr), (up, rts), (down, dtr), (down, rts), (up, dtr)]  # the first two are the system's own
