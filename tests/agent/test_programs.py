"""Programs that mean ill, or are ill: each ends alone, with a report, and the agent goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from agent_lab import Lab, end_of, read_all, running, until

from sdk.agent import Server
from sdk.devices import remote
from sdk.devices.remote import ask_facts
from sdk.devices.transports.tcp import parse_address
from sdk.errors import BusyError, DeviceFault, LinkError, NoDeviceError, UsageError

PYTHON = sys.executable
MARK = "CROSSLEVEL-TEST"


def test_how_programs_end_is_told(lab: Lab) -> None:
    for text, kind, words in [
        ("echo so long >&2; exit 3", DeviceFault, "ended with status 3"),
        ("kill -SEGV $$", DeviceFault, "was killed by SIGSEGV"),
        ("exit 0", LinkError, "ended before it answered"),
        ("exec dd if=/dev/zero of=big bs=1M count=64", DeviceFault, "wrote more to the disk"),
        ("i=0; while :; do i=$((i+1)); head -c 2000000 /dev/zero >f$i; done", DeviceFault, "to the disk"),
    ]:
        error = end_of(lab.open(lab.script(text)))
        assert isinstance(error, kind), text
        assert any(word in error.message for word in words.split("|")), (text, error.message)
    assert "so long" in str(end_of(lab.open(lab.script("echo so long >&2; exit 3"))))
    error = end_of(lab.open(lab.script("held = []\nwhile 1: held.append(bytearray(b'x' * (8 << 20)))", PYTHON)))
    assert "more memory than the agent allows" in error.message
    lab.serves()


def test_what_is_no_program_is_refused(lab: Lab, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\0" + (8).to_bytes(2, "little") + bytes(200))
    with pytest.raises(UsageError, match="cannot run this board's programs") as caught:
        lab.open(foreign)
    assert "machine 8" in caught.value.why
    (tmp_path / "words").write_bytes(b"hello")
    with pytest.raises(UsageError, match="cannot run"):
        lab.open(tmp_path / "words")
    assert isinstance(end_of(lab.open(lab.script("x", "/no/such/interpreter"))), NoDeviceError)
    with pytest.raises(NoDeviceError, match="no program to send"):
        lab.open(tmp_path / "nothing")
    lab.serves()


def test_what_programs_leave_behind_ends_with_them(lab: Lab) -> None:
    forks = f"for i in 1 2 3 4 5 6 7 8; do (setsid setsid sleep 1000.{os.getpid()} &) ; done; echo up; wait; sleep 1000"
    program = lab.open(lab.script(forks))
    assert read_all(program, 3) == b"up\n"
    until(lambda: len(running(f"1000.{os.getpid()}")) == 8)
    program.close()
    until(lambda: not running(f"1000.{os.getpid()}"))
    bomb = "import os\nn = 0\nwhile n < 300:\n n += 1\n if os.fork() == 0: os.setsid()\n else: os._exit(0)\n"
    bomb += "import time; time.sleep(1000)"
    program = lab.open(lab.script(f"{bomb}  # {MARK}", PYTHON))
    end_of(program)  # the first one exits at once, the last of its descendants is three hundred deep
    until(lambda: not running(str(lab.folder)))
    lab.serves()


def test_a_program_ends_with_its_tool_and_with_the_agent(lab: Lab) -> None:
    loop = lab.script(f"while :; do :; done # {MARK}")
    program = lab.open(loop)
    number = next(iter(lab.server.runs))
    program._channel.close()  # type: ignore[union-attr]  # the tool was killed
    if isinstance(lab.server, Server):  # the other one waits for 5 s
        until(lambda: lab.server.runs[number].lost_at is not None)
        lab.server.runs[number].lost_at = 0.0  # long ago
    until(lambda: not lab.server.runs and not running(str(lab.folder / "store" / "programs")), 30)
    left = lab.open(loop)
    lab.server.close()
    until(lambda: not running(str(lab.folder / "store" / "programs")))
    assert not os.listdir(lab.server.store.root / "runs")
    left.close()


def test_one_tool_at_a_time(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    program = lab.open(lab.script("exec cat"))
    second = lab.open(lab.script("exec cat"))  # the same tool may run two, to compare them
    with monkeypatch.context() as patch:
        patch.setattr(remote, "_CLIENT", os.urandom(16))
        with pytest.raises(BusyError) as caught:
            lab.open(lab.script("exec cat"))
        assert f"process {os.getpid()}" in caught.value.why
        assert caught.value.exit_code == 4
        assert f"process {os.getpid()}" in (ask_facts(parse_address(lab.uri), 5).used_by or "")
    program.close()
    second.close()
    until(lambda: lab.server.holder() is None)
    monkeypatch.setattr(remote, "_CLIENT", os.urandom(16))
    lab.serves()


def test_a_program_sees_little_and_runs_where_it_is_told(lab: Lab) -> None:
    core = min(os.sched_getaffinity(0))
    text = "pwd; env | sort | cut -d= -f1 | tr '\\n' ' '; grep Cpus_allowed_list /proc/self/status"
    text += "; ls -l /proc/self/fd | wc -l"
    program = lab.open(lab.script(f"({text}); echo END; sleep 100"), f"{lab.uri}?cores={core}")
    data = b""
    while not data.endswith(b"END\n"):
        data += program.read(5)
    program.close()
    folder, *rest, files, _ = data.decode().splitlines()
    assert Path(folder).parent == lab.server.store.root / "runs"
    words = " ".join(rest).split()
    assert words[-2:] == ["Cpus_allowed_list:", str(core)]
    assert set(words[:-2]) <= {"HOME", "LANG", "PATH", "PWD", "OLDPWD", "TMPDIR", "SHLVL", "_"}
    assert int(files) <= 6  # three, the folder itself, and a line of text
    if (os.cpu_count() or 1) < 64:
        error = end_of(lab.open(lab.script("exec cat"), f"{lab.uri}?cores=63"))
        assert isinstance(error, NoDeviceError)
        assert "?cores=0" in (error.hint or "")
    with pytest.raises(UsageError):
        parse_address("tcp://127.0.0.1?cores=99")
