"""Graphs as long as models can be: nothing recurses over their length, and each step takes time in proportion."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import fresh_name
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.fusion.cost import depth_of
from sdk.compiler.passes.fusion.merge import MAX_NESTING
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.targets import capabilities
from sdk.frontends.onnx.importer import import_onnx
from tests.ir.round_trip import check_round_trip


def param(name: str, kind: int = TensorProto.FLOAT, shape: Any = (4,)) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], result: str, constants: dict[str, Any] | None = None, shape: Any = (4,)) -> Module:
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", [param("x", shape=shape)], [onnx.ValueInfoProto(name=result)], held)
    return import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), "m")


def loop(count: int, op: str) -> Module:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node(op, ["v"] * (2 if op == "Add" else 1), ["r"])],
        "b", [param("n", TensorProto.INT64, ()), param("c", TensorProto.BOOL, ()), param("v")],
        [param("d", TensorProto.BOOL, ()), param("r")],
    )  # fmt: skip
    return model([helper.make_node("Loop", ["m", "t", "x"], ["y"], body=body)], "y", {"m": count, "t": True})


def chain(count: int, *kinds: str) -> Module:
    nodes = []
    for k in range(count):
        kind = kinds[k % len(kinds)]
        nodes.append(helper.make_node(kind, [f"v{k}" if k else "x"] + ["w"] * (kind == "Conv"), [f"v{k + 1}"]))
    weights = {"w": np.ones((4, 4, 1, 1), np.float32)} if "Conv" in kinds else {}
    return model(nodes, f"v{count}", weights, (1, 4, 3, 3) if "Conv" in kinds else (4,))


def built(module: Module, name: str) -> Module:
    """The module compiled as far as C, and read back from its text."""
    board = load_board(name)
    options = BuildOptions(dims={}, threads=1, externs=(), opt="time", memory="time", arena_limit=None)
    done = lower_module(module, default_passes(board, options))
    check_round_trip(done)
    given = EmitOptions(source="m", model_hash="0", board=name, small=not board.hosted)
    assert get_backend("c99").emit(done, "m", isa=capabilities(board, options), options=given).files
    assert all(depth_of(f.body) <= MAX_NESTING + 40 for f in done.loops.values())
    return done


@pytest.mark.parametrize(("op", "board"), [("Add", "host"), ("Sigmoid", "qemu-cortex-m4")])
def test_a_loop_of_512_steps(op: str, board: str) -> None:
    module = loop(512, op)
    assert len(module.graphs["main"].body) == 512
    built(module, board)


def test_what_a_long_loop_computes() -> None:
    x = np.array([0, 1, -2, 3], np.float32)
    assert run_graph(loop(100, "Add"), "main", {"x": x})["y"].tolist() == (x * 2.0**100).tolist()


def test_no_recursion_over_the_length_of_a_chain() -> None:
    """A limit on recursion far below the length: what passes here passes at any length."""
    module = chain(600, "Sigmoid", "Neg", "Conv")
    limit = sys.getrecursionlimit()
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]  # the last has none
    built(chain(6, "Sigmoid", "Neg", "Conv"), "host")  # imports what is imported when it is needed
    try:
        sys.setrecursionlimit(used + 500)
        built(module, "host")
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "board"),
    [
        (lambda: loop(2000, "Sigmoid"), "host"),
        (lambda: loop(2000, "Add"), "qemu-cortex-m4"),
        (lambda: chain(5000, "Sigmoid", "Neg", "Relu", "Abs"), "host"),
        (lambda: chain(2000, "Conv", "Relu"), "qemu-cortex-m4"),
    ],
)
def test_thousands_of_nodes(make: Any, board: str) -> None:
    built(make(), board)


@pytest.mark.slow
def test_time_grows_with_the_length() -> None:
    """Four times the nodes may take eight times as long: twice what is in proportion, and half of its square."""
    taken = []
    for count in (400, 1600):
        module = replace(chain(count, "Conv", "Relu"))
        start = time.process_time()
        built(module, "host")
        taken.append(time.process_time() - start)
    assert taken[1] < 8 * taken[0], taken


def test_names_are_found_at_once() -> None:
    taken: set[str] = set()
    start = time.process_time()
    names = [fresh_name("y", taken) for _ in range(20000)]
    assert time.process_time() - start < 5
    assert names[:3] == ["y", "y_2", "y_3"]
    assert names[-1] == "y_20000"
    assert len(set(names)) == 20000
    assert fresh_name("z", {"z", "z_2", "z_3", "z_5"}) == "z_4"
