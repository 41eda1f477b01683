"""Weights in a flash chip beside the microcontroller: they are there once the driver has set all of it up, and where
they are not, nothing runs with others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import unicorn
from device_agents import Agent
from msgspec import structs
from unicorn.unicorn_py3.unicorn import Uc

from sdk.boards import Board, load_board
from sdk.boards import board_names as names
from sdk.boards.read import lint
from sdk.cli import run_command
from sdk.devices.emulated.bus import Halt
from sdk.devices.emulated.flashes import Flash
from sdk.devices.emulated.spec import Command, External
from sdk.driver import flashed
from sdk.driver.agents import link_agent, runtime_parts
from sdk.driver.artifact import build_sources
from sdk.driver.backends import runtime_of
from sdk.driver.capacity import lacks
from sdk.driver.execute import verify
from sdk.driver.linked import firmware_map
from sdk.driver.machines import emulator_of
from sdk.driver.options import BuildOptions
from sdk.errors import DeviceFault, FlashError, UsageError
from sdk.flash.flashing import Choice, Flashed, flash_image, plans
from sdk.flash.image import read_image
from sdk.projects.make import new_project

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits_int8.tflite"
OPTIONS = BuildOptions(weights="external")
BOARDS = [name for name in names() if load_board(name).external]
QUAD, OCTO = "stm32f746g_disco", "b_u585i_iot02a"


@cache
def linked(name: str) -> Path:
    board = load_board(name)
    return link_agent(build_sources(DIGITS, board, OPTIONS).sources, board, OPTIONS)


def started(name: str, change: Callable[[External], External] = lambda it: it, image: Path | None = None) -> Agent:
    """An agent on a machine whose flash chip is changed."""
    image = image or linked(name)
    spec = emulator_of(load_board(name), image)
    assert spec is not None
    assert spec.machine is not None
    assert spec.machine.external is not None
    machine = structs.replace(spec.machine, external=change(spec.machine.external))
    return Agent("unicorn://", image, replace(spec, machine=machine))


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in (QUAD, OCTO) else pytest.mark.slow) for n in BOARDS])
def test_weights_are_read_in_place(name: str) -> None:
    """Each board's image, on its own registers."""
    assert verify(DIGITS, load_board(name), None, OPTIONS, "interp", 2).exact_cases == 2


def test_weights_are_there_and_nowhere_else() -> None:
    board = load_board(QUAD)
    assert board.external is not None
    beside, alone = (firmware_map(DIGITS, board, one) for one in (OPTIONS, BuildOptions()))
    used, without = ({r.name: r.used for r in of.regions} for of in (beside, alone))
    assert used[board.external.name] > 5000
    assert without[board.external.name] == 0
    assert used["flash"] < without["flash"] - 3000
    held = [p for p in read_image(linked(QUAD)).parts if p.address >= board.external.base]
    assert [p.name for p in held] == [f".region_{board.external.name}"]


@pytest.mark.parametrize("name", [QUAD, OCTO])
def test_a_chip_may_listen_to_any_number_of_lines(name: str) -> None:
    """As loaders leave them; each pair of resets is for one way. It is at work for some looks at its status."""

    def from_pair(k: int) -> Callable[[External], External]:
        return lambda it: structs.replace(it, reset=it.reset[k:] + it.reset[:k])

    resets = load_board(name).runtime.external
    assert resets is not None
    for k in range(0, len(resets.reset), 2):
        with started(name, from_pair(k)).open(60.0) as session:
            assert session.ping(b"there") == b"there"


def agent_chip(name: str) -> External:
    """The chip as the machine is told of it."""
    agent = started(name)
    assert agent.emulator is not None
    assert agent.emulator.machine is not None
    assert agent.emulator.machine.external is not None
    return agent.emulator.machine.external


def ends(name: str, change: Callable[[External], External], says: str) -> None:
    with pytest.raises(DeviceFault) as caught:
        started(name, change).open(60.0)
    assert says in caught.value.message


