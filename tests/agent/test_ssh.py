"""``ssh://`` with a server of the test's own on this machine, and an agent that is sent there; an agent and programs
for AArch64 under QEMU are the Raspberry Pi."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_lab import documented, running, until
from ssh_lab import SshServer as Server
from ssh_lab import keygen, ssh_server
from wire_work import work

from sdk.cli import run_command
from sdk.devices import Session, open_device, pushed, remote
from sdk.devices.base import open_transport
from sdk.devices.transports import ssh
from sdk.errors import BusyError, DeviceFault, LinkError, MissingToolError, NoDeviceError, SdkError, UsageError

DIGITS = Path(__file__).resolve().parent.parent.parent / "examples" / "digits" / "digits_int8.tflite"


@pytest.fixture
def server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need_tool: Callable[[str], str], twin_agent: Path
) -> Iterator[Server]:
    """A server that knows a key of the test; the ssh program that is found reads the test's configuration."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    with ssh_server(tmp_path, need_tool("sshd"), need_tool("ssh"), twin_agent) as server:
        monkeypatch.setenv("PATH", server.path)
        yield server


def script(folder: Path, text: str) -> Path:
    path = folder / f"script{len(text)}"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    return path


def opened(server: Server, program: Path, options: str = "") -> Session:
    return open_device(
        f"{server.uri}{options}", artifact=program, emulator=None, timeout_s=20, agent_for=lambda _: server.agent
    )


def end_of(server: Server, program: Path, options: str = "") -> SdkError:
    with pytest.raises(SdkError) as caught:
        opened(server, program, options).close()
    return caught.value


def test_sessions_over_ssh(server: Server, wire_agent: Path, tmp_path: Path) -> None:
    with opened(server, wire_agent) as session:
        work(session, 1)
    data = server.agent.read_bytes()
    agents, name = server.folder / "agents", hashlib.sha256(data).hexdigest()
    assert os.listdir(agents) == [name]
    sent = hashlib.sha256(wire_agent.read_bytes()).hexdigest()
    assert os.listdir(server.folder / "store" / "programs") == [sent]
    assert not os.listdir(server.folder / "store" / "runs")
    # agents on their way that broke off; the last one is damaged
    for left in (data[:1000], data + b"more", b"wrong" + data[5:9999]):
        (agents / name).unlink()
        (agents / f"{name}.part").write_bytes(left)
        if left.startswith(b"wrong"):
            error = end_of(server, wire_agent)
            assert "the agent was damaged on the way" in (error.why or "")
            assert "cannot take the agent" in error.message
            assert not os.listdir(agents)
        opened(server, wire_agent).close()
        assert (agents / name).read_bytes() == data
    for number in range(4):  # the oldest ones go
        (agents / f"{number:064x}").write_text("")
        os.utime(agents / f"{number:064x}", (number, number))
    end_of(server, script(tmp_path, "exit 3"))
    assert (len(os.listdir(agents)), name in os.listdir(agents)) == (2, True)


def test_how_programs_end_is_told(server: Server, tmp_path: Path) -> None:
    error = end_of(server, script(tmp_path, "echo so long >&2; exit 3"))
    assert isinstance(error, DeviceFault)
    assert "ended with status 3" in error.message
    assert "so long" in (error.why or "")
    assert "was killed by SIGSEGV" in end_of(server, script(tmp_path, "kill -SEGV $$")).message
    assert "ended before it answered" in end_of(server, script(tmp_path, "exit 0 # right away")).message
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\0" + (8).to_bytes(2, "little") + bytes(200))
    error = end_of(server, foreign)
    assert isinstance(error, UsageError)
    assert "cannot run this board's programs" in error.message
    assert "machine 8" in (error.why or "")


def test_an_agent_that_does_not_start_is_told(server: Server, tmp_path: Path) -> None:
    bad = script(tmp_path, "echo so sorry >&2; exit 9")
    with pytest.raises(LinkError, match="the connection is lost") as caught:
        open_transport(server.uri, script(tmp_path, "exec cat"), None, 20, lambda _: bad)
    assert "so sorry" in (caught.value.why or "")


