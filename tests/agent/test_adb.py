"""``adb://`` with Debian's adb server and a phone of the test's own; all states in which a phone cannot be used."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from adb_desk import Desk, adb_desk
from agent_lab import documented, end_of, running, until
from wire_work import work

from sdk.cli import run_command
from sdk.devices import open_device
from sdk.devices.base import open_transport
from sdk.devices.remote import RemoteProgram
from sdk.devices.sources import phones
from sdk.errors import LinkError, MissingToolError, NoDeviceError, SdkError, UsageError

DIGITS = Path(__file__).resolve().parent.parent.parent / "examples" / "digits" / "digits_int8.tflite"


@pytest.fixture
def desk(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, need_tool: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Desk]:  # fmt: skip
    """A server of the test's own, which knows no phones."""
    monkeypatch.delenv("ADB_SERVER_SOCKET", raising=False)
    with adb_desk(need_tool("adb"), tmp_path_factory.mktemp("adb"), tmp_path) as desk:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(desk.port))
        yield desk


def script(folder: Path, text: str) -> Path:
    path = folder / f"script{len(text)}"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    return path


def error_of(uri: str, program: Path, agent: Path) -> SdkError:
    with pytest.raises(SdkError) as caught:
        open_transport(uri, program, None, 20, lambda _: agent).close()
    return caught.value


def test_sessions_on_phones(desk: Desk, wire_agent: Path, twin_agent: Path, tmp_path: Path) -> None:
    request = {"artifact": wire_agent, "emulator": None, "timeout_s": 20, "agent_for": lambda _: twin_agent}
    first = desk.plug()
    with open_device("adb://", **request) as session:  # the only one
        work(session, 1)
    [listed] = phones.find_phones()
    assert (listed.address, listed.name, listed.state) == (f"adb://{first.serial}", "Test Phone", "free")
    folder = tmp_path / "phone0" / "crosslevel"
    assert len(os.listdir(folder / "agents")) == len(os.listdir(folder / "store" / "programs")) == 1
    second = desk.plug()
    error = error_of("adb://", wire_agent, twin_agent)
    assert (type(error), error.message) == (UsageError, "there are several phones")
    assert first.serial in (error.why or "")
    assert "--device adb://" in (error.hint or "")
    uris = [f"adb://{phone.serial}" for phone in (first, second)]
    with open_device(uris[0], **request) as one, open_device(uris[1], **request) as two:
        work(two, 2)
        work(one, 3)
    assert len(os.listdir(tmp_path / "phone1" / "crosslevel" / "agents")) == 1
    error = error_of("adb://emulator-5554", wire_agent, twin_agent)
    assert (type(error), error.message) == (NoDeviceError, "there is no phone emulator-5554")
    for place in ("phone0", "phone1"):
        until(lambda place=place: not running(str(tmp_path / place)))  # type: ignore[misc]
        assert not os.listdir(tmp_path / place / "crosslevel" / "store" / "runs")


def test_how_programs_on_phones_end(desk: Desk, twin_agent: Path, tmp_path: Path) -> None:
    phone = desk.plug()
    uri = f"adb://{phone.serial}"
    program = open_transport(uri, script(tmp_path, "echo so long >&2; exit 3"), None, 20, lambda _: twin_agent)
    assert isinstance(program, RemoteProgram)
    error = end_of(program)
    assert "ended with status 3" in error.message
    assert "so long" in (error.why or "")
    endless = script(tmp_path, "echo up; while :; do :; done")
    program = open_transport(uri, endless, None, 20, lambda _: twin_agent)
    assert program.read(10) == b"up\n"
    phone.unplug()
    error = end_of(program)
    assert isinstance(error, LinkError)
    assert "the connection is lost" in error.message
    until(lambda: not running(str(tmp_path / "phone0")))


