"""What the tool and the agent refuse, in words that say what to do."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from agent_lab import Lab, TwinServer, read_all

from sdk.agent import Limits, Server
from sdk.agent.store import Store
from sdk.cli import run_command
from sdk.devices.channel import Ended, Kind
from sdk.devices.remote import RemoteProgram
from sdk.devices.transports.tcp import parse_address
from sdk.errors import LinkError, NoDeviceError, UsageError


def ended(program: RemoteProgram) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        program.read(0.5)


@pytest.mark.parametrize("twin", ["python"], indirect=True)
@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"short", LinkError, "the agent says wrongly how the program ended"),
        (struct.pack("<BiQQ", Ended.NOT_STARTED, 13, 0, 0), NoDeviceError, "cannot be started"),
        (struct.pack("<BiQQ", Ended.STOPPED, 0, 0, 0), LinkError, "was ended by the agent"),
        (struct.pack("<BiQQ", 77, -1, 0, 0), LinkError, "was ended by the agent"),
        (struct.pack("<BiQQ", Ended.SIGNAL, 4, 0, 0), Exception, "was killed by SIGILL"),
        (struct.pack("<BiQQ", Ended.SIGNAL, 777, 0, 0), Exception, "was killed by signal 777"),
    ],
)
def test_any_end_is_told(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, body: bytes, kind: type[Exception], words: str
) -> None:
    monkeypatch.setattr("sdk.agent.run.Outcome.body", lambda *_: body)
    program = lab.open(lab.script("exit 0"))
    with pytest.raises(kind, match=words):
        ended(program)
    program.close()


def test_an_agent_that_is_gone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    program = lab.open(lab.script("exec cat"))
    program.write(b"ping", 5)
    assert read_all(program, 4) == b"ping"
    lab.server.close()
    monkeypatch.setattr("sdk.devices.remote._LOST_S", 0.3)
    with pytest.raises(LinkError, match=r"was ended by the agent|the connection is lost"):
        ended(program)
    program.close()
    with pytest.raises(NoDeviceError, match="no agent answers at") as caught:
        lab.open(lab.script("exec cat"))
    assert "sdk agent" in caught.value.hint


@pytest.mark.parametrize("twin", ["python"], indirect=True)
def test_no_room(lab: Lab) -> None:
    lab.server.store.quota = 1000
    with pytest.raises(NoDeviceError, match="has no room") as caught:
        lab.open(lab.script("#" * 2000))
    assert "--quota" in caught.value.hint
    for number in range(6):  # the oldest make room
        program = lab.open(lab.script(f"exec cat # {'x' * 300} {number}"))
        program.close()
    assert 1 <= len(os.listdir(lab.server.store.root / "programs")) <= 3


DISK = """#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/stat.h>
#include <unistd.h>

/* A disk of 1500 bytes, of which the files of the folder take some. */
int fstatvfs(int fd, struct statvfs *disk)
{
    unsigned long held = 0;
    DIR *folder = fdopendir(openat(fd, ".", O_RDONLY));
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat found;
        held += fstatat(fd, entry->d_name, &found, 0) == 0 && S_ISREG(found.st_mode) ? found.st_size : 0;
    }
    closedir(folder);
    disk->f_frsize = 1;
    disk->f_bavail = held < 1500 ? 1500 - held : 0;
    return 0;
}
"""


def test_a_full_disk(twin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twin_agent: Path) -> None:
    """What was used longest ago makes room, begun uploads too; what can never fit leaves nothing behind."""
    if twin == "python":

        def small(store: Store) -> int:
            names = os.listdir(store.fd)
            return 1500 - sum(os.stat(name, dir_fd=store.fd).st_size for name in names)

        monkeypatch.setattr(Store, "_free", small)
        python = Server("127.0.0.1", 0, tmp_path / "store")
        threading.Thread(target=python.serve).start()
        lab = Lab(python, tmp_path)
    else:
        (tmp_path / "disk.c").write_text(DISK)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "disk.so", tmp_path / "disk.c"], check=True)
        with monkeypatch.context() as preloaded:
            preloaded.setenv("LD_PRELOAD", str(tmp_path / "disk.so"))
            lab = Lab(TwinServer(twin_agent, tmp_path, None, ()), tmp_path)
    try:
        kept = lab.server.store.root / "programs"
        (kept / f"{'0' * 64}.part").write_bytes(bytes(1400))
        with pytest.raises(NoDeviceError, match="has no room") as caught:
            lab.open(lab.script("#" * 2000))
        assert "its disk has " in (caught.value.why or "")
        for number in range(6):
            lab.open(lab.script(f"exec cat # {'x' * 300} {number}")).close()
        assert 1 <= len(os.listdir(kept)) <= 4
    finally:
        lab.server.close()


def test_places_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the agent's folder"):
        Server("127.0.0.1", 0, tmp_path / "file" / "inside")
    server = Server("127.0.0.1", 0, tmp_path / "store", limits=Limits())
    with pytest.raises(UsageError, match="cannot listen at"):
        Server("127.0.0.1", server.address[1], tmp_path / "store")
    server.close()


@pytest.mark.parametrize(
    "uri", ["tcp://", "tcp://:5", "tcp://h:99999", "tcp://h:x", "tcp://h/path", "tcp://u@h", "tcp://h?what=1",
            "tcp://h?cores=x", "tcp://h?cores=3-1", "tcp://h?cores", "tcp://[::1"],
)  # fmt: skip
def test_addresses_that_are_none(uri: str) -> None:
    with pytest.raises(UsageError, match="is not a device address") as caught:
        parse_address(uri)
    assert "tcp://HOST" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--listen 0.0.0.0", "there is no key for the agent"),
        ("--listen :80", "is no address"),
        ("--listen h:x", "is no address"),
        ("--listen 127.0.0.1:99999", "is no address"),
        ("--quota much", "not a size"),
        ("--trust 12345", "that is no code"),
    ],
)
def test_the_command_refuses(capsys: pytest.CaptureFixture[str], line: str, words: str) -> None:
    assert run_command(["agent", *line.split()]) == 2
    assert words in capsys.readouterr().err


def test_other_systems(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sdk.cli.agent"], "NAME", "nt")
    assert run_command(["agent"]) == 2
    assert "agents need Linux or another Unix" in capsys.readouterr().err


def test_a_tool_that_takes_nothing_does_not_stop_the_agent(lab: Lab) -> None:
    program = lab.open(lab.script("exec cat /dev/zero"))
    time.sleep(0.5)  # it writes more than anyone keeps
    thread = threading.Thread(target=program.close)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    lab.serves()


def test_requests_while_a_program_runs_end_the_connection(lab: Lab) -> None:
    program = lab.open(lab.script("exec cat"))
    assert program._channel is not None
    program._channel.send(Kind.PUT, bytes(40))
    program.write(b"ping", 5)
    assert read_all(program, 3).startswith(b"\0\1\0")  # lost, and made anew
    program.close()
    lab.serves()
