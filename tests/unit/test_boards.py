"""Boards: every file loads, merging keeps its promises, and each mistake is named with a way out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from unit import board_schemas

from sdk.boards import CAPABILITIES, board_names, describe, load_board, parse_size
from sdk.boards.host import parse_cpuinfo
from sdk.errors import UsageError
from sdk.resources import data_dir

MINIMAL = """
schema = 1
[board]
title = "A board"
[[core]]
name = "main"
cpu = "cortex-m4"
arch = "armv7e-m"
capabilities = ["thumb", "thumb2", "dsp"]
[[memory]]
name = "flash"
base = 0
size = "64K"
kind = "flash"
[[memory]]
name = "ram"
base = 0x2000_0000
size = "8K"
kind = "ram"
[compilers]
zig = { target = "thumb-freestanding-eabi", cpu = "cortex_m4" }
gcc = { command = "arm-none-eabi-gcc", flags = ["-mcpu=cortex-m4"] }
[runtime]
port = "cortex_m"
stack = "1K"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of user boards that holds one sound board, "mine"."""
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    (tmp_path / "mine.toml").write_text(MINIMAL)
    return tmp_path


@pytest.mark.parametrize("name", board_names())
def test_every_board_loads_and_describes_itself(name: str) -> None:
    board = load_board(name)
    assert board.capabilities <= CAPABILITIES
    described = describe(board)
    assert json.loads(json.dumps(described)) == described
    assert board.hosted == (board.ram_bytes is None)


@pytest.mark.parametrize("name", [n for n in board_names() if not load_board(n).hosted and load_board(n).emulator])
def test_the_emulated_target_keeps_the_real_sizes(name: str) -> None:
    board = load_board(name)
    emulated = board.as_emulated()
    assert [r.size for r in emulated.memory] == [r.size for r in board.memory]
    assert board.emulator is not None
    argv = [part.format(elf="image.elf", serial="null", shift=6) for part in board.emulator.argv]
    assert "image.elf" in argv
    assert "null" in argv


@pytest.mark.parametrize("name", board_names())
def test_the_runtime_has_every_driver_that_a_board_names(name: str) -> None:
    runtime = load_board(name).runtime
    port = data_dir("c_runtime") / "port" / runtime.port
    uarts, timers = (runtime.uart, runtime.emulated_uart), (runtime.timer, runtime.emulated_timer)
    named = [f"uart_{d.kind}.c" for d in uarts if d] + [f"timer_{d.kind}.c" for d in timers if d]
    named += [f"boot_{runtime.boot}.c"] if runtime.boot else []
    assert [file for file in named if not (port / file).is_file()] == []


def test_real_sizes() -> None:
    nucleo, microbit = load_board("nucleo_l4r5zi"), load_board("microbit")
    assert (nucleo.flash_bytes, nucleo.ram_bytes) == (2 << 20, 640 << 10)
    assert (microbit.flash_bytes, microbit.ram_bytes) == (256 << 10, 16 << 10)
    assert "dsp" in nucleo.capabilities
    assert "unaligned" not in microbit.capabilities
    assert load_board("l4r5zi") == nucleo
    assert nucleo.as_emulated().regions("flash")[0].base == 0


def test_host_is_this_machine() -> None:
    host = load_board("host")
    assert host.hosted
    assert host.core.arch in host.compilers.zig.target


def test_origin_says_which_file_set_a_key() -> None:
    origin = load_board("nucleo_l4r5zi").origin
    assert origin["board.title"] == "boards/nucleo_l4r5zi.toml"
    assert origin["compilers.zig.cpu"] == "soc/stm32l4r5.toml"


def test_unknown_board_suggests() -> None:
    with pytest.raises(UsageError) as caught:
        load_board("nucleo_l4r5")
    assert caught.value.exit_code == 2
    assert "nucleo_l4r5zi" in (caught.value.hint or "")
    with pytest.raises(UsageError) as caught:
        load_board("zzzz")
    assert "sdk boards" in (caught.value.hint or "")


def test_user_boards(folder: Path) -> None:
    assert load_board("mine").ram_bytes == 8 << 10
    assert "host" in board_names()
    (folder / "child.toml").write_text(
        'schema = 1\nextends = "mine"\n[board]\ntitle = "Child"\naliases_append = []\n'
    )
    with pytest.raises(UsageError, match="appends to no array"):
        load_board("child")
    (folder / "child.toml").write_text(
        'schema = 1\nextends = "mine"\n[board]\ntitle = "Child"\n'
        '[compilers.gcc]\nflags_append = ["-mthumb"]\n[runtime]\nstack = 512\n'
    )
    child = load_board("child")
    assert (child.title, child.runtime.stack_bytes, child.runtime.port) == ("Child", 512, "cortex_m")
    assert child.compilers.gcc.flags == ("-mcpu=cortex-m4", "-mthumb")
    assert child.origin["compilers.gcc.flags"].endswith(f"+ {folder.name}/child.toml")


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ('name = "main"', 'name = "main"\nclock = 3', "unknown key 'clock'", "clock_hz"),
        ('"dsp"', '"dps"', "'capabilities[2]' has an unknown value 'dps'", "did you mean dsp"),
        ('port = "cortex_m"', 'port = "cortexm"', "unknown value 'cortexm'", "cortex_m"),
        ('size = "8K"', 'size = "8 kilo"', "not a size", "640K"),
        ('size = "8K"', 'size = ["8K"]', "not a size: ['8K']", "640K"),
        ('kind = "flash"', 'kind = "tape"', "unknown value 'tape'", "one of flash, ram"),
        ('name = "main"', "name = 3", "Expected `str`, got `int`; its value is 3", None),
        ('name = "main"', 'name = "main"\nclock_hz = 0', "Expected `int` >= 1", None),
        ('arch = "armv7e-m"', "", "core main has no arch", None),
        ('target = "thumb-freestanding-eabi", ', "", "compilers.zig has no target", None),
        ("[runtime]", '[runtime]\nuart = 3', "Expected `table`, got `int`", None),
        ("[runtime]", '[emulator]\nargv = ["q", "{"]\n[runtime]', "Single '{' encountered", None),
        ("base = 0x2000_0000", "base = 0x8000", "flash and ram overlap", None),
        ("base = 0x2000_0000", "base = 0x2000_0002", "ram begins at no multiple of 4", None),
        ("base = 0x2000_0000", "base = -4096", "ram is not within the 32 bits of an address", None),
        ("base = 0x2000_0000", "base = 0xffff_fffc", "ram is not within the 32 bits of an address", None),
        ("base = 0x2000_0000", "base = 0x2000_0000\ndata_base = 0x3000_0100", "at no multiple of 4096", None),
        ('name = "ram"', 'name = "ram (x)"', "region 'ram (x)' is not named like a variable of C", None),
        ('name = "ram"', 'name = "flash"', "two regions are called flash", None),
        ('stack = "1K"', 'stack = "9K"', "stack is larger than its RAM", None),
        ('stack = "1K"', "", "it has no stack", None),
        ('title = "A board"', "", "missing key 'title'", None),
        ("schema = 1", "schema = 2", "unknown board schema 2", "schema 1"),
        ("schema = 1", 'schema = 1\nextends = "mien"', "no board file 'mien'", "did you mean mine"),
        ("schema = 1", 'schema = 1\nextends = "mine"', "in a circle", None),
        ("schema = 1", "schema = ", "not a TOML file", None),
        ('"dsp"]', '"dsp"]\nfloat_abi = "hard"', "float_abi hard without an fpu", None),
        ('"dsp"]', '"dsp"]\nfpu = "fpv4-sp-d16"', "fpu-sp contradict", None),
        ('"thumb2", "dsp"]', '"dsp"]', "its capabilities imply thumb2", None),
        ("[runtime]", '[emulator]\nargv = ["q", "{elv}"]\nicount_shift = 1\n[runtime]', "{elv}", "elf"),
        ("[runtime]", "[emulator]\nargv = []\nicount_shift = 1\n[runtime]", "argv is empty", None),
        (
            "[runtime]",
            '[emulator]\nargv = ["q"]\nicount_shift = 1\nmemory = { ran = 0 }\n[runtime]',
            "names no region: ran",
            None,
        ),
        ("[runtime]", '[emulator.memory]\nram = 0\nflash = "far"\n[runtime]', "not a size: 'far'", "640K"),
    ],
)
def test_mistakes_are_named(folder: Path, old: str, new: str, message: str, hint: str | None) -> None:
    assert old in MINIMAL
    (folder / "mine.toml").write_text(MINIMAL.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_board("mine")
    assert message in f"{caught.value.message} {caught.value.why}"
    assert "mine.toml" in (caught.value.where or "")
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('name = "main"', 'name = "main"\nclock = 3', ".core[0]"),
        ('"dsp"', '"dps"', ".core[0]"),
        ('size = "8K"', 'size = "8 kilo"', ".memory[1].size"),
        ("[runtime]", '[emulator.memory]\nram = 0\nflash = "far"\n[runtime]', ".emulator.memory.flash"),
        ("[runtime]", '[emulator]\nargv = ["{elv}"]\n[runtime]', ".emulator"),
        ("[runtime]", '[runtime.uart]\nkind = "u"\nbas = 1\n[runtime]', ".runtime.uart"),
        ('title = "A board"', "", ".board"),
        ('title = "A board"', "title = 1", ".board"),
        ("schema = 1", "", ""),
        ("schema = 1", "schema = 1\nshcema = 1", ""),
    ],
)
def test_mistakes_have_a_place(folder: Path, old: str, new: str, where: str) -> None:
    (folder / "mine.toml").write_text(MINIMAL.replace(old, new, 1).replace("[runtime]\n[runtime]", "[runtime]"))
    with pytest.raises(UsageError) as caught:
        load_board("mine")
    assert caught.value.where == f"{folder / 'mine.toml'}{where}"


@pytest.mark.parametrize(
    ("text", "expected"), [("640K", 655360), ("2M", 2 << 20), (17, 17), ("0x10", 16), ("1_024 B", 1024)]
)
def test_sizes(text: object, expected: int) -> None:
    assert parse_size(text, "here") == expected


@pytest.mark.parametrize("text", ["", "K", "-1", -1, True, None, 1.5, "1KK", "1e3"])
def test_not_sizes(text: object) -> None:
    with pytest.raises(UsageError):
        parse_size(text, "here")


def test_cpuinfo_counts_what_every_core_has() -> None:
    x86 = "flags\t: fpu sse2 sse4_1 avx512_vnni avx_vnni\n\nflags\t: fpu sse2 sse4_1 avx512_vnni\nvmx : x\n"
    assert parse_cpuinfo(x86, "x86_64", CAPABILITIES) == {"sse2", "sse4.1", "avx512vnni"}
    arm = "Features\t: fp asimd asimdhp asimddp i8mm\n"
    assert parse_cpuinfo(arm, "aarch64", CAPABILITIES) == {"neon", "fp16", "dotprod", "i8mm"}
    assert parse_cpuinfo("", "x86_64", CAPABILITIES) == frozenset()


SCHEMAS = board_schemas.schemas()


def test_the_published_schemas_are_those_of_the_records() -> None:
    for path, schema in SCHEMAS.items():
        Draft7Validator.check_schema(schema)
        assert path.read_text(encoding="utf-8") == board_schemas.text(schema), "python tests/unit/board_schemas.py"


@pytest.mark.parametrize(
    "path", sorted(board_schemas.BOARDS.rglob("*.toml")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_every_file_names_its_schema_and_keeps_to_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    schema = (path.parent / text.splitlines()[0].removeprefix("#:schema ")).resolve()
    Draft7Validator(SCHEMAS[schema]).validate(tomllib.loads(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[board]\ntitel = "x"', "'titel' was unexpected"),
        ('[[core]]\nname = "main"\ncpu = "x"\ncapabilities = ["dps"]', "'dps' is not one of"),
        ('[[memory]]\nname = "ram"\nbase = 0\nkind = "ram"', "'size' is a required property"),
        ('[runtime]\nstack = "8 kilo"', "'8 kilo'"),
        ('[compilers.gcc]\nflags_append = "-O2"', "'-O2' is not of type 'array'"),
    ],
)
def test_an_editor_sees_mistakes(text: str, says: str) -> None:
    schema = SCHEMAS[board_schemas.BOARDS / "schema.json"]
    (error,) = Draft7Validator(schema).iter_errors(tomllib.loads(text))
    assert says in error.message