def test_phones_that_cannot_be_used(desk: Desk, twin_agent: Path, tmp_path: Path) -> None:
    program = script(tmp_path, "exec cat")
    error = error_of("adb://", program, twin_agent)
    assert (type(error), error.message) == (NoDeviceError, "there is no phone")
    assert "adb devices" in (error.hint or "")
    stranger = desk.plug(stranger=True)
    until(lambda: "unauthorized" in desk.adb("devices"), 30)
    error = error_of(f"adb://{stranger.serial}", program, twin_agent)
    assert isinstance(error, NoDeviceError)
    assert f"the phone {stranger.serial} cannot be used" in error.message
    assert "allow debugging" in (error.hint or "")
    friend = desk.plug()
    error = error_of("adb://", program, twin_agent)
    assert (type(error), error.message) == (UsageError, "there are several phones")
    assert f"{stranger.serial} (phone, unauthorised)" in (error.why or "")
    assert (error.hint or "").endswith(f"adb://{friend.serial}")


def test_what_a_server_may_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twin_agent: Path) -> None:
    """The other states, services that are refused, and no server at all."""
    program = script(tmp_path, "exec cat")
    for listed, answer, kind, words in [
        ("P offline", "", NoDeviceError, "adb reconnect offline"),
        ("P no permissions (user in plugdev group)", "", NoDeviceError, "android-sdk-platform-tools-common"),
        ("P recovery", "", NoDeviceError, "adb reboot"),
        ("P device", "FAIL0006closed", LinkError, "closed"),
        ("P device", "OKAYOKAY", NoDeviceError, "cannot use adb://P"),
        ("P device", "OKAYOKAY\ncrosslevel-2 failed no room\n", NoDeviceError, "no room"),
    ]:
        listener = socket.create_server(("127.0.0.1", 0))
        monkeypatch.setenv("ADB_SERVER_SOCKET", f"tcp:127.0.0.1:{listener.getsockname()[1]}")

        def serve(listener: socket.socket = listener, listed: str = listed, answer: str = answer) -> None:
            for text in (f"OKAY{len(listed) + 1:04x}{listed}\n", answer):
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock:
                    sock.recv(4096)
                    sock.sendall(text.encode())
                    sock.settimeout(1)
                    while text is answer and sock.recv(4096):
                        sock.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        error = error_of("adb://P", program, twin_agent)
        assert isinstance(error, kind), (listed, error)
        assert words in str(error), (listed, str(error))
        listener.close()
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("ADB_SERVER_SOCKET", f"tcp:127.0.0.1:{free.getsockname()[1]}")
    monkeypatch.setattr(phones.shutil, "which", lambda _: "/usr/bin/adb")
    error = error_of("adb://P", program, twin_agent)
    assert (type(error), error.hint) == (MissingToolError, "adb start-server")
    monkeypatch.setattr(phones.shutil, "which", lambda _: None)
    error = error_of("adb://P", program, twin_agent)
    assert (type(error), error.message) == (MissingToolError, "adb is not installed")


@pytest.mark.parametrize("rest", ["-x", "a b", "a/b", "a;b", "P?what=1", "P?via=a;b", "P?cores=x", "P#x", "$(x)"])
def test_addresses_of_no_phone(rest: str) -> None:
    with pytest.raises(UsageError, match="is not a device address"):
        open_transport(f"adb://{rest}", Path(__file__), None, 1, lambda _: Path("x"))


@pytest.mark.emulator
def test_a_phone_by_the_command(
    desk: Desk,
    need_tool: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What docs/devices.md says, with a phone whose processor is emulated."""
    need_tool("qemu-aarch64")
    phone = desk.plug()
    show, line = documented("A phone")
    assert phone.serial in desk.adb(*show.split()[1:])
    program, *words = line.split()
    assert (program, words[-1]) == ("sdk", "adb://")
    monkeypatch.chdir(DIGITS.parents[2])
    assert run_command([*words[:-1], "adb://?via=qemu-aarch64", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["emulated"], report["runs"]) == (True, 10)
    where = (str(DIGITS), "--board", "aarch64-linux", "--device", f"adb://{phone.serial}?via=qemu-aarch64")
    assert run_command(["verify", *where, "--against", "interp", "--cases", "3"]) == 0
