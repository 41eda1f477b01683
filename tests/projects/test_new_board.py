"""``sdk new board``: files of boards from what PlatformIO and probe-rs know, with their source and what is left."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.projects import boards as importing

PIO: dict[str, Any] = {
    "build": {"cpu": "cortex-m4", "f_cpu": "120000000L", "mcu": "stm32l4r5zit6", "hwids": [["0x0483", "0x374B"]]},
    "debug": {"jlink_device": "STM32L4R5ZI", "openocd_board": "st_nucleo_l4"},
    "name": "A Nucleo",
    "upload": {"maximum_ram_size": 655360, "maximum_size": 2097152},
    "url": "https://example.com/nucleo",
    "vendor": "ST",
}
# A family as probe-rs writes it: two chips, of which one has flash and two RAMs, and a memory of another core.
FAMILY = """
name: ACME Series
generated_from_pack: true
variants:
- name: ACME100
  cores:
  - name: main
    type: armv7em
    core_access_options: !Arm
      ap: !v1 0
  - name: other
    type: armv6m
    core_access_options: !Arm
      ap: !v1 1
  memory_map:
  - !Ram
    range:
      start: 0x10000000
      end: 0x10002800
    cores: [main]
  - !Ram
    range:
      start: 0x20000000
      end: 0x20008000
    cores:
    - main
  - !Nvm
    range:
      start: 0x8000000
      end: 0x8020000
    cores:
    - main
    access:
      write: false
      boot: true
  - !Ram
    range:
      start: 0x30000000
      end: 0x30008000
    cores:
    - other
  - !Generic
    range:
      start: 0x40000000
      end: 0x50000000
    cores:
    - main
  flash_algorithms:
  - acme
- name: NRF52840_xxAA
  cores:
  - name: main
    type: armv7em
  memory_map: []
