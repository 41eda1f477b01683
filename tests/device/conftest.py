"""One agent per transport, built once per test process; sessions with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import device_agents as agents
import pytest
from device_agents import Agent
from serial_bridge import Bridge, PortAgent, emulated

from sdk.agent import Server
from sdk.boards import load_board
from sdk.devices import Session
from sdk.driver.machines import emulator_of


@pytest.fixture(scope="session")
def agent_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Agent]]:
    """A function from "host", "tcp", "serial" or an emulated board's name to its agent; each is built once."""
    built: dict[str, Agent] = {}
    servers: list[Server] = []
    bridges: list[Bridge] = []

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

    yield get
    for end in (*servers, *bridges):
        end.close()


@pytest.fixture
def local(agent_for: Callable[[str], Agent]) -> Agent:
    return agent_for("host")


EMULATED = [pytest.param(name, marks=pytest.mark.emulator) for name in (*agents.EMULATED, *agents.PROGRAMS)]


@pytest.fixture(params=["host", "tcp", "serial", *agents.UNDER_UNICORN, *EMULATED])
def agent(request: pytest.FixtureRequest, agent_for: Callable[[str], Agent], need_tool) -> Agent:
    if request.param not in ("host", "tcp", "serial", *agents.UNDER_UNICORN):
        emulator = load_board(request.param).emulator
        assert emulator is not None
        need_tool(emulator.program)
    return agent_for(request.param)


@pytest.fixture
def session(agent: Agent) -> Iterator[Session]:
    with agent.open() as session:
        yield session
