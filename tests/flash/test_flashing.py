"""``sdk flash`` with tools that stand in for real ones: what each is told, that each of their lies is caught, and what
their words mean."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from flash_desk import CONFIRMS, DIGITS, PROGRAMS, Desk, arguments

from sdk.boards import load_board, load_runners
from sdk.boards.runners import Runner
from sdk.boards.table import read_table
from sdk.cli import run_command
from sdk.devices import base
from sdk.driver import BuildOptions, flash
from sdk.driver.execute import verify
from sdk.driver.measuring import bench
from sdk.errors import FlashError, UsageError
from sdk.flash.flashing import Choice
from sdk.flash.image import read_image

WROTE = {  # by runner: what it is started with
    "probe-rs": [
        ["probe-rs", "download", "--non-interactive", "--disable-progressbars", "--chip", "STM32L4R5ZI", "--probe",
         "P1", "--verify", "image.elf"],
        ["probe-rs", "reset", "--non-interactive", "--chip", "STM32L4R5ZI", "--probe", "P1"],
    ],
    "pyocd": [["pyocd", "load", "--no-wait", "--no-config", "--color", "never", "--target", "stm32l4r5", "--probe",
               "P1", "image.elf"]],
    "openocd": [["openocd", "-f", "board/st_nucleo_l4.cfg", "-c", "adapter serial P1", "-c",
                 "program image.elf verify reset exit"]],
    "stm32cubeprogrammer": [["STM32_Programmer_CLI", "--connect", "port=SWD", "mode=UR", "reset=HWrst", "sn=P1",
                             "--download", "image.elf", "--verify", "-hardRst"]],
    "esptool": [["esptool", "--chip", "esp32c3", "--baud", "460800", "--after", "hard-reset", "write-flash",
                 "--no-progress", "0x0", "image.bin"]],
    "bossac": [["bossac", "--info", "--offset=0x4000", "--erase", "--write", "--verify", "--reset", "image.bin"]],
    "west": [["west", "flash", "--skip-rebuild", "--build-dir", "build", "--elf-file", "PATH"]],
    "jlink": [["JLinkExe", "-NoGui", "1", "-ExitOnError", "1", "-Device", "STM32L4R5ZI", "-If", "SWD", "-Speed", "4000",
               "-AutoConnect", "1", "-USB", "P1", "-CommandFile", "image.script"]],
    "uf2-drive": [],
}  # fmt: skip


def test_every_runner_writes_what_then_runs(desk: Desk) -> None:
    desk.install(*PROGRAMS)
    desk.answer_at_once()
    assert set(WROTE) == set(load_runners())
    for name, calls in WROTE.items():
        for left in (desk.log, *desk.flash.iterdir(), *desk.drive.glob("image.*")):
            left.unlink(missing_ok=True)
        report = flash(desk.image, desk.board, BuildOptions(), Choice(name, probe="P1"), "desk:")
        assert (report.flashed.runner, report.checked) == (name, True)
        assert arguments(desk) == calls, name


def test_a_model_becomes_firmware_and_runs(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """The first usable wins; those before it are told of."""
    desk.install("openocd", "JLinkExe")
    line = ["flash", str(DIGITS), "--name", "digits", "--board", "deskboard", "--device", "desk:", "--json"]
    assert run_command(line) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["runner"], said["checked"], said["board"]) == ("openocd", True, "deskboard")
    assert said["build_id"] == read_image(desk.image).build_id != read_image(desk.other).build_id
    assert [one["runner"] for one in said["passed_over"]] == ["probe-rs"]
    assert "not installed" in said["passed_over"][0]["why"]
    assert run_command([*line[:-1], "--runner", "jlink"]) == 0
    assert "the board tells the image's hash" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("do", "says", "status", "message"),
    [
        ("nothing", CONFIRMS, 0, "does not answer after it was flashed"),
        ("other", CONFIRMS, 0, "runs another image than the one flashed"),
        ("nothing", "all done", 0, "did not say that it has written and compared"),
        ("garbage", "", 0, "did not say that it has written and compared"),
        ("garbage", "", 3, "failed with status 3"),
        ("flash", "it went wrong after all", 1, "failed with status 1"),
        ("hang", "", 0, "did not end within"),
    ],
)
def test_lies_are_caught(desk: Desk, do: str, says: str, status: int, message: str) -> None:
    desk.install("openocd")
    desk.behave(do, says, status)
    choice = Choice("openocd", timeout_s=2.0 if do == "hang" else None)
    with pytest.raises(FlashError, match=message) as error:
        flash(desk.image, desk.board, BuildOptions(), choice, "desk:")
    assert error.value.exit_code == 5
    if do == "hang":  # nothing that it started is left
        assert "erasing" in str(error.value.why)
        until = time.monotonic() + 10  # a process that was killed takes a while to go on a busy machine
        while not (gone := _is_dead(int(desk.pid.read_text()))) and time.monotonic() < until:
            time.sleep(0.02)
        assert gone


def _is_dead(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] in "ZX"
    except FileNotFoundError:
        return True


def test_a_board_that_ran_an_older_image(desk: Desk) -> None:
    """A tool that does nothing is caught where something answers too."""
    desk.install("openocd")
    desk.answer_at_once()
    assert flash(desk.other, desk.board, BuildOptions(), Choice("openocd"), "desk:").checked
    desk.behave("nothing")
    with pytest.raises(FlashError, match="another image"):
        flash(desk.image, desk.board, BuildOptions(), Choice("openocd"), "desk:")


SAYS = [  # what a tool prints, and what that is
    ("probe-rs", "Error: No connected probes were found.", 3, "found no probe"),
    ("probe-rs", "JtagNoDeviceConnected", 3, "no board answers"),
    ("openocd", "Error: open failed", 3, "found no probe"),
    ("openocd", "Error: init mode failed (unable to connect to the target)", 3, "no board answers"),
    ("openocd", "Error: libusb_open() failed with LIBUSB_ERROR_ACCESS", 3, "may not open the probe"),
    ("openocd", "Warn : UNEXPECTED idcode: 0x2ba01477\nError: expected 1 of 1: 0x1ba01477", 5, "the chip is not"),
    ("openocd", "Error: libusb_claim_interface() failed with LIBUSB_ERROR_BUSY", 4, "finds its probe in use"),
    ("openocd", "Error: stm32x device protected", 5, "is protected"),
    ("stm32cubeprogrammer", "Error: No debug probe detected.", 3, "found no probe"),
    ("stm32cubeprogrammer", "Error: No STM32 target found!", 3, "no board answers"),
    ("esptool", "Error: This chip is ESP32-C3, not ESP32. Wrong --chip argument?", 5, "the chip is not"),
    ("esptool", "Could not open /dev/ttyUSB9, the port is busy or doesn't exist.", 3, "found no probe"),
    ("bossac", "No device found on /dev/ttyACM0", 3, "found no probe"),
    ("jlink", "Connecting to J-Link via USB...FAILED: Cannot connect to J-Link.", 3, "found no probe"),
    ("jlink", "VTref=0.00V\nCannot connect to target.", 3, "no board answers"),
    ("pyocd", "No connected debug probes\n0001254 E No target device available [load_cmd]", 3, "found no probe"),
]


def test_what_tools_say(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """Each cause has its exit code, what to do, and the tool's own words; some end with status 0."""
    desk.install(*PROGRAMS)
    for runner, words, code, message in SAYS:
        has_confirms = load_runners()[runner].confirms is not None
        desk.behave("nothing", words, 0 if has_confirms else 1)
        line = ["flash", str(desk.image), "--board", "deskboard", "--device", "desk:", "--runner", runner]
        assert run_command(line) == code, (runner, words)
        said = capsys.readouterr().err
        assert all(part in said for part in (message, words.split("\n")[-1], "hint:")), said