flash_algorithms:
- name: acme
  instructions: AAAA
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, which is the user's folder of boards too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    (tmp_path / "family.yaml").write_text(FAMILY)
    (tmp_path / "board.json").write_text(json.dumps(PIO))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], line: str) -> dict[str, Any]:
    assert run_command(["new", "board", *line.split(), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_board_of_platformio(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, "mine --from board.json")
    assert (said["extends"], said["fill_in"], said["valid"]) == ("soc/stm32l4r5", [], True)
    board, ours = load_board("mine"), load_board("nucleo_l4r5zi")
    assert (board.title, board.vendor, board.tier) == ("A Nucleo", "st", 3)
    assert (board.cores, board.memory, board.compilers) == (ours.cores, ours.memory, ours.compilers)
    assert board.flash["jlink"] == {"device": "STM32L4R5ZI"}
    assert (board.usb[0].vid, board.usb[0].pid) == (0x0483, 0x374B)
    assert "PlatformIO board.json, https://example.com/nucleo" in board.sources
    assert set(ours.sources) & set(board.sources)
    assert run_command(["build", str(Path(importing.__file__).parents[2] / "examples/digits/digits_int8.tflite"),
                        "--board", "mine", "-o", "out"]) == 0  # fmt: skip


def test_a_board_with_less_flash(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    less = {**PIO, "upload": {"maximum_ram_size": 655360, "maximum_size": 1 << 20}}
    (folder / "board.json").write_text(json.dumps(less))
    said = told(capsys, "small --from board.json")
    assert [line[:50] for line in said["fill_in"]] == ["[[memory]] flash: 1,048,576 bytes of 2,097,152 as "]
    assert (load_board("small").flash_bytes, load_board("small").ram_bytes) == (1 << 20, 655360)


def test_a_chip_that_no_file_has(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PlatformIO knows no addresses: they are to be filled in, and the file cannot be loaded before."""
    (folder / "board.json").write_text(json.dumps({**PIO, "build": {**PIO["build"], "mcu": "acme100"}}))
    said = told(capsys, "unknown --from board.json")
    assert (said["extends"], said["valid"]) == (None, False)
    text = " ".join(said["fill_in"])
    assert all(word in text for word in ("missing key 'base'", "flash: base", "ram: base", "FPU", "[runtime] uart"))
    file = folder / "unknown.toml"
    for base in ("0x0800_0000", "0x2000_0000"):
        file.write_text(file.read_text().replace("# base = 0x FILL IN: its address", f"base = {base}", 1))
    board = load_board("unknown")
    assert (board.core.cpu, board.core.clock_hz, board.memory[1].base) == ("cortex-m4", 120_000_000, 0x2000_0000)
    (folder / "board.json").write_text(json.dumps({**PIO, "build": {"mcu": "acme100", "cpu": "z80"}}))
    said = told(capsys, "odd --from board.json")
    assert "nothing is known of core z80" in " ".join(said["fill_in"])


@pytest.mark.parametrize("tagged", [True, False])
def test_a_chip_of_probe_rs(folder: Path, tagged: bool, capsys: pytest.CaptureFixture[str]) -> None:
    if not tagged:  # as other versions of probe-rs write it
        text = FAMILY.replace("access:\n      write: false\n      boot: true", "is_boot_memory: true")
        memory = r"- !(\w+)\n    range:\n      start: (\w+)\n      end: (\w+)\n    cores:(.*\n(?:    - .*\n)?)"
        text = re.sub(memory, r"- \1:\n      range:\n        start: \2\n        end: \3\n      cores:\4", text)
        text = text.replace("cores:\n    - ", "cores:\n      - ").replace("\n    is_boot", "\n      is_boot")
        assert "!Ram" not in text
        (folder / "family.yaml").write_text(text)
    said = told(capsys, "acme --from family.yaml --chip ACME100")
    assert (said["extends"], said["valid"]) == (None, True)
    board = load_board("acme")
    regions = [(m.name, m.base, int(m.size), m.kind) for m in board.memory]
    assert regions == [
        ("flash", 0x0800_0000, 0x2_0000, "flash"),
        ("ram", 0x2000_0000, 0x8000, "ram"),
        ("ram2", 0x1000_0000, 0x2800, "ram"),
    ]
    assert (board.core.arch, board.flash["probe-rs"]) == ("armv7e-m", {"chip": "ACME100"})
    assert board.sources == ("probe-rs family.yaml",)
    assert "Cortex-M4 and M7" in " ".join(said["fill_in"])
    known = told(capsys, "nordic --from family.yaml --chip NRF52840_xxAA")
    assert (known["extends"], load_board("nordic").core.fpu) == ("soc/nrf52840", "fpv4-sp-d16")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (None, "Mine --from board.json", "not a name for a board: 'Mine'"),
        (None, "x --from family.yaml", "has 2 chips"),
        (None, "x --from family.yaml --chip ACME10", "has no chip 'ACME10'"),
        (None, "x --from none.json", "no such file"),
        ("[]", "x --from board.json", "is not a board of PlatformIO"),
        ('{"build": {"mcu": "x"}}', "x --from board.json", "it has no 'upload'"),
        (json.dumps({**PIO, "upload": {"maximum_size": -1, "maximum_ram_size": 1}}), "x --from board.json", "no size"),
        ("[" * 100_000, "x --from board.json", "is not a board of PlatformIO"),
        ("a: [", "x --from family.yaml", "is not a YAML file"),
        ("a: &a [x]\nb: [*a, *a]\n", "x --from family.yaml", "it has aliases"),
        ("[" * 20_000, "x --from family.yaml", "is not a YAML file"),
        ("a: 1\n", "x --from family.yaml", "is not a family of chips of probe-rs"),
        ("!!python/object/apply:os.system [id]\n", "x --from family.yaml", "is not a YAML file"),
    ],
)
def test_files_that_are_neither(
    folder: Path, text: str | None, line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (folder / line.split()[2]).write_text(text)
    assert run_command(["new", "board", *line.split()]) == 2
    assert says in capsys.readouterr().err
    assert not (folder / "x.toml").exists()


def test_files_that_are_there_stay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.toml").write_text("mine")
    assert run_command(["new", "board", "mine", "--from", "board.json"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (folder / "mine.toml").read_text() == "mine"
    assert run_command(["new", "board", "mine", "--from", "board.json", "--force"]) == 0
    assert "sdk boards show mine" in capsys.readouterr().out


def test_names_that_act_on_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "board.json").write_text(json.dumps({**PIO, "name": 'a\x1b[31m"\n]\\', "vendor": "v\x7f"}))
    assert told(capsys, "odd --from board.json")["valid"]
    assert load_board("odd").title.isprintable()


def test_without_a_reader_of_yaml(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(importing, "find_spec", lambda _: None)
    assert run_command(["new", "board", "x", "--from", "family.yaml"]) == 10
    assert "the package pyyaml is not installed" in capsys.readouterr().err