@pytest.mark.parametrize("name", [QUAD, OCTO])
def test_what_the_chip_does_not_take(name: str) -> None:
    """The driver is told what the board's file has; a chip that wants anything else is not mapped."""
    read = load_board(name).runtime.external
    assert read is not None

    def reading(**fields: object) -> Callable[[External], External]:
        return lambda it: structs.replace(it, read=structs.replace(it.read, **fields))

    for fields in ({"dummy": 7}, {"lines": (1, 2, 2)}, {"address_bytes": 7 - read.read.address_bytes}):
        ends(name, reading(**fields), "the flash chip is mapped with Read(")
    ends(name, lambda it: structs.replace(it, recovers=2000), "the flash chip is mapped before it was reset")
    ends(name, lambda it: structs.replace(it, fastest=20_000_000), "Hz, and takes 20000000")
    short = structs.replace(agent_chip(name).memory, size=1 << 20)
    ends(name, lambda it: structs.replace(it, memory=short), "has 1048576 bytes, and")
    known = structs.replace(read.reset[0], instruction=0x55)
    ends(name, lambda it: structs.replace(it, reset=(known, *it.reset[1:])), "no command")


def test_a_chip_is_asked_whether_it_is_ready() -> None:
    spec = agent_chip(QUAD)
    now = 0.0
    chip = Flash(Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB), spec, lambda: now)
    ask = Command(spec.status, 1, 1, False)
    assert chip.status(ask) == 0  # it listens to four lines: nobody answers
    for k, one in enumerate(spec.reset):
        with pytest.raises(Halt, match="before it was reset"):
            chip.map(spec.read, 3, 24)
        if k < 2:
            chip.command(one)
    assert chip.status(ask) == 0  # nor yet
    with pytest.raises(Halt, match="before it was reset"):
        chip.map(spec.read, 3, 24)
    now = 99e-6
    assert chip.status(ask) == 0
    now = 101e-6
    assert [chip.status(ask) for _ in range(3)] == [1, 1, 0]
    chip.map(spec.read, 3, 24)
    with pytest.raises(Halt, match="not now"):
        chip.command(spec.reset[3])  # without the one that enables it


def without_part(image: Path, name: str, out: Path) -> Path:
    """The image as a tool writes it that leaves out the external flash, where other things are."""
    raw = bytearray(image.read_bytes())
    (part,) = (p for p in read_image(image).parts if p.name == name)
    at = raw.index(part.data)
    raw[at : at + len(part.data)] = bytes(255 - b for b in part.data)
    out.write_bytes(raw)
    return out