def test_one_tool_at_a_time_by_ssh(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = (script(tmp_path, "exec cat"), None, 20, lambda _: server.agent)
    first = open_transport(server.uri, *request)
    monkeypatch.setattr(remote, "_CLIENT", os.urandom(16))
    with pytest.raises(BusyError) as caught:
        open_transport(server.uri, *request)
    assert f"process {os.getpid()}" in (caught.value.why or "")
    first.close()


def test_a_program_ends_with_its_tool(server: Server, tmp_path: Path) -> None:
    loop = script(tmp_path, "echo up; while :; do :; done")
    transport = open_transport(server.uri, loop, None, 20, lambda _: server.agent)
    assert transport.read(10) == b"up\n"
    programs = str(server.folder / "store" / "programs")
    assert running(programs)
    [program] = running(str(server.config))
    os.kill(program, signal.SIGKILL)
    until(lambda: not running(programs))
    until(lambda: not running(str(server.folder / "agents")))
    with pytest.raises(LinkError, match="the connection is lost"):
        transport.read(5)
    transport.close()
    assert not os.listdir(server.folder / "store" / "runs")


def test_who_is_not_let_in_is_told(
    server: Server, wire_agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = server.known_hosts.read_text()
    other = keygen(tmp_path / "other")
    server.known_hosts.write_text(known.split(" ")[0] + " " + other)  # somebody else's machine at this address
    error = end_of(server, wire_agent)
    assert isinstance(error, NoDeviceError)
    assert "cannot use ssh://pi" in error.message
    assert "Host key verification failed" in (error.why or "")
    server.known_hosts.write_text(known)
    server.config.write_text(server.config.read_text().replace(f"{tmp_path}/mine", f"{tmp_path}/other"))
    assert "Permission denied" in (end_of(server, wire_agent).why or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    error = end_of(server, wire_agent)
    assert isinstance(error, MissingToolError)
    assert "ssh is not installed" in error.message
    assert end_of(server, tmp_path / "nothing").exit_code in (3, 10)


@pytest.mark.parametrize(
    "rest", ["", "-oProxyCommand=x", "h:x", "a b", "h/path", "u:p@h", "h?what=1", "h?via=a;b", "h?via=-x",
             "h?cores=1;2", "h?cores=$(x)", "-l@h", "h#x", "h:0", "[::1", "%2dl", "h%20x"],
)  # fmt: skip
def test_addresses_that_are_none(rest: str) -> None:
    with pytest.raises(UsageError, match="is not a device address"):
        open_transport(f"ssh://{rest}", Path("x"), None, 1)


def test_a_machine_behind_another(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ProxyJump and a port of its own, as ~/.ssh/config says; a jump that is not there is told."""
    monkeypatch.setenv("PATH", server.path)
    before, pi = server.config.read_text(), server.config.read_text().partition("Host pi\n")[2]
    jumps = f"Host behind\n{pi}ProxyJump pi\nHost nowhere\n{pi}ProxyJump gone\nHost gone\nHostName 127.0.0.1\nPort 1\n"
    server.config.write_text(before + jumps)
    program = script(tmp_path, "exec cat")
    try:
        line = open_transport("ssh://behind", program, None, 20, lambda _: server.agent)
        line.write(b"there", 5)
        assert line.read(10) == b"there"
        line.close()
        with pytest.raises(NoDeviceError, match="cannot use ssh://nowhere") as caught:
            open_transport("ssh://nowhere", program, None, 20, lambda _: server.agent)
        assert "Connection refused" in (caught.value.why or "")
    finally:
        server.config.write_text(before)


@pytest.mark.parametrize(
    ("rest", "words"),
    [("pi", ["--", "pi"]), ("me@pi:2222", ["-l", "me", "-p", "2222", "--", "pi"]),
     ("[::1]:22", ["-p", "22", "--", "::1"]), ("me@[fe80::1%25eth0]", ["-l", "me", "--", "fe80::1%eth0"])],
)  # fmt: skip
def test_what_ssh_is_told(rest: str, words: list[str]) -> None:
    assert ssh._destination(f"ssh://{rest}", f"ssh://{rest}") == words


def test_what_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login that prints without end, says nothing, or says something else."""
    monkeypatch.setattr(pushed, "_GREETING_S", 0.5)
    monkeypatch.setattr(pushed, "_STEP_S", 0.5)
    monkeypatch.setattr(ssh, "_GRACE_S", 0.05)
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "ssh"
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    program = script(tmp_path, "exit 0")
    linux = "echo; echo crosslevel-2 machine Linux x86_64"
    for text, kind, words in [
        ("exec sleep 100", LinkError, "did not get ready"),
        ("exec yes", LinkError, "did not get ready"),
        ("echo; echo crosslevel-2 dance 1 x; exec sleep 100", LinkError, "answers something else"),
        ("echo; echo crosslevel-2 machine Darwin arm64; exec sleep 100", UsageError, "cannot run agents"),
        (f"{linux}; echo; echo crosslevel-2 send 99999999; exec sleep 100", LinkError, "answers something else"),
        (f"{linux}; echo; echo crosslevel-2 send x; exec sleep 100", LinkError, "answers something else"),
        (f"{linux}; echo; echo crosslevel-2 ready; echo more; exec sleep 100", LinkError, "something else|connection"),
        (f"{linux}; echo so sad >&2; exit 255", NoDeviceError, "cannot use ssh://h"),
    ]:
        fake.write_text(f"#!/bin/sh\n{text}\n")
        fake.chmod(0o755)
        with pytest.raises(kind, match=words):
            open_transport("ssh://h", program, None, 2, lambda _: program)
    with pytest.raises(UsageError, match="needs an agent"):
        open_transport("ssh://h", program, None, 2)


@pytest.mark.emulator
def test_a_raspberry_pi(
    server: Server,
    need_tool: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_tool("qemu-aarch64")
    where = (str(DIGITS), "--board", "aarch64-linux", "--device")
    [line] = documented("A Raspberry Pi")
    program, *words = shlex.split(line.replace("ssh://pi@raspberrypi", f"{server.uri}?via=qemu-aarch64"))
    assert program == "sdk"
    monkeypatch.chdir(DIGITS.parents[2])
    assert run_command([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["emulated"], report["runs"]) == (True, 10)
    verify = ["verify", *where, f"{server.uri}?via=qemu-aarch64", "--against", "interp", "--cases", "3"]
    assert run_command(verify) == 0
    capsys.readouterr()
    if os.uname().machine != "aarch64":
        monkeypatch.setattr("sdk.driver.session.agent_program", lambda _: server.agent)
        assert run_command(["bench", *where, server.uri]) == 2
        assert "cannot run this board's programs" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.emulator
@pytest.mark.parametrize(("board", "via"), [("armv7-linux", "qemu-arm"), ("riscv64-linux", "qemu-riscv64")])
def test_other_machines_by_ssh(
    board: str, via: str, server: Server, need_tool: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Agent and model for a processor that this machine emulates: as on a Raspberry Pi 2, or a VisionFive 2."""
    need_tool(via)
    where = (str(DIGITS), "--board", board, "--device", f"{server.uri}?via={via}")
    assert run_command(["verify", *where, "--against", "interp", "--cases", "3"]) == 0
    capsys.readouterr()
    assert run_command(["bench", *where, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["emulated"], report["board"], report["conditions"]) == (True, board, None)
