"""Whatever a dim, a tensor or a model is called, it builds and runs: names of ours, words of C, none, long ones,
letters of any script, and names that differ by their case alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save_model

from sdk import driver
from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.ops import registry
from sdk.driver.job import job_of
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import imported, planned
from sdk.driver.targets import capabilities

HOST = load_board("host")
F32, I32 = TensorProto.FLOAT, TensorProto.INT32
# Names that loops, plans, kernels and headers of ours have; two are given to one model, in turn.
OURS = (
    "length", "at_0", "at_1", "row", "rows", "row_lo", "row_hi", "n", "i", "k", "s", "h", "x", "w", "r", "o",
    "t", "b", "acc", "scratch", "self", "arena", "state", "in", "out", "dims", "main", "int", "size", "step",
    "index", "lengths", "first", "last", "value", "sum", "total", "m", "M", "net", "NET_in", "time", "base",
    "rank", "c", "j", "y", "init", "run", "reset", "user", "model",
)  # fmt: skip
Dims = dict[str, tuple[int, ...]]


def weights(name: str, *shape: int) -> TensorProto:
    data = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(data, name)


def save(path: Path, nodes: list[Any], ins: list[Any], outs: list[Any], consts: list[Any]) -> Path:
    graph = helper.make_graph(nodes, "net", ins, outs, consts)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def info(name: str, shape: tuple[Any, ...] | None, kind: int = F32) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def recurrent(path: Path, time: str, batch: str) -> Path:
    """An LSTM over sequences of lengths of their own."""
    node = helper.make_node("LSTM", ["seq", "W", "R", "", "lens"], ["all"], hidden_size=4)
    ins = [info("seq", (time, batch, 3)), info("lens", (batch,), I32)]
    return save(path, [node], ins, [info("all", None)], [weights("W", 1, 16, 3), weights("R", 1, 16, 4)])


def attention(path: Path, batch: str, time: str) -> Path:
    """Products whose sizes are open on both sides, a softmax, and a plan with several places."""
    lines = [
        ("MatMul", "seq Q", "q"), ("MatMul", "seq K", "k"), ("MatMul", "q kt", "sc"), ("Softmax", "sc", "p"),
        ("MatMul", "p seq", "res"),
    ]  # fmt: skip
    nodes = [helper.make_node(op, ins.split(), [out]) for op, ins, out in lines]
    nodes.insert(2, helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]))
    consts = [weights("Q", 4, 4), weights("K", 4, 4)]
    return save(path, nodes, [info("seq", (batch, time, 4))], [info("res", None)], consts)


@pytest.mark.parametrize("make", [recurrent, attention])
def test_dims_called_like_ours(tmp_path: Path, make: Callable[[Path, str, str], Path]) -> None:
    """From the file to C; the plan, whose text parses back, is checked by the verifier."""
    for one, other in zip(OURS[::2], OURS[1::2], strict=True):
        path = make(tmp_path / "net.onnx", one, other)
        job = job_of(path, HOST, BuildOptions(name="net", dims={one: (1, 6), other: (1, 5)}))
        module = planned(job, imported(job))
        assert parse_module(print_module(module), collect_blobs(module), registry) == module
        options = EmitOptions(board="host")
        emitted = get_backend("c99").emit(module, "net", isa=capabilities(HOST, job.options), options=options)
        other_in_c = one in ("in", "out", "int", "main", "scratch", "NET_in")
        assert f"int32_t {one}" in str(emitted.files["net.h"]) or other_in_c


def test_results_with_such_dims(tmp_path: Path) -> None:
    """Compiled and run: as with other names."""
    rng = np.random.default_rng(0)
    x, lens = rng.standard_normal((5, 2, 3)).astype(np.float32), np.array([3, 5], np.int32)
    found: list[NDArray[Any]] = []
    for time, batch in (("frames", "clips"), ("length", "int"), ("at_0", "self")):
        path = recurrent(tmp_path / f"{time}.onnx", time, batch)
        dims: Dims = {time: (1, 6), batch: (1, 4)}
        result = driver.run(path, HOST, None, BuildOptions(dims=dims), {}, {"seq": x, "lens": lens})
        found.append(result.outputs["all"])
    assert all(np.array_equal(found[0], other) for other in found[1:])


NAMES = (
    ("int", "return"), ("a", "A"), ("", "0"), ("数据", "выход"), ("x" * 300, "x" * 300 + "y"), ("self", "arena"),
    ("net_t", "net_run"), ("a b", "a_b"), ("__x", "_X"), ("scratch", "main"), ("%x", "@x"), ("x;y", "x/y"),
    ("in", "out"), ("NULL", "INT8_MAX"), ("memcpy", "printf"), ("a\n*/", "a\\"), ("x", "X"), ("linux", "unix"),
    ("NET_ARENA_BYTES", "NET_OK"),
)  # fmt: skip


def test_tensors_and_models_of_any_name(tmp_path: Path) -> None:
    """All in one model: y_k = x_k + k; the C compiles, and each result is its own input's."""
    pairs = [(a or "none", b) for a, b in NAMES]
    names = [name for pair in pairs for name in pair]
    inputs = list(dict.fromkeys(names))
    outputs = [f"{name}." for name in inputs]
    consts = [numpy_helper.from_array(np.full(2, k, np.float32), f"const {k}") for k in range(len(inputs))]
    nodes = [helper.make_node("Add", [i, c.name], [o]) for i, c, o in zip(inputs, consts, outputs, strict=True)]
    ins, outs = [info(n, (2,)) for n in inputs], [info(n, (2,)) for n in outputs]
    for stem in ("int", "Ünicode net", "9", "sdk_rt", "a" * 200):
        path = save(tmp_path / f"{stem}.onnx", nodes, ins, outs, consts)
        for board in ("host", "nucleo_l4r5zi") if stem == "int" else ("host",):
            driver.build(path, load_board(board), BuildOptions(), emit="c", out=tmp_path / "out")
    path = tmp_path / "int.onnx"
    module = imported(job_of(path, HOST, BuildOptions()))
    given = {v.name: np.full(2, 100 * k, np.float32) for k, v in enumerate(module.graphs["main"].params)}
    result = driver.run(path, HOST, None, BuildOptions(), {}, given)
    found = [value.tolist() for value in result.outputs.values()]
    assert found == [[101.0 * k] * 2 for k in range(len(inputs))]
