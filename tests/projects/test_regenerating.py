"""``sdk new`` once more: of what somebody has edited, in any file of any kind of project, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdk.cli import run_command
from sdk.projects.kinds import kind_names

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
BOARD = ["--board", "nucleo_l4r5zi"]
MORE = {
    "firmware": BOARD, "cmake": BOARD, "platformio": BOARD, "zephyr": BOARD, "arduino": [*BOARD, "--set", "fqbn=a:b:c"],
    "esp-idf": ["--board", "esp32c3_devkitm"], "ios": ["--bindings", "dart"], "web": ["--gpu", "webgpu"],
    "android": ["--bindings", "dart", "--bindings", "rn", "--weights", "file"],
}  # fmt: skip
EDIT = b"\n// mine\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", kind_names())
def test_no_edit_is_lost(kind: str, tmp_path: Path) -> None:
    """Each file is where it was, as it was edited, or that lies in the folder ``replaced``; also the second time."""
    out = tmp_path / "p"
    line = ["new", kind, str(DIGITS), "--name", "m", *MORE[kind], "-o", str(out)]
    assert run_command(line) == 0
    first = contents(out)
    del first["manifest.json"]
    for name in first:
        (out / name).write_bytes(first[name] + EDIT)
    for turn in ("", ".1"):
        assert run_command(line) == 0
        again = contents(out)
        anew = {name for name in first if again[name] == first[name]}
        assert all(again[name] == first[name] + EDIT for name in first.keys() - anew)
        assert all(again[f"replaced/{name}{turn}"] == first[name] + EDIT for name in anew)
        assert {name.split("/")[0] for name in again.keys() - first.keys()} <= {"manifest.json", "replaced"}
        assert anew
        for name in anew:
            (out / name).write_bytes(first[name] + EDIT)
    assert run_command([*line, "--force"]) == 0
    assert {name: text for name, text in contents(out).items() if name in first} == first


def test_what_is_newer_is_no_edit(tmp_path: Path) -> None:
    """Other C of the same name: nothing was edited, so nothing is put aside."""
    line = ["new", "zephyr", str(DIGITS), "--name", "m", *BOARD, "-o", str(tmp_path / "p")]
    assert run_command(line) == 0
    first = contents(tmp_path / "p")
    assert run_command([*line, "--memory", "min"]) == 0
    assert contents(tmp_path / "p") != first
    assert not (tmp_path / "p" / "replaced").exists()


def test_links_to_what_is_not_there_stay(tmp_path: Path) -> None:
    """In the place of a file of the user's: kept; of a generated one: refused."""
    out = tmp_path / "p"
    line = ["new", "zephyr", str(DIGITS), "--name", "m", *BOARD, "-o", str(out)]
    assert run_command(line) == 0
    for name, code in (("prj.conf", 0), ("crosslevel/Kconfig", 2)):
        kept = (out / name).read_bytes()
        (out / name).unlink()
        (out / name).symlink_to(tmp_path / "absent")
        assert run_command(line) == code
        assert (out / name).is_symlink()
        (out / name).unlink()
        (out / name).write_bytes(kept)
    assert not (tmp_path / "absent").exists()
