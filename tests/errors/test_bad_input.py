"""Bad names, options, inputs and outputs: each ends with its exit code and an error that says what to do next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failures import Fails
from tflite_files import ModelFile

from sdk.cli import run_command


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    """A model with an open extent: x is i8[x_0, 4]."""
    model = ModelFile()
    x = model.input("x", (1, 4), scale=0.5, signature=(-1, 4))
    model.op("RELU", [x], [model.output("y", (1, 4), scale=0.5, signature=(-1, 4))])
    path = tmp_path / "open.tflite"
    path.write_bytes(model.build())
    return path


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
        ("--board host --threads 65", ("65",), ("--help",)),
        ("--board host --threads many", ("many",), ("--help",)),
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
    fails(1, *line, says=("bytes, generated code indexes at most",) if board == "host" else ("bytes",))


@pytest.mark.parametrize("dim", ["x_0=1:2", "x_0=2"])
def test_a_reference_that_knows_no_open_extents(fails: Fails, open_model: Path, dim: str) -> None:
    line = ("verify", open_model, "--board", "host", "--against", "tflite-micro", "--dim", dim)
    fails(2, *line, says=("tflite-micro runs fixed shapes only", "x_0"), hints=("--against interp",))


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


# Inputs.


@pytest.mark.parametrize("board", ["host", pytest.param("microbit", marks=pytest.mark.emulator)])
@pytest.mark.parametrize(
    ("inputs", "says", "hints"),
    [
        ({"image": np.zeros((1, 8, 8, 1), np.float32)}, ("'image'", "float32", "int8"), ("astype('int8')",)),
        ({"image": np.zeros((1, 8, 8, 1), np.uint8)}, ("'image'", "uint8", "wants int8"), ("astype",)),
        ({"image": np.zeros((8, 8), np.int8)}, ("'image'", "[8, 8]", "[1, 8, 8, 1]"), ("shape",)),
        ({"image": np.zeros((2, 8, 8, 1), np.int8)}, ("[2, 8, 8, 1]", "[1, 8, 8, 1]"), ("shape",)),
        ({}, ("'image' is missing",), ("--input image=image.npy",)),
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


# Outputs and folders of builds.


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
    fails(2, "run", out, "--board", "microbit", says=("was built for host, not for microbit",), hints=("sdk build",))


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
