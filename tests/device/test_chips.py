"""Real chips: an image starts on the registers of the chip's file, and what the manual does not have ends it."""

from __future__ import annotations

import re
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
from sdk.driver.machines import emulator_of, fits_unicorn, placed
from sdk.driver.session import emulator_spec
from sdk.errors import BuildError, DeviceFault, UsageError
from sdk.flash.image import as_bin, read_image
from sdk.toolchains.boot import boot_checksum, sign_boot
from sdk.toolchains.elf import ElfFile

CHIPS = [name for name in board_names() if load_board(name).blocks]


def drivers(name: str) -> tuple[str, ...]:
    """The parts of the runtime that a board chooses."""
    runtime = load_board(name).runtime
    assert runtime.uart is not None
    return runtime.port, runtime.uart.kind, runtime.boot or ""


ONE = sorted({drivers(name): name for name in reversed(CHIPS)}.values())
IN_QEMU = [name for name in CHIPS if load_board(name).evidence == "emulator"]
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


@pytest.mark.some(5)
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


@pytest.mark.emulator
@pytest.mark.parametrize("name", IN_QEMU)
def test_the_same_image_starts_under_qemu(name: str, tmp_path: Path, need_tool: Callable[[str], None]) -> None:
    """Where QEMU models the chip, its image is the one for the board, to the bit."""
    board = load_board(name)
    assert board.emulator is not None
    need_tool(board.emulator.program)
    on_qemu, own = placed(board, "qemu://"), placed(board, "unicorn://")
    assert (on_qemu.memory, on_qemu.runtime, on_qemu.steps) == (own.memory, own.runtime, own.steps)
    with Agent("qemu://", firmware(own, tmp_path / "agent.elf"), emulator_spec(board)).open(60.0) as session:
        assert session.ping(b"all there") == b"all there"


def test_a_board_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that docs/adding.md adds."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "adding.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(# xiao_rp2040\.toml\n.*?)```", page, re.DOTALL)
    (tmp_path / "xiao_rp2040.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    board = load_board("xiao_rp2040")
    assert board.untested
    with started(board, tmp_path).open(60.0) as session:
        assert session.info.name == "xiao_rp2040"


def test_the_boot_code_is_signed(tmp_path: Path) -> None:
    """What the ROM of an RP2040 copies and checks: 252 bytes and their checksum, then the vectors."""
    board = load_board("rpi_pico")
    image = firmware(board, tmp_path / "agent.elf")
    sign_boot(image, board.runtime.boot)
    boot, vectors = (s for s in ElfFile(image).sections if s.name in (".boot", ".vectors"))
    assert (boot.address, len(boot.data), vectors.address) == (0x1000_0000, 256, 0x1000_0100)
    assert int.from_bytes(boot.data[252:], "little") == boot_checksum(boot.data[:252])
    assert boot_checksum(b"123456789") == 0x0376_E6E7  # CRC-32/MPEG-2 of the usual nine bytes
    other = firmware(load_board("nucleo_l4r5zi"), tmp_path / "other.elf")
    with pytest.raises(BuildError, match="the boot code has 0 bytes, where the ROM reads 256"):
        sign_boot(other, board.runtime.boot)


@pytest.mark.parametrize("toolchain", ["zig", "riscv64-unknown-elf-gcc"])
def test_constants_over_the_other_bus(toolchain: str, tmp_path: Path, need_tool: Callable[[str], None]) -> None:
    """An ESP32-C3 loads whole words only where it fetches instructions: constants and what variables begin with are
    loaded from elsewhere, and lie in the same flash. Nothing else does: the file's own headers are not written."""
    if toolchain != "zig":
        need_tool(toolchain)
    board = load_board("esp32c3_devkitm")
    image = firmware(board, tmp_path / "agent.elf", toolchain=toolchain)
    (rodata,) = (s for s in ElfFile(image).sections if s.name == ".rodata")
    start, written = as_bin(read_image(image).parts)
    assert (start, written[:8]) == (0x4200_0000, (0xAEDB_041D).to_bytes(4, "little") * 2)
    assert rodata.address > 0x3C00_0000
    assert written[rodata.address - 0x3C00_0000 :].startswith(rodata.data)
    spec = emulator_of(board, image)
    with Agent("unicorn://", image, spec).open(60.0) as session:
        assert session.run(BIG, dims=[5]).samples == session.run(BIG, dims=[5]).samples
    for_code = [s.name for s in ElfFile(image).sections if 0x4200_0000 <= s.address < 0x4400_0000]
    assert for_code == [".boot", ".vectors", ".text"]


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
        ('{ register = "RCD.CR" }', "no block RCD; there are CLOCK, POWER, TIMER0, UART0"),
        ('{ register = "CLOCK.TASKS_HFCLKSTART", set = { TASK = 1 } }', "no field TASK; its file names TASKS_HFCLK"),
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
