"""Runs that are called off: by an interrupt, a deadline or another request; nothing stays behind that was started."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import in_process
import pytest
from device_agents import Agent
from in_process import Clock, Line
from test_faults import TIMEOUT_S, Scripted, hello_ack, within

from sdk.devices import Session, process
from sdk.devices.link import Link
from sdk.devices.messages import pack
from sdk.devices.wire import Code, Decoder, Frame, Kind, Op
from sdk.errors import LinkError

SCALE, BIG = 0, 1
SLOW, ENDLESS = 15, 16  # dims for which "big" takes 3 million loops, and for ever
FOR_MINUTES = 1_000_000  # runs


def interrupt_at(session: Session, reads: int) -> None:
    """From now on the transport's read number ``reads`` is where the user presses Ctrl-C."""
    transport, left = session._link.transport, [reads]
    read = transport.read

    def interrupted(timeout_s: float) -> bytes:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return read(timeout_s)

    transport.read = interrupted


@pytest.mark.some(4)
def test_an_interrupt_stops_the_device_and_the_session_goes_on(session: Session) -> None:
    session.models()
    interrupt_at(session, 2)
    with within(20), pytest.raises(KeyboardInterrupt):
        session.run(BIG, dims=[SLOW], warmup=FOR_MINUTES)
    with within(5):
        assert session.ping(b"idle") == b"idle"
        session.reset(SCALE)
        session.write(SCALE, 0, bytes(64))
        session.run(SCALE)
        assert session.read(SCALE, 1) == bytes(64)


@pytest.mark.some(2)
def test_a_deadline_stops_the_device_too(session: Session) -> None:
    session.models()
    session._link.deadline_s = 1.5
    with within(20), pytest.raises(LinkError, match=r"RUN is not done after 1.5 s in all") as caught:
        session.run(BIG, dims=[SLOW], warmup=FOR_MINUTES)
    assert "CROSSLEVEL_DEADLINE" in (caught.value.hint or "")
    with within(5):
        assert session.ping(b"idle") == b"idle"


def test_an_interrupt_in_a_run_that_never_ends_leaves_no_process(local: Agent) -> None:
    with within(8), local.open() as session:
        session.models()
        child = session._link.transport._child.process
        interrupt_at(session, 2)
        with pytest.raises(KeyboardInterrupt):
            session.run(BIG, dims=[ENDLESS])
    assert child.returncode is not None


def test_an_interrupt_while_a_process_is_given_time_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    child = process.spawn(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], "the agent", piped=True)
    wait, calls = child.process.wait, []

    def interrupted(timeout: float | None = None) -> int:
        calls.append(timeout)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(timeout)

    monkeypatch.setattr(child.process, "wait", interrupted)
    with within(3), pytest.raises(KeyboardInterrupt):
        process.stop(child, lambda: None, 30.0)
    assert child.process.returncode == -signal.SIGKILL
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(child.stderr_fd)


# The agent's side, in this process: what comes during a series of runs.


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return in_process.build(tmp_path_factory.mktemp("agent"), 512)


def frames_after(
    library: ctypes.CDLL, *later: Callable[[int, int], Frame]
) -> tuple[list[tuple[int, int, bytes]], Link]:
    """What the agent sends upon a series of 50 runs and, with it, other frames, each of (session, id of the runs)."""
    line = Line(library, Clock())
    session = in_process.open_session(line)
    link = session._link
    session.reset(SCALE)
    run = Frame(Kind.REQ, link._session, 700, Op.RUN, pack("HIIHH", SCALE, 10, 40, 0, 0))
    line.write(b"".join(f.encode() for f in (run, *(make(link._session, 700) for make in later))), 1.0)
    found = Decoder(65536).feed(line.read(1.0))
    return [(f.kind, f.id, f.payload) for f in found if f.kind != Kind.EVT], link


def cancelled(payload: bytes) -> int:
    size, code, done = struct.unpack("<HHi", payload)
    assert (size, code) == (8, Code.CANCELLED)
    return int(done)


def test_a_cancelled_series_says_how_many_runs_were_done(library: ctypes.CDLL) -> None:
    [(kind, id_, payload)], link = frames_after(library, lambda s, i: Frame(Kind.CANCEL, s, i, Op.RUN))
    assert (kind, id_) == (Kind.ERR, 700)
    assert cancelled(payload) == 1
    link.transport.write(Frame(Kind.REQ, link._session, 700, Op.RUN).encode(), 1.0)  # the answer is kept
    assert [f.payload for f in Decoder(512).feed(link.transport.read(1.0))] == [payload]