def test_no_runner_can(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["flash", str(desk.image), "--board", BASE_BOARD, "--device", "desk:"]
    assert run_command(line) == 10
    said = capsys.readouterr().err
    assert "no runner for nucleo_l4r5zi is installed" in said
    assert "https://probe.rs" in said
    desk.install("probe-rs", "openocd")
    desk.behave("nothing", "No connected probes were found\nError: open failed", 1)
    assert run_command(line) == 3
    said = capsys.readouterr().err
    assert "no runner has reached nucleo_l4r5zi" in said
    assert said.count("found no probe") == 2
    assert [call[0] for call in desk.calls] == ["probe-rs", "openocd"]  # the next is tried where one has no probe
    desk.behave("nothing", "core is locked", 1)
    assert run_command(line) == 5  # but not where the chip itself refuses
    assert len(desk.calls) == 3


BASE_BOARD = "nucleo_l4r5zi"


def test_images_that_do_not_fit(desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = tmp_path / "boards" / "small.toml"
    memory = '[[memory]]\nname = "flash"\nbase = 0x0800_0000\nsize = "8K"\nkind = "flash"\n'
    ram = '[[memory]]\nname = "ram"\nbase = 0x2000_0000\nsize = "640K"\nkind = "ram"\n'
    small.write_text(f'schema = 1\nextends = "deskboard"\n{memory}{ram}')
    desk.install("openocd")
    line = ["flash", str(desk.image), "--runner", "openocd", "--device", "desk:", "--board"]
    assert run_command([*line, "small"]) == 5
    said = capsys.readouterr().err
    start, *_ = read_image(desk.image).parts
    end = max(part.address + len(part.data) for part in read_image(desk.image).parts)
    assert f"flash by {end - start.address - 8192:,} bytes" in said
    assert ".rodata" in said
    assert ".text" in said
    assert run_command([*line, "microbit"]) == 5
    said = capsys.readouterr().err
    assert "the image is not for microbit" in said
    assert "0x08000000" in said
    assert desk.calls == []


def test_drives(desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(desk.folder)
    line = ["flash", str(desk.image), "--board", "deskboard", "--runner", "uf2-drive", "--device", "desk:"]
    second = Path(shutil.copytree(desk.drive, "second"))
    monkeypatch.setattr("sdk.flash.drives._folders", lambda: iter([desk.drive, second]))
    assert run_command(line) == 3
    assert "2 drives may be deskboard" in capsys.readouterr().err
    monkeypatch.setattr("sdk.flash.drives._folders", lambda: iter([desk.drive]))
    (desk.drive / "INFO_UF2.TXT").write_text("UF2 Bootloader\nModel: Other\nBoard-ID: RPI-RP2\n")
    assert run_command(line) == 5
    assert "its board says Desk, and there is RPI-RP2" in capsys.readouterr().err
    (desk.drive / "INFO_UF2.TXT").unlink()
    assert run_command(line) == 3
    assert "no drive of deskboard is mounted" in capsys.readouterr().err
    assert run_command([*line, "--set", f"drive={desk.drive}"]) == 3
    assert "no INFO_UF2.TXT" in capsys.readouterr().err


def test_dry_runs_start_nothing(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.install("openocd")
    assert run_command(["flash", str(DIGITS), "--board", "deskboard", "--dry-run", "--json"]) == 0
    rows = {row["runner"]: row for row in json.loads(capsys.readouterr().out)["runners"]}
    assert list(rows)[:2] == ["probe-rs", "openocd"]
    assert rows["openocd"]["commands"][0][1:3] == ["-f", "board/st_nucleo_l4.cfg"]
    assert "not installed" in rows["probe-rs"]["why_not"]
    assert rows["uf2-drive"]["drive"] == str(desk.drive)
    assert run_command(["flash", str(DIGITS), "--board", "deskboard", "--dry-run"]) == 0
    assert "cannot be used: probe-rs is not installed" in capsys.readouterr().out
    assert desk.calls == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--board host", "host is no board to flash"),
        ("--board qemu-cortex-m4", "is no board to flash"),
        ("--board deskboard --runner none", "unknown runner 'none'"),
        ("--board deskboard --runner openodc", "did you mean openocd?"),
        ("--board deskboard --set chip", "not a setting: 'chip'"),
        ("--board deskboard --device nowhere:", "not a device address"),
        ("--board nucleo_l4r5zi --runner esptool", "esptool is not told its chip for nucleo_l4r5zi"),
        ("--device desk:", "which board is it for?"),
    ],
)
def test_choices_that_are_wrong(desk: Desk, words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = () if "--device" in words else ("--device", "desk:")
    assert run_command(["flash", str(desk.image), *words.split(), *device]) == 2
    assert says in capsys.readouterr().err


def test_files_that_are_no_images(desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for data in (b"not one", b"\x7fELF", desk.image.read_bytes()[:900], b"\x7fELF\x01\x01\x01" + bytes(200)):
        path = tmp_path / "bad.elf"
        path.write_bytes(data)
        assert run_command(["flash", str(path), "--board", "deskboard", "--device", "desk:"]) == 2
        said = capsys.readouterr().err
        assert "bad.elf is no image" in said or "has nothing to write" in said


def test_boards_with_mistakes(desk: Desk, tmp_path: Path) -> None:
    for text, says in (
        ("[flash.probers]\nchip = 'x'", "flash.probers is no runner: did you mean probe-rs?"),
        ("[flash.probe-rs]\nchips = 'x'", "unknown key 'chips'"),
        ("[flash.esptool]\nchip = 'x'", "flash.esptool lacks 'offset'"),
    ):
        (tmp_path / "boards" / "wrong.toml").write_text(f'schema = 1\nextends = "{BASE_BOARD}"\n{text}\n')
        with pytest.raises(UsageError) as error:
            load_board("wrong")
        assert says in str(error.value.why)
    for change, says in (
        ({"commands": [["{nobody}"]]}, "unknown placeholder {nobody}"),
        ({"says": [{"match": "(", "means": "busy"}]}, "no regular expression"),
        ({"commands": []}, "commands belong to a program"),
    ):
        table: dict[str, Any] = {"title": "t", "source": "s", "takes": "elf", "program": ["p"], "commands": [["x"]]}
        with pytest.raises(UsageError, match=says.replace("{", r"\{").replace("(", r"\(")):
            read_table(Runner, {**table, **change}, "x.toml")


def test_models_on_a_board_at_a_port(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs models on a board with other firmware, or with none, flashes it first, where it can."""
    monkeypatch.setitem(base._OPENERS, "serial", desk.open)
    desk.install("openocd")
    options = BuildOptions(name="digits")
    line = (DIGITS, desk.board, "serial:/dev/ttyX", options, "interp", 1)
    assert verify(*line).passed
    assert [call[0] for call in desk.calls] == ["openocd"]
    assert bench(*line[:4], {}, 1, 1).board == "deskboard"
    assert len(desk.calls) == 1  # the image is there
    (desk.drive / "INFO_UF2.TXT").unlink()
    others = (*line[:3], BuildOptions(name="others"), {}, 1, 1)  # the same model in another image
    desk.behave("nothing", "Error: open failed", 1)
    assert bench(*others).board == "deskboard"  # without a probe the board runs what it has
    assert len(desk.calls) == 2
    desk.behave("nothing", "what?", 1)
    with pytest.raises(FlashError, match="failed with status 1"):
        bench(*others)
    monkeypatch.setenv("CROSSLEVEL_FLASH", "no")
    assert bench(*others).board == "deskboard"
    assert len(desk.calls) == 3


def test_runners_are_told_the_port(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port in the device's address is the one that runners over a serial port take."""
    monkeypatch.setitem(base._OPENERS, "serial", desk.open)
    monkeypatch.setattr("sdk.flash.flashing._touch", lambda port, baud: touched.append((port, baud)))
    desk.install("esptool", "bossac")
    desk.answer_at_once()
    touched: list[tuple[str, int]] = []
    for name, uri in (("esptool", "serial:/dev/ttyX@9600"), ("bossac", "serial:ttyX?reset=D0")):
        assert flash(desk.image, desk.board, BuildOptions(), Choice(name), uri).checked
    assert [word for call in desk.calls for word in call if "ttyX" in word] == ["/dev/ttyX", "--port=/dev/ttyX"]
    assert touched == [("/dev/ttyX", 1200)]


def test_tools_that_cannot_be_started(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.install("openocd")
    os.truncate(desk.folder / "bin" / "openocd", 0)
    (desk.folder / "bin" / "openocd").write_text("#!/nowhere\n")
    line = ["flash", str(desk.image), "--board", "deskboard", "--device", "desk:", "--runner", "openocd"]
    assert run_command(line) == 10
    assert "OpenOCD cannot be started" in capsys.readouterr().err
