"""Bad models: missing, damaged, of another kind, with unknown operators, or too large; each refused in clear words."""

from __future__ import annotations

import json
import re
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


@pytest.mark.parametrize(
    "data", [b"plain text, long enough to be a model\n" * 9, b"PK\3\4" + bytes(90)], ids=["text", "zip"]
)
def test_a_file_of_another_kind(fails: Fails, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "notes.tflite"
    path.write_bytes(data)
    says = ("not a valid TensorFlow Lite model", "identifier", "notes.tflite")
    fails(1, "build", path, "--board", "host", says=says)


def test_a_model_of_another_format(fails: Fails, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.h5"
    path.write_bytes(digits.read_bytes())
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


def test_a_model_too_large_for_flash(fails: Fails, digits: Path, add_board: AddBoard) -> None:
    line = ("build", digits, "--board", add_board("tiny", flash="4K"))
    error = fails(
        1, *line, says=("flash", "tiny has 4096", "@dense_weights 2560 bytes"), hints=("sdk boards",)
    )
    need, over = map(int, re.findall(r"needs (\d+) bytes.* (\d+) too many", error["message"])[0])
    assert need == 4096 + over > 5144  # its weights


def test_a_model_too_large_for_ram(fails: Fails, digits: Path, add_board: AddBoard) -> None:
    line = (digits, "--board", add_board("tiny", ram="512", stack="128"))
    for verb in ("build", "memory"):
        says = ("RAM", "tiny has 512", "conv1 512 bytes")
        error = fails(1, verb, *line, says=says, hints=("sdk boards",))
        need, over = map(int, re.findall(r"needs (\d+) bytes.* (\d+) too many", error["message"])[0])
        assert need == 512 + over >= 768  # conv1 and conv2 are live at once


def test_a_model_that_fits_only_without_the_runtime(fails: Fails, digits: Path, add_board: AddBoard) -> None:
    name = add_board("small", flash="10K")
    line = (digits, "--board", name)
    error = fails(1, "run", *line, says=("does not fit small", "over flash by", "flash 10240 bytes"))
    assert fails(1, "build", *line, "--emit", "firmware", says=())["message"] == error["message"]


def test_an_arena_limit_too_small(fails: Fails, digits: Path) -> None:
    line = ("build", digits, "--board", "microbit", "--arena-limit", "700")
    error = fails(1, *line, says=("limit of 700 B", "%conv1 512 B"), hints=("at least 768 B",))
    need, over = re.findall(r"needs ([\d,]+) B, ([\d,]+) B more", error["message"])[0]
    assert int(need.replace(",", "")) == 700 + int(over)