@pytest.mark.parametrize(
    "stray",
    [
        lambda s, i: Frame(Kind.CANCEL, s ^ 1, i, Op.RUN),
        lambda s, i: Frame(Kind.CANCEL, s, i - 1, Op.RUN),
        lambda s, i: Frame(Kind.REQ, s, i, Op.RUN, pack("HIIHH", SCALE, 10, 40, 0, 0)),
        lambda s, i: Frame(Kind.REQ, s ^ 1, i + 1, Op.PING),
        lambda s, i: Frame(Kind.BYE, s ^ 1, 0, 0),
        lambda s, i: Frame(Kind.RSP, s, i + 1, Op.PING),
        lambda s, i: Frame(200, s, i, 0),
    ],
    ids=["other session", "other request", "repeat", "stale request", "stale farewell", "echo", "unknown"],
)
def test_what_does_not_stop_a_series(library: ctypes.CDLL, stray: Callable[[int, int], Frame]) -> None:
    [(kind, id_, payload)], link = frames_after(library, stray)
    assert (kind, id_, len(payload)) == (Kind.RSP, 700, 16 + 8 * 10)
    assert link.request(Op.PING, b"x") == b"x"


def test_what_takes_the_place_of_a_series_is_done_next(library: ctypes.CDLL) -> None:
    [first, second], _ = frames_after(library, lambda s, i: Frame(Kind.REQ, s, i + 1, Op.PING, b"next"))
    assert (first[0], second) == (Kind.ERR, (Kind.RSP, 701, b"next"))
    [first, second], _ = frames_after(library, lambda s, i: Frame(Kind.BYE, s, 9, 0))
    assert (first[0], second) == (Kind.ERR, (Kind.BYE, 9, b""))
    hello = struct.pack("<HBBIII", 16, 1, 1, 0x574B4453, 99, 65536)
    [first, second], _ = frames_after(library, lambda s, i: Frame(Kind.HELLO, 0, 0, 0, hello))
    assert (first[0], second[0]) == (Kind.ERR, Kind.HELLO_ACK)


def test_damage_is_reported_at_once_in_an_open_session_only(library: ctypes.CDLL) -> None:
    line = Line(library, Clock())
    line.write(b"boot noise\0", 1.0)
    assert line.read(0.0) == b""
    session = in_process.open_session(line)
    line.write(b"noise\0" + b"\x02" * 2000 + b"\0", 1.0)
    found = [(f.kind, f.op, f.session) for f in Decoder(512).feed(line.read(0.0))]
    assert found == 2 * [(Kind.EVT, 2, session._link._session)]


def test_an_agent_of_before_is_not_asked_to_stop() -> None:
    seen: list[int] = []

    def answer(frame: Frame) -> bytes:
        seen.append(frame.kind)
        return hello_ack(frame) if frame.kind == Kind.HELLO else b""

    link = Link(Scripted(answer), TIMEOUT_S)
    link.greet()
    with pytest.raises(LinkError, match="no answer to RUN"):
        link.request(Op.RUN)
    assert Kind.CANCEL not in seen


# The command.


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in task.read_text(encoding="ascii").split()]
    return found


def ended(pid: int) -> bool:
    """Whether a process is no more, or is only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_command_and_what_it_started(root: Path, number: signal.Signals, status: int) -> None:
    digits = root / "examples" / "digits" / "digits_int8.tflite"
    line = [sys.executable, "-m", "sdk", "bench", str(digits), "--board", "host", "--repeat", "100000000"]
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # else inherited from a test run behind
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed) as command:
        try:
            until = time.monotonic() + 120
            agent: list[int] = []
            while not agent and time.monotonic() < until and command.poll() is None:
                time.sleep(0.2)
                names = {pid: Path(f"/proc/{pid}/cmdline") for pid in children(command.pid)}
                agent = [pid for pid, path in names.items() if path.read_bytes().endswith(b"/agent\0")]
            assert agent, command.stderr.read() if command.stderr else b""
            time.sleep(0.3)
            command.send_signal(number)
            with within(10):
                out, _ = command.communicate(timeout=10)
        finally:
            command.kill()
    assert (command.returncode, out) == (status, b"")
    assert all(map(ended, agent))
