"""Bad models: missing, damaged, of another kind, with unknown operators, or too large; each refused in clear words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from failures import Fails
from mutate import mutations
from tflite_files import ModelFile

from sdk.cli import run_command

AddBoard = Callable[..., str]


# Files.


@pytest.mark.parametrize("part", [0, 0.01, 0.5, 0.9])
def test_a_truncated_model(fails: Fails, digits: Path, tmp_path: Path, part: float) -> None:
    data = digits.read_bytes()
    path = tmp_path / "short.tflite"
    path.write_bytes(data[: int(part * len(data))])
    says = ("not a valid TensorFlow Lite model", "byte", "short.tflite")
    fails(1, "build", path, "--board", "host", "-o", tmp_path / "out", says=says, hints=("again",))
    assert not (tmp_path / "out").exists()


def test_damaged_models_are_built_or_refused(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "damaged.tflite"
    refused = 0
    for what, data in mutations(digits.read_bytes(), 12, seed=7):
        path.write_bytes(data)
        line = ["build", str(path), "--board", "host", "-o", str(tmp_path / "out"), "--json"]
        code = run_command(line)
        found = json.loads(capsys.readouterr().out)
        assert code in (0, 1), what
        assert ("error" in found) == (code == 1), what
        if code == 1:
            refused += 1
            assert "internal error" not in found["error"]["message"], what
            assert found["error"]["hint"], what
    assert 0 < refused < 12  # some damage is to weights, which no one can tell


@pytest.mark.parametrize("data", [b"plain text, long enough to be a model\n" * 9, bytes(90)], ids=["text", "zeros"])
def test_a_file_of_another_kind(fails: Fails, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "notes.tflite"
    path.write_bytes(data)
    says = ("not a valid TensorFlow Lite model", "identifier", "notes.tflite")
    fails(1, "build", path, "--board", "host", says=says)


def test_a_model_of_another_format(fails: Fails, tmp_path: Path) -> None:
    path = tmp_path / "net.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(90))
    fails(2, "build", path, "--board", "host", says=("net.h5", "not a model"), hints=(".tflite",))


@pytest.mark.parametrize("verb", ["build", "run", "verify", "bench", "memory"])
def test_a_missing_file(fails: Fails, tmp_path: Path, verb: str) -> None:
    (tmp_path / "digits.tflite").write_bytes(b"")
    line = (verb, tmp_path / "digit.tflite", "--board", "host")
    fails(2, *line, says=("no such file", "digit.tflite"), hints=("did you mean digits.tflite?",))


def test_a_missing_file_in_a_missing_folder(fails: Fails, tmp_path: Path) -> None:
    path = tmp_path / "none" / "net.tflite"
    fails(2, "build", path, "--board", "host", says=("no such file", f"no folder {path.parent}"))


@pytest.mark.parametrize("verb", ["build", "run", "verify", "bench", "memory"])
def test_a_folder_for_a_model(fails: Fails, tmp_path: Path, verb: str) -> None:
    error = fails(2, verb, tmp_path, "--board", "host", says=())
    assert "folder" in f"{error['message']} {error['why']}" or "directory" in error["why"]


# Operators.


def test_all_unsupported_operators_are_reported_at_once(fails: Fails, tmp_path: Path) -> None:
    model = ModelFile()
    a = model.input("a", (1, 4), scale=0.5)
    b, c, d = (model.tensor(name, (1, 4), scale=0.5) for name in "bcd")
    model.op("SIN", [a], [b])
    model.op("RELU", [b], [c])
    model.op("COS", [c], [d])
    model.op("CUSTOM", [d], [model.output("e", (1, 4), scale=0.5)], custom="Mystery")
    path = tmp_path / "odd.tflite"
    path.write_bytes(model.build())
    says = ("3 operators", "node 0 SIN -> b", "node 2 COS -> d", "node 3 Mystery -> e")
    error = fails(1, "build", path, "--board", "host", says=says, hints=("supported operators",))
    assert "RELU" not in f"{error['message']} {error['where']}"


# Memory.


def sizes(message: str) -> list[int]:
    """The bytes needed and those too many."""
    found = re.findall(r"needs ([\d,]+) bytes.* ([\d,]+) too many", message)
    return [int(number.replace(",", "")) for number in found[0]]


def test_a_model_too_large_for_flash(fails: Fails, digits: Path, add_board: AddBoard) -> None:
    line = ("build", digits, "--board", add_board("tiny", flash="4K"))
    says = ("flash", "tiny has 4,096", "text ", "rodata ", "@dense_weights 2,560 bytes")
    error = fails(1, *line, says=says, hints=("sdk boards",))
    need, over = sizes(error["message"])
    assert need == 4096 + over > 5144  # its weights
    assert sum(int(n.replace(",", "")) for n in re.findall(r"[\d,]+", error["where"])) == need


def test_a_model_too_large_for_ram(fails: Fails, digits: Path, add_board: AddBoard) -> None:
    line = (digits, "--board", add_board("tiny", ram="256", stack="128"))
    for verb in ("build", "memory"):
        says = ("RAM", "tiny has 256", "conv1 272", "step 2 (CONV_2D conv2) holds ", "(--memory min) needs")
        error = fails(1, verb, *line, says=says, hints=("sdk boards",))
        need, over = sizes(error["message"])
        assert need == 256 + over >= 768  # conv1 and conv2 are live at once
        parts = [part.rsplit(" ", 1) for part in error["where"].split(" + ")]
        assert [name for name, _ in parts] == ["arena", "states", "context", ".data", ".bss", "stack above 512"]
        assert sum(int(size.replace(",", "")) for _, size in parts) == need


def test_a_model_that_fits_with_the_smallest_plan(
    fails: Fails, digits: Path, add_board: AddBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["memory", str(digits), "--board", "microbit", "--json"]) == 0
    modes = json.loads(capsys.readouterr().out)["modes"]
    between = (modes["time"]["ram_bytes"] + modes["min"]["ram_bytes"]) // 8 * 4
    assert modes["min"]["ram_bytes"] < between < modes["time"]["ram_bytes"]
    line = (digits, "--board", add_board("small", ram=str(between), stack="128"), "--name", "d")
    error = fails(1, "build", *line, says=(f"small has {between:,}", "the smallest plan (--memory min) needs"))
    command = shlex.split(error["hint"])
    assert command == ["sdk", "build", *map(str, line), "--memory", "min"]
    assert run_command([*command[1:], "-o", str(tmp_path / "out"), "--json"]) == 0
    told = re.findall(r"needs ([\d,]+) bytes", error["why"])[0]
    assert json.loads(capsys.readouterr().out)["ram_bytes"] == int(told.replace(",", "")) <= between


def test_an_arena_larger_than_the_first_memory(
    fails: Fails, digits: Path, tmp_path: Path, add_board: AddBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["memory", str(digits), "--board", "nucleo_l4r5zi", "--json"]) == 0
    arenas = {name: mode["arena_bytes"] for name, mode in json.loads(capsys.readouterr().out)["modes"].items()}
    file = tmp_path / "boards" / f"{add_board('split', ram='{size}', stack='128')}.toml"
    slow = '[[memory]]\nname = "slow"\nbase = 0x3000_0000\nsize = "{size}"\nkind = "ram"\nattrs = ["r", "w"]\n'
    text = file.read_text().replace("microbit", "nucleo_l4r5zi") + slow
    line = ("build", digits, "--board", "split")

    file.write_text(text.replace("{size}", str(arenas["time"] - 1)))
    error = fails(1, *line, says=("the first memory of split holds", " 1 too many"))
    assert shlex.split(error["hint"]) == ["sdk", *map(str, line), "--memory", "min"]

    size = arenas["min"] - 1
    file.write_text(text.replace("{size}", str(size)))
    error = fails(1, *line, says=("the first memory of split holds", f"{arenas['min']:,} of them arena"))
    command = shlex.split(error["hint"])
    assert command == ["sdk", *map(str, line), "--region", f"ram={size}", "--region", f"slow={size}"]
    assert run_command([*command[1:], "-o", str(tmp_path / "out"), "--json"]) == 0


def test_a_model_that_fits_only_without_the_runtime(fails: Fails, digits: Path, add_board: AddBoard) -> None:
    name = add_board("small", flash="10K")
    line = (digits, "--board", name)
    error = fails(1, "run", *line, says=("does not fit small", "over flash by", "flash 10240 bytes"))
    assert fails(1, "build", *line, "--emit", "firmware", says=())["message"] == error["message"]


def test_an_arena_limit_too_small(fails: Fails, digits: Path, tmp_path: Path) -> None:
    line = ("build", digits, "--board", "microbit", "-o", tmp_path / "out", "--arena-limit")
    error = fails(1, *line, "300", says=("limit of 300 B", "live at the peak"), hints=("--arena-limit",))
    need, over = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) B\b", error["message"])[:2])
    assert need == 300 + over
    assert re.findall(r"--arena-limit (?:to )?(\d+)", error["hint"]) == [str(need)]
    fails(1, *line, need - 1, says=("1 B more than the limit",))
    assert run_command([*map(str, line), str(need), "--json"]) == 0
