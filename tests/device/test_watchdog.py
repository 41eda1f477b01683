"""Watchdogs: what hangs is restarted and says so; what is at work is left alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from device_agents import Agent, firmware
from msgspec import structs

from sdk.boards import Board, load_board
from sdk.boards import board_names as names
from sdk.devices.emulated.watchdogs import WATCHDOGS
from sdk.devices.messages import WATCHDOG, CrashRecord
from sdk.devices.wire import Op
from sdk.driver.agents import link_agent, runtime_parts
from sdk.driver.artifact import build, build_sources
from sdk.driver.backends import runtime_of
from sdk.driver.machines import emulator_of
from sdk.driver.options import BuildOptions
from sdk.driver.session import emulator_spec
from sdk.errors import DeviceFault, UsageError

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits_int8.tflite"
BIG, FOR_EVER = 1, 16  # of fake_models.c
MS = 200
DOGS = {name: dog for name in names() if (dog := load_board(name).runtime.watchdog) is not None}
ONE = {dog.kind: name for name, dog in reversed(DOGS.items())}.values()
SLOW = 2_000_000  # Hz of a core that does nothing for a while


def started(board: Board, folder: Path) -> Agent:
    image = firmware(board, folder / "agent.elf", watchdog=MS)
    return at(SLOW, board, image)


def at(hz: int, board: Board, image: Path) -> Agent:
    """An agent on a machine of another clock, so that its time takes ours no longer."""
    spec = emulator_of(board, image)
    assert spec is not None
    assert spec.machine is not None
    machine = structs.replace(spec.machine, timer=structs.replace(spec.machine.timer, hz=hz))
    return Agent("unicorn://", image, replace(spec, machine=machine))


def after_a_hang(agent: Agent) -> tuple[DeviceFault, CrashRecord | None]:
    """What the host is told when a run hangs, and the record in the greetings after that; then all works again."""
    with agent.open(60.0) as session:
        assert session.info.last_crash is None
        first = session.run(BIG, dims=[5]).samples
        with pytest.raises(DeviceFault) as caught:
            session.run(BIG, dims=[FOR_EVER])
        crash = session._link.greet().crash
        assert session.run(BIG, dims=[5]).samples == pytest.approx(first, abs=2)
        assert session._link.greet().crash is None
    return caught.value, crash


SOME = [pytest.param(name, marks=() if name in ONE else pytest.mark.slow) for name in DOGS]


@pytest.mark.some(4)
@pytest.mark.parametrize("name", SOME)
def test_a_hang_is_ended_and_told(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    error, crash = after_a_hang(started(board, tmp_path))
    assert crash is not None
    assert crash.cause == WATCHDOG
    assert "its watchdog restarted it" in (error.why or "")
    dog = board.runtime.watchdog
    assert dog is not None
    interrupts = dog.kind == "cmsdk"
    assert (crash.pc != 0) == interrupts == ("it was at pc=0x" in (error.why or ""))


def test_every_driver_has_a_model() -> None:
    assert {dog.kind for dog in DOGS.values()} == set(WATCHDOGS)


def test_a_restart_that_was_asked_for_is_none_of_its(tmp_path: Path) -> None:
    """A chip may tell of a reset by the watchdog until its power goes: what comes later is told apart."""
    with started(load_board("rpi_pico"), tmp_path).open(60.0) as session:
        with pytest.raises(DeviceFault):
            session.run(BIG, dims=[FOR_EVER])
        session._link.greet()
        session.ping()
        session._link.request(Op.RESET)
        time.sleep(0.05)
        assert session._link.greet().crash is None
        with pytest.raises(DeviceFault, match="crashed during RUN") as caught:
            session.run(BIG, dims=[13])
        crash = session._link.greet().crash
        assert crash is not None
        assert crash.cause != WATCHDOG
        assert str(crash) in (caught.value.why or "")


def test_it_is_fed_between_operations(tmp_path: Path) -> None:
    """A run may take longer than the watchdog waits, and so may an idle hour; an operation may not."""
    board, options = load_board("qemu-cortex-m4"), BuildOptions(watchdog=100)
    agent = link_agent(build_sources(DIGITS, board, options).sources, board, options)
    with Agent("unicorn://", agent, emulator_of(board, agent)).open(60.0) as session:
        instructions = session.run(0).samples[0]
    with at(int(8 * instructions), board, agent).open(60.0) as session:  # 125 ms for a run
        session.run(0, repeat=3)
        time.sleep(0.3)
        assert session._link.greet().crash is None
    slow = at(int(4.7 * instructions), board, agent)  # the second convolution takes over 100 ms
    with slow.open(60.0) as session, pytest.raises(DeviceFault, match="crashed during RUN"):
        session.run(0)


@pytest.mark.parametrize(
    ("board", "ms", "says"),
    [
        ("host", 500, "the runtime has no watchdog on host"),
        ("qemu-riscv32", 500, "the runtime has no watchdog on qemu-riscv32"),
        ("rpi_pico", 9000, "the watchdog of rpi_pico cannot wait 9,000 ms"),
    ],
)
def test_watchdogs_that_are_not_there(board: str, ms: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        runtime_parts(runtime_of("c99"), load_board(board), BuildOptions(watchdog=ms))


def test_a_crash_survives_a_cache(tmp_path: Path) -> None:
    """A Cortex-M7 writes what it knows of a crash to memory before the reset, and forgets it there when it told."""
    board = load_board("nucleo_h743zi")

    def greetings(without: str = "", *then: int) -> list[int | None]:
        """The causes in the greetings after a crash, and after further runs that end so."""
        image = firmware(board, tmp_path / "agent.elf", watchdog=MS, without=without)
        causes = []
        with at(SLOW, board, image).open(60.0) as session:
            for size in (13, *then):
                with pytest.raises(DeviceFault):
                    session.run(BIG, dims=[size])
                crash = session._link.greet().crash
                causes.append(crash.cause if crash else None)
        return causes

    assert greetings("", FOR_EVER) == [6, WATCHDOG]
    assert greetings("    sdk_rt_write_back(); /* the record of a crash */\n") == [None]
    assert greetings("    last.asked = 0;\n    sdk_rt_write_back();\n", FOR_EVER) == [6, 6]


def test_choices_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a watchdog of 99 ms") as caught:
        BuildOptions(watchdog=99)
    assert caught.value.hint == "--watchdog 100 is the least"
    with pytest.raises(UsageError, match="--watchdog has no part in --emit c"):
        build(DIGITS, load_board("rpi_pico"), BuildOptions(watchdog=500), emit="c", out=tmp_path / "out")


@pytest.mark.emulator
def test_under_qemu_as_well(tmp_path: Path, need_tool: Callable[[str], None]) -> None:
    board = load_board("qemu-cortex-m3")
    assert board.emulator is not None
    need_tool(board.emulator.program)
    image = firmware(board, tmp_path / "agent.elf", watchdog=MS)
    _, crash = after_a_hang(Agent("qemu://", image, emulator_spec(board)))
    assert crash is not None
    assert crash.cause == WATCHDOG
    assert crash.pc != 0
