"""A model calls its sizes, inputs and outputs what it likes: no name of ours, and no word of C, is in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import sdk
from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.loops import For, Let
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.walk import walk
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.frontends.onnx import import_onnx

RNG = np.random.default_rng(3)
BOUNDS, AT = (1, 6), {"A": 5, "B": 3}
Shape = Sequence[int | str]
Net = tuple[list[tuple[str, list[str], int, dict[str, Any]]], dict[str, tuple[Shape, str]], dict[str, np.ndarray]]


def _weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _rows(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64)


# operators, inputs with the open sizes A and B, constants
NETS: Mapping[str, Net] = {
    "LSTM": ([("LSTM", ["x", "w", "r"], 2, {"hidden_size": 3})], {"x": (["A", "B", 2], "f4")},
             {"w": _weights(1, 12, 2), "r": _weights(1, 12, 3)}),
    "GRU": ([("GRU", ["x", "w", "r"], 2, {"hidden_size": 3})], {"x": (["A", "B", 2], "f4")},
            {"w": _weights(1, 9, 2), "r": _weights(1, 9, 3)}),
    "Conv": ([("Conv", ["x", "w"], 1, {"pads": [1, 1, 1, 1]})], {"x": ([1, 2, "A", "B"], "f4")}, {"w": _weights(5, 2, 3, 3)}),
    "Pool": ([("MaxPool", ["x"], 1, {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}),
              ("AveragePool", ["x"], 1, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})], {"x": ([1, 2, "A", "B"], "f4")}, {}),
    "MatMul": ([("MatMul", ["x", "y"], 1, {})], {"x": (["A", "B"], "f4"), "y": (["B", 9], "f4")}, {}),
    "Softmax": ([("Softmax", ["x"], 1, {}), ("LogSoftmax", ["x"], 1, {}), ("Hardmax", ["x"], 1, {})], {"x": (["A", "B"], "f4")}, {}),
    "LayerNormalization": ([("LayerNormalization", ["x", "g"], 1, {})], {"x": (["A", "B", 6], "f4")}, {"g": _weights(6)}),
    "Reduce": ([("ReduceMean", ["x"], 1, {"axes": [1]}), ("ReduceProd", ["x"], 1, {"axes": [0]}), ("ArgMax", ["x"], 1, {"axis": 1})],
               {"x": (["A", "B"], "f4")}, {}),
    "CumSum": ([("CumSum", ["x", "k"], 1, {})], {"x": (["A", "B"], "f4")}, {"k": np.array(1)}),
    "TopK": ([("TopK", ["x", "k"], 2, {})], {"x": (["A", 4, "B"], "f4")}, {"k": np.array([1])}),
    "Gather": ([("Gather", ["x", "i"], 1, {"axis": 1}), ("GatherElements", ["x", "j"], 1, {"axis": 1}),
                ("OneHot", ["i", "d", "v"], 1, {})], {"x": (["A", 4], "f4"), "i": (["B"], "i8"), "j": (["A", "B"], "i8")},
               {"d": np.array(4), "v": np.array([0.0, 1.0], np.float32)}),
    "Scatter": ([("ScatterElements", ["x", "i", "u"], 1, {"axis": 1, "reduction": "add"}), ("ScatterND", ["x", "j", "y"], 1, {})],
                {"x": (["A", 4], "f4"), "i": (["A", "B"], "i8"), "u": (["A", "B"], "f4"), "y": ([1, 4], "f4")},
                {"j": np.zeros((1, 1), np.int64)}),
    "Resize": ([("Resize", ["x", "", "s"], 1, {"mode": "linear"})], {"x": ([1, 2, "A", "B"], "f4")}, {"s": np.array([1, 1, 2, 2], np.float32)}),
    "NonZero": ([("NonZero", ["x"], 1, {}), ("Compress", ["x", "c"], 1, {"axis": 0})], {"x": (["A", "B"], "f4"), "c": (["A"], "?")}, {}),
    "Move": ([("Transpose", ["x"], 1, {"perm": [1, 0]}), ("Concat", ["x", "x"], 1, {"axis": 1}), ("Tile", ["x", "t"], 1, {}),
              ("Trilu", ["x"], 1, {}), ("Pad", ["x", "p"], 1, {"mode": "edge"}), ("ReverseSequence", ["x", "l"], 1, {})],
             {"x": (["A", "B"], "f4"), "l": (["B"], "i8")}, {"t": np.array([2, 3]), "p": np.array([1, 0, 0, 2])}),
}  # fmt: skip


def _model(net: Net, names: Mapping[str, str]) -> onnx.ModelProto:
    nodes, inputs, constants = net
    made = [
        helper.make_node(op, args, [f"out{k}_{j}" for j in range(outs)], **more)
        for k, (op, args, outs, more) in enumerate(nodes)
    ]
    params = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), [names.get(d, d) if isinstance(d, str) else d for d in shape]
        )
        for name, (shape, kind) in inputs.items()
    ]  # fmt: skip
    outs = [onnx.ValueInfoProto(name=name) for node in made for name in node.output]
    fixed = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(made, "names", params, outs, fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _arrays(net: Net) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    found = []
    for shape, kind in net[1].values():
        extents = [AT[d] if isinstance(d, str) else d for d in shape]
        found.append(rng.integers(0, 2, extents).astype(kind) if kind != "f4" else rng.standard_normal(extents).astype(kind))
    return found


def _stages(net: Net, names: Mapping[str, str], board: str = "host") -> tuple[Module, Module]:
    """The module as imported and as it is before memory is planned."""
    imported = import_onnx(_model(net, names), "names", dims={names[d]: BOUNDS for d in _open(net)})
    seen: dict[str, Module] = {}
    place = load_board(board)
    passes = default_passes(place, BuildOptions())
    lower_module(imported, passes, lambda step, module: seen.update({step.name: module}))
    return imported, seen["order"]


def _open(net: Net) -> list[str]:
    return list(dict.fromkeys(d for shape, _ in net[1].values() for d in shape if isinstance(d, str)))


def _results(module: Module, arrays: Sequence[np.ndarray], at: Mapping[str, int]) -> list[np.ndarray]:
    given = dict(zip((p.name for p in module.graphs["main"].params), arrays, strict=True))
    return list(run_graph(module, "main", given, None, at).values())


def _agree(net: Net, names: Mapping[str, str], board: str = "host") -> None:
    imported, scheduled = _stages(net, names, board)
    at = {names[d]: AT[d] for d in _open(net)}
    pairs = zip(_results(imported, _arrays(net), at), _results(scheduled, _arrays(net), at), strict=True)
    for want, got in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f"{names}")


def _own_names(net: Net, board: str = "host") -> Iterator[str]:
    """Every loop, scalar, row and buffer of the functions that the net becomes."""
    _, scheduled = _stages(net, {d: f"Dim{d}" for d in "AB"}, board)
    for loops in scheduled.loops.values():
        yield from (p.buffer.name for p in loops.params)
        for item in walk(loops.body):
            if isinstance(item, For):
                yield item.var.name
            elif isinstance(item, Let):
                yield item.name
        if loops.rows is not None:
            yield from (loops.rows.lo.name, loops.rows.hi.name)
