"""Bad models, names, options and inputs: each ends with its exit code and an error that says what to do next."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Fails
from mutate import mutations
from tflite_files import ModelFile

from sdk.cli import run_command

AddBoard = Callable[..., str]


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    """A model with an open extent: x is i8[x_0, 4]."""
    model = ModelFile()
    x = model.input("x", (1, 4), scale=0.5, signature=(-1, 4))
    model.op("RELU", [x], [model.output("y", (1, 4), scale=0.5, signature=(-1, 4))])
    path = tmp_path / "open.tflite"
    path.write_bytes(model.build())
    return path


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
    for what, data in mutations(digits.read_bytes(), 12, seed=3):
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


def test_a_build_folder_that_is_a_file(fails: Fails, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    line = ("build", digits, "--board", "host", "-o")
    fails(2, *line, tmp_path / "taken", says=("taken",), hints=("-o",))
    fails(2, *line, tmp_path / "taken" / "out", says=("taken",), hints=("-o",))


def test_an_output_file_that_is_a_folder(fails: Fails, digits: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8, 1), np.int8))
    line = ("run", digits, "--board", "host", "--input", f"image={tmp_path / 'x.npy'}")
    fails(2, *line, "--output", tmp_path, says=(str(tmp_path),), hints=("--output",))


def test_a_build_folder_for_another_board(
    fails: Fails, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_command(["build", str(digits), "--board", "host", "-o", str(out), "--json"]) == 0
    capsys.readouterr()
    fails(2, "run", out, "--board", "microbit", says=("host", "microbit"), hints=("sdk build",))


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


# Names and options.


@pytest.mark.parametrize(
    ("options", "says", "hints"),
    [
        ("--board microbt", ("unknown board 'microbt'",), ("did you mean microbit?",)),
        ("--board zzz", ("unknown board 'zzz'",), ("sdk boards", "microbit", "nucleo_l4r5zi")),
        ("--board host --isa avx3", ("host has no avx3",), ("--isa scalar",)),
        ("--board microbit --isa thumb+dsp", ("microbit has no dsp",), ("thumb", "--isa scalar")),
        ("--board host --toolchain zgi", ("unknown toolchain 'zgi'",), ("did you mean zig?",)),
        ("--board host --toolchain msvc9", ("unknown toolchain",), ("zig, gcc, clang",)),
        ("--board host --threads 2", ("2 threads",), ("--threads",)),
        ("--board host --threads many", ("many",), ("--help",)),
        ("--board host --memory min", ("'min' is not available",), ("--arena-limit",)),
        ("--board host --memory small", ("small", "time", "min"), ("--help",)),
        ("--board host --arena-limit lots", ("not a size: 'lots'", "--arena-limit"), ("640K",)),
        ("--board host --dim n", ("not a dimension: 'n'", "--dim"), ("--dim n=1:256",)),
        ("--board host --dim n=1:2:3", ("'n=1:2:3'", "--dim"), ("--dim n=1:256",)),
        ("--board host --dim n=-1", ("'n=-1'", "--dim"), ("--dim n=1:256",)),
        ("--board host --dim n=9:2", ("empty range", "9 is above 2"), ("n=",)),
        ("--board host --dim n=1:2", ("no dim n",), ("fixed",)),
    ],
)
def test_names_and_options(
    fails: Fails, digits: Path, options: str, says: tuple[str, ...], hints: tuple[str, ...]
) -> None:
    fails(2, "build", digits, *options.split(), says=says, hints=hints)


def test_a_toolchain_of_another_target(fails: Fails, digits: Path, need_tool: Any) -> None:
    need_tool("gcc")
    line = ("build", digits, "--board", "microbit", "--toolchain", "gcc")
    fails(2, *line, says=("gcc does not build for thumb",), hints=("--toolchain zig", "arm-none-eabi-gcc"))


def test_a_dim_that_the_model_does_not_have(fails: Fails, open_model: Path) -> None:
    fails(2, "build", open_model, "--board", "host", "--dim", "z=1:2", says=("no dim z",), hints=("x_0",))


@pytest.mark.parametrize("board", ["host", "microbit"])
def test_bounds_that_no_memory_holds(fails: Fails, open_model: Path, board: str) -> None:
    line = ("build", open_model, "--board", board, "--dim", f"x_0=1:{10**15}")
    error = fails(1, *line, says=(), hints=("--dim",))
    assert "x" in error["where"]


@pytest.mark.parametrize("dim", ["x_0=1:2", "x_0=2"])
def test_a_reference_that_knows_no_open_extents(fails: Fails, open_model: Path, dim: str) -> None:
    line = ("verify", open_model, "--board", "host", "--against", "tflite-micro", "--dim", dim)
    fails(2, *line, says=("tflite-micro", "x_0"), hints=("--against interp",))


@pytest.mark.parametrize(
    ("at", "says", "hints"),
    [
        ("x_0=9", ("x_0=9", "1..4"), ("--at",)),
        ("n=1", ("no dimension 'n'",), ("x_0",)),
        ("x_0=2", ("'x'", "[1, 4]", "[2, 4]"), ("shape",)),
    ],
    ids=["outside", "unknown", "other shape"],
)
def test_values_of_dims_at_run(
    fails: Fails, open_model: Path, tmp_path: Path, at: str, says: tuple[str, ...], hints: tuple[str, ...]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.int8))
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--at", at)
    fails(2, "run", open_model, "--board", "host", "--dim", "x_0=1:4", *given, says=says, hints=hints)


def test_a_value_of_a_dim_of_a_model_without(fails: Fails, digits: Path) -> None:
    fails(2, "run", digits, "--board", "host", "--at", "n=1", says=("no dimension 'n'",), hints=("none",))


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


# Inputs.


@pytest.mark.parametrize("board", ["host", pytest.param("microbit", marks=pytest.mark.emulator)])
@pytest.mark.parametrize(
    ("inputs", "says", "hints"),
    [
        ({"image": np.zeros((1, 8, 8, 1), np.float32)}, ("'image'", "float32", "int8"), ("astype('int8')",)),
        ({"image": np.zeros((1, 8, 8, 1), np.uint8)}, ("'image'", "uint8", "wants int8"), ("astype",)),
        ({"image": np.zeros((8, 8), np.int8)}, ("'image'", "[8, 8]", "[1, 8, 8, 1]"), ("shape",)),
        ({"image": np.zeros((2, 8, 8, 1), np.int8)}, ("[2, 8, 8, 1]", "[1, 8, 8, 1]"), ("shape",)),
        ({}, ("'image' is missing",), ("--input image=FILE.npy",)),
        ({"imgae": np.zeros((1, 8, 8, 1), np.int8)}, ("no input 'imgae'",), ("image",)),
    ],
    ids=["float", "unsigned", "rank", "extent", "missing", "unknown"],
)
def test_inputs(
    fails: Fails,
    digits: Path,
    tmp_path: Path,
    need_tool: Any,
    board: str,
    inputs: dict[str, Any],
    says: tuple[str, ...],
    hints: tuple[str, ...],
) -> None:
    if board != "host":
        need_tool("qemu-system-arm")
    given: list[str] = []
    for name, value in inputs.items():
        np.save(tmp_path / f"{name}.npy", value)
        given += ["--input", f"{name}={tmp_path / name}.npy"]
    fails(2, "run", digits, "--board", board, *given, says=says, hints=hints)


@pytest.mark.parametrize("what", ["a model", "nothing", "text"])
def test_an_input_file_that_is_no_array(fails: Fails, digits: Path, tmp_path: Path, what: str) -> None:
    path = {"a model": digits, "nothing": tmp_path / "none.npy", "text": tmp_path / "text.npy"}[what]
    (tmp_path / "text.npy").write_text("1 2 3")
    line = ("run", digits, "--board", "host", "--input", f"image={path}")
    error = fails(2, *line, says=(path.name, "--input image"), hints=("np.save",))
    assert "unsafely" not in error["why"]  # numpy's advice to load what may run code


# The process.


def test_people_get_the_error_on_stderr_and_nothing_on_stdout(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sdk", "build", str(tmp_path), "--board", "hots"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: unknown board 'hots'\n  hint: did you mean host?\n"


def test_a_reader_that_has_left_is_no_error(digits: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "sdk", "inspect", str(digits), "--stage", "imported"]
    try:
        done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=60)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")
