"""How long it takes to import a graph of 1,000 nodes: two seconds at most, in processor time, of each format."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.torch.archive import trace
from sdk.frontends.torch.importer import import_torch
from tests.frontends.tflite_files import ModelFile

SECONDS = 2.0
NODES = 1000


def _seconds(run: Callable[[], object]) -> float:
    """The least of two runs: the first one also loads packages."""
    found = []
    for _ in range(2):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def test_onnx() -> None:
    """Blocks of attention, with open sizes."""
    nodes, inits = [], [helper.make_tensor("w", TensorProto.FLOAT, [32, 32], np.zeros(1024, np.float32))]
    inits += [helper.make_tensor("split", TensorProto.INT64, [4], [0, 0, 4, 8])]
    inits += [helper.make_tensor("back", TensorProto.INT64, [3], [0, 0, 32])]

    def add(op: str, *inputs: str, **given: object) -> str:
        nodes.append(helper.make_node(op, inputs, [f"t{len(nodes)}"], **given))
        return f"t{len(nodes) - 1}"

    x = "x"
    while len(nodes) < NODES:
        q, k, v = (
            add("Transpose", add("Reshape", add("MatMul", x, "w"), "split"), perm=[0, 2, 1, 3]) for _ in range(3)
        )
        scores = add("Softmax", add("MatMul", q, add("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
        mixed = add("Reshape", add("Transpose", add("MatMul", scores, v), perm=[0, 2, 1, 3]), "back")
        x = add("Add", x, add("Mul", mixed, add("Sigmoid", mixed)))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", "s", 32]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], inits)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    assert _seconds(lambda: import_onnx(data, "m", dims={"b": (1, 4), "s": (1, 64)})) < SECONDS


@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_tflite(kind: str) -> None:
    m = ModelFile()
    scale = (0.1, 0) if kind == "int8" else ()
    first = m.input("x", (1, 8, 8, 4), kind, *scale)
    x = y = first
    for k in range(NODES // 2 - 1):
        y = m.tensor(f"a{k}", (1, 8, 8, 4), kind, *scale)
        m.op("ADD", [x, first], [y])
        x = m.tensor(f"b{k}", (1, 8, 8, 4), kind, *scale)
        m.op("MUL", [y, first], [x])
    m.op("ADD", [x, y], [m.output("y", (1, 8, 8, 4), kind, *scale)])
    data = m.build()
    assert _seconds(lambda: import_tflite(data, "m")) < SECONDS


class Chain(nn.Module):
    """Branches that meet, of operators that have no weights."""

    def forward(self, x: Tensor) -> Tensor:
        for k in range(NODES // 5):
            y = (x * 2).relu_().transpose(1, 2).transpose(1, 2)
            x = y + x if k % 2 else y - x
        return x


@pytest.mark.slow  # PyTorch takes long to export it
def test_torch() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = torch.export.Dim("batch", max=4)
        packed = trace(Chain(), torch.zeros(2, 3, 4), ({0: batch},))
    assert packed is not None
    assert _seconds(lambda: import_torch(packed[1], "m")) < SECONDS
