"""``sdk diff``: two models or builds side by side, and how far their results are apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sdk.boards import load_board
from sdk.devices.messages import TensorInfo
from sdk.driver import BuildOptions, comparing, diff
from sdk.driver.program import save_program
from sdk.graph import ModuleBuilder, f32
from tests.cli.conftest import Mistake

HOST = load_board("host")
SCALE, ZERO = 0.05, 3


def product(path: Path, gain: float = 1.0, names: tuple[str, str] = ("x", "y"), width: int = 8) -> Path:
    """A file of a product of ``width`` numbers with a matrix, whose result is ``gain`` times what it is by default."""
    g = ModuleBuilder("product")
    w = g.const("w", gain * np.random.default_rng(1).standard_normal((width, 4)).astype(np.float32))
    with g.entry("main") as e:
        e.output(names[1], e.input(names[0], f32, (2, width)) @ w)
    save_program(g.module(), path)
    return path


def test_the_same_model_is_the_same(tmp_path: Path) -> None:
    one = product(tmp_path / "a.ir")
    report = diff(one, one, HOST, BuildOptions())
    assert report.same_results is True
    assert report.cases == 5
    data = report.to_json()
    assert data["before"] == {**data["after"], "median_ms": data["before"]["median_ms"]}
    assert data["before"]["median_ms"] >= 0
    assert data["before"]["macs"] == 2 * 8 * 4


def test_how_far_results_are_apart(tmp_path: Path) -> None:
    """By other names, in their order; the largest difference of all is that of the largest number here."""
    one = product(tmp_path / "a.ir")
    other = product(tmp_path / "b.ir", gain=2.0, names=("in", "out"))
    report = diff(one, other, HOST, BuildOptions(), cases=3)
    (found,) = report.outputs
    assert (found.name, found.same, report.same_results) == ("y", False, False)
    assert found.max_rel == pytest.approx(0.5, rel=0.2)  # |y - 2 y| to the largest of |2 y|
    assert found.max_abs > 1


def tensor(dtype: str, scale: float = 0.0, zero_point: int = 0) -> TensorInfo:
    return TensorInfo("x", dtype, (1, 64), scale, zero_point, 64 * np.dtype(dtype).itemsize)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tensor("float32"), tensor("int8", SCALE, ZERO)),
        (tensor("int8", SCALE, ZERO), tensor("float32")),
        (tensor("int16", SCALE / 256), tensor("uint8", SCALE, 128 + ZERO)),
        (tensor("int8", SCALE, ZERO), tensor("uint8", SCALE, 128 + ZERO)),
    ],
)
def test_the_same_reals_go_in_and_are_compared(one: TensorInfo, other: TensorInfo) -> None:
    a, b = comparing._drawn(one, other, np.random.default_rng(0))
    assert (a.dtype, b.dtype) == (np.dtype(one.dtype), np.dtype(other.dtype))
    assert len(np.unique(a)) > 32
    assert comparing._apart(one, other, a, b).max_abs < 1e-5
    moved, k = b.copy(), int(np.argsort(b[0])[32])  # in the middle, so that it stays in the type
    moved[0, k] += 2
    assert comparing._apart(one, other, a, moved).max_abs == pytest.approx(2 * (other.scale or 1.0), abs=1e-4)


def test_a_float_model_and_a_quantised_one(desk: Path) -> None:
    g = ModuleBuilder("digits")
    w = g.const("w", np.zeros((64, 10), np.float32))
    with g.entry("main") as e:
        e.output("digit", e.softmax(e.reshape(e.input("image", f32, (1, 8, 8, 1)), shape=(1, 64)) @ w))
    save_program(g.module(), desk / "flat.ir")
    (found,) = diff(Path("model.tflite"), desk / "flat.ir", HOST, BuildOptions()).outputs
    assert 0.5 < found.max_abs <= 0.9  # a digit that is sure, beside a tenth for all


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    one, wide = product(tmp_path / "a.ir"), product(tmp_path / "b.ir", width=9)
    report = diff(one, wide, HOST, BuildOptions())
    assert (report.same_results, report.cases, report.outputs) == (None, 0, ())
    assert report.notes == ("results are not compared: input x has shape [2, 8] here and [2, 9] there",)
    assert report.after.macs > report.before.macs


@pytest.mark.emulator
def test_the_command(desk: Path, works: Callable[[str], str], need_tool: Callable[[str], str]) -> None:
    """Two folders of builds, on the emulated board that they were made for; a dim that one model has alone."""
    works("sdk build model.tflite --board microbit -o fast")
    works("sdk build model.tflite --board microbit --memory min -o small")
    said = works("sdk diff fast small")
    rows = {line.split("  ")[0].strip(): line.split() for line in said.splitlines()}
    assert said.startswith("microbit\n")
    data = json.loads(works("sdk diff fast small --json"))
    before, after = data["before"], data["after"]
    assert after["ram_bytes"] < before["ram_bytes"]
    assert data["same_results"] is True
    assert rows["RAM"][1:3] == [str(before["ram_bytes"]), str(after["ram_bytes"])]
    assert f"{after['ram_bytes'] - before['ram_bytes']:+,}" == rows["RAM"][3]
    assert min(before["instructions"], after["instructions"]) > 10_000
    assert "results: the same on 5 random inputs" in said
    said = works("sdk diff float.onnx model.tflite --board host --dim batch=1")
    assert "results are not compared: input image has shape [1, 1, 8, 8] here and [1, 8, 8, 1] there" in said


def test_mistakes(desk: Path, mistake: Mistake) -> None:
    told = mistake("sdk diff model.tflite float.onnx")
    assert told.message == "no board to build the models for"
    assert "--board host" in told.hint
    assert mistake("sdk diff model.tflite model.tflit --board host").hint == "did you mean model.tflite?"
    told = mistake("sdk diff model.tflite float.onnx --board host --dim batch=1 --dim length=1")
    assert "length" in told.message
    (desk / "empty").mkdir()
    assert "not a folder that sdk build made" in mistake("sdk diff empty model.tflite").message
