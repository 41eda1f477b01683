"""Weights and multiply-accumulates: `inspect`, `build`, `memory` and `profile` say the same, in the same words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
NUMBER = re.compile(r"((?:weights|MACs)(?: of \w+)? (?:in the model|as compiled))  *(?:at most )?([\d,]+)")


def save(path: Path, nodes: list[Any], shape: list[int | str], **held: np.ndarray[Any, Any]) -> Path:
    made = [numpy_helper.from_array(array, name) for name, array in held.items()]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None)))
    graph = helper.make_graph(nodes, "g", [x], [y], made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def rand(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def digits(_: Path) -> tuple[str, ...]:
    return (str(DIGITS / "digits_int8.tflite"),)


def open_batch(folder: Path) -> tuple[str, ...]:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return str(save(folder / "open.onnx", nodes, ["batch", 8], w=rand(8, 5))), "--dim", "batch=1:12"


def dead_channels(folder: Path) -> tuple[str, ...]:
    """Half the channels of the first quantised convolution are the same whatever comes in."""
    rng = np.random.default_rng(0)
    first, second = (rng.integers(-127, 128, shape).astype(np.int8) for shape in ((16, 3, 3, 3), (8, 16, 3, 3)))
    bias = rng.integers(-500, 500, 16).astype(np.int32)
    first[::2], bias[::2] = 0, -1000
    held = {"w": first, "v": second, "b": bias, "s": np.float32(0.05), "t": np.float32(0.0025), "z": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]), dequantised("xq", "s"), dequantised("w", "s"),
        helper.make_node("DequantizeLinear", ["b", "t"], ["b_real"]), dequantised("v", "s"),
        helper.make_node("Conv", ["xq_real", "w_real", "b_real"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["rq"]), dequantised("rq", "s"),
        helper.make_node("Conv", ["rq_real", "v_real"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]  # fmt: skip
    return (str(save(folder / "dead.onnx", nodes, [1, 3, 12, 12], **held)),)


def dequantised(name: str, scale: str) -> Any:
    return helper.make_node("DequantizeLinear", [name, scale, "z"], [f"{name}_real"])


def two_entries(folder: Path) -> tuple[str, ...]:
    paths = []
    for name, after in (("a", "Relu"), ("b", "Tanh")):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node(after, ["m"], ["y"])]
        paths.append(save(folder / f"{name}.onnx", nodes, [4 if name == "a" else 1, 8], w=rand(8, 8)))
    return f"first={paths[0]}", f"second={paths[1]}"


# a model, and the board that it is for
MODELS: dict[str, tuple[Callable[[Path], tuple[str, ...]], str]] = {
    "digits": (digits, "nucleo_l4r5zi"),
    "open": (open_batch, "host"),
    "dead": (dead_channels, "nucleo_l4r5zi"),
    "entries": (two_entries, "host"),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", MODELS)
def test_four_verbs_agree(name: str, tmp_path: Path, capsys: Out) -> None:
    make, board = MODELS[name]
    line = make(tmp_path)
    entries = [word.partition("=")[0] for word in line if "=" in word and "--dim" not in line] or ["main"]
    on = [*line, "--board", board]
    # profiles are of one run of one entry: with dims, at the upper bounds, where the others count
    at = ["--at", "batch=12"] if name == "open" else []
    out = str(tmp_path / "out")
    commands = {"inspect": ["inspect", *line], "memory": ["memory", *on], "build": ["build", *on, "-o", out]}
    commands |= {entry: ["profile", *on, *at, *(["--entry", entry] if entries[1:] else [])] for entry in entries}
    told: dict[str, dict[str, int]] = {}
    objects: dict[str, dict[str, Any]] = {}
    for verb, words in commands.items():
        assert run_command(words) == 0, capsys.readouterr().err
        told[verb] = {what: int(n.replace(",", "")) for what, n in NUMBER.findall(capsys.readouterr().out)}
        assert run_command([*words, "--json"]) == 0
        objects[verb] = json.loads(capsys.readouterr().out)
    build = objects["build"]
    assert build["weights"]["compiled"] == build["weights_bytes"]
    assert objects["memory"]["weights"] == build["weights"]
    assert objects["memory"]["macs"] == build["macs"]
    assert objects["inspect"]["weights"] == {"model": build["weights"]["model"], "compiled": None}
    assert objects["inspect"]["macs"] == {e: {"model": build["macs"][e]["model"], "compiled": None} for e in entries}
    for entry in entries:
        assert objects[entry]["weights"] == build["weights"]
        assert objects[entry]["macs"] == {entry: build["macs"][entry]}
        assert sum(op["macs"] for op in objects[entry]["ops"]) == build["macs"][entry]["compiled"]
    said = {f"weights {words}": build["weights"][side] for side, words in SIDES}
    said |= {f"{macs(entries, e)} {words}": build["macs"][e][side] for e in entries for side, words in SIDES}
    assert told["build"] == told["memory"] == said
    assert told["inspect"] == {what: n for what, n in said.items() if what.endswith("in the model")}
    for entry in entries:
        wanted = {what.replace(f" of {entry}", ""): n for what, n in said.items()}
        assert told[entry] == {what: n for what, n in wanted.items() if " of " not in what}
    if name == "dead":
        assert build["macs"]["main"]["compiled"] < 0.6 * build["macs"]["main"]["model"]
        assert build["weights"]["compiled"] < build["weights"]["model"]


SIDES = (("model", "in the model"), ("compiled", "as compiled"))


def macs(entries: list[str], entry: str) -> str:
    return f"MACs of {entry}" if entries[1:] else "MACs"


def test_the_way_from_the_model_to_the_code_adds_up(tmp_path: Path, capsys: Out) -> None:
    """What passes removed and what kernels need beside is listed between the two numbers."""
    line = dead_channels(tmp_path)
    assert run_command(["build", *line, "--board", "nucleo_l4r5zi", "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    rows = re.search(r"weights in the model +([\d,]+) B\n((?:  .*\n)+)weights as compiled +([\d,]+) B", out)
    assert rows, out
    first, last = (int(rows[k].replace(",", "")) for k in (1, 3))
    steps = {name: int(n.replace(",", "")) for name, n in re.findall(r"^  (\S.*?) +([+-][\d,]+) B$", rows[2], re.M)}
    assert len(steps) == len(rows[2].splitlines())
    assert steps["prune-channels"] < 0
    assert first + sum(steps.values()) == last


def test_the_model_is_counted_as_its_file_says(capsys: Out) -> None:
    """The reference: the arrays in the file, and the products that the shapes of its operators mean."""
    engine = Interpreter(model_path=str(DIGITS / "digits_int8.tflite"))
    tensors = {t["index"]: t for t in engine.get_tensor_details()}
    operators = [d for d in engine._get_ops_details() if d["op_name"] in ("CONV_2D", "FULLY_CONNECTED")]
    products, held, channels = 0, 0, 0
    for operator in operators:
        _, weights, bias = (tensors[k] for k in operator["inputs"][:3])
        (out,) = (tensors[k] for k in operator["outputs"])
        products += int(np.prod(out["shape"]) * np.prod(weights["shape"][1:]))
        held += int(np.prod(weights["shape"]) + 4 * np.prod(bias["shape"]))
        channels += int(np.prod(bias["shape"]))
    assert run_command(["inspect", str(DIGITS / "digits_int8.tflite"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["macs"]["main"]["model"] == products
    per_kind = {k["kind"]: k["weights_bytes"] for k in found["operators"]}
    # and of each channel's scale a multiplier and a shift, where the file has the scale
    assert held <= per_kind["CONV_2D"] + per_kind["FULLY_CONNECTED"] <= held + 8 * channels
