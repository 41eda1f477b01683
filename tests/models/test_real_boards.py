"""Every model of integers on chips' own memory maps: bit for bit as its reference, or refused by how much it lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from real import NAMES

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.driver.linked import firmware_map
from sdk.driver.measuring import bench
from sdk.driver.options import BuildOptions

pytestmark = pytest.mark.models

LARGE = ("ad", "person", "vww", "ic")
# By board, one of each core and some small ones: the models that it does not hold.
BOARDS = {
    "rpi_pico": (),
    "nucleo_g0b1re": ("ad",),
    "nucleo_f103rb": LARGE,
    "stm32vldiscovery": ("kws", "wake", *LARGE),
    "nucleo_h743zi": (),
    "nucleo_u575zi_q": (),
    "rpi_pico2": (),
    "esp32c3_devkitm": (),
    "hifive1_revb": ("kws", "person", "vww", "ic"),
}
CORES = ("microbit", "qemu-cortex-m3", "qemu-cortex-m4", "qemu-cortex-m7", "qemu-cortex-m33", "qemu-riscv32")


@pytest.mark.slow
@pytest.mark.parametrize(("board", "name"), [(board, name) for board in BOARDS for name in NAMES])
def test_models_on_chips(models: Path, board: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["verify", str(models / NAMES[name]), "--board", board, "--device", "unicorn://", "--cases", "3", "--json"]
    code, report = run_command(line), json.loads(capsys.readouterr().out)
    if name in BOARDS[board]:
        assert code == 1
        assert "too many" in report["error"]["message"] or "over ram by" in report["error"]["message"], report
    else:
        assert (code, report["exact_cases"], report["reference"]) == (0, 3, "tflite-micro"), report


@pytest.mark.slow
@pytest.mark.emulator
@pytest.mark.parametrize("board", CORES)
def test_both_emulators_count_alike(models: Path, board: str, need_tool: Callable[[str], str]) -> None:
    place = load_board(board)
    assert place.emulator is not None
    need_tool(place.emulator.program)
    found = [bench(models / NAMES["kws"], place, uri, BuildOptions(), {}, 1, 0) for uri in ("unicorn://", "qemu://")]
    ours, theirs = (report.instructions for report in found)
    assert ours is not None
    assert ours == pytest.approx(theirs, rel=0.001)


@pytest.mark.parametrize(("name", "maximum"), [("kws", 48 * 1024), ("hello", 8 * 1024)])
def test_whole_firmware_is_small(models: Path, name: str, maximum: int) -> None:
    """Start-up, UART, wire, agent, model and weights, as they are flashed."""
    flash = firmware_map(models / NAMES[name], load_board("nucleo_l4r5zi"), BuildOptions()).regions[0]
    assert (flash.name, flash.used <= maximum) == ("flash", True), flash
    assert flash.used > maximum // 2


@pytest.mark.slow
def test_plain_c_where_only_that_fits(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On Armv6-M, dense weights are stored as pairs of 16 bits; the error has the command that does without."""
    line = ["build", str(models / NAMES["ad"]), "--board", "nucleo_g0b1re", "-o", str(tmp_path / "out")]
    assert run_command([*line, "--json"]) == 1
    hint = json.loads(capsys.readouterr().out)["error"]["hint"]
    assert hint.endswith("--isa scalar")
    assert run_command([*hint.split()[1:], "-o", str(tmp_path / "out")]) == 0
