"""Boards under Unicorn: what they count, and that a firmware's mistakes end with what, why and what next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from device_agents import Agent, firmware
from msgspec import structs

from sdk.boards import load_board
from sdk.devices import open_device
from sdk.devices.emulated.cores import CORES
from sdk.devices.emulated.flashes import FLASHES
from sdk.devices.emulated.parts import TIMERS, UARTS
from sdk.devices.emulated.spec import CAN_EMULATE, KINDS, MachineSpec, Part, Span
from sdk.devices.emulated.watchdogs import WATCHDOGS
from sdk.devices.transports import unicorn as transport
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.driver.counting import counted
from sdk.driver.execute import verify
from sdk.driver.machines import emulator_of, engine_of, placed
from sdk.driver.measuring import bench
from sdk.driver.options import BuildOptions
from sdk.driver.session import open_session
from sdk.errors import DeviceFault, MissingToolError, NoDeviceError, SdkError, UsageError
from sdk.toolchains.elf import ElfFile

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits_int8.tflite"
BIG, LONG_LOOP = 1, 15  # of fake_models.c
MODELS = {"uart": UARTS, "timer": TIMERS, "watchdog": WATCHDOGS, "external": FLASHES}
AGENTS = "unicorn:qemu-cortex-m4"


@pytest.fixture
def agent(agent_for: Callable[[str], Agent]) -> Agent:
    return agent_for(AGENTS)


def changed(agent: Agent, **fields: object) -> Agent:
    """The agent on a machine that differs in some fields."""
    assert agent.emulator is not None
    assert agent.emulator.machine is not None
    return replace(agent, emulator=replace(agent.emulator, machine=structs.replace(agent.emulator.machine, **fields)))


def opened(agent: Agent) -> SdkError:
    """The error with which opening the agent ends."""
    with pytest.raises(SdkError) as caught:
        agent.open(60.0)
    return caught.value


OTHER_CORES = ("microbit", "qemu-cortex-m3", "qemu-cortex-m7", "qemu-cortex-m33")


@pytest.mark.emulator
@pytest.mark.parametrize(
    "name",
    ["qemu-cortex-m4", "qemu-riscv32", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHER_CORES)],
)
def test_qemu_and_unicorn_count_alike(name: str, need_tool) -> None:
    """The clock, counted between two reads of the timer, and the counts of blocks; each against QEMU's own."""
    board = load_board(name)
    assert board.emulator is not None
    need_tool(board.emulator.program)
    found = {
        uri: bench(DIGITS, board, uri, BuildOptions(), {}, 2, 1) for uri in ("unicorn://", "qemu://")
    }
    ours, theirs = found["unicorn://"], found["qemu://"]
    assert ours.instructions is not None
    assert theirs.instructions is not None
    assert abs(ours.instructions / theirs.instructions - 1) < 0.001
    assert ours.est_cycles == pytest.approx(theirs.est_cycles, rel=0.001)
    assert ours.samples[0] == pytest.approx(theirs.samples[0], rel=0.001)
    assert ours.samples[0] == pytest.approx(ours.instructions, rel=0.001)


def test_a_real_board_runs_its_own_image() -> None:
    """What would be flashed: the chip's addresses, clocks and pins set, its UART and cycle counter."""
    board, options = load_board("nucleo_l4r5zi"), BuildOptions()
    agent = link_agent(build_sources(DIGITS, board, options).sources, board, options)
    (vectors,) = (s for s in ElfFile(agent).sections if s.name == ".vectors")
    assert vectors.address == 0x0800_0000
    assert verify(DIGITS, board, None, options, "interp", 3).exact_cases == 3
    spec = emulator_of(board, agent)
    assert spec is not None
    assert spec.machine is not None
    deaf = changed(Agent("unicorn://", agent, spec), blocks=tuple(b for b in spec.machine.blocks if b.name != "FLASH"))
    assert "0x40022000" in opened(deaf).message  # a register that the file does not have is none
    other = link_agent(build_sources(DIGITS, board, options).sources, board, options, device="qemu://")
    assert "does not fit the board's memory" in opened(Agent("unicorn://", other, spec)).message


