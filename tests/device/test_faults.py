"""Devices that are silent, dead, lying or behind a bad line: calls end in time, with errors that help."""

from __future__ import annotations

import os
import random
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from device_agents import Agent
from in_process import damaged

from sdk.devices import EmulatorSpec, Session, Transport, open_device, schemes, wire
from sdk.devices.base import open_transport
from sdk.devices.link import Link
from sdk.devices.wire import Decoder, Frame, Kind, Op
from sdk.errors import (
    DeviceFault,
    LinkError,
    MissingToolError,
    NoDeviceError,
    SdkError,
    UsageError,
)

TIMEOUT_S = 0.4
MACHINE = EmulatorSpec(("qemu-system-arm", "-M", "mps2-an386", "-serial", "{serial}"), 6, 25_000_000)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def script(folder: Path, text: str) -> Path:
    path = folder / "device"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def open_script(folder: Path, text: str) -> Session:
    return open_device("local:", artifact=script(folder, text), emulator=None, timeout_s=TIMEOUT_S)


class Scripted:
    """A Transport whose device is a function from a received frame to the bytes it answers."""

    address = "scripted"
    emulated = False
    bytes_per_s = 1e6
    ns_per_instruction = None

    def __init__(self, answer: Callable[[Frame], bytes]) -> None:
        self._answer = answer
        self._decoder = Decoder(65536)
        self._pending = b""

    def read(self, timeout_s: float) -> bytes:
        if not self._pending:
            time.sleep(timeout_s)
        data, self._pending = self._pending, b""
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        for frame in self._decoder.feed(data):
            self._pending += self._answer(frame)

    def close(self) -> None:
        pass


def hello_ack(hello: Frame, **changes: int) -> bytes:
    fields = {
        "size": 52,
        "version": 1,
        "nonce": int.from_bytes(hello.payload[8:12], "little"),
        "session": 7,
        "counter": 1,
        "rx_max": 512,
        "tx_max": 512,
        "timer_hz": 1000,
        "models": 1,
        **changes,
    }
    payload = struct.pack(
        "<HBBIHBBIIIHHi5I",
        *[fields[key] for key in ("size", "version")],
        1,
        *[fields[key] for key in ("nonce", "session", "counter")],
        0,
        *[fields[key] for key in ("rx_max", "tx_max", "timer_hz", "models")],
        0,
        0,
        *[0] * 5,
    )
    return Frame(Kind.HELLO_ACK, fields["session"], 0, 0, payload + b"\x02ab").encode()


def lying(**changes: int) -> Link:
    return Link(Scripted(lambda frame: hello_ack(frame, **changes)), TIMEOUT_S)


def test_a_silent_device(tmp_path: Path) -> None:
    with within(2), pytest.raises(LinkError) as caught:
        open_script(tmp_path, "exec sleep 60")
    assert "not one byte" in caught.value.why
    assert caught.value.exit_code == 6


def test_a_device_that_sends_garbage_without_end(tmp_path: Path) -> None:
    with within(3), pytest.raises(LinkError) as caught:
        open_script(tmp_path, "exec yes")
    assert "none a valid frame; they begin b'y\\ny\\n" in caught.value.why


def test_a_device_that_only_echoes(tmp_path: Path) -> None:
    with within(2), pytest.raises(LinkError, match="no valid greeting"):
        open_script(tmp_path, "exec cat")


def test_a_device_that_dies_with_a_message(tmp_path: Path) -> None:
    with within(2), pytest.raises(DeviceFault) as caught:
        open_script(tmp_path, "echo out of order >&2; exit 3")
    assert "ended with status 3" in caught.value.message
    assert caught.value.why == "out of order"


def test_a_device_killed_by_a_signal(tmp_path: Path) -> None:
    with within(2), pytest.raises(DeviceFault, match="killed by SIGKILL"):
        open_script(tmp_path, "kill -9 $$")


def test_a_device_that_ends_politely(tmp_path: Path) -> None:
    with within(2), pytest.raises(LinkError, match="ended before it answered"):
        open_script(tmp_path, "exit 0")


def test_a_device_that_takes_no_data(local: Agent) -> None:
    with within(5), local.open(TIMEOUT_S) as session:
        transport = session._link.transport
        os.kill(transport._child.process.pid, 19)  # SIGSTOP
        try:
            with pytest.raises(LinkError, match="takes no data"):
                transport.write(bytes(1 << 20), TIMEOUT_S)
        finally:
            os.kill(transport._child.process.pid, 18)


def test_a_device_that_dies_in_a_run_is_gone_for_good(local: Agent) -> None:
    with local.open() as session:
        process = session._link.transport._child.process
        with within(5), pytest.raises(DeviceFault):
            session.run(1, dims=[13])
        with pytest.raises(SdkError):
            session.ping()
    assert process.returncode is not None


def test_closing_leaves_no_process_behind(local: Agent) -> None:
    session = local.open()
    process = session._link.transport._child.process
    session.close()
    assert process.returncode == 0
    session.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 2000}, "malformed greeting"),
        ({"size": 10}, "malformed greeting"),
        ({"counter": 9}, "impossible values"),
        ({"timer_hz": 0}, "impossible values"),
        ({"version": 2}, "impossible values"),
        ({"rx_max": 16}, "impossible frame sizes"),
        ({"nonce": 1}, "no valid greeting"),
    ],
)
def test_greetings_that_lie(changes: dict[str, int], message: str) -> None:
    with within(2), pytest.raises(LinkError, match=message):
        lying(**changes).greet()


