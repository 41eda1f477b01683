"""Tools, agents, programs and emulators, killed at any moment: nothing is left, and who lives on says why it ends."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import device_agents as agents
import pytest
from adb_desk import Desk, adb_desk
from agent_lab import build_twin
from device_agents import Agent, PushedAgent
from kill_place import GONE_S, HERE, Place, heard
from serial_bridge import Bridge, emulated
from ssh_lab import ssh_server

from sdk.devices import open_device
from sdk.errors import DeviceFault, LinkError

BOARD = "qemu-cortex-m4"
# Over which device, and who of those is killed.
CASES = [("local", "tool"), ("local", "child"), ("unicorn", "tool"), ("unicorn", "child"), ("serial", "tool"),
         ("qemu", "tool"), ("qemu", "child"), ("tcp", "tool"), ("tcp", "child"), ("tcp", "agent")]  # fmt: skip
# The same where an agent is sent, and at how many moments: in the long tests 50 by SSH and 51 by adb.
SLOW = pytest.mark.slow
PUSHED = [("ssh", "child", 1), ("adb", "server", 1),
          *[pytest.param("ssh", victim, 25, marks=SLOW) for victim in ("tool", "child")],
          *[pytest.param("adb", victim, 17, marks=SLOW) for victim in ("tool", "child", "server")]]  # fmt: skip


@pytest.mark.some(5)
@pytest.mark.parametrize("kills", [1, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("device", "victim"), CASES)
def test_kills(
    device: str, victim: str, kills: int, place: Place, agent_for: Callable[[str], Agent], tmp_path: Path
) -> None:
    rng = random.Random(f"{device} {victim} {os.environ['CROSSLEVEL_SEED']}")
    built = agent_for({"local": "host", "tcp": "host", "qemu": BOARD}.get(device, agents.UNICORN + BOARD))
    for number in range(kills):
        with ExitStack() as stack:
            uri, server = {"local": "local:", "unicorn": "unicorn://", "qemu": "qemu://"}.get(device, ""), None
            if device == "serial":
                assert built.emulator is not None
                bridge = Bridge(emulated(built.emulator, built.artifact))
                stack.callback(bridge.close)
                uri = bridge.uri
            elif device == "tcp":
                server = place.start("-m", "sdk", "agent", "--listen", "127.0.0.1:0", "--folder",
                                     str(tmp_path / f"store{number}"), "--json")  # fmt: skip
                uri = heard(server, "}\n").partition('"address": "')[2].partition('"')[0]
            others = {server.pid} if server is not None else set()
            tool = place.start(str(HERE / "kill_tool.py"), uri, str(built.artifact), BOARD)
            early = (device, victim) == ("qemu", "tool") and number % 2 == 1
            word = "begun\n" if early else "up\n"
            assert heard(tool, word).endswith(word), tool.communicate()[1]
            time.sleep(rng.uniform(0, 0.3))
            if victim == "tool":
                tool.kill()
            elif victim == "agent":
                assert server is not None
                server.kill()
            else:
                guards = {pid for pid, words in place.alive().items() if words.startswith("/bin/sh -c")}
                children = place.alive().keys() - others - guards - {tool.pid}
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


@pytest.mark.parametrize("device", ["local", "qemu"])
def test_a_run_that_never_ends_ends_with_a_tool_that_is_killed(
    device: str, place: Place, agent_for: Callable[[str], Agent]
) -> None:
    """Nobody reads the line then, so that its end is not noticed."""
    uri, kind = {"local": ("local:", "host"), "qemu": ("qemu://", BOARD)}[device]
    tool = place.start(str(HERE / "kill_tool.py"), uri, str(agent_for(kind).artifact), BOARD, "", "endless")
    assert heard(tool, "up\n").endswith("up\n"), tool.communicate()[1]
    time.sleep(0.3)
    tool.kill()
    tool.communicate(timeout=60)
    place.wait_until_gone(set())


def pushed_to(device: str, folder: Path, stack: ExitStack) -> tuple[Path, str, dict[str, str], Desk | None]:
    """A machine or a phone that agents are sent to: where they are kept, its address, what leads there."""
    twin = build_twin(folder / "twin")
    if device == "ssh":
        path = f"{os.environ['PATH']}:/usr/sbin"
        sshd, program = (shutil.which(name, path=path) for name in ("sshd", "ssh"))
        server = stack.enter_context(ssh_server(folder, str(sshd), str(program), twin))
        return server.folder, server.uri, {"PATH": server.path}, None
    (folder / "home").mkdir()
    desk = stack.enter_context(adb_desk(str(shutil.which("adb")), folder / "home", folder))
    phone, way = desk.plug(), {"ANDROID_ADB_SERVER_PORT": str(desk.port), "ADB_SERVER_SOCKET": ""}
    return folder / "phone0" / "crosslevel", f"adb://{phone.serial}", way, desk


def half_files(kept: Path) -> list[str]:
    """What an upload that broke off has left, and runs that are over."""
    parts = [*kept.glob("agents/*.part"), *kept.glob("store/programs/*.part"), *kept.glob("store/runs/*")]
    return [path.name for path in parts]


@pytest.mark.parametrize(("device", "victim", "kills"), PUSHED)
def test_kills_where_an_agent_is_sent(
    device: str, victim: str, kills: int, place: Place, agent_for: Callable[[str], Agent], tmp_path: Path
) -> None:
    """Also while it is being sent: the next tool goes on with what is there, and finds no lock."""
    rng = random.Random(f"{device} {victim} {os.environ['CROSSLEVEL_SEED']}")
    image, machine = agent_for("host").artifact, tmp_path / "machine"
    machine.mkdir()
    with ExitStack() as stack:
        kept, uri, way, desk = pushed_to(device, machine, stack)
        place.env.update(way)
        agent = PushedAgent(uri, image, None, machine / "twin", way)
        for number in range(kills):
            others = {desk.server.pid} if desk is not None else set()
            if rng.random() < 0.3:
                shutil.rmtree(kept, ignore_errors=True)  # it is sent anew
            tool = place.start(str(HERE / "kill_tool.py"), uri, str(image), BOARD, str(agent.sent))
            early = number % 3 == 2
            word = "begun\n" if early else "up\n"
            assert heard(tool, word).endswith(word), tool.communicate()[1]
            time.sleep(rng.uniform(0, 0.5 if early else 0.3))
            if victim == "tool":
                tool.kill()
            elif victim == "server":
                assert desk is not None
                desk.kill_server()
            else:
                children: list[int] = []
                until = time.monotonic() + GONE_S
                while not children and time.monotonic() < until:
                    children = sorted(place.alive().keys() - others - {tool.pid})
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(children), signal.SIGKILL)
            if victim == "child" and early:  # it may have been of no use to anybody any more
                tool.send_signal(signal.SIGINT)
            _, words = tool.communicate(timeout=60)
            place.wait_until_gone(others)
            if victim != "tool" and not early:
                assert tool.returncode in (LinkError.exit_code, DeviceFault.exit_code), words
                assert "hint: " in words
            assert "Traceback" not in words
            if victim == "server":
                assert desk is not None
                desk.restart()
            with agent.open(20) as session:
                assert session.ping(b"well") == b"well"
            place.wait_until_gone({desk.server.pid} if desk is not None else set())
            assert not half_files(kept)
            assert os.listdir(place.temporary) == []
