"""What generated C says of itself is true: the commands in its header compile it, other flags are refused with words,
each kernel is described; and one interface serves this machine and a board."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sdk import driver
from sdk.boards import load_board
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"


def build(out: Path, board: str, **options: object) -> Path:
    driver.build(DIGITS, load_board(board), BuildOptions(name="net", **options), emit="c", out=out)  # type: ignore[arg-type]
    return out


def commands(folder: Path) -> list[list[str]]:
    """The command lines in the header."""
    head = (folder / "net.h").read_text().split("#ifndef")[0]
    return [shlex.split(line) for line in re.findall(r"(?:Compile with|or): (.*?)(?: \*/)?$", head, re.MULTILINE)]


def compiled(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    if command[0] == "zig":
        command = [sys.executable, "-m", "ziglang", *command[1:]]
    line = [*command, "net.c", "-o", "net.o"]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("board", ["nucleo_l4r5zi", "microbit", "wasm32"])
def test_the_commands_compile(board: str, tmp_path: Path) -> None:
    folder = build(tmp_path, board)
    head = (folder / "net.h").read_text()
    assert f"Made for {load_board(board).core.cpu} " in head
    found = [line for line in commands(folder) if line[0] == "zig" or shutil.which(line[0])]
    assert found
    for command in found:
        done = compiled(command, folder)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("board", "was", "wrong", "lacks"),
    [
        ("nucleo_l4r5zi", "-mcpu=cortex_m4+vfp4d16sp", "-mcpu=cortex_m3", "dsp"),
        ("wasm32", "-mcpu=generic+simd128", "-mcpu=generic", "simd128"),
    ],
)
def test_other_flags_are_refused_in_words(board: str, was: str, wrong: str, lacks: str, tmp_path: Path) -> None:
    folder = build(tmp_path, board)
    command = commands(folder)[0]
    assert was in command
    done = compiled([wrong if word == was else word for word in command], folder)
    assert done.returncode != 0
    assert f"net.c uses {lacks}: compile it as net.h says" in done.stderr


def test_plain_c_takes_any_flags(tmp_path: Path) -> None:
    folder = build(tmp_path, "nucleo_l4r5zi", isa="scalar")
    text = (folder / "net.c").read_text()
    assert "#error" not in text
    assert set(re.findall(r'__asm__\("(.*?)"', text)) <= {""}  # no instruction: it hides an address from compilers
    done = subprocess.run(["gcc", "-std=c99", "-c", "net.c"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_kernel_is_described(tmp_path: Path) -> None:
    for board, how in (("nucleo_l4r5zi", r"\d+ blocks? of inline assembly"), ("microbit", "plain C")):
        text = (build(tmp_path / board, board) / "net.c").read_text()
        for layer in ("CONV_2D conv1", "CONV_2D conv2", "FULLY_CONNECTED logits", "SOFTMAX digit"):
            assert re.search(rf"^/\* {layer}\n   .*\[.*\]\n   .* \*/\nstatic ", text, re.MULTILINE), layer
        assert re.search(rf"/\* CONV_2D conv2\n   x i8\[1, 8, 8, 8\], .*\n   {how}", text)


# --- one interface ----------------------------------------------------------------------------------------


def interface(folder: Path) -> str:
    """A header without comments and without what each board has its own number of."""
    text = re.sub(r"/\*.*?\*/", "", (folder / "net.h").read_text(), flags=re.DOTALL)
    own = r"^#define NET_(ARENA|STATE|WEIGHTS|STACK)_\w+ .*\n"
    return re.sub(own, "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_one_interface_for_host_and_board(io: str, tmp_path: Path) -> None:
    host, board = build(tmp_path / "host", "host", io=io), build(tmp_path / "board", "nucleo_l4r5zi", io=io)
    assert interface(host) == interface(board)
    assert ("net_main_in" in interface(host) or "net_in;" in interface(host)) == (io == "caller")


def test_results_are_the_same_wherever_inputs_lie(need_tool) -> None:  # type: ignore[no-untyped-def]
    need_tool("qemu-system-arm")
    x = np.arange(64, dtype=np.int8).reshape(1, 8, 8, 1)
    found = []
    for board, io in (("host", "arena"), ("host", "caller"), ("nucleo_l4r5zi", "arena"), ("nucleo_l4r5zi", "caller")):
        result = driver.run(DIGITS, load_board(board), None, BuildOptions(io=io), {}, {"image": x})  # type: ignore[arg-type]
        found.append(result.outputs["digit"].tobytes())
    assert len(set(found)) == 1


def test_buffers_of_the_caller_count(tmp_path: Path) -> None:
    options = {"name": "net", "io": "caller"}
    report = driver.build(DIGITS, load_board("microbit"), BuildOptions(**options), emit="c", out=tmp_path)  # type: ignore[arg-type]
    assert report.io_bytes == 64 + 10
    assert report.ram_parts["inputs and outputs"] == report.io_bytes
    assert report.ram_bytes == sum(report.ram_parts.values())
    with pytest.raises(UsageError, match="cannot lie in 'flash'"):
        BuildOptions(io="flash")  # type: ignore[arg-type]