@pytest.mark.parametrize(
    "payload", [b"", b"\x40", b"\xff\xff" + bytes(30), bytes(24), b"\x18\0" + bytes(22) + b"\x50abc"]
)
def test_answers_that_lie_about_lengths(payload: bytes) -> None:
    def answer(frame: Frame) -> bytes:
        if frame.kind == Kind.HELLO:
            return hello_ack(frame)
        return Frame(Kind.RSP, frame.session, frame.id, frame.op, payload).encode()

    with within(2), pytest.raises(LinkError, match="malformed"):
        Session(Link(Scripted(answer), TIMEOUT_S))


def test_answers_to_other_requests_are_ignored() -> None:
    def answer(frame: Frame) -> bytes:
        if frame.kind == Kind.HELLO:
            return hello_ack(frame)
        old = replace(frame, kind=Kind.RSP, id=frame.id + 1).encode()
        return old + replace(frame, kind=Kind.RSP, session=frame.session + 1).encode()

    link = Link(Scripted(answer), TIMEOUT_S)
    link.greet()
    with within(2), pytest.raises(LinkError, match="no answer to PING") as caught:
        link.request(Op.PING)
    assert "valid frames" in caught.value.why


def test_signs_of_work_keep_a_request_alive() -> None:
    sent = 0

    class Working(Scripted):
        def read(self, timeout_s: float) -> bytes:
            nonlocal sent
            time.sleep(min(timeout_s, 0.1))
            sent += 1
            if sent == 12:
                return Frame(Kind.RSP, 7, 1, Op.RUN, b"done").encode()
            return progress(sent)

    link = Link(Working(lambda frame: b""), TIMEOUT_S)
    link._session = 7
    assert link.request(Op.RUN) == b"done"  # after 1.2 s, three times the silence allowed


def progress(done: int) -> bytes:
    return Frame(Kind.EVT, 7, 1, wire.EVT_PROGRESS, struct.pack("<HHII", 12, 0, done, 99)).encode()


def test_talk_without_progress_does_not_keep_a_request_alive() -> None:
    class Talking(Scripted):
        def read(self, timeout_s: float) -> bytes:
            time.sleep(min(timeout_s, 0.05))
            return progress(1)

    link = Link(Talking(lambda frame: b""), TIMEOUT_S)
    link._session = 7
    with within(4), pytest.raises(LinkError, match="no answer to RUN"):
        link.request(Op.RUN)


def test_addresses_and_tools_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = tmp_path / "image.elf"
    assert schemes() == ("adb", "local", "program", "qemu", "serial", "ssh", "tcp", "unicorn")
    for uri in ("", "local", "telepathy://x"):
        with pytest.raises(UsageError, match="not a device address"):
            open_transport(uri, image, None, TIMEOUT_S)
    with pytest.raises(NoDeviceError, match="cannot start"):
        open_transport("local:", image, None, TIMEOUT_S)
    with pytest.raises(UsageError, match="no emulator"):
        open_transport("qemu://", image, None, TIMEOUT_S)
    with pytest.raises(NoDeviceError, match="no firmware image"):
        open_transport("qemu://", image, MACHINE, TIMEOUT_S)
    image.write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError) as caught:
        open_transport("qemu://", image, MACHINE, TIMEOUT_S)
    assert caught.value.exit_code == 10
    assert caught.value.hint == "apt-get install qemu-system-arm"


@pytest.mark.emulator
def test_an_emulator_that_does_not_start(tmp_path: Path, need_tool) -> None:
    need_tool("qemu-system-arm")
    image = tmp_path / "image.elf"
    image.write_bytes(b"no ELF at all")
    with within(5), pytest.raises(DeviceFault) as caught:
        open_transport("qemu://", image, replace(MACHINE, command=("qemu-system-arm", "-M", "toaster")), 3.0)
    assert "unsupported machine type" in caught.value.why
    silent = replace(MACHINE, command=("sh", "-c", "sleep 60", "{serial}"))
    with within(5), pytest.raises(LinkError, match="did not connect"):
        open_transport("qemu://", image, silent, TIMEOUT_S)


class BadLine:
    """A Transport that loses, flips, doubles and inserts bytes in both directions, by a seeded schedule."""

    def __init__(self, inner: Transport, rate: float, seed: int) -> None:
        self.address = inner.address
        self.emulated = inner.emulated
        self.bytes_per_s = inner.bytes_per_s
        self.ns_per_instruction = inner.ns_per_instruction
        self._inner = inner
        self._rate = rate
        self._random = random.Random(seed)
        self.faults = 0

    def _damage(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            if self._random.random() >= self._rate:
                out.append(byte)
                continue
            self.faults += 1
            out += damaged(byte, self._random)
        return bytes(out)

    def read(self, timeout_s: float) -> bytes:
        return self._damage(self._inner.read(timeout_s))

    def write(self, data: bytes, timeout_s: float) -> None:
        self._inner.write(self._damage(data), timeout_s)

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize("seed", range(4))
def test_results_are_right_over_a_bad_line(local: Agent, seed: int) -> None:
    rng = random.Random(seed)
    line = BadLine(open_transport(local.uri, local.artifact, None, 5.0), 0.0002, seed)
    with within(30), Session(Link(line, 5.0, first_wait_s=0.005)) as session:
        session.reset(0)
        for call in range(25):
            data = rng.randbytes(64)
            session.write(0, 0, data)
            session.run(0)  # executed once however often it had to be sent
            assert session.read(0, 1) == bytes((2 * x + call) & 0xFF for x in data)
            big = rng.randbytes(2000)
            session.write(1, 0, big)
            session.run(1, dims=[500])
            assert session.read(1, 1) == big
        assert line.faults > 20
        assert session.stats().damaged > 0
