"""``sdk verify --layers``: the operator with a planted fault is the one that is named."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from sdk import driver
from sdk.boards import load_board
from sdk.cli import run_command
from sdk.driver import BuildOptions, layers
from sdk.driver.entries import join_files
from sdk.driver.files import read_model_file
from sdk.errors import BuildError, UsageError
from sdk.frontends.onnx.operators import OPERATORS as ONNX
from sdk.frontends.tflite.operators import OPERATORS as TFLITE
from sdk.frontends.torch.operators import OPERATORS as TORCH
from sdk.report import LayersReport
from tests.frontends.tflite_files import ModelFile

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits_int8.tflite"
HOST = load_board("host")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of a compiler that was tampered with are not kept for others."""
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))


def chain(path: Path) -> Path:
    """Five operators of floats in a row, and a constant that is computed."""
    rng = np.random.default_rng(3)
    held = {"w": rng.standard_normal((4, 2, 3, 3)), "v": rng.standard_normal((3, 4, 1, 1)), "s": np.full(3, 0.5)}
    made = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in held.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.3),
        helper.make_node("Conv", ["b", "v"], ["c"]),
        helper.make_node("Neg", ["s"], ["t"]),
        helper.make_node("Elu", ["c"], ["d"], alpha=0.7),
        helper.make_node("Softmax", ["d"], ["y"], axis=-1),
    ]
    shapes = ("x", ["n", 2, 6, 6]), ("y", None)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def hunt(model: Path, **more: Any) -> LayersReport:
    options = BuildOptions(dims={"n": (1, 3)} if model.suffix == ".onnx" else {})
    return driver.verify_layers(model, HOST, options, more.pop("against", "auto"), more.pop("cases", 4), **more)


def test_every_tensor_of_a_right_build_agrees(tmp_path: Path) -> None:
    report = hunt(chain(tmp_path / "m.onnx"))
    assert report.passed
    assert report.reference == "onnxruntime"
    # the constant is none of the tensors of a run
    assert [(row.operator, row.name) for row in report.rows] == [
        ("Conv", "a"), ("LeakyRelu", "b"), ("Conv", "c"), ("Elu", "d"), ("Softmax", "y")
    ]  # fmt: skip
    assert {row.ran for row in report.rows} <= {"build", "apart"}
    assert report.rows[1].shape == ("n", 4, 4, 4)


def test_an_attribute_that_the_importer_gets_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: None
) -> None:
    right = ONNX["LeakyRelu"]
    monkeypatch.setitem(ONNX, "LeakyRelu", lambda node: right(replace(node, given={**node.given, "alpha": 0.29})))
    report = hunt(chain(tmp_path / "m.onnx"))
    assert not report.passed
    assert report.first is not None
    assert (report.rows[report.first].operator, report.rows[report.first].name) == ("LeakyRelu", "b")
    assert all(row.passed for row in report.rows[: report.first])
    assert "LeakyRelu" in report.verdict


