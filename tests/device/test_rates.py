"""Another rate for a board's line: agreed on, tried by echoes, given up where nothing is heard; on UART registers of
every driver that can change its divisor, at a port whose rate the emulated UART must have to understand a byte."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import device_agents as agents
import pytest
from device_agents import Agent
from one_call import one_call
from serial_bridge import Bridge, emulated

from sdk.devices import Session, open_device, rates
from sdk.devices.base import RatedTransport
from sdk.devices.emulated.bus import port_baud
from sdk.devices.transports import serial as transport
from sdk.devices.wire import Code, Op
from sdk.errors import DeviceFault, LinkError, UsageError

BASE, FAST = 115_200, 460_800
BOARD = "qemu-cortex-m4"
SLOW = pytest.mark.slow
# One board of each driver: those that can have other rates, with one that fits their clock, and the others.
CHANGING = [
    (BOARD, 921_600), ("rpi_pico", 921_600), ("nucleo_l4r5zi", 460_800), ("qemu-riscv32", 230_400),
    *(pytest.param(*one, marks=SLOW) for one in (("nucleo_f411re", 500_000), ("nrf52840_dk", 1_000_000),
      ("nrf5340_dk", 921_600), ("teensy41", 921_600), ("adafruit_metro_m4", 921_600))),
]  # fmt: skip
FIXED = ["esp32c3_devkitm", "microbit", pytest.param("hifive1_revb", marks=SLOW)]


@pytest.fixture
def board(agent_for: Callable[[str], Agent]) -> Iterator[Callable[..., Bridge]]:
    """A function that puts an emulated board at a port whose rate it must have."""
    made: list[Bridge] = []

    def get(name: str = BOARD, **line: float) -> Bridge:
        agent = agent_for(agents.UNICORN + name)
        assert agent.emulator is not None
        made.append(Bridge(emulated(agent.emulator, agent.artifact), rated=True, **line))
        return made[-1]

    yield get
    for bridge in made:
        bridge.close()


def opened(bridge: Bridge, baud: int = 0, timeout_s: float = 20.0) -> Session:
    uri = f"{bridge.uri}?baud={baud}" if baud else bridge.uri
    return open_device(uri, artifact=Path("unused"), emulator=None, timeout_s=timeout_s)


def works(session: Session) -> None:
    session.reset(0)
    one_call(session, random.Random(1), 0)


def line_of(session: Session) -> RatedTransport:
    line = session._link.transport
    assert isinstance(line, RatedTransport)
    return line


@pytest.mark.parametrize(("name", "baud"), CHANGING)
def test_every_driver_changes_its_divisor(name: str, baud: int, board: Callable[..., Bridge]) -> None:
    bridge = board(name)
    with opened(bridge, baud) as session:
        assert port_baud(bridge.master) == line_of(session).baud == baud
        works(session)
        assert session.stats().damaged == 0
    with opened(bridge) as session:  # which is back where it began
        assert port_baud(bridge.master) == BASE
        works(session)
        assert session.stats().damaged == 0


@pytest.mark.parametrize("name", FIXED)
def test_a_board_with_one_rate_says_so(name: str, board: Callable[..., Bridge]) -> None:
    bridge = board(name)
    with pytest.raises(UsageError, match="the board's rate cannot be changed"):
        opened(bridge, FAST)
    with opened(bridge) as session:
        assert session.ping(b"here") == b"here"


def test_rates_that_a_uart_cannot_have(board: Callable[..., Bridge]) -> None:
    """The board tells the nearest that its 25 MHz give: 16 clocks a bit at least."""
    bridge = board()
    for baud, nearest in ((9600, BASE), (20_000_000, 25_000_000 // 16), (1_500_000, 25_000_000 // 17)):
        with pytest.raises(UsageError, match="cannot have") as caught:
            opened(bridge, baud)
        assert f"{nearest:,} comes nearest" in str(caught.value.why)
        assert caught.value.hint is not None
        assert caught.value.hint.startswith(f"baud={nearest}")
    with opened(bridge, 25_000_000 // 17) as session:  # as it was told
        works(session)


def test_a_board_that_offers_and_refuses(board: Callable[..., Bridge], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(op: Op, payload: bytes = b"") -> bytes:
        raise rates.RemoteError(Code.OP, 0)

    with opened(board()) as session:
        monkeypatch.setattr(session._link, "request", refuses)
        with pytest.raises(LinkError, match="refuses to change its rate"):
            rates.change_rate(session._link, line_of(session), session._ack, FAST)


def test_a_port_that_cannot_have_the_rate(board: Callable[..., Bridge], monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = board()
    change = transport.SerialTransport.set_baud

    def refuses(self: transport.SerialTransport, baud: int) -> None:
        if baud != BASE:
            raise transport._refusal(Path(bridge.path), baud, ValueError("Failed to set custom baud rate"))
        change(self, baud)

    monkeypatch.setattr(transport.SerialTransport, "set_baud", refuses)
    with pytest.raises(UsageError, match=f"cannot be opened at {FAST} baud"):
        opened(bridge, FAST)
    with opened(bridge, timeout_s=5) as session:  # the board has come back too
        works(session)


@pytest.mark.parametrize("other", [BASE, FAST // 2])
def test_a_line_that_cannot_have_the_rate(
    other: int, board: Callable[..., Bridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cable or bridge that has another rate than the port says: nothing comes back, and both return."""
    bridge = board()
    change = transport.SerialTransport.set_baud

    def lies(self: transport.SerialTransport, baud: int) -> None:
        change(self, other if baud == FAST else baud)

    monkeypatch.setattr(transport.SerialTransport, "set_baud", lies)
    monkeypatch.setattr(rates, "_ECHO_S", 0.2)
    with pytest.warns(UserWarning, match="5 of 5 echoes at 460,800 baud did not come back: the line stays at 115,200"):
        session = opened(bridge, FAST)
    with session:
        assert port_baud(bridge.master) == line_of(session).baud == BASE
        works(session)


