"""The networks of the zoo: imported, run by the interpreter, and compiled to C, against onnxruntime."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import sdk
from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call, Graph
from sdk.compiler.ir.module import Module
from sdk.driver.execute import verify
from sdk.driver.options import BuildOptions
from sdk.driver.reference import open_reference, random_inputs
from sdk.errors import UsageError
from sdk.frontends.onnx.importer import import_onnx
from zoo.export import path_of

SEQ = {"seq": (1, 256)}
BOTH = {"batch": (1, 4), "seq": (1, 256)}
SIZE = {"height": (64, 256, 32), "width": (64, 256, 32)}
STEPS = {"steps": (1, 20)}
LARGE = [
    ("encoder", SEQ, [{"seq": n} for n in (1, 7, 64, 256)]),
    ("encoder_dynamo", SEQ, [{"seq": 1}, {"seq": 100}]),
    ("encoder_batch", BOTH, [{"batch": 1, "seq": 1}, {"batch": 3, "seq": 33}]),
    ("mobilenetv2_size", SIZE, [{"height": 64, "width": 96}]),
    ("resnet50_size", SIZE, [{"height": 64, "width": 64}]),
]
SMALL = [
    ("encoder_small", {"batch": (1, 4), "seq": (1, 64)}, [{"batch": 1, "seq": 1}, {"batch": 4, "seq": 64}]),
    ("lstm", STEPS, [{"steps": 1}, {"steps": 20}]),
    ("gru", STEPS, [{"steps": 1}, {"steps": 20}]),
    ("unet", {}, [{}]),
    ("unet_size", {"height": (64, 128, 32), "width": (64, 128, 32)}, [{"height": 64, "width": 96}]),
]


@lru_cache(maxsize=2)
def imported(name: str, dims: tuple[tuple[str, Any], ...]) -> Module:
    return import_onnx(path_of(name), name, dims=dict(dims))


def agrees_at(name: str, dims: dict[str, Any], at: dict[str, int]) -> None:
    module = imported(name, tuple(dims.items()))
    graph = module.graphs["main"]
    inputs = _inputs(graph, at)
    want = open_reference("onnxruntime", path_of(name), module).step(inputs, at)
    for key, got in run_graph(module, "main", inputs).items():
        assert got.shape == want[key].shape
        assert np.abs(got - want[key]).max() <= 1e-4 * max(1.0, float(np.abs(want[key]).max()))


def _inputs(graph: Graph, at: dict[str, int]) -> dict[str, np.ndarray]:
    inputs = random_inputs(graph, np.random.default_rng(0), at)
    for name, value in inputs.items():
        if "mask" in name:
            value[:, 0] = 1  # a row that attends to nothing has no defined result
    return inputs


@pytest.mark.parametrize(("name", "dims", "at"), SMALL, ids=[n for n, _, _ in SMALL])
def test_interpreter(name: str, dims: dict[str, Any], at: list[dict[str, int]]) -> None:
    for one in at:
        agrees_at(name, dims, one)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dims", "at"), LARGE, ids=[n for n, _, _ in LARGE])
def test_interpreter_on_large_networks(name: str, dims: dict[str, Any], at: list[dict[str, int]]) -> None:
    for one in at:
        agrees_at(name, dims, one)


@pytest.mark.parametrize(("name", "dims", "at"), SMALL, ids=[n for n, _, _ in SMALL])
def test_compiled(name: str, dims: dict[str, Any], at: list[dict[str, int]]) -> None:
    report = verify(path_of(name), load_board("host"), None, BuildOptions(dims=dims), "auto", 4)
    assert report.reference == "onnxruntime"
    assert report.passed, report.worst


def test_the_encoder_compiles_once_for_all_lengths() -> None:
    report = verify(path_of("encoder"), load_board("host"), None, BuildOptions(dims=SEQ), "auto", 4)
    assert report.passed, report.worst


def test_shape_arithmetic_of_the_encoder_is_gone() -> None:
    calls = {n.callee for n in imported("encoder", tuple(SEQ.items())).graphs["main"].body if isinstance(n, Call)}
    assert not calls & {"full", "concat", "gather_nd", "scatter_nd"}


def test_lengths_out_of_bounds() -> None:
    with sdk.compile(path_of("encoder_small"), dims={"batch": 1, "seq": (1, 64)}) as model:
        for length in (0, 65):
            ids = np.zeros((1, length), np.int64)
            with pytest.raises(UsageError) as error:
                model(input_ids=ids, attention_mask=ids)
            assert f"input_ids axis 1 makes seq = {length}, outside its bounds 1..64" in str(error.value)