@pytest.mark.parametrize("name", [QUAD, OCTO])
def test_other_weights_are_not_used(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image whose weights were not written crashes at its start, and says why: a tool that lied is caught."""
    monkeypatch.setattr(flashed, "CHECK_S", 0.0)
    board = load_board(name)
    assert board.external is not None
    other = without_part(linked(name), f".region_{board.external.name}", tmp_path / "other.elf")
    by, image = Flashed("openocd", (), ()), read_image(other)
    with pytest.raises(FlashError, match="does not answer after it was flashed") as caught:
        flashed.started(lambda: started(name, image=other).open(20.0), image, board, by)
    assert "openocd said that all is well" in str(caught.value.why)
    assert "its external flash does not hold the weights of its image" in str(caught.value.why)


def test_an_unmapped_flash_faults(tmp_path: Path) -> None:
    """Nothing is at those addresses before the driver ran, or without it."""
    board = load_board(QUAD)
    texts, _, _ = runtime_parts(runtime_of("c99"), board, OPTIONS)
    assert "sdk_rt_external_map" in texts["external_quadspi.c"]
    assert "QSPIEN" not in texts["setup.c"]  # an image with its weights inside leaves the chip alone
    assert "RCC.AHB3ENR" in texts["external_setup.c"]
    agent = started(QUAD)
    assert agent.emulator is not None
    assert agent.emulator.machine is not None
    gone = tuple(b for b in agent.emulator.machine.blocks if b.name != "QUADSPI")
    mute = replace(agent.emulator, machine=structs.replace(agent.emulator.machine, blocks=gone, external=None))
    with pytest.raises(DeviceFault, match="the image does not fit the board's memory"):
        replace(agent, emulator=mute).open(60.0)


def test_runners_that_leave_it_out_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that write it are told how; one that does not would leave it out, and its checks would pass."""
    board, image = load_board(QUAD), read_image(linked(QUAD))
    for program in ("probe-rs", "openocd", "STM32_Programmer_CLI", "JLinkExe"):
        (tmp_path / program).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {plan.name: plan for plan in plans(board, Choice(), image)}
    usable = {name: plan.commands[0] for name, plan in found.items() if plan.unusable is None}
    assert usable.keys() == {"openocd", "stm32cubeprogrammer"}
    loader = usable["stm32cubeprogrammer"]
    assert loader[loader.index("--extload") + 1] == f"{tmp_path}/ExternalLoader/N25Q128A_STM32F746G-DISCO.stldr"
    assert "board/stm32f746g-disco.cfg" in usable["openocd"]
    with pytest.raises(UsageError, match="probe-rs does not write the external flash") as caught:
        flash_image(image, board, Choice("probe-rs"))
    assert caught.value.hint == "--runner openocd does"
    never = replace(board, flash={name: board.flash[name] for name in ("probe-rs", "jlink")})
    with pytest.raises(UsageError, match="no runner can flash stm32f746g_disco") as caught:
        flash_image(image, never, Choice())
    assert caught.value.hint == "leave out --weights external"
    with pytest.raises(FlashError, match="did not say that it has written"):
        flash_image(image, board, Choice())  # OpenOCD, which says nothing here
    alone = [plan.unusable for plan in plans(board, Choice())]
    assert alone == [None] * 4
    shown = {plan.name for plan in plans(board, Choice(), external=True) if plan.unusable is None}
    assert shown == usable.keys()


def test_what_has_no_part_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("nucleo_l4r5zi", "host", "qemu-cortex-m4"):
        assert run_command(["memory", str(DIGITS), "--board", name, "--weights", "external", "--json"]) == 2
        assert "no external flash" in json.loads(capsys.readouterr().out)["error"]["message"]
    board = load_board(QUAD)
    with pytest.raises(UsageError, match="--weights external has no part in a project for Zephyr"):
        new_project("zephyr", DIGITS, board, OPTIONS, tmp_path / "zephyr")
    built = build_sources(DIGITS, board, OPTIONS).report
    assert built.external_bytes > 5000
    assert lacks(built, board) == {}
    assert lacks(replace(built, external_bytes=1 << 25), board) == {"external flash": 1 << 24}


def test_too_large_for_its_own_flash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has the command that puts the weights beside, and that works."""
    (tmp_path / "small.toml").write_text(
        f'schema = 1\nextends = "{QUAD}"\n[board]\ntitle = "Small"\n[[memory]]\nname = "flash"\nbase = 0x08000000\n'
        'size = "4K"\nkind = "flash"\n[[memory]]\nname = "ram"\nbase = 0x20000000\nsize = "320K"\nkind = "ram"\n'
        '[[memory]]\nname = "qspi"\nbase = 0x90000000\nsize = "16M"\nkind = "flash"\n'
    )
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    assert run_command(["build", str(DIGITS), "--board", "small", "-o", str(tmp_path / "out"), "--json"]) == 1
    hint = json.loads(capsys.readouterr().out)["error"]["hint"]
    assert hint.endswith("--weights external")
    words = [*hint.split()[1:], "-o", str(tmp_path / "out")]
    assert run_command(words) == 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"memory": "flash"}, "names no flash region but the first: flash"),
        ({"memory": "nand"}, "names no flash region but the first: nand"),
        ({"fastest": 800_000}, "its clock is divided by at most 256"),
        ({"hz": 200_000_000}, "its registers make 2.16e+08 Hz of the clock of external, whose hz is 200000000"),
    ],
)
def test_mistakes_in_a_file(fields: dict[str, object], says: str) -> None:
    board = load_board(QUAD)
    external = structs.replace(board.runtime.external, **fields)
    found = lint(replace(board, runtime=structs.replace(board.runtime, external=external)))
    assert any(says in one for one in found), found


def test_lines_that_a_peripheral_does_not_have() -> None:
    def problems(of: Board, **fields: object) -> str:
        assert of.runtime.external is not None
        return "; ".join(structs.replace(of.runtime.external, **fields).problems())

    quad, octo = load_board(QUAD), load_board(OCTO)
    assert octo.runtime.external is not None
    wide = octo.runtime.external.reset
    assert "quadspi has 4 lines; runtime.external: quadspi sends instructions of one byte" in problems(quad, reset=wide)
    assert "are pairs" in problems(octo, reset=wide[:3])
    assert "that its bytes do not hold" in problems(octo, reset=[structs.replace(one, bytes=1) for one in wide])