def test_an_option_that_the_importer_gets_wrong(
    monkeypatch: pytest.MonkeyPatch, own_cache: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Integers: the second of two convolutions is clamped elsewhere."""
    spec = TFLITE["CONV_2D"]
    assert spec.quantised is not None
    right: Callable[[Any], None] = spec.quantised

    def wrong(node: Any) -> None:
        if node.source.endswith("conv2"):
            options = {**node.operator.options, "FusedActivationFunction": 2}  # -1 to 1
            assert options.keys() == node.operator.options.keys()
            node = replace(node, operator=replace(node.operator, options=options))
        right(node)

    monkeypatch.setitem(TFLITE, "CONV_2D", replace(spec, quantised=wrong))
    line = ["verify", "--layers", str(DIGITS), "--board", "host", "--cases", "3"]
    assert run_command([*line, "--json"]) == 8
    data = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in data["layers"]] == ["conv1", "conv2", "flat", "logits", "digit"]
    assert (data["first"], data["passed"], data["build_passed"]) == (1, False, False)
    assert data["layers"][0]["max_abs_err"] == 0
    assert data["layers"][1]["max_abs_err"] >= 1
    assert run_command(line) == 8
    out = capsys.readouterr().out
    assert "the first operator that departs is CONV_2D, which makes conv2" in out
    assert "steps" in out


def test_what_a_board_cannot_hold_is_split_and_then_interpreted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the boards here none is this small: links are refused by how many outputs they would have."""
    connect = layers.connect

    def small(file: Any, *more: Any) -> Any:
        _, found = file.frontend.layers(file, "m", {"n": (1, 3)}, None)
        large = next(layer.value.name for layer in found if layer.name == "c")
        results = {v.name for v in file.frontend.load(file, "m", {"n": (1, 3)}, []).graphs["main"].results}
        if len(results) > 3 or large in results:
            raise BuildError("too much")
        return connect(file, *more)

    monkeypatch.setattr(layers, "connect", small)
    report = hunt(chain(tmp_path / "m.onnx"), cases=2)
    assert report.passed
    assert [row.name for row in report.rows] == ["a", "b", "c", "d", "y"]
    assert [row.ran == "interp" for row in report.rows] == [False, False, True, False, False]


def test_states_go_on_from_step_to_step(tmp_path: Path) -> None:
    """A state that is read, and then written, has at each step what the step before left."""
    path = tmp_path / "m.ir"
    path.write_text(
        "module m imported\n\nstate @s: f32[4] = 0\n\ngraph @main(%x: f32[4]) {\n"
        "  %was = read @s : f32[4]\n  %sum = add(%was, %x) : f32[4]\n  write @s = %sum\n"
        "  %y = neg(%was) : f32[4]\n  return %y\n}\n"
    )
    report = driver.verify_layers(path, HOST, BuildOptions(), "auto", 5)
    assert report.passed
    assert report.reference == "interp"
    assert {row.name for row in report.rows} == {"was", "sum", "y"}


def test_tensors_of_u8_that_are_computed_as_i8(tmp_path: Path) -> None:
    """Whose numbers are 128 lower here."""
    m = ModelFile()
    tensors = [m.input("x", (1, 4), "uint8", 0.1, 128)]
    tensors += [m.tensor(name, (1, 4), "uint8", 0.1 + 0.01 * k, 120 + k) for k, name in enumerate("ab")]
    tensors.append(m.output("y", (1, 4), "uint8", 0.1, 130))
    for source, target in pairwise(tensors):
        m.op("RELU", [source], [target])
    (tmp_path / "m.tflite").write_bytes(m.build())
    report = hunt(tmp_path / "m.tflite", against="litert")
    assert report.passed, report.rows
    assert [row.name for row in report.rows] == ["a", "b", "y"]
    assert "i8" in {row.dtype for row in report.rows}


def test_entries_of_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> None:
    """Each has the tensors and the reference of its own file."""
    text = "module m imported\n\ngraph @main(%x: f32[4]) {\n  %y = neg(%x) : f32[4]\n  return %y\n}\n"
    (tmp_path / "neg.ir").write_text(text)
    joined = join_files({"a": chain(tmp_path / "m.onnx"), "b": DIGITS, "c": tmp_path / "neg.ir"})
    options = BuildOptions(dims={"a.n": (1, 3)})
    right = ONNX["Elu"]
    monkeypatch.setitem(ONNX, "Elu", lambda node: right(replace(node, given={**node.given, "alpha": 0.5})))
    a, b, c = (driver.verify_layers(joined, HOST, options, "auto", 2, entry=entry) for entry in joined.parts)
    assert (a.reference, b.reference, c.reference) == ("onnxruntime", "tflite-micro", "interp")
    assert [(row.operator, row.name, row.passed) for row in a.rows] == [
        ("Conv", "a", True), ("LeakyRelu", "b", True), ("Conv", "c", True), ("Elu", "d", False), ("Softmax", "y", False)
    ]  # fmt: skip
    assert [row.name for row in b.rows if row.passed] == ["conv1", "conv2", "flat", "logits", "digit"]
    assert [row.name for row in c.rows if row.passed] == ["y"]
    with pytest.raises(UsageError, match="onnxruntime does not"):
        driver.verify_layers(joined, HOST, options, "onnxruntime", 1, entry="b")
    with pytest.raises(UsageError, match="3 entries"):
        driver.verify_layers(joined, HOST, options, "auto", 1)


def test_a_device_of_the_user_runs_one_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["verify", "--layers", str(DIGITS), "--device", "local:agent"]) == 2
    assert "leave out --device" in capsys.readouterr().err


def test_a_reference_of_another_format() -> None:
    with pytest.raises(UsageError):
        hunt(DIGITS, against="onnxruntime")


def test_a_reference_that_tells_outputs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    file = read_model_file(DIGITS)
    engines = tuple(replace(engine, layers=None) for engine in file.frontend.engines)
    poor = replace(file, frontend=replace(file.frontend, engines=engines))
    monkeypatch.setattr(layers, "read_model_file", lambda *_: poor)
    with pytest.raises(UsageError, match="tflite-micro does not tell intermediate tensors"):
        hunt(DIGITS, against="tflite-micro", cases=1)


def test_the_engine_is_the_first_that_takes_the_model(tmp_path: Path) -> None:
    """tflite-micro has no sum of u8; LiteRT has."""
    m = ModelFile()
    x, y = m.input("x", (1, 4), "uint8", 0.1, 128), m.output("y", (1, 4), "uint8", 0.2, 120)
    m.op("ADD", [x, x], [y])
    (tmp_path / "m.tflite").write_bytes(m.build())
    report = hunt(tmp_path / "m.tflite")
    assert report.passed
    assert report.reference == "litert"


def _program(path: Path) -> Path:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Linear(3, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(net, (torch.randn(2, 4),)), path)
    return path


def test_a_program_of_pytorch(tmp_path: Path) -> None:
    report = hunt(_program(tmp_path / "m.pt2"))
    assert report.passed
    assert report.reference == "torch"
    assert [row.operator for row in report.rows] == ["linear", "relu", "linear"]


def test_an_operator_of_a_program_of_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> None:
    monkeypatch.setitem(TORCH, "aten.relu.default", lambda node, x: node.call("leaky_relu", x, alpha=0.1))
    report = hunt(_program(tmp_path / "m.pt2"))
    assert [(row.operator, row.passed) for row in report.rows] == [("linear", True), ("relu", False), ("linear", False)]