def test_a_board_that_restarts_at_the_other_rate_begins_anew(board: Callable[..., Bridge]) -> None:
    bridge = board()
    with opened(bridge, FAST) as session:
        works(session)
        bridge.reboot()
        with pytest.raises(LinkError, match="closed the session"):
            session.ping(b"x")
        assert line_of(session).baud == BASE
        works(session)
    with opened(bridge, FAST) as session:
        session.models()
        with pytest.raises(DeviceFault, match="crashed during RUN"):  # told at the rate of the session
            session.run(1, dims=[13])
        assert session._link.greet().crash is not None  # and remembered at the first one
        assert line_of(session).baud == BASE
        works(session)


@pytest.mark.parametrize("baud", [pytest.param(0, marks=SLOW), FAST])
def test_a_board_that_restarts_in_mid_run(baud: int, board: Callable[..., Bridge]) -> None:
    """A run whose answer never comes is told as such, and not done again behind one's back."""
    bridge = board()
    with opened(bridge, baud) as session:
        session.models()
        session._link.timeout_s = 60.0  # what ends it is that the board is found to be another
        threading.Timer(0.5, bridge.reboot).start()
        began = time.monotonic()
        with pytest.raises(LinkError, match="closed the session"):
            session.run(1, dims=[16])  # for ever
        assert time.monotonic() - began < 50
        assert line_of(session).baud == BASE
        works(session)
    assert bridge.boots == 2


def test_a_tool_that_ends_without_a_word_leaves_a_board_that_others_find(board: Callable[..., Bridge]) -> None:
    bridge = board()
    session = opened(bridge, FAST)
    line_of(session).close()
    began = time.monotonic()
    with opened(bridge) as session:
        works(session)
    assert time.monotonic() - began < 10


def test_an_answer_that_gets_lost_and_one_that_is_asked_for_twice(board: Callable[..., Bridge]) -> None:
    """The board is at the other rate already; it comes back when it hears nothing, and the request is the same."""
    bridge = board()
    with opened(bridge) as session:
        line, lost = line_of(session), []
        read = line.read

        def deaf(timeout_s: float) -> bytes:
            data = read(timeout_s)
            if len(lost) < 1 and data:
                lost.append(data)
                return b""
            return data

        with contextlib.ExitStack() as stack:
            stack.callback(setattr, line, "read", read)
            line.read = deaf  # type: ignore[method-assign]
            rates.change_rate(session._link, line, session._ack, FAST)
        assert lost
        assert port_baud(bridge.master) == FAST
        works(session)
        assert session._link.request(Op.BAUD, rates.pack("HI", 0, FAST))[4:]  # it is at that rate already
        with pytest.raises(rates.RemoteError) as caught:
            session._link.request(Op.BAUD, rates.pack("HI", 0, 0))
        assert caught.value.code == Code.RANGE
        works(session)


def test_a_line_of_another_rate_that_spoils_what_it_carries(board: Callable[..., Bridge]) -> None:
    bridge = board(seed=5)
    with opened(bridge, FAST) as session:
        bridge.rate = 5e-4
        works(session)
    assert bridge.faults
