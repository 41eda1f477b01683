"""Real chips: an image starts on the registers of the chip's file, and what the manual does not have ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from device_agents import Agent, firmware
from msgspec import structs

from sdk.boards import Board, board_names, load_board
from sdk.boards.chip import clock_hz, steps_of
from sdk.boards.read import lint
from sdk.devices.emulated.spec import Block, Register
from sdk.driver.machines import emulator_of, fits_unicorn
from sdk.errors import DeviceFault, UsageError

CHIPS = [name for name in board_names() if load_board(name).blocks]
ONE = sorted({load_board(name).runtime.registers: name for name in reversed(CHIPS)}.values())  # of each chip
BIG = 1  # of fake_models.c


def started(board: Board, tmp_path: Path, change: Callable[[Block], Block] = lambda block: block) -> Agent:
    """An agent of a board on a machine whose blocks are changed."""
    image = firmware(board, tmp_path / f"{board.name}.elf")
    spec = emulator_of(board, image)
    assert spec is not None
    assert spec.machine is not None
    machine = structs.replace(spec.machine, blocks=tuple(map(change, spec.machine.blocks)))
    return Agent("unicorn://", image, replace(spec, machine=machine))


def in_block(name: str, register: str, **fields: object) -> Callable[[Block], Block]:
    """A change of one register of a block."""

    def change(block: Block) -> Block:
        if block.name != name:
            return block
        of: tuple[Register, ...] = tuple(
            structs.replace(r, **fields) if r.name == register else r for r in block.registers
        )
        return structs.replace(block, registers=of)

    return change


@pytest.mark.parametrize("name", ONE)
def test_an_image_starts(name: str, tmp_path: Path) -> None:
    """What would be flashed boots on the chip's own registers, and computes."""
    board = load_board(name)
    assert fits_unicorn(board)
    with started(board, tmp_path).open(60.0) as session:
        assert session.info.name == board.name
        assert session.ping(b"all there") == b"all there"
        first, again = (session.run(BIG, dims=[5]).samples[0] for _ in range(2))
        assert first == again


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CHIPS) - set(ONE)))
def test_an_image_starts_on_every_board(name: str, tmp_path: Path) -> None:
    with started(load_board(name), tmp_path).open(60.0) as session:
        assert session.ping(b"all there") == b"all there"


def test_what_the_manual_does_not_have(tmp_path: Path) -> None:
    """A reserved bit, a bit that never comes, a peripheral without its clock, another rate: each is told."""
    board = load_board("nucleo_l4r5zi")

    def ends(change: Callable[[Block], Block], says: str, of: Board = board) -> None:
        with pytest.raises(DeviceFault) as caught:
            started(of, tmp_path, change).open(60.0)
        assert says in caught.value.message

    ends(in_block("PWR", "CR2", bits=0), "changes reserved bits of PWR.CR2: 0x200")
    ends(in_block("RCC", "CR", ready=()), "waits for bits of RCC.CR that do not come")
    ends(in_block("RCC", "APB1ENR2", at=0x5E), "0x4002105c")
    without = replace(board, steps=tuple(s for s in board.steps if s.register != "RCC.APB1ENR2"))
    ends(lambda block: block, "uses LPUART1, which is off: RCC.APB1ENR2.LPUART1EN is not 1", without)
    uart = structs.replace(board.runtime.uart, hz=100_000_000)
    image = firmware(replace(board, runtime=structs.replace(board.runtime, uart=uart)), tmp_path / "slow.elf")
    spec = emulator_of(board, image)
    with pytest.raises(DeviceFault, match="sends at 138240 baud, where the line has 115200"):
        Agent("unicorn://", image, spec).open(60.0)


def test_the_clock_is_what_the_registers_make_of_it() -> None:
    board = load_board("nucleo_l4r5zi")
    assert board.runtime.clock is not None
    assert clock_hz(board.blocks, board.steps, board.runtime.clock) == 120e6
    slow = [structs.replace(s, set={**s.set, "PLLN": 40}) if "PLLN" in s.set else s for s in board.runtime.setup]
    steps = steps_of(board.blocks, tuple(slow))
    assert lint(replace(board, steps=steps)) == [
        "its registers make 8e+07 Hz of the clock of timer, whose hz is 120000000",
        "its registers make 8e+07 Hz of the clock of uart, whose hz is 120000000",
    ]


@pytest.mark.parametrize(
    ("setup", "says"),
    [
        ('{ register = "RCC.CT" }', "RCC has no register CT"),
        ('{ register = "RCD.CR" }', "no block RCD; there are CLOCK, TIMER0, UART0"),
        ('{ register = "CLOCK.TASKS_HFCLKSTART", set = { TASK = 1 } }', "has no field TASK; there are TASKS_HFCLK"),
        ('{ register = "CLOCK.TASKS_HFCLKSTART", set = { TASKS_HFCLKSTART = 2 } }', "has no room for 2"),
    ],
)
def test_mistakes_in_a_setup(setup: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    setup = setup.replace("RCC.", "CLOCK.") if "CT" in setup else setup
    (tmp_path / "mine.toml").write_text(
        f'schema = 1\nextends = "microbit"\n[board]\ntitle = "Mine"\n[runtime]\nsetup = [{setup}]\n'
    )
    with pytest.raises(UsageError) as caught:
        load_board("mine")
    assert says.replace("RCC", "CLOCK") in caught.value.message
    assert "mine.toml.runtime.setup" in (caught.value.where or "")
