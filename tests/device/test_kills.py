"""Tools, agents, programs and emulators, killed at any moment: nothing is left, and who lives on says why it ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import device_agents as agents
import pytest
from device_agents import Agent
from serial_bridge import Bridge, emulated

from sdk.devices import open_device
from sdk.errors import DeviceFault, LinkError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BOARD = "qemu-cortex-m4"
MARK = "CROSSLEVEL_TEST_KILLS"
GONE_S = 30.0  # for what was started to end; an agent keeps a program for 5 s
# Over which device, and who of those is killed.
CASES = [("local", "tool"), ("local", "child"), ("unicorn", "tool"), ("unicorn", "child"), ("serial", "tool"),
         ("tcp", "tool"), ("tcp", "child"), ("tcp", "agent")]  # fmt: skip


class Place:
    """Processes with a mark, and a folder of theirs for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.env = {**os.environ, MARK: str(folder), "TMPDIR": str(self.temporary), "CROSSLEVEL_KEYS": str(folder),
                    "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, *words], stdout=pipe, stderr=pipe, text=True, env=self.env, cwd=ROOT)

    def alive(self) -> dict[int, str]:
        """The marked processes, and those whose program lies in the folder, by what they were started with."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                facts = (path / "environ").read_bytes() + bytes(str((path / "exe").readlink()), "utf-8")
                if str(self.folder).encode() in facts and int(path.name) != os.getpid():
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
            except OSError:
                continue
        return found

    def wait_until_gone(self, but: set[int]) -> None:
        until = time.monotonic() + GONE_S
        while (left := self.alive().keys() - but) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left, self.alive()


def up(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    text = ""
    while not text.endswith(("up\n", "}\n")) and (line := process.stdout.readline()):
        text += line
    return text


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for pid in place.alive():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kills", [1, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("device", "victim"), CASES)
def test_kills(
    device: str, victim: str, kills: int, place: Place, agent_for: Callable[[str], Agent], tmp_path: Path
) -> None:
    rng = random.Random(f"{device} {victim} {os.environ['CROSSLEVEL_SEED']}")
    built = agent_for("host" if device in ("local", "tcp") else agents.UNICORN + BOARD)
    for number in range(kills):
        with ExitStack() as stack:
            uri, server = {"local": "local:", "unicorn": "unicorn://"}.get(device, ""), None
            if device == "serial":
                assert built.emulator is not None
                bridge = Bridge(emulated(built.emulator, built.artifact))
                stack.callback(bridge.close)
                uri = bridge.uri
            elif device == "tcp":
                server = place.start("-m", "sdk", "agent", "--listen", "127.0.0.1:0", "--folder",
                                     str(tmp_path / f"store{number}"), "--json")  # fmt: skip
                uri = up(server).partition('"address": "')[2].partition('"')[0]
            others = {server.pid} if server is not None else set()
            tool = place.start(str(HERE / "kill_tool.py"), uri, str(built.artifact), BOARD)
            assert up(tool).endswith("up\n"), tool.communicate()[1]
            time.sleep(rng.uniform(0, 0.3))
            if victim == "tool":
                tool.kill()
            elif victim == "agent":
                assert server is not None
                server.kill()
            else:
                children = place.alive().keys() - others - {tool.pid}
                assert children
                os.kill(rng.choice(sorted(children)), signal.SIGKILL)
            _, words = tool.communicate(timeout=60)
            place.wait_until_gone(others - ({server.pid} if victim == "agent" and server else set()))
            if victim != "tool":
                assert tool.returncode in (LinkError.exit_code, DeviceFault.exit_code), words
                assert "Traceback" not in words
                assert "hint: " in words
            if device == "serial":  # the port is free at once
                open_device(uri, artifact=built.artifact, emulator=None, timeout_s=20).close()
            if server is not None:
                until = time.monotonic() + GONE_S
                while victim != "agent" and (left := os.listdir(tmp_path / f"store{number}" / "runs")):
                    assert time.monotonic() < until, left
                    time.sleep(0.05)
                server.kill()
                server.communicate()
            assert os.listdir(place.temporary) == []
