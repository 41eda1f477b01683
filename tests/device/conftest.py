"""One agent per transport, built once per test process; sessions with them."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import device_agents as agents
import pytest
from device_agents import Agent, PushedAgent
from serial_bridge import Bridge, PortAgent, emulated

from sdk.agent import Server
from sdk.boards import load_board
from sdk.devices import Session
from sdk.driver.machines import emulator_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "agent"))  # servers that agents are sent to
from adb_desk import adb_desk
from agent_lab import build_twin
from kill_place import Place
from ssh_lab import ssh_server


def tool(program: str) -> str:
    """Where a program is; daemons are not on everybody's path."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found is not None, f"{program} is not installed; `make test` installs it or says how"
    return found


@pytest.fixture(scope="session")
def agent_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Agent]]:
    """A function from "host", "tcp", "ssh", "adb", "serial" or an emulated board's name to its agent; each is built
    once."""
    built: dict[str, Agent] = {}
    servers: list[Server] = []
    bridges: list[Bridge] = []
    stack = ExitStack()

    def get(name: str) -> Agent:
        if name not in built:
            folder = tmp_path_factory.mktemp(name)
            if name == "host":
                built[name] = Agent("local:", agents.host_agent(folder / "agent"), None)
            elif name.startswith(agents.UNICORN):
                board = load_board(name.removeprefix(agents.UNICORN))
                image = agents.firmware(board, folder / "agent.elf")
                built[name] = Agent("unicorn://", image, emulator_of(board, image))
            elif name == "tcp":
                servers.append(Server("127.0.0.1", 0, folder / "store"))
                threading.Thread(target=servers[-1].serve, daemon=True).start()
                built[name] = Agent(f"tcp://127.0.0.1:{servers[-1].address[1]}", get("host").artifact, None)
            elif name == "ssh":
                twin = build_twin(folder / "twin")
                place = stack.enter_context(ssh_server(folder, tool("sshd"), tool("ssh"), twin))
                built[name] = PushedAgent(place.uri, get("host").artifact, None, twin, {"PATH": place.path})
            elif name == "adb":
                twin, home = build_twin(folder / "twin"), folder / "home"
                home.mkdir()
                desk = stack.enter_context(adb_desk(tool("adb"), home, folder))
                way = {"ANDROID_ADB_SERVER_PORT": str(desk.port), "ADB_SERVER_SOCKET": ""}
                uri = f"adb://{desk.plug().serial}"
                built[name] = PushedAgent(uri, get("host").artifact, None, twin, way)
            elif name == "serial":
                board = get(agents.UNICORN + "qemu-cortex-m4")
                assert board.emulator is not None
                bridges.append(Bridge(emulated(board.emulator, board.artifact)))
                built[name] = PortAgent(bridges[-1].uri, board.artifact, None, bridges[-1])
            elif name in agents.PROGRAMS:
                built[name] = agents.program(load_board(name), folder / "agent")
            else:
                board = load_board(name).as_emulated()
                image = agents.firmware(board, folder / "agent.elf")
                built[name] = Agent("qemu://", image, agents.emulator_of(board))
        return built[name]

    with stack:
        yield get
    for end in (*servers, *bridges):
        end.close()


@pytest.fixture
def local(agent_for: Callable[[str], Agent]) -> Agent:
    return agent_for("host")


EMULATED = [pytest.param(name, marks=pytest.mark.emulator) for name in (*agents.EMULATED, *agents.PROGRAMS)]


PUSHED = [pytest.param(name, marks=pytest.mark.slow) for name in ("ssh", "adb")]


@pytest.fixture(params=["host", "tcp", *PUSHED, "serial", *agents.UNDER_UNICORN, *EMULATED])
def agent(request: pytest.FixtureRequest, agent_for: Callable[[str], Agent], need_tool) -> Agent:
    """Of each transport and board."""
    if request.param not in ("host", "tcp", "ssh", "adb", "serial", *agents.UNDER_UNICORN):
        emulator = load_board(request.param).emulator
        assert emulator is not None
        need_tool(emulator.program)
    return agent_for(request.param)


@pytest.fixture
def session(agent: Agent) -> Iterator[Session]:
    with agent.open() as session:
        yield session


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.kill_all()
