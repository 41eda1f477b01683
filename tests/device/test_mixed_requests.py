"""Every transport answers ten thousand mixed requests rightly; some hundreds of them in each run of the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import device_agents as agents
import pytest
from device_agents import Agent
from mixed_requests import mixed
from serial_bridge import Bridge, emulated

from sdk.devices import open_device

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "agent"))
from agent_proxy import Proxy

REQUESTS, MANY = 150, 10_000
SEED = int(os.environ["CROSSLEVEL_SEED"])
KINDS = ("host", "tcp", "ssh", "adb", "unicorn:qemu-cortex-m4", "unicorn:qemu-riscv32", "qemu-cortex-m3", "wasm32")
AMOUNTS = [REQUESTS, pytest.param(MANY, marks=pytest.mark.slow)]


@pytest.mark.emulator
@pytest.mark.parametrize("requests", AMOUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_transports(kind: str, requests: int, agent_for: Callable[[str], Agent], need_tool) -> None:
    if kind == "qemu-cortex-m3":
        need_tool("qemu-system-arm")
    with agent_for(kind).open() as session:
        assert mixed(session, requests, SEED) >= requests


@pytest.mark.parametrize("requests", AMOUNTS)
def test_an_agent_over_a_line_that_spoils_what_it_carries(requests: int, agent_for: Callable[[str], Agent]) -> None:
    agent = agent_for("tcp")
    proxy = Proxy(int(agent.uri.rpartition(":")[2]), every=15_000, seed=SEED)
    try:
        uri = f"tcp://127.0.0.1:{proxy.port}"
        with open_device(uri, artifact=agent.artifact, emulator=None, timeout_s=20) as session:
            assert mixed(session, requests, SEED) >= requests
        assert requests < MANY or len(proxy.faults) == 5, proxy.faults
    finally:
        proxy.close()


@pytest.mark.parametrize(("rate", "query"), [(0.0, ""), (1e-4, ""), (1e-5, "?baud=460800")])
@pytest.mark.parametrize("requests", AMOUNTS)
def test_serial_ports(requests: int, rate: float, query: str, agent_for: Callable[[str], Agent]) -> None:
    agent = agent_for(agents.UNICORN + "qemu-cortex-m4")
    assert agent.emulator is not None
    bridge = Bridge(emulated(agent.emulator, agent.artifact), rate=rate, seed=SEED, rated=bool(query))
    try:
        with open_device(bridge.uri + query, artifact=agent.artifact, emulator=None, timeout_s=20) as session:
            assert mixed(session, requests, SEED) >= requests
        assert requests < MANY or rate == 0 or bridge.faults > 1
    finally:
        bridge.close()
