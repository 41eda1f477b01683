"""Hosts in network namespaces of their own, of which one loses its power: nothing says goodbye on its line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from farm_processes import ROOT, Process, certificates, copies

BOARD = "qemu-cortex-m4"
BOARDS, MODELS = 4, 16  # of each host; of the command
DESK = "10.77.0.1"


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Host:
    """A machine on the desk's network."""

    def __init__(self, desk: str, name: str, number: int) -> None:
        self.name, self.within = name, ["ip", "netns", "exec", name]
        ip("netns", "add", name)
        ip("-n", desk, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", desk, "link", "set", f"v{number}", "master", "br0", "up")
        ip("-n", name, "addr", "add", f"10.77.0.{number + 2}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            ip("-n", name, "link", "set", link, "up")

    def cut_power(self) -> None:
        """Its line is dead before anything of it can end."""
        ip("-n", self.name, "link", "set", "eth0", "down")
        for pid in ip("netns", "pids", self.name).split():
            os.kill(int(pid), 9)


@contextmanager
def network() -> Iterator[tuple[list[str], list[Host]]]:
    """What runs a command at the desk, and two hosts around it."""
    desk = f"crosslevel-{os.getpid()}-desk"
    names = [desk, *(f"crosslevel-{os.getpid()}-{number}" for number in range(2))]
    try:
        ip("netns", "add", desk)
        ip("-n", desk, "link", "add", "br0", "type", "bridge")
        ip("-n", desk, "addr", "add", f"{DESK}/24", "dev", "br0")
        for link in ("lo", "br0"):
            ip("-n", desk, "link", "set", link, "up")
        yield ["ip", "netns", "exec", desk], [Host(desk, name, number) for number, name in enumerate(names[1:])]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.mark.slow
def test_a_host_that_loses_its_power(
    start: Callable[..., Process], tmp_path: Path, need_tool: Callable[[str], str]
) -> None:
    """Eight emulated boards at two hosts over TLS; one host goes in mid-run, and every result comes once."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces are root's")
    need_tool("ip")
    tls = ["--tls", *map(str, certificates(tmp_path / "keys", need_tool("openssl")))]
    file, models = tmp_path / "results", copies(tmp_path, MODELS)

    def results() -> list[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line)["job"] for line in lines if line.startswith('{"job"')]

    with network() as (desk, hosts):
        start("scheduler", "--listen", DESK, *tls, within=desk).ready()
        workers = [start("worker", DESK, *tls, *["--board", BOARD] * BOARDS, within=host.within) for host in hosts]
        for worker in workers:
            worker.ready()
        words = ["bench", *map(str, models), "--farm", DESK, *tls, "--board", BOARD, "--repeat", "300", "--json"]
        command = [*desk, sys.executable, "-m", "sdk", *words, "--resume", str(file)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
            until = time.monotonic() + 300
            while len(results()) < 2:
                assert tool.poll() is None, tool.communicate()
                assert time.monotonic() < until
                time.sleep(0.02)
            hosts[1].cut_power()
            done_before = len(results())
            out, errors = tool.communicate(timeout=400)
        assert tool.returncode == 0, errors
        told = json.loads(out)
        assert done_before < MODELS
        assert [one["model"] for one in told["results"]] == [path.name for path in models]
        assert len({one["instructions"] for one in told["results"]}) == 1
        assert len(results()) == len(set(results())) == MODELS
        assert workers[0].end() == 130