def test_systick_interrupts(agent: Agent, tmp_path: Path) -> None:
    """Each 2**24 instructions: exceptions are entered and left, and the count goes on."""
    board = load_board("qemu-cortex-m4")
    assert board.runtime.timer is not None
    runtime = structs.replace(board.runtime, timer=structs.replace(board.runtime.timer, kind="systick"))
    board = replace(board, runtime=runtime)
    image = firmware(board, tmp_path / "agent.elf")
    samples = []
    for one in (agent, Agent("unicorn://", image, emulator_of(board, image))):
        with one.open(60.0) as session:
            samples.append(session.run(BIG, dims=[LONG_LOOP]).samples[0])
    cmsdk, systick = samples
    assert cmsdk > 1 << 24
    assert 0 <= systick - cmsdk < 100


def test_a_run_is_counted_to_the_instruction(agent: Agent) -> None:
    with agent.open() as session:
        assert session.info.counter == "instructions"
        first, again = (session.run(BIG, dims=[5]).samples[0] for _ in range(2))
        longer = session.run(BIG, dims=[6]).samples[0]
    assert first == again
    assert 0 < longer - first < 100


@pytest.mark.parametrize("name", [AGENTS, "unicorn:qemu-riscv32"])
def test_what_comes_during_runs_costs_no_time(agent_for: Callable[[str], Agent], name: str) -> None:
    """The device hears out a host that repeats itself between two runs: guest time passes while it waits."""
    with agent_for(name).open(60.0) as session:
        alone = session.run(BIG, dims=[5], repeat=3).samples
        session._link.first_wait_s = 0.001
        began = time.monotonic()
        samples = session.run(BIG, dims=[LONG_LOOP], repeat=4).samples
        assert time.monotonic() - began < 45
        assert len(set(samples)) == 1
        assert session.run(BIG, dims=[5], repeat=3).samples == alone


def test_what_is_modelled_is_what_is_offered() -> None:
    """Those who choose an emulator do not load it."""
    assert set(CORES) - {"aarch64"} == CAN_EMULATE
    of_cores = {"timer systick", "timer dwt", "timer mcycle", "timer esp"}
    modelled = {f"{role} {kind}" for role, kinds in MODELS.items() for kind in kinds}
    assert modelled | of_cores == KINDS


def test_where_boards_are_emulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    m4, m55, host = (load_board(name) for name in ("qemu-cortex-m4", "qemu-cortex-m55", "host"))
    assert (engine_of(m4), engine_of(m55), engine_of(host)) == ("unicorn", "qemu", None)
    assert placed(m4, None) is m4
    assert placed(m4, "qemu://").memory == m4.as_emulated().memory
    monkeypatch.setattr("sdk.driver.machines.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/emulator")
    assert engine_of(m4) == "qemu"
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert engine_of(m4) == "unicorn"  # which is then what is said to be missing
    with pytest.raises(UsageError, match="cannot run under Unicorn") as caught:
        open_session("unicorn://", m55, tmp_path)
    assert "--device qemu://" in (caught.value.hint or "")


def test_without_unicorn(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "find_spec", lambda _: None)
    error = opened(agent)
    assert isinstance(error, MissingToolError)
    assert error.exit_code == 10
    assert "unicorn>=2.1.4" in (error.hint or "")


def test_a_firmware_that_hangs(agent: Agent) -> None:
    with changed(agent, limit=100_000).open() as session, pytest.raises(DeviceFault, match="hangs: 100,000") as caught:
        session.run(BIG, dims=[LONG_LOOP])
    assert caught.value.exit_code == 7
    assert "CROSSLEVEL_INSTRUCTIONS" in (caught.value.why or "")


