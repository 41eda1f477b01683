"""``sdk inspect``: facts of a model against those of the file, read by other means."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import TensorProto, helper, numpy_helper

from sdk.cli import run_command

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
Out = pytest.CaptureFixture[str]


def save(path: Path, nodes: list[Any], shape: list[int | str], **held: np.ndarray[Any, Any]) -> Path:
    """An ONNX model with input x and output y."""
    made = [numpy_helper.from_array(array, name) for name, array in held.items()]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None)))
    graph = helper.make_graph(nodes, "g", [x], [y], made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)])
    onnx.save(model, path)
    return path


def facts(capsys: Out, *line: object, code: int = 0) -> dict[str, Any]:
    """The object of a command line."""
    assert run_command(["inspect", *map(str, line), "--json"]) == code
    return dict(json.loads(capsys.readouterr().out))


def rand(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_quantised_model_is_as_its_file_says(capsys: Out) -> None:
    path = DIGITS / "digits_int8.tflite"
    engine = Interpreter(model_path=str(path))
    found = facts(capsys, path)
    for side, details in (("inputs", engine.get_input_details()), ("outputs", engine.get_output_details())):
        for ours, theirs in zip(found[side], details, strict=True):
            assert ours["shape"] == theirs["shape"].tolist()
            assert ours["dtype"] == "i8"
            scale, zero = theirs["quantization"]
            assert ours["quant"] == {"scale": pytest.approx(scale), "zero_point": zero}
    kinds = {k["kind"]: k["count"] for k in found["operators"]}
    listed = [d["op_name"] for d in engine._get_ops_details() if d["op_name"] != "DELEGATE"]
    assert kinds == {name: listed.count(name) for name in set(listed)}


@pytest.mark.parametrize(
    ("attributes", "weights", "macs"),
    [
        ({}, (6, 4, 3, 3), 6 * 4 * 9 * 6 * 8),
        ({"pads": [1, 1, 1, 1]}, (6, 4, 3, 3), 6 * 4 * 9 * 8 * 10),
        ({"strides": [2, 3]}, (6, 4, 3, 3), 6 * 4 * 9 * 3 * 3),
        ({"group": 4}, (8, 1, 3, 3), 8 * 9 * 6 * 8),
        ({"group": 2, "dilations": [2, 2]}, (6, 2, 3, 3), 6 * 2 * 9 * 4 * 6),
    ],
)
def test_products_of_convolutions(
    tmp_path: Path, capsys: Out, attributes: dict[str, Any], weights: tuple[int, ...], macs: int
) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    found = facts(capsys, save(tmp_path / "m.onnx", [node], [1, 4, 8, 10], w=rand(*weights)))
    assert found["entries"][0]["macs"] == macs
    assert found["parameters"] == np.prod(weights)
    assert found["weights_bytes"] == 4 * (np.prod(weights) + weights[0])  # with the bias that ours always have


def test_open_sizes_are_named_in_formulas(tmp_path: Path, capsys: Out) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, ["batch", 8], w=rand(8, 5))
    found = facts(capsys, path)
    entry = found["entries"][0]
    assert (found["supported"], found["inputs"][0]["shape"]) == (True, ["batch", 8])
    assert (entry["dims"], entry["macs"], entry["macs_text"]) == ({"batch": None}, None, "40*batch")
    assert run_command(["inspect", str(path)]) == 0
    assert "yes, with --dim batch=LO:HI" in capsys.readouterr().out
    entry = facts(capsys, path, "--dim", "batch=2:3")["entries"][0]
    assert (entry["dims"], entry["macs"]) == ({"batch": [2, 3, 1]}, 120)


def test_sizes_that_the_assumed_bounds_do_not_suit(tmp_path: Path, capsys: Out) -> None:
    """Nothing is known of the model but what the file says: the error asks for bounds, as a build does."""
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["n - 100"])
    found = facts(capsys, path, code=2)
    assert (found["supported"], found["error"]["kind"]) == (False, "OpenSizesError")
    assert facts(capsys, path, "--dim", "n=101:120")["supported"]


def test_what_is_not_supported_is_told_by_kind_and_reason(tmp_path: Path, capsys: Out) -> None:
    nodes = [
        helper.make_node("Wobble", ["x"], ["a"], "one", domain="acme"),
        helper.make_node("Wobble", ["x"], ["b"], "two", domain="acme"),
        helper.make_node("Wabble", ["x"], ["c"], "three", domain="acme"),
        helper.make_node("Relu", ["x"], ["y"], "four"),
    ]
    path = save(tmp_path / "m.onnx", nodes, [4, 4])
    found = facts(capsys, path, code=1)
    refused = {r["kind"]: r for r in found["refused"]}
    assert refused["acme::Wobble"]["names"] == ["one", "two"]
    assert refused["acme::Wabble"]["names"] == ["three"]
    assert {k["kind"]: k["refused"] for k in found["operators"]} == {"acme::Wobble": 2, "acme::Wabble": 1, "Relu": 0}
    assert run_command(["inspect", str(path)]) == 1
    out, err = capsys.readouterr()
    assert "one, two" in out
    assert "unsupported operator" in out
    assert err.startswith("error: 3 nodes of the model cannot be imported")
    assert "where" not in err


def test_several_models_are_one_table(tmp_path: Path, capsys: Out) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"no model")
    det = save(tmp_path / "det.onnx", [helper.make_node("Wabble", ["x"], ["y"], domain="acme")], [4, 4])
    paths = [DIGITS / "digits_int8.tflite", det, broken, tmp_path / "gone.onnx", DIGITS / "digits.onnx"]
    assert run_command(["inspect", *map(str, paths)]) == 1
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 1 + len(paths)
    assert [line.split()[0] for line in lines[1:]] == [path.name for path in paths]
    assert [" no: " in line for line in lines[1:]] == [False, True, True, True, False]
    assert err.startswith("error: 3 of 5 models cannot be compiled")
    objects = facts(capsys, *paths, code=1)["models"]
    assert [one["supported"] for one in objects] == [True, False, False, False, True]
    assert [one["error"] and one["error"]["exit_code"] for one in objects] == [None, 1, 1, 2, None]
    assert run_command(["inspect", str(paths[0]), str(paths[4])]) == 0


@pytest.mark.parametrize("line", [["--board", "microbit"], ["--memory", "min"], ["--isa", "scalar", "--json"]])
def test_options_of_builds_are_not_ignored(capsys: Out, line: list[str]) -> None:
    assert run_command(["inspect", str(DIGITS / "digits_int8.tflite"), *line]) == 2
    told = capsys.readouterr().err
    assert f"{line[0]} is for builds" in told
    assert "--stage planned" in told


@pytest.mark.parametrize("line", [["--stage", "imported"], ["--html", "F"], ["--svg", "F"]])
def test_one_model_is_drawn_or_printed(capsys: Out, line: list[str]) -> None:
    assert run_command(["inspect", str(DIGITS / "digits.onnx"), str(DIGITS / "digits.onnx"), *line]) == 2
    assert "2 models" in capsys.readouterr().err


def test_it_loads_no_compiler() -> None:
    """Which is what makes it quick."""
    code = (
        "import sys; from sdk.cli import run_command; code = run_command(['inspect', sys.argv[1]]);"
        "print([m for m in ('sdk.driver.pipeline', 'sdk.compiler.schedules', 'sdk.toolchains', 'jinja2', 'onnx')"
        " if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, str(DIGITS / "digits_int8.tflite")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == "[]\n"
