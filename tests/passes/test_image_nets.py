"""Whole image networks: transposed once at the input, and equal to onnxruntime at every size."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.importorskip("torch")

from zoo.export import path_of

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.fold import Fold
from sdk.compiler.passes.fold_pad import FoldPad
from sdk.compiler.passes.fold_scale import FoldScale
from sdk.compiler.passes.layout import SinkTransposes
from sdk.compiler.verify.module import check
from sdk.frontends.onnx.importer import import_onnx

PASSES = (Fold(), SinkTransposes(), FoldPad(), FoldScale(), Cleanup())


def prepared(name: str, dims: dict[str, tuple[int, int, int]]) -> Module:
    module = replace(import_onnx(path_of(name), name, dims=dims), stage="typed")
    for step in PASSES:
        module = step.run(module)
    check(module, ops)
    return module


def compare(name: str, module: Module, shape: tuple[int, ...]) -> None:
    import onnxruntime

    x = np.random.default_rng(shape[2]).standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path_of(name)), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    (got,) = run_graph(module, "main", {"x": x}).values()
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1e-4 * max(1.0, float(np.abs(want).max()))


@pytest.mark.parametrize(("name", "transposed"), [("mobilenetv2", 1), ("resnet50", 1), ("unet", 2)])
def test_fixed_size(name: str, transposed: int) -> None:
    module = prepared(name, {})
    (graph,) = module.graphs.values()
    assert [n.callee for n in graph.body].count("transpose") == transposed
    compare(name, module, tuple(graph.params[0].type.static_shape))


@pytest.mark.parametrize(("name", "transposed"), [("mobilenetv2_size", 1), ("resnet50_size", 1), ("unet_size", 2)])
def test_open_size(name: str, transposed: int) -> None:
    module = prepared(name, {"height": (64, 256, 32), "width": (64, 256, 32)})
    (graph,) = module.graphs.values()
    assert [n.callee for n in graph.body].count("transpose") == transposed
    for height, width in ((64, 96), (256, 64)):
        compare(name, module, (1, 3, height, width))
