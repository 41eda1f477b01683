"""What agents tell of a machine whose clocks and temperatures are files of the test: while a program runs, over SSH and
adb, and what the commands make of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from adb_desk import adb_desk
from agent_lab import Lab, build_twin
from ssh_lab import ssh_server

from sdk.agent import facts as python_facts
from sdk.agent.facts import machine_facts
from sdk.boards import load_board
from sdk.cli import run_command
from sdk.devices import Session, open_device
from sdk.devices.machine import Core, MachineFacts
from sdk.devices.remote import RemoteProgram
from sdk.driver.agents import link_agent
from sdk.driver.execute import resolve
from sdk.driver.options import BuildOptions

DIGITS = Path(__file__).resolve().parent.parent.parent / "examples" / "digits" / "digits_int8.tflite"


def write_tree(root: Path, mhz: int, cap_mhz: int, degrees: float, governor: str = "schedutil") -> None:
    """What Linux has below /sys of a machine with two clusters, as far as agents read it. A core that is off has no
    clock, a sensor may fail, two may have one name."""
    for number in range(64):
        folder = root / "devices" / "system" / "cpu" / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True, exist_ok=True)
        maximum = 2400 if number % 2 else 1800
        files = {"cpuinfo_max_freq": maximum * 1000, "scaling_max_freq": min(cap_mhz, maximum) * 1000,
                 "scaling_cur_freq": min(mhz, maximum) * 1000, "scaling_governor": governor}  # fmt: skip
        for name, value in files.items():
            (folder / name).write_text(f"{value}\n")
    for number, (kind, value) in enumerate(
        [("cpu-thermal", f"{degrees * 1000:.0f}"), ("gpu\"x", "41000"), ("cpu-thermal", "-5000"), ("bad", "none")]
    ):
        zone = root / "class" / "thermal" / f"thermal_zone{number}"
        zone.mkdir(parents=True, exist_ok=True)
        (zone / "type").write_text(f"{kind}\n")
        (zone / "temp").write_text(f"{value}\n")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "sys"
    write_tree(root, 2400, 2400, 50.5)
    monkeypatch.setattr(python_facts, "_CPUS", root / "devices" / "system" / "cpu")
    monkeypatch.setattr(python_facts, "_ZONES", root / "class" / "thermal")
    return root


def test_a_phone_and_a_machine_by_ssh_that_throttle(
    tree: Path, tmp_path: Path, need_tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Both agents read the same, also where files are missing; bench and profile tell what changed meanwhile."""
    monkeypatch.setenv("PATH", f"/usr/sbin:{os.environ['PATH']}")
    twin = build_twin(tmp_path / "twin", f'SYS="{tree}"')
    monkeypatch.setattr("sdk.driver.session.agent_program", lambda _: twin)
    monkeypatch.delenv("ADB_SERVER_SOCKET", raising=False)
    (tmp_path / "home").mkdir()
    plain = Session.machine
    asked: list[MachineFacts | None] = []

    def machine(session: Session) -> MachineFacts | None:
        asked.append(plain(session))
        write_tree(tree, 1200, 1500, 84.25)  # after the first look
        return asked[-1]

    monkeypatch.setattr(Session, "machine", machine)
    where = (str(DIGITS), "--board", "host", "--device")
    with (
        adb_desk(need_tool("adb"), tmp_path / "home", tmp_path) as desk,
        ssh_server(tmp_path, need_tool("sshd"), need_tool("ssh"), twin) as server,
    ):
        monkeypatch.setenv("PATH", server.path)
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(desk.port))
        for device in (server.uri, f"adb://{desk.plug().serial}"):
            for command in ("bench", "profile"):
                write_tree(tree, 2400, 2400, 50.5)
                asked.clear()
                assert run_command([command, *where, device, "--json"]) == 0
                told = json.loads(capsys.readouterr().out)
                found = told["conditions"]
                assert (found["mhz"], found["max_mhz"], found["cap_mhz"]) == ([2400, 1200], 2400, [2400, 1500])
                assert (found["temperature_c"], found["governors"]) == ([50.5, 84.25], ["schedutil"])
                notes = " ".join(told["notes"])
                assert "the clock fell from 2400 to 1200 MHz (it throttles: 50 to 84 degrees)" in notes
                assert "the system holds the clock at 1500 of 2400 MHz" in notes
                assert "the governor is schedutil" in notes
                own = machine_facts()
                assert asked[1] is not None
                assert (asked[1].cores, asked[1].temperatures_c) == (own.cores, own.temperatures_c)
                assert own.temperatures_c == {"cpu-thermal": 84.25, 'gpu"x': 41.0, "cpu-thermal 2": -5.0}
                assert own.cores[0] == Core(0, 1200.0, 1800.0, "schedutil", 1500.0)


@pytest.mark.parametrize("lab", ["keyed"], indirect=True)
def test_what_a_program_says_meanwhile_is_kept(lab: Lab) -> None:
    """Facts that are asked for while a program writes as fast as it can: both come whole."""
    program = lab.open(lab.script("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i + 1)); done; exec cat"))
    assert isinstance(program, RemoteProgram)
    data = b""
    while data.count(b"\n") < 20000:
        facts = program.facts(10)
        assert facts is not None
        assert facts.memory_bytes
        data += program.read(5)
    assert data == b"".join(b"%d\n" % number for number in range(20000))
    program.write(b"more", 5)
    assert program.read(5) == b"more"
    program.close()
    lab.serves()


def test_the_facts_of_a_session_by_tcp(lab: Lab, tmp_path: Path) -> None:
    built, place = resolve(DIGITS, load_board("host"), BuildOptions())
    agent = link_agent(built.sources, place, BuildOptions(), device=lab.uri)
    with open_device(lab.uri, artifact=agent, emulator=None, timeout_s=10) as session:
        facts = session.machine()
        assert facts is not None
        assert (facts.cpu, facts.used_by) == (machine_facts().cpu, facts.used_by)
        assert facts.used_by