def test_the_limit_is_a_number(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("qemu-cortex-m4")
    monkeypatch.setenv("CROSSLEVEL_INSTRUCTIONS", "5000")
    spec = emulator_of(board, agent.artifact)
    assert spec is not None
    assert spec.machine is not None
    assert spec.machine.limit == 5000
    monkeypatch.setenv("CROSSLEVEL_INSTRUCTIONS", "many")
    with pytest.raises(UsageError, match="no number of instructions"):
        emulator_of(board, agent.artifact)


def test_images_that_do_not_fit(agent: Agent, agent_for: Callable[[str], Agent], tmp_path: Path) -> None:
    other = replace(agent, artifact=agent_for("unicorn:qemu-riscv32").artifact)
    assert "does not fit the board's memory" in opened(other).message
    nothing = changed(agent, start=0x2000_0000)
    assert "lockup" in opened(nothing).message or "no vectors" in opened(nothing).message
    raw = agent.artifact.read_bytes()
    for data, says in ((b"#!/bin/sh\n" * 9, "no firmware image"), (raw[:400], "cut off"), (b"", "no firmware image")):
        path = tmp_path / "image.elf"
        path.write_bytes(data)
        assert says in opened(replace(agent, artifact=path)).message
    with pytest.raises(NoDeviceError, match="no firmware image"):
        replace(agent, artifact=tmp_path / "none").open()


def test_registers_that_are_not_there(agent: Agent) -> None:
    error = opened(changed(agent, uart=Part("nrf51", 0x4000_4000, 16_000_000)))
    assert "0x40004010, where the board has no register" in error.message
    assert "pc 0x" in (error.why or "")
    elsewhere = opened(changed(agent, uart=Part("cmsdk", 0x5000_4000, 25_000_000)))
    assert "0x40004010, where the board has no register" in elsewhere.message
    assert isinstance(elsewhere, DeviceFault)


def test_memory_is_the_boards_own(agent: Agent) -> None:
    """With less RAM than the image uses, it does not start."""
    assert agent.emulator is not None
    spec = agent.emulator.machine
    assert spec is not None
    small = tuple(Span(s.base, 4096, True) if s.writable else s for s in spec.memory)
    assert isinstance(opened(changed(agent, memory=small, limit=10_000)), DeviceFault)


def test_memory_that_begins_within_a_page(tmp_path: Path) -> None:
    """Behind a boot loader, or where two regions share one."""
    board = load_board("nucleo_l4r5zi")
    sizes = {"flash": (0x0800_4100, 124 << 10), "ram": (0x2000_0804, 65532)}
    memory = tuple(structs.replace(m, base=sizes[m.name][0], size=sizes[m.name][1]) for m in board.memory)
    board = replace(board, memory=memory)
    image = firmware(board, tmp_path / "agent.elf")
    with Agent("unicorn://", image, emulator_of(board, image)).open(60.0) as session:
        assert session.ping(b"all there") == b"all there"


def test_the_process_ends_with_the_session(agent: Agent) -> None:
    session = agent.open()
    child = session._link.transport._child.process
    os.kill(child.pid, signal.SIGINT)  # a terminal sends it to all: the session calls off what runs
    assert session.ping(b"still here") == b"still here"
    session.close()
    assert child.wait(5) == 0


def test_a_killed_machine_is_told(agent: Agent) -> None:
    session = agent.open()
    session._link.transport._child.process.kill()
    with pytest.raises(DeviceFault, match="killed by SIGKILL"):
        session.ping(b"x")
    session.close()


def test_a_spec_that_is_none() -> None:
    command = [sys.executable, "-m", "sdk.devices.emulated", "{}", "image"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "missing required field" in done.stderr


def test_counts_are_of_the_marks_alone(agent: Agent) -> None:
    """Start-up clears the marks too, which begins no phase."""

    def work(session: object) -> None:
        time.sleep(0)

    _, counts = counted(load_board("qemu-cortex-m4"), agent.artifact, 0, work, "unicorn://")
    assert counts == {}


def test_a_machine_says_its_timer(agent: Agent) -> None:
    assert agent.emulator is not None
    spec: MachineSpec | None = agent.emulator.machine
    assert spec is not None
    with pytest.raises(SdkError, match="built for another timer"):
        open_device("unicorn://", artifact=agent.artifact, emulator=replace(agent.emulator, timer_hz=1), timeout_s=5.0)
