"""What ``sdk verify`` tries and compares with: extremes among random inputs, references with their settings stated."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sdk.cli import run_command
from sdk.compiler.ir.graph import Graph, Value
from sdk.compiler.ir.types import BOOL, F32, I8, I64, Quant, TensorType
from sdk.compiler.sym import Var
from sdk.driver.execute import difference
from sdk.driver.files import read_model_file
from sdk.driver.reference import case_inputs, open_reference, random_dims
from sdk.frontends.base import ModelFile as TfliteFile
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.importer import import_tflite
from sdk.report import VerifyReport

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "frontends"))
from tflite_files import ModelFile

N = Var("n", 2, 8)
GRAPH = Graph(
    "main",
    (N,),
    (
        Value("q", TensorType(I8, (N.expr, 3), Quant(0.5, 7))),
        Value("plain", TensorType(I8, (2,))),
        Value("real", TensorType(F32, (N.expr,))),
        Value("flag", TensorType(BOOL, (2,))),
        Value("index", TensorType(I64, (2,))),
    ),
    (),
    (),
)


def test_extremes_stand_among_random_inputs() -> None:
    rng = np.random.default_rng(0)
    wanted = {1: (-128, -128, -4.0, False, 0), 2: (127, 127, 4.0, True, 1), 3: (7, 0, 0.0, False, 0)}
    for case in range(6):
        dims = random_dims(GRAPH, rng, case, {})
        inputs, drawn = case_inputs(GRAPH, rng, dims, case)
        assert inputs["q"].shape == (dims["n"], 3)
        assert [inputs[v.name].dtype for v in GRAPH.params] == [v.type.dtype.numpy for v in GRAPH.params]
        if case in wanted:
            assert drawn.startswith("all ")
            for value, number in zip(GRAPH.params, wanted[case], strict=True):
                assert (inputs[value.name] == number).all(), (case, value.name)
        else:
            assert drawn == "random"
            assert len(np.unique(inputs["real"])) > 1
    assert [random_dims(GRAPH, rng, case, {})["n"] for case in (0, 1)] == [8, 2]


@pytest.mark.parametrize(
    ("got", "want", "agrees"),
    [
        (np.array([2**62 + 1]), np.array([2**62]), False),  # the same as floats
        (np.array([2**64 - 1], np.uint64), np.array([2**64 - 2], np.uint64), False),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), True),
        (np.array([np.inf, 1.0]), np.array([np.inf, 1.0]), True),
        (np.array([np.inf, 1.5]), np.array([np.inf, 1.0]), False),  # no infinity hides another difference
        (np.array([0.0]), np.array([np.nan]), False),
        (np.array([np.inf]), np.array([-np.inf]), False),
        (np.array([1.0, 2.0]), np.array([1.0]), False),
        (np.array([True]), np.array([False]), False),
    ],
)
def testdifferences(got: np.ndarray, want: np.ndarray, agrees: bool) -> None:
    absolute, relative, ok = difference(got, want)
    assert (ok, absolute == 0) == (agrees, agrees)
    report = VerifyReport("m", "b", "d", False, "interp", {}, 1, 0, absolute, relative, ok)
    json.dumps(report.to_json(), allow_nan=False)


def _qdq(path: Path) -> Path:
    """A quantised linear layer of i8."""
    weights = np.random.default_rng(1).integers(-128, 128, (16, 8)).astype(np.int8)
    constants = [
        *(helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("s", 0.05), ("t", 3.7193))),
        *(helper.make_tensor(n, TensorProto.INT8, [], [v]) for n, v in (("z", 3), ("zw", 0))),
        onnx.numpy_helper.from_array(weights, "w"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "s", "zw"], ["wf"]),
        helper.make_node("MatMul", ["xf", "wf"], ["yf"]),
        helper.make_node("QuantizeLinear", ["yf", "t", "z"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT8, [2, 16])
    y = helper.make_tensor_value_info("y", TensorProto.INT8, [2, 8])
    graph = helper.make_graph(nodes, "qdq", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_onnxruntime_is_asked_for_no_optimisation(tmp_path: Path) -> None:
    path = _qdq(tmp_path / "qdq.onnx")
    reference = open_reference("auto", path, import_onnx(path, "qdq"))
    options = reference.session.get_session_options()  # type: ignore[attr-defined]
    assert options.graph_optimization_level.name == "ORT_DISABLE_ALL"
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)
    assert options.use_deterministic_compute


@pytest.mark.parametrize(
    ("against", "names"),
    [
        ("auto", {"graph_optimizations", "threads", "deterministic", "provider"}),
        ("interp", {"graph", "engine"}),
    ],
)
def test_reports_say_what_they_compare_with(
    against: str, names: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["verify", str(_qdq(tmp_path / "qdq.onnx")), "--board", "host", "--against", against]
    assert run_command([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (set(found["reference_options"]), found["cases"], found["exact_cases"]) == (names, 20, 20)
    assert run_command([*line, "--cases", "1"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name} " in text for name in names), text


def test_results_that_are_inputs_or_constants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They have names of their own in the build."""
    m = ModelFile()
    x, k, y = m.input("x", (2,), "float32"), m.const("k", [3.0, 4.0], "float32"), m.output("y", (2,), "float32")
    m.op("ADD", [x, k], [y], "AddOptions")
    m.outputs[:] = [x, y, k]
    path = tmp_path / "ends.tflite"
    path.write_bytes(m.build())
    line = ["verify", str(path), "--board", "host", "--cases", "3", "--json"]
    assert run_command(line) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["reference"], found["exact_cases"], found["passed"]) == ("litert", 3, True)


def _micro_or_litert(m: ModelFile) -> str:
    file = read_model_file(TfliteFile(Path("m.tflite"), m.build(), FRONTEND))
    return open_reference("auto", file, import_tflite(file.data, "m")).name


def test_what_a_quantised_file_is_compared_with() -> None:
    """Integers with tflite-micro, floats at the ends or not; what only one engine has with that one."""
    m = ModelFile()
    x, q = m.input("x", (1, 8), "float32"), m.tensor("q", (1, 8), "int8", 0.1, 3)
    w, r = m.const("w", np.ones((4, 8)), "int8", scale=0.02), m.tensor("r", (1, 4), "int8", 0.2, 1)
    m.op("QUANTIZE", [x], [q])
    m.op("FULLY_CONNECTED", [q, w], [r], "FullyConnectedOptions")
    m.op("DEQUANTIZE", [r], [m.output("y", (1, 4), "float32")])
    assert _micro_or_litert(m) == "tflite-micro"
    m.op("GREATER", [m.outputs[0], m.const("k", 0.5, "float32")], [m.output("z", (1, 4), "bool")])
    assert _micro_or_litert(m) == "litert"
    only = ModelFile()
    samples = only.tensor("s", (4,), "int16")
    only.op("CAST", [only.input("x", (4,), "float32")], [samples], "CastOptions")
    window = only.const("w", [4096] * 4, "int16")
    only.op("CUSTOM", [samples, window], [only.output("y", (4,), "int16")], custom="SignalWindow", flags={"shift": 12})
    assert _micro_or_litert(only) == "tflite-micro"
